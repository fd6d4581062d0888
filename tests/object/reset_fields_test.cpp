// Where fields are that are zero after each open (NVM_RESET), and how they become it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <utility>

#include "object/reset_fields.hpp"
#include "sample_types.hpp"

namespace nvm::tests {
namespace {

using enum layout::field_kind;
using ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

ranges ranges_of(const type_description& t, std::uint64_t bytes) {
  type_map_writer w;
  w.add(t);
  const auto words = w.finish();
  const auto map = read(words);
  EXPECT_TRUE(map) << last_message();
  const object::reset_plans plans{*map};
  ranges all;
  const object::reset_plan* const plan = plans.find(layout::type_id_of(t.name.c_str()));
  if (plan == nullptr) return all;
  plan->each(bytes, [&](std::uint64_t at, std::uint64_t n) { all.emplace_back(at, n); });
  return all;
}

TEST(reset_fields, are_found_in_each_element_of_arrays_and_as_far_as_an_object_goes) {
  const type_description flat{"t", 24, 8, {field("a", 0, floating, 8), field("r", 8, reset, 4, 3)}};
  EXPECT_EQ(ranges_of(flat, 24), (ranges{{8, 12}}));
  EXPECT_EQ(ranges_of(flat, 48), (ranges{{8, 12}, {32, 12}})) << "an array of the type";
  EXPECT_EQ(ranges_of(flat, 34), (ranges{{8, 12}})) << "one object and bytes that are something else";
  EXPECT_EQ(ranges_of(flat, 10), (ranges{{8, 2}})) << "an object that ends inside of a field";
  EXPECT_EQ(ranges_of(flat, 8), ranges{});
  EXPECT_EQ(ranges_of({"t", 8, 8, {field("a", 0, floating, 8)}}, 64), ranges{});
}
TEST(reset_fields, are_found_in_structures_inside_each_other_and_in_what_a_visitor_knows) {
  type_description t{"t", 64, 8, {field("s", 0, structure, 24, 2)}};
  for (const auto& f :
       {field("s.v", 0, by_visitor, 8, 2, 7), field("s.v.p", 0, pointer, 4), field("s.v.r", 4, reset, 2),
        field("s.r", 20, reset, 4), field("n", 48, floating, 8), field("end", 56, reset, 8)}) {
    t.fields.push_back(f);
  }
  t.fields[2].place.kind = unsigned_integer;
  t.fields[0].place.inner = 4;
  t.fields[1].place.inner = 2;
  EXPECT_EQ(ranges_of(t, 64), (ranges{{4, 2}, {12, 2}, {20, 4}, {28, 2}, {36, 2}, {44, 4}, {56, 8}}));
}
TEST(reset_fields, may_be_a_flexible_array_or_lie_in_one) {
  EXPECT_EQ(ranges_of({"t", 8, 8, {field("a", 0, floating, 8), field("r", 8, reset, 4, 0)}}, 33), (ranges{{8, 25}}));
  type_description t{"t", 8, 8, {field("a", 0, reset, 8), field("s", 8, structure, 8, 0), field("s.r", 4, reset, 4)}};
  t.fields[1].place.inner = 1;
  EXPECT_EQ(ranges_of(t, 32), (ranges{{0, 8}, {12, 4}, {20, 4}, {28, 4}}));
  EXPECT_EQ(ranges_of(t, 31), (ranges{{0, 8}, {12, 4}, {20, 4}})) << "what follows the elements is something else";
  EXPECT_EQ(ranges_of(t, 15), (ranges{{0, 8}}));
}
TEST(reset_fields, go_by_other_names_and_by_the_map_that_was_first) {
  type_map_writer a, b;
  a.add({"t", 8, 8, {field("r", 4, reset, 4)}});
  a.add_alias("struct t", layout::type_id_of("t"));
  a.add({"u", 8, 8, {field("x", 0, floating, 8)}});
  b.add({"t", 8, 8, {field("x", 0, floating, 8)}});
  b.add({"u", 8, 8, {field("r", 0, reset, 8)}});
  const auto words_a = a.finish(), words_b = b.finish();
  const auto map_a = read(words_a), map_b = read(words_b);
  ASSERT_TRUE(map_a && map_b);
  EXPECT_TRUE(object::have_reset_fields(*map_a));
  object::reset_plans both{*map_a};
  both.add(*map_b);
  EXPECT_NE(both.find(layout::type_id_of("t")), nullptr);
  EXPECT_NE(both.find(layout::type_id_of("struct t")), nullptr);
  EXPECT_EQ(both.find(layout::type_id_of("u")), nullptr);
  EXPECT_EQ(both.smallest(), 5U);
  object::reset_plans other{*map_b};
  other.add(*map_a);
  EXPECT_EQ(other.find(layout::type_id_of("t")), nullptr);
  EXPECT_EQ(other.find(layout::type_id_of("struct t")), nullptr) << "another name of what the first one has";
  EXPECT_NE(other.find(layout::type_id_of("u")), nullptr);
  type_map_writer plain;
  plain.add({"t", 8, 8, {field("x", 0, floating, 8)}});
  plain.add_alias("struct t", layout::type_id_of("t"));
  type_map_writer later;
  later.add({"t", 8, 8, {field("r", 4, reset, 4)}});
  const auto words_plain = plain.finish(), words_later = later.finish();
  const auto map_plain = read(words_plain), map_later = read(words_later);
  ASSERT_TRUE(map_plain && map_later);
  object::reset_plans now{*map_later};
  now.add(*map_plain);
  EXPECT_NE(now.find(layout::type_id_of("struct t")), nullptr) << "a field that the program declares so later";
  EXPECT_FALSE(object::have_reset_fields(type_map{}));
  EXPECT_TRUE(object::reset_plans{}.none());
}
TEST(reset_fields, become_zero_and_their_neighbours_stay) {
  std::mt19937_64 random{5};
  for (unsigned i = 0; i < 20000; ++i) {
    alignas(8) std::array<unsigned char, 64> bytes{};
    for (auto& b : bytes) b = static_cast<unsigned char>(random() % 3);
    const auto before = bytes;
    const std::size_t from = random() % 64, n = random() % (65 - from);
    const std::uint64_t stored = object::make_zero(reinterpret_cast<std::byte*>(bytes.data() + from), n);
    for (std::size_t k = 0; k < 64; ++k) ASSERT_EQ(bytes[k], k >= from && k < from + n ? 0 : before[k]);
    ASSERT_LE(stored, n);
    EXPECT_EQ(object::make_zero(reinterpret_cast<std::byte*>(bytes.data() + from), n), 0U) << "nothing to store";
  }
}

}  // namespace
}  // namespace nvm::tests
