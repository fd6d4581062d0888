// What is in a node of a list or of a hash table: the link to the next one, the word that orders it, and after these
// the key and the value.  Nodes do not change but for their link: a new value is a new node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/checksum.hpp"
#include "base/inlining.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/link.hpp"

namespace nvm::lockfree {

struct node_head {
  link next;
  std::uint64_t order;
};

// Checksum of a node without its link: of `content` and the order, seeded.
constexpr std::uint64_t node_sum(std::uint64_t order, std::uint64_t content, std::uint64_t seed) noexcept {
  std::uint64_t h = mix_seed(seed, order);
  h = mix_seed(h ^ h >> 32, content);
  h = mix_seed(h ^ h >> 29, 1);
  return h ^ h >> 32;
}
inline constexpr std::uint64_t node_sum_bytes = sizeof(std::uint64_t);

// Head: node_head, or a structure that begins with it.
//
// Keys and values of 8 bytes.  The structure decides what `order` is: the key, or a hash from which the key follows.
template <class Head>
struct word_nodes_with {
  static constexpr bool of_bytes = false;
  static constexpr bool has_sums = false;
  using key = std::uint64_t;
  using value = std::uint64_t;
  struct node : Head {
    std::uint64_t content;
  };
  static constexpr std::uint64_t bytes(key, value) noexcept { return sizeof(node); }
  static void fill(std::byte* at, std::uint64_t order, key, value v) noexcept {
    auto* n = reinterpret_cast<node*>(at);
    n->order = order;
    n->content = v;
  }
  [[nodiscard, NVM_INLINE]] static value value_of(const node_head* n) noexcept {
    return static_cast<const node*>(n)->content;
  }
  // < 0, 0, > 0, among nodes of the same order.
  [[nodiscard, NVM_INLINE]] static int compare(const node_head*, key) noexcept { return 0; }
  [[nodiscard]] static key key_of(const node_head* n) noexcept { return n->order; }
  // Whether bytes from the head on, which may be anything, could be a node.
  [[nodiscard]] static bool fits(const node_head*, std::uint64_t bytes) noexcept { return bytes >= sizeof(node); }
};

// The same followed by a checksum, which lies in the node's line.  It does not cover the node's place, which links and
// orders prove.
struct word_nodes : word_nodes_with<node_head> {
  static constexpr bool has_sums = true;
  static constexpr std::uint64_t bytes(key, value) noexcept { return sizeof(node) + node_sum_bytes; }
  static void fill(std::byte* at, std::uint64_t order, key k, value v) noexcept {
    word_nodes_with::fill(at, order, k, v);
    const std::uint64_t sum = node_sum(order, v, 0);
    std::memcpy(at + sizeof(node), &sum, sizeof sum);
  }
  static constexpr std::uint64_t reach_with_sum(const node_head*) noexcept { return sizeof(node) + node_sum_bytes; }
  // For a node that was filled with a sum.
  [[nodiscard]] static bool sum_holds(const node_head* h) noexcept {
    std::uint64_t sum = 0;
    std::memcpy(&sum, static_cast<const node*>(h) + 1, sizeof sum);
    return sum == node_sum(h->order, value_of(h), 0);
  }
};

struct byte_value {
  std::span<const std::byte> bytes;
  std::uint64_t mark = 0;  // a word that the user may change in place (durably by itself)
  bool with_sum = false;   // the node gets one of order, sizes, key and value; not of the mark
};
// Keys and values of any size, after the head.
template <class Head>
struct byte_nodes_with {
  static constexpr bool of_bytes = true;
  static constexpr bool has_sums = true;
  using key = std::span<const std::byte>;
  using value = byte_value;
  struct node : Head {
    std::uint64_t mark;
    std::uint32_t key_bytes;
    std::uint32_t value_bytes;
    [[nodiscard]] std::byte* content() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
    [[nodiscard]] const std::byte* content() const noexcept { return reinterpret_cast<const std::byte*>(this + 1); }
  };
  static constexpr std::uint64_t bytes(const key& k, const value& v) noexcept {
    return sizeof(node) + k.size() + v.bytes.size() + (v.with_sum ? node_sum_bytes : 0);
  }
  static void fill(std::byte* at, std::uint64_t order, const key& k, const value& v) noexcept {
    auto* n = reinterpret_cast<node*>(at);
    n->order = order;
    n->mark = v.mark;
    n->key_bytes = static_cast<std::uint32_t>(k.size());
    n->value_bytes = static_cast<std::uint32_t>(v.bytes.size());
    if (!k.empty()) std::memcpy(n->content(), k.data(), k.size());
    if (!v.bytes.empty()) std::memcpy(n->content() + k.size(), v.bytes.data(), v.bytes.size());
    if (v.with_sum) add_sum(n);
  }
  [[nodiscard]] static std::uint64_t sum_of(const node* n) noexcept {
    const std::uint64_t sizes = std::uint64_t{n->key_bytes} | std::uint64_t{n->value_bytes} << 32;
    return node_sum(n->order, checksum(n->content(), std::size_t{n->key_bytes} + n->value_bytes, sizes), 0);
  }
  // Called when all else of a new node is filled.
  static void add_sum(node* n) noexcept {
    const std::uint64_t sum = sum_of(n);
    std::memcpy(n->content() + n->key_bytes + n->value_bytes, &sum, sizeof sum);
  }
  [[nodiscard]] static std::uint64_t reach_with_sum(const node_head* h) noexcept { return reach(h) + node_sum_bytes; }
  [[nodiscard]] static bool sum_holds(const node_head* h) noexcept {
    const auto* n = static_cast<const node*>(h);
    std::uint64_t sum = 0;
    std::memcpy(&sum, n->content() + n->key_bytes + n->value_bytes, sizeof sum);
    return sum == sum_of(n);
  }
  [[nodiscard]] static bool fits(const node_head* h, std::uint64_t bytes) noexcept {
    return bytes >= sizeof(node) && static_cast<const node*>(h)->key_bytes <= bytes - sizeof(node);
  }
  // Bytes from the node's beginning to its end, by its own sizes.
  [[nodiscard]] static std::uint64_t reach(const node_head* h) noexcept {
    const auto* n = static_cast<const node*>(h);
    return sizeof *n + std::uint64_t{n->key_bytes} + n->value_bytes;
  }
  [[nodiscard]] static key key_of(const node_head* h) noexcept {
    const auto* n = static_cast<const node*>(h);
    return {n->content(), n->key_bytes};
  }
  [[nodiscard]] static value value_of(const node_head* h) noexcept {
    const auto* n = static_cast<const node*>(h);
    // relaxed: a thread that acts on the mark exchanges it.
    const std::uint64_t mark =
        std::atomic_ref<std::uint64_t>{const_cast<std::uint64_t&>(n->mark)}.load(std::memory_order_relaxed);
    return {{n->content() + n->key_bytes, n->value_bytes}, mark};
  }
  // < 0, 0, > 0, among nodes of the same order.
  [[nodiscard]] static int compare(const node_head* h, const key& k) noexcept {
    const key own = key_of(h);
    const int c = std::memcmp(own.data(), k.data(), own.size() < k.size() ? own.size() : k.size());
    if (c != 0) return c;
    return own.size() < k.size() ? -1 : own.size() > k.size() ? 1 : 0;
  }
};
using byte_nodes = byte_nodes_with<node_head>;
static_assert(sizeof(byte_nodes::node) == 32);
static_assert(node_kind<word_nodes> && node_kind<byte_nodes>);

// Whether the node, by its own sizes, is in the pool from its beginning to its end, so that its contents may be read.
// A damaged one may reach out of the pool.
template <class Nodes, class Memory>
[[nodiscard, NVM_INLINE]] inline bool is_whole(const Memory& memory, const node_head* n) noexcept {
  if constexpr (Nodes::of_bytes) {
    return memory.holds(n, Nodes::reach(n));
  } else {
    return true;
  }
}

// Whether a node that was filled with a sum is whole and unchanged.
template <class Nodes, class Memory>
[[nodiscard]] inline bool holds_its_sum(const Memory& memory, const node_head* n) noexcept {
  if constexpr (Nodes::has_sums) {
    return memory.holds(n, Nodes::reach_with_sum(n)) && Nodes::sum_holds(n);
  } else {
    return true;  // its seal has been looked at
  }
}

// Whether the order of a whole node is that of its key; for words it always is, since the key is the order or follows
// from it.
template <class Nodes, class Shape>
[[nodiscard]] inline bool has_order_of_key(const Shape& shape, const node_head* n) noexcept {
  if constexpr (Nodes::of_bytes) {
    return shape.order_of(Nodes::key_of(n)) == n->order;
  } else {
    return true;
  }
}

}  // namespace nvm::lockfree
