// One state: built, recovered, judged, put back.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "explore/explorer.hpp"

namespace nvm::explore {

namespace {
std::uint64_t mix(std::uint64_t h, std::uint64_t v) noexcept {
  h ^= v + 0x9E3779B97F4A7C15ULL + (h << 12) + (h >> 4);
  return h * 0xD6E8FEB86659FD93ULL;
}
}  // namespace

void explorer::try_row(unsigned depth, tier t, std::uint64_t row) {
  level& l = *levels_[depth];
  const auto number = static_cast<unsigned>(__builtin_ctz(t));
  if (only_ != nullptr) {
    const auto& wanted = only_->crashes[depth];
    if (wanted.tier != number || (!wanted.is_explicit && wanted.row != row)) return;
  }
  std::uint64_t hash = l.base_hash + l.front.hash() + l.row_hash;
  for (unit* u : l.unread) hash += l.front.delta(*u, u->choices - 1);
  bool fresh = true;
  if (only_ == nullptr) {
    // The same bytes with another obligation are another state.
    const std::uint64_t key = mix(mix(hash, window_.promised), history_code_);
    fresh = is_new(key);
    // A state first met at the deepest level, where recovery is not crashed, is run again at a higher one, but is no
    // new state.
    const bool deepest = depth + 1 == levels_.size();
    if (deepest ? !fresh : !is_new(~key)) {
      ++report_.duplicates;
      return;
    }
  }
  l.tier_number = number;
  l.row = row;
  if (fresh) {
    ++report_.unique_states;
    ++report_.unique_by_tier[number];
    if (depth != 0) ++report_.nested_states;
  }
  execute(depth, t, hash);
}

void explorer::execute(unsigned depth, tier t, std::uint64_t hash) {
  ++executed_;
  const bool replaying = only_ != nullptr;
  const bool last = !replaying || depth + 1 == only_->crashes.size();
  const bool crash_recovery =
      depth + 1 < levels_.size() && (replaying ? !last : executed_ % options_.nested_every == 0);
  const bool twice = replaying ? last : options_.idempotence_every != 0 && executed_ % options_.idempotence_every == 0;
  const bool live_on = subject_.after && (replaying ? last : executed_ % options_.after_every == 0);
  if (replaying && !last) --report_.unique_states;

  const bool good = holds_up(depth, crash_recovery, twice, live_on);
  report_.recovery_steps_max = std::max(report_.recovery_steps_max, static_cast<std::uint64_t>(guard_->steps()));
  if (!good && last) {
    on_bad_state(depth, t);
  } else if (crash_recovery) {
    const auto& events = levels_[depth + 1]->events.events;
    if (remembering_) {
      for (const event& e : events) remember_place(e, point_);
    }
    const bool stores = std::any_of(events.begin(), events.end(), [](const event& e) {
      return e.kind == event_kind::store || e.kind == event_kind::write;
    });
    if (stores && !stop_) descend(depth, hash);
  }
  if (!stop_) stop_ = !keep_going();
}

bool explorer::holds_up(unsigned depth, bool record, bool twice, bool live_on) {
  machine_.forget_touched();
  patch(depth);
  window_.depth = depth;
  if (options_.on_image) options_.on_image(machine_, window_);
  if (options_.read_set) machine_.forget_reads();
  if (record) levels_[depth + 1]->events.clear();
  verdict_.reset();
  stage_ = "recovery";
  bool same = true;
  const bool returned = guard_->run(options_.steps_max, [&] {
    if (subject_.before) {
      stage_ = "before recovery";
      verdict_ = subject_.before(machine_, window_);
      if (verdict_) return;
      stage_ = "recovery";
    }
    machine_.record_into(record ? &levels_[depth + 1]->events : nullptr);
    verdict_ = subject_.recover(machine_);
    machine_.record_into(nullptr);
    machine_.on_read = nullptr;  // set for the rule about reads of recovery, by leave_out_unread()
    if (verdict_) return;
    if (twice) {
      stage_ = "second recovery";
      same = same_after_second_recovery(depth);
      if (verdict_ || !same) return;
    }
    stage_ = "oracle";
    verdict_ = subject_.oracle(machine_, window_);
    if (verdict_ || !live_on) return;
    stage_ = "life after recovery";
    verdict_ = subject_.after(machine_, window_);
  });
  machine_.record_into(nullptr);
  if (options_.read_set) note_reads(depth);
  put_back(depth);
  if (!returned) {
    what_ = std::string{stage_} + " " + guard_->why();
  } else if (verdict_) {
    what_ = std::string{stage_} + ": " + *verdict_;
  }
  return returned && !verdict_;
}

void explorer::patch(unsigned depth) {
  for_each_patch(depth, [this](std::uint64_t offset, const std::byte* content, std::uint32_t bytes) {
    std::memcpy(machine_.base() + offset, content, bytes);
    machine_.touch(offset, bytes);
  });
}

void explorer::put_back(unsigned depth) {
  const std::byte* image = levels_[depth]->image.data();
  for (const std::uint32_t line : machine_.touched()) {
    std::memcpy(machine_.base() + std::uint64_t{line} * line_bytes, image + std::uint64_t{line} * line_bytes,
                line_bytes);
  }
  // A store that the pass did not see would poison every later state: checked now and then.
  constexpr std::uint64_t first_look = 16;
  constexpr std::uint64_t look_every = 1 << 16;
  if (executed_ != first_look && executed_ % look_every != 0) return;
  if (executed_ == checked_at_) return;
  checked_at_ = executed_;
  if (std::memcmp(machine_.base(), image, machine_.size()) == 0) return;
  std::uint64_t at = 0;
  while (machine_.base()[at] == image[at]) ++at;
  throw std::logic_error("explore: " + subject_.name + ": the byte at offset " + std::to_string(at) +
                         " was stored by code that the recording pass did not compile");
}

// recover(recover(x)) == recover(x), outside the volatile bytes.
bool explorer::same_after_second_recovery(unsigned depth) {
  const std::size_t before = machine_.touched().size();
  if (snapshot_.size() < before * line_bytes) snapshot_.resize(before * line_bytes * 2);
  for (std::size_t i = 0; i < before; ++i) {
    std::memcpy(snapshot_.data() + i * line_bytes, machine_.base() + std::uint64_t{machine_.touched()[i]} * line_bytes,
                line_bytes);
  }
  verdict_ = subject_.recover(machine_);
  if (verdict_) return true;
  const auto touched = machine_.touched();
  const std::byte* image = levels_[depth]->image.data();
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const std::uint64_t offset = std::uint64_t{touched[i]} * line_bytes;
    // A line first written by the second recovery held the durable bytes before it.
    const std::byte* once = i < before ? snapshot_.data() + i * line_bytes : image + offset;
    const std::byte* now = machine_.base() + offset;
    if (std::memcmp(once, now, line_bytes) == 0) continue;
    for (std::size_t b = 0; b < line_bytes; ++b) {
      if (once[b] == now[b]) continue;
      const std::uint64_t at = offset + b;
      const bool free = std::any_of(subject_.volatile_bytes.begin(), subject_.volatile_bytes.end(),
                                    [at](const extent& e) { return at - e.offset < e.bytes; });
      if (free) continue;
      verdict_ = "it changes the byte at " + text_of_offset(at) + " again: recovery is not idempotent";
      return false;
    }
  }
  return true;
}

bool explorer::keep_going() noexcept {
  const std::uint64_t found = options_.one_of_each ? report_.violations.size() : report_.bad_states;
  if (options_.violations_max != 0 && found >= options_.violations_max) return false;
  if (options_.states_max != 0 && report_.unique_states >= options_.states_max) {
    report_.budget_spent = true;
    return false;
  }
  if (options_.seconds_max > 0 && executed_ % options_.clock_every == 0 &&
      std::chrono::duration<double>(clock::now() - begun_).count() > options_.seconds_max) {
    report_.budget_spent = true;
    return false;
  }
  return true;
}

void explorer::on_bad_state(unsigned depth, tier t) {
  constexpr std::size_t kept_max = 16;
  ++report_.bad_states;
  ++report_.bad_by_tier[__builtin_ctz(t)];
  if (options_.one_of_each) {
    for (violation& v : report_.violations) {
      if (v.what != what_) continue;
      ++v.count;
      return;
    }
  }
  if (report_.violations.size() >= kept_max) return;
  violation v;
  v.what = what_;
  v.persistency = options_.persistency;
  v.found_by = t;
  v.depth = depth;
  v.promised = window_.promised;
  v.started = window_.started;
  const std::vector<std::uint32_t> cuts = levels_[depth]->cuts;
  const cause c = shrink(depth, t);
  const state_path shrunk = path_to(depth, &c);
  v.token = encode(shrunk);
  if (v.token.empty()) v.token = encode(path_to(depth, nullptr));
  levels_[depth]->cuts = cuts;
  v.report = explain(depth, t, c, v.token);
  if (options_.print_violations) std::fprintf(stderr, "%s\n", v.report.c_str());
  if (options_.on_violation) options_.on_violation(v);
  report_.violations.push_back(std::move(v));
}

}  // namespace nvm::explore
