// Lock-free structures beside their log-based twins and their volatile originals: figures 5 to 10 of the log-free
// paper, and what an operation costs.
#include <fmt/core.h>

#include <array>
#include <optional>

#include "harness/runner.hpp"
#include "harness/step_counter.hpp"
#include "lockfree/maps.hpp"
#include "lockfree/recovery.hpp"

namespace nvm::bench {

const char* name_of(shape s) noexcept {
  constexpr const char* names[] = {"list", "hash", "skiplist", "bst"};
  return names[static_cast<unsigned>(s)];
}
const char* name_of(variant v) noexcept {
  constexpr const char* names[] = {"link-and-persist",  "link cache",    "redo log",
                                   "redo log, stamped", "volatile",      "each recorded by itself",
                                   "as in the paper",   "volatile links"};
  return names[static_cast<unsigned>(v)];
}
role role_of(variant v) noexcept {
  switch (v) {
    case variant::link_and_persist:
    case variant::link_cache:
    case variant::as_in_paper:
    case variant::volatile_links:
      return role::subject;
    default:
      return role::peer;
  }
}
std::unique_ptr<measured_map> make_map(const map_settings& s) {
  if (s.variant == variant::volatile_only) return make_volatile_map(s);
  return s.write_ns != 0 ? make_emulated_map(s) : make_durable_map(s);
}

namespace {

constexpr shape shapes[] = {shape::list, shape::hash, shape::skip_list, shape::tree};

// Operations that take about as long for each size.
std::uint64_t ops_for(const options& o, const map_settings& s) {
  std::uint64_t full = s.size > 500'000 ? 300'000 : 600'000;
  if (s.shape == shape::list) full = std::max<std::uint64_t>(4'000, 60'000'000 / (s.size + 64));
  if (s.write_ns != 0) full = std::min<std::uint64_t>(full, std::max<std::uint64_t>(4'000, 100'000'000 / s.write_ns));
  return o.full_or_quick<std::uint64_t>(full, 2'000);
}

benchmark map_benchmark(const options& o, const std::string& name, map_settings s,
                        std::initializer_list<variant> variants) {
  benchmark b;
  b.name = fmt::format("{}-{}-{}", name, name_of(s.shape), s.size);
  if (s.write_ns != 0) b.name += fmt::format("-{}ns", s.write_ns);
  b.unit = "operation";
  b.threads = s.threads;
  b.ops = ops_for(o, s);
  b.warmup_ops = b.ops / 2;
  b.parameters = {{"shape", name_of(s.shape)},
                  {"size", s.size},
                  {"look_ups_percent", s.look_ups_percent},
                  {"write_ns", s.write_ns}};
  // One operation in two finds its key there, or missing, as it needs it.
  if (s.write_ns == 0) b.payload = {0.5 * (100 - s.look_ups_percent) / 100, 1, s.size * 64};
  s.directory = o.directory;
  for (const variant v : variants) {
    if (v == variant::volatile_links && s.shape == shape::tree) continue;
    s.variant = v;
    b.systems.push_back({name_of(v), role_of(v), [s] { return make_map(s); }});
  }
  return b;
}

std::vector<std::uint64_t> sizes_of(shape s, const options& o) {
  if (o.quick) return {128};
  if (s == shape::list) return {128, 1'024, 4'096};
  return {128, 1'024, 65'536, 1'048'576, 4'194'304};
}

// ---- what an operation costs: instructions that make durable, by kind of operation ----

struct cost {
  std::uint64_t ops = 0;
  double fences = 0, waiting_locks = 0, lines = 0, instructions = 0;
};

template <class Operation>
void count(cost& into, Operation&& operation) {
  const step_counts before = step_counter::counts();
  bool done = false;
  {
    const step_counter stepping;
    done = operation();
  }
  if (!done) return;
  const step_counts raw = step_counter::counts() - before;
  ++into.ops;
  into.fences += static_cast<double>(raw.fences());
  into.waiting_locks += static_cast<double>(raw.waiting_locks);
  into.lines += raw.lines();
  into.instructions += static_cast<double>(raw.instructions);
}

nlohmann::ordered_json measure_costs(const options& o, shape what, std::uint64_t size) {
  const std::uint64_t rounds = o.full_or_quick<std::uint64_t>(600, 3);
  nlohmann::ordered_json j{{"name", fmt::format("costs-{}-{}", name_of(what), size)},
                           {"threads", 1},
                           {"parameters", {{"shape", name_of(what)}, {"size", size}}},
                           {"systems", nlohmann::ordered_json::array()}};
  for (const variant v : {variant::link_and_persist, variant::link_cache, variant::volatile_links, variant::as_in_paper,
                          variant::redo_settled, variant::redo_stamped}) {
    if (v == variant::volatile_links && what == shape::tree) continue;
    map_settings s;
    s.shape = what;
    s.variant = v;
    s.size = size;
    s.directory = o.directory;
    const auto map = make_map(s);
    map->run(0, 0, 4 * size + 1000);  // places are scattered as they will be
    std::array<cost, 4> costs;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const auto key_of = [&](std::uint64_t n) { return mix(i * 4 + n) % (2 * size); };
      count(costs[0], [&] { return map->insert(0, key_of(0), i); });
      count(costs[1], [&] { return map->remove(0, key_of(1)); });
      count(costs[2], [&] { return map->replace(0, key_of(2), i); });
      count(costs[3], [&] { return map->look_up(0, key_of(3)); });
    }
    nlohmann::ordered_json system{{"name", name_of(v)}, {"role", role_of(v) == role::subject ? "subject" : "peer"}};
    constexpr const char* names[] = {"insert", "remove", "replace", "look-up"};
    for (std::size_t k = 0; k < costs.size(); ++k) {
      const cost& c = costs[k];
      if (c.ops == 0) continue;
      const auto n = static_cast<double>(c.ops);
      system[names[k]] = {{"operations", c.ops},
                          {"fences", c.fences / n},
                          {"waiting_locks", c.waiting_locks / n},
                          {"lines", c.lines / n},
                          {"instructions", c.instructions / n}};
      fmt::print(
          "{} of {}, {}, {}: fences {:.2f}, locked instructions that wait {:.2f}, lines {:.2f}, instructions "
          "{:.0f}\n",
          name_of(what), size, name_of(v), names[k], c.fences / n, c.waiting_locks / n, c.lines / n,
          c.instructions / n);
    }
    j["systems"].push_back(system);
  }
  std::fflush(stdout);
  return j;
}

// ---- Fig. 9a ----

nlohmann::ordered_json measure_hits(const options& o, shape what, std::uint64_t size, variant v) {
  map_settings s;
  s.shape = what;
  s.variant = v;
  s.size = size;
  s.directory = o.directory;
  const auto map = make_map(s);
  const std::uint64_t ops = std::max<std::uint64_t>(ops_for(o, s), 2 * size);
  map->run(0, 0, ops);
  const area_hits before = map->hits();
  map->run(0, ops, ops);
  const area_hits after = map->hits();
  const auto percent = [](std::uint64_t hits, std::uint64_t all) {
    return all == 0 ? 100.0 : 100.0 * static_cast<double>(hits) / static_cast<double>(all);
  };
  const double allocations =
      percent(after.allocation_hits - before.allocation_hits, after.allocations - before.allocations);
  const double unlinks = percent(after.unlink_hits - before.unlink_hits, after.unlinks - before.unlinks);
  fmt::print("areas, {} of {}, {}: allocations hit {:.2f} % of {}, unlinks {:.2f} % of {}\n", name_of(what), size,
             name_of(v), allocations, after.allocations - before.allocations, unlinks, after.unlinks - before.unlinks);
  std::fflush(stdout);
  return {{"name", fmt::format("hits-{}-{}-{}", name_of(what), size, v == variant::as_in_paper ? "paper" : "ours")},
          {"threads", 1},
          {"parameters", {{"shape", name_of(what)}, {"size", size}, {"variant", name_of(v)}}},
          {"systems",
           {{{"name", name_of(v)},
             {"role", "subject"},
             {"allocation_hits_percent", allocations},
             {"unlink_hits_percent", unlinks}}}}};
}

void run_maps(runner& r, const options& o) {
  const auto all = {variant::link_and_persist, variant::link_cache,   variant::volatile_links,
                    variant::redo_settled,     variant::redo_stamped, variant::volatile_only};
  for (const shape what : shapes) {
    for (const std::uint64_t size : sizes_of(what, o)) {
      map_settings s;
      s.shape = what;
      s.size = size;
      for (const unsigned threads : o.threads) {
        s.threads = threads;
        s.look_ups_percent = 0;
        r.run(map_benchmark(o, "updates", s, all));
        if (size > 2'000'000) break;  // shown once: filling them takes longer than all else
        s.look_ups_percent = 90;
        r.run(map_benchmark(o, "reads", s, all));
      }
    }
  }
}

void run_latencies(runner& r, const options& o) {
  for (const shape what : shapes) {
    for (const std::uint64_t ns : {125, 500, 1'000, 5'000, 10'000}) {
      map_settings s;
      s.shape = what;
      s.size = what == shape::list ? 128 : 1'024;
      s.write_ns = ns;
      r.run(map_benchmark(
          o, "latency", s,
          {variant::link_and_persist, variant::link_cache, variant::redo_settled, variant::redo_stamped}));
    }
  }
}

void run_areas(runner& r, const options& o) {
  for (const shape what : {shape::hash, shape::skip_list}) {
    for (const std::uint64_t size : sizes_of(what, o)) {
      map_settings s;
      s.shape = what;
      s.size = size;
      r.run(map_benchmark(o, "areas", s, {variant::link_and_persist, variant::as_in_paper, variant::one_by_one}));
      for (const variant v : {variant::link_and_persist, variant::as_in_paper}) {
        if (o.selects("hits")) r.add(measure_hits(o, what, size, v));
      }
    }
  }
}

void run_costs(runner& r, const options& o) {
  if (o.count_steps != 0 && can_step()) {
    for (const shape what : shapes) {
      const std::uint64_t size = what == shape::list || o.quick ? 128 : 1'024;
      if (o.selects(fmt::format("costs-{}", name_of(what)))) r.add(measure_costs(o, what, size));
    }
  }
}

void run_recoveries(runner& r, const options& o) {
  for (const shape what : shapes) {
    std::vector<std::uint64_t> sizes{128};
    if (!o.quick) {
      sizes = what == shape::list ? std::vector<std::uint64_t>{128, 1'024, 16'384, 65'536}
                                  : std::vector<std::uint64_t>{1'024, 65'536, 1'048'576, 4'194'304};
    }
    for (const std::uint64_t size : sizes) {
      if (o.selects(fmt::format("recovery-{}-{}", name_of(what), size))) {
        r.add(measure_recovery(what, size, o.full_or_quick(5U, 1U), o.directory));
      }
      if (o.selects(fmt::format("opening-{}-{}", name_of(what), size))) {
        r.add(measure_opening(what, size, o.full_or_quick(5U, 1U), o.directory));
      }
    }
  }
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "What lock-free structures cost beside logged and volatile ones",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5},
                [](runner& r, const options& o) {
                  run_maps(r, o);
                  run_latencies(r, o);
                  run_areas(r, o);
                  run_costs(r, o);
                  run_recoveries(r, o);
                });
}
