#include <gtest/gtest.h>

#include <map>
#include <string>

#include "advisor/profile.hpp"
#include "profile_text.hpp"

namespace nvm::advisor {
namespace {

profile read(const std::string& text) {
  std::string problem;
  auto p = read_profile(text, problem);
  EXPECT_TRUE(p.has_value()) << problem;
  return p.value_or(profile{});
}

std::string problem_of(const std::string& text) {
  std::string problem;
  EXPECT_FALSE(read_profile(text, problem).has_value());
  return problem;
}

TEST(profile_file, is_read_as_it_was_written) {
  const profile p = read(profile_text());
  EXPECT_EQ(p.build, "ab12");
  EXPECT_EQ(p.program, "/bin/p");
  EXPECT_EQ(p.accesses, 8192U);
  EXPECT_EQ(p.ns, 2000U);
  EXPECT_EQ(p.burst, 4096U);
  ASSERT_EQ(p.files.size(), 2U);
  EXPECT_EQ(p.file(1).path, "/src/a b.c");
  EXPECT_EQ(p.file(1).md5, "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(p.file(2).md5, "");
  ASSERT_EQ(p.units.size(), 1U);
  EXPECT_EQ(p.units[0].command, "clang -O2 a.c");
  ASSERT_EQ(p.sites.size(), 3U);
  EXPECT_EQ(p.sites[0][counter::objects], 100U);
  EXPECT_EQ(p.sites[0][counter::lines_out], 10U);
  EXPECT_EQ(p.sites[2].kind, site_kind::durable);
  ASSERT_EQ(p.edges.size(), 2U);
  EXPECT_EQ(p.edges[1].kind, edge_kind_in_file::realloc);
  EXPECT_EQ(p.edges[1].count, 2U);
}

TEST(profile_file, shows_calls_where_they_were_inlined) {
  const profile p = read(profile_text());
  EXPECT_EQ(p.whole_path(p.sites[0]), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(p.whole_path(p.sites[1]), (std::vector<std::uint32_t>{1, 3, 2}));
}

TEST(profile_file, is_refused_when_a_byte_changed) {
  const std::string good = profile_text();
  for (std::size_t k = 0; k < good.size(); ++k) {
    std::string bad = good;
    bad[k] = bad[k] == 'x' ? 'y' : 'x';
    std::string problem;
    EXPECT_FALSE(read_profile(bad, problem).has_value()) << "byte " << k;
    EXPECT_FALSE(problem.empty());
  }
}

TEST(profile_file, is_refused_when_it_is_cut_off) {
  const std::string good = profile_text();
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    std::string problem;
    EXPECT_FALSE(read_profile(std::string_view{good}.substr(0, bytes), problem).has_value()) << bytes << " bytes";
  }
}

// Each with a good sum: what is said must be right as well.
TEST(profile_file, is_refused_with_line_and_reason) {
  const std::string h = header_text();
  const std::string f = "file 1 - /a.c\n";
  const std::string zeros = " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
  const std::map<std::string, std::string> wrong = {
      {"holdfast-profile 2\n", "version 2, expected 1"},
      {"holdfast-profile 1\nprogram x\n", "line 2: found 'program', expected 'build'"},
      {"holdfast-profile 1\nbuild xyz\n", "expected hexadecimal digits or -"},
      {"holdfast-profile 1\n", "expected those of a header"},
      {h + "frob 1\n", "expected file, unit, place, site or edge"},
      {h + "file 2 - /a.c\n", "line 6: found id 2, expected 1"},
      {h + "file 1 -\n", "a field is missing"},
      {h + "file 1 - /a%4\n", "a percent sign without two digits"},
      {h + "file 1 - /a%zz.c\n", "a percent sign without two digits"},
      {h + "file 1 - /a.c more\n", "after the last field"},
      {h + "unit 1 /a b\n", "found 1, expected at most 0"},
      {h + f + "unit 0 /a b\n", "found 0, expected a number from 1 on"},
      {h + f + "place 1 2 1 1 f g 0\n", "found 2, expected at most 1"},
      {h + f + "place 1 1 1 1 f g 1\n", "found 1, expected at most 0"},
      {h + f + "place 1 1 4294967296 1 f g 0\n", "expected at most 4294967295"},
      {h + f + "place 1 1 -1 1 f g 0\n", "expected a number"},
      {h + "site 1 0 1 1" + zeros, "found 1, expected at most 0"},
      {h + "site 1 0 0" + zeros, "a path where none is"},
      {h + "site 1 3 0" + zeros, "found 3, expected at most 2"},
      {h + "site 1 0 17" + zeros, "found 17, expected at most 16"},
      {h + "site 1 1 0 0\n", "a field is missing"},
      {h + "site 1 1 0 99999999999999999999" + zeros, "expected a number"},
      {h + "site 1 1 0 0 0 0 18446744073709551615 0 1 0 0 0 0 0 0 0 0 0 0 0 0\n", "counters that overflow"},
      {h + "edge 1 free 0 1\n", "found 1, expected at most 0"},
      {h + "site 1 1 0" + zeros + "edge 1 lost 0 1\n", "expected free or realloc"},
      {h + "site 1 1 0" + zeros + "edge 1  0 1\n", "an empty field"},
  };
  for (const auto& [body, reason] : wrong) {
    EXPECT_NE(problem_of(summed(body)).find(reason), std::string::npos) << body << "\n" << problem_of(summed(body));
  }
  EXPECT_NE(problem_of("PK\x03\x04").find("not a profile"), std::string::npos);
}

TEST(profile_merge, adds_counts_and_keeps_the_largest) {
  profile all = read(profile_text());
  const profile more = read(profile_text());
  std::string problem;
  ASSERT_TRUE(merge(all, more, problem)) << problem;
  EXPECT_EQ(all.runs, 2U);
  EXPECT_EQ(all.accesses, 16384U);
  ASSERT_EQ(all.sites.size(), 3U);
  EXPECT_EQ(all.files.size(), 2U);
  EXPECT_EQ(all.places.size(), 3U);
  EXPECT_EQ(all.units.size(), 1U);
  EXPECT_EQ(all.sites[0][counter::objects], 200U);
  EXPECT_EQ(all.sites[0][counter::loads], 600U);
  EXPECT_EQ(all.sites[0][counter::largest], 64U);
  EXPECT_EQ(all.sites[0][counter::peak_bytes], 6400U);
  ASSERT_EQ(all.edges.size(), 2U);
  EXPECT_EQ(all.edges[0].count, 80U);
}

TEST(profile_merge, finds_the_same_site_under_another_number) {
  profile all = read(profile_text());
  const std::string other = header_text() +
                            "file 1 - /src/c.c\n"
                            "file 2 0123456789abcdef0123456789abcdef /src/a%20b.c\n"
                            "place 1 1 1 1 g malloc 0\n"
                            "place 2 2 20 5 make xmalloc 0\n"
                            "place 3 2 10 3 xmalloc malloc 0\n"
                            "site 1 0 1 1 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                            "site 2 0 2 3 2 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
  std::string problem;
  ASSERT_TRUE(merge(all, read(summed(other)), problem)) << problem;
  ASSERT_EQ(all.sites.size(), 4U);
  EXPECT_EQ(all.sites[0][counter::objects], 105U);
  EXPECT_EQ(all.sites[3][counter::objects], 7U);
  EXPECT_EQ(all.file(all.at(all.sites[3].path[0]).file).path, "/src/c.c");
}

TEST(profile_merge, does_not_overflow) {
  const std::string most = "18446744073709551615";
  const std::string text = summed(header_text() + "site 1 1 0 0 0 0 0 0 0 0 0 0 0 0 " + most + " 0 0 0 0 0 0\n");
  profile all = read(text);
  std::string problem;
  ASSERT_TRUE(merge(all, read(text), problem)) << problem;
  EXPECT_EQ(all.sites[0][counter::loads], UINT64_MAX);
}

TEST(profile_merge, refuses_another_build) {
  profile all = read(profile_text());
  std::string problem;
  EXPECT_FALSE(merge(all, read(profile_text("ab13")), problem));
  EXPECT_EQ(problem, "of another build: found ab13, expected ab12");
  EXPECT_FALSE(merge(all, read(profile_text("-")), problem));
  EXPECT_NE(problem.find("without a build id"), std::string::npos);
  EXPECT_EQ(all.runs, 1U);
  EXPECT_EQ(all.sites[0][counter::objects], 100U);
}

TEST(profile_merge, refuses_runs_that_counted_otherwise) {
  profile all = read(profile_text());
  std::string body = body_text();
  body.replace(body.find("settings 4 4096"), 15, "settings 4 1024");
  std::string problem;
  EXPECT_FALSE(merge(all, read(summed(body)), problem));
  EXPECT_NE(problem.find("HOLDFAST_PROFILE_BURST"), std::string::npos);
}

}  // namespace
}  // namespace nvm::advisor
