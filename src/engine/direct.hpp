// Pools on direct media: shm, dax, auto.
//
// The library that records what a program stores has its own implementation (src/crash_test).
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "engine/log_choice.hpp"
#include "media/latency_media.hpp"
#include "pool/pool.hpp"

namespace nvm::engines {

// The engine of an open pool on direct media; `persist` is an enum nvm_persist; `background`: a thread may help; `log`:
// choices for the log-structured engine.  May throw std::bad_alloc.
[[nodiscard]] result<std::unique_ptr<engine>> start_on_direct(pool_file& file, std::uint32_t persist, bool measured,
                                                              const latency_settings& emulated, bool background,
                                                              const log_choice& log);

}  // namespace nvm::engines
