#include "code.hpp"

#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <cstdint>

namespace nvm::compiler {

using namespace llvm;

FunctionCallee runtime_function(Module& m, Type* result, const char* name, ArrayRef<Type*> arguments, bool variadic) {
  FunctionCallee callee = m.getOrInsertFunction(name, FunctionType::get(result, arguments, variadic));
  if (auto* f = dyn_cast<Function>(callee.getCallee())) {
    f->addFnAttr(Attribute::NoUnwind);
    f->addFnAttr(Attribute::Cold);
  }
  return callee;
}

Value* inside_window(IRBuilder<>& b, Value* address) {
  Type* word = address->getType()->getWithNewType(b.getInt64Ty());
  Value* number = b.CreateLShr(b.CreatePtrToInt(address, word), ConstantInt::get(word, NVM_WINDOW_BITS));
  return b.CreateICmpEQ(number, ConstantInt::get(word, std::uint64_t{NVM_WINDOW_BASE} >> NVM_WINDOW_BITS));
}

Instruction* block_if(IRBuilder<>& b, Value* condition, Instruction* before) {
  MDNode* weights = MDBuilder(b.getContext()).createUnlikelyBranchWeights();
  return SplitBlockAndInsertIfThen(condition, before->getIterator(), false, weights);
}

Instruction* guard(IRBuilder<>& b, ArrayRef<Value*> addresses, Instruction* before) {
  Value* durable = nullptr;  // any of them
  for (Value* address : addresses) {
    Value* inside = inside_window(b, address);
    durable = durable == nullptr ? inside : b.CreateOr(durable, inside);
  }
  return block_if(b, durable, before);
}

}  // namespace nvm::compiler
