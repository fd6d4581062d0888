#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_redo(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes, bool background) {
  return start<any_direct_stack, tx::redo_engine>(std::move(on), file, lanes, background);
}

}  // namespace nvm::engines
