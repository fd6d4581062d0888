// Allocation words of a pool's nodes, as volatile memory knows them: which heap works with each, and which have free
// places.
//
// A word is unknown (its extent belongs to no open heap, or was not looked at), idle (full, when somebody looked),
// listed (has free places, on the stack of its class), owned (by a thread that allocates in it) or set aside (its
// extent is empty and in no stack; also after it has gone).  A state names heap and class as well: a thread that has
// freed a node and then finds the state of another heap knows that the extent has gone meanwhile.
//
//   idle -> listed, listed -> owned, idle or listed -> set aside   by the thread that holds the lock of the stack
//   owned -> idle                                                  by the owner
//   unknown -> idle                                                by the thread that looks through extents, or has
//                                                                  taken a new one
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/plant.hpp"
#include "lockfree/node_sizes.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree {

// What is known of all allocation words of a pool, by number.
struct word_table {
  explicit word_table(const geometry& g) noexcept
      : shape{nvm::layout::shape_of(nvm::layout::page_kind::coarse, g.page_shift)},
        extents{ceil_div(g.capacity_pages, nvm::layout::coarse_extent_pages)},
        data_offset{g.data_offset},
        states{extents * shape.words},
        next{extents * shape.words},
        previous{extents * shape.words} {}
  [[nodiscard]] bool exists() const noexcept { return states.exists() && next.exists() && previous.exists(); }
  [[nodiscard]] std::uint64_t extent_offset(std::uint64_t word) const noexcept {
    return data_offset + word / shape.words * shape.bytes;
  }
  [[nodiscard]] std::uint64_t word_offset(std::uint64_t word) const noexcept {
    return extent_offset(word) + nvm::layout::first_words_at + word % shape.words * 8;
  }
  [[nodiscard]] std::uint64_t first_word_of(std::uint64_t extent_offset) const noexcept {
    return (extent_offset - data_offset) / shape.bytes * shape.words;
  }
  // Offset of the slot that bit 0 of the word stands for.
  [[nodiscard]] std::uint64_t first_slot_offset(std::uint64_t word) const noexcept {
    return extent_offset(word) + word % shape.words * checked_bits * slot_bytes;
  }

  enum phase : std::uint32_t { unknown = 0, idle = 1, listed = 2, owned = 3, set_aside = 4 };
  // Owner of the extent (16), class (8), phase (8); 0: unknown.
  [[nodiscard]] static constexpr std::uint32_t state(std::uint16_t owner, unsigned c, phase p) noexcept {
    return std::uint32_t{owner} << 16 | c << 8 | p;
  }
  [[nodiscard]] static constexpr unsigned class_in(std::uint32_t state) noexcept { return state >> 8 & 0xff; }
  [[nodiscard]] static constexpr phase phase_in(std::uint32_t state) noexcept {
    return static_cast<phase>(state & 0xff);
  }
  [[nodiscard]] static constexpr std::uint16_t owner_in(std::uint32_t state) noexcept {
    return static_cast<std::uint16_t>(state >> 16);
  }

  const nvm::layout::extent_shape shape;
  const std::uint64_t extents;
  const std::uint64_t data_offset;
  sparse_array<std::uint32_t> states;
  sparse_array<std::uint64_t> next;      // in its stack, + 1
  sparse_array<std::uint64_t> previous;  // the same; valid while it is listed
};

// What a thread holds of a structure: a word for each class.
struct node_cache {
  struct of_class {
    std::uint64_t first = 0;      // offset of the slot of bit 0
    std::uint64_t places = 0;     // free ones: set on media already if `all_at_once`
    std::uint64_t word = 0;       // + 1; 0: none
    std::uint64_t areas[2] = {};  // pinned, of the first and the last node
  };
  std::array<of_class, classes> of{};
  [[nodiscard]] bool has_any() const noexcept {
    return std::any_of(of.begin(), of.end(), [](const of_class& c) { return c.word != 0; });
  }
};

// Words of one class of a heap that have free places.
class alignas(line_bytes) word_stack {
 public:
  void serve(std::uint16_t owner, unsigned c) noexcept {
    owner_ = owner;
    class_ = c;
  }

  // The word has a free place.  False: it is not idle, or another heap's.
  bool put_if_idle(word_table& words, std::uint64_t word) noexcept {
    const auto state = words.states[word];
    // seq_cst: after the node's bit was cleared; pairs with set_idle(), after which an owner looks at the bits.
    if (state.load(std::memory_order_seq_cst) != of(word_table::idle)) return false;
    const std::lock_guard guard{lock_};
    if (state.load(std::memory_order_relaxed) != of(word_table::idle)) return false;
    push(words, word);
    return true;
  }
  // A word + 1, which is the caller's then; 0: none is listed.
  [[nodiscard]] std::uint64_t take(word_table& words) noexcept {
    const std::lock_guard guard{lock_};
    const std::uint64_t top = top_;
    if (top != 0) unlink(words, top - 1, word_table::owned);
    return top;
  }
  // Returns an unused word of take().
  void put_back(word_table& words, std::uint64_t word) noexcept {
    const std::lock_guard guard{lock_};
    push(words, word);
  }
  // Makes the caller's word idle, owned by no thread.
  void set_idle(word_table& words, std::uint64_t word) const noexcept {
    // seq_cst: pairs with put_if_idle().
    words.states[word].store(of(word_table::idle), std::memory_order_seq_cst);
  }
  [[nodiscard]] bool is_empty() noexcept {
    const std::lock_guard guard{lock_};
    return top_ == 0;
  }
  // Sets all words of an extent aside if none is owned and, then, empty(word) says so of each.
  template <class Empty>
  [[nodiscard]] bool set_aside(word_table& words, std::uint64_t first, Empty&& empty) noexcept {
    const std::lock_guard guard{lock_};
    const std::uint64_t end = first + words.shape.words;
    for (std::uint64_t w = first; w < end; ++w) {
      // acquire: pairs with set_idle(): what its owner allocated can be seen.
      const std::uint32_t now = words.states[w].load(std::memory_order_acquire);
      const bool is_free = now == of(word_table::idle) || now == of(word_table::listed);
      if (!is_free && !planted(plant::extent_under_owner)) return false;
      if (!empty(w)) return false;
    }
    for (std::uint64_t w = first; w < end; ++w) {
      if (words.states[w].load(std::memory_order_relaxed) == of(word_table::listed)) {
        unlink(words, w, word_table::set_aside);
      } else {
        words.states[w].store(of(word_table::set_aside), std::memory_order_relaxed);
      }
    }
    return true;
  }
  // A word in this state is one of these, and its extent not about to go.
  [[nodiscard]] bool serves(std::uint32_t state) const noexcept {
    return word_table::owner_in(state) == owner_ && word_table::class_in(state) == class_ &&
           word_table::phase_in(state) != word_table::set_aside;
  }

  spin_lock filling;  // held by the thread that looks for words that are not listed, takes extents or gives them;
                      // `lock_` comes after it

 private:
  [[nodiscard]] std::uint32_t of(word_table::phase p) const noexcept { return word_table::state(owner_, class_, p); }
  void push(word_table& words, std::uint64_t word) noexcept {
    words.states[word].store(of(word_table::listed), std::memory_order_relaxed);
    words.next[word].store(top_, std::memory_order_relaxed);
    words.previous[word].store(0, std::memory_order_relaxed);
    if (top_ != 0) words.previous[top_ - 1].store(word + 1, std::memory_order_relaxed);
    top_ = word + 1;
  }
  void unlink(word_table& words, std::uint64_t word, word_table::phase becomes) noexcept {
    const std::uint64_t after = words.next[word].load(std::memory_order_relaxed);
    const std::uint64_t before = words.previous[word].load(std::memory_order_relaxed);
    if (after != 0) words.previous[after - 1].store(before, std::memory_order_relaxed);
    if (before != 0) {
      words.next[before - 1].store(after, std::memory_order_relaxed);
    } else {
      top_ = after;
    }
    words.states[word].store(of(becomes), std::memory_order_relaxed);
  }

  spin_lock lock_;
  std::uint16_t owner_ = 0;
  unsigned class_ = 0;
  std::uint64_t top_ = 0;  // word + 1
};

}  // namespace nvm::lockfree
