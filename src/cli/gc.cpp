// holdfast gc: garbage of a pool, by type, and freeing it.
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/pool_types.hpp"
#include "cli/progress.hpp"
#include "cli/static_facts.hpp"
#include "cli/units.hpp"
#include "nvm/gc.h"

namespace nvm::cli {
namespace gc_verb {
namespace {

constexpr operand operands[] = {{"PATH", operand_kind::pool_file, true, "the pool; no other process may have it open"}};
constexpr option options[] = {
    {"dry-run", value_kind::flag, "", "say what is garbage and free nothing; the exit code is 1 if there is any"},
    {"threads", value_kind::count, "N", "threads that mark; one for each processor if it is not given"},
    {"conservative", value_kind::flag, "",
     "every aligned word of every object may be a pointer, whatever the types say"},
    {"untyped", value_kind::flag, "", "objects of unknown types hold no pointers"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"dry_run", "true: nothing was freed"},
    {"object_count", "objects in the pool, those of key-value stores included"},
    {"reachable_count", "of them: the root leads to them"},
    {"reachable_bytes", "asked for"},
    {"garbage_count", "objects that nothing leads to"},
    {"garbage_bytes", "asked for"},
    {"freed_count", "of the garbage"},
    {"freed_bytes", "asked for"},
    {"transactions", "that freed it"},
    {"pointers", "followed, without null"},
    {"stray_pointers", "of them: into the pool, to no object"},
    {"foreign_pointers", "of them: to anywhere else"},
    {"weak_pointers", "of them: weak, from what can be reached to garbage; they became null unless it was a dry run"},
    {"static_pointers", "fields that lead into programs, which were left alone"},
    {"types[].name", "of the garbage, or its type id in hexadecimal; the type with the most bytes first"},
    {"types[].id", "type id"},
    {"types[].object_count", "garbage of the type"},
    {"types[].bytes", "asked for"},
    {"types[].unlinked_count", "of the objects: no other garbage points to them"},
    {"types[].way[].object", "address of a step of the shortest way that once led to one of them, which is the last"},
    {"types[].way[].type", "name of its type"},
    {"types[].way[].field", "the pointer in it that leads to the next step; not of the last"},
    {"mark_seconds", "time to mark"},
    {"free_seconds", "time to free"},
};
constexpr std::string_view examples[] = {"holdfast gc --dry-run cache.nvm", "holdfast gc cache.nvm",
                                         "holdfast gc --json --dry-run cache.nvm | jq .garbage_bytes"};

struct collector {
  const pool_types& types;
  console& out;
  progress& line;
  std::atomic<double>& share;
  json listed = json::array();
  std::string text{};
  std::exception_ptr thrown{};

  void add(const nvm_gc_type& t) {
    json way = json::array();
    std::string words;
    for (std::uint64_t i = 0; i < t.steps; ++i) {
      const nvm_gc_step& s = t.way[i];
      const std::string address = address_text(reinterpret_cast<std::uintptr_t>(s.object));
      json step = {{"object", address}, {"type", types.name_of(s.type)}};
      words += fmt::format("{}{} {}", i == 0 ? "" : " -> ", types.name_of(s.type), address);
      if (i + 1 < t.steps) {
        const std::string field = types.field_at(s.type, s.pointer);
        step["field"] = field;
        words += "." + field;
      }
      way.push_back(std::move(step));
    }
    text += fmt::format("{:>12} objects {:>12}  {}, {} of them unlinked\n", t.objects, size_text(t.bytes),
                        types.name_of(t.type), t.unlinked);
    if (t.steps > 1) text += fmt::format("{:>21}  {}\n", "by", words);
    listed.push_back({{"name", types.name_of(t.type)},
                      {"id", t.type},
                      {"object_count", t.objects},
                      {"bytes", t.bytes},
                      {"unlinked_count", t.unlinked},
                      {"way", std::move(way)}});
  }
};

void add_type(const nvm_gc_type* t, void* argument) {
  auto* c = static_cast<collector*>(argument);
  try {
    if (!c->thrown) c->add(*t);
  } catch (...) {
    c->thrown = std::current_exception();
  }
}
// Marking is the first half of the bar.
void advance(nvm_gc_phase phase, std::uint64_t done, std::uint64_t total, void* argument) {
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  static_cast<collector*>(argument)->share = phase == NVM_GC_MARKING ? part / 2 : 0.5 + part / 2;
}

json document_of(const std::string& path, bool dry_run, const nvm_gc_report& r, json types) {
  return {{"path", path},
          {"dry_run", dry_run},
          {"object_count", r.objects},
          {"reachable_count", r.reachable_objects},
          {"reachable_bytes", r.reachable_bytes},
          {"garbage_count", r.garbage_objects},
          {"garbage_bytes", r.garbage_bytes},
          {"freed_count", r.freed_objects},
          {"freed_bytes", r.freed_bytes},
          {"transactions", r.transactions},
          {"pointers", r.pointers},
          {"stray_pointers", r.stray_pointers},
          {"foreign_pointers", r.foreign_pointers},
          {"weak_pointers", r.weak_pointers},
          {"types", std::move(types)},
          {"mark_seconds", static_cast<double>(r.mark_ns) / 1e9},
          {"free_seconds", static_cast<double>(r.free_ns) / 1e9}};
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  const bool dry_run = given.flag("dry-run");
  nvm_pool_options how{};
  how.read_only = dry_run ? 1 : 0;
  how.types = NVM_TYPES_IGNORE;
  const auto close = [](NVM_POOL* p) { (void)nvm_pool_close(p); };
  std::unique_ptr<NVM_POOL, decltype(close)> pool{nvm_pool_open_with(path.c_str(), &how), close};
  if (!pool) return out.fail_library(path);
  const auto types = pool_types::of(pool.get());
  if (!types) return out.fail_library(path);
  nvm_gc_report r{};
  int collected = 0;
  failure why_not;
  json listed;
  std::string text;
  {
    std::atomic<double> share{0};
    progress line{out, fmt::format("looking for garbage in {}", path), [&share] { return share.load(); }};
    collector into{*types, out, line, share};
    nvm_gc_options o{};
    o.dry_run = dry_run ? 1 : 0;
    o.threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(given.number("threads").value_or(0), 1024));
    o.conservative = given.flag("conservative") ? 1 : 0;
    o.untyped = given.flag("untyped") ? 1 : 0;
    o.ways = 1;
    o.progress = advance;
    o.type = add_type;
    o.argument = &into;
    collected = nvm_gc(pool.get(), &o, &r);
    if (into.thrown) std::rethrow_exception(into.thrown);
    if (collected != 0) why_not = library_failure(path);
    listed = std::move(into.listed);
    text = std::move(into.text);
  }
  if (collected != 0) return out.fail(why_not);
  const auto statics = statics_of(pool.get());
  if (!statics) return out.fail_library(path);
  if (!dry_run && nvm_pool_close(pool.release()) != 0) return out.fail_library(path);
  out.text("{}: {} of {} objects reachable, {} garbage ({}){}\n", path, r.reachable_objects, r.objects,
           r.garbage_objects, size_text(r.garbage_bytes), dry_run ? "" : ", freed");
  out.text("{}", text);
  if (r.stray_pointers + r.foreign_pointers != 0)
    out.text("  {} pointers lead to no object, {} out of the pool\n", r.stray_pointers, r.foreign_pointers);
  if (r.weak_pointers != 0)
    out.text("  {} weak pointers lead to garbage{}\n", r.weak_pointers, dry_run ? "" : ", and are null now");
  print_sum(*statics, out);
  json document = document_of(path, dry_run, r, std::move(listed));
  document["static_pointers"] = statics->fields;
  out.document(document);
  return dry_run && r.garbage_objects != 0 ? exit_negative : exit_good;
}

}  // namespace
}  // namespace gc_verb

extern const command gc_command;
const command gc_command{
    .name = "gc",
    .summary = "free what nothing in a pool leads to",
    .description =
        "Marks what the root leads to, by the pointers that the pool's types describe, and frees the rest: what a "
        "crash or a mistake "
        "of a program has unlinked. Key-value stores, lock-free structures and regions stay as they are; their values "
        "are bytes and keep no object.\n\n"
        "Weak pointers keep nothing: those that lead to garbage become null before it is freed. With --dry-run nothing "
        "is changed, and the exit code is 1 if there is garbage. Of each type the shortest way is shown by which one "
        "of its objects was once reached: it begins with an object that nothing points to any "
        "more, which is what the program unlinked.\n\n"
        "Reachable objects of unknown types are refused (NVM_E_TYPE_MISMATCH): they "
        "may point to anything. --untyped says that they do not, --conservative follows every word that looks like a "
        "pointer. A command that is killed has freed a part of the garbage; the next one frees the rest.",
    .operands = gc_verb::operands,
    .options = gc_verb::options,
    .fields = gc_verb::fields,
    .examples = gc_verb::examples,
    .run = gc_verb::run,
};

}  // namespace nvm::cli
