// Compression of pages, by a library of the system that is loaded at the first open that needs it. So a program without
// a tier loads none, and Holdfast is built without their headers.
//
// A codec works in memory of its own: one for each thread that uses it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/base.hpp"
#include "tier/page_file_layout.hpp"

namespace nvm::tier {

class codec {
 public:
  virtual ~codec() = default;
  codec(const codec&) = delete;
  codec& operator=(const codec&) = delete;
  // Compresses into `to` and returns the bytes used; 0: they do not fit there.
  [[nodiscard]] virtual std::size_t compress(std::span<const std::byte> from, std::span<std::byte> to) noexcept = 0;
  // Whether `from`, which may be anything, expands to exactly `to.size()` bytes.
  [[nodiscard]] virtual bool expand(std::span<const std::byte> from, std::span<std::byte> to) noexcept = 0;

 protected:
  codec() noexcept = default;
};

// A codec of lz4 or zstd. errc::system: the library is missing, or lacks a function; no_memory.
[[nodiscard]] result<std::unique_ptr<codec>> make_codec(layout::page_coding coding) noexcept;

}  // namespace nvm::tier
