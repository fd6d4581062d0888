// Any sequence of reservations, commits, aborts and frees of several lanes, against a model that knows only numbers.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

enum class op : std::uint8_t { allocate, allocate_more, free_live, free_again, commit, abort, trim, reopen };

struct step {
  op what;
  unsigned lane;
  std::uint64_t bytes;
  object_layout layout;
  std::uint64_t pick;
};
std::ostream& operator<<(std::ostream& out, const step& s) {
  return out << "{" << int(s.what) << ", lane " << s.lane << ", " << s.bytes << " B, " << int(s.layout) << ", "
             << s.pick << "}";
}

rc::Gen<std::uint64_t> sizes() {
  return rc::gen::weightedOneOf<std::uint64_t>({{6, rc::gen::inRange<std::uint64_t>(17, 300)},
                                                {4, rc::gen::inRange<std::uint64_t>(17, 4200)},
                                                {1, rc::gen::inRange<std::uint64_t>(4000, 40000)},
                                                {1, rc::gen::inRange<std::uint64_t>(100000, 600000)}});
}
rc::Gen<step> steps(unsigned lanes) {
  return rc::gen::construct<step>(rc::gen::weightedElement<op>({{8, op::allocate},
                                                                {8, op::allocate_more},
                                                                {10, op::free_live},
                                                                {2, op::free_again},
                                                                {6, op::commit},
                                                                {3, op::abort},
                                                                {1, op::trim},
                                                                {1, op::reopen}}),
                                  rc::gen::inRange(0U, lanes), sizes(),
                                  rc::gen::element(object_layout::raw, object_layout::typed),
                                  rc::gen::arbitrary<std::uint64_t>());
}

class model {
 public:
  model(const geometry& g, unsigned parts) : pool_{std::make_unique<test_pool>(g)} {
    RC_ASSERT(pool_->boot(parts).has_value());
    begin();
  }

  void run(const step& s) {
    switch (s.what) {
      case op::allocate:
      case op::allocate_more:
        allocate(s);
        break;
      case op::free_live:
        free_one(s);
        break;
      case op::free_again:
        free_wrongly(s);
        break;
      case op::commit:
        commit(s.lane);
        break;
      case op::abort:
        abort(s.lane);
        break;
      case op::trim:
        (*pool_)->trim();
        break;
      case op::reopen:
        compare_with_reopened(static_cast<unsigned>(s.pick % lanes));
        break;
    }
  }

  void finish() {
    for (unsigned i = 0; i < lanes; ++i) commit(i);
    for (unsigned i = 0; i < lanes; ++i) compare_with_reopened(i);
    std::vector<std::uint64_t> all;
    for (const auto& [offset, o] : objects_) all.push_back(offset);
    unsigned lane = 0;
    for (const std::uint64_t offset : all) {
      const object_layout l = objects_.at(offset).layout;
      RC_ASSERT(drop(*pool_, offset, lane++ % lanes, l).has_value());
    }
    objects_.clear();
    (*pool_)->trim();
    RC_ASSERT((*pool_)->used_pages() == 0U);
    RC_ASSERT((*pool_)->statistics().slot_bytes_used == 0U);
    compare_with_reopened(0);
  }

 private:
  static constexpr unsigned lanes = 4;
  enum class state : std::uint8_t { reserved, live, freeing };
  struct entry {
    std::uint64_t bytes;
    object_layout layout;
    state now;
    unsigned lane;
  };

  void begin() {
    open_.clear();
    for (unsigned i = 0; i < lanes; ++i) open_.push_back(std::make_unique<test_tx>(*pool_, i));
  }

  void allocate(const step& s) {
    auto r = open_[s.lane]->allocate(s.bytes, s.layout);
    if (!r) {
      const geometry g = pool_->sizes();
      RC_ASSERT(r.error() == (s.bytes > g.capacity_pages << g.page_shift ? errc::too_large : errc::no_space));
      return;
    }
    RC_ASSERT(r->bytes >= s.bytes);
    RC_ASSERT(pool_->sizes().in_data(r->offset, r->bytes));
    RC_ASSERT(r->offset % 16 == 0U);
    auto above = objects_.lower_bound(r->offset);
    RC_ASSERT(above == objects_.end() || r->offset + r->bytes <= above->first);
    if (above != objects_.begin()) {
      auto below = std::prev(above);
      RC_ASSERT(below->first + below->second.bytes <= r->offset);
    }
    objects_.emplace(r->offset, entry{r->bytes, s.layout, state::reserved, s.lane});
    const auto o = (*pool_)->find(r->offset, s.layout);
    RC_ASSERT(o.has_value());
    RC_ASSERT(o->reserved);
    RC_ASSERT(o->bytes == r->bytes);
  }

  std::map<std::uint64_t, entry>::iterator any(std::uint64_t pick) {
    auto it = objects_.begin();
    std::advance(it, static_cast<long>(pick % objects_.size()));
    return it;
  }

  void free_one(const step& s) {
    if (objects_.empty()) return;
    const auto it = any(s.pick);
    auto& [offset, e] = *it;
    if (e.now == state::reserved) return;
    const status freed = open_[s.lane]->free(offset, e.layout);
    if (e.now == state::freeing) {
      RC_ASSERT(!freed);
      RC_ASSERT(freed.error() == errc::bad_pointer);
      return;
    }
    RC_ASSERT(freed.has_value());
    e.now = state::freeing;
    e.lane = s.lane;
  }

  // Interior, foreign and otherwise wrong pointers.
  void free_wrongly(const step& s) {
    const geometry g = pool_->sizes();
    std::vector<std::pair<std::uint64_t, object_layout>> wrong{{0, object_layout::raw},
                                                               {g.data_offset - 16, object_layout::raw},
                                                               {g.size_bytes(), object_layout::raw},
                                                               {g.capacity_bytes() + 4096, object_layout::raw},
                                                               {~std::uint64_t{0}, object_layout::raw}};
    const std::uint64_t anywhere = g.data_offset + s.pick % (g.size_bytes() - g.data_offset);
    if (objects_.count(anywhere) == 0) wrong.emplace_back(anywhere, s.layout);
    if (!objects_.empty()) {
      const auto& [offset, e] = *any(s.pick);
      wrong.emplace_back(offset + 1, e.layout);
      wrong.emplace_back(offset + 8, e.layout);
      wrong.emplace_back(offset + e.bytes - 1, e.layout);
      wrong.emplace_back(offset, e.layout == object_layout::raw ? object_layout::typed : object_layout::raw);
      wrong.emplace_back(offset, object_layout::region);
      if (e.bytes > 16) wrong.emplace_back(offset + 16, e.layout);
      if (e.bytes > 4096) wrong.emplace_back(offset + 4096, e.layout);
    }
    for (const auto& [offset, l] : wrong) {
      const status freed = open_[s.lane]->free(offset, l);
      RC_ASSERT(!freed);
      RC_ASSERT(freed.error() == errc::bad_pointer);
    }
  }

  void commit(unsigned lane) {
    open_[lane]->commit();
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (it->second.lane == lane && it->second.now == state::freeing) {
        it = objects_.erase(it);
      } else {
        if (it->second.lane == lane) it->second.now = state::live;
        ++it;
      }
    }
  }
  void abort(unsigned lane) {
    open_[lane]->abort();
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (it->second.lane == lane && it->second.now == state::reserved) {
        it = objects_.erase(it);
      } else {
        if (it->second.lane == lane) it->second.now = state::live;
        ++it;
      }
    }
  }

  // What is on media, after a crash now and the replay of everything that may still be replayed, is exactly what was
  // committed; and the indexes that are built from it agree.
  void compare_with_reopened(unsigned replay_from) {
    test_pool again{*pool_, replay_from};
    RC_ASSERT(again.essence() == pool_->essence());
    RC_ASSERT(again.boot(3).has_value());
    std::map<std::uint64_t, std::uint64_t> committed;
    for (const auto& [offset, e] : objects_) {
      if (e.now != state::reserved) committed.emplace(offset, e.bytes);
    }
    RC_ASSERT(again.objects() == committed);
    RC_ASSERT(again.check());
    for (unsigned part = 0; part < 3; ++part) RC_ASSERT(again->build_index(part, 3).has_value());
    std::uint64_t in_slots = 0;
    for (const auto& [offset, bytes] : committed) {
      const auto o = again->find(offset, objects_.at(offset).layout);
      RC_ASSERT(o.has_value());
      RC_ASSERT(o->bytes == bytes);
      RC_ASSERT(!o->reserved);
      if (o->clear.op() == log::intent_op::clear_bit) in_slots += bytes;
    }
    RC_ASSERT(again->statistics().slot_bytes_used == in_slots);
    RC_ASSERT(again->used_pages() == (*pool_)->used_pages() - reserved_run_pages());
  }
  std::uint64_t reserved_run_pages() {
    std::uint64_t pages = 0;
    for (const auto& [offset, e] : objects_) {
      if (e.now == state::reserved && (*pool_)->find(offset, e.layout)->clear.op() == log::intent_op::clear_entry) {
        pages += e.bytes >> 12;
      }
    }
    return pages;
  }

  std::unique_ptr<test_pool> pool_;
  std::vector<std::unique_ptr<test_tx>> open_;
  std::map<std::uint64_t, entry> objects_;
};

RC_GTEST_PROP(model, agrees_with_every_sequence_in_a_roomy_pool, ()) {
  model m{test_geometry(1024, 1024), 2};
  for (const step& s : *rc::gen::container<std::vector<step>>(steps(4))) m.run(s);
  m.finish();
}

RC_GTEST_PROP(model, agrees_with_every_sequence_in_a_pool_that_is_nearly_full, ()) {
  const auto pages = *rc::gen::inRange<std::uint64_t>(1, 150);
  model m{test_geometry(pages, pages), 1};
  for (const step& s : *rc::gen::scale(4, rc::gen::container<std::vector<step>>(steps(4)))) m.run(s);
  m.finish();
}

RC_GTEST_PROP(model, agrees_with_every_sequence_in_a_pool_that_grows, ()) {
  const auto pages = *rc::gen::inRange<std::uint64_t>(1, 100);
  model m{test_geometry(pages, 2000), 1};
  for (const step& s : *rc::gen::scale(3, rc::gen::container<std::vector<step>>(steps(4)))) m.run(s);
  m.finish();
}

}  // namespace
}  // namespace nvm::testing
