// Memory of a burst trie, as a concept: the same trie runs in a transaction of any engine, on a pool that is only read,
// and on a plain buffer.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::stores {

template <class M>
concept trie_reads = requires(M& m, std::uint64_t place, std::uint64_t bytes, std::byte* room) {
  // The bytes as this transaction sees them: where they lie, or as a copy in `room`, which has as many and is aligned
  // to 8. nullptr: the place is no multiple of 8, or they lie outside of the data. Valid until they are changed.
  { m.view(place, bytes, room) } noexcept -> std::same_as<const std::byte*>;
};

// Changes are parts of one transaction: after a failure it can only be rolled back.
template <class M>
concept trie_writes =
    trie_reads<M> && requires(M& m, std::uint64_t place, const void* from, std::uint64_t bytes, std::uint32_t type) {
      // Place of a new object, a multiple of 16; its contents are what fill() makes them before anything leads to it.
      { m.allocate(type, bytes) } noexcept -> std::same_as<result<std::uint64_t>>;
      { m.fill(place, from, bytes) } noexcept -> std::same_as<void>;
      // Replaces whole words of older objects.
      { m.put(place, from, bytes) } noexcept -> std::same_as<status>;
      // Frees an object of so many bytes.
      { m.give_back(place, bytes) } noexcept -> std::same_as<status>;
    };

}  // namespace nvm::stores
