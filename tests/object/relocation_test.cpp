// What relocation makes of pointers and of types, without a pool.
#include "object/relocation.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sample_types.hpp"

namespace nvm::tests {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t at(std::uint64_t n) { return 0x2000'0000'0000 + n * gib; }

TEST(object_relocation, moves_a_pointer_by_the_base_that_it_assumes) {
  base_ranges known;
  known.bytes = gib;
  known.bases = {at(0), at(3), at(4)};
  known.count = 3;
  const object::mover to{known, at(4), false};
  struct pointer {
    std::uint64_t value;
    object::mover::what what;
    std::uint64_t becomes;
  };
  using enum object::mover::what;
  const pointer pointers[] = {
      {0, stays, 0},
      {at(0) + 16, moves, at(4) + 16},
      {at(0) + 17, moves, at(4) + 17},  // a tag in a low bit goes along
      {at(3) + 4096, moves, at(4) + 4096},
      {at(1), moves, at(5)},  // the end of the first
      {at(4), moves, at(5)},  // that of the second: no pool's beginning is led to
      {at(4) + 8, stays, at(4) + 8},
      {at(5), stays, at(5)},
      {at(5) + 8, foreign, at(5) + 8},
      {at(2), foreign, at(2)},
      {1, foreign, 1},
      {~std::uint64_t{0}, foreign, ~std::uint64_t{0}},
  };
  for (const pointer& p : pointers) {
    std::uint64_t value = p.value;
    EXPECT_EQ(to.move(value), p.what) << std::hex << p.value;
    EXPECT_EQ(value, p.becomes) << std::hex << p.value;
    // Made again it changes nothing.
    const std::uint64_t once = value;
    EXPECT_NE(to.move(value), moves) << std::hex << p.value;
    EXPECT_EQ(value, once) << std::hex << p.value;
  }
}

TEST(object_relocation, numbers_of_objects_are_told_from_damage_and_from_alignments) {
  const std::uint64_t offset = 64;
  layout::object_header h = layout::make_object_header(100, 7, offset);
  const std::uint64_t plain = h.size_generation_check;
  for (unsigned n = 0; n <= layout::number_max; ++n) {
    h.size_generation_check = plain | layout::number_bits(n);
    EXPECT_EQ(layout::number_in(h.size_generation_check), n);
    const auto a = layout::alignment_of(h, offset);
    EXPECT_TRUE(a && a->natural()) << n;
    for (unsigned bit = 0; bit < 16; ++bit) {
      EXPECT_FALSE(layout::number_in(h.size_generation_check ^ std::uint64_t{1} << (40 + bit))) << n << ", " << bit;
    }
    const layout::alignment of_64 = layout::align_at(offset, 64);
    layout::signpost post = layout::signpost_at(offset + of_64.signpost(), of_64);
    post.number = layout::signpost_number(n, offset + of_64.signpost());
    EXPECT_TRUE(layout::signpost_holds(post, offset + of_64.signpost(), of_64));
    EXPECT_EQ(layout::number_of_signpost(post.number, offset + of_64.signpost()), n);
    EXPECT_FALSE(layout::number_of_signpost(post.number ^ 16, offset + of_64.signpost()));
  }
  for (std::uint64_t bytes = 32; bytes <= layout::alignment_max; bytes *= 2) {
    h.size_generation_check = plain | layout::alignment_bits(layout::align_at(offset, bytes));
    EXPECT_FALSE(layout::number_in(h.size_generation_check)) << bytes;
  }
}

bool is_aligned(const type_description& t) {
  type_map_writer w;
  w.add(t);
  const auto words = w.finish();
  const auto map = read(words);
  EXPECT_TRUE(map) << last_message();
  return map && object::pointer_plan::of(*map->records().front()).aligned();
}
TEST(object_relocation, knows_types_whose_pointers_one_store_cannot_replace) {
  using enum layout::field_kind;
  EXPECT_TRUE(is_aligned(node_type()));
  EXPECT_TRUE(is_aligned(table_type()));
  EXPECT_TRUE(is_aligned({"bytes", 5, 1, {field("data", 0, character, 1, 5)}}));
  EXPECT_FALSE(is_aligned({"packed", 9, 1, {field("tag", 0, character, 1), field("to", 1, pointer, 8)}}));
  // The first is at a multiple of 8, those that follow in an array of these are not.
  EXPECT_FALSE(is_aligned({"tail", 9, 1, {field("to", 0, pointer, 8), field("tag", 8, character, 1)}}));
  type_description inner{"inner", 24, 1, {field("pairs", 0, structure, 12, 2), field("pairs.to", 0, pointer, 8)}};
  inner.fields[0].place.inner = 1;
  EXPECT_FALSE(is_aligned(inner));
}

TEST(object_relocation, names_types_in_the_way_and_counts_what_has_no_room) {
  object::obstacles o;
  EXPECT_TRUE(o.none());
  for (std::uint32_t type = 1; type <= 18; ++type) o.add(type, type);
  o.add(2, 5);
  object::obstacles sum;
  sum.add(o);
  EXPECT_EQ(sum.refuse("of a kind"), errc::address);
  const std::string said = last_message();
  EXPECT_NE(said.find("of a kind: types (objects) 1 (1), 2 (7), 3 (3)"), std::string::npos) << said;
  EXPECT_NE(said.find("16 (16) and 35 of other types"), std::string::npos) << said;
}

TEST(object_relocation, tells_the_first_foreign_pointers_and_counts_all) {
  object::relocation_report a;
  object::relocation_report b;
  for (std::uint64_t i = 0; i < 5; ++i) a.found_foreign({i, 0, 1, 2});
  for (std::uint64_t i = 5; i < 25; ++i) b.found_foreign({i, 0, 1, 2});
  a.add(b);
  EXPECT_EQ(a.foreign, 25U);
  for (std::uint64_t i = 0; i < a.first.size(); ++i) EXPECT_EQ(a.first[i].object, i);
}

TEST(object_relocation, takes_objects_of_the_library_for_what_they_are) {
  const object::pointer_plans nothing;
  object::plan_finder finder{nothing};
  EXPECT_EQ(finder.find(7), nullptr);
  ASSERT_NE(finder.find(0xF04B'5602), nullptr);  // a record of a key-value store
  EXPECT_TRUE(finder.find(0xF04B'5602)->none());
  EXPECT_EQ(finder.find(8), nullptr);
}

}  // namespace
}  // namespace nvm::tests
