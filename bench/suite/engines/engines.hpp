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
#include "suite/engines/described_engine.hpp"
#include "suite/engines/holdfast_engines.hpp"
#include "suite/engines/stm_engine.hpp"
#endif

namespace nvm::bench {

#if NVM_BENCH_HOLDFAST
// The log-structured engine as the suite measures it.  Reads of the paper's five steps (LSNVMM, section 5.2) and of our
// leaves are translated; home pages make them plain loads.  None but the last cleans while there is room, which there
// is: cleaning is measured apart (logheap/), and by the last.
struct log_system {
  std::string name;
  nvm_pool_options options;
};
inline std::vector<log_system> log_systems() {
  nvm_pool_options plain = holdfast_heap::direct();
  plain.engine = NVM_ENGINE_LOG;
  std::vector<log_system> all;
  const auto add = [&](const char* name, nvm_mapping mapping, std::uint32_t flags) {
    all.push_back({name, plain});
    all.back().options.mapping = mapping;
    all.back().options.log_flags = flags;
  };
  constexpr std::uint32_t translated = NVM_LOG_TRANSLATED | NVM_LOG_NO_CLEANERS;
  add("base list", NVM_MAPPING_BASE, translated);
  add("two layers", NVM_MAPPING_TWO_LAYERS, translated);
  add("group update", NVM_MAPPING_GROUP_UPDATE, translated);
  add("node cache", NVM_MAPPING_CACHE, translated);
  add("lock-free readers", NVM_MAPPING_FULL, translated);
  add("leaves translated", NVM_MAPPING_LEAVES, translated);
  add("leaves materialised", NVM_MAPPING_LEAVES, NVM_LOG_NO_CLEANERS);
  add("with a cleaner", NVM_MAPPING_LEAVES, 0);
  return all;
}
#endif

// Calls f.template operator()<E>(name, role, construct) for each that can have its files in the directory;
// construct(settings, threads) makes a unique_ptr<guarded<E>>.
template <class F>
void for_each_engine(const std::string& directory, F&& f) {
#if NVM_BENCH_HOLDFAST
  const auto announced = [&](const char* name, const nvm_pool_options& options, role r = role::subject) {
    f.template operator()<announced_engine>(name, r, [options](const engine_settings& settings, unsigned threads) {
      return std::make_unique<guarded<announced_engine>>(threads, settings, options);
    });
  };
  const auto barriers = [&](const std::string& name, role r, const nvm_pool_options& options, nvm_stm_policy policy) {
    f.template operator()<stm_engine>(name, r, [=](const engine_settings& settings, unsigned threads) {
      return std::make_unique<guarded<stm_engine>>(threads, settings, options, policy);
    });
  };
  if (!is_memory(directory)) {
    announced("ssd, announced stores", on_ssd());
    barriers("stm on ssd", role::subject, on_ssd(), NVM_STM_POLICY_ENGINE);
    return;
  }
#endif
#if NVM_BENCH_PMEMOBJ
  f.template operator()<pmemobj_engine>("libpmemobj", role::peer,
                                        [](const engine_settings& settings, unsigned threads) {
                                          return std::make_unique<guarded<pmemobj_engine>>(threads, settings);
                                        });
#endif
#if NVM_BENCH_HOLDFAST
  nvm_pool_options undo = holdfast_heap::direct();
  undo.engine = NVM_ENGINE_UNDO;
  announced("undo, announced stores", undo);
  barriers("stm over undo, write-through", role::subject, undo, NVM_STM_POLICY_ENGINE);
  barriers("stm over undo, write-back", role::subject, undo, NVM_STM_POLICY_WRITE_BACK);
  const auto with_engine = [](nvm_engine engine, nvm_validation validation) {
    nvm_pool_options options = holdfast_heap::direct();
    options.engine = engine;
    options.validation = validation;
    return options;
  };
  barriers("stm over redo", role::subject, with_engine(NVM_ENGINE_REDO, NVM_VALIDATION_CHECKSUM),
           NVM_STM_POLICY_ENGINE);
  barriers("stm over redo, commit mark", role::subject, with_engine(NVM_ENGINE_REDO, NVM_VALIDATION_COMMIT_MARK),
           NVM_STM_POLICY_ENGINE);
  announced("log, announced stores", with_engine(NVM_ENGINE_LOG, NVM_VALIDATION_CHECKSUM), role::variant);
  for (const log_system& s : log_systems())
    barriers("stm over log: " + s.name, role::variant, s.options, NVM_STM_POLICY_ENGINE);
  barriers("mnemosyne", role::peer, with_engine(NVM_ENGINE_MNEMOSYNE, NVM_VALIDATION_CHECKSUM), NVM_STM_POLICY_ENGINE);
  barriers("mnemosyne, plain log", role::peer, with_engine(NVM_ENGINE_MNEMOSYNE, NVM_VALIDATION_COMMIT_MARK),
           NVM_STM_POLICY_ENGINE);
  barriers("mnemosyne-undo", role::peer, with_engine(NVM_ENGINE_MNEMOSYNE_UNDO, NVM_VALIDATION_CHECKSUM),
           NVM_STM_POLICY_ENGINE);
#endif
}

#if NVM_BENCH_HOLDFAST
// The same for those whose objects are described and whose references are counted, or not: of the hash table and the
// B+tree alone.
template <class F>
void for_each_described_engine(const std::string& directory, F&& f) {
  if (!is_memory(directory)) return;
  const auto described = [&](const char* name, nvm_collect collect) {
    f.template operator()<described_engine>(
        name, role::variant, [collect](const engine_settings& settings, unsigned threads) {
          nodes_of_suite::announce();
          nvm_pool_options options = holdfast_heap::direct();
          options.engine = NVM_ENGINE_UNDO;
          options.collect = collect;
          return std::make_unique<guarded<described_engine>>(threads, settings, options);
        });
  };
  described("described: not counted", NVM_COLLECT_OFF);
  described("described: counted at rest", NVM_COLLECT_AT_REST);
  described("described: counted in the background", NVM_COLLECT_BACKGROUND);
}
#endif

// Whether the engine of this name keeps its log in a ring that is emptied after the transactions, so that the ring's
// size matters to its speed.
inline bool has_ring(const std::string& name) { return name.find("redo") != std::string::npos; }

}  // namespace nvm::bench
