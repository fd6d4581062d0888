// How much of the log can be reclaimed without copying anything, with a log each for stores, allocations and tombstones
// and with one log for all (LSNVMM, section 5.4.1, Fig. 10)?
//
//   fast-cleaning-hashtable, -rbtree   values of 1 KiB; an operation removes a random key if it is there or else
//                                      inserts it; every 1000 operations chunks in which nothing lives are recycled
//
// Only the bytes are of interest, so loads are plain: a copy of home space in volatile memory stands where the home
// addresses say, and what a transaction changes there is what it commits.  One thread.
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "harness/random.hpp"
#include "logheap/log_pool.hpp"
#include "logheap/questions.hpp"
#include "suite/structures/hash_table.hpp"
#include "suite/structures/rb_tree.hpp"

namespace nvm::bench {
namespace {

// Volatile memory at addresses that are home addresses.
class home_window {
 public:
  explicit home_window(std::uint64_t bytes) : bytes_(bytes) {
    void* const p =
        mmap(nullptr, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no address space for a copy of home space");
    start_ = p;
  }
  ~home_window() { munmap(start_, bytes_ + align); }
  home_window(const home_window&) = delete;
  home_window& operator=(const home_window&) = delete;
  [[nodiscard]] logheap::home_t first() const noexcept {
    return round_up(reinterpret_cast<std::uint64_t>(start_), align);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::uint64_t align = 65536;
  void* start_ = nullptr;
  std::uint64_t bytes_;
};

class log_engine {
 public:
  using pool_type = log_pool<logheap::leaf_mapping>;
  using heap_type = pool_type::heap_type;

  // What structures of the suite ask for (suite/engine.hpp).
  class transaction {
   public:
    explicit transaction(log_engine& e) : engine_(e) {}
    template <class T>
    T load(const T* p) {
      return *p;
    }
    template <class T>
    void store(T* p, std::type_identity_t<T> v) {
      *p = v;
      changed_.push_back({home_of(p), sizeof *p});
    }
    void read(void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); }
    void write(void* to, const void* from, std::size_t n) {
      std::memcpy(to, from, n);
      changed_.push_back({home_of(to), n});
    }
    void* alloc(std::size_t n) {
      const auto o = engine_.pool_->allocate(engine_.thread_, n);
      if (!o) fail_with("allocating");
      allocated_.push_back(*o);
      changed_.push_back({o->at.home, n});
      return reinterpret_cast<void*>(o->at.home);
    }
    void free(void* p) {
      const auto o = engine_.pool_->release(engine_.thread_, home_of(p));
      if (!o) fail_with("freeing");
      released_.push_back(*o);
    }
    void commit() {
      std::sort(changed_.begin(), changed_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
      std::vector<heap_type::store_range> stores;
      for (const logheap::home_range& c : changed_) {
        const bool is_freed = std::any_of(released_.begin(), released_.end(), [&](const auto& o) {
          return c.home >= o.at.home && c.home < o.at.home + o.at.bytes;
        });
        if (is_freed) continue;
        if (!stores.empty() && c.home <= stores.back().home + stores.back().size) {
          stores.back().size = std::max(stores.back().size, c.home + c.size - stores.back().home);
        } else {
          stores.push_back({c.home, reinterpret_cast<const std::byte*>(c.home), c.size});
        }
      }
      if (!engine_.pool_->commit(engine_.thread_, {stores, allocated_, released_})) fail_with("committing");
    }

   private:
    static logheap::home_t home_of(const void* p) { return reinterpret_cast<logheap::home_t>(p); }
    log_engine& engine_;
    std::vector<logheap::home_range> changed_;
    std::vector<heap_type::object> allocated_, released_;
  };

  log_engine(const std::string& directory, std::uint64_t pool_bytes, std::uint64_t home_bytes, bool separate_logs)
      : window_(home_bytes), pool_(medium_, directory, pool_bytes, settings(separate_logs)), thread_(pool_.join()) {}

  template <class Body>
  void transact(Body&& body) {
    transaction tx(*this);
    body(tx);
    tx.commit();
  }
  // Zeros for as long as the engine lives.
  void* fixed(std::size_t n) {
    void* p = nullptr;
    transact([&](transaction& tx) { p = tx.alloc(n); });
    return p;
  }
  heap_type& heap() noexcept { return pool_.heap(); }

 private:
  logheap::heap_settings settings(bool separate_logs) const {
    logheap::heap_settings s;
    s.home_first = window_.first();
    s.home_bytes = window_.bytes();
    s.separate_logs = separate_logs;
    s.clean_below = 0;  // nothing but chunks without anything that lives
    return s;
  }

  direct_media medium_;
  home_window window_;
  pool_type pool_;
  heap_type::thread& thread_;
};

struct point {
  std::uint64_t updates;
  std::uint64_t reclaimed_bytes;
};

template <class Structure>
std::vector<point> run(const options& o, std::uint64_t records, std::uint64_t updates, bool separate_logs) {
  constexpr std::uint64_t record_bytes = sizeof(value) + 128;
  // Half of the keys are there.  What never becomes wholly stale is never reclaimed here.
  const std::uint64_t pool_bytes = (records + updates) * record_bytes + (64ULL << 20);
  log_engine engine(o.directory, pool_bytes, round_up(records * record_bytes * 4 + (64ULL << 20), 65536),
                    separate_logs);
  Structure structure(engine, records);
  const value_source values;
  for (std::uint64_t key = 0; key < records; key += 2) {
    engine.transact([&](auto& tx) { structure.put(tx, key, values.of(key)); });
  }
  std::vector<point> points;
  random source(10);
  const std::uint64_t fast_before = engine.heap().statistics().cleaned_fast;
  for (std::uint64_t i = 1; i <= updates; ++i) {
    const std::uint64_t key = source.below(records);
    engine.transact([&](auto& tx) {
      if (!structure.erase(tx, key)) structure.put(tx, key, values.of(key));
    });
    if (i % 1000 == 0) {
      while (engine.heap().clean(64) == 64) {
      }
    }
    if (i % (updates / 10) == 0) {
      const std::uint64_t fast = engine.heap().statistics().cleaned_fast - fast_before;
      points.push_back({i, fast * logheap::layout::chunk_bytes_default});
    }
  }
  return points;
}

template <class Structure>
void measure(runner& r, const options& o) {
  const std::string name = fmt::format("fast-cleaning-{}", Structure::name);
  if (!o.selects(name)) return;
  const std::uint64_t bytes = (o.megabytes != 0 ? o.megabytes : o.full_or_quick<std::uint64_t>(64, 4)) << 20;
  const std::uint64_t records = bytes / sizeof(value) * 2;
  const std::uint64_t updates = 4 * records / 10 * 10;
  nlohmann::ordered_json j{{"name", name},
                           {"threads", 1},
                           {"parameters", {{"keys", records}, {"value_bytes", sizeof(value)}, {"updates", updates}}},
                           {"systems", nlohmann::ordered_json::array()},
                           {"ratios", nlohmann::ordered_json::array()}};
  fmt::print("\n{}: MB of log reclaimed without copying; {}\n", name, j["parameters"].dump());
  for (const bool separate : {false, true}) {
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    fmt::print("  {:<14}", separate ? "separate logs" : "one log");
    for (const point& p : run<Structure>(o, records, updates, separate)) {
      points.push_back({{"updates", p.updates}, {"reclaimed_bytes", p.reclaimed_bytes}});
      fmt::print("{:>8.1f}", static_cast<double>(p.reclaimed_bytes) / 1e6);
    }
    fmt::print("\n");
    j["systems"].push_back(
        {{"name", separate ? "separate logs" : "one log"}, {"role", "subject"}, {"points", std::move(points)}});
  }
  std::fflush(stdout);
  r.add(std::move(j));
}

}  // namespace

void measure_fast_cleaning(runner& r, const options& o) {
  measure<hash_table>(r, o);
  measure<rb_tree>(r, o);
}

}  // namespace nvm::bench
