#include "object/described_type.hpp"

#include <string_view>

namespace nvm::object {
namespace {

// The name that type ids are made from: `text` without leading words that do not count.
std::string canonical_name(std::string_view text) {
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view word : {" ", "const ", "volatile ", "struct ", "union ", "enum ", "class ", "::"}) {
      if (!text.starts_with(word)) continue;
      text.remove_prefix(word.size());
      more = true;
    }
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  return std::string{text};
}

std::uint32_t target_of(const nvm_field_description& f) {
  if (f.target == nullptr) return 0;
  // A visitor goes by the text that NVM_VISIT has.
  if (f.kind == NVM_FIELD_BY_VISITOR) return layout::type_id_of(f.target);
  const std::string name = canonical_name(f.target);
  return name == "void" ? 0 : layout::type_id_of(name.c_str());
}

}  // namespace

type_map_writer::words map_of(const nvm_type_description& type) {
  type_description t;
  t.name = canonical_name(type.name);
  t.size = type.size;
  t.align = type.align;
  for (std::uint32_t i = 0; i < type.field_count; ++i) {
    const nvm_field_description& f = type.fields[i];
    type_description::field field;
    field.place = {f.offset, f.bytes, f.count, layout::field_kind{f.kind}, target_of(f), 0, f.inner};
    field.name = f.name;
    if (f.tag != nullptr) field.tag = f.tag;
    t.fields.push_back(std::move(field));
  }
  type_map_writer w;
  w.add(t);
  if (t.name != type.name) w.add_alias(type.name, layout::type_id_of(t.name.c_str()));
  return w.finish();
}

}  // namespace nvm::object
