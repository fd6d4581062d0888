// holdfast relocate: gives a closed pool another preferred address, or finishes a relocation.
#include <cstdlib>
#include <optional>

#include "cli/arguments.hpp"
#include "cli/pool_facts.hpp"
#include "cli/progress.hpp"
#include "cli/static_facts.hpp"
#include "cli/units.hpp"

namespace nvm::cli {
namespace relocate_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool; no process may have it open"}};
constexpr option options[] = {
    {"address", value_kind::text, "ADDRESS",
     "the new address, hexadecimal with 0x or decimal, a multiple of 1 GiB inside the window of pools; default: the "
     "one that the pool prefers"},
    {"transactions", value_kind::flag, "",
     "one transaction for each object, which numbers it, as the paper's Algorithm 1 has it; slower, for comparison"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"from", "address that the pool preferred before, as a hexadecimal string"},
    {"to", "address that all its pointers assume now"},
    {"objects", "objects that were looked at; 0: there was nothing to do"},
    {"pointers", "pointers in them that are not null"},
    {"moved", "of these were changed"},
    {"foreign", "of these lead into no address range of the pool, and were left alone"},
    {"static_pointers", "fields that lead into programs, which were left alone"},
    {"first_foreign[]", "the first eight of these, as sentences"},
    {"seconds", "duration of the relocation"},
};
constexpr std::string_view examples[] = {"holdfast relocate copy.nvm --address 0x210040000000",
                                         "holdfast relocate --json copy.nvm"};

std::string sentence_about(const nvm_foreign_pointer& f, std::uint64_t base) {
  return fmt::format("object at offset {}, type {}: pointer at {} is {}",
                     reinterpret_cast<std::uintptr_t>(f.object) - base, f.type, f.offset, address_text(f.value));
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  nvm_pool_options o{};
  if (const std::string text = given.text("address"); !text.empty()) {
    char* end = nullptr;
    o.address = std::strtoull(text.c_str(), &end, 0);
    if (o.address == 0 || *end != '\0') {
      return out.fail({exit_usage, "relocate", "USAGE", fmt::format("--address {}: expected an address", text)});
    }
  }
  if (given.flag("transactions")) o.relocation = NVM_RELOCATE_TRANSACTIONS;
  nvm_pool_info before{};
  if (nvm_pool_inspect(path.c_str(), &before) != 0) return out.fail_library(path);
  // A copy on another file system than the pool's will do.
  o.medium = before.medium;
  nvm_relocation_report r{};
  nvm_pool_info now{};
  bool done = false;
  std::optional<static_facts> statics;
  failure why_not;
  {
    progress line{out, fmt::format("relocating {}", path)};
    NVM_POOL* const pool = nvm_pool_open_with(path.c_str(), &o);
    done = pool != nullptr && nvm_pool_get_relocation(pool, &r) == 0 && nvm_pool_get_info(pool, &now) == 0;
    if (done) done = (statics = statics_of(pool)).has_value();
    if (!done) why_not = library_failure(path);
    if (pool != nullptr && nvm_pool_close(pool) != 0 && done) {
      done = false;
      why_not = library_failure(path);
    }
  }
  if (!done) return out.fail(why_not);
  json foreign = json::array();
  for (std::uint64_t i = 0; i < r.foreign && i < std::size(r.first_foreign); ++i) {
    foreign.push_back(sentence_about(r.first_foreign[i], now.base));
    out.text("{} {}\n", out.styled("foreign", style::bad), foreign.back().get<std::string>());
  }
  if (r.bases == 0) {
    out.text("{}: is at home at {}; nothing to do\n", path, address_text(now.base));
  } else {
    out.text("{}: {} to {}: {} of {} pointers in {} objects moved, {} foreign\n", path,
             out.styled("relocated", style::good), address_text(now.base), r.moved, r.pointers, r.objects, r.foreign);
  }
  print_sum(*statics, out);
  out.document({
      {"path", path},
      {"from", address_text(before.base)},
      {"to", address_text(now.base)},
      {"objects", r.objects},
      {"pointers", r.pointers},
      {"moved", r.moved},
      {"foreign", r.foreign},
      {"static_pointers", statics->fields},
      {"first_foreign", std::move(foreign)},
      {"seconds", static_cast<double>(r.duration_ns) / 1e9},
  });
  return r.foreign == 0 ? exit_good : exit_negative;
}

}  // namespace
}  // namespace relocate_verb

extern const command relocate_command;
const command relocate_command{
    .name = "relocate",
    .summary = "give a closed pool another address",
    .description =
        "Makes every stored pointer of a pool lead where it led with the pool at another address, or finishes a "
        "relocation that was interrupted. A pool does that by itself when it is opened and its addresses are taken; "
        "this does it beforehand. Killed or cut off from power it loses nothing: the next open, or the next call, goes "
        "on.\n\n"
        "The pool itself says where the pointers of its objects are. A pool with objects of unknown types "
        "is refused, with their ids and numbers. A pointer that leads into no address range of the pool is "
        "printed and left alone; the exit code is then 1.",
    .operands = relocate_verb::operands,
    .options = relocate_verb::options,
    .fields = relocate_verb::fields,
    .examples = relocate_verb::examples,
    .run = relocate_verb::run,
};

}  // namespace nvm::cli
