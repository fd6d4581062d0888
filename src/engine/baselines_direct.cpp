#include "engine/direct_engines.hpp"
#include "engine/heap_engine.hpp"
#include "pool/log_table.hpp"

namespace nvm::engines {

started start_baseline(isa::write_back with, pool_file& file, unsigned lanes) {
  if (has_new_words(log_of(file.superblock()))) {
    return start<direct_stack, tx::mnemosyne_engine>(std::make_unique<direct_stack>(with), file, lanes);
  }
  return start<direct_stack, tx::mnemosyne_undo_engine>(std::make_unique<direct_stack>(with), file, lanes);
}

}  // namespace nvm::engines
