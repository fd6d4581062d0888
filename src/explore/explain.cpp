// Explanation of a bad state: the place of the crash, the lost and the kept stores, and the missing order between them.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "explore/explorer.hpp"

namespace nvm::explore {

namespace {

template <class... A>
std::string format(const char* f, A... a) {
  char text[512];
  const int n = std::snprintf(text, sizeof text, f, a...);
  return {text, static_cast<std::size_t>(std::clamp<int>(n, 0, sizeof text - 1))};
}

std::string text_of_site(const nvm_rec_site* s) {
  if (s == nullptr) return "block write";
  if (s->line == 0) return format("%s", s->function);
  return format("%s:%u (%s)", s->file, s->line, s->function);
}

}  // namespace

// Sets lines to high, one after the other, that need not be lost for the failure; then sets lines to low, to find those
// that must have reached the medium. Each change stays only if the state still fails.
explorer::cause explorer::shrink(unsigned depth, tier t) {
  level& l = *levels_[depth];
  cause c{l.cuts, l.cuts};
  // A program-order image is explained by the store at which it stops.
  if (t == t1_program_order) return c;
  constexpr std::size_t tried_max = 512;
  const std::string what = what_;
  const bool twice = std::strcmp(stage_, "second recovery") == 0;
  const bool live_on = std::strcmp(stage_, "life after recovery") == 0;
  const std::size_t n = std::min(l.factors.size(), tried_max);
  const auto try_cut = [&](std::size_t f, std::uint32_t cut) {
    const std::uint32_t former = l.cuts[f];
    l.cuts[f] = cut;
    const bool good = holds_up(depth, false, twice, live_on);
    if (good || (options_.one_of_each && what_ != what)) l.cuts[f] = former;
  };
  for (std::size_t f = 0; f < n; ++f) {
    if (l.cuts[f] != l.factors[f]->choices - 1) try_cut(f, l.factors[f]->choices - 1);
  }
  c.cuts = l.cuts;
  for (std::size_t f = 0; f < n; ++f) {
    if (l.cuts[f] == l.factors[f]->choices - 1) try_cut(f, 0);
  }
  c.needed = l.cuts;
  l.cuts = c.cuts;
  what_ = what;
  return c;
}

state_path explorer::path_to(unsigned depth, const cause* shrunk) const {
  state_path p;
  p.persistency = options_.persistency;
  p.trace_code = trace_code_;
  p.mutation_code = mutation_code_;
  p.seed = options_.seed;
  p.schedule = schedule_;
  for (unsigned d = 0; d <= depth; ++d) {
    const level& l = *levels_[d];
    state_path::crash c;
    c.point = l.point;
    c.tier = l.tier_number;
    c.row = l.row;
    // With read sets the rows depend on earlier reads, so cuts are named at every depth.
    if ((d == depth && shrunk != nullptr) || options_.read_set) {
      const std::vector<std::uint32_t>& cuts = d == depth && shrunk != nullptr ? shrunk->cuts : l.cuts;
      c.is_explicit = true;
      for (std::size_t f = 0; f < l.factors.size(); ++f) {
        if (cuts[f] != l.factors[f]->choices - 1) c.cuts.push_back({l.ordinals[f], cuts[f]});
      }
    } else if (only_ != nullptr) {
      c = only_->crashes[d];
    }
    p.crashes.push_back(std::move(c));
  }
  return p;
}

std::string explorer::text_of_offset(std::uint64_t offset) const {
  std::string text = format("+0x%llx", static_cast<unsigned long long>(offset));
  if (subject_.field) {
    const std::string name = subject_.field(offset);
    if (!name.empty()) text += " " + name;
  }
  return text;
}

std::string explorer::text_of_unit(const level& l, const unit& u) const {
  const char* noun = options_.persistency == model::ssd     ? "sector"
                     : options_.persistency == model::torn8 ? "word"
                                                            : "line";
  return std::string{noun} + " " + text_of_offset(l.front.offset_of(u));
}

std::string explorer::text_of_step(const level& l, const unit& u, std::size_t i) const {
  const step& s = u.steps[i];
  const event& e = l.events.events[s.event];
  if (e.kind == event_kind::write) {
    return format("write of %u B at +0x%llx, %s", e.bytes, static_cast<unsigned long long>(e.offset),
                  machine_.places()[e.place].text().c_str());
  }
  const std::uint64_t offset = l.front.offset_of(u) + s.word * 8U + static_cast<unsigned>(__builtin_ctz(s.mask));
  return format("%d B at %s, stored at %s", __builtin_popcount(s.mask), text_of_offset(offset).c_str(),
                text_of_site(e.site).c_str());
}

std::string explorer::explain_point(unsigned depth) const {
  const level& l = *levels_[depth];
  std::string text =
      format("crash point %llu of the %s: ", static_cast<unsigned long long>(l.point), depth == 0 ? "run" : "recovery");
  if (l.at >= l.events.events.size()) return text + "at its end";
  const event& e = l.events.events[l.at];
  switch (e.kind) {
    case event_kind::fence:
      return text + "just before fence \"" + machine_.places()[e.place].name + "\"";
    case event_kind::sync:
      return text + "just before sync \"" + machine_.places()[e.place].name + "\"";
    case event_kind::rmw:
      return text + "just before the locked operation at " + text_of_site(e.site);
    case event_kind::op_end:
      return text + format("operation %llu has just returned", static_cast<unsigned long long>(e.offset));
    case event_kind::promise:
      return text + "a sync has just returned";
    case event_kind::store:
      return text + "after the store at " + text_of_site(e.site);
    default:
      return text + format("event %u", l.at);
  }
}

// For a program-order image: the last store that is in it and the first that is not.
std::string explorer::explain_order(unsigned depth) const {
  const level& l = *levels_[depth];
  const unit* last_unit = nullptr;
  const unit* next_unit = nullptr;
  std::size_t last = 0;
  std::size_t next = 0;
  for (std::size_t f = 0; f < l.factors.size(); ++f) {
    const unit& u = *l.factors[f];
    for (std::size_t i = 0; i < u.steps.size(); ++i) {
      const std::uint32_t at = u.steps[i].event;
      if (frontier::holds(u, l.cuts[f], i)) {
        if (last_unit == nullptr || at >= last_unit->steps[last].event) last_unit = &u, last = i;
      } else if (next_unit == nullptr || at < next_unit->steps[next].event) {
        next_unit = &u, next = i;
      }
    }
  }
  std::string text = "  no reordering is needed: all stores up to this one are on the medium\n";
  if (last_unit != nullptr) text += "    last store on it:  " + text_of_step(l, *last_unit, last) + "\n";
  if (next_unit != nullptr) text += "    next store, lost:  " + text_of_step(l, *next_unit, next) + "\n";
  return text;
}

std::string explorer::explain_units(unsigned depth, const cause& c) const {
  constexpr std::size_t shown_max = 12;
  const level& l = *levels_[depth];
  std::string lost;
  std::string kept;
  std::size_t lost_count = 0;
  std::size_t kept_count = 0;
  const unit* first_lost = nullptr;
  std::size_t first_lost_step = 0;
  const unit* last_kept = nullptr;
  std::size_t last_kept_step = 0;
  for (std::size_t f = 0; f < l.factors.size(); ++f) {
    const unit& u = *l.factors[f];
    if (c.cuts[f] != u.choices - 1) {
      std::size_t i = 0;
      std::size_t held = 0;
      while (i < u.steps.size() && frontier::holds(u, c.cuts[f], i)) ++i;
      for (std::size_t k = 0; k < u.steps.size(); ++k) held += frontier::holds(u, c.cuts[f], k) ? 1U : 0U;
      if (first_lost == nullptr || u.steps[i].event < first_lost->steps[first_lost_step].event) {
        first_lost = &u, first_lost_step = i;
      }
      if (++lost_count <= shown_max) {
        lost += format("    %s: %zu of %zu stores on the medium\n      first lost: %s; %s\n",
                       text_of_unit(l, u).c_str(), held, u.steps.size(), text_of_step(l, u, i).c_str(),
                       options_.persistency == model::ssd ? "not synced"
                       : l.front.flushed(u, i)            ? "flushed, no fence yet"
                                                          : "not flushed since");
      }
    }
    if (c.needed[f] != 0) {
      std::size_t i = u.steps.size();
      while (i > 0 && !frontier::holds(u, c.needed[f], i - 1)) --i;
      if (i == 0) continue;
      if (last_kept == nullptr || u.steps[i - 1].event > last_kept->steps[last_kept_step].event) {
        last_kept = &u, last_kept_step = i - 1;
      }
      if (++kept_count <= shown_max) {
        kept += format("    %s: last: %s\n", text_of_unit(l, u).c_str(), text_of_step(l, u, i - 1).c_str());
      }
    }
  }
  std::string text;
  if (lost_count != 0) text += "  lost, and that matters:\n" + lost;
  if (lost_count > shown_max) text += format("    and %zu more\n", lost_count - shown_max);
  if (kept_count != 0) text += "  on the medium, and that matters:\n" + kept;
  if (kept_count > shown_max) text += format("    and %zu more\n", kept_count - shown_max);
  if (first_lost != nullptr) {
    const bool flushed = l.front.flushed(*first_lost, first_lost_step);
    const event& a = l.events.events[first_lost->steps[first_lost_step].event];
    const std::string from = text_of_site(a.kind == event_kind::write ? nullptr : a.site);
    if (last_kept != nullptr) {
      const event& b = l.events.events[last_kept->steps[last_kept_step].event];
      text += "  missing edge: " + from + " durable before " +
              text_of_site(b.kind == event_kind::write ? nullptr : b.site) + "; there is no " +
              (options_.persistency == model::ssd ? "sync"
               : flushed                          ? "fence"
                                                  : "flush and fence") +
              " between them\n";
    } else {
      text += "  missing edge: " + from + " durable before the operation returns or is relied on; there is no " +
              (options_.persistency == model::ssd ? "sync"
               : flushed                          ? "fence"
                                                  : "flush and fence") +
              " after it\n";
    }
  }
  return text;
}

std::string explorer::explain(unsigned depth, tier t, const cause& c, const std::string& token) const {
  std::string text = "crash explorer: " + subject_.name + ": model " + name_of(options_.persistency);
  if (!mutation_text_.empty()) text += ", " + mutation_text_;
  text += "\n  " + what_ + "\n";
  for (unsigned d = 0; d <= depth; ++d) text += "  at " + explain_point(d) + "\n";
  text += format("  operations promised: %llu, started: %llu; found by %s\n",
                 static_cast<unsigned long long>(window_.promised), static_cast<unsigned long long>(window_.started),
                 name_of(t));
  text += t == t1_program_order ? explain_order(depth) : explain_units(depth, c);
  return text + "  replay: " + options_.replay_with + token + "\n";
}

}  // namespace nvm::explore
