// Each engine on each stack of direct media: a file of its own, since each takes a compiler its time.
#pragma once

#include "engine/engine.hpp"
#include "engine/media_stacks.hpp"

namespace nvm::engines {

using started = result<std::unique_ptr<engine>>;
[[nodiscard]] started start_undo(std::unique_ptr<direct_stack> on, pool_file& file, unsigned lanes);
[[nodiscard]] started start_undo_measured(std::unique_ptr<measured_direct_stack> on, pool_file& file, unsigned lanes);
[[nodiscard]] started start_redo(std::unique_ptr<direct_stack> on, pool_file& file, unsigned lanes, bool background);
[[nodiscard]] started start_redo_measured(std::unique_ptr<measured_direct_stack> on, pool_file& file, unsigned lanes,
                                          bool background);

}  // namespace nvm::engines
