#include "api/direct_engines.hpp"
#include "api/heap_engine.hpp"

namespace nvm::api {

started start_undo(std::unique_ptr<direct_stack> on, pool_file& file, unsigned lanes) {
  return start<direct_stack, tx::undo_engine>(std::move(on), file, lanes);
}

}  // namespace nvm::api
