#include "engine/direct_engines.hpp"
#include "engine/log_engine.hpp"
#include "logheap/mapping/skip_list_mapping.hpp"

namespace nvm::engines {

started start_log_skip_lists(isa::write_back with, pool_file& file, const log_choice& how) {
  return start_log_engine<direct_stack, logheap::skip_list_mapping>(std::make_unique<direct_stack>(with), file, how,
                                                                    skip_list_settings_of(how));
}

}  // namespace nvm::engines
