#include "explore/explorer.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace nvm::explore {

namespace {

constexpr std::size_t page = 4096;

std::uint32_t mix32(std::uint64_t h) noexcept { return static_cast<std::uint32_t>(h ^ h >> 32); }

double processor_seconds() noexcept {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Attaches the machine for a scope, and detaches it on every way out.
class attachment {
 public:
  explicit attachment(machine& m) : machine_{m} { machine_.attach(); }
  ~attachment() {
    machine_.record_into(nullptr);
    machine_.detach();
  }
  attachment(const attachment&) = delete;
  attachment& operator=(const attachment&) = delete;

 private:
  machine& machine_;
};

}  // namespace

explorer::explorer(const subject& s, const options& o) : subject_{s}, options_{o}, machine_{s.image.size(), s.at} {
  if (!s.run || !s.recover || !s.oracle) throw std::invalid_argument("explore: run, recover and oracle are needed");
  if (o.nesting > 3) throw std::invalid_argument("explore: nesting is " + std::to_string(o.nesting) + "; at most 3");
  options_.nested_every = std::max(1U, o.nested_every);
  options_.after_every = std::max(1U, o.after_every);
  machine_.on_step_limit = &guard::step_limit_reached;
  machine_.listen(o.persistency != model::ssd, o.instructions);
  for (unsigned d = 0; d <= o.nesting; ++d) {
    levels_.push_back(std::make_unique<level>());
    level& l = *levels_.back();
    l.image.resize(round_up(s.image.size(), page));
    // Bytes that become durable at this level are part of all images below it, and of the machine's.
    l.front.on_raise = [this, d](std::uint64_t offset, std::uint32_t bytes) {
      const std::byte* from = levels_[d]->image.data() + offset;
      for (std::size_t k = d + 1; k < levels_.size(); ++k) std::memcpy(levels_[k]->image.data() + offset, from, bytes);
      std::memcpy(machine_.base() + offset, from, bytes);
      if (d == 0 && !raised_many_) {
        raised_.push_back(offset / line_bytes * line_bytes);
        for (std::uint64_t at = raised_.back() + line_bytes; at < offset + bytes; at += line_bytes)
          raised_.push_back(at);
        raised_many_ = raised_.size() >= levels_[0]->image.size() / line_bytes;
      }
      if (d == 0) return;
      for (std::uint64_t at = offset; at < offset + bytes; at += line_bytes) {
        levels_[d]->changed.push_back(at / line_bytes);
      }
    };
  }
}

explorer::~explorer() = default;

void explorer::record() { record(subject_.run); }

void explorer::record(const std::function<void(machine&)>& run) {
  machine_.forget_run();
  std::memcpy(machine_.base(), subject_.image.data(), subject_.image.size());
  recorded_.clear();
  machine_.forget_touched();
  {
    attachment watching(machine_);
    machine_.record_into(&recorded_);
    run(machine_);
  }
  std::uint64_t h = 14695981039346656037ULL;
  const auto add = [&h](std::uint64_t v) { h = (h ^ v) * 1099511628211ULL; };
  for (const char c : subject_.name) add(static_cast<unsigned char>(c));
  // Contents are left out: a pool with addresses has other contents each time.
  for (const event& e : recorded_.events)
    add(e.offset + (static_cast<std::uint64_t>(e.kind) << 56) + e.bytes * 0x10001ULL);
  trace_code_ = mix32(h);
}

void explorer::be_quiet() noexcept {
  options_.print_violations = false;
  options_.violations_max = 1;
  options_.rules = false;
  options_.on_image = nullptr;
}

// ---- parts that mutants share with the original --------------------------------------------------------------------

explorer::milestone explorer::milestone_at(std::uint32_t at) const {
  return {at, executed_, seen_log_.size(), report_};
}

void explorer::remember_place(const event& e, const milestone& m) {
  if (e.kind != event_kind::flush && e.kind != event_kind::fence && e.kind != event_kind::sync &&
      e.kind != event_kind::write) {
    return;
  }
  if (milestones_.size() <= e.place) milestones_.resize(e.place + 1);
  if (!milestones_[e.place]) milestones_[e.place] = m;
}

// First difference of the mutation whose places are marked; nullptr: unknown.
const explorer::milestone* explorer::first_difference() const noexcept {
  const milestone* first = nullptr;
  for (std::size_t i = 0; i < milestones_.size(); ++i) {
    const place& p = machine_.places()[i];
    if (!milestones_[i] || (!p.dropped && !p.delayed)) continue;
    if (first == nullptr || milestones_[i]->at < first->at) first = &*milestones_[i];
  }
  return first;
}

void explorer::go_on_from(const milestone& m) {
  static_cast<tally&>(report_) = m.counts;
  report_.judged_before = m.counts.unique_states;
  executed_ = m.executed;
  resumed_at_ = m.at;
  for (std::size_t i = 0; i < m.seen; ++i) seen_.insert(seen_log_[i]);
}

// The mutated trace: places' flags decide, as they do for recoveries while those are recorded.
void explorer::make_trace() {
  trace& t = levels_[0]->events;
  t.clear();
  t.words = recorded_.words;
  std::vector<event> delayed;
  explored_from_ = 0;
  for (const event& e : recorded_.events) {
    if (&e - recorded_.events.data() == static_cast<std::ptrdiff_t>(machine_.explored_from())) {
      explored_from_ = t.events.size();
    }
    if (e.kind != event_kind::flush && e.kind != event_kind::fence && e.kind != event_kind::sync &&
        e.kind != event_kind::write) {
      t.events.push_back(e);
      continue;
    }
    place& p = machine_.places()[e.place];
    ++p.count;
    if (e.kind == event_kind::write) {
      if (!p.dropped) t.events.push_back(e);
      continue;
    }
    if (e.kind == event_kind::flush) {
      if (p.delayed) delayed.push_back(e);
      if (!p.dropped && !p.delayed) t.events.push_back(e);
      continue;
    }
    if (!p.dropped) t.events.push_back(e);
    t.events.insert(t.events.end(), delayed.begin(), delayed.end());
    delayed.clear();
  }
}

void explorer::reset(const mutation& m, bool keep_seen) {
  report_ = report{};
  report_.subject = subject_.name;
  report_.persistency = options_.persistency;
  mutation_code_ = m.code();
  mutation_text_ = m.text();
  machine_.places().on_new = [m](place& p) {
    const bool hit = m.hits(p);
    p.dropped = hit && m.what != mutation::kind::delay_flush;
    p.delayed = hit && m.what == mutation::kind::delay_flush;
  };
  for (place& p : machine_.places().all()) {
    machine_.places().on_new(p);
    p.count = 0;
  }
  make_trace();
  for (auto& l : levels_) {
    if (raised_many_) {
      std::fill(l->image.begin(), l->image.end(), std::byte{0});
      std::memcpy(l->image.data(), subject_.image.data(), subject_.image.size());
    }
    for (const std::uint64_t line : raised_) {
      std::memcpy(l->image.data() + line, subject_.image.data() + line, line_bytes);
    }
    l->point = 0;
    l->row = 0;
  }
  raised_.clear();
  raised_many_ = false;
  std::memcpy(machine_.base(), subject_.image.data(), subject_.image.size());
  machine_.thread(0);
  if (!keep_seen) seen_.clear();
  points_of_label_.clear();
  history_.clear();
  history_code_ = 0;
  window_ = {};
  ended_ = 0;
  executed_ = 0;
  checked_at_ = 0;
  stop_ = false;
  resumed_at_ = 0;
  remembering_ = remembers_ && only_ == nullptr && m.what == mutation::kind::none;
  if (remembering_) {
    seen_log_.clear();
    milestones_.clear();
  } else if (remembers_ && only_ == nullptr && !keep_seen) {
    if (const milestone* from = first_difference()) go_on_from(*from);
  }
}

report explorer::explore(const mutation& m, bool keep_seen) {
  reset(m, keep_seen);
  begun_ = clock::now();
  processor_begun_ = processor_seconds();
  for (const event& e : levels_[0]->events.events) {
    report_.stores += e.kind == event_kind::store || e.kind == event_kind::write ? 1U : 0U;
    report_.operations += e.kind == event_kind::op_begin ? 1U : 0U;
  }
  report_.events = levels_[0]->events.events.size();
  if (options_.rules && only_ == nullptr) {
    report_.findings = check_rules(levels_[0]->events, subject_, options_, machine_.places());
  }
  {
    const bool own_guard = !guard_;
    if (own_guard) guard_.emplace();
    attachment watching(machine_);
    levels_[0]->base_hash = 0;
    walk(0);
    if (own_guard) guard_.reset();
  }
  report_.seconds = std::chrono::duration<double>(clock::now() - begun_).count();
  report_.processor_seconds = processor_seconds() - processor_begun_;
  report_.seen_set_resets = seen_.resets();
  for (const place& p : machine_.places().all()) report_.places.push_back(p);
  return std::move(report_);
}

std::optional<report> explorer::replay(const state_path& path, const mutation& m) {
  if (path.trace_code != trace_code_ || path.mutation_code != m.code() || path.persistency != options_.persistency ||
      path.crashes.size() > levels_.size()) {
    return std::nullopt;
  }
  options_.seed = path.seed;
  only_ = &path;
  report r = explore(m);
  only_ = nullptr;
  if (r.unique_states == 0) return std::nullopt;
  return r;
}

void explorer::note(const op_event& e) {
  history_.push_back(e);
  history_code_ = (history_code_ ^ (e.op * 4 + e.thread * 1024ULL + (e.end ? 2U : 1U))) * 0x9E3779B97F4A7C15ULL;
  history_code_ = (history_code_ ^ e.value ^ history_code_ >> 29) * 0xD6E8FEB86659FD93ULL;
}

void explorer::walk(unsigned depth) {
  level& l = *levels_[depth];
  l.front.start(options_.persistency, l.image.data(), machine_.size(), &l.events, options_.rmw_fences);
  l.point = 0;
  const auto count = static_cast<std::uint32_t>(l.events.events.size());
  for (std::uint32_t i = 0; i < count && !stop_; ++i) {
    const event e = l.events.events[i];
    if (depth == 0 && remembering_) remember_place(e, milestone_at(i));
    if (l.front.raises(e)) visit_point(depth, i);
    if (stop_) break;
    l.front.feed(i);
    switch (e.kind) {
      case event_kind::op_begin:
        if (depth != 0) break;
        ++window_.started;
        note({e.offset, e.payload, e.thread, false});
        break;
      case event_kind::op_end:
        if (depth != 0) break;
        ++ended_;
        note({e.offset, e.payload, e.thread, true});
        if (options_.promise_at_op_end) window_.promised = ended_;
        visit_point(depth, i);
        break;
      case event_kind::promise:
        if (depth != 0) break;
        window_.promised = ended_;
        visit_point(depth, i);
        break;
      case event_kind::store:
        // Every store is durable; only non-temporal stores make more than one image.
        if (options_.persistency == model::eadr) {
          l.front.begin_epoch();
          visit_point(depth, i);
        }
        break;
      default:
        break;
    }
  }
  if (!stop_) visit_point(depth, count);
}

// The first points of each fence label, and of all ends of operations, are explored more closely than the rest.
bool explorer::wants_all_tiers(const level& l, std::uint32_t at) {
  if (options_.full_points_max == 0) return true;
  const event* e = at < l.events.events.size() ? &l.events.events[at] : nullptr;
  const bool labelled = e != nullptr && (e->kind == event_kind::fence || e->kind == event_kind::sync);
  const std::size_t label = labelled ? e->place + 1 : 0;
  if (points_of_label_.size() <= label) points_of_label_.resize(label + 1, 0);
  return ++points_of_label_[label] <= options_.full_points_max;
}

void explorer::visit_point(unsigned depth, std::uint32_t at) {
  level& l = *levels_[depth];
  ++l.point;
  if (depth == 0 && at < explored_from_) {
    l.front.begin_epoch();
    return;
  }
  if (depth == 0 && at < resumed_at_) {
    (void)wants_all_tiers(l, at);  // it counts
    l.front.begin_epoch();
    return;
  }
  if (depth == 0 && remembering_) point_ = milestone_at(at);
  if (depth == 0) ++report_.crash_points;
  if (only_ != nullptr && only_->crashes[depth].point != l.point) {
    l.front.begin_epoch();
    return;
  }
  l.at = at;
  window_.history = history_;
  if (depth == 0) window_.event = at;
  l.factors.clear();
  l.ordinals.clear();
  l.unread.clear();
  l.unread_ordinals.clear();
  for (unit* u : l.front.active()) {
    l.front.prepare(*u);
    u->factor = no_factor;
    if (!l.front.matters(*u)) continue;
    u->factor = static_cast<std::uint32_t>(l.factors.size());
    l.ordinals.push_back(u->factor);
    l.factors.push_back(u);
  }
  lay_out(l);
  report_.dirty_units_max = std::max<std::uint64_t>(report_.dirty_units_max, l.factors.size());

  if (only_ != nullptr && only_->crashes[depth].is_explicit) {
    fill(depth, true);
    for (const auto& c : only_->crashes[depth].cuts) {
      if (c.unit < l.factors.size() && c.value < l.factors[c.unit]->choices) set_cut(l, c.unit, c.value);
    }
    try_row(depth, static_cast<tier>(1U << only_->crashes[depth].tier), 0);
    l.front.begin_epoch();
    return;
  }

  // Inside recovery, t1 to t3: enough to find a wrong order, and cheap enough to run everywhere.
  constexpr unsigned cheap = t1_program_order | t2_all_low | t3_pairs;
  const unsigned tiers = depth == 0 && wants_all_tiers(l, at) ? options_.tiers : options_.tiers & cheap;
  if (options_.read_set && only_ == nullptr) leave_out_unread(depth);
  do run_tiers(depth, tiers);
  while (!stop_ && take_in_read(depth));
  l.front.begin_epoch();
}

void explorer::lay_out(level& l) {
  l.cuts.assign(l.factors.size(), 0);
  l.row_hash = 0;
  l.deltas.clear();
  l.highs.clear();
  l.high_deltas.clear();
  for (unit* u : l.factors) {
    l.deltas.push_back(u->all_cached ? u->deltas.data() : nullptr);
    l.highs.push_back(u->choices - 1);
    l.high_deltas.push_back(l.front.delta(*u, u->choices - 1));
  }
}

void explorer::run_tiers(unsigned depth, unsigned tiers) {
  level& l = *levels_[depth];
  if ((tiers & t1_program_order) != 0) program_order(depth);
  if ((tiers & t2_all_low) != 0 && !l.factors.empty() && !stop_) {
    fill(depth, false);
    try_row(depth, t2_all_low, 0);
  }
  if (l.factors.empty() || stop_) return;
  if ((tiers & t6_exhaustive) != 0 && product_of(l) <= options_.exhaustive_max) return every_cut(depth);
  if ((tiers & t3_pairs) != 0) covering_rows(depth, t3_pairs, arrays_.pairs(l.factors.size()));
  if ((tiers & t4_triples) != 0 && !stop_) covering_rows(depth, t4_triples, arrays_.triples(l.factors.size()));
  if ((tiers & t5_single) != 0 && !stop_) single_units(depth);
  if ((tiers & t7_random) != 0 && !stop_) random_rows(depth);
}

// The state of level `depth` is crashed inside its recovery: its image becomes the durable start of the level below.
void explorer::descend(unsigned depth, std::uint64_t hash) {
  level& l = *levels_[depth];
  level& n = *levels_[depth + 1];
  n.changed.clear();
  for_each_patch(depth, [&](std::uint64_t offset, const std::byte* content, std::uint32_t bytes) {
    std::memcpy(machine_.base() + offset, content, bytes);
    for (std::size_t k = depth + 1; k < levels_.size(); ++k) {
      std::memcpy(levels_[k]->image.data() + offset, content, bytes);
    }
    for (std::uint64_t at = offset; at < offset + bytes; at += line_bytes) n.changed.push_back(at / line_bytes);
  });
  n.base_hash = hash;
  walk(depth + 1);
  for (const std::uint64_t line : n.changed) {
    const std::byte* from = l.image.data() + line * line_bytes;
    std::memcpy(machine_.base() + line * line_bytes, from, line_bytes);
    for (std::size_t k = depth + 1; k < levels_.size(); ++k) {
      std::memcpy(levels_[k]->image.data() + line * line_bytes, from, line_bytes);
    }
  }
}

}  // namespace nvm::explore
