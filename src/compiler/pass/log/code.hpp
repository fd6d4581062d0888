// Pieces of code that all that logs is made of.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace nvm::compiler {

// A function of the run-time or the library.
[[nodiscard]] llvm::FunctionCallee runtime_function(llvm::Module& m, llvm::Type* result, const char* name,
                                                    llvm::ArrayRef<llvm::Type*> arguments, bool variadic = false);
// The address, or each of a vector of them, is inside the window of pools.
[[nodiscard]] llvm::Value* inside_window(llvm::IRBuilder<>& b, llvm::Value* address);
// Before `before`: a block that is entered where `condition` holds, which is unlikely.  What it ends with.
[[nodiscard]] llvm::Instruction* block_if(llvm::IRBuilder<>& b, llvm::Value* condition, llvm::Instruction* before);
// The same where one of the addresses is inside the window of pools.
[[nodiscard]] llvm::Instruction* guard(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> addresses,
                                       llvm::Instruction* before);

}  // namespace nvm::compiler
