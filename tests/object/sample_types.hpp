// Types for tests, as the compiler plugin would describe them.
#pragma once

#include <string>
#include <vector>

#include "object/object.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::tests {

using object::type_description;
using object::type_map;
using object::type_map_writer;

inline type_description::field field(std::string name, std::uint64_t offset, layout::field_kind kind,
                                     std::uint64_t bytes, std::uint64_t count = 1, std::uint32_t target = 0) {
  return {{offset, bytes, count, kind, target, 0, 0}, std::move(name)};
}

// struct node { NVM_PTR(struct node) next; char data[32]; };
inline type_description node_type() {
  using enum layout::field_kind;
  return {
      "node", 40, 8, {field("next", 0, pointer, 8, 1, layout::type_id_of("node")), field("data", 8, character, 1, 32)}};
}

// struct table { unsigned n; struct { NVM_PTR(struct node) first; double weight; } slots[4]; NVM_PTR(void) more[]; };
inline type_description table_type() {
  using enum layout::field_kind;
  type_description t{"table",
                     72,
                     8,
                     {field("n", 0, unsigned_integer, 4), field("slots", 8, structure, 16, 4),
                      field("slots.first", 0, pointer, 8, 1, layout::type_id_of("node")),
                      field("slots.weight", 8, floating, 8), field("more", 72, pointer, 8, 0)}};
  t.fields[1].place.inner = 2;
  return t;
}

inline type_map_writer::words sample_map() {
  type_map_writer w;
  w.add(node_type());
  w.add(table_type());
  w.add_alias("struct node", layout::type_id_of("node"));
  return w.finish();
}

// struct __attribute__((packed)) odd { char tag; NVM_PTR(struct odd) to; NVM_PTR(void) next; char more; };
inline type_description odd_type() {
  using enum layout::field_kind;
  return {"odd",
          18,
          1,
          {field("tag", 0, character, 1), field("to", 1, pointer, 8, 1, layout::type_id_of("odd")),
           field("next", 9, pointer, 8), field("more", 17, character, 1)}};
}

// struct value { unsigned char kind : 3, more : 5; NVM_WEAK_PTR(node) up; union { long n; NVM_PTR(node) p[2];
//   struct { char c; NVM_PTR(node) q; } s; } u NVM_UNION_TAG(kind); };
// struct values { struct value all[2]; };
inline type_description value_type(const std::string& prefix = "") {
  using enum layout::field_kind;
  const std::uint32_t node = layout::type_id_of("node");
  type_description t{
      "value",
      32,
      8,
      {field(prefix + "kind:0+3|more:3+5", 0, bytes, 1), field(prefix + "up", 8, weak_pointer, 8, 1, node),
       field(prefix + "u", 16, tagged_union, 16), field(prefix + "u.n", 0, signed_integer, 8),
       field(prefix + "u.p", 0, pointer, 8, 2, node), field(prefix + "u.s", 0, structure, 16),
       field(prefix + "u.s.c", 0, character, 1), field(prefix + "u.s.q", 8, pointer, 8, 1, node)}};
  t.fields[2].place.inner = 5;
  t.fields[2].tag = "u1@0:0+3";
  t.fields[5].place.inner = 2;
  return t;
}
inline type_description values_type() {
  using enum layout::field_kind;
  type_description t{"values", 64, 8, {field("all", 0, structure, 32, 2)}};
  const type_description one = value_type("all.");
  t.fields.insert(t.fields.end(), one.fields.begin(), one.fields.end());
  t.fields[0].place.inner = 8;
  return t;
}

// Of these two, whose pointers their objects tell.
inline type_map_writer::words map_of_unions() {
  type_map_writer w;
  w.add(value_type());
  w.add(values_type());
  return w.finish();
}

// struct counted { long id; long calls NVM_RESET; };
inline type_description counted_type() {
  using enum layout::field_kind;
  return {"counted", 16, 8, {field("id", 0, signed_integer, 8), field("calls", 8, reset, 8)}};
}
// struct locked { NVM_PTR(struct node) to; char lock[4] NVM_RESET; struct { int key; int hits NVM_RESET; } all[2];
//   short more[] NVM_RESET; };
inline type_description locked_type() {
  using enum layout::field_kind;
  type_description t{"locked",
                     32,
                     8,
                     {field("to", 0, pointer, 8, 1, layout::type_id_of("node")), field("lock", 8, reset, 1, 4),
                      field("all", 12, structure, 8, 2), field("all.key", 0, signed_integer, 4),
                      field("all.hits", 4, reset, 4), field("more", 28, reset, 2, 0)}};
  t.fields[2].place.inner = 2;
  return t;
}
inline type_map_writer::words map_of_resets() {
  type_map_writer w;
  w.add(counted_type());
  w.add(locked_type());
  return w.finish();
}

inline const std::byte* bytes_of(const type_map_writer::words& w) {
  return reinterpret_cast<const std::byte*>(w.data());
}
inline result<type_map> read(const type_map_writer::words& w) { return type_map::read(bytes_of(w), w.size() * 8); }

}  // namespace nvm::tests
