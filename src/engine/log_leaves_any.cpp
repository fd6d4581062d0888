#include "engine/direct_engines.hpp"
#include "engine/log_engine.hpp"
#include "logheap/instances.hpp"

namespace nvm::engines {

started start_log_leaves(std::unique_ptr<any_direct_stack> on, pool_file& file, const log_choice& how) {
  return start_log_engine<any_direct_stack, logheap::leaf_mapping>(std::move(on), file, how);
}

}  // namespace nvm::engines
