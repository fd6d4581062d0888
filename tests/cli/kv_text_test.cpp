// Texts that the fuzzer of entries begins with, and random ones, without a fuzzer: part of the ordinary tests.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void use(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

TEST(kv_text, of_the_corpus_is_read_or_refused_with_its_line) {
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{NVM_CORPUS}) {
    std::ifstream in{entry.path(), std::ios::binary};
    use({std::istreambuf_iterator<char>{in}, {}});
    ++files;
  }
  EXPECT_GT(files, 4U);
}

TEST(kv_text, of_any_bytes_is_read_or_refused_with_its_line) {
  std::mt19937_64 random{5};
  static constexpr char common[] = "\"\",,\n\n\r\\{}[]:kv a1\xFF\xC3\xA9=";
  for (int i = 0; i < 20000; ++i) {
    std::string text = random() % 4 == 0 ? "{\"key\":\"" : "";
    for (unsigned n = random() % 40; n-- != 0;) {
      text += random() % 8 == 0 ? static_cast<char>(random()) : common[random() % (sizeof common - 1)];
    }
    use(text);
  }
}

}  // namespace
