#include "engine/direct_engines.hpp"
#include "engine/log_engine.hpp"
#include "logheap/instances.hpp"

namespace nvm::engines {

started start_log_skip_lists(std::unique_ptr<any_direct_stack> on, pool_file& file, const log_choice& how) {
  return start_log_engine<any_direct_stack, logheap::skip_list_mapping>(std::move(on), file, how,
                                                                        skip_list_settings_of(how));
}

}  // namespace nvm::engines
