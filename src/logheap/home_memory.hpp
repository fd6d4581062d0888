// The memory at virtual addresses of objects: of a pool whose home pages are materialised, or of one whose reads are
// translated.
#pragma once

#include <memory>

#include "logheap/home_pages.hpp"
#include "logheap/home_scratch.hpp"

namespace nvm::logheap {

class home_memory {
 public:
  virtual ~home_memory() = default;
  // Whether a load finds committed bytes.
  [[nodiscard]] virtual bool is_materialised() const noexcept = 0;
  // The bytes may be stored into until unpin(); in a materialised page they are present.  `read`: a reader of this
  // thread.
  virtual void pin(std::uint64_t home, std::uint64_t size, const home_read& read) noexcept = 0;
  virtual void unpin(std::uint64_t home, std::uint64_t size) noexcept = 0;
  // Stores bytes of a commit that the mapping has taken.
  virtual void store(std::uint64_t home, const void* from, std::uint64_t size) noexcept = 0;
  // Drops the bytes of an object that was freed.
  virtual void drop(std::uint64_t home, std::uint64_t size) noexcept = 0;
};

class scratch_memory final : public home_memory {
 public:
  scratch_memory(std::byte* at, std::uint64_t first, std::uint64_t bytes) noexcept : scratch_{at, first, bytes} {}
  [[nodiscard]] status open() noexcept { return scratch_.open(); }
  [[nodiscard]] bool is_materialised() const noexcept override { return false; }
  void pin(std::uint64_t home, std::uint64_t size, const home_read&) noexcept override { scratch_.pin(home, size); }
  void unpin(std::uint64_t home, std::uint64_t size) noexcept override { scratch_.unpin(home, size); }
  void store(std::uint64_t, const void*, std::uint64_t) noexcept override {}
  void drop(std::uint64_t, std::uint64_t) noexcept override {}

 private:
  home_scratch scratch_;
};

class materialised_memory final : public home_memory {
 public:
  explicit materialised_memory(std::unique_ptr<home_pages> pages) noexcept : pages_{std::move(pages)} {}
  [[nodiscard]] bool is_materialised() const noexcept override { return true; }
  void pin(std::uint64_t home, std::uint64_t size, const home_read& read) noexcept override {
    pages_->pin(home, size, &read);
  }
  void unpin(std::uint64_t home, std::uint64_t size) noexcept override { pages_->unpin(home, size); }
  void store(std::uint64_t home, const void* from, std::uint64_t size) noexcept override {
    pages_->store(home, from, size);
  }
  void drop(std::uint64_t home, std::uint64_t size) noexcept override {
    if (size >= home_pages::page_bytes) pages_->drop(home, size);
  }

 private:
  std::unique_ptr<home_pages> pages_;
};

}  // namespace nvm::logheap
