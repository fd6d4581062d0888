// How fast does the collector mark, beside the Boehm collector (libgc) on the same graph in ordinary memory?
//
//   mark-list-64, -256, -1024   a list in the order of allocation
//   mark-tree-...               a binary tree, parents before children
//   mark-random-...             a path through the objects in a random order, each with one more pointer to any
//
// --records objects of that many bytes with two pointers each.  From the call to its return, nothing to free: nvm_gc()
// as a dry run, which also looks for what is unmarked, and GC_gcollect(), which leaves a part of that to later
// allocations.  libgc looks at every word of an object unless it is told where pointers are ("typed").  Each system
// runs in a process of its own.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gc/heaps.hpp"
#include "gc/questions.hpp"
#include "harness/runner.hpp"
#include "recovery/child.hpp"

namespace nvm::bench {
namespace {

enum class graph { list, tree, random };
const char* name_of(graph g) { return g == graph::list ? "list" : g == graph::tree ? "tree" : "random"; }

struct question {
  graph shape;
  heap_wish wish;
  unsigned runs;
};
constexpr unsigned runs_max = 32;
struct sample {
  std::uint64_t marked = 0;
  double ns[runs_max] = {};
};

// Lays the graph; the number of its root.
std::uint64_t lay(graph shape, const collected_heap& heap, std::uint64_t objects) {
  const auto link = [&](std::uint64_t from, unsigned word, std::uint64_t to) {
    if (to < objects) heap.at(from)[word] = static_cast<void*>(heap.at(to));
  };
  if (shape == graph::tree) {
    for (std::uint64_t i = 0; i < objects; ++i) {
      link(i, 0, 2 * i + 1);
      link(i, 1, 2 * i + 2);
    }
    return 0;
  }
  std::vector<std::uint32_t> order(objects);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 random{20261126};
  if (shape == graph::random) std::shuffle(order.begin(), order.end(), random);
  for (std::uint64_t i = 0; i + 1 < objects; ++i) {
    link(order[i], 0, order[i + 1]);
    if (shape == graph::random) link(order[i], 1, random() % objects);
  }
  return order.front();
}

sample measure(const question& q, std::unique_ptr<collected_heap> heap) {
  heap->set_root(lay(q.shape, *heap, q.wish.objects));
  (void)heap->mark();
  sample s;
  for (unsigned i = 0; i < q.runs; ++i) {
    const marked m = heap->mark();
    s.marked = m.objects;
    s.ns[i] = m.ns;
  }
  return s;
}

struct system_asked {
  std::string name;
  role as;
  std::function<std::unique_ptr<collected_heap>(const heap_wish&)> make;
};
std::vector<system_asked> systems() {
  std::vector<system_asked> all;
#ifdef NVM_BENCH_HOLDFAST
  all.push_back({"holdfast", role::subject, make_pool_heap});
#endif
#ifdef NVM_BENCH_BDW_GC
  all.push_back({"libgc", role::peer, [](const heap_wish& w) { return make_boehm_heap(w, false); }});
  all.push_back({"libgc, typed", role::peer, [](const heap_wish& w) { return make_boehm_heap(w, true); }});
#endif
  return all;
}

void ask(runner& r, const options& o, const question& q) {
  const std::string name = fmt::format("mark-{}-{}", name_of(q.shape), q.wish.bytes);
  if (!o.selects(name)) return;
  nlohmann::ordered_json j{{"name", name}, {"threads", q.wish.threads}, {"unit", "object"}, {"units_per_op", 1}};
  j["parameters"] = {{"objects", q.wish.objects}, {"object_bytes", q.wish.bytes}};
  j["systems"] = nlohmann::ordered_json::array();
  j["ratios"] = nlohmann::ordered_json::array();
  fmt::print("\n{}, {} objects, {} thread{}: nanoseconds an object\n", name, q.wish.objects, q.wish.threads,
             q.wish.threads == 1 ? "" : "s");
  std::vector<std::pair<system_asked, std::vector<double>>> results;
  for (const system_asked& s : systems()) {
    if (!o.systems.empty() && !o.selects_system(s.name)) continue;
    const sample found = in_killed_child([&] { return measure(q, s.make(q.wish)); });
    if (s.as == role::subject && found.marked != q.wish.objects)
      throw std::runtime_error(fmt::format("{} marked {} of {} objects", s.name, found.marked, q.wish.objects));
    std::vector<double> ns;
    for (unsigned i = 0; i < q.runs; ++i) ns.push_back(found.ns[i] / static_cast<double>(q.wish.objects));
    const spread sp = spread_of(ns);
    fmt::print("  {:<16} median {:>8.2f}  min {:>8.2f}  max {:>8.2f}  {:>8.1f} million objects a second\n", s.name,
               sp.median, sp.min, sp.max, 1e3 / sp.median);
    j["systems"].push_back(
        {{"name", s.name}, {"role", s.as == role::subject ? "subject" : "peer"}, {"wall_ns", document_of(ns)}});
    results.emplace_back(s, std::move(ns));
  }
  for (const auto& [subject, own] : results) {
    for (const auto& [peer, its] : results) {
      if (subject.as != role::subject || peer.as != role::peer) continue;
      const std::vector<double> ratios = pairwise_ratio(its, own);
      fmt::print("  {} marks {:.2f} times as fast as {}\n", subject.name, spread_of(ratios).median, peer.name);
      j["ratios"].push_back({{"subject", subject.name}, {"peer", peer.name}, {"wall", document_of(ratios)}});
    }
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_marking(runner& r, const options& o) {
  for (const graph shape : {graph::list, graph::tree, graph::random}) {
    for (const std::uint64_t bytes : {64, 256, 1024}) {
      for (const unsigned threads : o.threads)
        ask(r, o, {shape, {o.directory, o.records, bytes, threads}, std::min(o.runs, runs_max)});
    }
  }
}

}  // namespace nvm::bench
