#include "engine/log.hpp"

#include <algorithm>

#include "engine/direct_engines.hpp"
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
  s.recovery_threads = std::max(1U, platform::processors());
  return s;
}

logheap::heap_settings heap_settings_of(const pool_file& file, const log_choice& how) noexcept {
  logheap::heap_settings s = heap_settings_of(file.geometry(), how);
  // Damage is refused; a read-only open shows the undamaged rest.
  s.refuse_damage = !file.read_only();
  return s;
}

result<std::unique_ptr<engine>> start_log(pool_file& file, isa::write_back with, bool measured,
                                          const latency_settings& emulated, const log_choice& how) {
  const bool leaves = how.mapping == NVM_MAPPING_LEAVES;
  if (!measured) return leaves ? start_log_leaves(with, file, how) : start_log_skip_lists(with, file, how);
  auto stack = make_measured_stack(with, emulated);
  return leaves ? start_log_leaves(std::move(stack), file, how) : start_log_skip_lists(std::move(stack), file, how);
}

}  // namespace nvm::engines
