#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_undo(std::unique_ptr<any_image_stack> on, pool_file& file, unsigned lanes) {
  return start<any_image_stack, tx::undo_engine>(std::move(on), file, lanes);
}

}  // namespace nvm::engines
