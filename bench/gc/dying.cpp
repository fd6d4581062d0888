// How long does it take until a list is gone whose first node was unlinked?
//
//   dies-list-N     N nodes of 64 bytes, ten times as many as --records: from nvm_settle() to its return, in a thread
//                   with a stack of 64 KiB; and how many transactions it took
//   dies-killed-N   the same in a process that is killed in the middle of it: what the next process settles, and that
//                   nothing of the list is left then
//
// References are counted at rest, so that a moment can be named at which all begins.
#include <fmt/core.h>
#include <pthread.h>

#include <chrono>
#include <thread>

#include "gc/questions.hpp"
#include "gc/typed_pool.hpp"
#include "harness/clock.hpp"
#include "harness/mapped_file.hpp"
#include "recovery/child.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t node_bytes = 48;  // 64 with the header
constexpr std::uint64_t links_per_transaction = 512;
constexpr const char* node_name = "bench_list_node";

// A list of so many nodes whose first is the root.
std::uint64_t build(const std::string& path, std::uint64_t nodes) {
  announce_type(node_name, 1, node_bytes);
  nvm_pool_options o = counted_pool(NVM_COLLECT_AT_REST);
  o.size = o.capacity = nodes * (node_bytes + 16) * 5 / 4 + (std::uint64_t{64} << 20);
  NVM_POOL* const pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr) fail_in("nvm_pool_create_with");
  const std::uint32_t type = layout::type_id_of(node_name);
  void* first = nullptr;
  for (std::uint64_t made = 0; made < nodes;) {
    done(nvm_tx_begin(pool), "nvm_tx_begin");
    for (std::uint64_t i = 0; i < links_per_transaction && made < nodes; ++i, ++made) {
      auto* const node = static_cast<void**>(nvm_calloc(pool, type, 1, node_bytes));
      if (node == nullptr) fail_in("nvm_calloc");
      *node = first;
      first = node;
    }
    done(nvm_pool_set_root(pool, first), "nvm_pool_set_root");
    done(nvm_tx_commit(pool), "nvm_tx_commit");
  }
  done(nvm_settle(pool, nullptr), "nvm_settle");
  done(nvm_pool_close(pool), "nvm_pool_close");
  return nodes;
}

struct death {
  std::uint64_t ns = 0;
  std::uint64_t freed = 0, transactions = 0;
  std::uint64_t left = 0;  // objects
};

// Stack of the thread that lets the list die: too small to recurse on.
death settle_on_a_small_stack(NVM_POOL* pool) {
  struct job {
    NVM_POOL* pool;
    nvm_settle_report report;
    int result;
    std::uint64_t ns;
  } j{pool, {}, 0, 0};
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_t thread{};
  const auto run = [](void* raw) -> void* {
    job& mine = *static_cast<job*>(raw);
    const std::uint64_t start = wall_ns();
    mine.result = nvm_settle(mine.pool, &mine.report);
    mine.ns = wall_ns() - start;
    return nullptr;
  };
  if (pthread_create(&thread, &small, run, &j) != 0) throw std::runtime_error("pthread_create");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  if (j.result != 0) throw std::runtime_error("nvm_settle failed");
  return {j.ns, j.report.freed_objects, j.report.transactions, 0};
}

void unlink_all(NVM_POOL* pool) {
  done(nvm_tx_begin(pool), "nvm_tx_begin");
  done(nvm_pool_set_root(pool, nullptr), "nvm_pool_set_root");
  done(nvm_tx_commit(pool), "nvm_tx_commit");
}
std::uint64_t objects_of(NVM_POOL* pool) {
  nvm_gc_options o{};
  o.dry_run = 1;
  nvm_gc_report r{};
  done(nvm_gc(pool, &o, &r), "nvm_gc");
  return r.reachable_objects + r.garbage_objects;
}

death die(const std::string& path) {
  announce_type(node_name, 1, node_bytes);
  NVM_POOL* const pool = open_counted(path, NVM_COLLECT_AT_REST);
  const std::uint64_t before = objects_of(pool);
  unlink_all(pool);
  death d = settle_on_a_small_stack(pool);
  d.left = objects_of(pool) + d.freed - before;
  return d;
}

// Its process is killed when this returns, while another thread settles.
std::uint64_t die_for(const std::string& path, std::uint64_t ns) {
  announce_type(node_name, 1, node_bytes);
  NVM_POOL* const pool = open_counted(path, NVM_COLLECT_AT_REST);
  const std::uint64_t objects = objects_of(pool);
  unlink_all(pool);
  std::thread{[pool] { (void)nvm_settle(pool, nullptr); }}.detach();
  std::this_thread::sleep_for(std::chrono::nanoseconds{ns});
  return objects;
}
// The open after a kill settles, too, and no call reports that: so what is left is counted.
death go_on(const std::string& path) {
  announce_type(node_name, 1, node_bytes);
  death d;
  const std::uint64_t start = wall_ns();
  NVM_POOL* const pool = open_counted(path, NVM_COLLECT_AT_REST);
  nvm_settle_report r{};
  done(nvm_settle(pool, &r), "nvm_settle");
  d.ns = wall_ns() - start;
  d.freed = r.freed_objects;
  d.transactions = r.transactions;
  d.left = objects_of(pool);
  return d;
}

void add(runner& r, const std::string& name, std::uint64_t nodes, const std::vector<double>& ns, const death& last) {
  nlohmann::ordered_json j{{"name", name}, {"threads", 1}, {"unit", "node"}, {"units_per_op", 1}};
  j["parameters"] = {{"nodes", nodes},
                     {"object_bytes", node_bytes + 16},
                     {"transactions", last.transactions},
                     {"freed", last.freed},
                     {"left", last.left}};
  j["systems"] =
      nlohmann::ordered_json::array({{{"name", "holdfast"}, {"role", "subject"}, {"wall_ns", document_of(ns)}}});
  j["ratios"] = nlohmann::ordered_json::array();
  const spread s = spread_of(ns);
  fmt::print("{}: {:.0f} ns a node ({:.0f} to {:.0f}), {} transactions, {} objects left\n", name, s.median, s.min,
             s.max, last.transactions, last.left);
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_dying(runner& r, const options& o) {
  const std::uint64_t nodes = o.records * 10;
  const std::string names[] = {fmt::format("dies-list-{}", nodes), fmt::format("dies-killed-{}", nodes)};
  if (!o.selects(names[0]) && !o.selects(names[1])) return;
  const unsigned runs = o.full_or_quick(std::min(o.runs, 3U), 1U);
  std::vector<double> whole, rest;
  death last, last_rest;
  for (unsigned run = 0; run < runs; ++run) {
    {
      const temporary_path path(o.directory, "dying.nvm");
      in_killed_child([&] { return build(path.string(), nodes); });
      last = in_killed_child([&] { return die(path.string()); });
      if (last.freed != nodes || last.left != 0) throw std::runtime_error("not all of a list has died");
      whole.push_back(static_cast<double>(last.ns) / static_cast<double>(nodes));
    }
    const temporary_path path(o.directory, "dying.nvm");
    in_killed_child([&] { return build(path.string(), nodes); });
    const std::uint64_t objects = in_killed_child([&] { return die_for(path.string(), last.ns / 2); });
    last_rest = in_killed_child([&] { return go_on(path.string()); });
    if (last_rest.left + nodes != objects) throw std::runtime_error("a kill has lost nodes of a list that was dying");
    last_rest.left = 0;
    rest.push_back(static_cast<double>(last_rest.ns) / static_cast<double>(nodes));
  }
  add(r, names[0], nodes, whole, last);
  add(r, names[1], nodes, rest, last_rest);
}

}  // namespace nvm::bench
