// Object stores in the space of a pool: clusters, growth, shrinking, attaching; and what replays must not touch.
#include <random>
#include <set>

#include "space/mend.hpp"
#include "store_testing.hpp"

namespace nvm::testing {
namespace {

using layout::cluster_header;
using layout::object_layout;

constexpr std::uint64_t page_bytes = 4096;

// Every order of lanes gives the same pool, whose stores are sound.
void expect_stores_survive_replay(const test_pool& pool, unsigned lanes) {
  const auto before = pool.essence();
  for (unsigned from = 0; from < lanes; ++from) {
    test_pool later{pool, from};
    EXPECT_TRUE(later.essence() == before) << "lanes from " << from;
    EXPECT_TRUE(later.check());
  }
}

TEST(stores, begin_as_one_page_and_grow_by_their_requests) {
  test_pool pool{test_geometry(2048, 2048)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t page = make_store(pool, 7);
  EXPECT_EQ(summary_of(pool).cluster_pages, 1U);
  open_store& store = attach(pool, page);
  EXPECT_EQ(store.number(), 7U);
  std::map<std::uint64_t, std::uint64_t> mine;
  for (const std::uint64_t bytes : {100UL, 1000UL, 4000UL, 20'000UL, 300'000UL, 64UL, 3UL << 20}) {
    const auto at = put_in(pool, store, bytes);
    ASSERT_TRUE(at) << last_message();
    mine.emplace(*at, bytes);
    EXPECT_EQ(pool->attached_at(*at), &store);
  }
  const space_summary s = summary_of(pool);
  EXPECT_EQ(s.stores, 1U);
  EXPECT_EQ(s.objects, mine.size());
  EXPECT_EQ(s.cluster_pages, store.pages_now());
  EXPECT_EQ(s.runs, 0U) << "all objects are in the store's pages";
  const auto found = pool.objects();
  for (const auto& [at, bytes] : mine) EXPECT_GE(found.at(at), bytes);
  for (const auto& [at, bytes] : mine) {
    EXPECT_TRUE(pool.around(at + bytes - 1)) << last_message();
    const object_room room = object_in_image(pool.base(), pool.sizes(), at + bytes - 1);
    EXPECT_EQ(room.offset, at);
    EXPECT_GE(room.bytes, bytes);
    EXPECT_TRUE(drop(pool, at, 1)) << last_message();
  }
  EXPECT_TRUE(pool->trim(store));
  EXPECT_EQ(store.pages_now(), 1U);
  EXPECT_EQ(summary_of(pool).cluster_pages, 1U);
  ASSERT_TRUE(pool->detach(store));
  EXPECT_EQ(pool->used_pages(), 1U);
}

// The pages after the store page are free in a pool of this size: entries get longer, no cluster is added.
TEST(stores, grow_in_place_where_they_can) {
  test_pool pool{test_geometry(64, 64)};
  ASSERT_TRUE(pool.boot());
  open_store& store = attach(pool, make_store(pool, 1));
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(put_in(pool, store, 200));
  EXPECT_EQ(summary_of(pool).clusters, 1U);
  EXPECT_GE(store.pages_now(), 4U);
}

TEST(stores, sizes_of_clusters_double) {
  test_pool pool{test_geometry(4096, 4096)};
  ASSERT_TRUE(pool.boot());
  open_store& store = attach(pool, make_store(pool, 1));
  std::vector<std::uint64_t> sizes;
  while (store.pages_now() < 512) {
    // What follows a cluster is taken, so that it cannot grow.
    const std::uint64_t before = store.pages_now();
    for (auto& c : store.clusters()) (void)pool->take_free(pool.sizes().page_offset(c.what().end()), 1);
    while (store.pages_now() == before) ASSERT_TRUE(put_in(pool, store, page_bytes)) << last_message();
    sizes.push_back(store.pages_now() - before);
  }
  ASSERT_GE(sizes.size(), 4U);
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_GE(sizes[i], sizes[i - 1]);
  EXPECT_EQ(sizes.back(), 64U) << "chunks";
  summary_of(pool);
}

// Its pages may be inaccessible until then: those that another thread's trim gave to the pool would stay so.
TEST(stores, are_passed_over_until_they_are_known) {
  test_pool pool{test_geometry(1024, 1024)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t page = make_store(pool, 1);
  open_store& store = attach(pool, page);
  const auto kept = put_in(pool, store, 200);
  ASSERT_TRUE(kept);
  const auto gone = put_in(pool, store, 40 * page_bytes);
  ASSERT_TRUE(gone);
  ASSERT_TRUE(drop(pool, *gone, 0, object_layout::raw)) << last_message();
  ASSERT_TRUE(pool->detach(store));
  const auto again = pool->attach(page, false);
  ASSERT_TRUE(again) << last_message();
  const std::uint64_t pages = (*again)->pages_now();
  trim_wishes inside;
  inside.inside_only = true;
  trim_outcome out;
  ASSERT_TRUE(pool->give_back(inside, out)) << last_message();
  EXPECT_EQ((*again)->pages_now(), pages);
  EXPECT_EQ(pool->find(*kept, object_layout::raw).error(), errc::bad_pointer);
  pool->make_known(**again);
  ASSERT_TRUE(pool->give_back(inside, out)) << last_message();
  EXPECT_LT((*again)->pages_now(), pages);
  EXPECT_TRUE(pool->find(*kept, object_layout::raw)) << last_message();
  summary_of(pool);
}

TEST(stores, are_found_as_they_were_in_another_process) {
  test_pool pool{test_geometry(1024, 1024)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t page = make_store(pool, 3);
  open_store& store = attach(pool, page);
  std::set<std::uint64_t> mine;
  for (int i = 0; i < 300; ++i) mine.insert(*put_in(pool, store, 60 + 37 * (i % 200), i % 4));
  test_pool later{pool, 0};
  ASSERT_TRUE(later.boot());
  EXPECT_FALSE(later->find(*mine.begin(), object_layout::raw));
  EXPECT_EQ(last_code(), errc::bad_pointer);
  EXPECT_NE(std::string{last_message()}.find("is not attached"), std::string::npos) << last_message();
  open_store& again = attach(later, page);
  for (const std::uint64_t at : mine) EXPECT_TRUE(later->find(at, object_layout::raw)) << last_message();
  // Room between them is used before the store grows.
  const std::uint64_t before = again.pages_now();
  for (const std::uint64_t at : mine) ASSERT_TRUE(drop(later, at));
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(put_in(later, again, 60 + 37 * (i % 200)));
  EXPECT_EQ(again.pages_now(), before);
  summary_of(later);
}

TEST(stores, detached_are_left_alone_and_attached_again) {
  test_pool pool{test_geometry(256, 256)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t page = make_store(pool, 9);
  for (int round = 0; round < 3; ++round) {
    open_store& store = attach(pool, page);
    EXPECT_FALSE(pool->attach(page, false));
    EXPECT_EQ(last_code(), errc::busy);
    const auto at = put_in(pool, store, 50, 1);
    ASSERT_TRUE(at);
    ASSERT_TRUE(pool->detach(store)) << last_message();
    EXPECT_FALSE(pool->find(*at, object_layout::raw));
    EXPECT_EQ(pool->attached_at(*at), nullptr);
    expect_stores_survive_replay(pool, 4);
  }
  EXPECT_EQ(pool.objects().size(), 3U);
  EXPECT_EQ(pool->statistics().extents_unindexed, 0U);
}

// What is told comes to the pages that the clusters have.
TEST(stores, tell_of_pages_that_come_and_leave_while_they_are_attached) {
  class listener final : public cluster_listener {
   public:
    void came(std::uint64_t offset, std::uint64_t bytes) noexcept override {
      for (std::uint64_t at = offset; at < offset + bytes; at += page_bytes) EXPECT_TRUE(pages.insert(at).second) << at;
    }
    void left(std::uint64_t offset, std::uint64_t bytes) noexcept override {
      for (std::uint64_t at = offset; at < offset + bytes; at += page_bytes) EXPECT_EQ(pages.erase(at), 1U) << at;
    }
    std::set<std::uint64_t> pages;
  };
  listener told;
  test_pool pool{test_geometry(1024, 1024)};
  ASSERT_TRUE(pool.boot());
  pool->tell_pages_to(&told);
  open_store* const both[] = {&attach(pool, make_store(pool, 7)), &attach(pool, make_store(pool, 8))};
  for (const open_store* s : both) told.came(pool.sizes().page_offset(s->page()), page_bytes);
  const auto expect_all_told = [&] {
    std::set<std::uint64_t> has;
    for (open_store* s : both) {
      for (const cluster_pages& c : s->clusters()) {
        for (std::uint64_t i = 0; i < c.what().pages; ++i) has.insert(pool.sizes().page_offset(c.what().page + i));
      }
    }
    EXPECT_EQ(told.pages, has);
  };
  // Neighbours grow in turn, so that clusters are added, too.
  std::vector<std::uint64_t> objects;
  for (unsigned i = 0; i < 60; ++i) {
    const auto at = put_in(pool, *both[i % 2], i % 3 == 0 ? 2 * page_bytes : 700);
    ASSERT_TRUE(at) << last_message();
    objects.push_back(*at);
  }
  EXPECT_GT(both[0]->clusters().size(), 1U);
  EXPECT_GT(told.pages.size(), 30U);
  expect_all_told();
  for (const std::uint64_t at : objects) ASSERT_TRUE(drop(pool, at, 0)) << last_message();
  for (open_store* s : both) EXPECT_TRUE(pool->trim(*s));
  EXPECT_LT(told.pages.size(), 10U);
  expect_all_told();
}

// The structure of a store that is detached is the next one's.
TEST(stores, give_no_room_to_a_thread_that_comes_too_late) {
  test_pool pool{test_geometry(512, 512)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t pages[] = {make_store(pool, 7), make_store(pool, 8)};
  open_store& first = attach(pool, pages[0]);
  ASSERT_TRUE(put_in(pool, first, 100));
  const store_attachment old = first.attached_as();
  ASSERT_TRUE(pool->detach(first));
  const auto refused = [&] {
    const std::uint64_t used = pool->used_pages();
    for (const std::uint64_t bytes : {100UL, 1000UL, 3 * page_bytes}) {
      EXPECT_FALSE(pool->reserve_in(old, 0, bytes, object_layout::raw));
      EXPECT_EQ(last_code(), errc::invalid);
    }
    EXPECT_EQ(pool->used_pages(), used);
  };
  refused();
  open_store& second = attach(pool, pages[1]);
  ASSERT_EQ(&second, old.store);
  refused();
  EXPECT_TRUE(pool->detach(second)) << last_message();
  open_store& again = attach(pool, pages[0]);
  ASSERT_EQ(&again, old.store);
  refused();
  EXPECT_TRUE(put_in(pool, again, 100));
}

TEST(stores, that_a_transaction_has_a_part_in_stay_attached) {
  test_pool pool{test_geometry(256, 256)};
  ASSERT_TRUE(pool.boot());
  open_store& store = attach(pool, make_store(pool, 9));
  for (const std::uint64_t bytes : {100UL, 3 * page_bytes}) {
    auto r = pool->reserve_in(store.attached_as(), 0, bytes, object_layout::raw);
    ASSERT_TRUE(r);
    EXPECT_FALSE(pool->detach(store));
    EXPECT_EQ(last_code(), errc::busy);
    pool->committed(*r, 0, pool.lanes().commit(0, {r->set}));
    {
      test_tx t{pool, 1};
      ASSERT_TRUE(t.free(r->offset));
      EXPECT_FALSE(pool->detach(store));
      EXPECT_EQ(last_code(), errc::busy);
    }
    EXPECT_TRUE(pool->find(r->offset, object_layout::raw)) << last_message();
  }
  EXPECT_TRUE(pool->detach(store));
}

TEST(stores, take_no_more_than_their_quota) {
  test_pool pool{test_geometry(512, 512)};
  ASSERT_TRUE(pool.boot());
  open_store& store = attach(pool, make_store(pool, 4, 24));
  std::vector<std::uint64_t> mine;
  for (;;) {
    const auto at = put_in(pool, store, 1000);
    if (!at) break;
    mine.push_back(*at);
  }
  EXPECT_EQ(last_code(), errc::no_space);
  EXPECT_NE(std::string{last_message()}.find("may have 24 by its quota"), std::string::npos) << last_message();
  EXPECT_LE(store.pages_now(), 24U);
  EXPECT_GE(mine.size(), 7U);
  EXPECT_TRUE(put(pool, 1000)) << "the pool has room";
  // What is empty serves other sizes.
  for (const std::uint64_t at : mine) ASSERT_TRUE(drop(pool, at));
  EXPECT_TRUE(put_in(pool, store, 6 * page_bytes)) << last_message();
  summary_of(pool);
}

TEST(stores, attached_read_only_change_nothing) {
  test_pool pool{test_geometry(256, 256)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t page = make_store(pool, 5);
  open_store& store = attach(pool, page);
  const std::uint64_t slot = *put_in(pool, store, 100);
  const std::uint64_t run = *put_in(pool, store, 2 * page_bytes);
  ASSERT_TRUE(pool->detach(store));
  open_store& only = attach(pool, page, true);
  for (const std::uint64_t at : {slot, run}) {
    EXPECT_TRUE(pool->find(at, object_layout::raw)) << last_message();
    EXPECT_FALSE(drop(pool, at));
    EXPECT_EQ(last_code(), errc::read_only) << last_message();
  }
  EXPECT_FALSE(put_in(pool, only, 100));
  EXPECT_EQ(last_code(), errc::read_only);
  EXPECT_FALSE(pool->trim(only));
  EXPECT_TRUE(pool->detach(only));
}

// A full pool takes back what its stores do not need.
TEST(stores, give_empty_clusters_to_a_full_pool) {
  test_pool pool{test_geometry(128, 128)};
  ASSERT_TRUE(pool.boot());
  open_store& store = attach(pool, make_store(pool, 6));
  std::vector<std::uint64_t> mine;
  while (const auto at = put_in(pool, store, 3 * page_bytes)) mine.push_back(*at);
  EXPECT_EQ(last_code(), errc::no_space);
  EXPECT_FALSE(put(pool, 50 * page_bytes));
  EXPECT_EQ(last_code(), errc::no_space);
  for (const std::uint64_t at : mine) ASSERT_TRUE(drop(pool, at));
  EXPECT_TRUE(put(pool, 50 * page_bytes)) << last_message();
  EXPECT_EQ(pool.lanes().settlements() > 0, true);
  expect_stores_survive_replay(pool, 4);
}

TEST(stores, clusters_are_freed_by_transactions) {
  test_pool pool{test_geometry(512, 512)};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t page = make_store(pool, 8);
  open_store& store = attach(pool, page);
  (void)pool->take_free(pool.sizes().page_offset(pool.sizes().page_of(page) + 1), 1);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put_in(pool, store, 1000));
  EXPECT_FALSE(pool->find_cluster(page));
  EXPECT_EQ(last_code(), errc::busy);
  ASSERT_TRUE(pool->detach(store));
  ASSERT_TRUE(pool->make_whole(page));
  const auto clusters = clusters_of(pool.base(), pool.sizes(), page);
  ASSERT_TRUE(clusters);
  ASSERT_GE(clusters->size(), 2U);
  {
    // Rolled back.
    const auto o = pool->find_cluster(page);
    ASSERT_TRUE(o);
    ASSERT_TRUE(pool->begin_free(*o, 0));
    EXPECT_FALSE(pool->attach(page, false));
    EXPECT_EQ(last_code(), errc::busy);
    pool->cancel_free(*o, 0);
  }
  open_store& again = attach(pool, page);
  ASSERT_TRUE(pool->detach(again));
  std::vector<log::intent> intents;
  std::vector<test_space::object> objects;
  for (const cluster& c : *clusters) {
    const auto o = pool->find_cluster(pool.sizes().page_offset(c.page));
    ASSERT_TRUE(o) << last_message();
    ASSERT_TRUE(pool->begin_free(*o, 2));
    objects.push_back(*o);
    intents.push_back(o->clear);
  }
  const std::uint64_t generation = pool.lanes().commit(2, intents);
  for (const auto& o : objects) pool->finish_free(o, 2, generation);
  const space_summary s = summary_of(pool);
  EXPECT_EQ(s.stores, 0U);
  EXPECT_EQ(s.free_pages, s.pages);
  expect_stores_survive_replay(pool, 4);
}

// Objects of several lanes, which come and go, in two stores and the pool; then everything is made again.
TEST(stores, survive_every_replay) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 random{seed};
    test_pool pool{test_geometry(300, 300, 3)};
    ASSERT_TRUE(pool.boot());
    const std::uint64_t pages[2] = {make_store(pool, 1), make_store(pool, 2)};
    open_store* stores[2] = {&attach(pool, pages[0]), &attach(pool, pages[1])};
    std::vector<std::uint64_t> mine[3];
    for (int step = 0; step < 600; ++step) {
      const unsigned lane = random() % 3;
      const unsigned where = random() % 3;
      const unsigned what = random() % 100;
      if (what < 50) {
        const std::uint64_t bytes = random() % 8 == 0 ? random() % (12 * page_bytes) + 1 : random() % 600 + 1;
        const auto at = where == 2 ? put(pool, bytes, lane) : put_in(pool, *stores[where], bytes, lane);
        if (at) mine[where].push_back(*at);
      } else if (what < 90) {
        for (int i = 0; i < 2 && !mine[where].empty(); ++i) {
          std::swap(mine[where][random() % mine[where].size()], mine[where].back());
          ASSERT_TRUE(drop(pool, mine[where].back(), lane)) << last_message();
          mine[where].pop_back();
        }
      } else if (where == 2) {
        (void)pool->trim();
      } else if (what < 95) {
        (void)pool->trim(*stores[where]);
      } else {
        ASSERT_TRUE(pool->detach(*stores[where])) << last_message();
        stores[where] = &attach(pool, pages[where]);
      }
      if (step % 29 == 0) expect_stores_survive_replay(pool, 3);
    }
    std::set<std::uint64_t> expected;
    for (const auto& list : mine) expected.insert(list.begin(), list.end());
    std::set<std::uint64_t> found;
    for (const auto& [at, bytes] : pool.objects()) found.insert(at);
    EXPECT_EQ(found, expected) << "seed " << seed;
    summary_of(pool);
  }
}

// ---- a full pool ---------------------------------------------------------------------------------------------------

// Full of extents that are empty, which nobody has looked at since it was opened; it cannot grow.
class store_in_full_pool : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(before_.boot());
    page_ = make_store(before_, 1);
    limited_ = make_store(before_, 2, 1);
    std::vector<std::uint64_t> all;
    for (auto one = put(before_, 1000); one; one = put(before_, 1000)) all.push_back(*one);
    ASSERT_EQ(last_code(), errc::no_space) << last_message();
    for (const std::uint64_t one : all) ASSERT_TRUE(drop(before_, one)) << last_message();
  }
  test_pool before_{test_geometry(128, 128)};
  std::uint64_t page_ = 0, limited_ = 0;
};

TEST_F(store_in_full_pool, gets_pages_of_empty_extents) {
  test_pool pool{before_, 0};
  ASSERT_TRUE(pool.boot());
  EXPECT_TRUE(put_in(pool, attach(pool, page_), 20 * page_bytes)) << last_message();
  summary_of(pool);
}
TEST_F(store_in_full_pool, is_not_looked_at_for_one_whose_quota_is_used_up) {
  test_pool pool{before_, 0};
  ASSERT_TRUE(pool.boot());
  const std::uint64_t before = pool->statistics().extents_unindexed;
  EXPECT_EQ(put_in(pool, attach(pool, limited_), 20 * page_bytes).error(), errc::no_space);
  EXPECT_EQ(pool->statistics().extents_unindexed, before);
}

// ---- damage --------------------------------------------------------------------------------------------------------

class damaged_store : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pool_.boot());
    page_ = make_store(pool_, 8);
    (void)pool_->take_free(page_ + page_bytes, 1);
    open_store& store = attach(pool_, page_);
    while (store.clusters().size() < 4) {
      // What follows a cluster is taken, so that it cannot grow.
      for (auto& c : store.clusters()) (void)pool_->take_free(pool_.sizes().page_offset(c.what().end()), 1);
      const std::uint64_t bytes = store.clusters().size() % 2 == 0 ? 1000 : 3 * page_bytes;
      ASSERT_TRUE(put_in(pool_, store, bytes, 0, object_layout::typed));
    }
    ASSERT_TRUE(pool_->detach(store));
    const auto all = clusters_of(pool_.base(), pool_.sizes(), page_);
    ASSERT_TRUE(all);
    ASSERT_GE(all->size(), 3U);
    clusters_ = *all;
  }
  std::uint64_t word_at(std::size_t cluster, std::size_t field) const {
    return pool_.sizes().page_offset(clusters_[cluster].page) + field;
  }
  void seal_at(std::uint64_t at, std::uint64_t content) {
    const std::uint64_t word = seal_word(content, word_seed(at));
    std::memcpy(pool_.base() + at, &word, sizeof word);
  }
  void expect_refused(const char* why) {
    EXPECT_FALSE(pool_->attach(page_, false));
    EXPECT_EQ(last_code(), errc::corrupt);
    EXPECT_NE(std::string{last_message()}.find(why), std::string::npos) << last_message();
    space_summary s;
    EXPECT_FALSE(check_space(pool_.base(), pool_.sizes(), space_check{}, s));
  }
  test_pool pool_{test_geometry(512, 512)};
  std::uint64_t page_ = 0;
  std::vector<cluster> clusters_;
};

TEST_F(damaged_store, list_leads_back) {
  seal_at(word_at(2, offsetof(cluster_header, next)), pool_.sizes().page_offset(clusters_[1].page));
  expect_refused("leads");
}
TEST_F(damaged_store, list_leads_out_of_the_pool) {
  seal_at(word_at(1, offsetof(cluster_header, next)), pool_.sizes().size_bytes());
  expect_refused("leads to no page of the pool");
}
TEST_F(damaged_store, list_leads_to_another_s) {
  seal_at(word_at(2, offsetof(cluster_header, next)), make_store(pool_, 9));
  expect_refused("leads to a cluster of store 9");
}
TEST_F(damaged_store, list_loses_a_cluster) {
  seal_at(word_at(0, offsetof(cluster_header, head)), pool_.sizes().page_offset(clusters_[2].page));
  space_summary s;
  EXPECT_FALSE(check_space(pool_.base(), pool_.sizes(), space_check{}, s));
  EXPECT_EQ(s.damages, 1U);
}
TEST_F(damaged_store, map_holds_a_run_that_leaves_the_cluster) {
  const std::uint64_t last = clusters_[1].end() - 1;
  const std::uint64_t at = clusters_[1].entry_offset(pool_.sizes(), last);
  seal_at(at, layout::pack({2, 0, layout::page_kind::run, object_layout::raw, {}}));
  expect_refused("reaches behind the cluster");
}
TEST_F(damaged_store, every_flipped_bit_of_a_header_is_found) {
  const geometry g = pool_.sizes();
  for (const cluster& c : clusters_) {
    const std::uint64_t begin = g.page_offset(c.page);
    for (std::uint64_t bit = 0; bit < layout::cluster_header_bytes(c.room) * 8; ++bit) {
      std::byte& byte = pool_.base()[begin + bit / 8];
      byte ^= std::byte{1} << bit % 8;
      space_summary s;
      EXPECT_FALSE(check_space(pool_.base(), g, space_check{}, s)) << "bit " << bit << " of page " << c.page;
      byte ^= std::byte{1} << bit % 8;
    }
  }
  EXPECT_TRUE(pool_.check());
}
// ---- mending (mend.hpp) ----

class mended_store : public damaged_store {
 protected:
  // Objects are as they were, and the check finds nothing.
  void expect_mended(const char* what) {
    std::string cannot;
    (void)mend_space(pool_.base(), pool_.sizes(), [&](const mended_place& p) {
      if (p.how == mending::cannot) cannot += std::string{p.what} + " at " + std::to_string(p.offset) + "; ";
    });
    EXPECT_EQ(cannot, "") << what;
    EXPECT_TRUE(pool_.check()) << what;
    EXPECT_EQ(pool_.objects(), before_) << what;
  }
  void SetUp() override {
    damaged_store::SetUp();
    before_ = pool_.objects();
    whole_.assign(pool_.base(), pool_.base() + pool_.sizes().size_bytes());
  }
  void restore() { std::memcpy(pool_.base(), whole_.data(), whole_.size()); }
  std::map<std::uint64_t, std::uint64_t> before_;
  std::vector<std::byte> whole_;
};

TEST_F(mended_store, with_one_flipped_bit_is_as_it_was) {
  const geometry g = pool_.sizes();
  std::mt19937_64 random{3};
  for (const cluster& c : clusters_) {
    const std::uint64_t begin = g.page_offset(c.page);
    for (std::uint64_t bit = random() % 5; bit < layout::cluster_header_bytes(c.room) * 8; bit += 5) {
      pool_.base()[begin + bit / 8] ^= std::byte{1} << bit % 8;
      const mend_summary sum = mend_space(pool_.base(), g, nullptr);
      EXPECT_EQ(sum.mended, 1U) << "bit " << bit << " of page " << c.page;
      ASSERT_TRUE(std::equal(whole_.begin(), whole_.end(), pool_.base())) << "bit " << bit << " of page " << c.page;
    }
  }
}
TEST_F(mended_store, without_its_list_has_all_of_its_clusters) {
  for (const std::uint64_t to : {std::uint64_t{0}, pool_.sizes().page_offset(clusters_[2].page)}) {
    seal_at(word_at(0, offsetof(cluster_header, head)), to);
    expect_mended("head");
    restore();
    seal_at(word_at(2, offsetof(cluster_header, next)), to);
    expect_mended("next");
    restore();
  }
}
TEST_F(mended_store, loses_no_object_with_any_word_of_a_header) {
  const std::uint64_t junk = 0x0102'0304'0506'0708;
  for (std::size_t i = 0; i < clusters_.size(); ++i) {
    for (std::size_t field = 0; field < sizeof(cluster_header); field += 8) {
      std::memcpy(pool_.base() + word_at(i, field), &junk, sizeof junk);
      expect_mended(("word " + std::to_string(field) + " of cluster " + std::to_string(i)).c_str());
      restore();
    }
  }
}
TEST_F(mended_store, loses_no_object_with_any_entry) {
  const geometry g = pool_.sizes();
  const std::uint64_t junk = 0x0102'0304'0506'0708;
  for (const cluster& c : clusters_) {
    std::memcpy(pool_.base() + g.entry_offset(c.page), &junk, sizeof junk);
    expect_mended(("page map entry of page " + std::to_string(c.page)).c_str());
    restore();
    for (std::uint64_t page = c.page + c.header_pages; page < c.end(); ++page) {
      if (load_word(pool_.base(), c.entry_offset(g, page)) == 0) continue;
      std::memcpy(pool_.base() + c.entry_offset(g, page), &junk, sizeof junk);
      expect_mended(("entry of page " + std::to_string(page)).c_str());
      restore();
    }
  }
}

// Whatever stands in a header: attach reads it, or says what is wrong.
TEST_F(damaged_store, random_words_are_refused_or_harmless) {
  std::mt19937_64 random{11};
  const geometry g = pool_.sizes();
  for (int i = 0; i < 4000; ++i) {
    const cluster& c = clusters_[random() % clusters_.size()];
    const std::uint64_t at = g.page_offset(c.page) + random() % (layout::cluster_header_bytes(c.room) / 8) * 8;
    std::uint64_t old = 0;
    std::memcpy(&old, pool_.base() + at, sizeof old);
    seal_at(at, random() % 2 == 0 ? old & checked_mask & random() : random() & checked_mask >> random() % 56);
    if (auto s = pool_->attach(page_, true)) {
      ASSERT_TRUE(pool_->detach(**s)) << last_message();
    }
    std::memcpy(pool_.base() + at, &old, sizeof old);
  }
  EXPECT_TRUE(pool_.check());
  EXPECT_TRUE(pool_->attach(page_, false)) << last_message();
}

}  // namespace
}  // namespace nvm::testing
