// holdfast dump: the objects and the regions of a pool, opened read-only.
//
// The list is printed as it is walked, as JSON too: a pool may hold more objects than fit into memory as text.
#include <algorithm>
#include <bit>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "cli/arguments.hpp"
#include "cli/dump_regions.hpp"
#include "cli/hex.hpp"
#include "cli/pool_facts.hpp"
#include "cli/pool_types.hpp"
#include "cli/units.hpp"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace dump_verb {
namespace {

constexpr operand operands[] = {
    {"PATH", operand_kind::pool_file, true, "the pool; no process may have it open for writing"}};
constexpr option options[] = {
    {"type", value_kind::text, "TYPE",
     "objects of this type only, and no regions: its id, or its name as types and dump print it"},
    {"limit", value_kind::count, "N", "stop after N objects and regions"},
    {"hex", value_kind::count, "N", "print the first N bytes of each object and region too"},
    {"fields", value_kind::flag, "", "print what lies in each object by the names of its fields, as far as known"},
    {"summary", value_kind::flag, "",
     "count the objects by type and by size, and the regions, instead of listing them"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"base", "address that the pool is mapped at, as a hexadecimal string"},
    {"root", "offset of the root object; null: none"},
    {"objects[].address", "of the object, as a hexadecimal string; not with --summary"},
    {"objects[].offset", "bytes from the pool's start"},
    {"objects[].type", "type id"},
    {"objects[].type_name", "if the pool knows the type, or it is the library's own"},
    {"objects[].size_bytes", "bytes that were asked for"},
    {"objects[].bytes", "the first bytes in hexadecimal; with --hex"},
    {"objects[].fields", "their contents by name, of an array of objects a list; with --fields, if the type is known"},
    {"by_type[].type", "type id; with --summary"},
    {"by_type[].type_name", "if the pool knows the type, or it is the library's own"},
    {"by_type[].objects", "number of them"},
    {"by_type[].bytes", "sum of their sizes"},
    {"by_type[].smallest_bytes", "size of the smallest"},
    {"by_type[].largest_bytes", "size of the largest"},
    {"by_size[].from_bytes", "smallest size of the class; with --summary"},
    {"by_size[].to_bytes", "largest size of the class, a power of two"},
    {"by_size[].objects", "number of objects"},
    {"by_size[].bytes", "sum of their sizes"},
    {"region_sets[].name", "of a set of regions, in the order of names"},
    {"region_sets[].regions[].rid", "number of the region, in their order; not with --summary"},
    {"region_sets[].regions[].size_bytes", "its length"},
    {"region_sets[].regions[].bytes", "the first bytes in hexadecimal; with --hex"},
    {"region_sets[].region_count", "regions of the set"},
    {"region_sets[].region_bytes", "sum of their lengths"},
    {"object_count", "objects that were listed or counted"},
    {"object_bytes", "sum of their sizes"},
    {"stopped_at_limit", "true: --limit ended the walk, there may be more"},
};
constexpr std::string_view examples[] = {"holdfast dump cache.nvm --type 3 --hex 64 --limit 10",
                                         "holdfast dump cache.nvm --fields --limit 1",
                                         "holdfast dump cache.nvm --summary"};

struct totals {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t smallest = UINT64_MAX;
  std::uint64_t largest = 0;

  void add(std::uint64_t size) noexcept {
    ++objects;
    bytes += size;
    smallest = std::min(smallest, size);
    largest = std::max(largest, size);
  }
};

struct walker {
  const console& out;
  NVM_POOL* pool;
  std::uint64_t base;
  std::uint64_t root;                             // address; 0: none
  std::optional<std::set<std::uint32_t>> wanted;  // types; nothing: all
  std::uint64_t limit;
  std::uint64_t hex_bytes;
  bool summary;
  bool fields;
  const pool_types& types;
  totals all{};
  std::map<std::uint32_t, totals> by_type{};
  std::map<std::uint64_t, totals> by_size{};  // by the largest size of the class
  bool stopped = false;
  std::exception_ptr thrown{};  // by add()

  // Non-zero ends the walk.
  int add(const void* object, std::uint32_t object_type, std::size_t size) {
    if (wanted && !wanted->contains(object_type)) return 0;
    if (all.objects == limit) {
      stopped = true;
      return 1;
    }
    // Lost bytes of it are reported by the walk, not printed as zeros.
    const platform::in_call reading;
    if (!summary && !is_there(static_cast<const std::byte*>(object), size)) return 1;
    all.add(size);
    if (summary) {
      by_type[object_type].add(size);
      by_size[std::bit_ceil(std::max<std::uint64_t>(size, 16))].add(size);
    } else if (out.as_json()) {
      print_json(object, object_type, size);
    } else {
      print_text(object, object_type, size);
    }
    return 0;
  }

 private:
  static bool is_there(const std::byte* object, std::size_t size) noexcept {
    for (std::size_t at = 0; at < size; at += platform::page_bytes()) {
      static_cast<void>(*static_cast<const volatile std::byte*>(object + at));
    }
    static_cast<void>(*static_cast<const volatile std::byte*>(object + size - 1));
    return !platform::any_lost();
  }
  [[nodiscard]] std::span<const std::byte> head_of(const void* object, std::size_t size) const {
    return {static_cast<const std::byte*>(object), std::min<std::size_t>(size, hex_bytes)};
  }

  static std::span<const std::byte> whole(const void* object, std::size_t size) {
    return {static_cast<const std::byte*>(object), size};
  }
  void print_fields_of(const json& values) const {
    if (values.is_array()) {
      for (std::size_t i = 0; i < values.size(); ++i) out.text("  [{}] {}\n", i, line_of(values[i]));
      return;
    }
    for (const auto& [name, value] : values.items()) {
      out.text("  {}{}{}\n", name, name.empty() ? "" : " = ", line_of(value));
    }
  }

  void print_json(const void* object, std::uint32_t object_type, std::size_t size) const {
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    json o = {
        {"address", address_text(address)}, {"offset", address - base}, {"type", object_type}, {"size_bytes", size}};
    const pool_type* known = types.find(object_type);
    if (const std::string_view name = types.known_name(object_type); !name.empty()) o["type_name"] = name;
    if (hex_bytes != 0) o["bytes"] = hex_text(head_of(object, size));
    if (fields && known != nullptr) o["fields"] = values_of(*known, whole(object, size));
    fmt::print(stdout, "{}\n    {}", all.objects == 1 ? "" : ",", line_of(o));
  }

  void print_text(const void* object, std::uint32_t object_type, std::size_t size) const {
    if (!out.as_text()) return;
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    if (all.objects == 1) out.text("{:>16} {:>14} {:>10} {:>12}\n", "address", "offset", "type", "size");
    const pool_type* known = types.find(object_type);
    const std::string_view name = types.known_name(object_type);
    out.text("{:>16} {:>14} {:>10} {:>12}{}{}{}\n", address_text(address), address - base, object_type, size,
             name.empty() ? "" : "  ", name, address == root ? "  root" : "");
    if (fields && known != nullptr) print_fields_of(values_of(*known, whole(object, size)));
    if (hex_bytes != 0) out.text("{}", hex_lines(head_of(object, size), 2));
  }
};

// Called by the library, which no exception may cross.
int visit(void* object, std::uint32_t type, std::size_t size, void* argument) {
  auto* w = static_cast<walker*>(argument);
  try {
    return w->add(object, type, size);
  } catch (...) {
    w->thrown = std::current_exception();
    return 1;
  }
}

// A class of sizes ends at a power of two, the first one at 16 bytes.
std::uint64_t first_size(std::uint64_t last) noexcept { return last == 16 ? 1 : last / 2 + 1; }

void print_summary(const walker& w, const std::string& path) {
  const console& out = w.out;
  out.text("{}: {} objects, {} bytes ({})\n", path, w.all.objects, w.all.bytes, size_text(w.all.bytes));
  if (w.all.objects == 0) return;
  out.text("\n{:>10} {:>12} {:>16} {:>12} {:>12}\n", "type", "objects", "bytes", "smallest", "largest");
  for (const auto& [type, t] : w.by_type) {
    const std::string_view name = w.types.known_name(type);
    out.text("{:>10} {:>12} {:>16} {:>12} {:>12}{}{}\n", type, t.objects, t.bytes, t.smallest, t.largest,
             name.empty() ? "" : "  ", name);
  }
  out.text("\n{:>24} {:>12} {:>16}\n", "size", "objects", "bytes");
  for (const auto& [last, t] : w.by_size) {
    out.text("{:>24} {:>12} {:>16}\n", fmt::format("{} .. {}", first_size(last), last), t.objects, t.bytes);
  }
}

json summary_fields(const walker& w) {
  json types = json::array();
  for (const auto& [type, t] : w.by_type) {
    types.push_back({{"type", type},
                     {"objects", t.objects},
                     {"bytes", t.bytes},
                     {"smallest_bytes", t.smallest},
                     {"largest_bytes", t.largest}});
    if (const auto name = w.types.known_name(type); !name.empty()) types.back()["type_name"] = name;
  }
  json sizes = json::array();
  for (const auto& [last, t] : w.by_size) {
    sizes.push_back({{"from_bytes", first_size(last)}, {"to_bytes", last}, {"objects", t.objects}, {"bytes", t.bytes}});
  }
  return {{"by_type", std::move(types)}, {"by_size", std::move(sizes)}};
}

// After the objects; false: the library says why.
bool print_regions(walker& w) {
  region_dump regions{.out = w.out, .pool = w.pool, .hex_bytes = w.hex_bytes, .summary = w.summary};
  regions.limit = w.limit - w.all.objects;
  const bool printed = regions.print();
  w.stopped = regions.stopped;
  return printed;
}

// The document's fields but the list, as lines of an object without its braces.
void print_fields(const json& fields) {
  bool first = true;
  for (const auto& [name, value] : fields.items()) {
    fmt::print(stdout, "{}\n  {}: {}", first ? "" : ",", line_of(name), line_of(value));
    first = false;
  }
}

// --type: a number is an id, anything else a name.
bool is_id(const std::string& word) { return !word.empty() && word.front() >= '0' && word.front() <= '9'; }

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  const std::string wanted = given.text("type");
  const parsed_number id = is_id(wanted) ? parse_count(wanted, UINT32_MAX) : parsed_number{};
  if (!id.problem.empty()) return out.fail({exit_usage, "dump", "USAGE", "--type: " + id.problem});
  nvm_pool_options read_only{};
  read_only.read_only = 1;
  const auto close = [](NVM_POOL* p) { (void)nvm_pool_close(p); };  // read-only: nothing that could fail to be written
  const std::unique_ptr<NVM_POOL, decltype(close)> pool{nvm_pool_open_with(path.c_str(), &read_only), close};
  nvm_pool_info info{};
  if (!pool || nvm_pool_get_info(pool.get(), &info) != 0) return out.fail_library(path);

  // Objects are shown also with a damaged type map, which `check` reports.
  const pool_types types = pool_types::of(pool.get()).value_or(pool_types{});
  std::optional<std::set<std::uint32_t>> ids;
  if (is_id(wanted)) {
    ids = {static_cast<std::uint32_t>(id.value)};
  } else if (!wanted.empty()) {
    ids = types.named(wanted);
    if (ids->empty()) {
      return out.fail(
          {exit_usage, path, "USAGE",
           fmt::format("--type: \"{}\" is the name of no type that it knows: see `holdfast types`", wanted)});
    }
  }
  const auto root = reinterpret_cast<std::uintptr_t>(nvm_pool_get_root(pool.get()));
  walker w{.out = out,
           .pool = pool.get(),
           .base = info.base,
           .root = root,
           .wanted = std::move(ids),
           .limit = given.number("limit").value_or(UINT64_MAX),
           .hex_bytes = given.number("hex").value_or(0),
           .summary = given.flag("summary"),
           .fields = given.flag("fields"),
           .types = types};
  if (out.as_json()) {
    fmt::print(stdout, "{{");
    print_fields({{"path", path},
                  {"base", address_text(info.base)},
                  {"root", root == 0 ? json(nullptr) : json(root - info.base)}});
    if (!w.summary) fmt::print(stdout, ",\n  \"objects\": [");
  }
  const int ended = nvm_pool_each(pool.get(), visit, &w);
  if (w.thrown) std::rethrow_exception(w.thrown);
  failure broken;
  bool failed = ended < 0;
  if (failed) broken = library_failure(path);
  if (out.as_json() && !w.summary) fmt::print(stdout, "{}]", w.all.objects == 0 ? "" : "\n  ");
  if (out.as_text() && w.summary) print_summary(w, path);
  if (wanted.empty() && !failed && !w.stopped) {
    failed = !print_regions(w);
    if (failed) broken = library_failure(path);
  }
  if (out.as_json()) {
    json rest = w.summary ? summary_fields(w) : json::object();
    rest["object_count"] = w.all.objects;
    rest["object_bytes"] = w.all.bytes;
    rest["stopped_at_limit"] = w.stopped;
    if (failed) rest["error"] = document_of(broken);
    fmt::print(stdout, ",");
    print_fields(rest);
    fmt::print(stdout, "\n}}\n");
  }
  if (failed) {
    out.error_line(broken);
    return broken.exit;
  }
  return exit_good;
}

}  // namespace
}  // namespace dump_verb

extern const command dump_command;
const command dump_command{
    .name = "dump",
    .summary = "list the objects and the regions of a pool",
    .description =
        "Lists the committed objects of a pool in the order of their addresses: address, offset in the pool, "
        "type id, size, and the type's name if the pool knows it (see types); then its regions, set by set: number and "
        "size. The pool is opened read-only and its "
        "file not changed; one whose last owner died is "
        "recovered in this process's memory alone.",
    .operands = dump_verb::operands,
    .options = dump_verb::options,
    .fields = dump_verb::fields,
    .examples = dump_verb::examples,
    .run = dump_verb::run,
};

}  // namespace nvm::cli
