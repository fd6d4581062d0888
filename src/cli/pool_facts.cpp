#include "cli/pool_facts.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "cli/units.hpp"

namespace nvm::cli {
namespace {

constexpr json_field fields[] = {
    {"path", "as given"},
    {"uuid", "identity of the pool, 36 characters"},
    {"format_version", "of the file format"},
    {"medium", "shm, dax, auto or ssd"},
    {"engine", "undo, redo, log, mnemosyne or mnemosyne-undo"},
    {"condition",
     "clean, in use, needs recovery (its last owner died; the next open recovers it), or copy (made of a pool in use "
     "or "
     "whose owner had died; opening it is refused)"},
    {"clean", "true: closed properly"},
    {"owner_pid", "process that has the pool open; null: none"},
    {"size_bytes", "data space that exists"},
    {"capacity_bytes", "data space that the pool may grow to by itself"},
    {"file_bytes", "length of the file"},
    {"allocated_bytes", "space that the file takes on its device; null: unknown"},
    {"page_bytes", "size of a page"},
    {"used_pages", "pages of data space that are in use"},
    {"free_pages", "pages of data space that are not"},
    {"log_bytes", "size of the log area"},
    {"lanes", "transactions that the log holds at a time; 0 on ssd, whose log is shared"},
    {"untyped", "what the pool says of objects of unknown types: unknown, or bytes (no pointers in them)"},
    {"base", "address that the pool is mapped at, as a hexadecimal string"},
    {"bases[]", "addresses that stored pointers may assume; several while a relocation is not finished"},
    // Of info alone.
    {"region_sets[].name", "of a set of regions, in the order of names; on ssd as of the last checkpoint"},
    {"region_sets[].bytes", "of the pages that it has"},
    {"structures[].name", "of a lock-free structure, in the order of names; on ssd as of the last checkpoint"},
    {"structures[].kind", "list, hash, skiplist or tree"},
    {"structures[].entries_are", "words: keys and values are numbers of 8 bytes; bytes: they are of any size"},
    {"structures[].volatile_links", "whether links are made anew at each open"},
    {"extents.count",
     "extents of small objects, those in object stores not counted; 0 with a second file; on ssd as of the last "
     "checkpoint"},
    {"extents.bytes", "of their pages"},
    {"extents.free_bytes", "of slots in them that are free"},
    {"extents.empty_bytes", "of extents in which nothing is; compact makes free pages of them"},
    {"store_count", "object stores that have names; on ssd as of the last checkpoint"},
    {"log_chunk_bytes", "size of a chunk of a log that is the only copy of the data (engine log); null: there is none"},
};
constexpr std::size_t fields_of_info = 12;

std::string uuid_text(const std::uint8_t (&uuid)[16]) {
  std::string text;
  for (std::size_t i = 0; i < sizeof uuid; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

std::optional<std::uint64_t> allocated_bytes(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(facts.st_blocks) * 512;
}

// Name of a process of this machine; empty when it cannot be told.
std::string process_name(std::int64_t pid) {
  std::ifstream file{fmt::format("/proc/{}/comm", pid)};
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

std::string_view medium_name(std::uint32_t medium) noexcept {
  return medium < std::size(media_names) ? media_names[medium] : "?";
}

std::string_view persist_name(std::uint32_t persist) noexcept {
  return persist < std::size(persist_names) ? persist_names[persist] : "?";
}

std::uint32_t number_of(std::string_view name, std::span<const std::string_view> names) noexcept {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? 0 : static_cast<std::uint32_t>(found - names.begin());
}

pool_condition condition_of(const nvm_pool_info& info) noexcept {
  if (info.owner_pid != 0) return pool_condition::in_use;
  if (info.copied != 0) return pool_condition::copy;
  return info.clean != 0 ? pool_condition::clean : pool_condition::needs_recovery;
}

std::string_view condition_name(pool_condition c) noexcept {
  switch (c) {
    case pool_condition::clean:
      return "clean";
    case pool_condition::in_use:
      return "in use";
    case pool_condition::needs_recovery:
      return "needs recovery";
    case pool_condition::copy:
      return "copy";
  }
  return "?";
}

std::span<const json_field> info_fields() noexcept { return fields; }
std::span<const json_field> new_pool_fields() noexcept {
  return std::span{fields}.first<std::size(fields) - fields_of_info>();
}

json document_of(const nvm_pool_info& info, const std::string& path) {
  json bases = json::array();
  for (std::uint64_t i = 0; i < info.base_count; ++i) bases.push_back(address_text(info.bases[i]));
  const auto allocated = allocated_bytes(path);
  return {
      {"path", path},
      {"uuid", uuid_text(info.uuid)},
      {"format_version", info.format_version},
      {"medium", medium_name(info.medium)},
      {"engine", engine_name(info.engine)},
      {"condition", condition_name(condition_of(info))},
      {"clean", info.clean != 0},
      {"owner_pid", info.owner_pid == 0 ? json(nullptr) : json(info.owner_pid)},
      {"size_bytes", info.size},
      {"capacity_bytes", info.capacity},
      {"file_bytes", info.file_bytes},
      {"allocated_bytes", allocated ? json(*allocated) : json(nullptr)},
      {"page_bytes", info.page_bytes},
      {"used_pages", info.used_pages},
      {"free_pages", info.free_pages},
      {"log_bytes", info.log_bytes},
      {"lanes", info.lanes},
      {"untyped", info.untyped == NVM_UNTYPED_BYTES ? "bytes" : "unknown"},
      {"base", address_text(info.base)},
      {"bases", std::move(bases)},
  };
}

void print_info(const nvm_pool_info& info, const std::string& path, const console& out) {
  if (!out.as_text()) return;
  const pool_condition condition = condition_of(info);
  std::string state{condition_name(condition)};
  if (condition == pool_condition::in_use) {
    const std::string name = process_name(info.owner_pid);
    state += fmt::format(", by process {}{}", info.owner_pid, name.empty() ? "" : fmt::format(" ({})", name));
  } else if (condition == pool_condition::needs_recovery) {
    state += ": its last owner died; the next open recovers it";
  } else if (condition == pool_condition::copy) {
    state += " of a pool that was in use or whose owner had died: it may be torn, and is not opened";
  }
  const std::uint64_t pages = info.used_pages + info.free_pages;
  const auto allocated = allocated_bytes(path);
  out.text("{}\n", out.styled(path, style::strong));
  out.text("  condition  {}\n",
           out.styled(state, condition == pool_condition::clean || condition == pool_condition::in_use ? style::good
                                                                                                       : style::bad));
  out.text("  medium     {}\n", medium_name(info.medium));
  out.text("  engine     {}\n", engine_name(info.engine));
  out.text("  size       {} ({} bytes), may grow to {}\n", size_text(info.size), info.size, size_text(info.capacity));
  out.text("  file       {}{}\n", size_text(info.file_bytes),
           allocated ? fmt::format(", {} on its device", size_text(*allocated)) : "");
  out.text("  pages      {} used, {} free, of {} ({:.1f} % used)\n", info.used_pages, info.free_pages,
           size_text(info.page_bytes),
           pages == 0 ? 0.0 : 100.0 * static_cast<double>(info.used_pages) / static_cast<double>(pages));
  out.text("  log        {}{}\n", size_text(info.log_bytes),
           info.lanes == 0 ? "" : fmt::format(" in {} lanes", info.lanes));
  if (info.untyped == NVM_UNTYPED_BYTES) out.text("  untyped    bytes\n");
  out.text("  uuid       {}\n", uuid_text(info.uuid));
  out.text("  base       {}\n", address_text(info.base));
  for (std::uint64_t i = 1; i < info.base_count; ++i) {
    out.text("  {} {}\n", i == 1 ? "and       " : "          ", address_text(info.bases[i]));
  }
  if (info.base_count > 1) out.text("             a relocation is not finished; the next open goes on\n");
  out.text("  format     {}\n", info.format_version);
}

}  // namespace nvm::cli
