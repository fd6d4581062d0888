// holdfast tier: how much of a pool is in fast memory, and how much in its second file.
#include <array>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/pool_facts.hpp"
#include "cli/tier_names.hpp"
#include "cli/units.hpp"
#include "nvm/tier.h"

namespace nvm::cli {
namespace tier_verb {
namespace {

constexpr std::string_view actions[] = {"stat"};
constexpr operand operands[] = {
    {"ACTION", operand_kind::choice, true, "what to do", actions},
    {"PATH", operand_kind::pool_file, true, "the pool; another process may have it open"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"file", "the second file"},
    {"fast_bytes_max", "of data in the pool's own file at most"},
    {"fast_bytes", "of data in it now"},
    {"slow_bytes", "of data in the second file alone, before compression; zeros are nowhere"},
    {"file_bytes", "length of the second file"},
    {"policy", "which page leaves next: steady, uflru, lru, cflru, second-chance or fifo"},
    {"compression", "plain, lz4 or zstd"},
    {"sequence", "batches of pages that the second file must have"},
    {"file_sequence", "that it has"},
};
constexpr std::string_view examples[] = {"holdfast tier stat /dev/shm/cache.nvm",
                                         "holdfast tier stat --json /dev/shm/cache.nvm | jq .slow_bytes"};

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(1);
  nvm_tier_info info{};
  if (nvm_tier_inspect(path.c_str(), &info) != 0) {
    failure f = library_failure(path);
    if (nvm_errno() == NVM_E_INVALID) f.exit = exit_negative;
    return out.fail(f);
  }
  const std::string policy{name_in(info.policy, tier_policy_names)};
  const std::string compression{name_in(info.compression, tier_compression_names)};
  out.text("{}: {} of data in fast memory, at most {}; {} in the second file\n", path, size_text(info.fast_bytes),
           size_text(info.fast_bytes_max), size_text(info.slow_bytes));
  out.text("  second file  {}, {}\n", info.path, size_text(info.file_bytes));
  out.text("  policy       {}, compression {}\n", policy, compression);
  out.text("  batches      {} of {}\n", info.file_sequence, info.sequence);
  out.document({{"path", path},
                {"file", info.path},
                {"fast_bytes_max", info.fast_bytes_max},
                {"fast_bytes", info.fast_bytes},
                {"slow_bytes", info.slow_bytes},
                {"file_bytes", info.file_bytes},
                {"policy", policy},
                {"compression", compression},
                {"sequence", info.sequence},
                {"file_sequence", info.file_sequence}});
  return exit_good;
}

}  // namespace
}  // namespace tier_verb

extern const command tier_command;
const command tier_command{
    .name = "tier",
    .summary = "show what of a pool is in its second file",
    .description =
        "A pool on shared memory whose data exceed the memory that one pays for keeps cold pages in a second file "
        "(docs/tier.md). stat reads both files and changes neither; numbers of a pool that is in use are those of a "
        "moment ago. What its owner knows besides, how often pages come and go, nvm_tier_get_statistics() tells it. "
        "The exit code is 1 if the pool has no second file.\n\n"
        "holdfast create --tier makes such a pool.",
    .operands = tier_verb::operands,
    .options = {},
    .fields = tier_verb::fields,
    .examples = tier_verb::examples,
    .run = tier_verb::run,
};

}  // namespace nvm::cli
