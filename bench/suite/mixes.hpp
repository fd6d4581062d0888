// Mixes of operations on a key-value store: YCSB A, B, C, D and F, and the five workloads of Facebook's memcached
// servers, as Lewat's Table IV gives them, with values of the sizes of its figures 12 and 14; and LSNVMM's two.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace nvm::bench {

struct mix_of_operations {
  std::string name;
  // Per thousand; updates are the rest.
  unsigned reads, removals, inserts;
  bool reads_first;  // what an update changes it has read
  bool fixed_sizes;
  std::size_t key_bytes_max, value_bytes_max;
  bool toggles = false;  // an update looks a key up, and removes it if it is there or else inserts it
  bool shares = false;   // all threads use all keys
  bool whole = false;    // an update writes all of the value
};

inline std::vector<mix_of_operations> store_mixes() {
  constexpr std::size_t key = 32;
  std::vector<mix_of_operations> all{{"insert", 0, 0, 1000, false, true, key, 128},
                                     {"update", 0, 0, 0, true, true, key, 128, true}};
  const mix_of_operations ycsb[] = {{"ycsb-A", 500, 0, 0, false, true, key, 0},
                                    {"ycsb-B", 950, 0, 0, false, true, key, 0},
                                    {"ycsb-C", 1000, 0, 0, false, true, key, 0},
                                    {"ycsb-D", 950, 0, 50, false, true, key, 0},
                                    {"ycsb-F", 0, 0, 0, true, true, key, 0}};
  const std::pair<const char*, std::size_t> sizes[] = {{"", 128}, {"-16B", 16}, {"-64B", 64}, {"-2KB", 2048}};
  for (const auto& [size, bytes] : sizes) {
    for (mix_of_operations m : ycsb) {
      m.name += size;
      m.value_bytes_max = bytes;
      all.push_back(m);
      // Who only reads shares nothing that is written.
      if (m.reads == 1000 || bytes == 16) continue;
      m.name += "-shared";
      m.shares = true;
      all.push_back(m);
    }
  }
  // Beside YCSB C, which only reads: Lewat, Fig. 14.
  for (const auto& [size, bytes] : {std::pair{"-16B", std::size_t{16}}, std::pair{"-2KB", std::size_t{2048}}}) {
    all.push_back({std::string("insert") + size, 0, 0, 1000, false, true, key, bytes});
    all.push_back({std::string("rewrite") + size, 0, 0, 0, false, true, key, bytes, false, false, true});
  }
  for (const mix_of_operations& m : {mix_of_operations{"fb-USR", 998, 0, 0, false, false, 24, 48},
                                     {"fb-APP", 825, 125, 0, false, false, 40, 500},
                                     {"fb-ETC", 667, 300, 0, false, false, 52, 300},
                                     {"fb-VAR", 182, 2, 0, false, false, 36, 100},
                                     {"fb-SYS", 667, 33, 0, false, false, 32, 800}})
    all.push_back(m);
  return all;
}

}  // namespace nvm::bench
