// Pointer words of objects, as plans find them.
#include "object/pointer_walk.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nvm::tests
