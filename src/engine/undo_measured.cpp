#define NVM_INLINES_LITTLE 1
#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_undo_measured(std::unique_ptr<measured_direct_stack> on, pool_file& file, unsigned lanes) {
  return start<measured_direct_stack, tx::undo_engine>(std::move(on), file, lanes);
}

}  // namespace nvm::engines
