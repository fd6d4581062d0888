#include "explore/explore.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "explore/explorer.hpp"

namespace nvm::explore {

const std::string& wanted_token() {
  static const std::string token = [] {
    if (const char* e = std::getenv("NVM_REPLAY")) return std::string{e};
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = 0; at < line.size();) {
      const std::string argument = line.c_str() + at;
      at += argument.size() + 1;
      if (argument.starts_with("--replay=")) return argument.substr(9);
      if (argument == "--replay" && at < line.size()) return std::string{line.c_str() + at};
    }
    return std::string{};
  }();
  return token;
}

report explore(const subject& s, const options& o, const mutation& m) {
  explorer e(s, o);
  e.record();
  if (!wanted_token().empty()) {
    const auto path = decode(wanted_token());
    if (!path) {
      std::fprintf(stderr, "explore: '%s' is not a token\n", wanted_token().c_str());
    } else if (path->trace_code == e.trace_code()) {
      if (auto r = e.replay(*path, m)) {
        std::fprintf(stderr, "%s: replayed %s: %s\n", s.name.c_str(), wanted_token().c_str(),
                     r->finds_violation() ? "fails as above" : "passes");
        return std::move(*r);
      }
    }
    return report{};
  }
  return e.explore(m);
}

exploration::exploration(const subject& s, const options& o) : explorer_{std::make_unique<explorer>(s, o)} {
  explorer_->record();
  explorer_->remember();
}
exploration::exploration(exploration&&) noexcept = default;
exploration::~exploration() = default;
report exploration::original() { return explorer_->explore({}); }
report exploration::without(const mutation& m) {
  explorer_->be_quiet();
  return explorer_->explore(m);
}

std::optional<report> replay(const subject& s, std::string_view token, const options& o, const mutation& m) {
  const auto path = decode(token);
  if (!path) {
    std::fprintf(stderr, "explore: '%.*s' is not a token\n", static_cast<int>(token.size()), token.data());
    return std::nullopt;
  }
  options for_token = o;
  for_token.persistency = path->persistency;
  explorer e(s, for_token);
  e.record();
  auto r = e.replay(*path, m);
  if (!r) {
    std::fprintf(stderr, "explore: %s: the token belongs to another subject, mutation or build\n", s.name.c_str());
  }
  return r;
}

verdict digest_history::check(std::uint64_t found, const window& w) const {
  for (std::uint64_t k = w.promised; k <= w.started && k < digests_.size(); ++k) {
    if (digests_[k] == found) return pass();
  }
  char text[160];
  for (std::uint64_t k = 0; k < digests_.size(); ++k) {
    if (digests_[k] != found) continue;
    std::snprintf(text, sizeof text, "the state is that after %llu operations, expected %llu to %llu",
                  static_cast<unsigned long long>(k), static_cast<unsigned long long>(w.promised),
                  static_cast<unsigned long long>(w.started));
    return fault(text);
  }
  std::snprintf(text, sizeof text,
                "the state (digest %016llx) is that after no number of operations, expected %llu to %llu",
                static_cast<unsigned long long>(found), static_cast<unsigned long long>(w.promised),
                static_cast<unsigned long long>(w.started));
  return fault(text);
}

// ---- report ---------------------------------------------------------------------------------------------------------

void report::add(report&& from) {
  unique_states += from.unique_states;
  duplicates += from.duplicates;
  nested_states += from.nested_states;
  crash_points += from.crash_points;
  events += from.events;
  stores += from.stores;
  operations += from.operations;
  dirty_units_max = std::max(dirty_units_max, from.dirty_units_max);
  recovery_steps_max = std::max(recovery_steps_max, from.recovery_steps_max);
  bad_states += from.bad_states;
  unread_units += from.unread_units;
  judged_before += from.judged_before;
  seen_set_resets += from.seen_set_resets;
  budget_spent = budget_spent || from.budget_spent;
  seconds += from.seconds;
  processor_seconds += from.processor_seconds;
  for (unsigned i = 0; i < tier_count; ++i) {
    unique_by_tier[i] += from.unique_by_tier[i];
    bad_by_tier[i] += from.bad_by_tier[i];
  }
  std::move(from.violations.begin(), from.violations.end(), std::back_inserter(violations));
  const auto add_to = [](auto& list, const auto& one, auto same) {
    const auto known = std::find_if(list.begin(), list.end(), same);
    if (known == list.end()) {
      list.push_back(one);
    } else {
      known->count += one.count;
    }
  };
  for (const finding& f : from.findings) {
    add_to(findings, f, [&](const finding& g) { return g.what == f.what && g.place == f.place; });
  }
  for (const place& p : from.places) {
    // By contents, as text() would compare them: a name may stand in several objects.
    add_to(places, p, [&](const place& q) {
      return q.kind == p.kind && q.line == p.line && (q.name == p.name || std::strcmp(q.name, p.name) == 0);
    });
  }
}

bool report::breaks_rule(finding::rule r) const noexcept {
  for (const finding& f : findings) {
    if (f.what == r) return true;
  }
  return false;
}

bool report::breaks_any_rule() const noexcept {
  for (const finding& f : findings) {
    if (f.is_error()) return true;
  }
  return false;
}

double report::states_per_processor_second() const noexcept {
  return processor_seconds > 0 ? static_cast<double>(unique_states) / processor_seconds : 0;
}

std::string report::text() const {
  char line[320];
  std::snprintf(line, sizeof line,
                "%s: model %s: %llu unique states (%llu in recoveries), %llu duplicates, %.2f s, %.0f states/s a core; "
                "%llu events, %llu operations, %llu crash points, at most %llu dirty units\n",
                subject.c_str(), name_of(persistency), static_cast<unsigned long long>(unique_states),
                static_cast<unsigned long long>(nested_states), static_cast<unsigned long long>(duplicates), seconds,
                states_per_processor_second(), static_cast<unsigned long long>(events),
                static_cast<unsigned long long>(operations), static_cast<unsigned long long>(crash_points),
                static_cast<unsigned long long>(dirty_units_max));
  std::string t = line;
  if (judged_before != 0) t += "  judged before, in other explorations: " + std::to_string(judged_before) + "\n";
  for (unsigned i = 0; i < tier_count; ++i) {
    if (unique_by_tier[i] == 0) continue;
    std::snprintf(line, sizeof line, "  %-17s %10llu unique, %llu bad\n", name_of(static_cast<tier>(1U << i)),
                  static_cast<unsigned long long>(unique_by_tier[i]), static_cast<unsigned long long>(bad_by_tier[i]));
    t += line;
  }
  if (budget_spent) t += "  stopped: the budget is spent\n";
  if (seen_set_resets != 0) t += "  the set of states seen was full: some duplicates are counted as unique\n";
  for (const violation& v : violations) t += v.report;
  for (const finding& f : findings) {
    t += std::string{f.is_error() ? "  rule broken: " : "  waste: "} + name_of(f.what) + ": " + f.text + " (" +
         std::to_string(f.count) + " times)\n";
  }
  return t;
}

}  // namespace nvm::explore
