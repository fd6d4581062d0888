// holdfast compact: gives the room of a pool that nothing is in back to the file system.
#include <atomic>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/progress.hpp"
#include "cli/units.hpp"
#include "nvm/space.h"

namespace nvm::cli {
namespace compact_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool; nobody else may have it open"}};
constexpr option options[] = {
    {"inside", value_kind::flag, "", "make free pages of empty extents, and leave the file its blocks"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"file_bytes_before", "length of the file"},
    {"file_bytes", "afterwards"},
    {"allocated_bytes_before", "that the file took on its device"},
    {"allocated_bytes", "afterwards"},
    {"freed_bytes", "of empty extents and clusters, which are free pages of the pool now"},
    {"punched_bytes", "of free pages in the midst, which have no blocks any more"},
    {"cut_bytes", "of free pages at the end, which are no part of the pool any more"},
    {"not_done", "what the file system could not do, mostly holes; null: it did all"},
};
constexpr std::string_view examples[] = {"holdfast compact cache.nvm",
                                         "holdfast compact --json cache.nvm | jq .allocated_bytes"};

int advance(std::uint64_t done, std::uint64_t total, void* argument) {
  *static_cast<std::atomic<double>*>(argument) =
      total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  return 0;
}

json document_of(const std::string& path, const nvm_trim_report& r) {
  const std::string why = r.why;
  return {{"path", path},
          {"file_bytes_before", r.file_before},
          {"file_bytes", r.file_after},
          {"allocated_bytes_before", r.allocated_before},
          {"allocated_bytes", r.allocated_after},
          {"freed_bytes", r.freed},
          {"punched_bytes", r.punched},
          {"cut_bytes", r.cut},
          {"not_done", why.empty() ? json{} : json(why)}};
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  nvm_pool_options how{};
  how.types = NVM_TYPES_IGNORE;
  const auto close = [](NVM_POOL* p) { (void)nvm_pool_close(p); };
  std::unique_ptr<NVM_POOL, decltype(close)> pool{nvm_pool_open_with(path.c_str(), &how), close};
  if (!pool) return out.fail_library(path);
  nvm_trim_options o{};
  o.flags = given.flag("inside") ? NVM_TRIM_INSIDE : 0;
  std::atomic<double> share{0};
  o.progress = advance;
  o.argument = &share;
  nvm_trim_report r{};
  {
    progress line{out, fmt::format("compacting {}", path), [&] { return share.load(); }};
    if (nvm_pool_trim(pool.get(), &o, &r) != 0) return out.fail_library(path);
  }
  if (nvm_pool_close(pool.release()) != 0) return out.fail_library(path);
  out.text("{}: {} on the device, {} before; the file has {}, {} before\n", path, size_text(r.allocated_after),
           size_text(r.allocated_before), size_text(r.file_after), size_text(r.file_before));
  out.text("  freed        {} of empty extents\n", size_text(r.freed));
  out.text("  given back   {} at the end, {} as holes\n", size_text(r.cut), size_text(r.punched));
  if (r.why[0] != 0) out.text("  not done     {}\n", r.why);
  out.document(document_of(path, r));
  return exit_good;
}

}  // namespace
}  // namespace compact_verb

extern const command compact_command;
const command compact_command{
    .name = "compact",
    .summary = "give unused room of a pool back to the file system",
    .description =
        "Makes free pages of extents that are empty, cuts the file off after the last page in use, and punches holes "
        "where pages in its midst are free. Objects stay where they are, so that pages with few of them stay, too. A "
        "crash meanwhile loses nothing. A pool that an application has open is trimmed by the application "
        "(nvm_pool_trim()).\n\n"
        "On a file system without holes the file is cut off, and `not done` says what it refused.",
    .operands = compact_verb::operands,
    .options = compact_verb::options,
    .fields = compact_verb::fields,
    .examples = compact_verb::examples,
    .run = compact_verb::run,
};

}  // namespace nvm::cli
