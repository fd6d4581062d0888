#include "care/structure_nodes.hpp"

#include <algorithm>

#include "lockfree/nodes.hpp"

namespace nvm::care {
namespace {

using lockfree::byte_nodes;
using lockfree::sealed_bytes;
using lockfree::sealed_words;
using lockfree::word_nodes;

const lockfree::node_head* at(const std::byte* base, std::uint64_t head) noexcept {
  return reinterpret_cast<const lockfree::node_head*>(base + head);
}

}  // namespace

std::uint64_t node_format::node_bytes() const noexcept {
  if (of_bytes) return is_sealed ? sizeof(sealed_bytes::node) : sizeof(byte_nodes::node);
  return is_sealed ? sizeof(sealed_words::node) : sizeof(word_nodes::node);
}

node_format::sizes node_format::sizes_of(std::uint64_t head) const noexcept {
  const std::uint64_t content = node_bytes();
  const std::uint64_t both = word(head + content - 8);
  return {head + content, both & 0xFFFF'FFFF, both >> 32};
}

bool node_format::fits(std::uint64_t head, std::uint64_t room) const noexcept {
  return room >= sum_bytes() && fits_in(head, room - sum_bytes());
}
std::uint64_t node_format::bytes_of(std::uint64_t head) const noexcept {
  if (!of_bytes) return node_bytes() + sum_bytes();
  const sizes s = sizes_of(head);
  return node_bytes() + s.key + s.value + sum_bytes();
}
bool node_format::fits_in(std::uint64_t head, std::uint64_t room) const noexcept {
  const std::uint64_t own = node_bytes();
  if (!of_bytes || room < own) return room >= own;
  const sizes s = sizes_of(head);
  return s.key + s.value <= room - own;
}

bool node_format::sum_holds(std::uint64_t head) const noexcept {
  const lockfree::node_head* n = at(base_, head);
  if (is_sealed && !seal_holds(head, seed)) return false;
  if (!with_sums) return true;
  if (of_bytes) return is_sealed ? sealed_bytes::sum_holds(n) : byte_nodes::sum_holds(n);
  return is_sealed || word_nodes::sum_holds(n);
}

bool node_format::seal_holds(std::uint64_t head, std::uint64_t with_seed) const noexcept {
  const auto* n = reinterpret_cast<const lockfree::sealed_head*>(base_ + head);
  const std::uint64_t sum =
      of_bytes ? sealed_bytes::sum_of(n, head, with_seed) : sealed_words::sum_of(n, head, with_seed);
  return (seal(head) & lockfree::seal::sum_mask) == sum;
}

std::uint64_t node_format::order_of(const std::string& key) const noexcept {
  if (kind == lockfree::layout::kind::hash) {
    if (!of_bytes) return lockfree::word_hash::of(word_of_text(key), seed);
    return checksum(reinterpret_cast<const std::byte*>(key.data()), key.size(), seed);
  }
  if (!of_bytes) return word_of_text(key);
  std::uint64_t order = 0;
  std::memcpy(&order, key.data(), std::min<std::size_t>(key.size(), sizeof order));
  return __builtin_bswap64(order);
}

bool node_format::own_sum_holds(std::uint64_t head, std::uint64_t room) const noexcept {
  return of_bytes && is_sealed && with_sums && fits(head, room) && sealed_bytes::sum_holds(at(base_, head));
}

bool node_format::order_holds(std::uint64_t head) const noexcept {
  if (!of_bytes) return true;
  if (kind != lockfree::layout::kind::hash) {
    const sizes s = sizes_of(head);
    std::uint64_t order = 0;
    std::memcpy(&order, base_ + s.content, std::min<std::uint64_t>(s.key, sizeof order));
    return __builtin_bswap64(order) == this->order(head);
  }
  if (!is_seed_known) return true;
  const sizes s = sizes_of(head);
  return checksum(base_ + s.content, s.key, seed) == order(head);
}

std::string node_format::key(std::uint64_t head) const {
  if (of_bytes) {
    const sizes s = sizes_of(head);
    return {reinterpret_cast<const char*>(base_ + s.content), s.key};
  }
  if (kind == lockfree::layout::kind::hash) return text_of_word(lockfree::word_hash::key_of(order(head), seed));
  return text_of_word(order(head));
}

std::string node_format::value(std::uint64_t head) const {
  if (!of_bytes) return text_of_word(word(head + node_bytes() - 8));
  const sizes s = sizes_of(head);
  return {reinterpret_cast<const char*>(base_ + s.content + s.key), s.value};
}

std::uint64_t node_format::mark(std::uint64_t head) const noexcept {
  return of_bytes ? word(head + node_bytes() - 16) : 0;
}

int node_format::compare(std::uint64_t head, std::uint64_t order, const std::string& key) const noexcept {
  if (this->order(head) != order) return this->order(head) < order ? -1 : 1;
  if (!of_bytes) return 0;
  const sizes s = sizes_of(head);
  const int c = std::memcmp(base_ + s.content, key.data(), std::min<std::uint64_t>(s.key, key.size()));
  if (c != 0) return c;
  return s.key < key.size() ? -1 : s.key > key.size() ? 1 : 0;
}

}  // namespace nvm::care
