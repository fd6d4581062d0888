#include "lockfree_random.hpp"

#include <random>

namespace nvm::tests {
namespace {

constexpr std::uint64_t pages = 512;  // of 1 KiB: a thread has an extent of each size of nodes
constexpr const char* names[] = {"a", "b", "c"};
constexpr std::uint64_t keys = 12;

class workload {
 public:
  workload(lockfree_player& p, std::uint64_t seed) : player_{p}, random_{seed} {}

  void operation() {
    const char* name = names[below(std::size(names))];
    player_.on(static_cast<unsigned>(below(3)));
    if (!player_.model().contains(name)) {
      // Skip lists and trees are on direct media and on ssd alike; volatile links have no tree.
      auto shape = static_cast<shape_of_structure>(below(8));
      if (player_.variant().volatile_links && kind_of(shape) == lockfree::layout::kind::tree)
        shape = shape_of_structure::words_hash;
      player_.create(name, shape, static_cast<unsigned>(1 + below(2)));
      return;
    }
    const std::uint64_t key = 1 + below(keys);
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
        return player_.insert(name, key, value(name));
      case 3:
      case 4:
        return player_.replace(name, key, value(name));
      case 5:
      case 6:
      case 7:
      case 8:
        return player_.put(name, key, value(name));
      case 9:
      case 10:
      case 11:
      case 12:
        return player_.remove(name, key);
      case 13:
      case 14:
        return player_.look_up(name, key);
      case 15:
        if (below(4) == 0) player_.end_thread();
        return;
      case 16:
        if (below(2) == 0) player_.settle();
        return;
      case 17:
        if (below(4) == 0) {
          player_.close();
          player_.reopen();
        }
        return;
      case 18:
        if (below(12) == 0) player_.drop(name);
        return;
      default:
        // Write-backs and fences are what a kill can be placed at, and on ssd there are none.
        if (player_.variant().image || below(2) != 0) return;
        const auto point = static_cast<unsigned>(1 + below(12));
        if (below(2) == 0) {
          (void)player_.put_killed(point, name, key, random_());
        } else {
          (void)player_.remove_killed(point, name, key);
        }
    }
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  value_bytes value(const char* name) {
    if (has_words(player_.model().at(name).shape)) return word_value(random_());
    return long_value(random_(), below(12) == 0 ? below(2500) : below(200));
  }

  lockfree_player& player_;
  std::mt19937_64 random_;
};

}  // namespace

explore::subject random_lockfree_subject(std::uint64_t seed, unsigned operations, const lockfree_variant& v) {
  return lockfree_subject(
      v, "random calls, seed " + std::to_string(seed),
      [seed, operations](lockfree_player& p) {
        workload w{p, seed};
        for (unsigned i = 0; i < operations; ++i) w.operation();
      },
      pages);
}

}  // namespace nvm::tests
