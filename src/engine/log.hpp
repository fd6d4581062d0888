// Pools of the log-structured engine.
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "engine/log_choice.hpp"
#include "engine/media_stacks.hpp"
#include "logheap/logheap.hpp"
#include "logheap/mapping/skip_list_settings.hpp"
#include "pool/pool.hpp"

namespace nvm::engines {

[[nodiscard]] inline bool is_log(const pool_file& file) noexcept {
  return engine_of(file.superblock().engine).is_its_log();
}
[[nodiscard]] logheap::heap_settings heap_settings_of(const pool_file& file, const log_choice& how) noexcept;
// The same for an image: blocks that fail their checks are no error.
[[nodiscard]] logheap::heap_settings heap_settings_of(const geometry& g, const log_choice& how) noexcept;

// Settings for any mapping but leaves.
[[nodiscard]] inline logheap::skip_list_settings skip_list_settings_of(const log_choice& how) noexcept {
  auto s = logheap::skip_list_settings::up_to(static_cast<logheap::mapping_step>(how.mapping - NVM_MAPPING_BASE));
  if (how.cache_entries != 0) s.cache_entries = how.cache_entries;
  return s;
}

// The engine of an open pool that has it, on direct media.  May throw std::bad_alloc.
[[nodiscard]] result<std::unique_ptr<engine>> start_log(pool_file& file, isa::write_back with, bool measured,
                                                        const latency_settings& emulated, const log_choice& how);

}  // namespace nvm::engines
