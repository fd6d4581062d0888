// Flipped bits of a pool with lock-free structures: whatever is found, nothing crashes, hangs, or leaves the pool.
#include <random>

#include "ordered.hpp"

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
  EXPECT_TRUE(names.end_recovery(r, report, []() noexcept { return status{}; }));
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

// ---- damaged links that lead back --------------------------------------------------------------------------------

template <template <class> class Shapes, class Data>
std::unique_ptr<subject<Shapes, Data>> with_keys() {
  auto s = std::make_unique<subject<Shapes, Data>>(variants[0]);
  typename subject<Shapes, Data>::worker w{*s};
  for (std::uint64_t k = 0; k < keys; ++k) EXPECT_EQ(w.write(k, k, write_rule::either), written::inserted);
  w.end();
  return s;
}
// Whatever is asked of it, it ends; a walk shows no more than there is; and it knows that it is damaged.
template <class Subject>
void ends(Subject& s) {
  using structure_type = typename Subject::structure_type;
  auto& thread = s.pool.join();
  typename structure_type::session session{thread};
  std::uint64_t seen = 0;
  (*s.it)->each(session, [&](const node_head*) { return ++seen <= 4 * keys; });
  EXPECT_LE(seen, 4 * keys);
  for (std::uint64_t k = 0; k <= keys; ++k) {
    (void)(*s.it)->look_up(session, k, [](const node_head*) {});
    (void)(*s.it)->write(session, k, k, write_rule::either);
    (void)(*s.it)->remove(session, k);
  }
  EXPECT_TRUE(s.it->is_damaged());
  s.it->memory().end(session);
  s.pool.shared().leave(thread);
}
template <class Subject>
node_head* node_of(Subject& s, link_word w) {
  return reinterpret_cast<node_head*>(s.pool.base() + offset_of(w));
}

TEST(lockfree_damage, list_that_leads_back_is_walked_once) {
  auto s = with_keys<lists, words>();
  EXPECT_EQ(s->it->links_fault(), nullptr);
  auto& first = reinterpret_cast<list_root*>(s->pool.base() + s->root)->first;
  node_head* n = node_of(*s, first.load());
  for (int i = 0; i < 7; ++i) n = node_of(*s, n->next.load());
  n->next.set(first.load());
  EXPECT_NE(s->it->links_fault(), nullptr);
  ends(*s);
}
TEST(lockfree_damage, list_whose_equal_orders_lead_back_is_walked_once) {
  auto s = with_keys<lists, words>();
  auto& first = reinterpret_cast<list_root*>(s->pool.base() + s->root)->first;
  node_head* const one = node_of(*s, first.load());
  node_head* const two = node_of(*s, one->next.load());
  two->order = one->order;
  two->next.set(first.load());
  EXPECT_NE(s->it->links_fault(), nullptr);
  ends(*s);
}
TEST(lockfree_damage, skip_list_that_leads_back_is_walked_once) {
  // At the bottom, and at a level above it, which only the full check looks at beside searches.
  for (const unsigned level : {0U, 1U}) {
    auto s = with_keys<skip_lists, words>();
    EXPECT_EQ(s->it->links_fault(), nullptr);
    link* const first = &reinterpret_cast<skip_root*>(s->pool.base() + s->root)->first - level;
    link* at = &node_of(*s, first->load())->next - level;
    for (int i = 0; i < 2; ++i) at = &node_of(*s, at->load())->next - level;
    at->set(first->load());
    EXPECT_NE(s->it->links_fault(), nullptr) << level;
    ends(*s);
  }
}
TEST(lockfree_damage, skip_list_with_a_node_above_its_height_is_worked_with) {
  auto s = with_keys<skip_lists, words>();
  link* const first = &reinterpret_cast<skip_root*>(s->pool.base() + s->root)->first;
  // Of the nodes that are in the bottom only, a deleted one.
  link_word low = first->load();
  while (offset_of(low) % 64 != 8) low = node_of(*s, low)->next.load();
  node_of(*s, low)->next.set(node_of(*s, low)->next.load() | gone);
  (first - 1)->set(offset_of(low));
  EXPECT_NE(s->it->links_fault(), nullptr);
  ends(*s);
}
TEST(lockfree_damage, skip_list_with_a_link_that_is_pending_and_leads_away_is_worked_with) {
  auto s = with_keys<skip_lists, words>();
  link* const first = &reinterpret_cast<skip_root*>(s->pool.base() + s->root)->first - 1;
  link* const at = &node_of(*s, first->load())->next - 1;
  at->set((std::uint64_t{1} << 40) | pending);
  EXPECT_NE(s->it->links_fault(), nullptr);
  ends(*s);
}
TEST(lockfree_damage, tree_that_leads_back_is_walked_once) {
  // Keys that came in ascending order lie to the right of each other: `depth` branches down, to the top again.
  for (const int depth : {1, 2, 5}) {
    for (const bool to_the_left : {false, true}) {
      auto s = with_keys<trees, words>();
      EXPECT_EQ(s->it->links_fault(), nullptr);
      auto& top = reinterpret_cast<tree_root*>(s->pool.base() + s->root)->top;
      node_head* n = node_of(*s, top.load());
      const auto right = [](node_head* over) { return &over->next - 2; };
      for (int i = 1; i < depth; ++i) n = node_of(*s, right(n)->load());
      (to_the_left ? &n->next : right(n))->set(top.load());
      EXPECT_NE(s->it->links_fault(), nullptr) << depth;
      ends(*s);
    }
  }
}
TEST(lockfree_damage, hash_table_whose_chain_ends_before_a_cell_does_not_pass_the_check) {
  for (const bool grown : {false, true}) {
    auto s = with_keys<hash_tables, words>();
    EXPECT_EQ(s->it->links_fault(), nullptr);
    const auto& root = *reinterpret_cast<const hash_root*>(s->pool.base() + s->root);
    ASSERT_NE(root.arrays[1], 0U);
    const std::uint64_t cells = std::uint64_t{1} << (root.bits & checked_mask);
    // Nothing is after the last cell of the first array, nor after any from the middle on.
    auto* const first = reinterpret_cast<link*>(s->pool.base() + (root.arrays[0] & checked_mask));
    first[grown ? cells - 1 : cells / 2].set(0);
    const char* const fault = s->it->links_fault();
    ASSERT_NE(fault, nullptr) << grown;
    EXPECT_STREQ(fault, "a cell is not in the chain");
  }
}
TEST(lockfree_damage, hash_table_whose_seed_is_another_one_is_refused) {
  auto s = with_keys<hash_tables, words>();
  auto& root = *reinterpret_cast<hash_root*>(s->pool.base() + s->root);
  const auto fault = [&] {
    using shape = durable<ordered_media, word_hash_table>::shape_type;
    return shape::root_fault(s->pool.places(), s->pool.base(), s->root, layout::first_owner);
  };
  EXPECT_STREQ(fault(), nullptr);
  for (unsigned bit = 0; bit < 64; ++bit) {
    root.seed ^= std::uint64_t{1} << bit;
    EXPECT_STREQ(fault(), "the seed of its hash fails its check") << bit;
    root.seed ^= std::uint64_t{1} << bit;
  }
  // As libraries made it that had no sum.
  root.seed_sum = 0;
  EXPECT_STREQ(fault(), nullptr);
}
template <template <class> class Shapes>
void expect_the_order_of_each_key_is_checked() {
  auto s = with_keys<Shapes, bytes>();
  EXPECT_EQ(s->it->links_fault(), nullptr);
  auto& thread = s->pool.join();
  {
    typename subject<Shapes, bytes>::session session{thread};
    node_head* some = nullptr;
    (*s->it)->each(session, [&](const node_head* n) {
      some = const_cast<node_head*>(n);
      return false;
    });
    ASSERT_NE(some, nullptr);
    // As far as orders go this is where it belongs.
    --some->order;
    s->it->memory().end(session);
  }
  s->pool.shared().leave(thread);
  EXPECT_NE(s->it->links_fault(), nullptr);
}
TEST(lockfree_damage, orders_that_are_not_those_of_the_keys_do_not_pass_the_check) {
  expect_the_order_of_each_key_is_checked<lists>();
  expect_the_order_of_each_key_is_checked<hash_tables>();
  expect_the_order_of_each_key_is_checked<skip_lists>();
  expect_the_order_of_each_key_is_checked<trees>();
}
TEST(lockfree_damage, tree_whose_only_edge_is_gone_and_leads_nowhere_is_worked_with) {
  auto s = std::make_unique<subject<trees, words>>(variants[0]);
  reinterpret_cast<tree_root*>(s->pool.base() + s->root)->top.set(gone);
  ends(*s);
}
TEST(lockfree_damage, tree_that_leads_to_a_smaller_leaf_is_walked_once) {
  auto s = with_keys<trees, words>();
  auto& top = reinterpret_cast<tree_root*>(s->pool.base() + s->root)->top;
  node_head* const over = node_of(*s, top.load());
  link* const right = &over->next - 2;
  // The smallest leaf again, after itself.
  right->set(over->next.load());
  EXPECT_NE(s->it->links_fault(), nullptr);
  auto& thread = s->pool.join();
  decltype(s->it)::element_type::session session{thread};
  std::uint64_t seen = 0;
  (*s->it)->each(session, [&](const node_head*) { return ++seen < 4 * keys; });
  EXPECT_LE(seen, keys);
  EXPECT_TRUE(s->it->is_damaged());
}

}  // namespace
}  // namespace nvm::lockfree::testing
