// Copies of durable memory, to read while it does not change: each node is copied by a transaction of its own.
// Plain loads would find it in some engines only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace nvm::bench {

template <class E, class T>
void copy_out(E& engine, T* to, const T* from, std::size_t n = 1) {
  engine.examine(0, [&](auto& tx) { tx.read(to, from, n * sizeof(T)); });
}
template <class T, class E>
T copy_of(E& engine, const T* from) {
  T copy;
  copy_out(engine, &copy, from);
  return copy;
}

// visit(element) for each of an array.
template <class E, class T, class F>
void each_copy(E& engine, const T* from, std::uint64_t n, F&& visit) {
  constexpr std::uint64_t together = 512;
  T copies[together];
  for (std::uint64_t i = 0; i < n; i += together) {
    const std::uint64_t now = std::min(together, n - i);
    copy_out(engine, copies, from + i, now);
    std::for_each(copies, copies + now, visit);
  }
}

}  // namespace nvm::bench
