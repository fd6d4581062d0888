// Flipped bits of a pool with lock-free structures: whatever is found, nothing crashes, hangs, or leaves the pool.
#include <random>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

constexpr std::uint64_t keys = 40;

// A pool with a list and a hash table of `keys` keys each, closed in the middle of things.
std::vector<std::byte> make_pool(const geometry& g, std::vector<std::uint64_t>& places) {
  ground<ordered_media> pool{g, {}};
  const auto fill = [&](auto& it) {
    auto& thread = pool.join();
    typename std::remove_reference_t<decltype(it)>::session session{thread};
    for (std::uint64_t k = 0; k < keys; ++k) EXPECT_TRUE(it->write(session, k * 3, k, write_rule::either));
    for (std::uint64_t k = 0; k < keys; k += 5) EXPECT_TRUE(it->remove(session, k * 3));
    for (std::uint64_t k = 1; k < keys; k += 5) EXPECT_TRUE(it->write(session, k * 3, k + 1, write_rule::either));
    for (const std::uint64_t at : pool.linked(it)) places.push_back(at);
  };
  const auto list = make_list(pool, "list");
  const auto hash = make_hash(pool, "hash", 3);
  durable<ordered_media, word_list> a{pool.shared(), *list, true};
  durable<ordered_media, word_hash_table> b{pool.shared(), *hash, true};
  fill(a);
  fill(b);
  return {pool.base(), pool.base() + g.capacity_bytes()};
}

template <class Structure>
void use(Structure& it, typename domain<ordered_media>::thread& thread) {
  typename Structure::session session{thread};
  std::uint64_t seen = 0;
  it->each(session, [&](const node_head*) { return ++seen < 10000; });
  for (std::uint64_t k = 0; k < keys * 3; k += 2) {
    (void)it->look_up(session, k, [](const node_head*) {});
    if (k % 3 == 0) {
      (void)it->write(session, k, k, write_rule::either);
    } else {
      (void)it->remove(session, k);
    }
  }
  (void)ground<ordered_media>::linked(it);
}

void open_and_use(std::byte* base, const geometry& g) {
  ordered_media medium;
  log::nothing_logged lanes;
  space<ordered_media, log::nothing_logged> places{medium, lanes, base, g};
  if (!places.boot(0, 1)) return;
  catalogue<ordered_media> names{medium, base, places};
  if (!names.open() || !names.exists()) return;
  recovery_report report;
  names.free_foreign_pages(report);
  domain_settings settings;
  settings.area_shift = names.area_shift();
  domain<ordered_media> shared{medium, base, places, settings};
  const auto list = names.find("list");
  const auto hash = names.find("hash");
  using list_type = durable<ordered_media, word_list>;
  using hash_type = durable<ordered_media, word_hash_table>;
  std::unique_ptr<list_type> a;
  std::unique_ptr<hash_type> b;
  if (list && list->kind == layout::kind::list &&
      list_type::shape_type::root_fault(places, base, list->root, list->owner) == nullptr) {
    a = std::make_unique<list_type>(shared, *list, true);
  }
  if (hash && hash->kind == layout::kind::hash &&
      hash_type::shape_type::root_fault(places, base, hash->root, hash->owner) == nullptr) {
    b = std::make_unique<hash_type>(shared, *hash, true);
  }
  typename catalogue<ordered_media>::recovery r;
  ASSERT_TRUE(names.begin_recovery(
      r,
      [&](std::uint16_t o) -> structure* {
        if (a != nullptr && o == list->owner) return a.get();
        if (b != nullptr && o == hash->owner) return b.get();
        return nullptr;
      },
      recovery_method::automatic));
  names.recover_part(r);
  if (!names.check_recovery(r)) return;
  names.end_recovery(r, report);
  const auto thread = shared.join([&](unsigned n) { return names.table_word(n); });
  if (!thread) return;
  if (a != nullptr) use(*a, **thread);
  if (b != nullptr) use(*b, **thread);
  shared.come_to_rest();
}

TEST(lockfree_damage, flipped_bits_are_found_or_do_no_harm) {
  const geometry g = pool_geometry(128, 128);
  std::vector<std::uint64_t> places;
  const std::vector<std::byte> sound = make_pool(g, places);
  // Page map, anchors, directory, and the first line of everything that something leads to.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (unsigned copy = 0; copy < 2; ++copy) ranges.emplace_back(g.anchor_at(copy), 64);
  ranges.emplace_back(g.page_map_offset, 64 * 8);
  const std::uint64_t word = load_word(sound.data(), anchor_word_at(g, 0, anchor_word::lockfree)) & checked_mask;
  ranges.emplace_back(word, 64 + 8 * 8);
  ranges.emplace_back(word + 64 + 2048, 2 * 128);
  for (const std::uint64_t at : places) {
    ranges.emplace_back(at, 24);
    ranges.emplace_back(round_down(at - g.data_offset, 8 * g.page_bytes()) + g.data_offset, 128);
  }
  std::vector<std::byte> bytes = sound;
  std::mt19937_64 random{3};
  std::uint64_t flips = 0;
  for (const auto& [from, n] : ranges) {
    for (std::uint64_t bit = random() % 7; bit < n * 8; bit += 1 + random() % 13) {
      std::copy(sound.begin(), sound.end(), bytes.begin());
      bytes[from + bit / 8] ^= std::byte{1} << bit % 8;
      open_and_use(bytes.data(), g);
      if (::testing::Test::HasFatalFailure()) FAIL() << "bit " << bit << " from offset " << from;
      ++flips;
    }
  }
  EXPECT_GT(flips, 1000U);
}

}  // namespace
}  // namespace nvm::lockfree::testing
