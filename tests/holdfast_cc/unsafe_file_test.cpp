// *.unsafe files: accepted ones are understood, others are refused with the place of the fault.
#include "compiler/pass/log/unsafe_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

namespace nvm::compiler {
namespace {

using kind = expression::kind;

std::vector<unsafe_function> parsed(std::string_view text) {
  std::vector<unsafe_function> all;
  unsafe_error error;
  EXPECT_TRUE(parse_unsafe(text, all, error)) << error.line << ":" << error.column << ": " << error.message;
  return all;
}

TEST(unsafe_file, understands_the_examples_of_the_paper) {
  const auto all = parsed(
      "memcpy={nargs:3,wr_set:{{arg0,arg2}}}\n"
      "strcpy={nargs:2,wr_set:{{arg0,strlen(arg1)}}}\n"
      "setCacheLine={nargs:2,wr_set:{{arg0,#64}}}\n");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "memcpy");
  EXPECT_EQ(all[0].arguments, 3U);
  EXPECT_FALSE(all[0].more_arguments);
  ASSERT_EQ(all[0].writes.size(), 1U);
  EXPECT_EQ(all[0].writes[0].address.what, kind::argument);
  EXPECT_EQ(all[0].writes[0].bytes.value, 2U);
  EXPECT_EQ(all[1].writes[0].bytes.what, kind::string_length);
  EXPECT_EQ(all[1].writes[0].bytes.value, 1U);
  EXPECT_EQ(all[2].writes[0].bytes.what, kind::constant);
  EXPECT_EQ(all[2].writes[0].bytes.value, 64U);
  EXPECT_EQ(all[2].line, 3U);
}

TEST(unsafe_file, understands_locks_and_what_lies_between_two_addresses) {
  const auto all = parsed("f={nargs:2,wr_set:{{arg0,lock},{arg1,upto(between(arg0,arg1))}}}\n");
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].writes.size(), 2U);
  EXPECT_EQ(all[0].writes[0].how, written_range::extent::lock);
  EXPECT_TRUE(is_unsaid(all[0].writes[0]));
  EXPECT_FALSE(is_unsaid(all[0].writes[1]));
  EXPECT_EQ(all[0].writes[1].bytes.what, kind::between);
  EXPECT_EQ(all[0].writes[1].bytes.value, 0U);
  ASSERT_EQ(all[0].writes[1].bytes.parts.size(), 1U);
  EXPECT_EQ(all[0].writes[1].bytes.parts[0].value, 1U);
}

TEST(unsafe_file, understands_sums_products_and_what_writes_nothing_or_no_one_knows_what) {
  const auto all = parsed(
      "# a comment\n\n"
      " f = { nargs : 3+ , wr_set : { { arg0 + strlen(arg0) , min(arg1 * arg2, #10) + #1 } , {arg1,strnlen(arg2,arg1)} "
      "} }\r\n"
      "g={nargs:0,wr_set:{}}\n"
      "h={nargs:1,wr_set:?}");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_TRUE(all[0].more_arguments);
  ASSERT_EQ(all[0].writes.size(), 2U);
  EXPECT_EQ(all[0].writes[0].address.what, kind::sum);
  const expression& sum = all[0].writes[0].bytes;
  ASSERT_EQ(sum.what, kind::sum);
  ASSERT_EQ(sum.parts.size(), 2U);
  ASSERT_EQ(sum.parts[0].what, kind::minimum);
  EXPECT_EQ(sum.parts[0].parts[0].what, kind::product);
  EXPECT_EQ(all[0].writes[1].bytes.what, kind::bounded_length);
  EXPECT_TRUE(all[1].writes.empty());
  EXPECT_FALSE(all[1].unknown);
  EXPECT_TRUE(all[2].unknown);
}

TEST(unsafe_file, understands_upper_bounds_memory_and_what_the_run_time_looks_at) {
  const auto all = parsed(
      "a={nargs:3,wr_set:{{arg1,upto(arg2*#4)},{arg0,rest},{arg2,?}}}\n"
      "b={nargs:2+,wr_set:{{more,upto(#32)},scanf(arg1)}}\n"
      "c={nargs:3,wr_set:{{*arg0,int(arg1)},{*(arg0+#8)+#1,bits(arg2)},vprintf(arg0,arg1)}}\n"
      "d={nargs:2+,wr_set:{{arg0,printed(arg1)+#1},{arg0+wcslen(arg0)*#4,wcsnlen(arg1,#9)}}}\n"
      "e={nargs:2,wr_set:{{arg0,vprinted(arg0,arg1)}}}");
  ASSERT_EQ(all.size(), 5U);
  using extent = written_range::extent;
  ASSERT_EQ(all[0].writes.size(), 3U);
  EXPECT_EQ(all[0].writes[0].how, extent::at_most);
  EXPECT_EQ(all[0].writes[0].bytes.what, kind::product);
  EXPECT_EQ(all[0].writes[1].how, extent::at_most);
  EXPECT_EQ(all[0].writes[1].bytes.value, ~std::uint64_t{0});
  EXPECT_EQ(all[0].writes[2].how, extent::unknown);
  ASSERT_EQ(all[1].writes.size(), 1U);
  EXPECT_TRUE(all[1].writes[0].further);
  ASSERT_EQ(all[1].by.size(), 1U);
  EXPECT_EQ(all[1].by[0].what, "scanf");
  EXPECT_EQ(all[1].by[0].arguments, std::vector<unsigned>{1});
  EXPECT_TRUE(all[1].by[0].further);
  ASSERT_EQ(all[2].writes.size(), 2U);
  EXPECT_EQ(all[2].writes[0].address.what, kind::word_at);
  EXPECT_EQ(all[2].writes[0].bytes.what, kind::number_at);
  ASSERT_EQ(all[2].writes[1].address.what, kind::sum);
  EXPECT_EQ(all[2].writes[1].address.parts[0].what, kind::word_at);
  EXPECT_EQ(all[2].writes[1].address.parts[0].parts[0].what, kind::sum);
  EXPECT_EQ(all[2].writes[1].bytes.what, kind::bits);
  EXPECT_FALSE(all[2].by.at(0).further);
  EXPECT_EQ(all[3].writes[0].bytes.parts[0].what, kind::printed);
  EXPECT_EQ(all[3].writes[1].bytes.what, kind::bounded_wide_length);
  EXPECT_EQ(all[4].writes[0].bytes.what, kind::printed_list);
}

TEST(unsafe_file, a_later_file_overrides_an_earlier_one) {
  std::vector<unsafe_function> all = parsed("f={nargs:1,wr_set:{}}\ng={nargs:1,wr_set:{}}");
  unsafe_error error;
  ASSERT_TRUE(parse_unsafe("f={nargs:2,wr_set:{{arg1,#8}}}", all, error));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].arguments, 2U);
}

TEST(unsafe_file, says_who_calls_functions_of_the_program) {
  const auto all = parsed(
      "a={nargs:1,wr_set:{}}\n"
      "b={nargs:1,wr_set:{},calls:{}}\n"
      "calls:{}\n"
      "c={nargs:1,wr_set:{}}\n"
      "d={nargs:1,wr_set:?,calls:?}\n"
      "calls={nargs:1,wr_set:{},calls:?}\n"
      "calls : ?\n"
      "e={nargs:1,wr_set:{}}");
  ASSERT_EQ(all.size(), 6U);
  const bool expected[] = {true, false, false, true, true, true};
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].calls_back, expected[i]) << all[i].name;
}

struct refusal {
  const char* text;
  unsigned line, column;
  const char* message;
};

TEST(unsafe_file, what_is_malformed_is_refused_with_line_and_column) {
  const refusal all[] = {
      {"memcpy", 1, 7, "expected '=', found the end of the line"},
      {"\n\nf={nargs:1,wr_set:{{arg0,arg2}}}", 3, 26, "arg2 does not exist: the function has 1 argument"},
      {"f={nargs:2,wr_set:{{#8,arg1}}}", 1, 21, "an address begins with an argument"},
      {"f={nargs:x,wr_set:{}}", 1, 10, "expected a number"},
      {"f={nargs:99,wr_set:{}}", 1, 12, "at most 64 arguments"},
      {"f={nargs:1,wr_set:{{arg0,#99999999999}}}", 1, 36, "a number larger than 4294967296"},
      {"f={nargs:1,wr_set:{}} more", 1, 23, "unexpected text behind the closing brace"},
      {"f={nargs:1,wr_set:{}}\nf={nargs:1,wr_set:{}}", 2, 1, "f stands in line 1 already"},
      {"calls:{} f", 1, 10, "unexpected text behind it"},
      {"calls:x", 1, 7, "expected '{', found 'x'"},
      {"f={nargs:1,wr_set:{},nargs:1}", 1, 22, "expected 'calls', found 'n'"},
      {"f={nargs:1,wr_set:{scanf(arg0)}}", 1, 20, "scanf wants further arguments: nargs:1+"},
      {"f={nargs:1+,wr_set:{frob(arg0)}}", 1, 21, "nothing that can be looked at is called frob"},
      {"f={nargs:2,wr_set:{vector(arg0)}}", 1, 31, "expected ',', found ')'"},
      {"f={nargs:1,wr_set:{{more,#8}}}", 1, 21, "expected 'arg', found 'm'"},
      {"f={nargs:1,wr_set:{{*#8,#8}}}", 1, 22, "expected 'arg', found '#'"},
      {"9={nargs:1,wr_set:{}}", 1, 1, "expected the name of a function"},
  };
  for (const refusal& r : all) {
    std::vector<unsafe_function> functions(1);
    unsafe_error error;
    EXPECT_FALSE(parse_unsafe(r.text, functions, error)) << r.text;
    EXPECT_EQ(error.line, r.line) << r.text;
    EXPECT_EQ(error.column, r.column) << r.text;
    EXPECT_EQ(error.message, r.message) << r.text;
    EXPECT_EQ(functions.size(), 1U) << "a file that is refused adds nothing";
  }
  for (const char* nested : {"min(", "*(", "bits(", "strnlen(arg0,"}) {
    std::string deep = "f={nargs:1,wr_set:{{arg0,";
    for (int i = 0; i < 1000; ++i) deep += nested;
    std::vector<unsafe_function> functions;
    unsafe_error error;
    EXPECT_FALSE(parse_unsafe(deep, functions, error));
    EXPECT_EQ(error.message, "an expression nested deeper than 8");
  }
}

TEST(unsafe_file, the_table_of_the_c_library_is_well_formed) {
  std::ifstream in{NVM_LIBC_UNSAFE};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_GT(parsed(text).size(), 100U);
}

// Any bytes are refused or understood; ASan and UBSan watch.
TEST(unsafe_file, survives_any_text) {
  const std::string sample =
      "f={nargs:3+,wr_set:{{arg0+strlen(arg1),min(arg1*arg2,#7)+strnlen(arg0,#9)}},calls:?}\n"
      "g={nargs:3+,wr_set:{{*(arg0+#8),upto(bits(arg1)+int(arg2))},{more,rest},scanf(arg1)}}\n";
  std::mt19937_64 random{7};
  unsigned good = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text = sample;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 9));
          break;
        default:
          text[at] = sample[random() % sample.size()];
          break;
      }
      if (text.empty()) break;
    }
    std::vector<unsafe_function> functions;
    unsafe_error error;
    if (parse_unsafe(text, functions, error)) {
      ++good;
    } else {
      ASSERT_GE(error.line, 1U);
      ASSERT_FALSE(error.message.empty());
    }
  }
  EXPECT_GT(good, 100U);
}

}  // namespace
}  // namespace nvm::compiler
