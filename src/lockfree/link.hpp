// A link of a lock-free structure: the offset of what it leads to, from the pool's start, and tags in the bits that
// offsets do not need.
//
//   gone      lists: the node that holds the link is logically deleted.  Tree: the leaf the edge leads to is; alone, as
//   a
//             leaf's own link: that leaf is
//   frozen    tree: the edge may not change any more; its node is about to leave
//   pending   the link may not be durable yet (log-free, section 3): a thread that depends on it makes it durable
//   cell      hash table: leads to a cell of a bucket array, not to a node
//   rerouted  tree: the edge leads past a branch that has left, and that may not be durable
//
// On media all of them may be found.  `pending` and `rerouted` say nothing there: what is read after a crash is
// durable.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/brought_first.hpp"

namespace nvm::lockfree {

using link_word = std::uint64_t;

inline constexpr link_word gone = 1;
inline constexpr link_word frozen = 2;
inline constexpr link_word pending = 4;
inline constexpr link_word cell = std::uint64_t{1} << 63;
inline constexpr link_word rerouted = std::uint64_t{1} << 62;
inline constexpr link_word tags = gone | frozen | pending | cell | rerouted;

constexpr std::uint64_t offset_of(link_word w) noexcept { return w & ~tags; }
constexpr link_word without(link_word w, link_word tag) noexcept { return w & ~tag; }

struct link {
  link_word word;

  // acquire: pairs with exchange(): what it leads to is complete.
  [[nodiscard]] link_word load() const noexcept {
    return std::atomic_ref<link_word>{const_cast<link_word&>(word)}.load(std::memory_order_acquire);
  }
  // release: a thread that follows the link finds the node complete.
  [[nodiscard]] bool exchange(link_word expected, link_word desired) noexcept {
    bring_first(&word);
    return std::atomic_ref<link_word>{word}.compare_exchange_strong(expected, desired, std::memory_order_acq_rel,
                                                                    std::memory_order_acquire);
  }
  // For a node that no other thread can see, or where all threads write the same.
  void set(link_word w) noexcept { std::atomic_ref<link_word>{word}.store(w, std::memory_order_relaxed); }
};
static_assert(sizeof(link) == 8);

// What became of the deletion of a node: done; its link has changed meanwhile; not allowed, and nothing has changed.
enum class deletion : std::uint8_t { done, forestalled, refused };
constexpr deletion deleted_if(bool done) noexcept { return done ? deletion::done : deletion::forestalled; }

}  // namespace nvm::lockfree
