// Every input of a fuzzer's corpus, and some random ones, without the fuzzer: part of the ordinary tests.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// What the fuzzer's door asks of each input aborts the process.
TEST(corpus, is_read_or_refused_as_it_is_and_changed) {
  std::mt19937_64 random{1};
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{NVM_CORPUS}) {
    std::ifstream in{entry.path(), std::ios::binary};
    std::vector<std::uint8_t> input{std::istreambuf_iterator<char>{in}, {}};
    EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0) << entry.path();
    for (unsigned changes = 0; changes < 8 && !input.empty(); ++changes) {
      input[random() % input.size()] = static_cast<std::uint8_t>(random());
      EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0) << entry.path() << ", changed";
    }
    ++files;
  }
  EXPECT_GT(files, 0U) << "no corpus in " << NVM_CORPUS;
}

}  // namespace
