// Every input of each fuzzer's corpus, and some random ones, without the fuzzer: part of the ordinary tests.
//
// NVM_FUZZERS: X(subject) for each whose door is in this program.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "door.hpp"

#define X(subject) extern "C" int NVM_FUZZER(subject)(const std::uint8_t* data, std::size_t size);
NVM_FUZZERS
#undef X

namespace {

struct fuzzer {
  const char* subject;
  int (*door)(const std::uint8_t* data, std::size_t size);
};
#define X(subject) {#subject, NVM_FUZZER(subject)},
constexpr fuzzer fuzzers[] = {NVM_FUZZERS};
#undef X

class corpus : public testing::TestWithParam<fuzzer> {};
INSTANTIATE_TEST_SUITE_P(of, corpus, testing::ValuesIn(fuzzers), [](const auto& i) { return i.param.subject; });

// What the fuzzer's door asks of each input aborts the process.
TEST_P(corpus, is_read_or_refused_as_it_is_and_changed) {
  const std::filesystem::path folder = std::filesystem::path{NVM_CORPUS} / GetParam().subject;
  const auto door = GetParam().door;
  std::mt19937_64 random{1};
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    std::ifstream in{entry.path(), std::ios::binary};
    std::vector<std::uint8_t> input{std::istreambuf_iterator<char>{in}, {}};
    EXPECT_EQ(door(input.data(), input.size()), 0) << entry.path();
    for (unsigned changes = 0; changes < 8 && !input.empty(); ++changes) {
      input[random() % input.size()] = static_cast<std::uint8_t>(random());
      EXPECT_EQ(door(input.data(), input.size()), 0) << entry.path() << ", changed";
    }
    ++files;
  }
  EXPECT_GT(files, 0U) << "no corpus in " << folder;
}

}  // namespace
