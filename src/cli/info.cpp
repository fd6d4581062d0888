// holdfast info: facts from a pool's file, also while another process has it open.
#include "care/check_names.hpp"
#include "care/extents.hpp"
#include "care/log_chunks.hpp"
#include "care/region_sets.hpp"
#include "care/structure_names.hpp"
#include "cli/arguments.hpp"
#include "cli/kv_actions.hpp"
#include "cli/lf_names.hpp"
#include "cli/pool_facts.hpp"
#include "cli/units.hpp"

namespace nvm::cli {
namespace info_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool"}};
constexpr std::string_view examples[] = {"holdfast info cache.nvm", "holdfast info --json cache.nvm"};

// What `read` finds in the file of a pool that may be trimmed meanwhile: then pages are missing that its header had.
template <class Read>
auto read_of(const std::string& path, const Read& read) {
  constexpr unsigned times = 8;
  for (unsigned i = 1;; ++i) {
    nvm_pool_info before{}, after{};
    const bool known = nvm_pool_inspect(path.c_str(), &before) == 0;
    auto found = read(path.c_str());
    if (found || found.error() != errc::corrupt || !known || i == times) return found;
    if (nvm_pool_inspect(path.c_str(), &after) == 0 && after.size == before.size) return found;
  }
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  nvm_pool_info info{};
  if (nvm_pool_inspect(path.c_str(), &info) != 0) return out.fail_library(path);
  print_info(info, path, out);
  json document = document_of(info, path);
  json& sets = document["region_sets"] = json::array();
  // None if they cannot be read: that is the full check's work.
  if (const auto found = read_of(path, care::region_sets_in)) {
    for (const care::region_set_on_file& set : *found) {
      out.text("  regions    set {}, {}\n", kv_actions::printable(set.name), size_text(set.bytes));
      sets.push_back({{"name", set.name}, {"bytes", set.bytes}});
    }
  }
  json& structures = document["structures"] = json::array();
  if (const auto found = read_of(path, care::structures_in)) {
    for (const care::structure_on_file& one : *found) {
      const std::string_view kind = kind_names[static_cast<unsigned>(one.kind)];
      const char* const entries = one.of_bytes ? "bytes" : "words";
      out.text("  lock-free  {} of {} {}{}\n", kind, entries, kv_actions::printable(one.name),
               one.volatile_links ? ", volatile links" : "");
      structures.push_back(
          {{"name", one.name}, {"kind", kind}, {"entries_are", entries}, {"volatile_links", one.volatile_links}});
    }
  }
  // Likewise.
  const auto extents = read_of(path, care::extents_in);
  const care::extents_on_file of = extents ? *extents : care::extents_on_file{};
  if (of.count != 0) {
    out.text("  extents    {} in {}: {} of it free, {} in empty ones\n", size_text(of.bytes), of.count,
             size_text(of.free_bytes), size_text(of.empty_bytes));
  }
  document["extents"] = {
      {"count", of.count}, {"bytes", of.bytes}, {"free_bytes", of.free_bytes}, {"empty_bytes", of.empty_bytes}};
  const auto names = read_of(path, care::names_in);
  const std::uint64_t stores = names ? names->names : 0;
  if (stores != 0) out.text("  stores     {}, found by `holdfast store ls`\n", stores);
  document["store_count"] = stores;
  const auto chunks = read_of(path, care::log_chunk_bytes_in);
  const std::uint64_t chunk_bytes = chunks ? *chunks : 0;
  if (chunk_bytes != 0) out.text("  chunks     of {}, in the log\n", size_text(chunk_bytes));
  document["log_chunk_bytes"] = chunk_bytes != 0 ? json(chunk_bytes) : json(nullptr);
  out.document(document);
  return exit_good;
}

}  // namespace
}  // namespace info_verb

extern const command info_command;
const command info_command{
    .name = "info",
    .summary = "show what a pool is and in what condition",
    .description =
        "Shows the identity, the sizes, the medium and the condition of a pool. It works while an application "
        "has the pool open, takes no lock and changes nothing; the numbers are then those of a moment ago.",
    .operands = info_verb::operands,
    .options = {},
    .fields = info_fields(),
    .examples = info_verb::examples,
    .run = info_verb::run,
};

}  // namespace nvm::cli
