// Intent: a change of one allocation word that a transaction makes when it commits, and that recovery may make again.
//
// The lane holds the intents of a transaction, durable before its commit point; after it they are applied by an atomic
// read-modify-write, so that two transactions may share a word, and repeating one changes nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::log {

enum class intent_op : std::uint8_t {
  clear_bit = 0,  // of a checked word (slot's `first` bit)
  set_bit = 1,
  clear_entry = 2,  // whole word becomes zero (page map entry of a freed run)
  set_entry = 3,    // whole word becomes the value that follows (page map entry of a new run)
};

// One or two 64-bit words in a log.  From bit 0: word index = offset / 8 (41), bit (6), op (2), zero (15).
struct intent {
  std::uint64_t code = 0;
  std::uint64_t value = 0;  // set_entry only: the sealed word

  [[nodiscard]] std::uint64_t word_offset() const noexcept { return (code & ((std::uint64_t{1} << 41) - 1)) * 8; }
  [[nodiscard]] unsigned bit() const noexcept { return static_cast<unsigned>(code >> 41 & 63); }
  [[nodiscard]] intent_op op() const noexcept { return static_cast<intent_op>(code >> 47 & 3); }
  [[nodiscard]] unsigned words() const noexcept { return op() == intent_op::set_entry ? 2 : 1; }
  [[nodiscard]] bool well_formed() const noexcept { return code >> 49 == 0 && bit() < checked_bits; }

  static intent make(intent_op op, std::uint64_t word_offset, unsigned bit, std::uint64_t value = 0) noexcept {
    return {word_offset / 8 | std::uint64_t{bit} << 41 | std::uint64_t(op) << 47, value};
  }
};

// Applies `i` to the pool at `base`.  The caller has checked that the word lies in the page map or an extent header.
// Thread-safe against other intents on the same word; does not flush.
inline void apply(std::byte* base, const intent& i) noexcept {
  const std::uint64_t offset = i.word_offset();
  std::atomic_ref<std::uint64_t> word{*reinterpret_cast<std::uint64_t*>(base + offset)};
  const std::uint8_t seed = word_seed(offset);
  switch (i.op()) {
    case intent_op::clear_entry:
      // release: whoever finds the page free has everything that led to it.
      word.store(0, std::memory_order_release);
      return;
    case intent_op::set_entry:
      word.store(i.value, std::memory_order_release);
      return;
    case intent_op::set_bit:
    case intent_op::clear_bit:
      break;
  }
  const std::uint64_t mask = std::uint64_t{1} << i.bit();
  std::uint64_t old = word.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    const std::uint64_t content = old & checked_mask;
    next = seal_word(i.op() == intent_op::set_bit ? content | mask : content & ~mask, seed);
    // acq_rel: pairs with the same CAS of other threads; the lane's record is ordered before by its fence.
  } while (!word.compare_exchange_weak(old, next, std::memory_order_acq_rel, std::memory_order_relaxed));
}

}  // namespace nvm::log
