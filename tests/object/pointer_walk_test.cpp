// Pointer words of objects, as plans find them.
#include "object/pointer_walk.hpp"

#include <gtest/gtest.h>

#include <random>

#include "sample_types.hpp"

namespace nvm::tests {
namespace {

using places = std::vector<std::uint64_t>;

class pointer_walk : public ::testing::Test {
 protected:
  [[nodiscard]] places words(const char* type, std::uint64_t bytes, std::uint64_t from = 0,
                             std::uint64_t to = ~std::uint64_t{0}) const {
    const object::pointer_plan* plan = plans_.find(layout::type_id_of(type));
    EXPECT_NE(plan, nullptr);
    places at;
    if (plan != nullptr) plan->each_in(bytes, from, to, [&](const object::pointer_word& w) { at.push_back(w.at); });
    return at;
  }

 private:
  type_map_writer::words map_ = sample_map();
  object::pointer_plans plans_{*read(map_)};
};

TEST_F(pointer_walk, finds_the_words_of_one_object) { EXPECT_EQ(words("node", 40), places{0}); }

TEST_F(pointer_walk, finds_those_of_an_array_and_of_no_half_element) {
  EXPECT_EQ(words("node", 40 * 3 + 39), (places{0, 40, 80}));
}

TEST_F(pointer_walk, finds_inner_and_flexible_ones) {
  EXPECT_EQ(words("table", 72 + 3 * 8 + 7), (places{8, 24, 40, 56, 72, 80, 88}));
  EXPECT_EQ(words("table", 72), (places{8, 24, 40, 56}));
}

TEST_F(pointer_walk, finds_those_of_a_part) {
  EXPECT_EQ(words("node", 400, 88, 120), places{});
  EXPECT_EQ(words("node", 400, 87, 121), (places{80, 120}));
  EXPECT_EQ(words("table", 1000, 30, 81), (places{24, 40, 56, 72, 80}));
}

TEST_F(pointer_walk, knows_aliases_and_who_is_described) {
  EXPECT_EQ(words("struct node", 40), places{0});
  const auto map = sample_map();
  EXPECT_EQ(object::pointer_plans(*read(map)).find(layout::type_id_of("nobody")), nullptr);
}

struct found {
  std::uint64_t at;
  layout::field_kind kind;
  bool operator==(const found&) const = default;
};
using all_found = std::vector<found>;

all_found words_of(const type_map& map, const char* type, const std::byte* object, std::uint64_t bytes,
                   std::uint64_t from = 0, std::uint64_t to = ~std::uint64_t{0}) {
  const object::pointer_plans plans{map};
  const object::pointer_plan* plan = plans.find(layout::type_id_of(type));
  EXPECT_NE(plan, nullptr);
  EXPECT_TRUE(plan->asks_object());
  all_found all;
  plan->each_in(object, bytes, from, to, [&](const object::pointer_word& w) { all.push_back({w.at, w.kind}); });
  return all;
}

TEST(pointer_walk_of_unions, follows_the_member_that_the_tag_names) {
  using enum layout::field_kind;
  const auto words = map_of_unions();
  const auto map = read(words);
  ASSERT_TRUE(map) << last_message();
  std::byte object[64]{};
  object[0] = std::byte{0b10101'000};
  EXPECT_EQ(words_of(*map, "value", object, 32), (all_found{{8, weak_pointer}}));
  object[0] = std::byte{0b10101'001};
  EXPECT_EQ(words_of(*map, "value", object, 32), (all_found{{8, weak_pointer}, {16, pointer}, {24, pointer}}));
  object[0] = std::byte{0b10101'111};
  EXPECT_EQ(words_of(*map, "value", object, 32), (all_found{{8, weak_pointer}})) << "a member that there is not";
  object[32] = std::byte{2};
  const all_found both{{8, weak_pointer}, {40, weak_pointer}, {56, pointer}};
  EXPECT_EQ(words_of(*map, "values", object, 64), both);
  EXPECT_EQ(words_of(*map, "value", object, 64), both) << "an array of them";
  EXPECT_EQ(words_of(*map, "values", object, 64, 41, 64), (all_found{{40, weak_pointer}, {56, pointer}}));
  EXPECT_EQ(words_of(*map, "values", object, 64, 48, 56), all_found{});
}

// Whatever a map says that is taken, a walk reads nothing outside of the object, and tells no word outside of it.
TEST(pointer_walk_of_unions, maps_that_lie_are_refused_or_can_be_walked) {
  std::mt19937_64 random{7};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  unsigned taken = 0;
  for (int i = 0; i < 20000; ++i) {
    type_description t = i % 2 == 0 ? value_type() : values_type();
    for (auto changes = 1 + below(3); changes > 0; --changes) {
      type_description::field& f = t.fields[below(t.fields.size())];
      switch (below(8)) {
        case 0:
          f.place.offset = below(40);
          break;
        case 1:
          f.place.element_bytes = below(40);
          break;
        case 2:
          f.place.count = below(4);
          break;
        case 3:
          f.place.kind = layout::field_kind{static_cast<std::uint32_t>(below(16))};
          break;
        case 4:
          f.place.inner = static_cast<std::uint32_t>(below(8));
          break;
        case 5:
          f.place.target = static_cast<std::uint32_t>(below(2));
          break;
        case 6:
          f.tag = "u" + std::to_string(1U << below(4)) + "@" + std::to_string(below(70));
          break;
        default:
          t.size = 1 + below(80);
      }
    }
    type_map_writer w;
    w.add(t);
    const auto words = w.finish();
    const auto map = read(words);
    if (!map) continue;
    ++taken;
    const object::pointer_plans plans{*map};
    const object::pointer_plan& plan = *plans.find(layout::type_id_of(t.name.c_str()));
    std::vector<std::byte> object(below(3 * t.size + 1));
    for (std::byte& b : object) b = std::byte{static_cast<unsigned char>(below(4))};
    object.reserve(1);  // so that there is an address
    plan.each(object.data(), object.size(), [&](const object::pointer_word& word) {
      ASSERT_LE(word.at + 8, object.size());
      ASSERT_NE(word.kind, layout::field_kind::volatile_pointer);
    });
  }
  EXPECT_GT(taken, 1000U);
}

// struct slot { int n; void *p; void *q; }, visited; struct slots { struct slot all[3]; };
type_description slots_type() {
  using enum layout::field_kind;
  type_description t{"slots", 72, 8, {field("all", 0, by_visitor, 24, 3, layout::type_id_of("struct slot"))}};
  t.fields.push_back(field("all.n", 0, signed_integer, 4));
  t.fields[0].place.inner = 1;
  return t;
}
struct slot {
  int n;
  void *p, *q;
};

TEST(pointer_walk_of_visited, asks_the_program) {
  using enum layout::field_kind;
  type_map_writer w;
  w.add(slots_type());
  const auto words = w.finish();
  const auto map = read(words);
  ASSERT_TRUE(map) << last_message();
  const std::uint32_t id = layout::type_id_of("struct slot");
  EXPECT_EQ(object::pointer_plans(*map).find(layout::type_id_of("slots"))->lacks_visitor_of(), id);
  slot slots[3] = {{0, nullptr, nullptr}, {1, nullptr, nullptr}, {2, nullptr, nullptr}};
  const auto* object = reinterpret_cast<const std::byte*>(slots);
  EXPECT_EQ(words_of(*map, "slots", object, sizeof slots), all_found{});
  ASSERT_TRUE(object::visitor_registry::of_program().add(id, [](const void* object, nvm_visit* visit) {
    const auto* s = static_cast<const slot*>(object);
    const auto tell = [&](const void* at, layout::field_kind kind) {
      visit->tell(visit, at, static_cast<std::uint32_t>(kind));
    };
    if (s->n >= 1) tell(&s->p, pointer);
    if (s->n >= 2) tell(&s->q, weak_pointer);
    // Mistakes: outside of the structure, half outside, and no pointer of a pool.
    tell(s - 1, pointer);
    tell(&s->q + 1, pointer);
    tell(reinterpret_cast<const char*>(&s->q) + 1, pointer);
    tell(&s->p, volatile_pointer);
  }));
  EXPECT_EQ(object::pointer_plans(*map).find(layout::type_id_of("slots"))->lacks_visitor_of(), 0U);
  EXPECT_EQ(words_of(*map, "slots", object, sizeof slots),
            (all_found{{32, pointer}, {56, pointer}, {64, weak_pointer}}));
  EXPECT_EQ(words_of(*map, "slots", object, sizeof slots, 40, 63), (all_found{{56, pointer}}));
}

}  // namespace
}  // namespace nvm::tests
