#include "api/direct.hpp"

#include "api/baselines.hpp"
#include "api/direct_engines.hpp"

namespace nvm::api {

result<std::unique_ptr<engine>> start_on_direct(pool_file& file, std::uint32_t persist, bool measured,
                                                const latency_settings& emulated, bool background,
                                                const log_choice& log) {
  auto with = write_back_of(file, persist);
  if (!with) return with.error();
  if (is_log(file)) return start_log(file, *with, measured, emulated, log);
  if (is_baseline(file)) return start_baseline(file, *with, measured, emulated);
  const unsigned lanes = file.geometry().lane_count;
  const bool redo = file.superblock().engine == NVM_ENGINE_REDO;
  if (measured) {
    auto stack = std::make_unique<measured_direct_stack>(*with, emulated);
    return redo ? start_redo_measured(std::move(stack), file, lanes, background)
                : start_undo_measured(std::move(stack), file, lanes);
  }
  auto stack = std::make_unique<direct_stack>(*with);
  return redo ? start_redo(std::move(stack), file, lanes, background) : start_undo(std::move(stack), file, lanes);
}

}  // namespace nvm::api
