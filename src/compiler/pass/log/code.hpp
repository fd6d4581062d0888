// Pieces of code that are common to all logging.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace nvm::compiler {

// A function of the run-time or the library.
[[nodiscard]] llvm::FunctionCallee runtime_function(llvm::Module& m, llvm::Type* result, const char* name,
                                                    llvm::ArrayRef<llvm::Type*> arguments, bool variadic = false);
// The address, or each of a vector of them, is inside the window of pools.
[[nodiscard]] llvm::Value* inside_window(llvm::IRBuilder<>& b, llvm::Value* address);
// Makes a block before `before` that is entered if `condition` holds, which is unlikely; returns its end.
[[nodiscard]] llvm::Instruction* block_if(llvm::IRBuilder<>& b, llvm::Value* condition, llvm::Instruction* before);
// The same with the condition that one of the addresses is inside the window of pools.
[[nodiscard]] llvm::Instruction* guard(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> addresses,
                                       llvm::Instruction* before);

}  // namespace nvm::compiler
