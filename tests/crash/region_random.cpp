#include "region_random.hpp"

#include <algorithm>
#include <random>

namespace nvm::tests {
namespace {

constexpr std::uint64_t pages = 160;  // of 1 KiB: it is full now and then
constexpr const char* names[] = {"a", "b"};
constexpr std::uint64_t regions = 6;

class workload {
 public:
  workload(region_player& p, std::uint64_t seed) : player_{p}, random_{seed} {}

  void operation() {
    const char* name = names[below(std::size(names))];
    player_.on(static_cast<unsigned>(below(2)));
    if (!player_.model().contains(name)) return player_.make_set(name);
    switch (below(24)) {
      case 0:
        if (below(3) == 0) player_.drop_set(name);
        return;
      case 1:
        if (below(3) != 0) return;
        player_.close();
        return player_.reopen();
      case 2:
        return player_.truncate_log();
      case 3:
        return player_.collect();
      case 4:
        if (below(3) == 0) player_.reopen();
        return;
      case 5:
      case 6:
      case 7:
        return group(name);
      case 8:
        // Write-backs and fences are what a kill can be placed at, and on ssd there are none.
        if (player_.variant().image || below(2) != 0) return;
        (void)player_.group_killed(static_cast<unsigned>(1 + below(30)), name, {small_call(name)});
        return;
      default:
        // On direct media what has returned is durable.
        (void)player_.try_change(name, call(name, 1 + below(regions)), !player_.variant().image || below(3) != 0);
    }
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t some_bytes() {
    constexpr std::uint64_t borders[] = {1, 16, 64, 200, 512, 600, 2048, 2100, 4000};
    return 1 + below(borders[below(std::size(borders))]);
  }
  // More than this in one record is refused where the pool has no room for a copy.
  static constexpr std::uint64_t record_bytes = 700;
  region::mode some_mode() {
    constexpr region::mode all[] = {region::mode::adaptive, region::mode::adaptive, region::mode::copy,
                                    region::mode::checked,  region::mode::marked,   region::mode::replica,
                                    region::mode::alternate};
    return all[below(std::size(all))];
  }
  region_call call(const char* name, std::uint64_t rid) {
    const auto& there = player_.model().at(name);
    const auto at = there.find(rid);
    if (at == there.end()) {
      const std::uint64_t size = below(4) == 0 ? 0 : some_bytes();
      return player_.creation(rid, size, below(2) == 0 ? 0 : below(size + 1), below(3) == 0 ? some_bytes() : 0);
    }
    const std::uint64_t size = at->second.size();
    const std::uint64_t what = below(8);
    if (what == 0) return player_.dropping(rid);
    if (what == 1) return player_.truncating(rid, below(3) == 0 ? size + below(2000) : below(size + 1));
    if (what <= 3 || size == 0) return player_.appending(rid, size > 9000 ? 1 : some_bytes(), some_mode());
    const std::uint64_t offset = below(size);
    const std::uint64_t bytes = std::min({size - offset, some_bytes(), record_bytes});
    return player_.writing(rid, offset, bytes, some_mode());
  }
  // For which there is nearly always room.
  region_call small_call(const char* name) {
    const auto& there = player_.model().at(name);
    for (const auto& [rid, bytes] : there) {
      if (bytes.size() > 20) return player_.writing(rid, below(bytes.size() - 20), 1 + below(20));
    }
    for (const auto& [rid, bytes] : there) return player_.dropping(rid);
    return player_.creation(1, 8);
  }
  void group(const char* name) {
    region_player::calls all;
    std::uint64_t rid = 1 + below(2);
    for (std::uint64_t n = 1 + below(4); n != 0 && rid <= regions; --n, rid += 1 + below(2)) {
      region_call c = call(name, rid);
      if (c.bytes.size() > record_bytes / 4 && c.kind == region_call::what::write) c.bytes.resize(record_bytes / 4);
      const bool is_dropped = c.kind == region_call::what::drop;
      all.push_back(std::move(c));
      if (is_dropped && below(2) == 0) all.push_back(player_.creation(rid, some_bytes(), below(2) == 0 ? 0 : 1));
    }
    if (below(4) == 0) return player_.group_given_up(name, all);
    (void)player_.try_group(name, all);
  }

  region_player& player_;
  std::mt19937_64 random_;
};

}  // namespace

explore::subject random_region_subject(std::uint64_t seed, unsigned operations, const region_variant& v) {
  return region_subject(
      v, "random calls about regions, seed " + std::to_string(seed),
      [seed, operations](region_player& p) {
        workload w{p, seed};
        for (unsigned i = 0; i < operations; ++i) w.operation();
      },
      pages);
}

}  // namespace nvm::tests
