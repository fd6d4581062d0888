#define NVM_INLINES_LITTLE 1
#include "api/direct_engines.hpp"
#include "api/heap_engine.hpp"

namespace nvm::api {

started start_redo_measured(std::unique_ptr<measured_direct_stack> on, pool_file& file, unsigned lanes,
                            bool background) {
  return start<measured_direct_stack, tx::redo_engine>(std::move(on), file, lanes, background);
}

}  // namespace nvm::api
