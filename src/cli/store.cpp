// holdfast store: the object stores of a pool, by name.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "care/structure_names.hpp"
#include "cli/actions.hpp"
#include "cli/arguments.hpp"
#include "cli/kv_actions.hpp"
#include "cli/lf_names.hpp"
#include "cli/progress.hpp"
#include "cli/units.hpp"
#include "nvm/nvm.hpp"
#include "nvm/store_kv.h"

namespace nvm::cli {
namespace store_verb {
namespace {

using kv_actions::printable;

// One call, and the pool that it is about.
struct call {
  const arguments& given;
  console& out;
  const std::string& action = given.operand(0);
  const std::string& path = given.operand(1);
  std::optional<pool> at{};

  [[nodiscard]] json answer() const { return {{"path", path}, {"action", action}}; }
  [[nodiscard]] exit_code misused(std::string what) const {
    return out.fail({exit_usage, "store " + action, "USAGE", std::move(what)});
  }
  [[nodiscard]] exit_code failed() const { return out.fail_library(path); }
  [[nodiscard]] bool open(bool changes) {
    nvm_pool_options o{};
    o.read_only = changes ? 0 : 1;
    o.types = NVM_TYPES_IGNORE;
    at = pool::open(path.c_str(), o);
    return at.has_value();
  }
  [[nodiscard]] std::string prefix() const { return given.operands() > 2 ? given.operand(2) : std::string{}; }
  [[nodiscard]] const char* name() const { return given.operand(2).c_str(); }
};

// Calls show(info) for each store, as nvm_store_list() does, and carries exceptions over the library.
template <class Show>
[[nodiscard]] bool each_store(call& c, Show&& show) {
  struct state {
    Show& show;
    std::exception_ptr thrown{};
  } s{show};
  const int ended = nvm_store_list(
      c.at->handle(), c.prefix().c_str(),
      [](const nvm_store_info* info, void* argument) {
        auto* to = static_cast<state*>(argument);
        try {
          to->show(*info);
          return 0;
        } catch (...) {
          to->thrown = std::current_exception();
          return 1;
        }
      },
      &s);
  if (s.thrown) std::rethrow_exception(s.thrown);
  return ended == 0;
}

json facts_of(const nvm_store_info& info) {
  return {{"name", info.name},
          {"number", info.number},
          {"owner", info.owner},
          {"group", info.group},
          {"mode", fmt::format("{:04o}", info.mode)},
          {"created_unix_s", info.created},
          {"pages", info.pages},
          {"bytes", info.pages * info.page_bytes},
          {"cluster_count", info.clusters},
          {"object_count", info.objects},
          {"used_bytes", info.used_bytes},
          {"quota_bytes", info.quota},
          {"root", info.root}};
}

// Names and kinds of the lock-free structures in a store; null if this user may not attach it.
json structures_in(const call& c, const nvm_store_info& info) {
  json all = json::array();
  if (info.structures == 0) return all;
  nvm_store* const s = nvm_store_attach(c.at->handle(), info.name, NVM_STORE_READ_ONLY);
  if (s == nullptr) return nullptr;
  (void)nvm_store_detach(s);
  const auto found = care::structures_at(c.path.c_str(), info.structures);
  if (!found) return nullptr;
  for (const care::structure_on_file& one : *found) {
    all.push_back({{"name", one.name},
                   {"kind", kind_names[static_cast<unsigned>(one.kind)]},
                   {"entries_are", one.of_bytes ? "bytes" : "words"}});
  }
  return all;
}

// Names and indexes of the key-value stores in a store; null if this user may not attach it.
json key_values_in(const call& c, const nvm_store_info& info) {
  json all = json::array();
  if (info.key_values == 0) return all;
  nvm_store* const s = nvm_store_attach(c.at->handle(), info.name, NVM_STORE_READ_ONLY);
  if (s == nullptr) return nullptr;
  std::vector<std::pair<std::string, int>> found;
  const int ended = nvm_kv_each_in(
      s,
      [](const char* name, enum nvm_kv_index index, void* to) {
        try {
          static_cast<decltype(found)*>(to)->emplace_back(name, index);
          return 0;
        } catch (const std::bad_alloc&) {
          return 1;
        }
      },
      &found);
  (void)nvm_store_detach(s);
  if (ended > 0) throw std::bad_alloc{};
  if (ended < 0) return nullptr;
  for (const auto& [name, index] : found) all.push_back({{"name", name}, {"index", nvm_kv_index_name(index)}});
  return all;
}

// Names of all stores, or of those with the given prefix.
[[nodiscard]] bool names_of_all(call& c, std::vector<std::string>& names) {
  const int ended = nvm_store_names(
      c.at->handle(), c.prefix().c_str(),
      [](const char* name, void* argument) {
        try {
          static_cast<std::vector<std::string>*>(argument)->emplace_back(name);
          return 0;
        } catch (const std::bad_alloc&) {
          return 1;
        }
      },
      &names);
  if (ended > 0) throw std::bad_alloc{};
  return ended == 0;
}

// ---- the actions ----

exit_code list(call& c) {
  if (!c.open(false)) return c.failed();
  std::vector<std::string> names;
  if (!names_of_all(c, names)) return c.failed();
  json answer = c.answer();
  answer["stores"] = json::array();
  for (const std::string& name : names) {
    c.out.text("{}\n", printable(name));
    answer["stores"].push_back({{"name", name}});
  }
  if (names.empty()) c.out.text("{}: no stores{}\n", c.path, c.prefix().empty() ? "" : " of that prefix");
  c.out.document(answer);
  return exit_good;
}

exit_code create(call& c) {
  if (!c.open(true)) return c.failed();
  nvm_store_options o{};
  o.mode = static_cast<std::uint32_t>(c.given.number("mode").value_or(0));
  o.quota = c.given.number("quota").value_or(0);
  if (nvm_store_create(c.at->handle(), c.name(), &o) != 0) return c.failed();
  json answer = c.answer();
  answer["name"] = c.given.operand(2);
  c.out.document(answer);
  return exit_good;
}

exit_code remove(call& c) {
  if (!c.open(true)) return c.failed();
  const progress line{c.out, fmt::format("deleting {}", printable(c.given.operand(2)))};
  if (nvm_store_delete(c.at->handle(), c.name()) != 0) return c.failed();
  json answer = c.answer();
  answer["name"] = c.given.operand(2);
  c.out.document(answer);
  return exit_good;
}

exit_code rename(call& c) {
  if (!c.open(true)) return c.failed();
  if (nvm_store_rename(c.at->handle(), c.name(), c.given.operand(3).c_str()) != 0) return c.failed();
  json answer = c.answer();
  answer["name"] = c.given.operand(3);
  c.out.document(answer);
  return exit_good;
}

exit_code show(call& c) {
  if (!c.open(false)) return c.failed();
  nvm_store_info info;
  if (nvm_store_stat(c.at->handle(), c.name(), &info) != 0) return c.failed();
  c.out.text("{}: store {}, mode {:04o}, user {}, group {}\n", printable(info.name), info.number, info.mode, info.owner,
             info.group);
  c.out.text("{} in {} clusters, {} objects in {}, quota {}\n", size_text(info.pages * info.page_bytes), info.clusters,
             info.objects, size_text(info.used_bytes), info.quota == 0 ? "none" : size_text(info.quota));
  json answer = c.answer();
  answer.update(facts_of(info));
  answer["key_values"] = key_values_in(c, info);
  for (const json& kv : answer["key_values"])
    c.out.text("{:<8} {}\n", kv["index"].get<std::string>(), printable(kv["name"].get<std::string>()));
  answer["structures"] = structures_in(c, info);
  for (const json& one : answer["structures"]) {
    c.out.text("{} of {} {}\n", one["kind"].get<std::string>(), one["entries_are"].get<std::string>(),
               printable(one["name"].get<std::string>()));
  }
  // For a store with objects of unknown types, or without a root, it is unknown.
  const nvm_store_gc_options look{.dry_run = 1, .struct_bytes = sizeof(nvm_store_gc_options), .reserved = {}};
  nvm_store_gc_report r;
  if (nvm_store_gc(c.at->handle(), c.name(), &look, &r) == 0) {
    c.out.text("{} of its objects are garbage ({})\n", r.garbage_objects, size_text(r.garbage_bytes));
    answer["garbage_count"] = r.garbage_objects;
    answer["garbage_bytes"] = r.garbage_bytes;
  } else {
    c.out.text("which of its objects are garbage is unknown: {}\n", nvm_errormsg());
  }
  c.out.document(answer);
  return exit_good;
}

// One store, or all; those that cannot be collected are named, and the others collected.
exit_code collect(call& c) {
  const bool all = c.given.flag("all");
  if (all == (c.given.operands() > 2)) return c.misused("either a store is named or --all is given");
  const bool dry_run = c.given.flag("dry-run");
  if (!c.open(!dry_run)) return c.failed();
  std::vector<std::string> names;
  if (!all) {
    names.push_back(c.given.operand(2));
  } else if (!names_of_all(c, names)) {
    return c.failed();
  }
  const nvm_store_gc_options o{
      .dry_run = dry_run ? 1U : 0U, .struct_bytes = sizeof(nvm_store_gc_options), .reserved = {}};
  nvm_store_gc_report sum{};
  json stores = json::array();
  std::uint64_t skipped = 0;
  for (const std::string& name : names) {
    nvm_store_gc_report r;
    if (nvm_store_gc(c.at->handle(), name.c_str(), &o, &r) != 0) {
      if (!all) return c.failed();
      ++skipped;
      c.out.text("{}: left alone: {}\n", printable(name), nvm_errormsg());
      stores.push_back({{"name", name}, {"left_alone", nvm_errormsg()}});
      continue;
    }
    c.out.text("{}: {} of {} objects reachable, {} garbage ({}), {} freed\n", printable(name), r.reachable_objects,
               r.objects, r.garbage_objects, size_text(r.garbage_bytes), r.freed_objects);
    stores.push_back({{"name", name},
                      {"object_count", r.objects},
                      {"reachable_count", r.reachable_objects},
                      {"garbage_count", r.garbage_objects},
                      {"garbage_bytes", r.garbage_bytes},
                      {"freed_count", r.freed_objects},
                      {"freed_bytes", r.freed_bytes}});
    sum.garbage_objects += r.garbage_objects;
    sum.garbage_bytes += r.garbage_bytes;
    sum.freed_objects += r.freed_objects;
    sum.freed_bytes += r.freed_bytes;
  }
  json answer = c.answer();
  answer["dry_run"] = dry_run;
  answer["garbage_count"] = sum.garbage_objects;
  answer["garbage_bytes"] = sum.garbage_bytes;
  answer["freed_count"] = sum.freed_objects;
  answer["freed_bytes"] = sum.freed_bytes;
  answer["left_alone_count"] = skipped;
  answer["stores"] = std::move(stores);
  c.out.document(answer);
  return dry_run && sum.garbage_objects != 0 ? exit_negative : exit_good;
}

exit_code use(call& c) {
  if (!c.open(false)) return c.failed();
  std::uint64_t bytes = 0;
  std::uint64_t used = 0;
  json stores = json::array();
  const bool listed = each_store(c, [&](const nvm_store_info& info) {
    bytes += info.pages * info.page_bytes;
    used += info.used_bytes;
    json one = facts_of(info);
    const json own = key_values_in(c, info);
    one["key_value_count"] = own.is_null() ? json(nullptr) : json(own.size());
    const json structures = structures_in(c, info);
    one["structure_count"] = structures.is_null() ? json(nullptr) : json(structures.size());
    c.out.text("{:>10}  {}{}{}\n", size_text(info.pages * info.page_bytes), printable(info.name),
               own.empty() ? "" : fmt::format(", with {} key-value stores", own.size()),
               structures.empty() ? "" : fmt::format(", with {} lock-free structures", structures.size()));
    stores.push_back(std::move(one));
  });
  if (!listed) return c.failed();
  c.out.text("{:>10}  in all, {} of it in objects\n", size_text(bytes), size_text(used));
  json answer = c.answer();
  answer["bytes"] = bytes;
  answer["used_bytes"] = used;
  answer["stores"] = std::move(stores);
  c.out.document(answer);
  return exit_good;
}

exit_code change_mode(call& c) {
  const parsed_number mode = parse_permissions(c.given.operand(3));
  if (!mode.problem.empty()) return c.misused(fmt::format("mode \"{}\": {}", c.given.operand(3), mode.problem));
  if (!c.open(true)) return c.failed();
  if (nvm_store_chmod(c.at->handle(), c.name(), static_cast<std::uint32_t>(mode.value)) != 0) return c.failed();
  json answer = c.answer();
  answer["name"] = c.given.operand(2);
  answer["mode"] = fmt::format("{:04o}", mode.value);
  c.out.document(answer);
  return exit_good;
}

// "1000", "1000:100", ":100".
exit_code change_owner(call& c) {
  const std::string& text = c.given.operand(3);
  const std::size_t colon = text.find(':');
  std::uint64_t ids[] = {UINT32_MAX, UINT32_MAX};
  const std::string parts[] = {text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
  for (unsigned i = 0; i < 2; ++i) {
    if (parts[i].empty()) continue;
    const parsed_number id = parse_count(parts[i], UINT32_MAX - 1);
    if (!id.problem.empty()) return c.misused(fmt::format("\"{}\": {}", parts[i], id.problem));
    ids[i] = id.value;
  }
  if (parts[0].empty() && parts[1].empty()) return c.misused("neither a user nor a group is given");
  if (!c.open(true)) return c.failed();
  if (nvm_store_chown(c.at->handle(), c.name(), static_cast<std::uint32_t>(ids[0]),
                      static_cast<std::uint32_t>(ids[1])) != 0)
    return c.failed();
  json answer = c.answer();
  answer["name"] = c.given.operand(2);
  c.out.document(answer);
  return exit_good;
}

constexpr action<call> table[] = {
    {"ls", 2, 3, list},    {"create", 3, 3, create},     {"rm", 3, 3, remove},          {"mv", 4, 4, rename},
    {"stat", 3, 3, show},  {"chmod", 4, 4, change_mode}, {"chown", 4, 4, change_owner}, {"du", 2, 3, use},
    {"gc", 2, 3, collect},
};
constexpr auto actions = names_of(table);

constexpr operand operands[] = {
    {"ACTION", operand_kind::choice, true,
     "ls (names), create, rm, mv (give another name), stat (one store), chmod, chown, du (pages of all), "
     "gc (free what the root of a store does not lead to)",
     actions},
    {"PATH", operand_kind::pool_file, true, "the pool; no other process may have it open"},
    {"NAME", operand_kind::text, false, "the store; of ls and du what names begin with"},
    {"VALUE", operand_kind::text, false, "mv: the new name; chmod: permission bits; chown: USER, USER:GROUP or :GROUP"},
};
constexpr option options[] = {
    {"mode", value_kind::permissions, "MODE", "create: permission bits, 0600 if they are not given"},
    {"all", value_kind::flag, "", "gc: all stores, one after the other"},
    {"dry-run", value_kind::flag, "", "gc: say what is garbage and free nothing; the exit code is 1 if there is any"},
    {"quota", value_kind::size, "SIZE", "create: what the store's pages may take; no limit if it is not given"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"action", "as given"},
    {"name", "of the store; after mv the new one; not with ls and du"},
    {"number", "stat: of the store, never used twice in a pool"},
    {"owner", "stat: user"},
    {"group", "stat: group"},
    {"mode", "stat, chmod: permission bits, four octal digits"},
    {"created_unix_s", "stat: seconds since 1970"},
    {"pages", "stat: that it has"},
    {"bytes", "stat: of these; du: of all"},
    {"cluster_count", "stat: runs of pages"},
    {"object_count", "stat: objects"},
    {"used_bytes", "stat: by objects, whole slots and pages; du: of all"},
    {"quota_bytes", "stat: what its pages may take; 0: no limit"},
    {"root", "stat: offset of the root in the pool; 0: none"},
    {"key_values[].name", "stat: of a key-value store in it; null in place of all where this user may not attach it"},
    {"key_values[].index", "as holdfast kv has it"},
    {"structures[].name", "stat: of a lock-free structure in it; null in place of all likewise"},
    {"structures[].kind", "list, hash table, skip list or tree"},
    {"structures[].entries_are", "words or bytes"},
    {"garbage_count", "stat, gc: objects that the root does not lead to; not where that is unknown"},
    {"garbage_bytes", "stat, gc: of these, as asked for"},
    {"dry_run", "gc: true: nothing was freed"},
    {"freed_count", "gc: of the garbage"},
    {"freed_bytes", "gc: of these, as asked for"},
    {"left_alone_count", "gc: stores that could not be collected"},
    {"stores[].name", "ls, du, gc: in the order of names"},
    {"stores[].number", "du: as of stat, and so are the fields below"},
    {"stores[].owner", "user"},
    {"stores[].group", "group"},
    {"stores[].mode", "permission bits"},
    {"stores[].created_unix_s", "seconds since 1970"},
    {"stores[].pages", "that it has"},
    {"stores[].bytes", "of these"},
    {"stores[].cluster_count", "runs of pages"},
    {"stores[].object_count", "objects"},
    {"stores[].reachable_count", "gc: of them"},
    {"stores[].garbage_count", "gc: of them"},
    {"stores[].garbage_bytes", "gc: as asked for"},
    {"stores[].freed_count", "gc: of the garbage"},
    {"stores[].freed_bytes", "gc: as asked for"},
    {"stores[].left_alone", "gc: why it could not be collected"},
    {"stores[].used_bytes", "by objects"},
    {"stores[].quota_bytes", "0: no limit"},
    {"stores[].root", "0: none"},
    {"stores[].key_value_count", "key-value stores in it; null: this user may not attach it"},
    {"stores[].structure_count", "lock-free structures in it, likewise"},
};
constexpr std::string_view examples[] = {
    "holdfast store ls state.nvm tenant/", "holdfast store create state.nvm robot --mode 640",
    "holdfast store chmod state.nvm robot 0600", "holdfast store gc state.nvm --all --dry-run",
    "holdfast store du --json state.nvm | jq .bytes"};

exit_code run(const arguments& given, console& out) {
  call c{given, out};
  const bool wants_value = c.action == "mv" || c.action == "chmod" || c.action == "chown";
  return run_action(table, c,
                    given.operands() < 3 || !wants_value ? "the name of the store is missing" : "a value is missing");
}

}  // namespace
}  // namespace store_verb

extern const command store_command;
const command store_command{
    .name = "store",
    .summary = "list, create, delete, rename and collect the object stores of a pool, and set their rights",
    .description =
        "Works on the named object stores that lie in a pool (see docs/stores.md). ls, stat, du and "
        "gc --dry-run open it read-only.\n\n"
        "gc frees objects that neither the root of their store nor a held object leads to, by pointers of described "
        "types (see docs/gc.md). What leads into a store from elsewhere keeps nothing, and a store without a root is "
        "left alone.\n\n"
        "Rights are asked as those of files, of the user who runs the command: rm and mv are for a store's owner. They "
        "keep apart what one process does for several; what keeps other users out is the mode of the pool's file.\n\n"
        "A command that is killed while it deletes a store has taken its name away or not; pages that are left are "
        "freed "
        "by the next change of any store.",
    .operands = store_verb::operands,
    .options = store_verb::options,
    .fields = store_verb::fields,
    .examples = store_verb::examples,
    .run = store_verb::run,
};

}  // namespace nvm::cli
