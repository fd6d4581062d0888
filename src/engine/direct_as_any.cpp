// In place of *_direct.cpp in a build that compiles nothing over direct media alone.
#include "engine/direct_engines.hpp"

namespace nvm::engines {
namespace {

std::unique_ptr<any_direct_stack> plainly(isa::write_back with) {
  return as_any<structures_here::yes>(std::make_unique<direct_stack>(with));
}

}  // namespace

started start_undo(isa::write_back with, pool_file& file, unsigned lanes) {
  return start_undo(plainly(with), file, lanes);
}
started start_redo(isa::write_back with, pool_file& file, unsigned lanes, bool background) {
  return start_redo(plainly(with), file, lanes, background);
}
started start_mnemosyne(isa::write_back with, pool_file& file, unsigned lanes) {
  return start_mnemosyne(plainly(with), file, lanes);
}
started start_mnemosyne_undo(isa::write_back with, pool_file& file, unsigned lanes) {
  return start_mnemosyne_undo(plainly(with), file, lanes);
}
started start_log_leaves(isa::write_back with, pool_file& file, const log_choice& how) {
  return start_log_leaves(plainly(with), file, how);
}
started start_log_skip_lists(isa::write_back with, pool_file& file, const log_choice& how) {
  return start_log_skip_lists(plainly(with), file, how);
}

}  // namespace nvm::engines
