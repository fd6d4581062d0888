#define NVM_FLATTEN  // each takes a compiler half a minute
#include "engine/baselines.hpp"

#include "engine/heap_engine.hpp"
#include "engine/media_stacks.hpp"

namespace nvm::engines {
namespace {

template <class Holder>
result<std::unique_ptr<engine>> start_on(std::unique_ptr<Holder> holder, pool_file& file) {
  const unsigned lanes = file.geometry().lane_count;
  if (log_of(file.superblock()) == log_kind::new_words) {
    return start<Holder, tx::mnemosyne_engine>(std::move(holder), file, lanes);
  }
  return start<Holder, tx::mnemosyne_undo_engine>(std::move(holder), file, lanes);
}

}  // namespace

result<std::unique_ptr<engine>> start_baseline(pool_file& file, isa::write_back with, bool measured,
                                               const latency_settings& emulated) {
  if (measured) return start_on(make_measured_stack(with, emulated), file);
  return start_on(std::make_unique<direct_stack>(with), file);
}

}  // namespace nvm::engines
