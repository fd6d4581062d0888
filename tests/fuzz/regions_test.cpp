// Files of pools with regions, changed in every way that the fuzzers know, and random calls, without a fuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "../sanitized.hpp"
#include "nvm/nvm.h"
#include "region_calls.hpp"
#include "region_files.hpp"
#include "replay.hpp"

namespace nvm::fuzz {
namespace {

TEST(region_files, that_were_edited_are_refused_or_can_be_worked_with) {
  for (const bytes& file : region_file_images()) EXPECT_TRUE(use_regions(file)) << nvm_errormsg();
  replay("regions", region_file_images(), use_regions, true);
  random_edits(region_file_images(), use_regions, 1, tests::rounds_of_build(150U), true, true);
  random_edits(region_file_images(), use_regions, 2, tests::rounds_of_build(150U), false, true);
}

// Words that are none of the bytes that regions have, which are all alike: headers, heads, the directory, the log, and
// what the pool itself keeps.
std::vector<std::size_t> words_of_metadata(const bytes& file) {
  std::vector<std::size_t> all;
  for (std::size_t at = 0; at + 8 <= file.size(); at += 8) {
    if (std::any_of(&file[at], &file[at] + 8, [&](std::byte b) { return b != file[at]; })) all.push_back(at);
  }
  return all;
}
// A bit, the word, or a word of elsewhere.
bytes with_damaged_word(const bytes& file, const std::vector<std::size_t>& words, std::mt19937_64& random) {
  bytes damaged = file;
  std::byte* const at = &damaged[words[random() % words.size()]];
  switch (random() % 4) {
    case 0:
      std::memset(at, 0, 8);
      break;
    case 1:
      std::memcpy(at, &file[words[random() % words.size()]], 8);
      break;
    default:
      at[random() % 8] ^= std::byte{1} << random() % 8;
  }
  return damaged;
}

TEST(region_files, with_damaged_metadata_are_refused_or_repaired_or_can_be_worked_with) {
  std::mt19937_64 random{1};
  unsigned used = 0, mended = 0;
  for (const bytes& file : region_file_images()) {
    const auto words = words_of_metadata(file);
    ASSERT_GT(words.size(), 100U);
    for (unsigned i = 0; i < tests::rounds_of_build(30U); ++i) {
      const bytes damaged = with_damaged_word(file, words, random);
      used += use_regions(damaged) ? 1 : 0;
      if (i % 4 == 0) mended += mend_regions(damaged) ? 1 : 0;
    }
  }
  EXPECT_GT(used, 0U);
  EXPECT_GT(mended, 0U);
}

TEST(region_files, that_are_repaired_are_sound_or_refused_and_nothing_is_invented) {
  for (const bytes& file : region_file_images()) EXPECT_TRUE(mend_regions(file)) << nvm_errormsg();
  replay("regions", region_file_images(), mend_regions, true);
  random_edits(region_file_images(), mend_regions, 3, tests::rounds_of_build(30U), false, true);
}

TEST(region_calls, with_any_arguments_do_what_they_say) {
  std::mt19937_64 random{1};
  std::uint64_t done = 0;
  for (unsigned i = 0; i < tests::rounds_of_build(600U); ++i) {
    std::vector<std::uint8_t> input(1 + random() % 500);
    for (auto& b : input) b = static_cast<std::uint8_t>(random());
    done += call_regions(input);
  }
  EXPECT_GT(done, 1000U) << "calls that were not refused";
}

}  // namespace
}  // namespace nvm::fuzz
