#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_redo(isa::write_back with, pool_file& file, unsigned lanes, bool background) {
  return start<direct_stack, tx::redo_engine>(std::make_unique<direct_stack>(with), file, lanes, background);
}

}  // namespace nvm::engines
