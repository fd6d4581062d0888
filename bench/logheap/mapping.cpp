// What does the mapping of the log-structured heap cost: a load that is translated beside a plain one, a change, and
// memory?  Section 5.2's steps one after the other, and leaves.
#include <fmt/core.h>

#include "harness/runner.hpp"
#include "logheap/access.hpp"

namespace nvm::bench {
namespace {

benchmark access_benchmark(const options& o, const setting& s) {
  benchmark b;
  b.name = fmt::format("{}-{}", name_of(s.change), name_of(s.pick));
  b.unit = "access";
  b.units_per_op = accesses;
  b.threads = s.threads;
  b.ops = o.full_or_quick<std::uint64_t>(60'000, 500);
  b.warmup_ops = b.ops;
  b.parameters = {{"values", s.values},
                  {"value_bytes", value_bytes},
                  {"values_chosen", name_of(s.pick)},
                  {"changes_percent", s.changes() ? 100.0 / accesses : 0.0}};
  b.systems.push_back({"plain loads", role::peer, [=] { return std::make_unique<plain>(s); }});
  for (unsigned i = 0; i < logheap::mapping_steps; ++i) {
    const auto how = skip_list_settings::up_to(static_cast<mapping_step>(i));
    b.systems.push_back({logheap::name_of(static_cast<mapping_step>(i)), role::subject,
                         [=] { return std::make_unique<skip_lists>(s, how, how.group_update); }});
  }
  b.systems.push_back(
      {"leaves, by halves", role::subject, [=] { return std::make_unique<leaves>(s, leaf_settings{false}, true); }});
  b.systems.push_back(
      {"leaves", role::subject, [=] { return std::make_unique<leaves>(s, leaf_settings{true}, true); }});
  return b;
}

nlohmann::ordered_json measure_memory(std::uint64_t values) {
  const setting s{values, 1, choice::uniform, changing::none};
  const auto data = static_cast<double>(values * value_bytes);
  nlohmann::ordered_json j{{"name", "memory"},
                           {"threads", 1},
                           {"parameters", {{"values", values}, {"value_bytes", value_bytes}}},
                           {"systems", nlohmann::ordered_json::array()}};
  const auto add = [&](const char* name, std::uint64_t bytes) {
    const double part = 100.0 * static_cast<double>(bytes) / data;
    fmt::print("memory, {}: {:.1f} bytes a value, {:.1f} % of the data\n", name,
               static_cast<double>(bytes) / static_cast<double>(values), part);
    j["systems"].push_back({{"name", name}, {"role", "subject"}, {"bytes", bytes}, {"percent_of_data", part}});
  };
  for (const mapping_step step :
       {mapping_step::two_layers, mapping_step::group_update, mapping_step::lock_free_readers}) {
    const auto how = skip_list_settings::up_to(step);
    skip_lists m(s, how, how.group_update);
    add(logheap::name_of(step), m.mapping().bytes_used());
  }
  leaves m(s, leaf_settings{}, true);
  add("leaves", m.mapping().bytes_used());
  std::fflush(stdout);
  return j;
}

nlohmann::ordered_json measure_hits(const options& o, std::uint64_t values) {
  nlohmann::ordered_json j{{"name", "hits"},
                           {"threads", 1},
                           {"parameters", {{"values", values}, {"value_bytes", value_bytes}}},
                           {"systems", nlohmann::ordered_json::array()}};
  for (const choice pick : {choice::hot, choice::zipf, choice::uniform}) {
    for (const std::uint64_t entries : {4096, 65'536, 1'048'576}) {
      const setting s{values, 1, pick, changing::none};
      skip_list_settings how;
      how.cache_entries = entries;
      skip_lists m(s, how, true);
      const std::uint64_t ops = o.full_or_quick<std::uint64_t>(60'000, 500);
      m.prepare(0, 0, 2 * ops);
      m.run(0, 0, ops);
      const std::uint64_t hits = m.client(0).hits();
      const std::uint64_t misses = m.client(0).misses();
      m.run(0, ops, ops);
      const auto h = static_cast<double>(m.client(0).hits() - hits);
      const double percent = 100.0 * h / (h + static_cast<double>(m.client(0).misses() - misses));
      fmt::print("cache of {} entries, {}: {:.1f} % hits\n", entries, name_of(pick), percent);
      j["systems"].push_back({{"name", fmt::format("{}, {} entries", name_of(pick), entries)},
                              {"role", "subject"},
                              {"hits_percent", percent}});
    }
  }
  std::fflush(stdout);
  return j;
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "What the log-structured heap's mapping costs",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5,
                 .records = 100'000,
                 .quick_records = 2'000},
                [](runner& r, const options& o) {
                  for (const unsigned threads : o.threads) {
                    for (const changing change : {changing::none, changing::overwrites, changing::renews}) {
                      for (const choice pick : {choice::hot, choice::zipf, choice::uniform}) {
                        r.run(access_benchmark(o, {o.records, threads, pick, change}));
                      }
                    }
                  }
                  if (o.selects("memory")) r.add(measure_memory(o.records));
                  if (o.selects("hits")) r.add(measure_hits(o, o.records));
                });
}
