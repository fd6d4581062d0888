// Holdfast: layouts of durable types from C++17 compilers other than holdfast-cc, without macros.
//
//   struct node { nvm::ref<node> next; nvm::weak<node> parent; char name[32]; point where; };
//   const bool described = nvm::describe<node>(
//       nvm::field("next", &node::next), nvm::field("parent", &node::parent), nvm::field("name", &node::name),
//       nvm::inside("where", &node::where, nvm::field("x", &point::x), nvm::field("y", &point::y)));
//
// at namespace scope announces the type before main(): the same layout, byte for byte, as holdfast-cc would find for
// the NVM_STRUCT (nvm.h, "types").  All fields have to be there, by ascending offset.  Types are standard-layout, and
// neither they nor what their pointers lead to are templates or lie in unnamed namespaces: compilers spell those names
// in different ways.
#ifndef NVM_DESCRIBE_HPP
#define NVM_DESCRIBE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nvm/describe.h"
#include "nvm/nvm.hpp"

namespace nvm {

namespace detail {

// Name of a type as ids are made from it; compilers differ in the names of numbers.
template <class T>
std::string name_of() {
  using plain = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<plain>) {
    using to = std::remove_pointer_t<plain>;
    return name_of<to>() + (std::is_pointer_v<to> ? "*" : " *");
  } else if constexpr (std::is_same_v<plain, short>) {
    return "short";
  } else if constexpr (std::is_same_v<plain, unsigned short>) {
    return "unsigned short";
  } else if constexpr (std::is_same_v<plain, unsigned>) {
    return "unsigned int";
  } else if constexpr (std::is_same_v<plain, long>) {
    return "long";
  } else if constexpr (std::is_same_v<plain, unsigned long>) {
    return "unsigned long";
  } else if constexpr (std::is_same_v<plain, long long>) {
    return "long long";
  } else if constexpr (std::is_same_v<plain, unsigned long long>) {
    return "unsigned long long";
  } else {
    return std::string{spelled<plain>()};
  }
}

template <class T>
constexpr nvm_field_kind kind_of() noexcept {
  using plain = std::remove_cv_t<T>;
  if constexpr (std::is_enum_v<plain>) {
    return kind_of<std::underlying_type_t<plain>>();
  } else if constexpr (std::is_same_v<plain, bool>) {
    return NVM_FIELD_BOOL;
  } else if constexpr (std::is_same_v<plain, char>) {
    return NVM_FIELD_CHAR;
#ifdef __cpp_char8_t
  } else if constexpr (std::is_same_v<plain, char8_t>) {
    return NVM_FIELD_CHAR;
#endif
  } else if constexpr (std::is_floating_point_v<plain>) {
    return NVM_FIELD_FLOAT;
  } else if constexpr (std::is_integral_v<plain>) {
    return std::is_signed_v<plain> ? NVM_FIELD_SIGNED : NVM_FIELD_UNSIGNED;
  } else {
    return NVM_FIELD_BYTES;
  }
}

// Type of a field's content, without the wrapper that announces changes.
template <class T>
struct held {
  using type = T;
  static constexpr nvm_field_kind pointer = NVM_FIELD_VOLATILE_POINTER;
};
template <class T>
struct held<p<T>> {
  using type = T;
  static constexpr nvm_field_kind pointer = NVM_FIELD_POINTER;
};
template <class T>
struct held<ref<T>> {
  using type = T *;
  static constexpr nvm_field_kind pointer = NVM_FIELD_POINTER;
};
template <class T>
struct held<weak<T>> {
  using type = T *;
  static constexpr nvm_field_kind pointer = NVM_FIELD_WEAK_POINTER;
};

// Bytes from the start of an Object to a member of it.
template <class Object, class Member>
std::uint64_t offset_of(Member Object::*member) noexcept {
  static_assert(std::is_standard_layout_v<Object>, "a described type has standard layout");
  alignas(Object) static const unsigned char room[sizeof(Object)] = {};
  const auto *object = reinterpret_cast<const Object *>(room);
  return static_cast<std::uint64_t>(reinterpret_cast<const unsigned char *>(&(object->*member)) - room);
}

struct described_field {
  std::string name;
  nvm_field_description at{};  // its `name` and `target` are filled in
  std::string target;
};
using described_fields = std::vector<described_field>;

template <class Object, class Member>
described_field place_of(std::string name, Member Object::*member) {
  described_field f;
  f.name = std::move(name);
  f.at.offset = offset_of(member);
  using element = std::remove_all_extents_t<Member>;
  f.at.bytes = sizeof(element);
  f.at.count = sizeof(Member) / sizeof(element);
  return f;
}

}  // namespace detail

// A number, character, boolean, enumeration, pointer, or an array of them, also in an nvm::p; an nvm::ref or nvm::weak;
// everything else is bytes, a union for example.  A plain pointer is one that means nothing to the next process; a
// std::string and its kin do not compile (pool_type.hpp).
template <class Object, class Member>
detail::described_fields field(const char *name, Member Object::*member) {
  auto f = detail::place_of(name, member);
  using in = detail::held<std::remove_all_extents_t<Member>>;
  using type = std::remove_all_extents_t<typename in::type>;
  detail::must_lie_in_pool<type>();
  f.at.bytes = sizeof(type);
  f.at.count = sizeof(Member) / sizeof(type);
  if constexpr (std::is_pointer_v<type>) {
    f.at.kind = in::pointer;
    using to = std::remove_cv_t<std::remove_pointer_t<type>>;
    if constexpr (!std::is_function_v<to>) f.target = detail::name_of<to>();
  } else {
    f.at.kind = detail::kind_of<type>();
  }
  return {f};
}
// A plain pointer to an object of the same pool, or an array of them: NVM_PTR, NVM_WEAK_PTR.
template <class Object, class Member>
detail::described_fields pointer(const char *name, Member Object::*member) {
  auto fields = field(name, member);
  fields.front().at.kind = NVM_FIELD_POINTER;
  return fields;
}
template <class Object, class Member>
detail::described_fields weak_pointer(const char *name, Member Object::*member) {
  auto fields = field(name, member);
  fields.front().at.kind = NVM_FIELD_WEAK_POINTER;
  return fields;
}
// A pointer into the program, or an array of them: NVM_STATIC_PTR (nvm/static.h).
template <class Object, class Member>
detail::described_fields static_pointer(const char *name, Member Object::*member) {
  auto fields = field(name, member);
  fields.front().at.kind = NVM_FIELD_STATIC_POINTER;
  return fields;
}
// A field of any type that is zero after each open, and stored to without a log, or an array of them: NVM_RESET
// (nvm/malloc.h).
template <class Object, class Member>
detail::described_fields reset_field(const char *name, Member Object::*member) {
  auto f = detail::place_of(name, member);
  f.at.kind = NVM_FIELD_RESET;
  return {f};
}
// A structure, or an array of them, with its own fields.
template <class Object, class Member, class... Fields>
detail::described_fields inside(const char *name, Member Object::*member, Fields &&...fields) {
  const auto f = detail::place_of(name, member);
  detail::described_fields all;
  (all.insert(all.end(), fields.begin(), fields.end()), ...);
  for (auto &each : all) each.name = f.name + "." + each.name;
  if (f.at.count == 1) {
    // Those inside of an array keep the places that they have in its elements.
    for (std::size_t i = 0; i < all.size(); i += 1 + all[i].at.inner) all[i].at.offset += f.at.offset;
    return all;
  }
  auto outer = f;
  outer.at.kind = all.empty() ? NVM_FIELD_BYTES : NVM_FIELD_STRUCTURE;
  outer.at.inner = static_cast<std::uint32_t>(all.size());
  all.insert(all.begin(), outer);
  return all;
}

// Announces T with these fields.  False: nvm_errno() and nvm_errormsg() say why, and no pool will open.
template <class T, class... Fields>
bool describe(Fields &&...fields) {
  detail::described_fields all;
  (all.insert(all.end(), fields.begin(), fields.end()), ...);
  std::vector<nvm_field_description> told;
  for (const auto &f : all) {
    told.push_back(f.at);
    told.back().name = f.name.c_str();
    told.back().target = f.target.empty() ? nullptr : f.target.c_str();
  }
  const std::string name = detail::name_of<T>();
  const nvm_type_description type{name.c_str(), sizeof(T), alignof(T), static_cast<std::uint32_t>(told.size()),
                                  told.data()};
  return nvm_describe_type(&type) == 0;
}

}  // namespace nvm
#endif
