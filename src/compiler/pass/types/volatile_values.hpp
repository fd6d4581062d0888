// Pointers that provably point outside of every pool: to variables, functions, texts, memory of malloc and its kin.
#pragma once

#include <clang/AST/Decl.h>
#include <clang/AST/Expr.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

namespace nvm::compiler {

// Facts about the local variables of one function.
class volatile_values {
 public:
  // Reads the function, and finds the variables whose assignments are all visible.
  void enter(const clang::FunctionDecl& function);

  // Its target, for a message: "memory from malloc", "a variable"; empty: not provably volatile.
  [[nodiscard]] llvm::StringRef target_of(const clang::Expr* value);
  // The object that an lvalue lies in is a variable, or is reached through a provably volatile pointer.
  [[nodiscard]] bool lies_outside(const clang::Expr* lvalue);

 private:
  struct variable {
    llvm::SmallVector<const clang::Expr*, 2> values;
    unsigned uses = 0;        // places that name it
    unsigned plain_uses = 0;  // of these, those that only read or assign it
    bool asked = false;
  };
  class reader;
  [[nodiscard]] llvm::StringRef target_of_variable(const clang::VarDecl* v);

  llvm::DenseMap<const clang::VarDecl*, variable> variables_;
  clang::ASTContext* context_ = nullptr;
};

}  // namespace nvm::compiler
