// Steps of the paper's mapping that are switched on (LSNVMM, section 5.2), chosen when a mapping is made.
#pragma once

#include <cstdint>

#include "logheap/mapping/node_store.hpp"

namespace nvm::logheap {

enum class mapping_step : std::uint8_t {
  base,               // one skip list (for each 4 GiB of home space), readers' and writers' lock
  two_layers,         // 2L: a list and a lock for each partition
  group_update,       // 2L-GU: neighbours at home and in the log are one piece
  node_cache,         // 2L-GU-C: nodes that a thread has used lately
  lock_free_readers,  // all: readers take no lock
};
inline constexpr unsigned mapping_steps = 5;
constexpr const char* name_of(mapping_step s) noexcept {
  constexpr const char* names[] = {"Base", "2L", "2L-GU", "2L-GU-C", "full"};
  return names[static_cast<unsigned>(s)];
}

struct skip_list_settings {
  bool two_layers = true;
  bool group_update = true;
  bool node_cache = true;
  bool lock_free_readers = true;
  // Cache entries of each client, 8 bytes each; a power of two, at least node_cache::entries_min.  The paper has up to
  // 4 M.
  std::uint64_t cache_entries = 65536;
  std::uint64_t node_bytes_max = node_store::bytes_max;

  // Every step up to this one.
  [[nodiscard]] static constexpr skip_list_settings up_to(mapping_step last) noexcept {
    skip_list_settings s;
    s.two_layers = last >= mapping_step::two_layers;
    s.group_update = last >= mapping_step::group_update;
    s.node_cache = last >= mapping_step::node_cache;
    s.lock_free_readers = last >= mapping_step::lock_free_readers;
    return s;
  }
};

}  // namespace nvm::logheap
