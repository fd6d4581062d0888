#include "explore/concurrent.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "explore/explorer.hpp"
#include "explore/scheduler.hpp"

namespace nvm::explore {

namespace {

// Runs schedules of one program on one explorer.
class player {
 public:
  player(const concurrent& c, const options& o) : program_{c}, base_{with_run(c.base)}, explorer_{base_, o} {
    explorer_.keep_guard();
  }

  // Records one schedule; a sentence if the run itself went wrong.
  verdict play(chooser& c, bool first) {
    verdict wrong;
    explorer_.record([&](machine& m) {
      guard& g = explorer_.keep_guard();
      const bool returned = g.run(steps_max, [&] {
        if (program_.start) program_.start(m);
        // The work of start() was explored with the first schedule.
        if (!first) m.explore_from_here();
        scheduler_.run(m, program_.threads, c, program_.on_switch);
        if (program_.finish) program_.finish(m);
      });
      scheduler_.abandon();
      if (!returned) wrong = fault("the run " + g.why());
    });
    explorer_.of_schedule(scheduler_.turns());
    return wrong;
  }
  explorer& on() noexcept { return explorer_; }
  [[nodiscard]] const std::vector<state_path::turn>& turns() const noexcept { return scheduler_.turns(); }

 private:
  static constexpr std::int64_t steps_max = INT64_MAX / 2;  // the scheduler counts

  static subject with_run(const subject& s) {
    subject copy = s;
    copy.run = [](machine&) {};
    return copy;
  }
  const concurrent& program_;
  const subject base_;
  explorer explorer_;
  scheduler scheduler_;
};

report failed_run(const concurrent& c, const options& o, const std::string& what, const state_path& path) {
  report r;
  r.bad_states = 1;
  violation v;
  v.what = what;
  v.persistency = o.persistency;
  v.token = encode(path);
  v.report =
      "crash explorer: " + c.base.name + ": " + what + ", without any crash\n  replay: NVM_REPLAY=" + v.token + "\n";
  if (o.print_violations) std::fprintf(stderr, "%s\n", v.report.c_str());
  r.violations.push_back(std::move(v));
  return r;
}

}  // namespace

schedule_report explore_schedules(const concurrent& c, const schedule_options& s, const options& o, const mutation& m) {
  schedule_report all;
  all.total.subject = c.base.name;
  all.total.persistency = o.persistency;
  if (!wanted_token().empty()) {
    if (auto r = replay(c, wanted_token(), o, m)) {
      std::fprintf(stderr, "%s: replayed %s: %s\n", c.base.name.c_str(), wanted_token().c_str(),
                   r->finds_violation() ? "fails as above" : "passes");
      all.total = std::move(*r);
      all.schedules = 1;
    }
    return all;
  }
  player p(c, o);
  std::unique_ptr<chooser> by;
  if (s.priority_runs != 0) {
    by = std::make_unique<priority_chooser>(s.seed, s.priority_depth, s.priority_runs);
  } else {
    by = std::make_unique<bounded_chooser>(s.preemptions);
  }
  for (bool more = true; more; more = by->next()) {
    const verdict wrong = p.play(*by, all.schedules == 0);
    ++all.schedules;
    all.choices_max = std::max<std::uint64_t>(all.choices_max, p.turns().size());
    if (wrong) {
      state_path path;
      path.persistency = o.persistency;
      path.trace_code = p.on().trace_code();
      path.mutation_code = m.code();
      path.seed = o.seed;
      path.schedule = p.turns();
      all.total.add(failed_run(c, o, *wrong, path));
    } else {
      all.total.add(p.on().explore(m, all.schedules != 1));
    }
    if (o.violations_max != 0 && all.total.bad_states >= o.violations_max) return all;
    const bool spent = (o.states_max != 0 && all.total.unique_states >= o.states_max) ||
                       (o.seconds_max > 0 && all.total.seconds > o.seconds_max) ||
                       (s.schedules_max != 0 && all.schedules >= s.schedules_max);
    if (spent) {
      all.total.budget_spent = true;
      return all;
    }
  }
  all.all = s.priority_runs == 0;
  return all;
}

std::optional<report> replay(const concurrent& c, std::string_view token, const options& o, const mutation& m) {
  const auto path = decode(token);
  if (!path || !path->schedule) {
    std::fprintf(stderr, "explore: '%.*s' is not a token of a schedule\n", static_cast<int>(token.size()),
                 token.data());
    return std::nullopt;
  }
  options for_token = o;
  for_token.persistency = path->persistency;
  player p(c, for_token);
  fixed_chooser by(*path->schedule);
  const verdict wrong = p.play(by, true);
  if (wrong && path->crashes.empty()) return failed_run(c, for_token, *wrong, *path);
  auto r = wrong ? std::nullopt : p.on().replay(*path, m);
  if (!r) std::fprintf(stderr, "explore: %s: the token belongs to another program or build\n", c.base.name.c_str());
  return r;
}

std::string schedule_report::text() const {
  return std::to_string(schedules) + (all ? " schedules, all within the bound; " : " schedules; ") + total.text();
}

}  // namespace nvm::explore
