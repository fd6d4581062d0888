// Type maps, format 1: what lies where in the objects of a type.  docs/format.md states every byte.
//
// The compiler plugin writes a type map into every object file, a pool holds one of all types that programs have opened
// it with; both are made by object/type_map_writer.hpp and read by object/type_map.hpp.
//
//   type map   header | records, by ascending id
//   record     head | fields, by ascending offset | the type's name, the names of its fields, each with a zero | zeros
//              up to a multiple of 8
//
// A type has one record under its canonical id, the id of its name without `struct`; under each other id that the
// program knows it by (`struct Node`, a typedef) there is an alias, which has nothing but the canonical id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace nvm::layout {

inline constexpr std::uint64_t type_map_magic = 0x5041'4D45'5059'5448;  // "HTYPEMAP" in file order
inline constexpr std::uint64_t type_map_bytes_max = std::uint64_t{1} << 30;
inline constexpr unsigned type_depth_max = 8;  // arrays of structures inside each other

struct type_map_header {
  std::uint64_t magic;
  std::uint64_t checksum;  // XXH3 of all bytes after this field, seed type_map_magic
  std::uint64_t bytes;     // of the whole map, multiple of 8
  std::uint32_t types;     // records
  std::uint32_t statics;   // bytes of the table after the map (static_layout.hpp), multiple of 8; 0: none
};
static_assert(sizeof(type_map_header) == 32 && std::has_unique_object_representations_v<type_map_header>);
inline constexpr std::size_t type_map_checked_at = 16;

struct type_record {
  std::uint32_t bytes;        // of the record, multiple of 8
  std::uint32_t id;           // ascending from record to record
  std::uint32_t canonical;    // id, or of the record that this one is an alias of
  std::uint32_t fields;       // 0 in an alias, as are the three below
  std::uint64_t fingerprint;  // type_fingerprint of size, alignment and fields
  std::uint64_t size;         // bytes; an object that is larger holds an array, or ends with a flexible one
  std::uint32_t align;        // a power of two
  std::uint32_t name;         // place of the name in the record
};
static_assert(sizeof(type_record) == 40 && std::has_unique_object_representations_v<type_record>);

enum class field_kind : std::uint32_t {
  signed_integer = 1,
  unsigned_integer = 2,
  boolean = 3,
  character = 4,
  floating = 5,
  pointer = 6,           // NVM_PTR: to an object of the same pool
  volatile_pointer = 7,  // any other: means nothing to the next process
  bytes = 8,             // a union without pointers, bit-fields
  structure = 9,         // an array of structures; the `inner` fields that follow are those of one element
  weak_pointer = 10,     // NVM_WEAK_PTR: as `pointer`, and keeps nothing alive
  static_pointer = 11,   // NVM_STATIC_PTR: to constant data or a function of the program
  by_visitor = 12,    // structures whose pointers a function of the program tells, that of type `target` (NVM_VISIT);
                      // the `inner` fields that follow say to people what lies in one element
  tagged_union = 13,  // unions; the `inner` fields are their members, each one field with what is inside of it, and
                      // `target` is the place of the tag (object/union_tag.hpp): the number of the member that counts
  reset = 14          // NVM_RESET: bytes of any meaning that are zero after each open; not inside of a tagged_union
};
inline constexpr std::uint32_t field_kind_last = 14;

constexpr bool is_pointer(field_kind k) noexcept {
  return k == field_kind::pointer || k == field_kind::volatile_pointer || k == field_kind::weak_pointer ||
         k == field_kind::static_pointer;
}
// Whether other fields are inside of it.
constexpr bool is_container(field_kind k) noexcept {
  return k == field_kind::structure || k == field_kind::by_visitor || k == field_kind::tagged_union;
}

struct type_field {
  std::uint64_t offset;         // from the object's start, or from the start of the element that the field is inside of
  std::uint64_t element_bytes;  // not 0
  std::uint64_t count;          // elements; 0: as many as there is room for, the last field only
  field_kind kind;
  std::uint32_t target;  // pointers: id of the type pointed to, 0: any; by_visitor, tagged_union: above; else 0
  std::uint32_t name;    // place of the name in the record; "b.c" for field c of structure b
  std::uint32_t inner;   // structure and the like: number of fields, of all depths; else 0
};
static_assert(sizeof(type_field) == 40 && std::has_unique_object_representations_v<type_field>);

// FNV-1a, 64 bits, of the words fed to it, lowest byte first, and of texts with their zero.
class type_fingerprint {
 public:
  constexpr void word(std::uint64_t w) noexcept {
    for (unsigned i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(w >> 8 * i));
  }
  constexpr void text(const char* t) noexcept {
    do {
      byte(static_cast<std::uint8_t>(*t));
    } while (*t++ != '\0');
  }
  // `tag`: text of a tagged_union's tag, which is hashed instead of the tag's place.
  constexpr void field(const type_field& f, const char* name, const char* tag) noexcept {
    const bool tagged = f.kind == field_kind::tagged_union;
    for (const std::uint64_t w : {f.offset, f.element_bytes, f.count, std::uint64_t{static_cast<std::uint32_t>(f.kind)},
                                  std::uint64_t{tagged ? 0 : f.target}, std::uint64_t{f.inner}}) {
      word(w);
    }
    text(name);
    if (tagged) text(tag);
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return hash_; }

 private:
  constexpr void byte(std::uint8_t b) noexcept { hash_ = (hash_ ^ b) * 0x100000001B3U; }
  std::uint64_t hash_ = 0xCBF29CE484222325U;
};

// NVM_TYPE_ID of a name.
constexpr std::uint32_t type_id_of(const char* name) noexcept {
  std::uint32_t hash = 2166136261U;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<std::uint8_t>(*name)) * 16777619U;
  return (hash & 0x3FFFFFFFU) | 0x40000000U;
}
// Type of texts (nvm_strdup), which is known also in pools whose maps do not have it.
inline constexpr std::uint32_t type_of_text = type_id_of("char");
// Types of the objects that key-value stores are made of (kv/kv_layout.hpp), which hold places, links, and bytes of the
// program; and of the objects that references are counted with (reference_layout.hpp).
inline constexpr std::uint32_t own_types_of_stores = 0xF04B'5600;
constexpr bool is_type_of_library(std::uint32_t type) noexcept {
  return (type & ~std::uint32_t{0xFF}) == own_types_of_stores;
}
// Whether a type that no map has is known to have no pointers.
constexpr bool is_without_pointers(std::uint32_t type) noexcept {
  return type == type_of_text || is_type_of_library(type);
}

}  // namespace nvm::layout
