// Store logs of pmemcheck: accepted logs, refused ones and the place of the fault; no text does harm.
#include "crash_test/pmemcheck.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

namespace nvm::crash_test {
namespace {

using explore::event_kind;

constexpr std::string_view opening = "START|REGISTER_FILE;/pool;0x10000;0x2000;0x0|";

std::string problem_of(std::string_view log, std::string_view file = {}) {
  std::string problem;
  const auto r = read_pmemcheck(log, {}, file, problem);
  EXPECT_NE(r.has_value(), !problem.empty());
  return problem;
}

std::vector<std::byte> last_image(const session& s) {
  std::vector<std::byte> image = s.image;
  for (const explore::event& e : s.trace.events) {
    if (e.kind == event_kind::store) apply(s.trace, e, image.data());
  }
  return image;
}

TEST(pmemcheck_log, is_read_with_values_of_any_width) {
  std::string problem;
  const std::string log = std::string{opening} +
                          "STORE;0x10008;0x1122334455667788;0x8|STORE;10011;FF;1;put (app.c:7);main (app.c:9)|\n"
                          "STORE;0x10ffc;0x00112233445566778899aabbccddeeff;0x10|FLUSH;0x10000;0x40|FENCE|\n"
                          "STORE;0x99999;0x1;0x8|FREORDER|work.BEGIN|work.END|STOP";
  const auto r = read_pmemcheck(log, std::vector<std::byte>(16, std::byte{0x55}), {}, problem);
  ASSERT_TRUE(r) << problem;
  ASSERT_EQ(r->sessions.size(), 1U);
  const session& s = r->sessions[0];
  EXPECT_EQ(s.path, "/pool");
  EXPECT_EQ(s.stores, 3U);  // the fourth goes elsewhere
  EXPECT_EQ(s.image.size(), 8192U);
  const auto image = last_image(s);
  EXPECT_EQ(image[0], std::byte{0x55});
  EXPECT_EQ(image[8], std::byte{0x88});
  EXPECT_EQ(image[15], std::byte{0x11});
  EXPECT_EQ(image[0x11], std::byte{0xFF});
  EXPECT_EQ(image[0xffc], std::byte{0xff});
  EXPECT_EQ(image[0x100b], std::byte{0x00});
  EXPECT_EQ(image[0x100a], std::byte{0x11});
  // Without a stack trace the entry stands for the place.
  std::vector<std::string> places;
  unsigned flushes = 0;
  unsigned fences = 0;
  for (const explore::event& e : s.trace.events) {
    if (e.kind == event_kind::store) places.push_back(text_of(e.site));
    flushes += e.kind == event_kind::flush ? 1U : 0U;
    fences += e.kind == event_kind::fence ? 1U : 0U;
  }
  EXPECT_EQ(places, (std::vector<std::string>{"log entry 3, line 1", "put (app.c:7)", "log entry 5, line 2"}));
  EXPECT_EQ(flushes, 1U);
  EXPECT_EQ(fences, 1U);
}

TEST(pmemcheck_log, is_refused_with_line_and_entry) {
  const auto after = [](const char* entry) { return problem_of(std::string{opening} + "\nFENCE|\n" + entry); };
  EXPECT_EQ(after("STORE;0x10000;0x1"), "line 3, entry 4: STORE wants address, value and size");
  EXPECT_EQ(after("STORE;0x10000;0x1;0x"), "line 3, entry 4: STORE: a number is not hexadecimal");
  EXPECT_EQ(after("STORE;10000;1;0"), "line 3, entry 4: STORE: size is 0, expected 1 to 64");
  EXPECT_EQ(after("STORE;10000;1;41"), "line 3, entry 4: STORE: size is 65, expected 1 to 64");
  EXPECT_EQ(after("STORE;10000;100;1"), "line 3, entry 4: STORE: the value is no hexadecimal number of that size");
  EXPECT_EQ(after("STORE;10000;;1"), "line 3, entry 4: STORE: the value is no hexadecimal number of that size");
  EXPECT_EQ(after("FLUSH;10000"), "line 3, entry 4: FLUSH wants address and size");
  EXPECT_EQ(after("FLUSH;10000;-4"), "line 3, entry 4: FLUSH: a number is not hexadecimal");
  EXPECT_EQ(after("REGISTER_FILE;/a;0;1"), "line 3, entry 4: REGISTER_FILE wants path, address, size and offset");
  EXPECT_EQ(after("REGISTER_FILE;/a;ffffffffffffff00;1000;0"),
            "line 3, entry 4: REGISTER_FILE: no such range of addresses");
  EXPECT_EQ(after("stores"), "line 3, entry 4: expected STORE, FLUSH, FENCE, REGISTER_FILE or a marker");
  const std::string told = "STORE;10000;1;1;put";
  for (const char c : {'\0', '\x1B', '\x7F'}) {
    EXPECT_EQ(problem_of(std::string{opening} + told + c), "line 1, entry 3: a control character in it");
  }
  EXPECT_EQ(problem_of(std::string{opening} + told + " \t\xC3\xA9"), "");
  EXPECT_EQ(problem_of(""), "no REGISTER_FILE: the log does not say where a file was mapped");
  EXPECT_EQ(problem_of(opening), "no store goes to /pool");
}

TEST(pmemcheck_log, of_several_files_wants_one_named) {
  const std::string log =
      std::string{opening} + "REGISTER_FILE;/other;0x20000;0x1000;0x0|STORE;10000;1;8|STORE;20000;2;8";
  EXPECT_EQ(problem_of(log), "several files are registered: name one");
  EXPECT_EQ(problem_of(log, "/nowhere"), "the file that was named is not registered");
  std::string problem;
  const auto r = read_pmemcheck(log, {}, "/other", problem);
  ASSERT_TRUE(r) << problem;
  EXPECT_EQ(last_image(r->sessions[0])[0], std::byte{2});
}

TEST(pmemcheck_log, of_a_file_mapped_in_parts_is_put_together) {
  std::string problem;
  const auto r = read_pmemcheck(
      "REGISTER_FILE;/pool;10000;1000;0|REGISTER_FILE;/pool;90000;1000;1000|STORE;90008;7;8|STORE;10008;5;8", {}, {},
      problem);
  ASSERT_TRUE(r) << problem;
  const auto image = last_image(r->sessions[0]);
  EXPECT_EQ(image[0x1008], std::byte{7});
  EXPECT_EQ(image[8], std::byte{5});
}

TEST(pmemcheck_log, of_any_text_does_no_harm) {
  std::ifstream file(LOGS "/ring.log");
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(good.size(), 1000U);
  std::mt19937_64 random(1);
  constexpr std::string_view letters = "|;\n0123456789abcdefx STOREFLUSHNC";
  unsigned refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good.substr(0, 200 + random() % 600);
    for (unsigned n = 1 + random() % 6; n != 0; --n) {
      const std::size_t at = random() % bad.size();
      const char letter = random() % 8 == 0 ? static_cast<char>(random()) : letters[random() % letters.size()];
      switch (random() % 3) {
        case 0:
          bad[at] = letter;
          break;
        case 1:
          bad.insert(at, 1, letter);
          break;
        default:
          bad.erase(at, 1 + random() % 8);
      }
      if (bad.empty()) bad = "|";
    }
    std::string problem;
    const auto r = read_pmemcheck(bad, {}, {}, problem);
    EXPECT_NE(r.has_value(), !problem.empty());
    if (r) {
      (void)last_image(r->sessions.at(0));
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5'000U);
}

}  // namespace
}  // namespace nvm::crash_test
