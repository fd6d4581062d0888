// holdfast types: the layouts of the types that a pool knows.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/pool_types.hpp"
#include "cli/static_facts.hpp"
#include "nvm/describe.h"

namespace nvm::cli {
namespace types_verb {
namespace {

constexpr operand operands[] = {
    {"PATH", operand_kind::pool_file, true, "the pool; no process may have it open for writing"}};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"types[].name", "as the program's source has it"},
    {"types[].id", "type id of its objects"},
    {"types[].alias_of", "id of the type that this is another name of; then nothing else is said"},
    {"types[].size_bytes", "of one; a larger object is an array of it, or ends with a flexible array"},
    {"types[].alignment", "in bytes"},
    {"types[].fingerprint", "of the layout, hexadecimal"},
    {"types[].fields[].name", "of the field; with a dot if it lies in a structure inside the type"},
    {"types[].fields[].offset", "bytes from the object's start; inside of a structure from the start of the element"},
    {"types[].fields[].kind",
     "signed, unsigned, bool, char, float, pointer, weak pointer, static pointer, plain pointer (not NVM_PTR), bytes "
     "(a "
     "union, bit-fields), structure, union, by visitor (a function of the program tells the pointers in it), or reset "
     "(zero after each open)"},
    {"types[].fields[].element_bytes", "size of one element"},
    {"types[].fields[].count", "elements; 0: as many as the object has room for"},
    {"types[].fields[].target", "id of the type that a pointer points to, 0: any; or of the type with the visitor"},
    {"types[].fields[].inner", "of a structure, a union, or by visitor: how many of the fields that follow are inside"},
    {"undescribed[].id", "type id of objects whose pointers cannot be told without their program"},
    {"undescribed[].objects", "how many there are"},
    {"undescribed[].visitor_of", "id of the type whose visitor the program has; absent where no layout is known"},
    {"statics[].name", "function or static object of a program that fields lead to; absent: it has no name"},
    {"statics[].build", "build id and path of its program or library; absent: not known"},
    {"statics[].fields", "how many fields lead there"},
    {"types[].fields[].tag", "of a union: which member counts (docs/format.md, Type map)"},
};
constexpr std::string_view examples[] = {"holdfast types cache.nvm", "holdfast types --json cache.nvm"};

json document_of(const pool_type& t) {
  json o = {{"name", t.name}, {"id", t.facts.id}};
  if (t.facts.canonical_id != t.facts.id) {
    o["alias_of"] = t.facts.canonical_id;
    return o;
  }
  o["size_bytes"] = t.facts.size;
  o["alignment"] = t.facts.align;
  o["fingerprint"] = fmt::format("{:016x}", t.facts.fingerprint);
  o["fields"] = json::array();
  for (const pool_field& f : t.fields) {
    json field = {{"name", f.name},
                  {"offset", f.at.offset},
                  {"kind", kind_name(f.at.kind)},
                  {"element_bytes", f.at.bytes},
                  {"count", f.at.count}};
    const bool has_target = f.at.kind == NVM_FIELD_POINTER || f.at.kind == NVM_FIELD_VOLATILE_POINTER ||
                            f.at.kind == NVM_FIELD_WEAK_POINTER || f.at.kind == NVM_FIELD_STATIC_POINTER ||
                            f.at.kind == NVM_FIELD_BY_VISITOR;
    if (has_target) field["target"] = f.at.target;
    if (f.at.kind == NVM_FIELD_STRUCTURE || f.at.inner != 0) field["inner"] = f.at.inner;
    if (f.at.kind == NVM_FIELD_UNION) field["tag"] = f.tag;
    o["fields"].push_back(std::move(field));
  }
  return o;
}

void print(const pool_type& t, const pool_types& types, const console& out) {
  if (t.facts.canonical_id != t.facts.id) {
    out.text("{}  type id {} (0x{:08x}), another name of {}\n", out.styled(t.name, style::strong), t.facts.id,
             t.facts.id, types.name_of(t.facts.canonical_id));
    return;
  }
  out.text("{}  type id {} (0x{:08x}), {} bytes, aligned to {}\n", out.styled(t.name, style::strong), t.facts.id,
           t.facts.id, t.facts.size, t.facts.align);
  std::vector<std::size_t> ends;  // of the structures around the field
  for (std::size_t i = 0; i < t.fields.size(); ++i) {
    while (!ends.empty() && ends.back() == i) ends.pop_back();
    const pool_field& f = t.fields[i];
    out.text("{:>8}  {:{}}{:<24} {}\n", f.at.offset, "", 2 * ends.size(), f.name.empty() ? "-" : f.name,
             kind_text(f, types));
    if (f.at.inner != 0) ends.push_back(i + 1 + f.at.inner);
  }
}

// Objects whose pointers cannot be found without the program.
struct undescribed {
  const pool_types& types;
  const console& out;
  json list = json::array();
};
int tell(std::uint32_t type, std::uint64_t objects, std::uint32_t visitor_of, void* to) {
  auto* u = static_cast<undescribed*>(to);
  std::string why = "no layout";
  json one = {{"id", type}, {"objects", objects}};
  if (visitor_of != 0) {
    one["visitor_of"] = visitor_of;
    why = "only the program's visitor of " + u->types.name_of(visitor_of) + " knows its pointers";
  }
  u->out.text("{}  not described: {} objects, {}\n", u->types.name_of(type), objects, why);
  u->list.push_back(std::move(one));
  return 0;
}

exit_code run(const arguments& given, console& out) {
  const std::string& path = given.operand(0);
  nvm_pool_options read_only{};
  read_only.read_only = 1;
  const auto close = [](NVM_POOL* p) { (void)nvm_pool_close(p); };  // read-only: nothing that could fail to be written
  const std::unique_ptr<NVM_POOL, decltype(close)> pool{nvm_pool_open_with(path.c_str(), &read_only), close};
  if (!pool) return out.fail_library(path);
  const auto types = pool_types::of(pool.get());
  if (!types) return out.fail_library(path);
  json answer = {{"path", path}, {"types", json::array()}};
  for (const auto& [id, t] : types->all()) {
    print(t, *types, out);
    if (out.as_json()) answer["types"].push_back(document_of(t));
  }
  if (types->all().empty()) out.text("{}: no types; programs compiled by holdfast-cc leave them behind\n", path);
  undescribed others{*types, out};
  if (nvm_pool_each_undescribed(pool.get(), tell, &others) < 0) return out.fail_library(path);
  answer["undescribed"] = std::move(others.list);
  auto statics = statics_of(pool.get());
  if (!statics) return out.fail_library(path);
  print_each(*statics, out);
  answer["statics"] = std::move(statics->list);
  out.document(answer);
  return exit_good;
}

}  // namespace
}  // namespace types_verb

extern const command types_command;
const command types_command{
    .name = "types",
    .summary = "list the types that a pool knows, with their fields",
    .description =
        "Lists the layouts of durable types that programs compiled by holdfast-cc have left in the pool: for each "
        "field its place, its name and what it is; then the types of objects whose pointers cannot be told without "
        "their program, and what of programs static pointers lead to. The pool is opened read-only and its file not "
        "changed.",
    .operands = types_verb::operands,
    .options = {},
    .fields = types_verb::fields,
    .examples = types_verb::examples,
    .run = types_verb::run,
};

}  // namespace nvm::cli
