// The marking half of the collector on images: graphs of any shape, stacks that overflow, images that are hostile.
#include "object/tracer.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "../space/test_pool.hpp"
#include "object/field_name.hpp"
#include "object/garbage.hpp"
#include "object/placed_objects.hpp"
#include "sample_types.hpp"

namespace nvm::tests {
namespace {

using object::found_object;
using object::placed_objects;
using object::trace_settings;
using object::tracer;

constexpr std::uint64_t header = sizeof(layout::object_header);
constexpr std::uint64_t base_address = std::uint64_t{1} << 44;  // what pointers assume, wherever the image lies

// A pool of objects that are nothing but pointers, and the graph that they make.
class pointer_heap {
 public:
  explicit pointer_heap(std::uint64_t pages = 8192) : pool_{testing::test_geometry(pages, pages)} {
    EXPECT_TRUE(pool_.boot());
    map_ = [] {
      type_map_writer w;
      w.add({"links", 8, 8, {field("to", 0, layout::field_kind::pointer, 8)}});
      w.add({"bytes", 1, 1, {field("b", 0, layout::field_kind::character, 1)}});
      return w.finish();
    }();
    plans_ = object::pointer_plans{*read(map_)};
  }
  std::uint64_t make(std::uint64_t words, const char* type = "links") {
    const auto at = testing::put(pool_, words * 8 + header);
    if (!at) return 0;
    const auto h = layout::make_object_header(words * 8, layout::type_id_of(type), *at);
    std::memcpy(pool_.base() + *at, &h, sizeof h);
    std::memset(pool_.base() + *at + header, 0, words * 8);
    words_[*at] = words;
    return *at;
  }
  void link(std::uint64_t from, std::uint64_t word, std::uint64_t to, std::uint64_t into = 0) {
    const std::uint64_t v = base_address + to + header + into;
    std::memcpy(pool_.base() + from + header + word * 8, &v, sizeof v);
    edges_[from].insert(to);
  }
  [[nodiscard]] std::set<std::uint64_t> reachable(const std::vector<std::uint64_t>& roots) const {
    std::set<std::uint64_t> seen;
    auto pending = roots;
    while (!pending.empty()) {
      const std::uint64_t at = pending.back();
      pending.pop_back();
      if (!seen.insert(at).second) continue;
      if (const auto e = edges_.find(at); e != edges_.end())
        pending.insert(pending.end(), e->second.begin(), e->second.end());
    }
    return seen;
  }
  // Objects were made without a layout; typed ones are what a pass looks at.
  void make_typed() {
    const geometry g = pool_.sizes();
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      auto e = layout::unpack(load_word(pool_.base(), g.entry_offset(page)) & checked_mask);
      if (e.kind == layout::page_kind::free) continue;
      e.layout = layout::object_layout::typed;
      const std::uint64_t word = seal_word(layout::pack(e), word_seed(g.entry_offset(page)));
      std::memcpy(pool_.base() + g.entry_offset(page), &word, sizeof word);
    }
  }

  testing::test_pool& pool() { return pool_; }
  [[nodiscard]] const object::pointer_plans& plans() const { return plans_; }
  void untyped_are_bytes() { plans_.untyped_are_bytes(true); }
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& objects() const { return words_; }

 private:
  testing::test_pool pool_;
  type_map_writer::words map_;
  object::pointer_plans plans_;
  std::map<std::uint64_t, std::uint64_t> words_;
  std::map<std::uint64_t, std::set<std::uint64_t>> edges_;
};

struct outcome_of_trace {
  std::set<std::uint64_t> unmarked;
  object::trace_sums sums;
};
outcome_of_trace trace(pointer_heap& h, const std::vector<std::uint64_t>& roots, trace_settings s) {
  outcome_of_trace out;
  placed_objects objects{h.pool().base(), h.pool().sizes()};
  EXPECT_TRUE(objects.survey(s.threads)) << last_message();
  EXPECT_EQ(objects.objects(), h.objects().size());
  tracer<placed_objects> t{objects, h.pool().base(), base_address, h.pool().sizes().address_bytes(), h.plans(), s};
  for (const auto r : roots) t.root(r);
  EXPECT_TRUE(t.run()) << last_message();
  objects.each_unmarked(0, objects.units(), [&](const found_object& o) { out.unmarked.insert(o.header); });
  out.sums = t.sums();
  return out;
}

TEST(tracer, agrees_with_a_walk_however_small_its_stacks_are) {
  std::mt19937_64 random{11};
  for (unsigned round = 0; round < 8; ++round) {
    pointer_heap h;
    std::vector<std::uint64_t> all;
    for (unsigned i = 0; i < 3000; ++i) {
      const std::uint64_t sizes[] = {1, 2, 6, 14, 40, 200, 600};
      if (const auto at = h.make(sizes[random() % std::size(sizes)]); at != 0) all.push_back(at);
    }
    const auto any = [&] { return all[random() % all.size()]; };
    for (unsigned i = 0; i < 3500; ++i) {
      const auto from = any();
      const auto to = any();
      const std::uint64_t words = h.objects().at(from);
      // Each word once, so that the twin needs to forget nothing.
      std::uint64_t& word = *reinterpret_cast<std::uint64_t*>(h.pool().base() + from + header + random() % words * 8);
      if (word == 0)
        h.link(from,
               static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&word) - h.pool().base() - from - header) / 8,
               to, random() % (h.objects().at(to) * 8));
    }
    h.make_typed();
    const std::vector<std::uint64_t> roots{any(), any()};
    const auto stays = h.reachable(roots);
    std::uint64_t pointers = 0;
    for (const std::size_t stack : {std::size_t{1}, std::size_t{3}, std::size_t{100000}}) {
      const auto out = trace(h, roots, {.threads = 1 + round % 4, .stack_max = stack});
      std::set<std::uint64_t> expected;
      for (const auto at : all) {
        if (stays.count(at) == 0) expected.insert(at);
      }
      EXPECT_EQ(out.unmarked, expected) << "stacks of " << stack;
      EXPECT_EQ(out.sums.objects, stays.size());
      EXPECT_TRUE(pointers == 0 || out.sums.pointers == pointers) << "each pointer is followed once";
      pointers = out.sums.pointers;
      EXPECT_EQ(out.sums.stray, 0U);
      EXPECT_TRUE(stack != 100000 || out.sums.overflows == 0);
    }
  }
}

TEST(tracer, a_wide_object_overflows_and_nothing_is_lost) {
  pointer_heap h;
  const auto root = h.make(20000);
  std::vector<std::uint64_t> leaves;
  for (unsigned i = 0; i < 20000; ++i) {
    const auto leaf = h.make(1);
    ASSERT_NE(leaf, 0U);
    h.link(root, i, leaf);
    leaves.push_back(leaf);
  }
  h.make_typed();
  const auto out = trace(h, {root}, {.threads = 2, .stack_max = 64});
  EXPECT_GT(out.sums.overflows, 0U);
  EXPECT_TRUE(out.unmarked.empty());
  EXPECT_EQ(out.sums.objects, 20001U);
  EXPECT_EQ(out.sums.pointers, 20000U);
}

TEST(tracer, knows_which_types_nobody_described) {
  pointer_heap h;
  const auto root = h.make(3);
  const auto odd = h.make(2, "odd");
  const auto below = h.make(1);
  (void)h.make(2, "odder");
  h.link(root, 0, odd);
  h.link(odd, 0, below);
  h.make_typed();
  const auto refused = trace(h, {root}, {});
  EXPECT_EQ(refused.sums.undescribed, (std::map<std::uint32_t, std::uint64_t>{{layout::type_id_of("odd"), 1}}));
  h.untyped_are_bytes();
  EXPECT_EQ(trace(h, {root}, {}).unmarked.count(below), 1U);
  const auto any_word = trace(h, {root}, {.conservative = true});
  EXPECT_EQ(any_word.unmarked.count(below), 0U);
  EXPECT_EQ(any_word.unmarked.size(), 1U);
}

TEST(field_name, is_that_of_the_innermost_field) {
  const auto map = sample_map();
  const auto types = read(map);
  const auto name = [&](const char* type, std::uint64_t at) {
    return object::field_name_at(*types->find(layout::type_id_of(type)), at);
  };
  EXPECT_EQ(name("node", 0), "next");
  EXPECT_EQ(name("node", 40 + 8 + 3), "[1].data[3]");
  EXPECT_EQ(name("table", 0), "n");
  EXPECT_EQ(name("table", 4), "+4") << "between two fields";
  EXPECT_EQ(name("table", 24), "slots[1].first");
  EXPECT_EQ(name("table", 40 + 8), "slots[2].weight");
  EXPECT_EQ(name("table", 72 + 8 * 9), "more[9]");
}

// Whatever bytes it finds: it ends, stays inside of the image, and names what fails its check.
TEST(tracer, survives_images_with_any_bytes) {
  std::mt19937_64 random{5};
  pointer_heap h{512};
  std::vector<std::uint64_t> all;
  for (unsigned i = 0; i < 400; ++i) {
    const std::uint64_t sizes[] = {1, 6, 40, 600};
    if (const auto at = h.make(sizes[i % 4]); at != 0) all.push_back(at);
  }
  for (unsigned i = 1; i < all.size(); ++i) h.link(all[i - 1], 0, all[i]);
  h.make_typed();
  const geometry g = h.pool().sizes();
  const std::vector<std::byte> whole(h.pool().base(), h.pool().base() + g.size_bytes());
  unsigned refused = 0;
  for (unsigned round = 0; round < 600; ++round) {
    // Exactly as large as the pool, so that a sanitizer sees what leaves it.
    std::vector<std::byte> image = whole;
    for (unsigned flips = 0; flips < 1 + round % 8; ++flips) {
      const std::uint64_t places[] = {g.entry_offset(random() % g.size_pages),
                                      g.data_offset + random() % (g.size_pages << g.page_shift),
                                      all[random() % all.size()] + random() % 32};
      const std::uint64_t at = places[random() % 3];
      image[at + random() % 8] ^= std::byte{static_cast<unsigned char>(1U << random() % 8)};
      if (round % 3 == 0) {
        // A word that passes its check and says something else.
        const std::uint64_t word = seal_word(random() & checked_mask, word_seed(at & ~std::uint64_t{7}));
        std::memcpy(image.data() + (at & ~std::uint64_t{7}), &word, sizeof word);
      }
    }
    placed_objects objects{image.data(), g};
    status s = objects.survey(1);
    if (s) {
      tracer<placed_objects> t{objects, image.data(), base_address, g.address_bytes(), h.plans(), {.stack_max = 8}};
      t.root(all[0]);
      t.root(random());
      s = t.run();
      std::vector<found_object> garbage;
      objects.each_unmarked(0, objects.units(), [&](const found_object& o) {
        ASSERT_TRUE(g.in_data(o.header, std::max<std::uint64_t>(objects.room_of(o), 1)));
        if (object::payload_of(image.data(), o.header, objects.room_of(o))) garbage.push_back(o);
      });
      const object::garbage_ways ways{objects, image.data(), base_address, h.plans(), false, garbage};
      for (std::size_t i = 0; i < garbage.size(); ++i) EXPECT_NE(ways[i].depth, object::way_to::nothing);
    }
    if (!s) {
      ++refused;
      EXPECT_EQ(s.error(), errc::corrupt) << last_message();
    }
  }
  EXPECT_GT(refused, 50U);
}

}  // namespace
}  // namespace nvm::tests
