#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"
#include "pool/log_table.hpp"

namespace nvm::engines {

started start_baseline(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes) {
  if (has_new_words(log_of(file.superblock()))) {
    return start<any_direct_stack, tx::mnemosyne_engine>(std::move(on), file, lanes);
  }
  return start<any_direct_stack, tx::mnemosyne_undo_engine>(std::move(on), file, lanes);
}

}  // namespace nvm::engines
