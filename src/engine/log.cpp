#include "engine/log.hpp"

#include <algorithm>
#include <bit>
#include <cinttypes>

#include "engine/direct_engines.hpp"
#include "logheap/mapping/node_cache.hpp"
#include "platform/platform.hpp"

namespace nvm::engines {

logheap::heap_settings heap_settings_of(const geometry& g, const log_choice& how) noexcept {
  logheap::heap_settings s;
  s.root_word = anchor_word_at(g, 0, anchor_word::log_heap);
  s.root_word_copy = anchor_word_at(g, 1, anchor_word::log_heap);
  s.home_first = g.home_offset();
  s.home_bytes = g.home_bytes;
  s.separate_logs = !how.one_log;
  s.group_update = how.mapping == NVM_MAPPING_LEAVES || how.mapping >= NVM_MAPPING_GROUP_UPDATE;
  s.cleaners = how.cleaners;
  const auto choose = [](auto& size, auto wanted) { size = wanted != 0 ? wanted : size; };
  choose(s.chunk_bytes, how.chunk_bytes);
  choose(s.partition_bytes, how.partition_bytes);
  choose(s.clean_below, how.clean_below);
  choose(s.clean_from, how.clean_from);
  s.recovery_threads = std::max(1U, platform::processors());
  return s;
}

logheap::heap_settings heap_settings_of(const pool_file& file, const log_choice& how) noexcept {
  logheap::heap_settings s = heap_settings_of(file.geometry(), how);
  // Damage is refused; a read-only open shows the undamaged rest.
  s.refuse_damage = !file.read_only();
  return s;
}

status check_bounds(const log_choice& how) noexcept {
  struct bounds {
    const char* name;
    std::uint64_t value, least, most;
    bool power;
  };
  const bounds all[] = {
      {"chunk_bytes", how.chunk_bytes, std::uint64_t{1} << layout::page_shift_max, logheap::layout::chunk_bytes_max,
       true},
      {"partition_bytes", how.partition_bytes, 1024, 65536, true},
      {"cache_entries", how.cache_entries, logheap::node_cache::entries_min, std::uint64_t{1} << 22, true},
      {"clean_below", how.clean_below, 1, 90, false},
      {"clean_from", how.clean_from, 1, 100, false},
      {"fault_threads", how.fault_threads, 1, 16, false},
      {"fault_around", how.fault_around, 1, 256, false},
  };
  for (const bounds& b : all) {
    if (b.value == 0) continue;
    if (b.value >= b.least && b.value <= b.most && (!b.power || std::has_single_bit(b.value))) continue;
    return fail(errc::invalid, "%s of nvm_log_options: found %" PRIu64 ", expected %s%" PRIu64 " to %" PRIu64, b.name,
                b.value, b.power ? "a power of two, " : "", b.least, b.most);
  }
  return {};
}

result<std::unique_ptr<engine>> start_log(pool_file& file, isa::write_back with, bool measured,
                                          const latency_settings& emulated, const log_choice& how) {
  const bool leaves = how.mapping == NVM_MAPPING_LEAVES;
  if (!measured) return leaves ? start_log_leaves(with, file, how) : start_log_skip_lists(with, file, how);
  auto stack = make_measured_stack(with, emulated);
  return leaves ? start_log_leaves(std::move(stack), file, how) : start_log_skip_lists(std::move(stack), file, how);
}

}  // namespace nvm::engines
