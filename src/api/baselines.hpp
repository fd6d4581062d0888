// Engines that are there to be compared with.
#pragma once

#include <memory>

#include "api/engine.hpp"
#include "media/media.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"

namespace nvm::api {

[[nodiscard]] inline bool is_baseline(const pool_file& file) noexcept {
  return file.superblock().engine == NVM_ENGINE_MNEMOSYNE || file.superblock().engine == NVM_ENGINE_MNEMOSYNE_UNDO;
}
// The engine of an open pool that has one of them, on direct media.  May throw std::bad_alloc.
[[nodiscard]] result<std::unique_ptr<engine>> start_baseline(pool_file& file, isa::write_back with, bool measured,
                                                             const latency_settings& emulated);

}  // namespace nvm::api
