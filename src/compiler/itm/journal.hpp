// Work at the end of a compiled transaction that the STM does not do: bytes of its thread's own memory to put back, and
// actions that the program has requested.
//
// One thread uses one journal.  Entries are in the order of events; a level of the transaction is the entries after
// its mark.  A journal is volatile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/itm/abi.hpp"

namespace nvm::itm {

class journal {
 public:
  // All of these may throw std::bad_alloc.

  // The old bytes of [p, p + n), which only this thread uses, come back if the level is rolled back.
  void keep(const void* p, std::size_t n);
  void on_commit(user_action call, void* argument) { entries_.push_back({kind::commit_action, call, argument, 0, 0}); }
  void on_undo(user_action call, void* argument) { entries_.push_back({kind::undo_action, call, argument, 0, 0}); }

  [[nodiscard]] std::size_t mark() const noexcept { return entries_.size(); }
  // Undoes the entries after `mark`, newest first. Kept bytes at addresses in [dead, dead_end) are left alone: they
  // were in frames of the stack that have ended, where other frames, such as this function's, may lie now.
  void undo(std::size_t mark, std::uintptr_t dead, std::uintptr_t dead_end) noexcept;
  // The transaction has committed: runs the actions, in order.  An action may run transactions of its own; they find
  // the journal empty.
  void finish() noexcept;

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

 private:
  enum class kind : unsigned char { bytes, commit_action, undo_action };
  struct entry {
    kind what;
    user_action call;
    void* argument;    // or the place
    std::size_t size;  // of the bytes
    std::size_t at;    // of the bytes in old_
  };
  std::vector<entry> entries_;
  std::vector<std::byte> old_;
};

}  // namespace nvm::itm
