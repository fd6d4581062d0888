// What recovery makes of the image of a ground, and what a closed one has to recover: without a heap, so that schedules
// of threads are judged by this and not compiled with the heaps of ground.cpp.
#include <string>
#include <vector>

#include "ground.hpp"
#include "image_process.hpp"

namespace nvm::tests {

using explore::machine;

std::string unrest_in(machine& m, kind_of_medium kind) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return last_message();
  if (is_image(kind)) {
    // Read, not replayed: nothing is written.
    std::vector<std::byte> home(m.base(), m.base() + m.size());
    explore::device device{m};
    const auto state = replay_to_memory(device, ring_of(*sb), home.data(), home.size());
    if (!state) return last_message();
    if (state->bytes != 0) return "the log holds " + std::to_string(state->bytes) + " bytes";
  }
  const geometry g = geometry_of(*sb);
  const tx::pool_targets targets{m.base(), g};
  if (is_redo(kind)) {
    log::redo_reader rings{m.base(), g, tx::pool_key(sb->uuid), static_cast<log::validation>(sb->validation), targets};
    if (!rings.validate()) return last_message();
    if (!rings.at_rest()) return "the rings hold " + std::to_string(rings.report().records) + " records";
  }
  for (unsigned i = 0; i < g.lane_count && is_mnemosyne(kind); ++i) {
    if (!tx::lane_at_rest(m.base(), g, mnemosyne_kind_of(kind), static_cast<log::validation>(sb->validation), i))
      return last_message();
  }
  for (unsigned i = 0; i < g.lane_count && !is_redo(kind) && !is_mnemosyne(kind); ++i) {
    log::lane_reader lane{m.base(), g, tx::pool_key(sb->uuid), i, targets};
    if (!lane.validate()) return last_message();
    if (!lane.at_rest()) return "lane " + std::to_string(i) + " is not at rest";
    if (lane.damaged(true)) return "lane " + std::to_string(i) + " has a torn commit record";
  }
  space_summary found;
  std::string damages;
  const auto damaged = [&](const damage& d) { damages += d.what + (" at offset " + std::to_string(d.offset)); };
  if (!check_space(m.base(), g, damaged, found)) return damages;
  return found.log_runs == 0 ? "" : std::to_string(found.log_runs) + " log runs";
}

status recover_image(machine& m, kind_of_medium kind) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return sb.error();
  if (is_image(kind)) {
    explore::device device{m};
    const auto replayed = replay(device, ring_of(*sb));
    return replayed ? status{} : status{replayed.error()};
  }
  tx::recovery_report report;
  if (is_redo(kind)) {
    std::uint64_t used = 0;
    return tx::recover_redo(m.media(), m.base(), geometry_of(*sb), tx::pool_key(sb->uuid),
                            static_cast<log::validation>(sb->validation), report, used);
  }
  if (is_mnemosyne(kind)) {
    return tx::recover_mnemosyne(m.media(), m.base(), geometry_of(*sb), mnemosyne_kind_of(kind),
                                 static_cast<log::validation>(sb->validation), report, [](unsigned, std::uint64_t) {});
  }
  return tx::recover(m.media(), m.base(), geometry_of(*sb), tx::pool_key(sb->uuid), report,
                     [](unsigned, std::uint64_t, std::uint32_t) {});
}

}  // namespace nvm::tests
