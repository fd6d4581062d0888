// A committing transaction's report on references, and the activation record that goes with its commit (Breeze, section
// IV-F, Algorithm 2). A higher layer keeps the records (object/reference_log.hpp).
//
// Threads: calls about one lane come from the thread that holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/base.hpp"
#include "tx/assigned.hpp"

namespace nvm::tx {

class open_transaction;

// Bytes that become durable with a commit, and are never read without it: words of a ring, and the ring's end after the
// commit. An engine whose commit records hold that end (log/lanes.hpp) leaves the word `end_at` alone.
struct reference_attachment {
  std::span<const assigned_word> words;  // until the transaction has ended; none: nothing goes with the commit
  std::uint64_t end_at = 0;              // a checked word
  std::uint32_t end = 0;
};

class reference_log {
 public:
  virtual ~reference_log() = default;
  // A commit begins; then its changes, in this order.  Memory that a call is given stays until finish() returns.
  virtual void begin(unsigned lane) noexcept = 0;
  // Bytes of the pool before the transaction, the latest of several versions first.
  virtual void was(unsigned lane, std::uint64_t offset, std::uint64_t bytes, const std::byte* old) noexcept = 0;
  // Bytes that are not in place yet, the latest of several versions last.
  virtual void becomes(unsigned lane, std::uint64_t offset, std::uint64_t bytes, const std::byte* now) noexcept = 0;
  // Typed objects, by their headers: allocated, and freed though they existed before.
  virtual void born(unsigned lane, std::uint64_t header) noexcept = 0;
  virtual void freed(unsigned lane, std::uint64_t header) noexcept = 0;
  // Objects, by their payloads, that the program has let go: they die unless something refers to them.
  virtual void let_go(unsigned lane, std::uint64_t payload) noexcept = 0;
  // May allocate in `t`, and may wait.  An error: the transaction cannot commit.
  [[nodiscard]] virtual result<reference_attachment> finish(unsigned lane, open_transaction& t) noexcept = 0;
  // The commit for which finish() was called has happened, or has not.
  virtual void ended(unsigned lane, bool committed) noexcept = 0;
};

}  // namespace nvm::tx
