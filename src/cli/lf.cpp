// holdfast lf: the lock-free structures of a pool, or of an object store in it, from the command line.
//
// The pool is opened for change, since opening a structure frees the remains of a crash; no entry changes.
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/actions.hpp"
#include "cli/arguments.hpp"
#include "cli/kv_actions.hpp"
#include "cli/lf_names.hpp"
#include "cli/progress.hpp"
#include "nvm/lockfree.hpp"
#include "nvm/store_lockfree.h"

namespace nvm::cli {
namespace lf_verb {
namespace {

using kv_actions::add_bytes;
using kv_actions::printable;

std::string_view name_of_kind(int kind) noexcept {
  return kind > 0 && static_cast<std::size_t>(kind) < std::size(kind_names) ? kind_names[kind] : "unknown";
}

constexpr std::string_view recoveries[] = {"by-kind", "search", "traversal"};  // enum nvm_lf_recovery, less 1

// One call, and the structure that it is about.
struct call {
  const arguments& given;
  console& out;
  const std::string& action = given.operand(0);
  const std::string& path = given.operand(1);
  bool base64 = given.flag("base64");
  const std::string in = given.text("in");  // the object store that they lie in; empty: the pool has them
  std::optional<pool> at{};
  nvm_store* home = nullptr;  // the object store that --in names
  nvm_lf* structure = nullptr;
  int kind = 0;
  bool of_bytes = false;
  std::optional<std::string> from{};  // the key that a scan begins with, as bytes

  [[nodiscard]] json answer() const {
    json o = {{"path", path}, {"action", action}};
    if (!in.empty()) o["object_store"] = in;
    if (structure != nullptr) {
      o["structure"] = given.operand(2);
      o["kind"] = name_of_kind(kind);
      o["entries_are"] = of_bytes ? "bytes" : "words";
    }
    return o;
  }
  [[nodiscard]] exit_code misused(std::string what) const {
    return out.fail({exit_usage, "lf " + action, "USAGE", std::move(what)});
  }
  [[nodiscard]] exit_code failed() const { return out.fail_library(path); }
  [[nodiscard]] std::uint32_t recovery() const {
    const auto method = given.choice("recovery");
    if (!method) return 0;
    return 1 + static_cast<std::uint32_t>(std::find(std::begin(recoveries), std::end(recoveries), *method) -
                                          std::begin(recoveries));
  }
  [[nodiscard]] bool open() {
    at = pool::open(path.c_str(), nvm_pool_options{});
    if (!at || in.empty()) return at.has_value();
    home = nvm_store_attach(at->handle(), in.c_str(), 0);
    return home != nullptr;
  }
  [[nodiscard]] nvm_lf* open_named(const std::string& name, const nvm_lf_options& o) const {
    return home == nullptr ? nvm_lf_open(at->handle(), name.c_str(), &o) : nvm_lf_open_in(home, name.c_str(), &o);
  }
  // Opens the structure that the command line names, of any kind.
  [[nodiscard]] bool open_structure() {
    if (!open()) return false;
    const std::string& name = given.operand(2);
    for (const unsigned flags : {0U, unsigned{NVM_LF_BYTES}}) {
      nvm_lf_options o{};
      o.flags = flags;
      o.mode = 1;  // it is there
      o.recovery = recovery();
      structure = open_named(name, o);
      of_bytes = flags != 0;
      if (structure != nullptr || nvm_errno() != NVM_E_TYPE_MISMATCH) break;
    }
    if (structure == nullptr) return false;
    kind = nvm_lf_kind_of(structure);
    return kind > 0;
  }
};

// ---- all entries ----

std::uint64_t word_in(std::string_view bytes) {
  std::uint64_t word = 0;
  (void)bytes.copy(reinterpret_cast<char*>(&word), sizeof word);
  return word;
}

// Calls visit(key, value) for each entry, as bytes, until it returns false; false: the library failed.
template <class Visit>
bool each_entry(const call& c, Visit&& visit) {
  struct state {
    Visit& visit;
    bool stopped = false;
    std::exception_ptr thrown{};  // by visit(), which the library must not see
    std::size_t shown = 0;
    std::string* last = nullptr;  // becomes the key that was shown last
    int show(std::string_view key, std::string_view value) noexcept {
      try {
        ++shown;
        if (last != nullptr) *last = key;
        stopped = !visit(key, value);
      } catch (...) {
        thrown = std::current_exception();
        stopped = true;
      }
      return stopped ? 1 : 0;
    }
  } s{visit};
  constexpr std::size_t at_a_time = 1000;
  const auto bytes = [](const nvm_lf_entry* e, void* argument) {
    return static_cast<state*>(argument)->show({static_cast<const char*>(e->key), e->key_bytes},
                                               {static_cast<const char*>(e->value), e->value_bytes});
  };
  const auto words = [](std::uint64_t key, std::uint64_t value, void* argument) {
    return static_cast<state*>(argument)->show({reinterpret_cast<const char*>(&key), sizeof key},
                                               {reinterpret_cast<const char*>(&value), sizeof value});
  };
  int ended = 0;
  if (c.from) {
    std::string at = *c.from;
    std::string last = at;
    s.last = &last;
    for (unsigned flags = 0; ended == 0; flags = NVM_LF_AFTER) {
      s.shown = 0;
      ended = c.of_bytes ? nvm_lf_scan_from(c.structure, at.data(), at.size(), flags, at_a_time, bytes, &s)
                         : nvm_lf_scan_from64(c.structure, word_in(at), flags, at_a_time, words, &s);
      if (s.shown < at_a_time) break;
      at = last;
    }
  } else {
    std::uint64_t cursor = 0;
    do {
      ended = c.of_bytes ? nvm_lf_scan(c.structure, &cursor, at_a_time, bytes, &s)
                         : nvm_lf_scan64(c.structure, &cursor, at_a_time, words, &s);
    } while (ended == 0 && cursor != 0);
  }
  if (s.thrown) std::rethrow_exception(s.thrown);
  return ended >= 0;
}

std::string text_of(const call& c, std::string_view bytes) {
  if (!c.of_bytes) return fmt::format("{}", word_in(bytes));
  return c.base64 ? base64_of(bytes) : printable(bytes);
}
void add(json& o, const call& c, const std::string& name, std::string_view bytes) {
  if (c.of_bytes) {
    add_bytes(o, name, bytes, c.base64);
  } else {
    o[name] = word_in(bytes);
  }
}

// The bytes of a key as it is written on the command line; nothing: no_key() says why.
std::optional<std::string> key_in(const call& c, const std::string& text) {
  if (c.of_bytes) return c.base64 ? bytes_of_base64(text) : std::optional{text};
  const auto word = word_of(text);
  if (!word) return std::nullopt;
  return std::string{reinterpret_cast<const char*>(&*word), sizeof *word};
}
std::string no_key(const call& c, const std::string& text) {
  if (c.of_bytes) return "the key is no base64";
  return fmt::format("\"{}\" is no number: the keys of this structure have 8 bytes", text);
}

// ---- the actions ----

exit_code list(call& c) {
  if (!c.open()) return c.failed();
  std::vector<std::pair<std::string, int>> all;
  const auto add = [](const char* name, int kind, void* argument) {
    static_cast<std::vector<std::pair<std::string, int>>*>(argument)->emplace_back(name, kind);
    return 0;
  };
  const int ended = c.home == nullptr ? nvm_lf_names(c.at->handle(), add, &all) : nvm_lf_names_in(c.home, add, &all);
  if (ended != 0) return c.failed();
  std::sort(all.begin(), all.end());
  json answer = c.answer();
  answer["structures"] = json::array();
  for (const auto& [name, kind] : all) {
    c.out.text("{:<8} {}\n", name_of_kind(kind), printable(name));
    answer["structures"].push_back({{"name", name}, {"kind", name_of_kind(kind)}});
  }
  if (all.empty()) c.out.text("{}: no lock-free structures\n", c.path);
  c.out.document(answer);
  return exit_good;
}

exit_code get(call& c) {
  if (!c.open_structure()) return c.failed();
  const std::string& text = c.given.operand(3);
  const auto key = key_in(c, text);
  if (!key) return c.misused(no_key(c, text));
  std::string value(sizeof(std::uint64_t), '\0');
  int found = 0;
  if (c.of_bytes) {
    const lf_guard inside{c.structure};
    nvm_lf_entry e{};
    found = inside ? nvm_lf_find(c.structure, key->data(), key->size(), &e) : -1;
    if (found == 1) value.assign(static_cast<const char*>(e.value), e.value_bytes);
  } else {
    std::uint64_t word = 0;
    found = nvm_lf_get64(c.structure, word_in(*key), &word);
    std::copy_n(reinterpret_cast<const char*>(&word), sizeof word, value.data());
  }
  if (found < 0) return c.failed();
  json answer = c.answer();
  answer["found"] = found == 1;
  if (found == 1) {
    c.out.text("{}\n", c.of_bytes && !c.base64 ? value : text_of(c, value));
    add(answer, c, "value", value);
  }
  c.out.document(answer);
  return found == 1 ? exit_good : exit_negative;
}

// Printed as they are walked: a structure may hold more than fits into memory as text.
exit_code scan(call& c) {
  if (!c.open_structure()) return c.failed();
  if (c.given.flag("from")) {
    const std::string text = c.given.text("from");
    if (c.kind == NVM_LF_HASH) return c.misused("--from: a hash table has no order of keys");
    c.from = key_in(c, text);
    if (!c.from) return c.misused(no_key(c, text));
  }
  const std::uint64_t limit = c.given.number("limit").value_or(UINT64_MAX);
  std::uint64_t count = 0;
  if (c.out.as_json()) {
    std::string head = line_of(c.answer());
    head.pop_back();
    fmt::print(stdout, "{}, \"entries\": [", head);
  }
  const bool walked = each_entry(c, [&](std::string_view key, std::string_view value) {
    if (count == limit) return false;
    ++count;
    if (c.out.as_json()) {
      json o;
      add(o, c, "key", key);
      add(o, c, "value", value);
      fmt::print(stdout, "{}\n  {}", count == 1 ? "" : ",", line_of(o));
    } else {
      c.out.text("{}\t{}\n", text_of(c, key), text_of(c, value));
    }
    return true;
  });
  const failure why_not = walked ? failure{} : library_failure(c.path);
  if (c.out.as_json()) {
    json tail = walked ? json{} : document_of(why_not);
    tail["count"] = count;
    fmt::print(stdout, "\n], {}\n", line_of(tail).substr(1));
  }
  if (!walked) {
    c.out.error_line(why_not);
    return why_not.exit;
  }
  return exit_good;
}

// Sums over all entries; with check, also whether each is found by its key and their number is the count.
exit_code look_at_all(call& c) {
  const bool checks = c.action == "check";
  if (!c.open_structure()) return c.failed();
  std::uint64_t counted = 0;
  std::uint64_t walked = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  std::uint64_t not_found = 0;
  bool done = false;
  {
    const progress line{c.out, fmt::format("{} {}", checks ? "checking" : "counting", c.given.operand(2))};
    done = each_entry(c, [&](std::string_view key, std::string_view value) {
      ++walked;
      key_bytes += key.size();
      value_bytes += value.size();
      if (!checks) return true;
      std::uint64_t word = 0;
      const int found = c.of_bytes ? nvm_lf_get(c.structure, key.data(), key.size(), nullptr, 0, nullptr)
                                   : nvm_lf_get64(c.structure, word_in(key), &word);
      const bool same = found == 1 && (c.of_bytes || word == word_in(value));
      not_found += same ? 0 : 1;
      return true;
    });
    done = done && nvm_lf_get_count(c.structure, &counted) == 0;
  }
  if (!done) return c.failed();
  json answer = c.answer();
  answer["count"] = counted;
  answer["key_bytes"] = key_bytes;
  answer["value_bytes"] = value_bytes;
  const bool sound = walked == counted && not_found == 0;
  c.out.text("{}: {} of {}, {} entries, {} bytes of keys, {} bytes of values\n", printable(c.given.operand(2)),
             name_of_kind(c.kind), c.of_bytes ? "bytes" : "words", counted, key_bytes, value_bytes);
  if (checks) {
    answer["walked_count"] = walked;
    answer["not_found_count"] = not_found;
    answer["sound"] = sound;
    if (walked != counted) c.out.text("{} entries are counted, a walk meets {}\n", counted, walked);
    if (not_found != 0) c.out.text("{} entries that a walk meets are not found by their keys\n", not_found);
    if (sound) c.out.text("each is found by its key, and there are as many as are counted\n");
  }
  c.out.document(answer);
  return checks && !sound ? exit_negative : exit_good;
}

std::uint32_t number_in(std::string_view name, std::span<const std::string_view> names) {
  return static_cast<std::uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

exit_code create(call& c) {
  nvm_lf_options o{};
  o.mode = 2;  // it is new
  o.kind = number_in(c.given.choice("kind").value_or("hash"), kind_names);
  o.flags = (c.given.flag("words") ? 0U : unsigned{NVM_LF_BYTES}) |
            (c.given.flag("volatile-links") ? unsigned{NVM_LF_VOLATILE_LINKS} : 0U) |
            (c.given.flag("no-checksums") ? unsigned{NVM_LF_NO_CHECKSUMS} : 0U);
  o.expected = c.given.number("expected").value_or(0);
  const std::uint64_t area = c.given.number("area").value_or(0);
  if (area > NVM_LF_AREA_MAX) return c.misused(fmt::format("--area: at most {} bytes", NVM_LF_AREA_MAX));
  o.area_bytes = static_cast<std::uint32_t>(area);
  o.recovery = c.recovery();
  if (!c.open()) return c.failed();
  c.structure = c.open_named(c.given.operand(2), o);
  if (c.structure == nullptr) return c.failed();
  c.kind = nvm_lf_kind_of(c.structure);
  c.of_bytes = nvm_lf_holds_bytes(c.structure) == 1;
  c.out.document(c.answer());
  return exit_good;
}

exit_code drop(call& c) {
  if (!c.open_structure()) return c.failed();
  const json answer = c.answer();
  const char* const name = c.given.operand(2).c_str();
  if ((c.home == nullptr ? nvm_lf_drop(c.at->handle(), name) : nvm_lf_drop_in(c.home, name)) != 0) return c.failed();
  c.out.document(answer);
  return exit_good;
}

constexpr action<call> table[] = {
    {"list", 2, 2, list},         {"get", 4, 4, get},       {"scan", 3, 3, scan}, {"stat", 3, 3, look_at_all},
    {"check", 3, 3, look_at_all}, {"create", 3, 3, create}, {"drop", 3, 3, drop},
};
constexpr auto actions = names_of(table);

constexpr std::string_view kinds[] = {"hash", "list", "skiplist", "tree"};
constexpr operand operands[] = {
    {"ACTION", operand_kind::choice, true,
     "list (the structures), get (an entry), scan (all entries), stat (how many there are), check (whether each is "
     "found by its key), create (a structure), drop (a structure with all that is in it)",
     actions},
    {"PATH", operand_kind::pool_file, true, "the pool; no other process may have it open"},
    {"NAME", operand_kind::text, false, "all but list: the structure"},
    {"KEY", operand_kind::text, false, "get: the key; of a structure of words a number, also hexadecimal after 0x"},
};
constexpr option options[] = {
    {"in", value_kind::text, "NAME", "the structures in this object store, in place of the pool's own"},
    {"base64", value_kind::flag, "", "get, scan: keys and values of bytes are given and printed in base64"},
    {"limit", value_kind::count, "N", "scan: at most N entries"},
    {"from", value_kind::text, "KEY", "scan: in the order of keys, from KEY on; not of a hash table"},
    {"kind", value_kind::choice, "KIND", "create: hash (by default), list, skiplist or tree", kinds},
    {"words", value_kind::flag, "", "create: keys and values are numbers of 8 bytes; otherwise bytes of any size"},
    {"expected", value_kind::count, "N", "create: about how many keys it will have"},
    {"volatile-links", value_kind::flag, "", "create: entries alone are durable; not of a tree"},
    {"no-checksums", value_kind::flag, "", "create: entries of bytes have none"},
    {"area", value_kind::size, "SIZE",
     "create, of the first structure of a pool: bytes of an area that recovery looks at, 4K (by default) to 256K"},
    {"recovery", value_kind::choice, "METHOD",
     "how nodes are found that a crash has left: by-kind (by default), search or traversal", recoveries},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"action", "as given"},
    {"object_store", "as --in has it; only with that"},
    {"structure", "its name; not with list"},
    {"kind", "list, hash, skiplist or tree; not with list"},
    {"entries_are", "words: keys and values are numbers of 8 bytes; bytes: they are of any size"},
    {"structures[].name", "list: in the order of names"},
    {"structures[].kind", "of the structure"},
    {"found", "get: whether there was such an entry"},
    {"value", "get: the value"},
    {"value_base64", "in its place if it is no UTF-8, or with --base64"},
    {"entries[].key", "scan: in the order of the walk"},
    {"entries[].key_base64", "in its place, as for values"},
    {"entries[].value", "of the entry"},
    {"entries[].value_base64", "in its place"},
    {"count", "entries scanned; of stat and check: counted"},
    {"key_bytes", "stat, check: sum over all entries"},
    {"value_bytes", "stat, check: sum over all entries"},
    {"walked_count", "check: entries that a walk meets"},
    {"not_found_count", "check: of these, not found by their keys, or with another value"},
    {"sound", "check: whether all were found, and as many as are counted"},
};
constexpr std::string_view examples[] = {
    "holdfast lf list cache.nvm", "holdfast lf scan cache.nvm sessions --from 2024- --limit 10",
    "holdfast lf get cache.nvm counters 0x2a", "holdfast lf stat cache.nvm seen --in tenant/17"};

exit_code run(const arguments& given, console& out) {
  call c{given, out};
  return run_action(table, c, given.operands() < 3 ? "the name of the structure is missing" : "the key is missing");
}

}  // namespace
}  // namespace lf_verb

extern const command lf_command;
const command lf_command{
    .name = "lf",
    .summary = "list, read, check, make and drop the lock-free structures of a pool",
    .description =
        "Reads, makes and drops the named lock-free structures that lie in a pool (see docs/lockfree.md). The pool is "
        "opened for "
        "change, "
        "since opening a structure frees what a crash has left of it; entries change by drop alone.\n\n"
        "check compares a walk over the structure with look-ups by key and with its count; links, page map and "
        "checksums "
        "are what `holdfast check` looks at.\n\n"
        "The exit code is 1 when get finds no such entry, and when check finds something. scan escapes what cannot be "
        "printed; get prints the bytes as they are.",
    .operands = lf_verb::operands,
    .options = lf_verb::options,
    .fields = lf_verb::fields,
    .examples = lf_verb::examples,
    .run = lf_verb::run,
};

}  // namespace nvm::cli
