#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"

namespace nvm::engines {

started start_mnemosyne(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes) {
  return start<any_direct_stack, tx::mnemosyne_engine>(std::move(on), file, lanes);
}
started start_mnemosyne_undo(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes) {
  return start<any_direct_stack, tx::mnemosyne_undo_engine>(std::move(on), file, lanes);
}

}  // namespace nvm::engines
