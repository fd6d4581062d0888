// The layout of a durable type, as Clang lays it out, in the words of a type map; and its faults.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/Type.h>

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/StringRef.h>

#include <functional>
#include <optional>
#include <string>

#include "object/type_map_writer.hpp"

namespace nvm::compiler {

// How a pointer is declared: NVM_PTR, NVM_WEAK_PTR, or neither.
enum class pointer_mark { none, strong, weak };
[[nodiscard]] pointer_mark mark_of(const clang::BTFTypeTagAttr& tag);
[[nodiscard]] pointer_mark mark_of(clang::QualType pointer);
// Declared NVM_VOLATILE_PTR; NVM_STATIC_PTR; NVM_RESET; NVM_STALE_OK.
[[nodiscard]] bool is_meant_volatile(const clang::NamedDecl& field);
[[nodiscard]] bool is_static(const clang::NamedDecl& field);
[[nodiscard]] bool is_reset(const clang::NamedDecl& field);
[[nodiscard]] bool is_stale_ok(const clang::NamedDecl& field);

// Declared NVM_STRUCT, here or in another declaration.
[[nodiscard]] bool is_durable(const clang::RecordDecl& record);
// nvm::p<T>, nvm::ref<T> and nvm::weak<T>, the C++ interface's fields that announce their changes: T, T * and T *; else
// null.
[[nodiscard]] clang::QualType announced_type(clang::QualType type);
// The name from which its type id is made: qualified, without `struct`, without parts that the source does not spell.
[[nodiscard]] std::string canonical_name(const clang::ASTContext& context, clang::QualType type);
// Id of what a pointer points to; 0 for void.
[[nodiscard]] std::uint32_t target_id(const clang::ASTContext& context, clang::QualType pointee);
// Characters, numbers, enumerations, and arrays of them.
[[nodiscard]] bool is_scalar_data(clang::QualType type);

struct layout_finding {
  enum class problem {
    pointer_union,    // error
    union_tag,        // error
    reset_in_union,   // error
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
  // library_type: the type, as the program names it, and the pointer in it, from there on; union_tag: what is wrong.
  std::string type{};
  std::string pointer{};
};

// Facts about layouts from the rest of the translation unit.
struct unit_facts {
  // The canonical declarations of types with visitors (NVM_VISIT), and their ids.
  llvm::DenseMap<const clang::TagDecl*, std::uint32_t> visited;
  std::function<std::optional<std::int64_t>(llvm::ArrayRef<llvm::StringRef> path)> enumerator;
};

// The layout of a complete type that depends on no template parameter.  False: a finding was an error.
[[nodiscard]] bool describe_type(const clang::ASTContext& context, clang::QualType type, const unit_facts& facts,
                                 object::type_description& out, const std::function<void(const layout_finding&)>& tell);

}  // namespace nvm::compiler
