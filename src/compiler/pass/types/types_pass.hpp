// The half of the type maps that works on LLVM's intermediate code.
#pragma once

#include <llvm/Passes/PassBuilder.h>

namespace nvm::compiler {

// Section of the object file that the type map of a translation unit lies in.
inline constexpr const char* types_section = "nvm_types";

// A constructor for each map of a module, which gives it to nvm_register_types().
void add_types_pass(llvm::PassBuilder& builder);

}  // namespace nvm::compiler
