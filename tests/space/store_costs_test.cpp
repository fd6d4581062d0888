// Costs of attaching, growing and shrinking an object store in fences and lines, as in docs/design/031-stores.md.
#include "media/media.hpp"
#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

class store_costs : public ::testing::Test {
 protected:
  using counted = meter_media<ordered_media>;
  struct cost {
    std::uint64_t fences, lines;
    bool operator==(const cost&) const = default;
  };

  void SetUp() override {
    ASSERT_TRUE(space_.boot(0, 1));
    const auto r = space_.reserve_cluster(0, 1);
    ASSERT_TRUE(r);
    page_ = r->offset;
    cluster c{.page = g_.page_of(page_), .pages = 1, .header_pages = 1, .number = 5, .first = true};
    c.room = layout::cluster_room_for(1, 1, g_.page_shift);
    header_lines_ = lines_touched(memory_.get() + page_, write_cluster_header(memory_.get(), g_, c));
    log::apply(memory_.get(), r->set);
    space_.committed(*r, 0, 0);
  }
  template <class F>
  cost of(F&& f) {
    counts_.reset();
    f();
    const meter_totals t = counts_.totals();
    return {t.fences, t.lines};
  }
  open_store* attached() {
    open_store* const s = *space_.attach(page_, false);
    space_.make_known(*s);
    return s;
  }
  std::uint64_t put(open_store& s, std::uint64_t bytes) {
    const auto r = space_.reserve_in(s.attached_as(), 0, bytes, object_layout::raw);
    EXPECT_TRUE(r) << last_message();
    log::apply(memory_.get(), r->set);
    space_.committed(*r, 0, 0);
    return r->offset;
  }
  void drop(std::uint64_t at) {
    const auto o = space_.find(at, object_layout::raw);
    ASSERT_TRUE(o);
    ASSERT_TRUE(space_.begin_free(*o, 0));
    log::apply(memory_.get(), o->clear);
    space_.finish_free(*o, 0, 0);
  }

  geometry g_ = test_geometry(1024, 1024);
  image memory_ = make_image(g_);
  ordered_media inner_;
  meter counts_;
  counted medium_{inner_, counts_};
  log::nothing_logged settler_;
  space<counted, log::nothing_logged> space_{medium_, settler_, memory_.get(), g_};
  std::uint64_t page_ = 0;
  std::uint64_t header_lines_ = 0;
  // Of an empty fine extent, whose lines are those of its header.
  const std::uint64_t extent_lines_ = ceil_div(layout::shape_of(layout::page_kind::fine, 12).lengths_at +
                                                   layout::shape_of(layout::page_kind::fine, 12).slots,
                                               line_bytes) +
                                      1;
};

TEST_F(store_costs, are_those_of_the_document) {
  EXPECT_EQ(header_lines_, 12U) << "of a new store page";
  open_store* s = nullptr;
  EXPECT_EQ(of([&] { s = attached(); }), (cost{0, 0})) << "attach";
  // The page after it is free: its entry gets longer, then an extent is laid.
  EXPECT_EQ(of([&] { (void)put(*s, 100); }), (cost{3, 1 + extent_lines_})) << "growth in place";
  EXPECT_EQ(of([&] { (void)put(*s, 100); }), (cost{0, 0})) << "an object";
  // Now it is not: a header of 64 words, in_work, an entry of the page map, the list's head.
  for (auto& c : s->clusters()) (void)space_.take_free(g_.page_offset(c.what().end()), 1);
  std::uint64_t run = 0;
  EXPECT_EQ(of([&] { run = put(*s, 5 * 4096); }), (cost{3, 12 + 3})) << "a cluster";
  drop(run);
  EXPECT_EQ(of([&] { EXPECT_TRUE(space_.trim(*s)); }), (cost{3, 3})) << "taken out";
  EXPECT_EQ(of([&] { EXPECT_TRUE(space_.detach(*s)); }), (cost{0, 0})) << "detach";
}

// However many others there are, and however large they are.
TEST_F(store_costs, of_attaching_are_the_store_s) {
  open_store* s = attached();
  for (int i = 0; i < 100; ++i) (void)put(*s, 2000);
  const std::uint64_t clusters = s->clusters().size();
  ASSERT_TRUE(space_.detach(*s));
  EXPECT_EQ(of([&] { s = attached(); }), (cost{0, 0}));
  EXPECT_EQ(s->clusters().size(), clusters);
  EXPECT_GT(space_.statistics().extents_unindexed, 0U) << "nobody has looked at extents yet";
  (void)put(*s, 2000);
  EXPECT_TRUE(space_.detach(*s));
  EXPECT_EQ(space_.statistics().extents_unindexed, 0U);
}

}  // namespace
}  // namespace nvm::testing
