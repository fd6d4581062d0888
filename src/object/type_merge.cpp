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
    case field_kind::reset:
      return "reset";
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

// Bytes that nothing is lost of when they become zero: no pointer into the pool is among them, which may be counted.
bool may_be_reset(const type_field& f) noexcept {
  const type_field* const inner = &f + 1;
  return f.kind != field_kind::pointer && f.kind != field_kind::weak_pointer && f.kind != field_kind::by_visitor &&
         f.kind != field_kind::tagged_union &&
         (f.kind != field_kind::structure || std::all_of(inner, inner + f.inner, may_be_reset));
}

// Whether the field is `name`, or a field inside of it.
bool is_part_of(std::string_view field, std::string_view name) noexcept {
  return field.starts_with(name) && (field.size() == name.size() || field[name.size()] == '.');
}

class layout_change {
 public:
  layout_change(const type_record& before, const type_record& now, bool opening) noexcept
      : before_{before}, now_{now}, opening_{opening} {}

  // May throw std::bad_alloc.
  [[nodiscard]] bool harmless() const {
    return before_.canonical == now_.canonical && before_.size == now_.size && before_.align == now_.align &&
           std::strcmp(object::name_of(before_), object::name_of(now_)) == 0 &&
           fields(fields_of(before_), before_.fields, fields_of(now_), now_.fields);
  }

 private:
  // The same things around both.
  [[nodiscard]] bool fields(const type_field* a, std::uint32_t of_a, const type_field* b, std::uint32_t of_b) const {
    const type_field* const a_end = a + of_a;
    for (const type_field* const b_end = b + of_b; b != b_end; b += 1 + b->inner) {
      if (b->kind == field_kind::reset && !(a != a_end && a->kind == field_kind::reset && a->offset == b->offset)) {
        if (!becomes_reset(a, a_end, *b)) return false;
        continue;
      }
      if (a == a_end || !field(*a, *b)) return false;
      a += 1 + a->inner;
    }
    return a == a_end;
  }
  // Passes over the fields that lie where `b` does now: it itself, or what was inside of it.
  [[nodiscard]] bool becomes_reset(const type_field*& a, const type_field* a_end, const type_field& b) const {
    const bool open = b.count == 0;
    // Where no flexible array was, objects may be arrays of the type, or have something else after it.
    if (open && (a == a_end || a->count != 0)) return false;
    const std::uint64_t end = b.offset + b.element_bytes * b.count;
    const std::string_view name = text_at(now_, b.name);
    const type_field* const first = a;
    for (; a != a_end && (open || a->offset < end); a += 1 + a->inner) {
      const bool inside = open || (a->count != 0 && a->offset + a->element_bytes * a->count <= end);
      if (a->offset < b.offset || (a == first && a->offset != b.offset)) return false;
      if (!inside || !is_part_of(text_at(before_, a->name), name) || !may_be_reset(*a)) return false;
    }
    return opening_;
  }
  [[nodiscard]] bool field(const type_field& a, const type_field& b) const {
    if (a.offset != b.offset || a.element_bytes != b.element_bytes || a.count != b.count) return false;
    // A map that knows less about a pointer than the other contradicts nothing.
    const bool refined =
        may_become(a.kind, b.kind) && (a.kind != b.kind || a.target == b.target || a.target == 0 || b.target == 0);
    const bool tagged = a.kind == field_kind::tagged_union;
    if (!refined && (a.kind != b.kind || (!tagged && a.target != b.target))) return false;
    if (std::strcmp(tag_of(before_, a), tag_of(now_, b)) != 0) return false;
    const char* name = text_at(now_, b.name);
    if (std::strcmp(text_at(before_, a.name), name) != 0 &&
        (has_field(before_, name) || bits_in(text_at(before_, a.name)) != bits_in(name))) {
      return false;
    }
    return fields(&a + 1, a.inner, &b + 1, b.inner);
  }

  const type_record& before_;
  const type_record& now_;
  const bool opening_;
};

}  // namespace

type_comparison compare_types(const type_map& stored, const type_map& ours, when seen) {
  type_comparison c;
  for (const type_record* r : ours.records()) {
    const type_record* there = stored.find(r->id);
    if (there != nullptr && same(*there, *r)) continue;
    c.changes = true;
    if (there == nullptr) continue;
    if (!layout_change{*there, *r, seen == when::at_open}.harmless()) c.differing.push_back({there, r});
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
    const bool opaque = f.kind == field_kind::bytes || f.kind == field_kind::reset;
    if (layout::is_container(f.kind) || opaque) add("(%" PRIu64 ")", f.element_bytes);
    add(" at %" PRIu64, f.offset);
  }
  add("%s", "}");
  if (used >= bytes && bytes > 4) std::memcpy(text + bytes - 4, "...", 4);
}

}  // namespace nvm::object
