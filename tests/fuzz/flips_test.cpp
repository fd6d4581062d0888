// Single bits of the metadata of small pools of every engine, flipped one at a time: opening refuses with errc::corrupt
// and says where it found what, or everything is there; and a pool that is refused does not pass the check.
//
// NVM_FLIPS: each of how many bits; 1 is all of them (minutes).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../sanitized.hpp"
#include "metadata.hpp"
#include "pool_files.hpp"
#include "replay.hpp"

namespace nvm::fuzz {
namespace {

struct findings {
  unsigned count = 0;
  std::string first;
};
findings check_scratch() {
  findings f;
  const std::int64_t n = nvm_pool_check(
      scratch_path().c_str(),
      [](std::uint64_t, const char* text, void* argument) {
        auto& to = *static_cast<findings*>(argument);
        if (to.count++ == 0) to.first = text;
      },
      &f, nullptr);
  if (n < 0) f = {1, nvm_errormsg()};
  return f;
}
// What was found where.
// Names what was found, or the store and the place in it that does not hold.
bool is_precise(const std::string& message) {
  return message.find("found") != std::string::npos ||
         (message.find("key-value store") != std::string::npos && message.find("at offset") != std::string::npos);
}
constexpr unsigned failures_max = 20;  // are told of one pool
bool is_refusal(int code) { return code == NVM_E_CORRUPT || code == NVM_E_VERSION || code == NVM_E_NOT_A_POOL; }

class flips : public testing::TestWithParam<std::size_t> {};
std::string name_of(const testing::TestParamInfo<std::size_t>& i) {
  const pool_file_image& image = pool_file_images()[i.param];
  return image.name + (image.closed ? "_closed" : "_crashed");
}
INSTANTIATE_TEST_SUITE_P(pools, flips, testing::Range(std::size_t{0}, pool_file_images().size()), name_of);

TEST_P(flips, of_any_bit_of_metadata_are_refused_or_harmless) {
  const pool_file_image& image = pool_file_images()[GetParam()];
  const char* const asked = std::getenv("NVM_FLIPS");
  const unsigned each = asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 128;
  ASSERT_NE(each, 0U);
  // As it is.
  write_scratch(image.file);
  EXPECT_EQ(check_scratch().first, "");
  bytes flipped = image.file;
  unsigned done = 0, refused = 0, found = 0, failures = 0;
  std::uint64_t turn = 0;
  tests::turns_of_build turns{4};
  for (const byte_run& run : metadata_of(image.file)) {
    for (std::uint64_t bit = 0; bit < 8 * run.bytes; ++bit, ++turn) {
      // A later one each time.
      if (turn % each != turn / each % each || !turns.takes()) continue;
      const std::uint64_t at = run.from + bit / 8;
      flipped[at] ^= static_cast<std::byte>(1U << bit % 8);
      write_scratch(flipped);
      flipped[at] = image.file[at];
      ++done;
      const auto place = [&] {
        return std::string{run.what} + ", byte " + std::to_string(at) + " (" + std::to_string(bit / 8) +
               " of it), bit " + std::to_string(bit % 8) + ": ";
      };
      const findings checked = check_scratch();
      found += checked.count != 0 ? 1 : 0;
      if (checked.count != 0 && !is_precise(checked.first)) {
        ADD_FAILURE() << place() << "the check says only: " << checked.first;
        ++failures;
      }
      NVM_POOL* const pool = nvm_pool_open(scratch_path().c_str());
      if (pool == nullptr) {
        ++refused;
        if (!is_refusal(nvm_errno()) || !is_precise(nvm_errormsg())) {
          ADD_FAILURE() << place() << "refused with " << nvm_error_name(nvm_errno()) << ": " << nvm_errormsg();
          ++failures;
        }
        if (checked.count == 0) {
          ADD_FAILURE() << place() << "refused, and the check finds nothing: " << nvm_errormsg();
          ++failures;
        }
      } else {
        const contents now = look(pool);
        const bool told =
            (now.refused && now.code == NVM_E_CORRUPT) || (!image.log_is_proved && std::string_view{run.what} == "log");
        const bool intact =
            std::any_of(image.allowed.begin(), image.allowed.end(), [&](const contents& c) { return now.same_as(c); });
        if (!intact && !told) {
          ADD_FAILURE() << place() << "something is lost, and nobody was told" << (now.refused ? ": " : "") << now.why
                        << ": " << difference(now, image.allowed.front()) << "; the check says: " << checked.first;
          ++failures;
        }
        EXPECT_TRUE(nvm_pool_close(pool) == 0) << place() << nvm_errormsg();
      }
      ASSERT_LT(failures, failures_max);
    }
  }
  ::unlink(scratch_path().c_str());
  std::printf("%u bits: %u refused, %u found by the check\n", done, refused, found);
  EXPECT_GT(refused, 0U);
  EXPECT_GE(found, refused);
}

TEST(pool_files, that_were_edited_are_refused_or_can_be_worked_with) {
  std::vector<bytes> files;
  for (const pool_file_image& i : pool_file_images()) files.push_back(i.file);
  for (const bytes& file : files) EXPECT_TRUE(use_file(file)) << nvm_errormsg();
  replay("pool", files, use_file, true);
  random_edits(files, use_file, 1, tests::rounds_of_build(400U), true, true);
}

}  // namespace
}  // namespace nvm::fuzz
