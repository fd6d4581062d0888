#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_mnemosyne(isa::write_back with, pool_file& file, unsigned lanes) {
  return start<direct_stack, tx::mnemosyne_engine>(std::make_unique<direct_stack>(with), file, lanes);
}
started start_mnemosyne_undo(isa::write_back with, pool_file& file, unsigned lanes) {
  return start<direct_stack, tx::mnemosyne_undo_engine>(std::make_unique<direct_stack>(with), file, lanes);
}

}  // namespace nvm::engines
