#include "harness/runner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "harness/machine.hpp"
#include "harness/primitive.hpp"
#include "harness/result.hpp"
#include "harness/step_counter.hpp"
#include "harness/sync_counter.hpp"
#include "harness/workers.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t counted_ops_max = 512;

struct entry {
  system_result result;
  std::unique_ptr<contestant> system;
};

// Steps operations first, first + 1, ... of thread 0 until `steps` instructions are spent (ops == 0: decides how many),
// or exactly `ops` of them.
op_counts count_instructions(workers& team, contestant& c, std::uint64_t first, std::uint64_t ops,
                             std::uint64_t steps) {
  op_counts per_op;
  team.run([&](unsigned thread) {
    if (thread == 0) c.prepare(0, first, counted_ops_max);
  });
  const step_counts before = step_counter::counts();
  const std::optional<std::uint64_t> logged_before = c.bytes_logged();
  team.run([&](unsigned thread) {
    if (thread != 0) return;
    while (per_op.ops < counted_ops_max &&
           (ops != 0 ? per_op.ops < ops
                     : per_op.ops == 0 || step_counter::counts().instructions - before.instructions < steps)) {
      std::optional<step_counter> stepping;
      if (c.writes(0, first + per_op.ops)) stepping.emplace();
      c.run(0, first + per_op.ops, 1);
      ++per_op.ops;
    }
  });
  const step_counts raw = step_counter::counts() - before;
  const std::optional<std::uint64_t> logged_after = c.bytes_logged();
  // The rest of what was prepared is done without counting: no operation may be left out of a stream.
  team.run([&](unsigned thread) {
    if (thread == 0) c.run(0, first + per_op.ops, counted_ops_max - per_op.ops);
  });
  const auto n = static_cast<double>(per_op.ops);
  per_op.fences = static_cast<double>(raw.fences()) / n;
  per_op.waiting_fences = static_cast<double>(raw.waiting_fences) / n;
  per_op.waiting_locks = static_cast<double>(raw.waiting_locks) / n;
  per_op.lines = raw.lines() / n;
  per_op.clwb = static_cast<double>(raw.clwb) / n;
  per_op.clflushopt = static_cast<double>(raw.clflushopt) / n;
  per_op.clflush = static_cast<double>(raw.clflush) / n;
  per_op.streamed_lines = static_cast<double>(raw.streamed_bytes) / 64 / n;
  per_op.instructions = static_cast<double>(raw.instructions) / n;
  if (raw.dirty_bytes != 0) per_op.dirty_bytes = static_cast<double>(raw.dirty_bytes) / n;
  if (logged_before && logged_after) per_op.logged_bytes = static_cast<double>(*logged_after - *logged_before) / n;
  return per_op;
}

// As many operations without counting.
void run_uncounted(workers& team, contestant& c, std::uint64_t first) {
  team.run([&](unsigned thread) {
    if (thread != 0) return;
    c.prepare(0, first, counted_ops_max);
    c.run(0, first, counted_ops_max);
  });
}

// The floor (payload and one fence an operation), and for each durable system the limit with as many lines and fences.
std::vector<entry> make_limits(const benchmark& b, const options& o, const std::vector<entry>& systems) {
  std::vector<entry> limits;
  const payload_shape& payload = *b.payload;
  auto add = [&](const std::string& name, const std::string& of, const primitive_work& work) {
    entry e;
    e.result.name = name;
    e.result.role = role::limit;
    e.result.limit_of = of;
    e.system = make_primitive(o.directory, b.threads, work, o.slower);
    limits.push_back(std::move(e));
  };
  const double payload_lines = payload.pieces * static_cast<double>(payload.lines_per_piece);
  if (payload_lines > 0) add("primitive: payload only", "", {payload, 0, 0, std::min(1.0, payload.pieces)});
  for (const entry& e : systems)
    if (e.result.counts) {
      const op_counts& c = *e.result.counts;
      // Stepping sees the thread that works, the library's count what it does in the background, too.
      const own_counts own = e.result.own.value_or(own_counts{});
      const double lines = std::max(c.lines, own.lines);
      add("primitive: lines of " + e.result.name, e.result.name,
          {payload, std::max(0.0, lines - payload_lines - c.streamed_lines), c.streamed_lines,
           std::max(c.waiting_fences, own.fences)});
    }
  return limits;
}

// Each operation by itself.
workers::timing run_timing_operations(workers& team, const benchmark& b, entry& e, std::uint64_t first) {
  std::vector<histogram> latencies(b.threads);
  const workers::timing time = team.run([&](unsigned thread) {
    for (std::uint64_t i = first; i < first + b.ops; ++i) {
      const std::uint64_t start = wall_ns();
      e.system->run(thread, i, 1);
      latencies[thread].add(wall_ns() - start);
    }
  });
  for (const histogram& h : latencies) e.result.latency.add(h);
  return time;
}

void measure(workers& team, const benchmark& b, entry& e, std::uint64_t first) {
  team.run([&](unsigned thread) { e.system->prepare(thread, first, b.ops); });
  const std::uint64_t waits_before = durable_waits();
  const std::uint64_t bytes_before = device_bytes();
  const std::uint64_t aborts_before = e.system->aborts();
  workers::timing time{};
  double ops = 0;
  do {
    const workers::timing round = b.latency ? run_timing_operations(team, b, e, first)
                                            : team.run([&](unsigned thread) { e.system->run(thread, first, b.ops); });
    time.wall_ns += round.wall_ns;
    time.cpu_ns += round.cpu_ns;
    ops += static_cast<double>(b.ops);
  } while (static_cast<double>(time.wall_ns) < b.seconds_min * 1e9);
  const double units = ops * static_cast<double>(b.units_per_op);
  e.result.wall_ns.push_back(static_cast<double>(time.wall_ns) / units);
  e.result.cpu_ns.push_back(static_cast<double>(time.cpu_ns) / units / b.threads);
  e.result.waits.push_back(static_cast<double>(durable_waits() - waits_before) / units / b.threads);
  e.result.device_bytes.push_back(static_cast<double>(device_bytes() - bytes_before) / units / b.threads);
  e.result.aborts.push_back(static_cast<double>(e.system->aborts() - aborts_before) / ops / b.threads);
}

// The same warm-up and one repetition by a copy of the system whose library counts.
own_counts count_by_library(workers& team, const benchmark& b, const system_under_test& s) {
  const std::unique_ptr<contestant> c = s.make_counting();
  std::optional<library_counts> before;  // what prepare() does is not counted
  const auto repeat = [&](std::uint64_t first, std::uint64_t ops) {
    team.run([&](unsigned thread) { c->prepare(thread, first, ops); });
    before = c->counts();
    team.run([&](unsigned thread) { c->run(thread, first, ops); });
  };
  repeat(0, b.warmup_ops);
  repeat(b.warmup_ops, b.ops);
  const std::optional<library_counts> after = c->counts();
  if (!before || !after) throw std::runtime_error(s.name + " does not count");
  const auto per_op = [&](std::uint64_t library_counts::* field) {
    return static_cast<double>((*after).*field - (*before).*field) / static_cast<double>(b.ops) / b.threads;
  };
  return {per_op(&library_counts::fences), per_op(&library_counts::lines), per_op(&library_counts::dirty_bytes),
          per_op(&library_counts::logged_bytes)};
}

void require_equal_work(const std::string& name, const std::vector<entry>& entries) {
  const entry* reference = nullptr;
  for (const entry& e : entries) {
    if (e.result.digest == 0) continue;
    if (reference == nullptr) reference = &e;
    if (e.result.digest != reference->result.digest)
      throw std::runtime_error(fmt::format("{}: {} did other work than {}: digest {:016x} instead of {:016x}", name,
                                           e.result.name, reference->result.name, e.result.digest,
                                           reference->result.digest));
  }
}

benchmark_result run_one(const benchmark& b, const options& o) {
  workers team(b.threads);
  std::vector<entry> entries;
  for (const system_under_test& s : b.systems) {
    entry e;
    if (s.make_counting && o.count_steps != 0) e.result.own = count_by_library(team, b, s);
    e.result.name = s.name;
    e.result.role = s.role;
    e.system = s.make();
    entries.push_back(std::move(e));
  }

  std::uint64_t next = 0;
  auto warm_up = [&](entry& e, std::uint64_t first) {
    team.run([&](unsigned thread) {
      e.system->prepare(thread, first, b.warmup_ops);
      e.system->run(thread, first, b.warmup_ops);
    });
  };
  for (entry& e : entries) warm_up(e, next);
  next += b.warmup_ops;

  if (b.payload) {
    if (o.count_steps != 0 && can_step()) {
      std::uint64_t ops = 0;  // the first system decides for all: they must do the same
      for (entry& e : entries) {
        if (e.result.own && !o.limits) {  // the library has counted itself, and no limit needs to know more
          run_uncounted(team, *e.system, next);
          continue;
        }
        op_counts counts = count_instructions(team, *e.system, next, ops, o.count_steps);
        ops = counts.ops;
        e.result.counts = counts;
      }
      next += counted_ops_max;
    }
    std::vector<entry> limits;
    if (o.limits) limits = make_limits(b, o, entries);
    for (entry& e : limits) {
      warm_up(e, next);
      entries.push_back(std::move(e));
    }
  }

  for (unsigned repetition = 0; repetition < o.runs; ++repetition) {
    for (entry& e : entries) measure(team, b, e, next);
    next += b.ops;
  }

  if (b.latency_last) {
    for (entry& e : entries) {
      if (e.result.role == role::limit) continue;
      team.run([&](unsigned thread) { e.system->prepare(thread, next, b.ops); });
      run_timing_operations(team, b, e, next);
    }
    next += b.ops;
  }

  for (entry& e : entries) e.result.digest = e.system->work_digest();
  require_equal_work(b.name, entries);
  benchmark_result result{b, {}};
  for (entry& e : entries) result.systems.push_back(std::move(e.result));
  return result;
}

}  // namespace

runner::runner(const options& o) : options_(o) {
  report_["machine"] = describe_machine(o.directory, o.emulated);
  // Of bench/run.sh, options and all.
  if (const char* command = std::getenv("HOLDFAST_BENCH_COMMAND")) report_["command"] = command;
  report_["quick"] = o.quick;
  report_["runs"] = o.runs;
  report_["benchmarks"] = nlohmann::ordered_json::array();
  const auto& m = report_["machine"];
  fmt::print("{} | {} CPUs | {} | {} on {} | commit {} | {} {}\n", m["cpu"].get<std::string>(), m["cpus"].dump(),
             m["kernel"].get<std::string>(), o.directory, m["medium"].get<std::string>(),
             m["commit"].get<std::string>(), m["compiler"].get<std::string>(), m["build"].get<std::string>());
}

void runner::run(const benchmark& all) {
  if (!options_.selects(all.name)) return;
  benchmark b = all;
  std::erase_if(b.systems, [&](const system_under_test& s) {
    return options_.systems.empty() ? s.role == role::variant : !options_.selects_system(s.name);
  });
  for (system_under_test& s : b.systems) s.role = s.role == role::variant ? role::subject : s.role;
  if (b.systems.empty()) return;
  try {
    const benchmark_result result = run_one(b, options_);
    print_table(result);
    report_["benchmarks"].push_back(to_json(result));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}, {} threads: {}\n", b.name, b.threads, error.what());
    failed_ = true;
  }
  std::fflush(stdout);
}

void runner::add(nlohmann::ordered_json result) { report_["benchmarks"].push_back(std::move(result)); }

int runner::finish() {
  if (!options_.json.empty()) {
    std::ofstream file(options_.json);
    file << report_.dump(2) << '\n';
    file.close();
    if (!file) {
      fmt::print(stderr, "cannot write {}\n", options_.json);
      failed_ = true;
    }
  }
  if (report_["benchmarks"].empty() && !failed_) {
    fmt::print(stderr, "no benchmark's name contains '{}'\n", options_.filter);
    failed_ = true;
  }
  return failed_ ? 1 : 0;
}

void runner::attempt(const std::function<void()>& measure) {
  try {
    measure();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    failed_ = true;
  }
}

int answer(int argc, char** argv, const defaults& fallback, const std::function<void(runner& r, options& o)>& measure) {
  options o = parse_options(argc, argv, fallback);
  runner r(o);
  r.attempt([&] { measure(r, o); });
  return r.finish();
}

}  // namespace nvm::bench
