// The engines that this build knows, the reference first.  The one place that knows which peers were found.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"
#include "suite/engine.hpp"
#if NVM_BENCH_PMEMOBJ
#include "suite/engines/pmemobj_engine.hpp"
#endif
#if NVM_BENCH_HOLDFAST
#include "suite/engines/holdfast_engines.hpp"
#endif

namespace nvm::bench {

// Calls f.template operator()<E>(name, role, construct) for each; construct(settings, threads) makes a
// unique_ptr<guarded<E>>.
template <class F>
void for_each_engine(F&& f) {
#if NVM_BENCH_PMEMOBJ
  f.template operator()<pmemobj_engine>("libpmemobj", role::peer,
                                        [](const engine_settings& settings, unsigned threads) {
                                          return std::make_unique<guarded<pmemobj_engine>>(threads, settings);
                                        });
#endif
#if NVM_BENCH_HOLDFAST
  const auto on_pool = [&]<class E>(const char* name, role r, const nvm_pool_options& options) {
    f.template operator()<E>(name, r, [options](const engine_settings& settings, unsigned threads) {
      return std::make_unique<guarded<E>>(threads, settings, options);
    });
  };
  nvm_pool_options options = holdfast_heap::direct();
  options.engine = NVM_ENGINE_UNDO;
  on_pool.template operator()<announced_engine>("undo, announced stores", role::subject, options);
#endif
}

// Whether the engine of this name keeps its log in a ring that is emptied behind the transactions, so that the ring's
// size matters to its speed.
inline bool has_ring(const std::string& name) { return name.find("redo") != std::string::npos; }

}  // namespace nvm::bench
