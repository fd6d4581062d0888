// The mnemosyne engines as kinds of lanes and transactions for tx::heap, and their recovery.
#pragma once

#include <cstdint>

#include "log/log.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "tx/heap.hpp"
#include "tx/mnemosyne_transaction.hpp"
#include "tx/recover.hpp"

namespace nvm::tx {

// Recovery of a pool of one of the mnemosyne engines; started(lane, position) tells where each lane continues.
template <media M, class Started>
[[nodiscard]] status recover_mnemosyne(M& m, std::byte* base, const geometry& g, log::mnemosyne_kind kind,
                                       log::validation how, recovery_report& report, Started&& started) {
  const pool_targets targets{base, g};
  const auto reader = [&](unsigned lane) {
    return log::mnemosyne_reader{base, g, kind, log::has_torn_bits(how), lane, targets};
  };
  for (unsigned i = 0; i < g.lane_count; ++i) {
    auto lane = reader(i);
    if (status s = lane.validate(); !s) return s;
    lane.write_back(m);
  }
  m.fence(edge{"mnemosyne/E13"});
  for (unsigned i = 0; i < g.lane_count; ++i) {
    auto lane = reader(i);
    if (status s = lane.validate(); !s) return s;
    const bool rolls_back = kind == log::mnemosyne_kind::undo && !lane.committed();
    report.completed += lane.found_any() && !rolls_back ? 1 : 0;
    report.rolled_back += lane.found_any() && rolls_back ? 1 : 0;
    started(i, lane.repair(m, base));
  }
  free_all_log_runs(m, base, g, report);
  return {};
}

// Where a lane without valid records continues.
[[nodiscard]] inline result<std::uint64_t> lane_at_rest(const std::byte* base, const geometry& g,
                                                        log::mnemosyne_kind kind, log::validation how,
                                                        unsigned lane) noexcept {
  const pool_targets targets{base, g};
  log::mnemosyne_reader reader{base, g, kind, log::has_torn_bits(how), lane, targets};
  if (status s = reader.validate(); !s) return s.error();
  if (!reader.at_rest()) {
    return fail(errc::corrupt, "lane %u: found not at rest, but the pool's state says that it was closed", lane);
  }
  return reader.rest();
}

template <media M, class Transaction, log::mnemosyne_kind Kind>
struct any_mnemosyne_engine {
  using lanes_type = log::mnemosyne_log<M>;
  using transaction_type = Transaction;
  static lanes_type make_lanes(M& m, std::byte* base, const geometry& g, std::uint64_t, unsigned count,
                               const engine_settings& how) {
    return lanes_type{m, base, g, count, how.validation};
  }
  [[nodiscard]] static status recover(M& m, std::byte* base, const geometry& g, std::uint64_t,
                                      const engine_settings& how, recovery_report& report, lanes_type& lanes) {
    return recover_mnemosyne(m, base, g, Kind, how.validation, report,
                             [&](unsigned lane, std::uint64_t position) { lanes.start(lane, position); });
  }
  [[nodiscard]] static status rest(const std::byte*, const geometry&, std::uint64_t, const engine_settings&,
                                   lanes_type&) noexcept {
    return {};
  }
  [[nodiscard]] static status first_use(const std::byte* base, const geometry& g, std::uint64_t, unsigned lane,
                                        lanes_type& lanes) noexcept {
    if (lane >= g.lane_count) return {};
    auto position = lane_at_rest(base, g, Kind, lanes.validated_by(), lane);
    if (!position) return position.error();
    lanes.start(lane, *position);
    return {};
  }
};
template <media M>
struct mnemosyne_engine : any_mnemosyne_engine<M, mnemosyne_transaction<M>, log::mnemosyne_kind::redo> {};
template <media M>
struct mnemosyne_undo_engine : any_mnemosyne_engine<M, mnemosyne_undo_transaction<M>, log::mnemosyne_kind::undo> {};

}  // namespace nvm::tx
