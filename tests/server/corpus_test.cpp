// Every input of the fuzzer's corpus, without a fuzzer: part of the ordinary tests.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

TEST(memcached_corpus, is_answered_alike_in_whatever_pieces_it_comes) {
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{NVM_CORPUS}) {
    std::ifstream in{entry.path(), std::ios::binary};
    std::vector<std::uint8_t> input{std::istreambuf_iterator<char>{in}, {}};
    ASSERT_FALSE(input.empty()) << entry.path();
    for (unsigned piece = 0; piece < 64; piece += 7) {
      input[0] = static_cast<std::uint8_t>(piece);
      LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    ++files;
  }
  EXPECT_GT(files, 0U) << "no corpus in " << NVM_CORPUS;
}

}  // namespace
