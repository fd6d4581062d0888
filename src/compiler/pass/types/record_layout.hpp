// The layout of a durable type, as Clang lays it out, in the words of a type map; and what is wrong with it.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/Type.h>

#include <functional>
#include <string>

#include "object/type_map_writer.hpp"

namespace nvm::compiler {

// Declared NVM_PTR.  In C++ Clang does not say which annotation a type has; no other annotates types of pointers.
[[nodiscard]] bool is_mark(const clang::BTFTypeTagAttr& tag);
[[nodiscard]] bool is_marked(clang::QualType pointer);
// Declared NVM_VOLATILE_PTR.
[[nodiscard]] bool is_meant_volatile(const clang::NamedDecl& field);

// Declared NVM_STRUCT, here or in another declaration.
[[nodiscard]] bool is_durable(const clang::RecordDecl& record);
// nvm::p<T>, the C++ interface's field that announces its changes: T; else null.
[[nodiscard]] clang::QualType announced_type(clang::QualType type);
// The name that its type id is made from: qualified, without `struct`, without what the source does not say.
[[nodiscard]] std::string canonical_name(const clang::ASTContext& context, clang::QualType type);
// Id of what a pointer points to; 0 for void.
[[nodiscard]] std::uint32_t target_id(const clang::ASTContext& context, clang::QualType pointee);
// Characters, numbers, enumerations, and arrays of them.
[[nodiscard]] bool is_scalar_data(clang::QualType type);

struct layout_finding {
  enum class problem {
    bit_field,        // error
    pointer_union,    // error
    dynamic_class,    // error
    inner_flexible,   // error
    too_deep,         // error
    library_type,     // an error that a flag makes a warning
    plain_pointer,    // warning
    plain_reference,  // warning
    code_pointer,     // warning
    member_pointer    // warning
  };
  problem what;
  const clang::NamedDecl* where;
  std::string name;  // of the field, from the durable type on
  // library_type: the type, as the program names it, and the pointer in it, from there on.
  std::string type{};
  std::string pointer{};
};

// The layout of a complete type that depends on no template parameter.  False: a finding was an error.
[[nodiscard]] bool describe_type(const clang::ASTContext& context, clang::QualType type, object::type_description& out,
                                 const std::function<void(const layout_finding&)>& tell);

}  // namespace nvm::compiler
