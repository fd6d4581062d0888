#include "object/type_merge.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace nvm::object {
namespace {

using layout::field_kind;
using layout::type_field;
using layout::type_record;

const char* name_of(field_kind k) noexcept {
  switch (k) {
    case field_kind::signed_integer:
      return "signed";
    case field_kind::unsigned_integer:
      return "unsigned";
    case field_kind::boolean:
      return "bool";
    case field_kind::character:
      return "char";
    case field_kind::floating:
      return "float";
    case field_kind::pointer:
      return "pointer";
    case field_kind::volatile_pointer:
      return "plain pointer";
    case field_kind::bytes:
      return "bytes";
    case field_kind::structure:
      return "structure";
    case field_kind::weak_pointer:
      return "weak pointer";
    case field_kind::static_pointer:
      return "static pointer";
    case field_kind::by_visitor:
      return "by visitor";
    case field_kind::tagged_union:
      return "union";
  }
  return "?";
}

// Whether a pointer may be declared as another kind: not where one kind leads into the pool and the other into the
// program.
bool may_become(field_kind a, field_kind b) noexcept {
  if (!layout::is_pointer(a) || !layout::is_pointer(b)) return false;
  if (a == field_kind::volatile_pointer || b == field_kind::volatile_pointer) return true;
  return (a == field_kind::static_pointer) == (b == field_kind::static_pointer);
}

bool same(const type_record& a, const type_record& b) noexcept {
  return a.bytes == b.bytes && std::memcmp(&a, &b, a.bytes) == 0;
}

bool has_field(const type_record& r, std::string_view name) noexcept {
  const type_field* f = fields_of(r);
  return std::any_of(f, f + r.fields, [&](const type_field& each) { return name == text_at(r, each.name); });
}

// Bit-fields that share bytes: their places and widths, without their names.  Empty: no bit-fields.
std::string bits_in(std::string_view name) {
  std::string bits;
  for (std::size_t at = name.find(':'); at != name.npos; at = name.find(':', at + 1)) {
    bits += name.substr(at, name.find('|', at) - at);
  }
  return bits;
}

// May throw std::bad_alloc.
bool harmless(const type_record& before, const type_record& now) {
  if (before.canonical != now.canonical || before.size != now.size || before.align != now.align ||
      before.fields != now.fields || std::strcmp(object::name_of(before), object::name_of(now)) != 0) {
    return false;
  }
  for (std::uint32_t i = 0; i < now.fields; ++i) {
    const type_field& a = fields_of(before)[i];
    const type_field& b = fields_of(now)[i];
    if (a.offset != b.offset || a.element_bytes != b.element_bytes || a.count != b.count || a.inner != b.inner) {
      return false;
    }
    // A map that knows less about a pointer than the other contradicts nothing.
    const bool refined =
        may_become(a.kind, b.kind) && (a.kind != b.kind || a.target == b.target || a.target == 0 || b.target == 0);
    const bool tagged = a.kind == field_kind::tagged_union;
    if (!refined && (a.kind != b.kind || (!tagged && a.target != b.target))) return false;
    if (std::strcmp(tag_of(before, a), tag_of(now, b)) != 0) return false;
    const char* name = text_at(now, b.name);
    if (std::strcmp(text_at(before, a.name), name) != 0 &&
        (has_field(before, name) || bits_in(text_at(before, a.name)) != bits_in(name))) {
      return false;
    }
  }
  return true;
}

}  // namespace

type_comparison compare_types(const type_map& stored, const type_map& ours) {
  type_comparison c;
  for (const type_record* r : ours.records()) {
    const type_record* there = stored.find(r->id);
    if (there != nullptr && same(*there, *r)) continue;
    c.changes = true;
    if (there != nullptr && !harmless(*there, *r)) c.differing.push_back({there, r});
  }
  return c;
}

type_map_writer::words merge_types(const type_map& stored, const type_map& ours) {
  type_map_writer w;
  for (const type_record* r : stored.records()) w.copy(*r);
  for (const type_record* r : ours.records()) w.copy(*r);
  w.drop_loose_aliases();
  return w.finish();
}

bool concerns(const type_comparison& c, const type_map& stored, std::uint32_t type) noexcept {
  const type_record* r = stored.find(type);
  if (r == nullptr) return !layout::is_without_pointers(type) && !c.differing.empty();
  return std::any_of(c.differing.begin(), c.differing.end(),
                     [&](const type_difference& d) { return d.stored->id == r->id || d.stored->id == r->canonical; });
}

void describe(const type_record& r, char* text, std::size_t bytes) noexcept {
  std::size_t used = 0;
  const auto add = [&](const char* format, auto... arguments) {
    if (used >= bytes) return;
    const int n = std::snprintf(text + used, bytes - used, format, arguments...);
    if (n > 0) used += static_cast<std::size_t>(n);
  };
  if (r.canonical != r.id) {
    add("%s: another name of id 0x%" PRIx32, object::name_of(r), r.canonical);
    return;
  }
  add("%s: %" PRIu64 " bytes {", object::name_of(r), r.size);
  for (std::uint32_t i = 0; i < r.fields; ++i) {
    const type_field& f = fields_of(r)[i];
    add("%s%s: ", i == 0 ? "" : ", ", text_at(r, f.name));
    const bool number = f.kind <= field_kind::floating && f.kind != field_kind::character;
    if (f.count != 1) add("%" PRIu64 " ", f.count);
    add("%s", name_of(f.kind));
    if (number && f.kind != field_kind::boolean) add("%" PRIu64, f.element_bytes * 8);
    if (layout::is_container(f.kind) || f.kind == field_kind::bytes) add("(%" PRIu64 ")", f.element_bytes);
    add(" at %" PRIu64, f.offset);
  }
  add("%s", "}");
  if (used >= bytes && bytes > 4) std::memcpy(text + bytes - 4, "...", 4);
}

}  // namespace nvm::object
