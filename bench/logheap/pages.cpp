// What do materialised home pages of the log-structured heap cost and save: a load from one beside a translated one,
// the first touch of a page, keeping it current, dropping it?
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>

#include "harness/clock.hpp"
#include "harness/runner.hpp"
#include "logheap/access.hpp"
#include "logheap/home_pages.hpp"

namespace nvm::bench {
namespace {

using logheap::home_pages;
using logheap::home_read;

// Leaves with home pages over them.
class page_set {
 public:
  explicit page_set(const setting& s, unsigned fault_around = 1)
      : values_(s, logheap::leaf_settings{true}, true),
        bytes_(round_up(s.values * value_bytes, home_pages::page_bytes)) {
    // Two sets may be there at once.
    const std::uint64_t apart = fault_around == 1 ? 0 : round_up(bytes_, platform::granule_bytes);
    auto taken = platform::slot::take(platform::window_base + apart, bytes_);
    if (!taken) throw std::runtime_error(last_message());
    slot_.emplace(std::move(*taken));
    logheap::home_pages_settings settings;
    settings.base = slot_->base();
    settings.bytes = bytes_;
    settings.fault_around = fault_around;
    auto opened = home_pages::open(settings, {reader()});
    if (!opened) throw std::runtime_error(last_message());
    pages_ = std::move(*opened);
  }
  // Of a thread of its own.
  home_read reader() {
    return [this, thread = values_.join()](home_t home, std::byte* to, std::uint64_t bytes) {
      values_.read(thread, home, to, bytes);
    };
  }
  home_pages* operator->() { return pages_.get(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  leaves values_;
  const std::uint64_t bytes_;
  std::optional<platform::slot> slot_;
  std::unique_ptr<home_pages> pages_;
};

class materialised final : public accessor {
 public:
  explicit materialised(const setting& s) : accessor(s), pages_(s) { pages_->touch(0, pages_.bytes()); }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::uint64_t sum = threads_[thread].sum;
    for (std::uint64_t op = first; op < first + ops; ++op) {
      const home_t* const homes = homes_of(thread, op);
      for (std::uint64_t i = 0; i < accesses; ++i) {
        sum += *reinterpret_cast<const volatile std::uint64_t*>(pages_->at(homes[i]));
      }
    }
    threads_[thread].sum = sum;
  }

 private:
  page_set pages_;
};

benchmark load_benchmark(const options& o, const setting& s) {
  benchmark b;
  b.name = fmt::format("loads-{}", name_of(s.pick));
  b.unit = "access";
  b.units_per_op = accesses;
  b.threads = s.threads;
  b.ops = o.full_or_quick<std::uint64_t>(60'000, 500);
  b.warmup_ops = b.ops;
  b.parameters = {{"values", s.values}, {"value_bytes", value_bytes}, {"values_chosen", name_of(s.pick)}};
  b.systems.push_back({"plain loads", role::peer, [=] { return std::make_unique<plain>(s); }});
  b.systems.push_back(
      {"full", role::subject, [=] { return std::make_unique<skip_lists>(s, logheap::skip_list_settings{}, true); }});
  b.systems.push_back(
      {"leaves", role::subject, [=] { return std::make_unique<leaves>(s, logheap::leaf_settings{true}, true); }});
  b.systems.push_back({"home pages", role::subject, [=] { return std::make_unique<materialised>(s); }});
  return b;
}

// The paper's mapping with a cache that always has what is asked for, or never.
class sure_skip_lists final : public skip_lists {
 public:
  sure_skip_lists(const setting& s, const logheap::skip_list_settings& how, bool hits)
      : skip_lists(s, how, true), hits_(hits) {}
  std::uint64_t work_digest() override {
    const auto hits = static_cast<double>(client(0).hits());
    const double percent = 100 * hits / (hits + static_cast<double>(client(0).misses()));
    if (hits_ ? percent < 85 : percent > 5) {
      throw std::runtime_error(
          fmt::format("{:.1f} % of what should {}hit the cache did", percent, hits_ ? "" : "not "));
    }
    return skip_lists::work_digest();
  }

 private:
  const bool hits_;
};

// As many values as a small cache has not, and a larger one has.
benchmark hit_or_miss_benchmark(const options& o) {
  setting s{8192, 1, choice::sweep};
  benchmark b;
  b.name = "loads-hit-or-miss";
  b.unit = "access";
  b.units_per_op = accesses;
  b.ops = o.full_or_quick<std::uint64_t>(60'000, 6'000);
  b.warmup_ops = b.ops;
  b.parameters = {{"values", s.values}, {"value_bytes", value_bytes}, {"values_chosen", name_of(s.pick)}};
  b.systems.push_back({"plain loads", role::peer, [=] { return std::make_unique<plain>(s); }});
  b.systems.push_back({"home pages", role::subject, [=] { return std::make_unique<materialised>(s); }});
  for (const bool hits : {true, false}) {
    logheap::skip_list_settings how;
    how.cache_entries = hits ? 65'536 : logheap::node_cache::entries_min;
    b.systems.push_back({hits ? "full, the cache hits" : "full, the cache misses", role::subject,
                         [=] { return std::make_unique<sure_skip_lists>(s, how, hits); }});
  }
  logheap::skip_list_settings uncached;
  uncached.node_cache = false;
  b.systems.push_back(
      {"full, no cache", role::subject, [=] { return std::make_unique<skip_lists>(s, uncached, true); }});
  b.systems.push_back(
      {"leaves", role::subject, [=] { return std::make_unique<leaves>(s, logheap::leaf_settings{true}, true); }});
  return b;
}

// Nanoseconds of one thing done to each page, one after the other.
class costs {
 public:
  costs(const options& o, std::uint64_t values)
      : runs_{std::max(1U, o.runs)}, pages_{setting{values, 1}}, ahead_{setting{values, 1}, 16} {
    count_ = pages_.bytes() / home_pages::page_bytes;
    result_ = {{"name", "costs"},
               {"threads", 1},
               {"parameters", {{"pages", count_}, {"value_bytes", value_bytes}, {"runs", runs_}}},
               {"systems", nlohmann::ordered_json::array()}};
  }
  nlohmann::ordered_json measure() {
    const home_read own = pages_.reader();
    const std::vector<std::byte> value(value_bytes, std::byte{1});
    const auto absent = [&] { (void)pages_->shrink(0); };
    const auto present = [&] { pages_->touch(0, pages_.bytes()); };
    first_touch_of_anonymous_memory();
    add("first touch, by a fault", absent, [&](home_t home) { load(home); });
    add(
        "first touch upward, 16 pages ahead", [&] { (void)ahead_->shrink(0); },
        [&](home_t home) { sum_ += *reinterpret_cast<const volatile std::uint64_t*>(ahead_->at(home)); });
    add("touch() by the thread itself", absent, [&](home_t home) { pages_->touch(home, 1, &own); });
    add("pin() and unpin(), absent, by the thread itself", absent, [&](home_t home) {
      pages_->pin(home, value_bytes, &own);
      pages_->unpin(home, value_bytes);
    });
    add("pin() and unpin(), present", present, [&](home_t home) {
      pages_->pin(home, value_bytes);
      pages_->unpin(home, value_bytes);
    });
    add("store() of 128 bytes, present", present, [&](home_t home) { pages_->store(home, value.data(), value_bytes); });
    add("store() of 128 bytes, absent", absent, [&](home_t home) { pages_->store(home, value.data(), value_bytes); });
    add("drop(), a page at a time", present, [&](home_t home) { pages_->drop(home, home_pages::page_bytes); });
    add_whole("shrink(), all pages", present, absent);
    return std::move(result_);
  }

 private:
  void load(home_t home) { sum_ += *reinterpret_cast<const volatile std::uint64_t*>(pages_->at(home)); }
  template <class Before, class Each>
  void add(const char* name, Before&& before, Each&& each) {
    add_whole(name, before, [&] {
      for (std::uint64_t n = 0; n < count_; ++n) each(n * home_pages::page_bytes);
    });
  }
  template <class Before, class All>
  void add_whole(const char* name, Before&& before, All&& all) {
    std::vector<double> ns;
    for (unsigned r = 0; r < runs_; ++r) {
      before();
      const std::uint64_t start = wall_ns();
      all();
      ns.push_back(static_cast<double>(wall_ns() - start) / static_cast<double>(count_));
    }
    std::sort(ns.begin(), ns.end());
    const double median = ns[ns.size() / 2];
    fmt::print("{}: {:.0f} ns a page ({:.0f} to {:.0f})\n", name, median, ns.front(), ns.back());
    std::fflush(stdout);
    result_["systems"].push_back(
        {{"name", name}, {"role", "subject"}, {"ns", median}, {"ns_min", ns.front()}, {"ns_max", ns.back()}});
  }
  // What the system's own faults cost.
  void first_touch_of_anonymous_memory() {
    const std::uint64_t bytes = pages_.bytes();
    void* memory = nullptr;
    const auto map = [&] {
      if (memory != nullptr) ::munmap(memory, bytes);
      memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) throw std::runtime_error("no memory");
      (void)::madvise(memory, bytes, MADV_NOHUGEPAGE);
    };
    add("first store to anonymous memory", map,
        [&](home_t home) { static_cast<volatile std::byte*>(memory)[home] = std::byte{1}; });
    ::munmap(memory, bytes);
  }

  const unsigned runs_;
  page_set pages_, ahead_;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  nlohmann::ordered_json result_;
};

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "What materialised home pages cost and save",
                 .directory = "/dev/shm",
                 .threads = {1},
                 .runs = 5,
                 .records = 100'000,
                 .quick_records = 2'000},
                [](runner& r, const options& o) {
                  for (const unsigned threads : o.threads) {
                    for (const choice pick : {choice::hot, choice::zipf, choice::uniform}) {
                      r.run(load_benchmark(o, {o.records, threads, pick}));
                    }
                  }
                  r.run(hit_or_miss_benchmark(o));
                  if (o.selects("costs")) r.add(costs{o, o.records}.measure());
                });
}
