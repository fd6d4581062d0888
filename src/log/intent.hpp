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

// One or two 64-bit words in a log.  From bit 0: word index = offset / 8 (41), bit (6), op (2), and of set_bit the
// object's length byte (8) and the way to its place (7): the length bytes of the 56 slots of this word begin that many
// words after it.
struct intent {
  std::uint64_t code = 0;
  std::uint64_t value = 0;  // set_entry only: the sealed word

  [[nodiscard]] std::uint64_t word_offset() const noexcept { return (code & ((std::uint64_t{1} << 41) - 1)) * 8; }
  [[nodiscard]] unsigned bit() const noexcept { return static_cast<unsigned>(code >> 41 & 63); }
  [[nodiscard]] intent_op op() const noexcept { return static_cast<intent_op>(code >> 47 & 3); }
  [[nodiscard]] unsigned words() const noexcept { return op() == intent_op::set_entry ? 2 : 1; }
  [[nodiscard]] std::uint8_t length_byte() const noexcept { return static_cast<std::uint8_t>(code >> 49); }
  [[nodiscard]] std::uint64_t lengths_distance() const noexcept { return (code >> 57) * 8; }
  // Place of the length byte of a set_bit.
  [[nodiscard]] std::uint64_t length_offset() const noexcept { return word_offset() + lengths_distance() + bit(); }
  [[nodiscard]] bool well_formed() const noexcept {
    return bit() < checked_bits && (op() == intent_op::set_bit ? code >> 57 != 0 : code >> 49 == 0);
  }

  static intent make(intent_op op, std::uint64_t word_offset, unsigned bit, std::uint64_t value = 0) noexcept {
    return {word_offset / 8 | std::uint64_t{bit} << 41 | std::uint64_t(op) << 47, value};
  }
  static intent make_object(std::uint64_t word_offset, unsigned bit, std::uint8_t length_byte,
                            std::uint64_t lengths_distance) noexcept {
    intent i = make(intent_op::set_bit, word_offset, bit);
    i.code |= std::uint64_t{length_byte} << 49 | lengths_distance / 8 << 57;
    return i;
  }
};

// Calls each(offset, bytes) for the stores of apply().
template <class Each>
void each_store(const intent& i, Each&& each) {
  each(i.word_offset(), std::uint64_t{8});
  if (i.op() == intent_op::set_bit) each(i.length_offset(), std::uint64_t{1});
}

// A checked word with the bit of `i` set or cleared in it.
[[nodiscard]] inline std::uint64_t changed_word(std::uint64_t old, const intent& i) noexcept {
  const std::uint64_t content = old & checked_mask;
  const std::uint64_t mask = std::uint64_t{1} << i.bit();
  return seal_word(i.op() == intent_op::set_bit ? content | mask : content & ~mask, word_seed(i.word_offset()));
}

// The part of apply() that is the same with and without a lock: whole entries and length bytes.  True: the word's bit
// remains to be changed.
[[nodiscard]] inline bool apply_plain_stores(std::byte* base, const intent& i,
                                             std::atomic_ref<std::uint64_t> word) noexcept {
  bring_first(reinterpret_cast<std::uint64_t*>(base + i.word_offset()));
  switch (i.op()) {
    case intent_op::clear_entry:
      // release: a thread that finds the page free sees all earlier stores.
      word.store(0, std::memory_order_release);
      return false;
    case intent_op::set_entry:
      word.store(i.value, std::memory_order_release);
      return false;
    case intent_op::set_bit:
      bring_first(reinterpret_cast<std::uint8_t*>(base + i.length_offset()));
      // release: a thread that sees the bit sees the length.  The two may become durable in either order, since the
      // intent is made again until both are.
      std::atomic_ref<std::uint8_t>{*reinterpret_cast<std::uint8_t*>(base + i.length_offset())}.store(
          i.length_byte(), std::memory_order_release);
      return true;
    case intent_op::clear_bit:
      return true;
  }
  return false;
}

// Applies `i` to the pool at `base`.  The caller has checked that the word lies in the page map or an extent header.
// Thread-safe against other apply() calls for the same word; does not flush.
inline void apply(std::byte* base, const intent& i) noexcept {
  std::atomic_ref<std::uint64_t> word{*reinterpret_cast<std::uint64_t*>(base + i.word_offset())};
  if (!apply_plain_stores(base, i, word)) return;
  std::uint64_t old = word.load(std::memory_order_relaxed);
  // acq_rel: pairs with the same CAS of other threads; the lane's record is ordered before by its fence.
  while (!word.compare_exchange_weak(old, changed_word(old, i), std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
}

// The same without a locked instruction (sync/biased_lock.hpp says what one costs), for an intent about a bit: the
// caller holds the lock under which every change of the word is made.
inline void apply_alone(std::byte* base, const intent& i) noexcept {
  std::atomic_ref<std::uint64_t> word{*reinterpret_cast<std::uint64_t*>(base + i.word_offset())};
  const bool applied = apply_plain_stores(base, i, word);
  NVM_ASSERT(applied);
  // release: pairs with acquire loads of the word by readers without the lock.
  word.store(changed_word(word.load(std::memory_order_relaxed), i), std::memory_order_release);
}

}  // namespace nvm::log
