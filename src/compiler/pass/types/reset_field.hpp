// Fields that are zero after each open (NVM_RESET): which can be.
#pragma once

#include <clang/AST/Decl.h>
#include <clang/AST/Type.h>

namespace nvm::compiler {

// What keeps a field from being NVM_RESET, though it is declared so: only fields can be that a type map names, with
// values that zero bytes are.  nullptr: nothing does, or it is not declared so.
[[nodiscard]] const char* why_never_reset(const clang::FieldDecl& field);
// Whether stores to the field are not logged: it is NVM_RESET, or NVM_STALE_OK and no bit-field.
[[nodiscard]] bool is_unlogged(const clang::NamedDecl& field);
// Whether a field that is NVM_RESET lies in a value of the type, at any depth.
[[nodiscard]] bool has_reset_field(clang::QualType type);
// Whether stores through an array of no elements (null: it is no field) are not logged: it is the last field of its
// structure, and such a field, or its elements have one that is NVM_RESET.
[[nodiscard]] bool is_stored_unlogged(const clang::NamedDecl* array, clang::QualType element);
// The type of the value that a library keeps in a type of bytes, `__aligned_membuf<T>`; null: it is another type.
[[nodiscard]] clang::QualType kept_in(const clang::RecordDecl& record);
// The last field, also of a structure that is the last one, if it is an array of one element: objects that go on after
// it may be taken for several of the type.  nullptr: it is none.
[[nodiscard]] const clang::FieldDecl* array_of_one_at_end(const clang::RecordDecl& record);

}  // namespace nvm::compiler
