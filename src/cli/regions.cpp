// holdfast regions: the regions of a pool from the command line.
//
// Actions that only read open the pool read-only: its file does not change, and others may read at the same time.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/actions.hpp"
#include "cli/arguments.hpp"
#include "cli/kv_actions.hpp"
#include "cli/units.hpp"
#include "nvm/region.h"

namespace nvm::cli {
namespace regions_verb {
namespace {

using kv_actions::add_bytes;
using kv_actions::printable;

constexpr std::string_view mode_names[] = {"adaptive", "replica", "copy", "checked", "marked", "alternate"};
static_assert(NVM_REGION_ADAPTIVE == 0 && NVM_REGION_REPLICA == 1 && NVM_REGION_COPY == 2 && NVM_REGION_CHECKED == 3 &&
              NVM_REGION_MARKED == 4 && NVM_REGION_ALTERNATE == 5);

// One call, and the set that it is about.
struct call {
  const arguments& given;
  console& out;
  const std::string& action = given.operand(0);
  const std::string& path = given.operand(1);
  std::optional<pool> at{};
  nvm_regions* set = nullptr;

  [[nodiscard]] json answer() const {
    json o = {{"path", path}, {"action", action}};
    if (set != nullptr) o["set"] = given.operand(2);
    return o;
  }
  [[nodiscard]] exit_code misused(std::string what) const {
    return out.fail({exit_usage, "regions " + action, "USAGE", std::move(what)});
  }
  [[nodiscard]] exit_code failed() const { return out.fail_library(path); }
  enum class purpose { look, change, make };  // make: the set may be missing
  [[nodiscard]] bool open(purpose what) {
    nvm_pool_options o{};
    o.read_only = what == purpose::look ? 1 : 0;
    at = pool::open(path.c_str(), o);
    return at.has_value();
  }
  [[nodiscard]] bool open_set(purpose what) {
    if (!open(what)) return false;
    nvm_regions_options o{};
    o.mode = what == purpose::make ? 0 : 1;
    o.replicas = static_cast<std::uint32_t>(given.number("replicas").value_or(0));
    set = nvm_regions_open(at->handle(), given.operand(2).c_str(), &o);
    return set != nullptr;
  }
  // The region's number from the command line; no value: it is no number.
  [[nodiscard]] std::optional<std::uint64_t> rid() const { return word_of(given.operand(3)); }
  [[nodiscard]] exit_code no_rid() const {
    return misused(fmt::format("\"{}\" is no number of a region", given.operand(3)));
  }
  // How a change is to be logged.
  [[nodiscard]] unsigned mode() const {
    const std::string name = given.choice("mode").value_or("adaptive");
    const auto found = std::find(std::begin(mode_names), std::end(mode_names), name);
    return static_cast<unsigned>(found - std::begin(mode_names));
  }
  // The answer about a missing region.
  [[nodiscard]] exit_code not_found(json answer) const {
    answer["found"] = false;
    out.document(answer);
    return exit_negative;
  }
};

// ---- the actions ----

exit_code list(call& c) {
  if (!c.open(call::purpose::look)) return c.failed();
  std::vector<std::pair<std::string, std::uint64_t>> all;
  const int ended = nvm_regions_names(
      c.at->handle(),
      [](const char* name, std::uint64_t regions, void* argument) {
        static_cast<std::vector<std::pair<std::string, std::uint64_t>>*>(argument)->emplace_back(name, regions);
        return 0;
      },
      &all);
  if (ended != 0) return c.failed();
  std::sort(all.begin(), all.end());
  json answer = c.answer();
  answer["sets"] = json::array();
  for (const auto& [name, regions] : all) {
    c.out.text("{:>10} regions  {}\n", regions, printable(name));
    answer["sets"].push_back({{"name", name}, {"region_count", regions}});
  }
  if (all.empty()) c.out.text("{}: no sets of regions\n", c.path);
  c.out.document(answer);
  return exit_good;
}

exit_code scan(call& c) {
  if (!c.open_set(call::purpose::look)) return c.failed();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  const int ended = nvm_region_each(
      c.set,
      [](std::uint64_t rid, std::uint64_t size, void* argument) {
        static_cast<std::vector<std::pair<std::uint64_t, std::uint64_t>>*>(argument)->emplace_back(rid, size);
        return 0;
      },
      &all);
  if (ended != 0) return c.failed();
  std::sort(all.begin(), all.end());
  const std::uint64_t limit = c.given.number("limit").value_or(UINT64_MAX);
  if (all.size() > limit) all.resize(limit);
  json answer = c.answer();
  answer["regions"] = json::array();
  for (const auto& [rid, size] : all) {
    c.out.text("{}\t{}\n", rid, size);
    answer["regions"].push_back({{"rid", rid}, {"size", size}});
  }
  c.out.document(answer);
  return exit_good;
}

// Sizes of a class end at a power of two, and those of the first at 16 bytes; no bytes: a class of their own.
struct of_sizes {
  std::uint64_t regions = 0;
  std::uint64_t bytes = 0;
};
struct set_sum {
  std::string name;
  of_sizes all{};
  std::map<std::uint64_t, of_sizes> by_size{};  // by the largest size of the class

  void add(std::uint64_t size) {
    of_sizes& like = by_size[size == 0 ? 0 : std::bit_ceil(std::max<std::uint64_t>(size, 16))];
    for (of_sizes* sum : {&all, &like}) {
      ++sum->regions;
      sum->bytes += size;
    }
  }
  static std::uint64_t first_of(std::uint64_t last) noexcept {
    return last <= 16 ? std::min<std::uint64_t>(last, 1) : last / 2 + 1;
  }
};

json document_of(const set_sum& s) {
  json sizes = json::array();
  for (const auto& [last, of] : s.by_size) {
    sizes.push_back({{"from_bytes", set_sum::first_of(last)},
                     {"to_bytes", last},
                     {"region_count", of.regions},
                     {"region_bytes", of.bytes}});
  }
  return {{"name", s.name}, {"region_count", s.all.regions}, {"region_bytes", s.all.bytes}, {"by_size", sizes}};
}

// The walk's visitor is called by the library, which no exception may cross.
struct summing {
  set_sum& to;
  std::exception_ptr thrown{};
};
int add_region(std::uint64_t, std::uint64_t size, void* argument) {
  auto* s = static_cast<summing*>(argument);
  try {
    s->to.add(size);
    return 0;
  } catch (...) {
    s->thrown = std::current_exception();
    return 1;
  }
}

exit_code stat(call& c) {
  if (!c.open(call::purpose::look)) return c.failed();
  std::vector<std::string> names;
  const int ended = nvm_regions_names(
      c.at->handle(),
      [](const char* name, std::uint64_t, void* argument) {
        static_cast<std::vector<std::string>*>(argument)->emplace_back(name);
        return 0;
      },
      &names);
  if (ended != 0) return c.failed();
  std::sort(names.begin(), names.end());
  json answer = c.answer();
  answer["sets"] = json::array();
  for (const std::string& name : names) {
    nvm_regions_options o{};
    o.mode = 1;
    set_sum sum{name};
    summing argument{sum};
    nvm_regions* const set = nvm_regions_open(c.at->handle(), name.c_str(), &o);
    if (set == nullptr || nvm_region_each(set, add_region, &argument) < 0) return c.failed();
    if (argument.thrown) std::rethrow_exception(argument.thrown);
    c.out.text("{}: {} regions, {} bytes ({})\n", printable(name), sum.all.regions, sum.all.bytes,
               size_text(sum.all.bytes));
    for (const auto& [last, of] : sum.by_size) {
      c.out.text("{:>24} {:>12} {:>16}\n", fmt::format("{} .. {}", set_sum::first_of(last), last), of.regions,
                 of.bytes);
    }
    answer["sets"].push_back(document_of(sum));
  }
  if (names.empty()) c.out.text("{}: no sets of regions\n", c.path);
  c.out.document(answer);
  return exit_good;
}

exit_code get(call& c) {
  const auto rid = c.rid();
  if (!rid) return c.no_rid();
  if (!c.open_set(call::purpose::look)) return c.failed();
  const std::uint64_t offset = c.given.number("offset").value_or(0);
  std::uint64_t left = c.given.number("bytes").value_or(UINT64_MAX);
  std::uint64_t size = 0;
  json answer = c.answer();
  if (nvm_region_size(c.set, *rid, &size) != 0)
    return nvm_errno() == NVM_E_NOT_FOUND ? c.not_found(answer) : c.failed();
  if (offset > size) return c.misused(fmt::format("offset {}: region {} has {} bytes", offset, *rid, size));
  left = std::min(left, size - offset);
  std::string bytes(std::min<std::uint64_t>(left, 1 << 20), '\0');
  std::string all;
  for (std::uint64_t at = offset; left != 0;) {
    const std::int64_t n = nvm_region_read(c.set, *rid, at, bytes.data(), std::min<std::uint64_t>(bytes.size(), left));
    if (n < 0) return c.failed();
    if (n == 0) break;
    const std::string_view part{bytes.data(), static_cast<std::size_t>(n)};
    if (c.out.as_json()) {
      all += part;
    } else {
      c.out.text("{}", part);
    }
    at += part.size();
    left -= part.size();
  }
  answer["found"] = true;
  answer["size"] = size;
  add_bytes(answer, "value", all, c.given.flag("base64"));
  c.out.document(answer);
  return exit_good;
}

// Standard input, to its end or so many bytes; no value: it cannot be read.
std::optional<std::string> standard_input(std::uint64_t most) {
  std::string bytes;
  char part[65536];
  while (bytes.size() < most) {
    const std::size_t n = std::fread(part, 1, std::min<std::uint64_t>(sizeof part, most - bytes.size()), stdin);
    if (n == 0) break;
    bytes.append(part, n);
  }
  if (std::ferror(stdin) != 0) return std::nullopt;
  return bytes;
}

// Changes an existing region in one step: all of it, bytes after its end, or bytes from an offset on.
int change(const call& c, std::uint64_t rid, std::uint64_t size, const std::string& bytes) {
  if (nvm_region_begin(c.set, rid, c.mode()) != 0) return -1;
  const std::uint64_t at = c.action == "append" ? size : c.given.number("offset").value_or(0);
  // Bytes that replace others are written as a change, so that the mode decides how they are logged.
  const std::size_t within = std::min<std::uint64_t>(bytes.size(), size - at);
  const bool is_whole = c.action == "put" && !c.given.number("offset");
  int done = within == 0 ? 0 : nvm_region_write(c.set, rid, at, bytes.data(), within);
  if (done == 0 && is_whole && bytes.size() < size) done = nvm_region_truncate(c.set, rid, bytes.size());
  if (done == 0 && within < bytes.size()) {
    done = nvm_region_append(c.set, rid, bytes.data() + within, bytes.size() - within, nullptr);
  }
  return done == 0 ? nvm_region_commit(c.set, rid) : -1;
}

// put, append: standard input, in one change.
exit_code store(call& c) {
  const auto rid = c.rid();
  if (!rid) return c.no_rid();
  const std::uint64_t offset = c.given.number("offset").value_or(0);
  if (offset != 0 && c.action == "append") return c.misused("what is appended has no --offset");
  const auto bytes = standard_input(c.given.number("bytes").value_or(UINT64_MAX));
  if (!bytes) return c.out.fail({exit_internal, "standard input", "NVM_E_SYSTEM", std::strerror(errno)});
  // A set is made only for a region that can be.
  if (!c.open_set(offset == 0 ? call::purpose::make : call::purpose::change)) return c.failed();
  std::uint64_t size = 0;
  const bool is_new = nvm_region_size(c.set, *rid, &size) != 0;
  if (is_new && nvm_errno() != NVM_E_NOT_FOUND) return c.failed();
  if (offset > size) return c.misused(fmt::format("offset {}: region {} has {} bytes", offset, *rid, size));
  const int done =
      is_new ? nvm_region_create_with(c.set, *rid, bytes->data(), bytes->size(), c.given.number("room").value_or(0))
             : change(c, *rid, size, *bytes);
  if (done != 0) return c.failed();
  if (nvm_region_size(c.set, *rid, &size) != 0) return c.failed();
  json answer = c.answer();
  answer["created"] = is_new;
  answer["size"] = size;
  c.out.text("region {}: {} bytes{}\n", *rid, size, is_new ? ", new" : "");
  c.out.document(answer);
  return exit_good;
}

// create, truncate: a size, and no bytes.
exit_code size_it(call& c) {
  const auto rid = c.rid();
  if (!rid) return c.no_rid();
  const std::string& text = c.given.operand(4);
  const parsed_number size = text == "0" ? parsed_number{} : parse_size(text);
  if (!size.problem.empty()) return c.misused(size.problem);
  const bool makes = c.action == "create";
  if (!c.open_set(makes ? call::purpose::make : call::purpose::change)) return c.failed();
  json answer = c.answer();
  if (makes) {
    if (nvm_region_create(c.set, *rid, size.value) != 0) return c.failed();
  } else if (nvm_region_truncate(c.set, *rid, size.value) != 0) {
    return nvm_errno() == NVM_E_NOT_FOUND ? c.not_found(answer) : c.failed();
  } else {
    answer["found"] = true;
  }
  answer["size"] = size.value;
  if (makes) answer["created"] = true;
  c.out.text("region {}: {} bytes{}\n", *rid, size.value, makes ? ", new" : "");
  c.out.document(answer);
  return exit_good;
}

exit_code remove(call& c) {
  const auto rid = c.rid();
  if (!rid) return c.no_rid();
  if (!c.open_set(call::purpose::change)) return c.failed();
  json answer = c.answer();
  if (nvm_region_drop(c.set, *rid) != 0) return nvm_errno() == NVM_E_NOT_FOUND ? c.not_found(answer) : c.failed();
  answer["found"] = true;
  c.out.document(answer);
  return exit_good;
}

exit_code drop(call& c) {
  if (!c.open(call::purpose::change)) return c.failed();
  if (nvm_regions_drop(c.at->handle(), c.given.operand(2).c_str()) != 0) return c.failed();
  json answer = c.answer();
  answer["set"] = c.given.operand(2);
  c.out.document(answer);
  return exit_good;
}

constexpr action<call> table[] = {{"list", 2, 2, list},      {"stat", 2, 2, stat},        {"scan", 3, 3, scan},
                                  {"get", 4, 4, get},        {"put", 4, 4, store},        {"append", 4, 4, store},
                                  {"create", 5, 5, size_it}, {"truncate", 5, 5, size_it}, {"del", 4, 4, remove},
                                  {"drop", 3, 3, drop}};
constexpr auto actions = names_of(table);

constexpr operand operands[] = {
    {"ACTION", operand_kind::choice, true,
     "list (the sets), stat (their regions and bytes, by sizes), scan (the regions of a set), get (bytes of a region), "
     "put (standard input becomes a region, or a part of it), append (standard input follows a region's bytes), create "
     "(a region that reads as zeros), truncate (to a size, smaller or larger), del (a region), drop (a set)",
     actions},
    {"PATH", operand_kind::pool_file, true,
     "the pool; no other process may have it open for writing, nor at all if something changes"},
    {"SET", operand_kind::text, false, "all but list and stat: the set of regions; put, append and create make it"},
    {"RID", operand_kind::text, false, "of one region: its number; hexadecimal after 0x"},
    {"SIZE", operand_kind::text, false, "create, truncate: in bytes, or with K, M, G"},
};
constexpr option options[] = {
    {"offset", value_kind::count, "N", "get, put: from this byte on; put leaves the others as they are"},
    {"bytes", value_kind::count, "N", "get: at most so many; put, append: at most so many of standard input"},
    {"mode", value_kind::choice, "MODE", "put, append: how the change of a region is logged; default adaptive",
     mode_names},
    {"replicas", value_kind::count, "N", "with --mode replica: how many regions of the set may have one"},
    {"room", value_kind::count, "N", "put, append: a new region has room to grow to N bytes"},
    {"base64", value_kind::flag, "", "get with --json: the bytes in base64"},
    {"limit", value_kind::count, "N", "scan: at most N regions"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"action", "as given"},
    {"set", "its name; not with list and stat"},
    {"sets[].name", "list, stat: in the order of names"},
    {"sets[].region_count", "of the set"},
    {"sets[].region_bytes", "stat: sum of their sizes"},
    {"sets[].by_size[].from_bytes", "stat: smallest size of the class"},
    {"sets[].by_size[].to_bytes", "largest size of the class, a power of two; 0: regions without bytes"},
    {"sets[].by_size[].region_count", "number of regions"},
    {"sets[].by_size[].region_bytes", "sum of their sizes"},
    {"regions[].rid", "scan: in the order of numbers"},
    {"regions[].size", "in bytes"},
    {"found", "get, truncate, del: whether there was such a region"},
    {"size", "of the region, in bytes; not with del and drop"},
    {"created", "put, append, create: whether there was none before"},
    {"value", "get: the bytes"},
    {"value_base64", "in its place if they are no UTF-8, or with --base64"},
};
constexpr std::string_view examples[] = {"holdfast regions list game.nvm",
                                         "holdfast regions stat game.nvm",
                                         "holdfast regions put game.nvm uploads 7 < part-1",
                                         "holdfast regions append game.nvm uploads 7 < part-2",
                                         "holdfast regions put game.nvm uploads 7 --offset 512 --mode checked < field",
                                         "holdfast regions truncate game.nvm uploads 7 64K",
                                         "holdfast regions get game.nvm uploads 7 --offset 4096 --bytes 100"};

exit_code run(const arguments& given, console& out) {
  call c{given, out};
  constexpr std::string_view missing[] = {"the name of the set is missing", "the number of the region is missing",
                                          "the size of the region is missing"};
  return run_action(table, c, missing[std::clamp<std::size_t>(given.operands(), 2, 4) - 2]);
}

}  // namespace
}  // namespace regions_verb

extern const command regions_command;
const command regions_command{
    .name = "regions",
    .summary = "read and write the regions of a pool",
    .description =
        "Reads and writes regions, strings of bytes that a set in a pool knows by number (see docs/regions.md). Each "
        "change is made whole or not at all, and is durable when the command ends. list, stat, scan and get open the "
        "pool "
        "read-only: its file is not changed, and a pool whose last owner died is recovered in this process's memory "
        "alone.\n\n"
        "The exit code is 1 when get, truncate or del finds no such region. get prints the bytes as they are.",
    .operands = regions_verb::operands,
    .options = regions_verb::options,
    .fields = regions_verb::fields,
    .examples = regions_verb::examples,
    .run = regions_verb::run,
};

}  // namespace nvm::cli
