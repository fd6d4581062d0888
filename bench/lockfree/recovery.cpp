#include "lockfree/recovery.hpp"

#include <fmt/core.h>
#include <immintrin.h>
#include <nvm/lockfree.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "harness/clock.hpp"
#include "harness/statistics.hpp"
#include "lockfree/pool_map.hpp"
#include "recovery/child.hpp"

namespace nvm::bench {
namespace {

constexpr unsigned workers = 2;

void purge_caches(const char* from, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += 64) _mm_clflush(from + at);
  _mm_mfence();
}

nlohmann::ordered_json spread_json(const std::vector<double>& v) {
  const spread s = spread_of(v);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

// ---- a structure by itself ----

struct recovered {
  double boot_ms = 0, recovery_ms = 0, first_ms = 0;
  lockfree::recovery_report report;
  std::uint64_t keys = 0;
};

template <template <class> class Shape>
auto attach(pool_host<direct_media>& pool, const lockfree::catalogue<direct_media>::found& found) {
  using structure = typename opened_as<direct_media, Shape>::type;
  if constexpr (is_sealed<Shape>) {
    return std::make_unique<structure>(pool.shared(), found);
  } else {
    return std::make_unique<structure>(pool.shared(), found, true);
  }
}

// What the next process does.
template <template <class> class Shape>
recovered open_again(char* memory, const geometry& g, lockfree::recovery_method method, bool check) {
  using structure = typename opened_as<direct_media, Shape>::type;
  recovered r;
  direct_media medium{isa::best_write_back()};
  const std::uint64_t start = wall_ns();
  pool_host<direct_media> pool{medium, reinterpret_cast<std::byte*>(memory), g, {}};
  const std::uint64_t booted = wall_ns();
  const auto found = pool.names().find(subject_name);
  require(found.has_value());
  const std::unique_ptr<structure> opened = attach<Shape>(pool, *found);
  structure& it = *opened;
  if constexpr (is_sealed<Shape>) {
    (void)method;
    require(it.rebuild(workers).has_value());
    r.report.allocated = it.count_keys();
  } else {
    typename lockfree::catalogue<direct_media>::recovery work;
    require(pool.names()
                .begin_recovery(
                    work,
                    [&](std::uint16_t owner) -> lockfree::structure* { return owner == found->owner ? &it : nullptr; },
                    method)
                .has_value());
    platform::run_parts(workers, [&](unsigned) noexcept { pool.names().recover_part(work); });
    require(pool.names().check_recovery(work).has_value());
    (void)pool.names().end_recovery(work, r.report, []() noexcept { return status{}; });
  }
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
      const std::uint64_t allocated = it.memory().heap().count_allocated();
      if (!all || allocated != linked) {
        throw std::runtime_error(fmt::format("{} nodes and runs are allocated, {} are linked", allocated, linked));
      }
    }
  }
  r.boot_ms = static_cast<double>(booted - start) / 1e6;
  r.recovery_ms = static_cast<double>(done - booted) / 1e6;
  return r;
}

// Active areas of each worker as it has seen them last.
struct alignas(64) area_gauge {
  std::atomic<std::uint64_t> areas{0};
};
// Returns at a moment when the workers have as many areas active as they ever have, or nearly.
void await_peak(const std::array<area_gauge, workers>& gauges) {
  using clock = std::chrono::steady_clock;
  const auto now = [&] {
    std::uint64_t sum = 0;
    for (const area_gauge& g : gauges) sum += g.areas.load(std::memory_order_relaxed);
    return sum;
  };
  std::uint64_t most = 0;
  for (const auto end = clock::now() + std::chrono::milliseconds(400); clock::now() < end;)
    most = std::max(most, now());
  for (const auto end = clock::now() + std::chrono::milliseconds(400); clock::now() < end;) {
    if (now() * 100 >= most * 95) return;
  }
}

// In a child that is killed while its threads work, when their tables of areas are as full as they get.
template <template <class> class Shape>
void leave_crashed(shape what, char* memory, const geometry& g, std::uint64_t size, bool fill_it, unsigned round) {
  using structure = typename opened_as<direct_media, Shape>::type;
  (void)in_killed_child([&] {
    // Nothing of this is ever destroyed: the process dies with its threads at work.
    auto* medium = new direct_media{isa::best_write_back()};
    auto* pool = new pool_host<direct_media>{*medium, reinterpret_cast<std::byte*>(memory), g, {}};
    if (fill_it) make_subject<Shape>(*pool, size);
    const auto found = pool->names().find(subject_name);
    require(found.has_value());
    auto* it = attach<Shape>(*pool, *found).release();
    if constexpr (is_sealed<Shape>) require(it->rebuild(1).has_value());
    if (fill_it) {
      auto* session = new typename structure::session{pool->join()};
      fill(what, size, [&](std::uint64_t key) {
        require((*it)->write(*session, key, key, lockfree::write_rule::insert_only).has_value());
      });
    }
    map_settings mix_of;
    mix_of.size = size;
    auto* gauges = new std::array<area_gauge, workers>;
    for (unsigned t = 0; t < workers; ++t) {
      std::thread{[=] {
        auto& thread = pool->join();
        auto* session = new typename structure::session{thread};
        for (std::uint64_t i = std::uint64_t{round} << 32;; ++i) {
          const step o = step_of(mix_of, t, i);
          if (o.what == action::insert) {
            (void)(*it)->write(*session, o.key, i, lockfree::write_rule::insert_only);
          } else {
            (void)(*it)->remove(*session, o.key);
          }
          (*gauges)[t].areas.store(thread.areas.size(), std::memory_order_relaxed);
        }
      }}.detach();
    }
    await_peak(*gauges);
    return std::uint64_t{1};
  });
}

struct way {
  const char* name;
  lockfree::recovery_method method;
};
template <template <class> class Shape>
std::vector<way> ways() {
  if (is_sealed<Shape>) return {{"volatile links", lockfree::recovery_method::automatic}};
  return {{"search", lockfree::recovery_method::search}, {"traversal", lockfree::recovery_method::traversal}};
}

template <template <class> class Shape>
void measure(nlohmann::ordered_json& j, shape what, std::uint64_t size, unsigned runs, const std::string& directory) {
  const geometry g = geometry_for(pool_bytes_for(size));
  const temporary_path path{directory, "lockfree-recovery"};
  const mapped_file file{path.string(), g.capacity_bytes()};
  unsigned round = 0;
  for (const way& w : ways<Shape>()) {
    // Looking for each node of a long list takes as many walks as there are nodes.
    if (what == shape::list && size > 4096 && w.method == lockfree::recovery_method::search) continue;
    std::vector<double> boot, recovery, first, areas, allocated, freed;
    for (unsigned i = 0; i < runs; ++i, ++round) {
      leave_crashed<Shape>(what, file.data(), g, size, round == 0, round);
      purge_caches(file.data(), g.capacity_bytes());
      const recovered r = open_again<Shape>(file.data(), g, w.method, i == 0);
      // Each of twice as many keys is there or not.
      const double off = std::abs(static_cast<double>(r.keys) - static_cast<double>(size));
      if (i == 0 && off > 0.1 * static_cast<double>(size) + 6 * std::sqrt(static_cast<double>(size) / 2)) {
        throw std::runtime_error(fmt::format("{} keys are left, of about {}", r.keys, size));
      }
      boot.push_back(r.boot_ms);
      recovery.push_back(r.recovery_ms);
      first.push_back(r.first_ms);
      areas.push_back(static_cast<double>(r.report.areas));
      allocated.push_back(static_cast<double>(r.report.allocated));
      freed.push_back(static_cast<double>(r.report.freed));
    }
    j["systems"].push_back({{"name", w.name},
                            {"role", "subject"},
                            {"boot_ms", spread_json(boot)},
                            {"recovery_ms", spread_json(recovery)},
                            {"first_operation_ms", spread_json(first)},
                            {"areas", std::llround(spread_of(areas).median)},
                            {"allocated", std::llround(spread_of(allocated).median)},
                            {"freed", std::llround(spread_of(freed).median)}});
    fmt::print(
        "recovery of a {} of {}, by {}: {:.2f} ms ({:.2f} to {:.2f}), boot {:.2f} ms, first operation after "
        "{:.2f} ms; {:.0f} areas, {:.0f} nodes in them, {:.0f} freed\n",
        name_of(what), size, w.name, spread_of(recovery).median, spread_of(recovery).min, spread_of(recovery).max,
        spread_of(boot).median, spread_of(first).median, spread_of(areas).median, spread_of(allocated).median,
        spread_of(freed).median);
    std::fflush(stdout);
  }
}

// ---- through the public C interface ----

void require_c(bool done) {
  if (!done) throw std::runtime_error(nvm_errormsg());
}
std::uint32_t kind_of_shape(shape what) {
  switch (what) {
    case shape::list:
      return NVM_LF_LIST;
    case shape::hash:
      return NVM_LF_HASH;
    case shape::skip_list:
      return NVM_LF_SKIP_LIST;
    case shape::tree:
      return NVM_LF_TREE;
  }
  return 0;
}
nvm_lf* open_subject(NVM_POOL* pool, shape what, std::uint64_t size) {
  nvm_lf_options o{};
  o.kind = kind_of_shape(what);
  o.expected = size;
  nvm_lf* it = nvm_lf_open(pool, subject_name, &o);
  require_c(it != nullptr);
  return it;
}
void make_pool(const std::string& path, shape what, std::uint64_t size) {
  (void)in_killed_child([&] {
    nvm_pool_options o{};
    o.size = o.capacity = pool_bytes_for(size);
    NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
    require_c(pool != nullptr);
    nvm_lf* it = open_subject(pool, what, size);
    fill(what, size, [&](std::uint64_t key) { require_c(nvm_lf_put64(it, key, key, 0) >= 0); });
    require_c(nvm_pool_close(pool) == 0);
    return std::uint64_t{1};
  });
}
void crash_pool(const std::string& path, shape what, std::uint64_t size, unsigned round) {
  (void)in_killed_child([&] {
    NVM_POOL* pool = nvm_pool_open(path.c_str());
    require_c(pool != nullptr);
    nvm_lf* it = open_subject(pool, what, size);
    map_settings mix_of;
    mix_of.size = size;
    for (unsigned t = 0; t < workers; ++t) {
      std::thread{[=] {
        for (std::uint64_t i = std::uint64_t{round} << 32;; ++i) {
          const step o = step_of(mix_of, t, i);
          if (o.what == action::insert) {
            (void)nvm_lf_put64(it, o.key, i, NVM_LF_PUT_ABSENT);
          } else {
            (void)nvm_lf_remove64(it, o.key);
          }
        }
      }}.detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return std::uint64_t{1};
  });
  const std::uint64_t bytes = std::filesystem::file_size(path);
  const existing_file file{path, bytes};
  purge_caches(file.data(), bytes);
}
struct opened {
  double pool_ms = 0, structure_ms = 0, first_ms = 0;
};
opened open_pool(const std::string& path, shape what, std::uint64_t size) {
  return in_killed_child([&] {
    const std::uint64_t start = wall_ns();
    NVM_POOL* pool = nvm_pool_open(path.c_str());
    require_c(pool != nullptr);
    const std::uint64_t pool_open = wall_ns();
    nvm_lf* it = open_subject(pool, what, size);
    const std::uint64_t structure_open = wall_ns();
    std::uint64_t value = 0;
    require_c(nvm_lf_get64(it, 42, &value) >= 0);
    const std::uint64_t done = wall_ns();
    require_c(nvm_pool_close(pool) == 0);
    const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
    return opened{ms(pool_open - start), ms(structure_open - pool_open), ms(done - start)};
  });
}

}  // namespace

nlohmann::ordered_json measure_recovery(shape what, std::uint64_t size, unsigned runs, const std::string& directory) {
  nlohmann::ordered_json j{
      {"name", fmt::format("recovery-{}-{}", name_of(what), size)},
      {"threads", 2},
      {"parameters",
       {{"shape", name_of(what)}, {"size", size}, {"pool_bytes", geometry_for(pool_bytes_for(size)).capacity_bytes()}}},
      {"systems", nlohmann::ordered_json::array()}};
  switch (what) {
    case shape::list:
      measure<word_list>(j, what, size, runs, directory);
      measure<sealed_list>(j, what, size, runs, directory);
      return j;
    case shape::hash:
      measure<word_hash_table>(j, what, size, runs, directory);
      measure<sealed_hash_table>(j, what, size, runs, directory);
      return j;
    case shape::skip_list:
      measure<word_skip_list>(j, what, size, runs, directory);
      measure<sealed_skip_list>(j, what, size, runs, directory);
      return j;
    case shape::tree:
      measure<word_tree>(j, what, size, runs, directory);
      return j;
  }
  throw std::runtime_error("there is no such structure");
}

nlohmann::ordered_json measure_opening(shape what, std::uint64_t size, unsigned runs, const std::string& directory) {
  const temporary_path path{directory, "lockfree-opening"};
  make_pool(path.string(), what, size);
  std::vector<double> pool, structure, first;
  for (unsigned i = 0; i < runs; ++i) {
    crash_pool(path.string(), what, size, i);
    const opened o = open_pool(path.string(), what, size);
    pool.push_back(o.pool_ms);
    structure.push_back(o.structure_ms);
    first.push_back(o.first_ms);
  }
  fmt::print(
      "opening of a pool with a {} of {}: first operation after {:.2f} ms ({:.2f} to {:.2f}); the pool {:.2f} ms, the "
      "structure {:.2f} ms\n",
      name_of(what), size, spread_of(first).median, spread_of(first).min, spread_of(first).max, spread_of(pool).median,
      spread_of(structure).median);
  std::fflush(stdout);
  return {{"name", fmt::format("opening-{}-{}", name_of(what), size)},
          {"threads", workers},
          {"parameters", {{"shape", name_of(what)}, {"size", size}}},
          {"systems",
           {{{"name", "C interface"},
             {"role", "subject"},
             {"pool_ms", spread_json(pool)},
             {"structure_ms", spread_json(structure)},
             {"first_operation_ms", spread_json(first)}}}}};
}

}  // namespace nvm::bench
