// Nodes that prove themselves (after Zuriel, Friedman, Sheffi, Cohen and Petrank, "Efficient Lock-Free Durable Sets",
// OOPSLA 2019): a structure consists of its durable nodes, and of nothing else.  Links are volatile.
//
// A node's seal is a checked sum of its contents, its place and its structure, with two bits of state and two of
// version:
//
//   fresh   filled, not in the structure yet
//   live    in the structure: every node that a crash leaves with this state, and a sum that holds, is there afterwards
//   gone    no longer in it
//
// In one life of a node the state only rises.  A place that is used again holds `gone` durably, so nothing has to be
// written back first; if a crash mixes words of its old and its new life, no sum holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/base.hpp"
#include "base/brought_first.hpp"
#include "lockfree/nodes.hpp"

namespace nvm::lockfree {

struct sealed_head : node_head {
  std::uint64_t seal;
};

namespace seal {

inline constexpr std::uint64_t state_mask = 3;
inline constexpr std::uint64_t fresh = 1, live = 2, gone = 3;
inline constexpr unsigned version_shift = 2;
inline constexpr std::uint64_t version_mask = 3 << version_shift;
inline constexpr std::uint64_t sum_mask = ~(state_mask | version_mask);

constexpr std::uint64_t state_of(std::uint64_t s) noexcept { return s & state_mask; }
constexpr unsigned version_of(std::uint64_t s) noexcept {
  return static_cast<unsigned>((s & version_mask) >> version_shift);
}
// Version of a node that replaces one of version v; a node that replaces none has 0.
constexpr unsigned next_version(unsigned v) noexcept { return (v + 1) % 4; }

constexpr std::uint64_t sum_of(std::uint64_t order, std::uint64_t content, std::uint64_t offset,
                               std::uint64_t seed) noexcept {
  return node_sum(order, content, seed ^ offset) & sum_mask;
}

inline std::uint64_t load(const sealed_head* n) noexcept {
  // acquire: pairs with raise(): the replacement of a deleted node is durable.
  return std::atomic_ref<std::uint64_t>{const_cast<std::uint64_t&>(n->seal)}.load(std::memory_order_acquire);
}
inline void set(sealed_head* n, std::uint64_t s) noexcept {
  // relaxed: no other thread knows the node yet, or one thread rebuilds.
  std::atomic_ref<std::uint64_t>{n->seal}.store(s, std::memory_order_relaxed);
}
// Raises the state to `state`, unless it is there or beyond.
inline void raise(sealed_head* n, std::uint64_t state) noexcept {
  bring_first(&n->seal);
  const std::atomic_ref<std::uint64_t> at{n->seal};
  std::uint64_t now = at.load(std::memory_order_relaxed);
  // release: the node's contents, and what was durable before, came before.
  while (state_of(now) < state && !at.compare_exchange_weak(now, (now & ~state_mask) | state, std::memory_order_release,
                                                            std::memory_order_relaxed)) {
  }
}

}  // namespace seal

// The sum covers all of the node, so that all of it may be written back at once.
struct sealed_words : word_nodes_with<sealed_head> {
  static constexpr bool sealed_whole = true;
  static std::uint64_t sum_of(const sealed_head* n, std::uint64_t offset, std::uint64_t seed) noexcept {
    return seal::sum_of(n->order, static_cast<const node*>(n)->content, offset, seed);
  }
};
static_assert(sizeof(sealed_words::node) == 32);

// The seal covers order and sizes; the rest is durable before the seal says `live`, and may have a sum of its own.
struct sealed_bytes : byte_nodes_with<sealed_head> {
  static constexpr bool sealed_whole = false;
  using byte_nodes_with::sum_of;
  static std::uint64_t sum_of(const sealed_head* n, std::uint64_t offset, std::uint64_t seed) noexcept {
    const auto* sized = static_cast<const node*>(n);
    return seal::sum_of(n->order, std::uint64_t{sized->key_bytes} | std::uint64_t{sized->value_bytes} << 32, offset,
                        seed);
  }
  [[nodiscard]] static bool fits(const node_head* h, std::uint64_t bytes) noexcept {
    return bytes >= sizeof(node) && reach(h) <= bytes;
  }
};
static_assert(sizeof(sealed_bytes::node) == 40);
static_assert(sealed_node_kind<sealed_words> && sealed_node_kind<sealed_bytes>);

}  // namespace nvm::lockfree
