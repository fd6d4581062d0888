// Tables of static pointers: only written tables are accepted; targets of addresses; joins of tables.
#include <gtest/gtest.h>

#include <cstring>

#include "object/static_images.hpp"
#include "object/static_pointers.hpp"

namespace nvm::tests {
namespace {

using layout::static_kind;
using layout::static_place;
using layout::static_state;
using object::static_mover;
using object::static_object;
using object::static_table;
using object::static_uses;

static_object named(const char* name, std::uint64_t address, std::uint64_t size = 16) {
  return {static_kind::object, address, size, name};
}
static_object image(const char* name, std::uint64_t address, std::uint64_t size) {
  return {static_kind::image, address, size, name};
}
static_table known_rows(static_state state = static_state::at_rest) {
  return {{named("beta", 0x1010), named("alpha", 0x1000), image("00ff /bin/a", 0x1000, 0x1000), static_object{},
           named("gone", 0), named("\"text\"", 0x1100, 5), named("\"text\"", 0x1200, 5)},
          state};
}
std::span<const std::byte> view(const std::vector<std::uint64_t>& words) { return std::as_bytes(std::span{words}); }

TEST(static_table, is_read_as_it_was_written) {
  const auto words = known_rows(static_state::passing).bytes();
  const auto read = static_table::read(view(words));
  ASSERT_TRUE(read) << last_message();
  EXPECT_EQ(read->rows(), known_rows().rows());
  EXPECT_EQ(read->state(), static_state::passing);
  EXPECT_TRUE(read->says_the_same(known_rows()));
  const auto none = static_table{}.bytes();
  EXPECT_TRUE(static_table::read(view(none)));
}

TEST(static_table, with_any_bit_flipped_or_any_byte_missing_is_refused) {
  const auto words = known_rows().bytes();
  for (std::size_t bit = 0; bit < words.size() * 64; ++bit) {
    auto flipped = words;
    flipped[bit / 64] ^= std::uint64_t{1} << bit % 64;
    const auto read = static_table::read(view(flipped));
    ASSERT_TRUE(!read && read.error() == errc::corrupt) << bit;
  }
  for (std::size_t n = 0; n < words.size() * 8; ++n) EXPECT_FALSE(static_table::read(view(words).first(n))) << n;
}

TEST(static_table, that_is_forged_with_a_good_checksum_is_refused) {
  const auto refused = [](const char* what, const static_object& o) {
    const auto words = static_table{{o}, static_state::at_rest}.bytes();
    EXPECT_FALSE(static_table::read(view(words))) << what;
  };
  refused("no name", named("", 0x1000));
  refused("control character", named("a\nb", 0x1000));
  refused("no bytes", named("a", 0x1000, 0));
  refused("too many bytes", named("a", 0x1000, layout::static_size_max + 1));
  refused("an address that is a token", named("a", layout::static_token_mark));
  refused("an end that is one", named("a", layout::static_address_end - 8));
  refused("an image nowhere", image("00 /a", 0, 16));
  refused("vacant with an address", {static_kind::vacant, 16, 0, ""});
  refused("kind", {static_kind{4}, 0x1000, 16, "a"});
  refused("long name", named(std::string(layout::static_name_max + 1, 'x').c_str(), 0x1000));
  const auto state = static_table{{}, static_state{3}}.bytes();
  EXPECT_FALSE(static_table::read(view(state)));
}

TEST(static_table, tells_what_addresses_lead_to) {
  const static_table t = known_rows();
  EXPECT_EQ(t.find_around(0x1004).object, (static_place{1, 4}));
  EXPECT_EQ(t.find_around(0x1010).object, (static_place{0, 0})) << "what begins there, not what ends";
  EXPECT_EQ(t.find_around(0x1020).object, (static_place{0, 16})) << "its end";
  EXPECT_FALSE(t.find_around(0x1021).object);
  EXPECT_EQ(t.find_around(0x1021).image, (static_place{2, 0x21}));
  EXPECT_FALSE(t.find_around(0xFFF).object || t.find_around(0xFFF).image || t.find_around(0x2000).image);
  EXPECT_EQ(t.find(image("00ff /elsewhere", 1, 1)), 2U);
  EXPECT_FALSE(t.find(named("00ff", 1)) || t.find(static_object{}));
}

TEST(static_mover, puts_values_right_whatever_they_are) {
  const static_table stored = known_rows();
  // They change places, and one is gone for good.
  const static_table program{{named("alpha", 0x1010), named("beta", 0x1000), named("gone", 0x3000),
                              named("\"text\"", 0x4000, 5), image("00ff /bin/a", 0x9000, 0x1000)},
                             static_state::at_rest};
  static_uses uses{stored.rows().size()};
  const static_mover looking{static_mover::pass::look, stored, program, false, &uses};
  const std::uint64_t values[] = {0, 0x1004, 0x1020, 0x1203, 0x1500, 0x77};
  const std::uint64_t expected[] = {0, 0x1014, 0x1010, 0x4003, 0x9500, 0x77};
  for (std::uint64_t v : values) EXPECT_EQ(looking.move(v), static_mover::what::stays);
  EXPECT_EQ(uses.unknown(), 1U);
  const static_table joined = joined_table(stored, program, uses);
  EXPECT_EQ(joined.rows()[1].address, 0x1010U) << "rows keep their numbers";
  const static_mover away{static_mover::pass::to_tokens, stored, program, false};
  const static_mover back{static_mover::pass::to_addresses, joined, program, false};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    std::uint64_t v = values[i];
    for (unsigned again = 0; again < 2; ++again) (void)away.move(v);
    for (unsigned again = 0; again < 2; ++again) (void)back.move(v);
    EXPECT_EQ(v, expected[i]);
  }
}

// Words of objects without a type: in an image that moved, above 4 GiB.
TEST(static_mover, guesses_words_that_lie_in_an_image_that_moved) {
  constexpr std::uint64_t high = std::uint64_t{0x5555} << 32;
  const static_table rest{{named("alpha", high + 0x10), image("00ff /bin/a", high, 0x1000),
                           image("11 /lib/b", high + 0x8000, 0x1000), image("22 /bin/fixed", 0x4000, 0x1000)},
                          static_state::at_rest};
  const static_table program{{named("alpha", high + 0x40), image("00ff /bin/a", high + 0x20, 0x1000),
                              image("11 /lib/b", high + 0x8000, 0x1000), image("22 /bin/fixed", 0x9000, 0x1000)},
                             static_state::at_rest};
  static_uses uses{rest.rows().size(), 0x5A00'0001};
  const static_mover looking{static_mover::pass::look, rest, program, false, &uses};
  const std::uint64_t values[] = {
      high + 0x10, high + 0x800, high + 0x8010, 0x4010, high + 0x1000, layout::token_of({0, 1}), 0x5A00'0001'0000'0000};
  const std::uint64_t expected[] = {
      high + 0x40, high + 0x820, high + 0x8010, 0x4010, high + 0x1000, layout::token_of({0, 1}), 0x5A00'0001'0000'0000};
  for (std::uint64_t v : values) EXPECT_EQ(looking.move(v, true), static_mover::what::stays);
  EXPECT_EQ(uses.unknown(), 0U);
  EXPECT_EQ(uses.free_mark(), 0x5A00'0002U);
  const static_table stored{rest.rows(), static_state::passing, 0x5A00'0002};
  const static_table joined = joined_table(stored, program, uses);
  const static_mover away{static_mover::pass::to_tokens, stored, program, false};
  const static_mover back{static_mover::pass::to_addresses, joined, program, false};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    std::uint64_t v = values[i];
    for (unsigned again = 0; again < 2; ++again) (void)away.move(v, true);
    const auto bytes = joined.bytes();
    const auto read = static_table::read(std::as_bytes(std::span{bytes}));
    ASSERT_TRUE(read) << last_message();
    const static_mover resumed{static_mover::pass::to_addresses, *read, program, false};
    for (unsigned again = 0; again < 2; ++again) (void)(i % 2 == 0 ? back : resumed).move(v, true);
    EXPECT_EQ(v, expected[i]) << i;
  }
}

// In an image all of whose objects have names, what lies in none of them is no address, and in another build elsewhere.
TEST(static_mover, leaves_words_alone_that_lie_between_the_objects_of_an_announced_image) {
  constexpr std::uint64_t high = std::uint64_t{0x5555} << 32;
  const auto announced = [](const char* name, std::uint64_t address) {
    return static_object{object::announced_image, address, 0x1000, name};
  };
  const static_table stored{
      {named("call", high + 0x10, 1), named("table", high + 0x100, 64), named("\"text\"", high + 0x200, 5),
       announced("00ff /bin/a", high), image("11 /lib/b", high + 0x8000, 0x1000)},
      static_state::at_rest};
  const static_table program{{named("call", high + 0x30, 1), named("table", high + 0x180, 64),
                              named("\"text\"", high + 0x220, 5), announced("aa00 /bin/a", high)},
                             static_state::at_rest};
  static_uses uses{stored.rows().size(), 0x5A00'0001};
  const static_mover looking{static_mover::pass::look, stored, program, false, &uses};
  for (const std::uint64_t address : std::initializer_list<std::uint64_t>{0x10, 0x100, 0x139, 0x203}) {
    std::uint64_t v = high + address;
    EXPECT_EQ(looking.move(v, true), static_mover::what::stays) << address;
  }
  EXPECT_EQ(uses.of_row(0) + uses.of_row(1) + uses.of_row(2), 4U);
  // Inside of code, an end, nothing at all.
  for (const std::uint64_t address : std::initializer_list<std::uint64_t>{0x11, 0x140, 0x205, 0x800}) {
    std::uint64_t v = high + address;
    EXPECT_EQ(looking.move(v, true), static_mover::what::stays) << address;
  }
  EXPECT_EQ(uses.of_row(0) + uses.of_row(1) + uses.of_row(2) + uses.of_row(3), 4U);
  // A library is gone.
  std::uint64_t v = high + 0x8010;
  EXPECT_EQ(looking.move(v, true), static_mover::what::foreign);
  // The typed field is refused there.
  v = high + 0x800;
  EXPECT_EQ(looking.move(v), static_mover::what::foreign);
}

TEST(static_table, refuses_marks_that_addresses_begin_with) {
  for (const std::uint32_t mark : {1U, 0x00FF'FFFFU, 0xFF00'0000U}) {
    const auto bytes = static_table{known_rows().rows(), static_state::passing, mark}.bytes();
    EXPECT_FALSE(static_table::read(std::as_bytes(std::span{bytes}))) << mark;
  }
  const auto at_rest = static_table{known_rows().rows(), static_state::at_rest, 0x5A00'0001}.bytes();
  EXPECT_FALSE(static_table::read(std::as_bytes(std::span{at_rest})));
  const auto large =
      static_table{{named("large", 0x1000, std::uint64_t{1} << 33)}, static_state::passing, 0x5A00'0001}.bytes();
  EXPECT_FALSE(static_table::read(std::as_bytes(std::span{large})));
}

TEST(static_mover, finds_what_is_gone) {
  const static_table stored = known_rows();
  const static_table program{{named("beta", 0x5000, 4)}, static_state::at_rest};
  static_uses uses{stored.rows().size()};
  const static_mover looking{static_mover::pass::look, stored, program, false, &uses};
  std::uint64_t gone = 0x1000, smaller = 0x1018, there = 0x1014;
  EXPECT_EQ(looking.move(gone), static_mover::what::foreign);
  EXPECT_EQ(looking.move(smaller), static_mover::what::foreign);
  EXPECT_EQ(looking.move(there), static_mover::what::stays);
}

TEST(static_table, of_a_program_that_loads_libraries_keeps_the_others) {
  const static_table stored{{named("alpha", 0x1000), named("beta", 0x1010), named("old", 0x2000)},
                            static_state::at_rest};
  const static_table program{{named("alpha", 0x1000), named("new", 0x2008)}, static_state::at_rest};
  const static_table both = later_table(stored, program);
  EXPECT_TRUE(both.says_all_of(program));
  EXPECT_TRUE(both.find(named("beta", 0)));
  EXPECT_FALSE(both.find(named("old", 0))) << "its bytes are another's now";
}

}  // namespace
}  // namespace nvm::tests
