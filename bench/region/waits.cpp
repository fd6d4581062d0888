// How long do readers and writers of one region wait for each other?  Lewat, section IV-F.
//
//   waits-read     a read of 2 KiB: alone, and beside a writer that never stops, by version and counted (the paper's)
//   waits-write    64 bytes of it: alone; beside readers that never stop, as many as there are processors besides;
//                  beside leases that come and go; under one that is held; beside another writer
//   waits-group    groups of 1 to 8 regions of 16, taken in any order, of two threads
//
// Each call is timed: median, 99 and 99.9 of a hundred, longest.  --emulate makes memory slower.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/clock.hpp"
#include "harness/histogram.hpp"
#include "harness/random.hpp"
#include "region/ground.hpp"
#include "region/questions.hpp"

namespace nvm::bench {
namespace {

using medium_type = latency_media<direct_media>;

constexpr std::uint64_t size = 2048;
constexpr std::uint64_t changed = 64;
constexpr std::uint64_t rid = 1;
constexpr std::uint64_t accounts = 16;  // regions of groups, from 100 on

// A call, over and over: of which it is told the number; made in the thread that does it.
using work = std::function<void(std::uint64_t)>;
using worker = std::function<work()>;

// Times measured(i) for `seconds`, in this thread, while each of `others` runs in one of its own.
histogram time_beside(double seconds, const work& measured, const std::vector<worker>& others) {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> begun{0};
  std::vector<std::thread> threads;
  threads.reserve(others.size());
  for (const worker& other : others) {
    threads.emplace_back([&stop, &begun, &other] {
      const work does = other();
      for (std::uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        does(i);
        if (i == 0) ++begun;
      }
    });
  }
  while (begun.load() != others.size()) std::this_thread::yield();
  for (std::uint64_t i = 0; i < 1000; ++i) measured(i);
  histogram times;
  const std::uint64_t begin = wall_ns();
  std::uint64_t before = begin;
  for (std::uint64_t i = 0; static_cast<double>(before - begin) < seconds * 1e9; ++i) {
    measured(i);
    const std::uint64_t now = wall_ns();
    times.add(now - before);
    before = now;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  return times;
}

class subject {
 public:
  subject(const options& o, bool counted) : medium_{inner_, latency_of(o)}, at_{medium_, 16 << 20} {
    at_.set().count_readers(counted);
    const std::vector<std::byte> bytes(size, std::byte{1});
    auto& t = at_.join();
    at_.create(t, rid, size, bytes, 0);
    for (std::uint64_t i = 0; i < accounts; ++i) at_.create(t, 100 + i, changed, std::span{bytes}.first(changed), 0);
    at_.domain().leave(t);
  }
  worker reads() {
    return [this]() -> work {
      auto to = std::make_shared<std::vector<std::byte>>(size);
      return [this, to, t = joined()](std::uint64_t) { at_.read(*t, rid, *to); };
    };
  }
  worker writes() {
    return [this]() -> work {
      auto from = std::make_shared<std::vector<std::byte>>(changed);
      return [this, from, t = joined()](std::uint64_t i) {
        (*from)[0] = static_cast<std::byte>(i);
        at_.write(*t, rid, random{i}.below(size - changed), *from);
      };
    };
  }
  worker leases() {
    return [this]() -> work { return [this, t = joined()](std::uint64_t) { at_.lease(*t, rid); }; };
  }
  // Of 1 to 8 regions that it takes one after the other; begun again, in their order, where one cannot be waited for.
  worker groups(std::uint64_t seed) {
    return [this, seed]() -> work {
      return [this, seed, t = joined()](std::uint64_t i) {
        random source{mix(seed) + i};
        std::vector<std::uint64_t> rids(1 + source.below(8));
        for (std::uint64_t& r : rids) r = 100 + source.below(accounts);
        while (!group(*t, rids, i)) {
          std::sort(rids.begin(), rids.end());
          rids.erase(std::unique(rids.begin(), rids.end()), rids.end());
        }
      };
    };
  }
  region::lease hold() {
    const auto l = region::hold(at_.domain(), at_.set(), *joined(), rid);
    if (!l) fail_with("holding");
    return *l;
  }
  void let_go(const region::lease& l) {
    if (!region::let_go(at_.domain(), l)) fail_with("letting go");
  }

 private:
  using thread = region_ground<medium_type>::thread;
  // The calling thread's number, given back with the work.
  std::shared_ptr<thread> joined() {
    return {&at_.join(), [this](thread* t) { at_.domain().leave(*t); }};
  }
  bool group(thread& t, const std::vector<std::uint64_t>& rids, std::uint64_t word) {
    const region::domain<medium_type>::inside here{at_.domain(), t};
    region::transaction<medium_type> tx{at_.domain(), at_.set(), t};
    for (const std::uint64_t r : rids) {
      if (tx.has(r)) continue;
      const status joined = tx.join(r);
      if (!joined && joined.error() == errc::busy) return false;
      if (!joined || !tx.write(r, 0, std::as_bytes(std::span{&word, 1}))) fail_with("a group");
    }
    if (!tx.commit()) fail_with("the commit of a group");
    return true;
  }

  direct_media inner_{isa::best_write_back()};
  medium_type medium_;
  region_ground<medium_type> at_;
};

class table {
 public:
  table(runner& r, const options& o, const char* name)
      : runner_{r}, wanted_{o.selects(name)}, seconds_{o.full_or_quick(0.5, 0.02)}, rounds_{std::max(1U, o.runs)} {
    j_ = {
        {"name", name},
        {"threads", platform::processors()},
        {"parameters",
         {{"size", size}, {"changed", changed}, {"seconds", seconds_}, {"rounds", rounds_}, {"emulated", o.emulated}}},
        {"systems", nlohmann::ordered_json::array()},
        {"ratios", nlohmann::ordered_json::array()}};
    if (wanted_) fmt::print("\n{}: nanoseconds of a call, median of the rounds; {}\n", name, j_["parameters"].dump());
  }
  ~table() {
    if (wanted_) runner_.add(std::move(j_));
  }
  table(const table&) = delete;
  table& operator=(const table&) = delete;
  [[nodiscard]] bool wanted() const { return wanted_; }

  void row(const std::string& name, const worker& measured, const std::vector<worker>& others = {}) {
    std::vector<histogram> all;
    const work does = measured();
    for (unsigned i = 0; i < rounds_; ++i) all.push_back(time_beside(seconds_, does, others));
    // The median of the rounds: one in which this machine did something else says little.
    const auto middle = [&](auto&& of) {
      std::vector<std::uint64_t> v;
      for (const histogram& h : all) v.push_back(of(h));
      std::sort(v.begin(), v.end());
      return v[v.size() / 2];
    };
    const std::uint64_t calls = middle([](const histogram& h) { return h.count(); });
    const std::uint64_t p50 = middle([](const histogram& h) { return h.quantile(0.5); });
    const std::uint64_t p99 = middle([](const histogram& h) { return h.quantile(0.99); });
    const std::uint64_t p999 = middle([](const histogram& h) { return h.quantile(0.999); });
    const std::uint64_t longest = middle([](const histogram& h) { return h.max(); });
    fmt::print("  {:<32} p50 {:>7}, p99 {:>8}, p99.9 {:>9}, longest {:>10}, {} calls\n", name, p50, p99, p999, longest,
               calls);
    std::fflush(stdout);
    j_["systems"].push_back({{"name", name},
                             {"role", "subject"},
                             {"p50_ns", p50},
                             {"p99_ns", p99},
                             {"p999_ns", p999},
                             {"longest_ns", longest},
                             {"calls", calls}});
  }

 private:
  runner& runner_;
  const bool wanted_;
  const double seconds_;
  const unsigned rounds_;
  nlohmann::ordered_json j_;
};

}  // namespace

void measure_waits(runner& r, const options& o) {
  const unsigned besides = std::max(1U, platform::processors() - 1);
  const auto kinds = {std::pair{"by version", false}, std::pair{"counted", true}};
  if (table t{r, o, "waits-read"}; t.wanted()) {
    for (const auto& [name, counted] : kinds) {
      subject s{o, counted};
      t.row(fmt::format("{}: alone", name), s.reads());
      t.row(fmt::format("{}: beside a reader", name), s.reads(), {s.reads()});
      t.row(fmt::format("{}: beside a writer", name), s.reads(), {s.writes()});
    }
  }
  if (table t{r, o, "waits-write"}; t.wanted()) {
    for (const auto& [name, counted] : kinds) {
      subject s{o, counted};
      t.row(fmt::format("{}: alone", name), s.writes());
      t.row(fmt::format("{}: beside {} readers", name, besides), s.writes(), std::vector<worker>(besides, s.reads()));
    }
    subject s{o, false};
    t.row("beside leases", s.writes(), {s.leases()});
    const region::lease held = s.hold();
    t.row("under a lease that is held", s.writes());
    s.let_go(held);
    t.row("beside a writer", s.writes(), {s.writes()});
  }
  if (table t{r, o, "waits-group"}; t.wanted()) {
    subject s{o, false};
    t.row("alone", s.groups(1));
    t.row("beside another thread", s.groups(1), {s.groups(2)});
  }
}

}  // namespace nvm::bench
