#include "engine/direct_engines.hpp"
#include "engine/log_engine.hpp"
#include "logheap/mapping/leaf_mapping.hpp"

namespace nvm::engines {

started start_log_leaves(isa::write_back with, pool_file& file, const log_choice& how) {
  return start_log_engine<direct_stack, logheap::leaf_mapping>(std::make_unique<direct_stack>(with), file, how);
}

}  // namespace nvm::engines
