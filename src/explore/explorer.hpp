// Explorer: records a subject's run once, then walks the trace as often as it is asked.
//
// Levels.  Level 0 walks the run's trace, level d + 1 the trace of the recovery of an image that level d made.  Each
// level has the durable image of its point in its trace; the machine's memory holds a copy of the durable image of the
// level at work, is patched line by line to make a state, and put back by copying the lines that were written.
//
//   invariant  while level d is between two states, machine == images d, d + 1, ... , nesting
//
// No state allocates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "explore/covering.hpp"
#include "explore/explore.hpp"
#include "explore/frontier.hpp"
#include "explore/guard.hpp"
#include "explore/machine.hpp"
#include "explore/seen_set.hpp"
#include "explore/token.hpp"

namespace nvm::explore {

// Deterministic, small, keyed: the choices of a row depend only on the row.
class row_random {
 public:
  row_random(std::uint64_t seed, std::uint64_t point, std::uint64_t tier, std::uint64_t row) noexcept
      : state_{seed * 0x9E3779B97F4A7C15ULL ^ point * 0xD6E8FEB86659FD93ULL ^ tier << 56 ^
               row * 0xA0761D6478BD642FULL} {}
  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
    return z ^ z >> 31;
  }
  std::uint32_t below(std::uint32_t n) noexcept { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }

 private:
  std::uint64_t state_;
};

class explorer {
 public:
  explorer(const subject& s, const options& o);
  ~explorer();

  // Runs the subject (or what is given in place of its run) and keeps the trace.
  void record();
  void record(const std::function<void(machine&)>& run);
  // Called before the original is explored: its mutants, explored after it, begin where they differ.
  void remember() noexcept { remembers_ = true; }
  // From here on it prints and reports nothing, skips the rules, and ends with the first violation.
  void be_quiet() noexcept;
  // Explorations from here on try these tiers at each crash point, and crash every n-th recovery.
  void try_only(unsigned tiers, unsigned nested_every) noexcept {
    options_.tiers = tiers;
    options_.nested_every = nested_every;
  }
  // keep_seen: a state that an earlier exploration of this explorer has met is a duplicate.
  report explore(const mutation& m, bool keep_seen = false);
  std::optional<report> replay(const state_path& path, const mutation& m);
  [[nodiscard]] std::uint32_t trace_code() const noexcept { return trace_code_; }
  // One guard for everything from here on, runs included.
  guard& keep_guard() {
    if (!guard_) guard_.emplace();
    return *guard_;
  }
  // Goes into the tokens of the states that follow.
  void of_schedule(std::vector<state_path::turn> s) { schedule_ = std::move(s); }

 private:
  static constexpr std::uint32_t no_factor = ~std::uint32_t{0};
  static constexpr std::uint32_t read_factor = no_factor - 1;  // left out, and read since
  using clock = std::chrono::steady_clock;

  struct level {
    trace events;
    frontier front;
    std::vector<std::byte> image;
    std::vector<std::uint64_t> changed;  // lines of this image that differ from the level above's
    std::uint64_t base_hash = 0;
    std::uint64_t point = 0;  // crash points so far
    std::uint32_t at = 0;     // event before which the crash happens
    unsigned tier_number = 0;
    std::uint64_t row = 0;
    std::vector<unit*> factors;           // units that matter at this point, without unread ones
    std::vector<std::uint32_t> ordinals;  // of the factors among all that matter
    std::vector<unit*> unread;            // units that were not read yet: they stay high
    std::vector<std::uint32_t> unread_ordinals;
    bool read_late = false;           // a state has read one of them since
    std::vector<std::uint32_t> cuts;  // of the factors, in the state at hand
    std::uint64_t row_hash = 0;       // what they add to the hash: see set_cut()
    // Of the factors, side by side: what their cuts add to the hash (null: it is computed); the highest cut; what that
    // adds.
    std::vector<const std::uint64_t*> deltas;
    std::vector<std::uint32_t> highs;
    std::vector<std::uint64_t> high_deltas;
  };

  // The walk along the original's trace when it first met a place, in the run or in a recovery.  Up to there the walk
  // along the trace of a mutant of the place is the same.
  struct milestone {
    std::uint32_t at = 0;  // event: crash points before it are the same
    std::uint64_t executed = 0;
    std::size_t seen = 0;  // of seen_log_
    tally counts;
  };

  // Walks.
  void remember_place(const event& e, const milestone& m);
  [[nodiscard]] milestone milestone_at(std::uint32_t at) const;
  void go_on_from(const milestone& m);
  [[nodiscard]] const milestone* first_difference() const noexcept;
  void make_trace();
  void reset(const mutation& m, bool keep_seen);
  void walk(unsigned depth);
  void visit_point(unsigned depth, std::uint32_t at);
  void run_tiers(unsigned depth, unsigned tiers);
  void descend(unsigned depth, std::uint64_t hash);
  bool wants_all_tiers(const level& l, std::uint32_t at);
  void note(const op_event& e);

  // Sets all factors of the level low, and lays out the known data of their cuts.
  static void lay_out(level& l);
  static std::uint64_t delta_of(level& l, std::size_t f, std::uint32_t cut) {
    return l.deltas[f] != nullptr ? l.deltas[f][cut] : l.front.delta(*l.factors[f], cut);
  }
  static void set_cut(level& l, std::size_t f, std::uint32_t cut) {
    l.row_hash += delta_of(l, f, cut) - delta_of(l, f, l.cuts[f]);
    l.cuts[f] = cut;
  }

  // Tiers (tiers.cpp): each sets cuts and calls try_row().
  void program_order(unsigned depth);
  void fill(unsigned depth, bool high);
  void covering_rows(unsigned depth, tier t, const covering_array& a);
  void single_units(unsigned depth);
  void every_cut(unsigned depth);
  void random_rows(unsigned depth);
  [[nodiscard]] std::uint64_t product_of(const level& l) const noexcept;
  [[nodiscard]] std::uint32_t interior_cut(const unit& u, unsigned i, unsigned of, row_random& r) const;

  // Read sets (reads.cpp).
  void leave_out_unread(unsigned depth);
  bool take_in_read(unsigned depth);
  void note_reads(unsigned depth);
  void note_unguaranteed(unsigned depth, std::uint64_t offset, std::uint64_t bytes, const nvm_rec_site* where);

  // States (states.cpp).
  void try_row(unsigned depth, tier t, std::uint64_t row);
  bool is_new(std::uint64_t key) {
    if (!seen_.insert(key)) return false;
    if (remembering_) seen_log_.push_back(key);
    return true;
  }
  void execute(unsigned depth, tier t, std::uint64_t hash);
  // Makes the state of the level's `cuts`, runs recovery and judges on it, puts the memory back.
  bool holds_up(unsigned depth, bool record, bool twice, bool live_on);
  // Calls f(offset, content, bytes) for each unit of the state at hand that is not at low.
  template <class F>
  void for_each_patch(unsigned depth, F f) {
    level& l = *levels_[depth];
    const std::uint32_t bytes = l.front.unit_bytes();
    for (std::size_t i = 0; i < l.factors.size(); ++i) {
      if (l.cuts[i] != 0) f(l.front.offset_of(*l.factors[i]), l.front.content(*l.factors[i], l.cuts[i]), bytes);
    }
    for (unit* u : l.unread) f(l.front.offset_of(*u), l.front.content(*u, u->choices - 1), bytes);
  }
  void patch(unsigned depth);
  void put_back(unsigned depth);
  bool same_after_second_recovery(unsigned depth);
  void on_bad_state(unsigned depth, tier t);
  [[nodiscard]] bool keep_going() noexcept;

  // Explanations (explain.cpp).
  struct cause {
    std::vector<std::uint32_t> cuts;    // fewest units not at high that still fail
    std::vector<std::uint32_t> needed;  // then, of those, fewest units not at low that still fail
  };
  cause shrink(unsigned depth, tier t);
  [[nodiscard]] std::string explain(unsigned depth, tier t, const cause& c, const std::string& token) const;
  [[nodiscard]] std::string explain_point(unsigned depth) const;
  [[nodiscard]] std::string explain_order(unsigned depth) const;
  [[nodiscard]] std::string explain_units(unsigned depth, const cause& c) const;
  [[nodiscard]] std::string text_of_unit(const level& l, const unit& u) const;
  [[nodiscard]] std::string text_of_step(const level& l, const unit& u, std::size_t i) const;
  [[nodiscard]] std::string text_of_offset(std::uint64_t offset) const;
  [[nodiscard]] state_path path_to(unsigned depth, const cause* shrunk) const;

  const subject& subject_;
  options options_;
  machine machine_;
  trace recorded_;
  std::size_t explored_from_ = 0;  // event of the trace at hand; see machine::explore_from_here()
  std::uint32_t trace_code_ = 0;
  std::uint32_t mutation_code_ = 0;
  std::optional<std::vector<state_path::turn>> schedule_;
  std::string mutation_text_;
  std::vector<std::unique_ptr<level>> levels_;
  covering_arrays arrays_;
  seen_set seen_;
  bool remembers_ = false;
  bool remembering_ = false;                          // the original is being explored
  std::vector<std::uint64_t> seen_log_;               // of the original: the entries of seen_, in order
  std::vector<std::optional<milestone>> milestones_;  // of the original, by place
  milestone point_;                                   // at the crash point of the run at hand
  std::uint32_t resumed_at_ = 0;                      // event: crash points before it were those of the original
  std::vector<std::uint64_t> raised_;                 // lines of all levels' images that differ from the subject's
  bool raised_many_ = true;                           // more lines than are noted
  std::vector<std::byte> snapshot_;
  std::vector<unsigned> points_of_label_;
  std::vector<op_event> history_;
  std::uint64_t history_code_ = 0;  // of all begins and ends so far: the obligations of a crash now
  window window_;
  std::uint64_t ended_ = 0;
  std::optional<guard> guard_;
  report report_;
  std::string what_;  // of the last bad state
  verdict verdict_;
  const char* stage_ = "";
  std::uint64_t executed_ = 0;  // paces the work on every n-th state
  std::uint64_t checked_at_ = 0;
  const state_path* only_ = nullptr;  // replay: the one state wanted
  bool stop_ = false;
  clock::time_point begun_;
  double processor_begun_ = 0;
};

// Findings of the trace rules in a recorded run (rules.cpp).
std::vector<finding> check_rules(const trace& t, const subject& s, const options& o, const place_table& places);

}  // namespace nvm::explore
