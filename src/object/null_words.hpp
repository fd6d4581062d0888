// Pointers of objects that become null: whole words, also where packed types have pointers that lie across two.
//
// Threads: no other thread stores to these words, nor to bytes beside pointers that lie across two.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "tx/face.hpp"

namespace nvm::object {

// So many in one transaction: their records fit every ring, and no room in the pool is needed.
inline constexpr std::size_t null_words_at_once = 32;

// What a transaction is to store so that the eight bytes at each of these places become 0.  May throw std::bad_alloc.
[[nodiscard]] inline std::vector<tx::assigned_bytes> null_words(const std::byte* base,
                                                                std::span<const std::uint64_t> places) {
  constexpr std::uint64_t word = sizeof(std::uint64_t);
  std::map<std::uint64_t, std::uint64_t> words;  // by place
  for (const std::uint64_t at : places) {
    for (std::uint64_t w = at / word * word; w < at + word; w += word) {
      const auto [found, is_new] = words.try_emplace(w);
      if (is_new) std::memcpy(&found->second, base + w, word);
      const std::uint64_t from = w < at ? at - w : 0;
      const std::uint64_t to = w < at ? word : at + word - w;
      std::memset(reinterpret_cast<std::byte*>(&found->second) + from, 0, to - from);
    }
  }
  std::vector<tx::assigned_bytes> all;
  all.reserve(words.size());
  for (const auto& [at, value] : words) all.push_back({at, value, word});
  return all;
}

}  // namespace nvm::object
