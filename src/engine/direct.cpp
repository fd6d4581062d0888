#include "engine/direct.hpp"

#include <iterator>

#include "engine/direct_engines.hpp"
#include "engine/log.hpp"

namespace nvm::engines {
namespace {

struct start_request {
  pool_file& file;
  isa::write_back with;
  bool measured;
  const latency_settings& emulated;
  bool background;
  const log_choice& log;
};

started undo(const start_request& r) {
  const unsigned lanes = r.file.geometry().lane_count;
  if (!r.measured) return start_undo(r.with, r.file, lanes);
  return start_undo(make_measured_stack(r.with, r.emulated), r.file, lanes);
}
started redo(const start_request& r) {
  const unsigned lanes = r.file.geometry().lane_count;
  if (!r.measured) return start_redo(r.with, r.file, lanes, r.background);
  return start_redo(make_measured_stack(r.with, r.emulated), r.file, lanes, r.background);
}
started mnemosyne(const start_request& r) {
  const unsigned lanes = r.file.geometry().lane_count;
  if (!r.measured) return start_mnemosyne(r.with, r.file, lanes);
  return start_mnemosyne(make_measured_stack(r.with, r.emulated), r.file, lanes);
}
started mnemosyne_undo(const start_request& r) {
  const unsigned lanes = r.file.geometry().lane_count;
  if (!r.measured) return start_mnemosyne_undo(r.with, r.file, lanes);
  return start_mnemosyne_undo(make_measured_stack(r.with, r.emulated), r.file, lanes);
}
started log(const start_request& r) { return start_log(r.file, r.with, r.measured, r.emulated, r.log); }

// In the order of engine_table.
using start_call = started(const start_request&);
constexpr start_call* start_on_direct_media[] = {undo, redo, mnemosyne, mnemosyne_undo, log};
static_assert(std::size(start_on_direct_media) == engine_table.size());

}  // namespace

result<std::unique_ptr<engine>> start_on_direct(pool_file& file, std::uint32_t persist, bool measured,
                                                const latency_settings& emulated, bool background,
                                                const log_choice& log) {
  auto with = write_back_of(file, persist);
  if (!with) return with.error();
  const std::uint32_t row = engine_of(file.superblock().engine).number - 1;
  return start_on_direct_media[row]({file, *with, measured, emulated, background, log});
}

}  // namespace nvm::engines
