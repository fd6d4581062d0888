// Tags of unions: their values, and texts that are refused.
#include "object/union_tag.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace nvm::tests {
namespace {

using object::union_tag;

struct sample {
  std::uint8_t a = 0xA5;
  std::int8_t b = -2;
  std::uint16_t c = 0xFFFF;
  std::int32_t d = -1000;
  std::uint64_t e = 0x8000'0000'0000'0001;
};

std::int64_t value(const char* text) {
  const sample s;
  std::byte bytes[sizeof s];
  std::memcpy(bytes, &s, sizeof s);
  const auto tag = union_tag::read(text, sizeof s);
  EXPECT_TRUE(tag) << text;
  return tag ? tag->member_of(bytes) : 0;
}
bool is_tag(const std::string& text, std::uint64_t room = 16) { return union_tag::read(text, room).has_value(); }

TEST(union_tag, loads_integers_and_bits) {
  EXPECT_EQ(value("u1@0"), 0xA5);
  EXPECT_EQ(value("s1@0"), 0xA5 - 256);
  EXPECT_EQ(value("s1@1"), -2);
  EXPECT_EQ(value("u2@2"), 0xFFFF);
  EXPECT_EQ(value("s2@2"), -1);
  EXPECT_EQ(value("s4@4"), -1000);
  EXPECT_EQ(value("u8@8"), INT64_MIN + 1);
  EXPECT_EQ(value("u1@0:0+3"), 5);
  EXPECT_EQ(value("s1@0:0+3"), -3);
  EXPECT_EQ(value("u1@0:5+3"), 5);
  EXPECT_EQ(value("u8@8:63+1"), 1);
}

TEST(union_tag, calculates_as_it_says) {
  EXPECT_EQ(value("7 2 +"), 9);
  EXPECT_EQ(value("7 2 -"), 5);
  EXPECT_EQ(value("7 -2 *"), -14);
  EXPECT_EQ(value("-7 2 /"), -3);
  EXPECT_EQ(value("-7 2 %"), -1);
  EXPECT_EQ(value("7 0 /"), 0);
  EXPECT_EQ(value("7 0 %"), 0);
  EXPECT_EQ(value("-9223372036854775808 -1 /"), INT64_MIN);
  EXPECT_EQ(value("6 3 &"), 2);
  EXPECT_EQ(value("6 3 |"), 7);
  EXPECT_EQ(value("6 3 ^"), 5);
  EXPECT_EQ(value("1 65 <<"), 2);
  EXPECT_EQ(value("-8 1 >>"), -4);
  EXPECT_EQ(value("2 2 =="), 1);
  EXPECT_EQ(value("2 2 !="), 0);
  EXPECT_EQ(value("1 2 <"), 1);
  EXPECT_EQ(value("2 2 <="), 1);
  EXPECT_EQ(value("1 2 >"), 0);
  EXPECT_EQ(value("2 2 >="), 1);
  EXPECT_EQ(value("5 0 &&"), 0);
  EXPECT_EQ(value("5 0 ||"), 1);
  EXPECT_EQ(value("5 neg"), -5);
  EXPECT_EQ(value("5 !"), 0);
  EXPECT_EQ(value("5 ~"), -6);
  EXPECT_EQ(value("s1@1 0 < 10 20 ?"), 10);
  EXPECT_EQ(value("0 10 20 ?"), 20);
  EXPECT_EQ(value("9223372036854775807 1 +"), INT64_MIN);
}

TEST(union_tag, other_texts_are_refused) {
  EXPECT_TRUE(is_tag("u8@8"));
  for (const char* text : {"",
                           " ",
                           "1 ",
                           " 1",
                           "1  2 +",
                           "+",
                           "1 +",
                           "1 2",
                           "1 2 3 +",
                           "1 ?",
                           "1 2 ?",
                           "u3@0",
                           "u8@9",
                           "u1@16",
                           "u1@18446744073709551615",
                           "u1@-1",
                           "u1@",
                           "u1",
                           "x1@0",
                           "u1@0:8+1",
                           "u1@0:0+9",
                           "u1@0:7+2",
                           "u1@0:0+0",
                           "u1@0:1",
                           "u1@0 ",
                           "9223372036854775808",
                           "1x",
                           "u1@0x",
                           "plus"}) {
    EXPECT_FALSE(is_tag(text)) << "'" << text << "'";
  }
  EXPECT_TRUE(is_tag("u1@0", 1));
  EXPECT_FALSE(is_tag("u2@0", 1));
  const auto sum = [](unsigned values) {
    std::string text;
    for (unsigned i = 0; i < values; ++i) text += "1 ";
    for (unsigned i = 1; i < values; ++i) text += "+ ";
    text.pop_back();
    return text;
  };
  EXPECT_TRUE(is_tag(sum(union_tag::values_max)));
  EXPECT_FALSE(is_tag(sum(union_tag::values_max + 1)));
  std::string longest = "1";
  while (longest.size() + 2 <= union_tag::text_max) longest += " !";
  EXPECT_TRUE(is_tag(longest));
  EXPECT_FALSE(is_tag(longest + " !"));
}

TEST(union_tag, says_how_far_it_reads) {
  EXPECT_EQ(union_tag::read("1", 0)->reach(), 0U);
  EXPECT_EQ(union_tag::read("u2@4 s1@0 +", 16)->reach(), 6U);
}

}  // namespace
}  // namespace nvm::tests
