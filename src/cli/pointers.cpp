// holdfast pointers: what in a pool leads out of it, or to objects that are gone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/pool_types.hpp"
#include "cli/progress.hpp"
#include "cli/static_facts.hpp"
#include "cli/units.hpp"
#include "nvm/gc.h"
#include "nvm/nvm.hpp"

namespace nvm::cli {
namespace pointers_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool; no other process may have it open"}};
constexpr option options[] = {
    {"conservative", value_kind::flag, "",
     "each aligned word of objects of unknown types may be a pointer, and of such whose visitor the program has"},
    {"untyped", value_kind::flag, "", "objects of unknown types hold no pointers"},
    {"among", value_kind::path, "DIRECTORY", "pools in it are named where a pointer leads into them"},
    {"limit", value_kind::count, "N", "print the first N findings only; all are counted"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"sound", "true: nothing was found"},
    {"finding_count", "number of findings"},
    {"findings[].object", "address of the object that has the pointer"},
    {"findings[].type", "name of its type, or the type id in hexadecimal"},
    {"findings[].type_id", "its type id"},
    {"findings[].field", "the pointer; of unknown types \"+\" and its offset"},
    {"findings[].offset", "bytes from the object's start"},
    {"findings[].value", "the address that it holds"},
    {"findings[].leads_to", "no-object: into the pool, where none is; other-pool: where pools lie; elsewhere"},
    {"findings[].pool", "path of the pool that it leads into; with --among, if one has that address"},
    {"findings[].kind", "strong, weak, static; guessed: a word of an object of unknown type"},
    {"reachable_count", "objects that the root and those of stores lead to"},
    {"pointers", "followed, without null"},
    {"static_pointers", "fields that lead into programs, which is what they are for"},
    {"seconds", "duration of the search"},
};
constexpr std::string_view examples[] = {"holdfast pointers cache.nvm",
                                         "holdfast pointers --conservative --among /dev/shm redis.nvm",
                                         "holdfast pointers --json cache.nvm | jq '.findings[].field'"};

// Where another pool lies, or wants to.
struct neighbour {
  std::string path;
  std::uint64_t base, bytes;
};

// Pools of the directory, without the one that is looked at; what is no pool is passed over.
std::vector<neighbour> pools_in(const std::string& directory, const std::string& but, std::error_code& failed) {
  std::vector<neighbour> all;
  std::filesystem::directory_iterator files{directory, failed};
  for (; !failed && files != std::filesystem::directory_iterator{}; files.increment(failed)) {
    std::error_code unknown;
    if (!files->is_regular_file(unknown) || std::filesystem::equivalent(files->path(), but, unknown)) continue;
    nvm_pool_info info{};
    if (nvm_pool_inspect(files->path().c_str(), &info) != 0) continue;
    // The data space grows; what is before it does not.
    const std::uint64_t before = info.file_bytes - std::min(info.file_bytes, info.size);
    const std::uint64_t bytes = before + info.capacity;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(info.base_count, std::size(info.bases)); ++i) {
      all.push_back({files->path(), info.bases[i], bytes});
    }
    if (info.home != 0) all.push_back({files->path(), info.home, info.home_bytes});
  }
  return all;
}

std::string_view place_name(std::uint32_t place) noexcept {
  switch (place) {
    case NVM_GC_NO_OBJECT:
      return "no-object";
    case NVM_GC_OTHER_POOL:
      return "other-pool";
    default:
      return "elsewhere";
  }
}
std::string_view kind_of(const nvm_gc_pointer& p) noexcept {
  if (p.guessed != 0) return "guessed";
  return p.kind == NVM_FIELD_WEAK_POINTER ? "weak" : p.kind == NVM_FIELD_STATIC_POINTER ? "static" : "strong";
}

// Receives the findings as they come.
struct collector {
  const pool_types& types;
  const std::vector<neighbour>& neighbours;
  console& out;
  progress& line;
  std::atomic<double>& share;
  std::optional<std::uint64_t> limit;
  std::uint64_t count = 0;
  json findings = json::array();
  std::exception_ptr thrown{};

  [[nodiscard]] const neighbour* around(std::uint64_t value) const noexcept {
    for (const neighbour& n : neighbours) {
      if (value - n.base < n.bytes) return &n;
    }
    return nullptr;
  }
  [[nodiscard]] static std::string sentence_end(const nvm_gc_pointer& p, const neighbour* into) {
    if (into != nullptr) return fmt::format("in pool {}", into->path);
    if (p.place == NVM_GC_NO_OBJECT) return "where no object is";
    if (p.place == NVM_GC_OTHER_POOL) return "where other pools lie";
    if (p.kind == NVM_FIELD_STATIC_POINTER) return "in no program that the pool remembers";
    return "which is not in the pool";
  }
  void add(const nvm_gc_pointer& p) {
    if (++count > limit.value_or(UINT64_MAX)) return;
    const neighbour* const into = p.place == NVM_GC_NO_OBJECT ? nullptr : around(p.value);
    const std::string object = address_text(reinterpret_cast<std::uintptr_t>(p.object));
    const std::string type = types.name_of(p.type);
    const std::string field = p.guessed != 0 ? fmt::format("+{}", p.at) : types.field_at(p.type, p.at);
    if (!out.as_json()) {
      line.interrupt([&] {
        out.text("{}.{} of the object at {} leads to {}, {}{}\n", out.styled(type, style::bad), field, object,
                 address_text(p.value), sentence_end(p, into),
                 p.guessed != 0                     ? "; it may be no pointer"
                 : p.kind == NVM_FIELD_WEAK_POINTER ? "; it is weak"
                                                    : "");
      });
      return;
    }
    json one = {{"object", object},
                {"type", type},
                {"type_id", p.type},
                {"field", field},
                {"offset", p.at},
                {"value", address_text(p.value)},
                {"leads_to", into != nullptr ? "other-pool" : place_name(p.place)},
                {"kind", kind_of(p)}};
    if (into != nullptr) one["pool"] = into->path;
    findings.push_back(std::move(one));
  }
};

// Called by the library, which no exception may cross.
void add_pointer(const nvm_gc_pointer* p, void* argument) {
  auto* c = static_cast<collector*>(argument);
  try {
    if (!c->thrown) c->add(*p);
  } catch (...) {
    c->thrown = std::current_exception();
  }
}
void advance(nvm_gc_phase, std::uint64_t done, std::uint64_t total, void* argument) {
  static_cast<collector*>(argument)->share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  if (given.flag("conservative") && given.flag("untyped")) {
    return out.fail({exit_usage, "pointers", "USAGE", "--conservative and --untyped exclude each other"});
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<neighbour> neighbours;
  if (const std::string among = given.text("among"); !among.empty()) {
    std::error_code failed;
    neighbours = pools_in(among, path, failed);
    if (failed) return out.fail({exit_unavailable, among, "SYSTEM", failed.message()});
  }
  nvm_pool_options how{};
  how.read_only = 1;
  how.types = NVM_TYPES_IGNORE;
  const auto at = pool::open(path.c_str(), how);
  if (!at) return out.fail_library(path);
  const auto types = pool_types::of(at->handle());
  if (!types) return out.fail_library(path);
  const auto statics = statics_of(at->handle());
  if (!statics) return out.fail_library(path);
  nvm_gc_report r{};
  failure why_not;
  json findings;
  std::uint64_t count = 0;
  int looked = 0;
  {
    std::atomic<double> share{0};
    progress line{out, fmt::format("following pointers of {}", path), [&share] { return share.load(); }};
    collector into{*types, neighbours, out, line, share, given.number("limit")};
    nvm_gc_options o{};
    o.dry_run = 1;
    o.untyped = given.flag("conservative") ? 2 : given.flag("untyped") ? 1 : 0;
    o.progress = advance;
    o.pointer = add_pointer;
    o.argument = &into;
    looked = nvm_gc(at->handle(), &o, &r);
    if (into.thrown) std::rethrow_exception(into.thrown);
    if (looked != 0) why_not = library_failure(path);
    findings = std::move(into.findings);
    count = into.count;
  }
  if (looked != 0) return out.fail(why_not);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (const auto limit = given.number("limit"); limit && count > *limit) out.text("and {} more\n", count - *limit);
  const std::string sum = count == 0
                              ? out.styled("none leads to no object", style::good)
                              : out.styled(fmt::format("{} finding{}", count, count == 1 ? "" : "s"), style::bad);
  out.text("{}: {} pointers of {} objects, {}\n", path, r.pointers, r.reachable_objects, sum);
  print_sum(*statics, out);
  out.document({{"path", path},
                {"sound", count == 0},
                {"finding_count", count},
                {"findings", std::move(findings)},
                {"reachable_count", r.reachable_objects},
                {"pointers", r.pointers},
                {"static_pointers", statics->fields},
                {"seconds", took.count()}});
  return count == 0 ? exit_good : exit_negative;
}

}  // namespace
}  // namespace pointers_verb

extern const command pointers_command;
const command pointers_command{
    .name = "pointers",
    .summary = "find pointers that lead out of a pool",
    .description =
        "Follows the pointers that the pool's types describe, from the root and from those of object stores, and "
        "reports each that leads to no object of the pool: into the pool, to an object that was freed or never was; "
        "to another pool; or to memory of a process that is gone. The pool is not changed. The exit code is 0 when "
        "there is none, 1 when there are findings, 3 or 4 when it could not be looked at.\n\n"
        "What lies in key-value stores, lock-free structures and regions is bytes. Fields that lead into programs "
        "(NVM_STATIC_PTR) are findings where they lead to nothing that the pool remembers; volatile pointers, which "
        "mean nothing to the next process, are none.\n\n"
        "Reachable objects of unknown types are refused (NVM_E_TYPE_MISMATCH): they may point to anything. --untyped "
        "says that they do not; --conservative follows each aligned word of theirs that leads to an object, and "
        "reports those that lead into the pool, to where pools lie, or to where Linux has programs, heaps and "
        "stacks. Such a word may be a number.",
    .operands = pointers_verb::operands,
    .options = pointers_verb::options,
    .fields = pointers_verb::fields,
    .examples = pointers_verb::examples,
    .run = pointers_verb::run,
};

}  // namespace nvm::cli
