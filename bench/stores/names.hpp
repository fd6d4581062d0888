// Names of stores by themselves: a trie in a pool's file, which is read as it lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nvm::bench {

struct trie_measured {
  double ns_a_lookup = 0;
  double bytes_a_name = 0;  // nodes with their objects' headers
  double bytes_beyond_its_text = 0;
  std::uint64_t names = 0;
};
// Looks the names up once to warm, and once timed, in the file of a pool on tmpfs that is closed; throws if one is
// missing.
[[nodiscard]] trie_measured look_names_up(const std::string& path, const std::vector<std::string>& names);

}  // namespace nvm::bench
