// Long crash campaigns over random workloads: every model for its share of the time, a new seed each time.
//
//   campaign [--minutes N] [--seed S] [--only MODEL]...      prints one line for each model, or for those alone that
//   are named (lockfree/x86, for one); exit code 1 if a state was bad
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>

#include "kv_stories.hpp"
#include "lockfree_random.hpp"
#include "logheap_random.hpp"
#include "region_random.hpp"
#include "workloads.hpp"

namespace {

using namespace nvm::tests;
using nvm::explore::model;

// The parts that are crashed: transactions of announced stores, barrier transactions, key-value stores, the
// log-structured heap, lock-free structures, regions.
enum class part { stores_announced, barriers, key_value, logheap, lockfree, regions };

struct tally {
  part what;
  model of;
  std::uint64_t traces = 0;
  std::uint64_t states = 0;
  std::uint64_t nested = 0;
  std::uint64_t failures = 0;
  double seconds = 0;
};

std::string name_of(const tally& t) {
  const char* const of[] = {"", "stm/", "kv/", "logheap/", "lockfree/", "regions/"};
  return of[static_cast<unsigned>(t.what)] + std::string{name_of(t.of)};
}

// Kinds take turns: first each that has one, then those that have a second, and so on.
kind_of_medium ground_of(const tally& t, std::uint64_t round) {
  std::vector<kind_of_medium> all;
  const auto has_part = [&](const kind_of_medium& k) {
    return is_image(k) == (t.of == model::ssd) && is_stm(k) == (t.what == part::barriers) &&
           (t.what != part::key_value || k.part.key_values.any());
  };
  for (unsigned turn = 0; turn < (t.what == part::key_value ? 1 : 3); ++turn) {
    for (const auto& kind : kinds_that([&](const auto& k) { return has_part(k) && k.part.turns > turn; })) {
      all.push_back(kind);
    }
  }
  return all[round % all.size()];
}

lockfree_variant variant_of(const tally& t, std::uint64_t round) {
  if (t.of == model::ssd) return {.name = "ssd", .image = true, .volatile_links = round % 2 == 1};
  const lockfree_variant all[] = {
      {},
      {.name = "one_at_a_time", .all_at_once = false, .recovery = nvm::lockfree::recovery_method::search},
      {.name = "link_cache", .link_cache = true, .recovery = nvm::lockfree::recovery_method::traversal},
      {.name = "volatile_links", .volatile_links = true},
  };
  return all[round % std::size(all)];
}

region_variant region_variant_of(const tally& t, std::uint64_t round) {
  if (t.of == model::ssd) return {.name = "ssd", .image = true, .saved_from = round % 2};
  const region_variant all[] = {
      {},
      {.name = "large_rings", .ring_bytes = 8192, .saved_from = 0},
      {.name = "one_replica", .replicas = 1},
      {.name = "never_levelled", .levelling = 0},
  };
  return all[round % std::size(all)];
}

nvm::explore::subject subject_of(const tally& t, std::uint64_t seed, std::uint64_t round, unsigned operations) {
  if (t.what == part::logheap) {
    const logheap_variant with[] = {{}, {"one_log", false}};
    return random_logheap_subject(seed, operations, with[round % std::size(with)]);
  }
  if (t.what == part::lockfree) return random_lockfree_subject(seed, operations, variant_of(t, round));
  if (t.what == part::regions) return random_region_subject(seed, operations, region_variant_of(t, round));
  const kind_of_medium on = ground_of(t, round);
  if (t.what != part::key_value) return random_subject(seed, operations, on);
  return random_kv_subject(seed, operations / 4, on, kv_indexes[round % std::size(kv_indexes)]);
}

nvm::explore::options options_of(const tally& t, std::uint64_t round) {
  if (t.what == part::logheap) return logheap_options(t.of);
  if (t.what == part::lockfree) return lockfree_options(t.of, variant_of(t, round));
  if (t.what == part::regions) return region_options(t.of, region_variant_of(t, round));
  nvm::explore::options o = options_for(t.of);
  if (t.what != part::stores_announced) o.promise_at_op_end = true;
  return o;
}

// Share of the time: crashes on ssd leave fewer different states, and those on eADR hardly any besides prefixes.
double share_of(model m) { return m == model::ssd ? 2 : m == model::eadr ? 1 : 4; }

// Progress, to stderr.
void tell(const std::vector<tally>& tallies, double seconds, double minutes) {
  std::uint64_t states = 0, failures = 0;
  for (const tally& t : tallies) {
    states += t.states;
    failures += t.failures;
  }
  std::fprintf(stderr, "%.0f of %.0f minutes: %" PRIu64 " states, %" PRIu64 " failures\n", seconds / 60, minutes,
               states, failures);
}

int usage() {
  std::fprintf(stderr, "usage: campaign [--minutes N] [--seed S] [--only MODEL]...\n");
  return 2;
}

std::vector<tally> all_models() {
  std::vector<tally> tallies;
  for (const part p :
       {part::stores_announced, part::barriers, part::key_value, part::logheap, part::lockfree, part::regions}) {
    for (const model m : {model::x86, model::torn8, model::ssd, model::eadr}) {
      // The log-structured heap is by itself on direct media; on ssd the medium below it is that of all.
      if (p != part::logheap || m != model::ssd) tallies.push_back({.what = p, .of = m});
    }
  }
  return tallies;
}

// Returns the sum of failures.
std::uint64_t print_table(const std::vector<tally>& tallies) {
  std::printf("%-15s %8s %14s %14s %9s %9s\n", "model", "traces", "states", "nested", "failures", "seconds");
  std::uint64_t failures = 0;
  for (const tally& t : tallies) {
    std::printf("%-15s %8" PRIu64 " %14" PRIu64 " %14" PRIu64 " %9" PRIu64 " %9.0f\n", name_of(t).c_str(), t.traces,
                t.states, t.nested, t.failures, t.seconds);
    failures += t.failures;
  }
  return failures;
}

}  // namespace

int main(int count, char** arguments) {
  double minutes = 5;
  std::uint64_t seed = seed_from_environment();
  std::set<std::string> only;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) return usage();
    char* end = nullptr;
    if (std::strcmp(arguments[i], "--minutes") == 0) {
      minutes = std::strtod(arguments[i + 1], &end);
    } else if (std::strcmp(arguments[i], "--seed") == 0) {
      seed = std::strtoull(arguments[i + 1], &end, 10);
    } else if (std::strcmp(arguments[i], "--only") == 0) {
      only.insert(arguments[i + 1]);
      continue;
    }
    if (end == nullptr || *end != 0 || minutes <= 0) return usage();
  }
  std::vector<tally> tallies = all_models();
  for (const std::string& name : only) {
    if (std::any_of(tallies.begin(), tallies.end(), [&](const tally& t) { return name_of(t) == name; })) continue;
    std::string all;
    for (const tally& t : tallies) all += " " + name_of(t);
    std::fprintf(stderr, "campaign: no model '%s'; there are%s\n", name.c_str(), all.c_str());
    return 2;
  }
  if (!only.empty()) std::erase_if(tallies, [&](const tally& t) { return !only.contains(name_of(t)); });
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  double told = 0;
  for (double left = minutes * 60; left > 0; left = minutes * 60 - elapsed()) {
    // The tally that has had least of its share.
    tally& t = *std::min_element(tallies.begin(), tallies.end(), [](const tally& a, const tally& b) {
      return a.seconds / share_of(a.of) < b.seconds / share_of(b.of);
    });
    const std::uint64_t round = t.traces++;
    // Short and long, deep and wide by turns.
    const unsigned operations = round % 3 == 0 ? 40 : round % 3 == 1 ? 300 : 1000;
    nvm::explore::options o = options_of(t, round);
    o.seed = seed + round;
    o.nesting = round % 4 == 0 ? 3 : 2;
    o.nested_every = round % 3 == 0 ? 8 : 64;
    o.exhaustive_max = round % 3 == 0 ? 4096 : 64;
    o.seconds_max = left;
    const std::uint64_t trace_seed = seed * 1'000'003 + round;
    const auto r = explore(subject_of(t, trace_seed, round, operations), o);
    t.states += r.unique_states;
    t.nested += r.nested_states;
    t.failures += r.bad_states;
    t.seconds += r.seconds;
    if (r.bad_states != 0) {
      std::fprintf(stderr, "%s, round %" PRIu64 ", trace seed %" PRIu64 ", %u operations, options seed %" PRIu64 "\n",
                   name_of(t).c_str(), round, trace_seed, operations, o.seed);
    }
    if (const double now = elapsed(); now >= told + 60) {
      tell(tallies, now, minutes);
      told = now;
    }
  }
  return print_table(tallies) == 0 ? 0 : 1;
}
