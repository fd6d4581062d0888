#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_undo(isa::write_back with, pool_file& file, unsigned lanes) {
  return start<direct_stack, tx::undo_engine>(std::make_unique<direct_stack>(with), file, lanes);
}

}  // namespace nvm::engines
