#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "facts.hpp"
#include "module_rewrites.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

// As struct nvm_jump_mark in nvm/compiled.h.
constexpr unsigned mark_words = 9;

void guard(CallInst& c) {
  Function& f = *c.getFunction();
  LLVMContext& context = f.getContext();
  Module& m = *f.getParent();
  Type* pointer = PointerType::getUnqual(context);
  Type* none = Type::getVoidTy(context);
  IRBuilder<> entry(&*f.getEntryBlock().getFirstInsertionPt());
  Value* mark = entry.CreateAlloca(ArrayType::get(Type::getInt64Ty(context), mark_words));
  IRBuilder<> before(&c);
  before.SetCurrentDebugLocation(c.getDebugLoc());
  before.CreateCall(m.getOrInsertFunction("__nvm_jump_mark", none, pointer), {mark});
  IRBuilder<> after(c.getNextNode());
  after.SetCurrentDebugLocation(c.getDebugLoc());
  Value* again = after.CreateICmpNE(&c, ConstantInt::get(c.getType(), 0));
  MDNode* weights = MDBuilder(context).createUnlikelyBranchWeights();
  Instruction* inside = SplitBlockAndInsertIfThen(again, after.GetInsertPoint(), false, weights);
  IRBuilder<> b(inside);
  b.SetCurrentDebugLocation(c.getDebugLoc());
  b.CreateCall(m.getOrInsertFunction("__nvm_jump_landed", none, pointer, pointer), {mark, site_of(c)});
}

}  // namespace

bool guard_jumps(Module& m) {
  std::vector<CallInst*> all;
  for (Function& f : m) {
    if (f.hasFnAttribute(logged_already)) continue;
    for (Instruction& i : instructions(f)) {
      auto* c = dyn_cast<CallInst>(&i);
      if (c != nullptr && is_jump_target(*c)) all.push_back(c);
    }
  }
  for (CallInst* c : all) guard(*c);
  return !all.empty();
}

}  // namespace nvm::compiler
