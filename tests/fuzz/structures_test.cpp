// Files of pools with structures, changed in every way that the fuzzers know, without a fuzzer.
#include <gtest/gtest.h>

#include "../sanitized.hpp"
#include "mended_files.hpp"
#include "nvm/nvm.h"
#include "replay.hpp"
#include "structure_files.hpp"

namespace nvm::fuzz {
namespace {

TEST(structure_files, that_were_edited_are_refused_or_can_be_worked_with) {
  for (const bytes& file : structure_file_images()) EXPECT_TRUE(use_structures(file)) << nvm_errormsg();
  replay("structures", structure_file_images(), use_structures, true);
  random_edits(structure_file_images(), use_structures, 1, tests::rounds_of_build(400U), true, true);
}

TEST(mended_files, are_sound_or_refused_and_nothing_is_changed) {
  for (const bytes& file : damaged_file_images()) EXPECT_TRUE(mend_file(file)) << nvm_errormsg();
  replay("repair", damaged_file_images(), mend_file, true);
  random_edits(damaged_file_images(), mend_file, 1, tests::rounds_of_build(100U), true, true);
  random_edits(damaged_file_images(), mend_file, 2, tests::rounds_of_build(60U), false, true);
}

}  // namespace
}  // namespace nvm::fuzz
