// Object stores in the pools of the tests of space.
#pragma once

#include "test_pool.hpp"

namespace nvm::testing {

using layout::cluster_header;
using layout::object_layout;

// A store page that a transaction of `lane` makes, as the layers above do it; its offset.
inline std::uint64_t make_store(test_pool& pool, std::uint32_t number, std::uint64_t quota_pages = 0,
                                unsigned lane = 0) {
  auto r = pool->reserve_cluster(lane, 1);
  EXPECT_TRUE(r) << last_message();
  const geometry g = pool.sizes();
  cluster c{.page = g.page_of(r->offset), .pages = 1, .header_pages = 1, .number = number, .first = true};
  c.room = layout::cluster_room_for(1, 1, g.page_shift);
  write_cluster_header(pool.base(), g, c);
  const std::uint64_t at = r->offset + offsetof(cluster_header, quota_pages);
  const std::uint64_t word = seal_word(quota_pages, word_seed(at));
  std::memcpy(pool.base() + at, &word, sizeof word);
  const std::uint64_t generation = pool.lanes().commit(lane, {r->set});
  pool->committed(*r, lane, generation);
  return r->offset;
}

inline open_store& attach(test_pool& pool, std::uint64_t page, bool read_only = false) {
  const auto s = pool->attach(page, read_only);
  EXPECT_TRUE(s) << last_message();
  pool->make_known(**s);
  return **s;
}

// One object in a store, committed; its offset, or an error.
inline result<std::uint64_t> put_in(test_pool& pool, open_store& store, std::uint64_t bytes, unsigned lane = 0,
                                    object_layout l = object_layout::raw) {
  auto r = pool->reserve_in(store.attached_as(), lane, bytes, l);
  if (!r) return r.error();
  if (l == object_layout::typed) {
    const auto h = layout::make_object_header(bytes - sizeof(layout::object_header), 7, r->offset);
    std::memcpy(pool.base() + r->offset, &h, sizeof h);
  }
  const std::uint64_t generation = pool.lanes().commit(lane, {r->set});
  pool->committed(*r, lane, generation);
  return r->offset;
}

inline space_summary summary_of(test_pool& pool) {
  space_summary s;
  EXPECT_TRUE(pool.check(&s));
  EXPECT_EQ(s.pages, s.free_pages + s.run_pages + s.log_pages + s.fine_extents + 8 * s.coarse_extents +
                         s.structure_pages + s.cluster_pages + s.damaged_pages);
  return s;
}

}  // namespace nvm::testing
