// A service in miniature, for soak.py: it keeps entries in a pool, is told phase after phase what they are like, and
// says now and then how it fares.  It is killed at any time, and goes on where the pool is.
//
// Told, a line each, on standard input:
//   phase BYTES THREADS FIRST KEYS LIVE   entries of half of BYTES to all of it, of KEYS keys from FIRST on; what is
//                                         older goes; LIVE bytes of values are kept (0: until the pool is full)
//   end                                   closes the pool
// Says, a line of JSON each on standard output: that it is ready, and then four times a second what it did meanwhile.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "harness/histogram.hpp"
#include "harness/random.hpp"
#include "soak/contents.hpp"

namespace nvm::bench::soak {
namespace {

using clock = std::chrono::steady_clock;

struct choices {
  std::string path;
  std::string kind = "kv";
  std::string engine = "undo";
  std::string medium = "shm";
  std::uint64_t capacity_mib = 128;
  std::uint64_t seed = 1;
};

struct phase {
  std::uint64_t number = 0;  // 0: none yet
  std::uint64_t bytes = 0;
  unsigned threads = 0;
  std::uint64_t first = 0;
  std::uint64_t keys = 1;
  std::uint64_t live = 0;
};

constexpr unsigned threads_max = 64;

class service {
 public:
  service(NVM_POOL* pool, const choices& c) : pool_{pool}, all_{contents_in(pool, c.kind)}, seed_{c.seed} {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
    std::uint64_t oldest = UINT64_MAX;
    all_->each([&](std::uint64_t key, std::uint64_t size) {
      ++entries;
      bytes += size;
      oldest = std::min(oldest, key);
    });
    live_.store(bytes);
    oldest_.store(entries == 0 ? UINT64_MAX : oldest);
    say({{"ready", true}, {"entries", entries}, {"live", bytes}});
  }

  // Until it is told to end.
  void run() {
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads_max; ++i) workers.emplace_back([this, i] { work(i); });
    std::thread teller{[this] { tell(); }};
    std::string line;
    while (std::getline(std::cin, line) && line != "end") take(line);
    over_.store(true);
    for (std::thread& w : workers) w.join();
    teller.join();
    if (!why_.empty()) throw std::runtime_error{why_};
  }

 private:
  void say(const nlohmann::ordered_json& what) {
    const std::lock_guard guard{output_};
    fmt::print(stdout, "{}\n", what.dump());
    std::fflush(stdout);
  }
  void take(const std::string& line) {
    phase p;
    if (std::sscanf(line.c_str(), "phase %lu %u %lu %lu %lu", &p.bytes, &p.threads, &p.first, &p.keys, &p.live) != 5 ||
        p.threads > threads_max || p.keys == 0) {
      throw std::runtime_error{"expected a phase, found: " + line};
    }
    const std::lock_guard guard{lock_};
    p.number = phase_.number + 1;
    phase_ = p;
    now_.store(p.number, std::memory_order_release);
  }
  phase current() {
    const std::lock_guard guard{lock_};
    return phase_;
  }

  void work(unsigned me) try {
    random own{seed_ * 1000 + me};
    std::vector<unsigned char> value;
    phase p;
    while (!over_.load(std::memory_order_relaxed)) {
      if (now_.load(std::memory_order_acquire) != p.number) p = current();
      if (me >= p.threads) {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
        continue;
      }
      const auto begun = clock::now();
      step(p, own, value);
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - begun).count();
      const std::lock_guard guard{figures_lock_};
      times_.add(static_cast<std::uint64_t>(ns));
    }
  } catch (const std::exception& e) {
    const std::lock_guard guard{lock_};
    if (why_.empty()) why_ = e.what();
    over_.store(true);
    say({{"failed", why_}});
  }

  // One operation.
  void step(const phase& p, random& own, std::vector<unsigned char>& value) {
    const std::uint64_t key = p.first + own.next() % p.keys;
    const std::uint64_t live = live_.load(std::memory_order_relaxed);
    // Entries before the window are removed, the oldest first, faster than others are stored.
    const std::uint64_t old = oldest_.load(std::memory_order_relaxed);
    if (old < p.first && own.next() % 3 != 0) {
      remove(oldest_.fetch_add(1, std::memory_order_relaxed));
      return;
    }
    if (own.next() % 2 == 0) {
      (void)all_->get(key);
      return;
    }
    if (p.live != 0 && live > p.live) {
      remove(key);
      return;
    }
    const std::uint64_t bytes = p.bytes / 2 + own.next() % (p.bytes / 2 + 1);
    fill_value(value, key, bytes);
    const std::lock_guard guard{lock_of(key)};
    std::uint64_t was = 0;
    switch (all_->put(key, value, was)) {
      case contents::put_result::no_room:
        full_.fetch_add(1, std::memory_order_relaxed);
        break;
      case contents::put_result::replaced:
        live_.fetch_sub(was, std::memory_order_relaxed);
        [[fallthrough]];
      case contents::put_result::inserted:
        live_.fetch_add(value.size(), std::memory_order_relaxed);
        lower(p.first);
        break;
    }
  }
  void remove(std::uint64_t key) {
    const std::lock_guard guard{lock_of(key)};
    live_.fetch_sub(all_->remove(key), std::memory_order_relaxed);
  }
  // There may be entries from here on.
  void lower(std::uint64_t first) {
    std::uint64_t old = oldest_.load(std::memory_order_relaxed);
    while (first < old && !oldest_.compare_exchange_weak(old, first, std::memory_order_relaxed)) {
    }
  }
  std::mutex& lock_of(std::uint64_t key) { return locks_[mix(key) % locks_.size()]; }

  void tell() {
    while (!over_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{250});
      histogram times;
      {
        const std::lock_guard guard{figures_lock_};
        std::swap(times, times_);
      }
      nvm_pool_info info{};
      nvm_statistics counts{};
      if (nvm_pool_get_info(pool_, &info) != 0 || nvm_pool_get_statistics(pool_, &counts) != 0) continue;
      say({{"phase", now_.load()},
           {"operations", times.count()},
           {"p50_us", static_cast<double>(times.quantile(0.5)) / 1000},
           {"p99_us", static_cast<double>(times.quantile(0.99)) / 1000},
           {"live", live_.load()},
           {"full", full_.load()},
           {"older_left", now_.load() != 0 && oldest_.load() < current().first},
           {"used", info.used_pages * info.page_bytes},
           {"addresses", info.home_bytes - counts.home_free_bytes}});
    }
  }

  NVM_POOL* pool_;
  std::unique_ptr<contents> all_;
  const std::uint64_t seed_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> now_{0};  // number of the phase
  std::atomic<std::uint64_t> live_{0};
  std::atomic<std::uint64_t> full_{0};
  std::atomic<std::uint64_t> oldest_{0};  // no key before it has an entry
  std::mutex lock_;                       // of the phase and why_
  phase phase_;
  std::string why_;
  std::mutex output_;
  std::mutex figures_lock_;
  histogram times_;
  std::array<std::mutex, 256> locks_;
};

std::uint32_t engine_of(const std::string& name) {
  if (name == "undo") return NVM_ENGINE_UNDO;
  if (name == "redo") return NVM_ENGINE_REDO;
  return name == "log" ? NVM_ENGINE_LOG : NVM_ENGINE_DETECT;
}

int run(int argc, char** argv) {
  choices c;
  CLI::App app{"a service in miniature, driven by soak.py"};
  app.add_option("path", c.path, "the pool, made if there is none")->required();
  app.add_option("--kind", c.kind, "kv, structure, objects, compiled");
  app.add_option("--engine", c.engine, "undo, redo, log, any");
  app.add_option("--medium", c.medium, "shm, ssd");
  app.add_option("--capacity", c.capacity_mib, "MiB that the pool may grow to");
  app.add_option("--seed", c.seed, "of the stream of operations");
  CLI11_PARSE(app, argc, argv);
  nvm_pool_options o{};
  o.medium = c.medium == "ssd" ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  o.engine = engine_of(c.engine);
  o.capacity = c.capacity_mib << 20;
  o.size = std::min<std::uint64_t>(o.capacity, std::uint64_t{16} << 20);
  NVM_POOL* const pool = nvm_pool_open_or_create(c.path.c_str(), &o);
  if (pool == nullptr) throw failure{"nvm_pool_open_or_create"};
  service{pool, c}.run();
  if (nvm_pool_close(pool) != 0) throw failure{"nvm_pool_close"};
  return 0;
}

}  // namespace
}  // namespace nvm::bench::soak

int main(int argc, char** argv) {
  try {
    return nvm::bench::soak::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "soak-service: {}\n", e.what());
    return 4;
  }
}
