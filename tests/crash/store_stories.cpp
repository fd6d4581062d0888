#include "store_player.hpp"

namespace nvm::tests {
namespace {

// A pool of pages of 1 KiB: a run of the pool, so that what lies before it cannot grow in place.
void block(store_player& p, unsigned lane = 0) {
  p.begin(lane);
  p.put_in_pool(4200, 0xBB, lane);
  p.commit(lane);
}
void make(store_player& p, std::uint32_t number, std::uint64_t quota_pages = 0, unsigned lane = 0) {
  p.begin(lane);
  p.create(number, quota_pages, lane);
  p.commit(lane);
}

void stores_come_and_go(store_player& p) {
  p.begin();
  p.create(1);
  p.create(2);
  p.put_in_pool(40, 0x10);
  p.commit();
  p.begin(1);
  p.create(3, 0, 1);
  p.abort(1);
  p.attach(1);
  const std::uint64_t a = p.one(1, 40, 0x11);
  p.begin();
  const std::uint64_t b = p.put(1, 200, 0x12);
  p.set_root(1, b);
  p.set_owner(1, 55);
  p.commit();
  p.detach(1);
  p.attach(1);
  p.attach(2);
  p.one_free(a, 1);
  p.one(2, 100, 0x21, 1);
  p.detach(1);
  p.begin();
  p.drop_some(1, 10);
  p.put_in_pool(300, 0x13);
  p.commit();
  p.trim(2);
  p.one(2, 100, 0x22);
}

void a_store_grows_in_place(store_player& p) {
  make(p, 1);
  p.attach(1);
  // Pages by which one thread made the store grow, and which it does not take, another takes.
  p.begin(0);
  p.put(1, 4300, 0x11, 0);
  p.abort(0);
  p.one(1, 4300, 0x12, 1);
  for (std::uint8_t i = 0; i < 9; ++i) p.one(1, 230, i, i % 2);
  p.one(1, 700, 0x55);
}

void a_store_grows_by_clusters(store_player& p) {
  make(p, 1);
  block(p);
  p.attach(1);
  p.one(1, 100, 0x11);
  block(p, 1);
  // Growth outlives the transaction that wanted it.
  p.begin(1);
  p.put(1, 4300, 0x12, 1);
  p.abort(1);
  p.begin(1);
  p.put(1, 9000, 0x13, 1);
  p.abort(1);
  p.one(1, 9000, 0x14);
  p.one(1, 600, 0x15, 1);
}

void a_store_shrinks(store_player& p) {
  make(p, 1);
  block(p);
  p.attach(1);
  const std::uint64_t small = p.one(1, 100, 0x11);
  block(p);
  const std::uint64_t run = p.one(1, 5000, 0x12, 1);
  const std::uint64_t other = p.one(1, 6000, 0x13);
  p.one_free(run);
  p.trim(1);
  p.one_free(other, 1);
  p.trim(1);
  p.one_free(small);
  p.trim(1);
  p.begin(1);
  p.put_in_pool(9000, 0x14, 1);
  p.commit(1);
  p.one(1, 100, 0x15, 1);
}

// Pages that one store has given up belong to another, and no intent of the first is made again in them.
void pages_change_hands(store_player& p) {
  p.begin();
  p.create(1);
  p.create(2);
  p.commit();
  block(p);
  p.attach(1);
  p.attach(2);
  for (std::uint8_t round = 0; round < 3; ++round) {
    const unsigned lane = round % 2;
    const std::uint32_t from = 1 + round % 2;
    const std::uint64_t run = p.one(from, 8000, static_cast<std::uint8_t>(0x20 + round), lane);
    const std::uint64_t slot = p.one(from, 150, static_cast<std::uint8_t>(0x30 + round), 1 - lane);
    p.one_free(run, 1 - lane);
    p.one_free(slot, lane);
    p.trim(from);
    p.one(3 - from, 7000, static_cast<std::uint8_t>(0x40 + round), 1 - lane);
    p.detach(from);
    p.attach(from);
  }
}

void a_store_is_dropped_in_batches(store_player& p) {
  make(p, 1);
  make(p, 2);
  block(p);
  p.attach(1);
  p.one(1, 100, 0x11);
  block(p);
  p.one(1, 5000, 0x12);
  p.one(1, 6000, 0x13, 1);
  p.detach(1);
  for (bool done = false; !done;) {
    p.begin(1);
    done = p.drop_some(1, 1, 1);
    p.put_in_pool(100, 0x14, 1);
    p.commit(1);
  }
  p.begin();
  p.put_in_pool(12'000, 0x15);
  p.commit();
}

// Two open at once share extents of a store, and words of them; a third waits that one is rolled back.
void transactions_meet_in_a_store(store_player& p) {
  make(p, 1);
  p.attach(1);
  const std::uint64_t a = p.one(1, 50, 0x11);
  const std::uint64_t b = p.one(1, 60, 0x12, 1);
  p.begin(0);
  p.begin(1);
  p.free(a, 0);
  p.free(b, 1);
  p.put(1, 70, 0x13, 0);
  p.put(1, 80, 0x14, 1);
  p.abort(1);
  p.commit(0);
  p.one_free(b, 1);
  p.detach(1);
  p.attach(1);
  p.one(1, 50, 0x15, 1);
  p.one(1, 50, 0x16, 0);
}

// The store page is an object of the log like any other until the store is attached; then a page of something else.
void a_store_page_is_logged_freed_and_reused(store_player& p) {
  make(p, 1);
  p.begin(1);
  p.set_owner(1, 77, 1);
  p.commit(1);
  p.begin(0);
  p.drop_some(1, 4, 0);
  p.commit(0);
  p.begin(1);
  p.put_in_pool(5000, 0x21, 1);
  p.create(2, 0, 1);
  p.commit(1);
  p.attach(2);
  p.one(2, 90, 0x22, 0);
  p.begin(0);
  p.set_owner(2, 78, 0);
  p.commit(0);
  p.checkpoint();
  p.one(2, 90, 0x23, 1);
}

// A process is killed before each step of growing and shrinking; what the next one sees in its caches stays.
void who_grows_and_shrinks_is_killed(store_player& p) {
  make(p, 1);
  block(p);
  p.attach(1);
  p.one(1, 100, 0x11);
  block(p);
  // A run that needs another cluster.
  for (unsigned point = 1; point < 20; ++point) {
    const bool killed = p.killed(point, [&] {
      p.begin(1);
      p.put(1, 9000, 0x12, 1);
      p.abort(1);
    });
    if (!killed) break;
    p.attach(1);
    p.trim(1);
  }
  p.trim(1);
  // The same, taken out again.
  for (unsigned point = 1; point < 20; ++point) {
    p.begin(1);
    p.put(1, 9000, 0x13, 1);
    p.abort(1);
    if (!p.killed(point, [&] { p.trim(1); })) break;
    p.attach(1);
    p.one(1, 40, 0x14);
  }
}

// The same of an extent: the next process finds it, and has an object in it.
void who_makes_an_extent_is_killed(store_player& p) {
  make(p, 1);
  block(p);
  p.attach(1);
  for (unsigned point = 1; point < 20; ++point) {
    const bool killed = p.killed(point, [&] {
      p.begin(1);
      p.put(1, 100, 0x12, 1);
      p.abort(1);
    });
    if (!killed) break;
    p.attach(1);
    p.one_free(p.one(1, 100, 0x13), 1);
    p.trim(1);
  }
  p.one(1, 100, 0x15, 1);
}

}  // namespace

const std::vector<store_story>& store_stories() {
  static const std::vector<store_story> all{
      {"stores come and go", stores_come_and_go},
      {"a store grows in place", a_store_grows_in_place},
      {"a store grows by clusters", a_store_grows_by_clusters},
      {"a store shrinks", a_store_shrinks},
      {"pages change hands", pages_change_hands},
      {"a store is dropped in batches", a_store_is_dropped_in_batches},
      {"transactions meet in a store", transactions_meet_in_a_store},
      {"a store page is logged, freed and reused", a_store_page_is_logged_freed_and_reused},
      {"who grows and shrinks is killed", who_grows_and_shrinks_is_killed, true, false},
      {"who makes an extent is killed", who_makes_an_extent_is_killed, true, false},
  };
  return all;
}

}  // namespace nvm::tests
