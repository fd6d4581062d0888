#include "api/direct_engines.hpp"
#include "api/heap_engine.hpp"

namespace nvm::api {

started start_redo(std::unique_ptr<direct_stack> on, pool_file& file, unsigned lanes, bool background) {
  return start<direct_stack, tx::redo_engine>(std::move(on), file, lanes, background);
}

}  // namespace nvm::api
