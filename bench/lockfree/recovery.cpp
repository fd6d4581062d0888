#include "lockfree/recovery.hpp"

#include <fmt/core.h>
#include <immintrin.h>

#include <chrono>
#include <thread>

#include "harness/clock.hpp"
#include "harness/statistics.hpp"
#include "lockfree/pool_map.hpp"
#include "recovery/child.hpp"

namespace nvm::bench {
namespace {

void purge_caches(const char* from, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += 64) _mm_clflush(from + at);
  _mm_mfence();
}

struct recovered {
  double boot_ms = 0, recovery_ms = 0, total_ms = 0, first_ms = 0;
  lockfree::recovery_report report;
  std::uint64_t keys = 0;
};

// What the next process does.
template <template <class> class Shape>
recovered open_again(char* memory, const geometry& g, lockfree::recovery_method method, bool check) {
  using structure = lockfree::durable<direct_media, Shape>;
  recovered r;
  direct_media medium{isa::best_write_back()};
  const std::uint64_t start = wall_ns();
  pool_host<direct_media> pool{medium, reinterpret_cast<std::byte*>(memory), g, {}};
  const std::uint64_t booted = wall_ns();
  const auto found = pool.names().find(subject_name);
  require(found.has_value());
  structure it{pool.shared(), *found, true};
  typename lockfree::catalogue<direct_media>::recovery work;
  require(pool.names()
              .begin_recovery(
                  work,
                  [&](std::uint16_t owner) -> lockfree::structure* { return owner == found->owner ? &it : nullptr; },
                  method)
              .has_value());
  platform::run_parts(2, [&](unsigned) noexcept { pool.names().recover_part(work); });
  pool.names().end_recovery(work, r.report);
  const std::uint64_t done = wall_ns();
  {
    typename structure::session session{pool.join()};
    (void)it->look_up(session, 42, [](const auto&) {});
    r.first_ms = static_cast<double>(wall_ns() - start) / 1e6;
    if (check) {
      it->each(session, [&](const auto*) {
        ++r.keys;
        return true;
      });
      std::uint64_t linked = 0;
      const bool all = it.each_linked(
          &linked, [](void* n, std::uint64_t, const nvm::lockfree::link*) { ++*static_cast<std::uint64_t*>(n); });
      if (!all || it.count_allocated() != linked) {
        throw std::runtime_error(
            fmt::format("{} nodes and runs are allocated, {} are linked", it.count_allocated(), linked));
      }
    }
  }
  r.boot_ms = static_cast<double>(booted - start) / 1e6;
  r.recovery_ms = static_cast<double>(done - booted) / 1e6;
  r.total_ms = static_cast<double>(done - start) / 1e6;
  return r;
}

// In a child that is killed while its threads work.
template <template <class> class Shape>
void leave_crashed(shape what, char* memory, const geometry& g, std::uint64_t size) {
  using structure = lockfree::durable<direct_media, Shape>;
  (void)in_killed_child([&] {
    // Nothing of this is ever destroyed: the process dies with its threads at work.
    auto* medium = new direct_media{isa::best_write_back()};
    auto* pool = new pool_host<direct_media>{*medium, reinterpret_cast<std::byte*>(memory), g, {}};
    make_subject<Shape>(*pool, size);
    const auto found = pool->names().find(subject_name);
    require(found.has_value());
    auto* it = new structure{pool->shared(), *found, true};
    {
      auto* session = new typename structure::session{pool->join()};
      fill(what, size, [&](std::uint64_t key) {
        require((*it)->write(*session, key, key, lockfree::write_rule::insert_only).has_value());
      });
    }
    map_settings mix_of;
    mix_of.size = size;
    for (unsigned t = 0; t < 2; ++t) {
      std::thread{[=] {
        auto* session = new typename structure::session{pool->join()};
        for (std::uint64_t i = 0;; ++i) {
          const step o = step_of(mix_of, t, i);
          if (o.what == action::insert) {
            (void)(*it)->write(*session, o.key, i, lockfree::write_rule::insert_only);
          } else {
            (void)(*it)->remove(*session, o.key);
          }
        }
      }}.detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return std::uint64_t{1};
  });
}

template <template <class> class Shape>
nlohmann::ordered_json measure(shape what, std::uint64_t size, unsigned runs, const std::string& directory) {
  const geometry g = geometry_for(pool_bytes_for(size));
  nlohmann::ordered_json j{
      {"name", fmt::format("recovery-{}-{}", name_of(what), size)},
      {"threads", 2},
      {"parameters", {{"shape", name_of(what)}, {"size", size}, {"pool_bytes", g.capacity_bytes()}}},
      {"systems", nlohmann::ordered_json::array()}};
  struct way {
    const char* name;
    lockfree::recovery_method method;
  };
  for (const way& w :
       {way{"search", lockfree::recovery_method::search}, way{"traversal", lockfree::recovery_method::traversal}}) {
    // Looking for each node of a long list takes as many walks as there are nodes.
    if (what == shape::list && size > 4096 && w.method == lockfree::recovery_method::search) continue;
    std::vector<double> boot, recovery, total, first;
    lockfree::recovery_report report;
    for (unsigned i = 0; i < runs; ++i) {
      const temporary_path path{directory, "lockfree-recovery"};
      const mapped_file file{path.string(), g.capacity_bytes()};
      leave_crashed<Shape>(what, file.data(), g, size);
      purge_caches(file.data(), g.capacity_bytes());
      const recovered r = open_again<Shape>(file.data(), g, w.method, i == 0);
      if (i == 0 && (r.keys < size * 8 / 10 || r.keys > size * 12 / 10)) {
        throw std::runtime_error(fmt::format("{} keys are left, of about {}", r.keys, size));
      }
      boot.push_back(r.boot_ms);
      recovery.push_back(r.recovery_ms);
      total.push_back(r.total_ms);
      first.push_back(r.first_ms);
      report = r.report;
    }
    const auto spread_json = [](const std::vector<double>& v) {
      const spread s = spread_of(v);
      return nlohmann::ordered_json{{"median", s.median}, {"min", s.min}, {"max", s.max}};
    };
    j["systems"].push_back({{"name", w.name},
                            {"role", "subject"},
                            {"boot_ms", spread_json(boot)},
                            {"recovery_ms", spread_json(recovery)},
                            {"first_operation_ms", spread_json(first)},
                            {"areas", report.areas},
                            {"allocated", report.allocated},
                            {"freed", report.freed}});
    fmt::print(
        "recovery of a {} of {}, by {}: {:.2f} ms ({:.2f} to {:.2f}), boot {:.2f} ms, first operation after "
        "{:.2f} ms; {} areas, {} nodes in them, {} freed\n",
        name_of(what), size, w.name, spread_of(recovery).median, spread_of(recovery).min, spread_of(recovery).max,
        spread_of(boot).median, spread_of(first).median, report.areas, report.allocated, report.freed);
    std::fflush(stdout);
  }
  return j;
}

}  // namespace

nlohmann::ordered_json measure_recovery(shape what, std::uint64_t size, unsigned runs, const std::string& directory) {
  switch (what) {
    case shape::list:
      return measure<word_list>(what, size, runs, directory);
    case shape::hash:
      return measure<word_hash_table>(what, size, runs, directory);
    case shape::skip_list:
      return measure<word_skip_list>(what, size, runs, directory);
    case shape::tree:
      return measure<word_tree>(what, size, runs, directory);
  }
  throw std::runtime_error("there is no such structure");
}

}  // namespace nvm::bench
