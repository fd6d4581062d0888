#include "logheap_random.hpp"

#include <iterator>
#include <random>

namespace nvm::tests {
namespace {

using home_t = logheap::home_t;

constexpr std::uint64_t pages = 64;             // of 1 KiB, a chunk each
constexpr std::uint64_t live_bytes_max = 9000;  // a third of what the chunks hold, with the headers of small objects
constexpr std::size_t objects_max = 60;

class workload {
 public:
  workload(logheap_player& p, std::uint64_t seed) : player_{p}, random_{seed} {}

  void operation() {
    player_.on(static_cast<unsigned>(below(3)));
    switch (below(24)) {
      case 0:
        (void)player_.clean_once(static_cast<unsigned>(1 + below(2)), below(2) == 0);
        return;
      case 1:
        (void)player_.clean();
        return;
      case 2:
        if (below(3) == 0) player_.end_and_open();
        return;
      case 3:
        if (below(3) == 0) player_.close_and_open();
        return;
      case 4:
        if (below(4) == 0) player_.fail_to_commit();
        return;
      default:
        (void)player_.commit([&](logheap_player::steps& t) {
          // Most are small; what a transaction has allocated it may change and release.
          logheap_contents now = player_.model();
          for (std::uint64_t n = below(4) == 0 ? 1 + below(6) : 1; n > 0; --n) step(t, now);
        });
    }
    // What is there no longer is cleaned away in time, as a thread that cleans in the background does.
    if (++since_cleaned_ % 6 == 0) (void)player_.clean();
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t size() { return below(8) == 0 ? 1 + below(1500) : 1 + below(200); }
  void step(logheap_player::steps& t, logheap_contents& now) {
    std::uint64_t bytes = 0;
    for (const auto& [home, content] : now) bytes += content.size();
    const std::uint64_t choice = below(8);
    if (now.empty() || (choice < 3 && bytes < live_bytes_max && now.size() < objects_max)) {
      const std::uint64_t s = size();
      const home_t at = t.allocate(s);
      now[at].resize(s);
      if (below(8) != 0) t.store(at, s, static_cast<int>(below(256)));
      return;
    }
    const auto o = std::next(now.begin(), static_cast<std::ptrdiff_t>(below(now.size())));
    if (choice < 5) {
      t.release(o->first);
      now.erase(o);
      return;
    }
    const std::uint64_t first = below(3) == 0 ? below(o->second.size()) : 0;
    const std::uint64_t most = o->second.size() - first;
    t.store(o->first + first, below(3) == 0 ? 1 + below(most) : most, static_cast<int>(below(256)));
  }

  logheap_player& player_;
  std::mt19937_64 random_;
  unsigned since_cleaned_ = 0;
};

}  // namespace

explore::subject random_logheap_subject(std::uint64_t seed, unsigned operations, const logheap_variant& v) {
  logheap_story s{"random, of seed", nullptr, pages};
  const std::string name = "random transactions, seed " + std::to_string(seed);
  s.name = name.c_str();
  s.steps = [seed, operations](logheap_player& p) {
    workload w{p, seed};
    for (unsigned i = 0; i < operations; ++i) w.operation();
  };
  return logheap_subject(v, s);
}

}  // namespace nvm::tests
