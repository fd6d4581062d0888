// holdfast types: the layouts of the types that a pool knows.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/pool_types.hpp"

namespace nvm::cli {
namespace types_verb {
namespace {

constexpr operand operands[] = {
    {"PATH", operand_kind::pool_file, true, "the pool; nobody may have it open for writing"}};
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
     "signed, unsigned, bool, char, float, pointer, plain pointer (not NVM_PTR), bytes (a union) or structure"},
    {"types[].fields[].element_bytes", "size of one element"},
    {"types[].fields[].count", "elements; 0: as many as the object has room for"},
    {"types[].fields[].target", "id of the type that a pointer points to, 0: any"},
    {"types[].fields[].inner", "of a structure: how many of the fields that follow are those of an element"},
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
    if (f.at.kind == NVM_FIELD_POINTER || f.at.kind == NVM_FIELD_VOLATILE_POINTER) field["target"] = f.at.target;
    if (f.at.kind == NVM_FIELD_STRUCTURE) field["inner"] = f.at.inner;
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
             kind_text(f.at, types));
    if (f.at.inner != 0) ends.push_back(i + 1 + f.at.inner);
  }
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
        "field its place, its name and what it is. The pool is opened read-only and its file not changed.",
    .operands = types_verb::operands,
    .options = {},
    .fields = types_verb::fields,
    .examples = types_verb::examples,
    .run = types_verb::run,
};

}  // namespace nvm::cli
