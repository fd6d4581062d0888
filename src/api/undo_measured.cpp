#define NVM_INLINES_LITTLE 1
#include "api/direct_engines.hpp"
#include "api/heap_engine.hpp"

namespace nvm::api {

started start_undo_measured(std::unique_ptr<measured_direct_stack> on, pool_file& file, unsigned lanes) {
  return start<measured_direct_stack, tx::undo_engine>(std::move(on), file, lanes);
}

}  // namespace nvm::api
