// Engines that are there to be compared with.
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "media/media.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"

namespace nvm::engines {

[[nodiscard]] inline bool is_baseline(const pool_file& file) noexcept {
  const log_kind log = log_of(file.superblock());
  return log == log_kind::new_words || log == log_kind::old_words;
}
// The engine of an open pool that has one of them, on direct media.  May throw std::bad_alloc.
[[nodiscard]] result<std::unique_ptr<engine>> start_baseline(pool_file& file, isa::write_back with, bool measured,
                                                             const latency_settings& emulated);

}  // namespace nvm::engines
