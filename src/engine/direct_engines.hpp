// Each engine on direct media alone, and on any medium. Each has a file of its own, since each takes a compiler long.
//
// On direct media alone all code between two fences is inlined: this is for pools in earnest. A build for sanitizers,
// recording or coverage runs the same members over any medium instead (direct_as_any.cpp in place of *_direct.cpp).
#pragma once

#include "engine/engine.hpp"
#include "engine/log_choice.hpp"
#include "engine/media_stacks.hpp"

namespace nvm::engines {

using started = result<std::unique_ptr<engine>>;

// All may throw std::bad_alloc.
[[nodiscard]] started start_undo(isa::write_back with, pool_file& file, unsigned lanes);
[[nodiscard]] started start_redo(isa::write_back with, pool_file& file, unsigned lanes, bool background);
[[nodiscard]] started start_mnemosyne(isa::write_back with, pool_file& file, unsigned lanes);
[[nodiscard]] started start_mnemosyne_undo(isa::write_back with, pool_file& file, unsigned lanes);
// The log-structured engine with our mapping or the paper's.
[[nodiscard]] started start_log_leaves(isa::write_back with, pool_file& file, const log_choice& how);
[[nodiscard]] started start_log_skip_lists(isa::write_back with, pool_file& file, const log_choice& how);

[[nodiscard]] started start_undo(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes);
[[nodiscard]] started start_undo(std::unique_ptr<any_image_stack> on, pool_file& file, unsigned lanes);
[[nodiscard]] started start_redo(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes,
                                 bool background);
[[nodiscard]] started start_mnemosyne(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes);
[[nodiscard]] started start_mnemosyne_undo(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes);
[[nodiscard]] started start_log_leaves(std::unique_ptr<any_direct_stack> on, pool_file& file, const log_choice& how);
[[nodiscard]] started start_log_skip_lists(std::unique_ptr<any_direct_stack> on, pool_file& file,
                                           const log_choice& how);

}  // namespace nvm::engines
