// holdfast create: an empty pool.
#include "cli/arguments.hpp"
#include "cli/pool_facts.hpp"
#include "cli/tier_names.hpp"
#include "cli/units.hpp"
#include "nvm/log.h"
#include "nvm/tier.h"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace create_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the new file; must not exist"}};
constexpr option options[] = {
    {"size", value_kind::size, "SIZE", "data space at creation, rounded up to whole 256 KiB; default 64M"},
    {"capacity", value_kind::size, "SIZE",
     "data space that the pool may grow to by itself; default 16 times the size, at least 1G"},
    {"medium", value_kind::choice, "MEDIUM",
     "what the pool lies on: detect, shm, dax, auto or ssd; default detect, by the file system of PATH", media_names},
    {"log-bytes", value_kind::size, "SIZE", "size of the log on ssd, of one lane elsewhere; default by the size"},
    {"lanes", value_kind::count, "N", "transactions that may be open at a time, not on ssd; default by the size"},
    {"engine", value_kind::choice, "ENGINE",
     "how transactions become durable: undo (stores in place), redo (barriers of nvm/stm.h only) or log (the log is "
     "the only copy of the data, and is compacted); default undo; "
     "mnemosyne and mnemosyne-undo are baselines to measure with",
     engine_names},
    {"validation", value_kind::choice, "HOW",
     "how a record of the redo engine proves itself: checksum or commit-mark; default checksum (mnemosyne: torn bits)",
     validation_names},
    {"log-chunk", value_kind::size, "SIZE",
     "with --engine log: a chunk of the log, a power of two from 4K to 1M, at most a 32nd of the pool; default 32K"},
    {"tier", value_kind::path, "FILE",
     "a new second file for pages that are not used, of a pool on shared memory; see holdfast tier"},
    {"fast", value_kind::size, "SIZE", "with --tier: data in shared memory at most; default a quarter of --size"},
    {"tier-policy", value_kind::choice, "POLICY",
     "with --tier: which page leaves next: steady, uflru, lru, cflru, second-chance or fifo; default steady",
     tier_policy_names},
    {"tier-compression", value_kind::choice, "HOW",
     "with --tier: plain, lz4 or zstd; default lz4 where the system has it", tier_compression_names},
    {"mode", value_kind::permissions, "MODE", "permission bits of the file, in octal, before the umask; default 600"},
};
constexpr std::string_view examples[] = {"holdfast create /dev/shm/cache.nvm --size 256M --capacity 8G",
                                         "holdfast create ledger.nvm --medium ssd --log-bytes 64M",
                                         "holdfast create /dev/shm/big.nvm --size 16G --tier /var/lib/big.tier "
                                         "--fast 2G"};

nvm_pool_options options_of(const arguments& given) {
  nvm_pool_options o{};
  o.size = given.number("size").value_or(0);
  o.capacity = given.number("capacity").value_or(0);
  o.medium = number_of(given.choice("medium").value_or("detect"), media_names);
  o.engine = number_of(given.choice("engine").value_or("undo"), engine_names);
  o.validation = number_of(given.choice("validation").value_or("checksum"), validation_names);
  o.log_bytes = given.number("log-bytes").value_or(0);
  o.lanes = static_cast<std::uint32_t>(given.number("lanes").value_or(0));
  o.mode = static_cast<std::uint32_t>(given.number("mode").value_or(0));
  return o;
}

// `file`: storage for the path.
nvm_tier_options tier_of(const arguments& given, const std::string& file, std::uint64_t size) {
  constexpr std::uint64_t size_default = std::uint64_t{64} << 20;
  nvm_tier_options t{};
  t.path = file.c_str();
  t.fast_bytes = given.number("fast").value_or((size != 0 ? size : size_default) / 4);
  t.policy = number_of(given.choice("tier-policy").value_or("detect"), tier_policy_names);
  t.compression = number_of(given.choice("tier-compression").value_or("detect"), tier_compression_names);
  return t;
}

// The requested medium survives power cuts; a file in memory does not.
void warn_of_memory(const nvm_pool_info& info, const std::string& path, const console& out) {
  if (info.medium != NVM_MEDIUM_SSD) return;
  const auto file = platform::file::open(path.c_str(), O_RDONLY);
  if (!file) return;
  const auto kind = file->file_system();
  if (kind && *kind == platform::file_system_kind::tmpfs) {
    out.warning(path, "medium ssd on a tmpfs: nothing there survives power loss");
  }
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  if (const auto lanes = given.number("lanes"); lanes && (*lanes == 0 || *lanes > UINT32_MAX)) {
    return out.fail({exit_usage, path, "USAGE", fmt::format("--lanes: {} lanes: expected at least 1", *lanes)});
  }
  nvm_pool_options o = options_of(given);
  const std::string second = given.text("tier");
  const nvm_tier_options tier = tier_of(given, second, o.size);
  if (!second.empty()) {
    o.tier = &tier;
  } else if (given.number("fast") || given.choice("tier-policy") || given.choice("tier-compression")) {
    return out.fail({exit_usage, path, "USAGE", "--fast, --tier-policy and --tier-compression go with --tier"});
  }
  const nvm_log_options log{.chunk_bytes = given.number("log-chunk").value_or(0),
                            .partition_bytes = 0,
                            .cache_entries = 0,
                            .clean_below = 0,
                            .clean_from = 0,
                            .fault_threads = 0,
                            .fault_around = 0,
                            .struct_bytes = 0,
                            .reserved = {}};
  if (given.number("log-chunk")) {
    if (!engine_of(o.engine).is_its_log())
      return out.fail({exit_usage, path, "USAGE", "--log-chunk goes with --engine log"});
    o.log = &log;
  }
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr) {
    failure f = library_failure(path);
    // Sizes that do not fit are wrong use here: they come from the command line, not from a file.
    if (nvm_errno() == NVM_E_INVALID || nvm_errno() == NVM_E_TOO_LARGE) f.exit = exit_usage;
    return out.fail(f);
  }
  nvm_tier_statistics leaves{};
  if (o.tier != nullptr && nvm_tier_get_statistics(pool, &leaves) == 0 && leaves.active == 0) {
    out.warning(path, fmt::format("no second file is used: {}", leaves.why));
  }
  if (nvm_pool_close(pool) != 0) return out.fail_library(path);
  nvm_pool_info info{};
  if (nvm_pool_inspect(path.c_str(), &info) != 0) return out.fail_library(path);
  warn_of_memory(info, path, out);
  print_info(info, path, out);
  out.document(document_of(info, path));
  return exit_good;
}

}  // namespace
}  // namespace create_verb

extern const command create_command;
const command create_command{
    .name = "create",
    .summary = "create an empty pool",
    .description =
        "Creates the file and an empty pool in it. On return both are durable. The file must not exist. A SIZE "
        "is a whole number of bytes; K, M, G and T after it, or KiB, MiB, GiB and TiB, stand for powers of 1024, KB, "
        "MB, "
        "GB and TB for powers of 1000. Symbolic links are followed. A pool for the medium ssd that is made in memory "
        "is warned of.",
    .operands = create_verb::operands,
    .options = create_verb::options,
    .fields = new_pool_fields(),
    .examples = create_verb::examples,
    .run = create_verb::run,
};

}  // namespace nvm::cli
