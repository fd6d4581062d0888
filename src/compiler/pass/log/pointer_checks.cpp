#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

#include "facts.hpp"
#include "module_rewrites.hpp"

namespace nvm::compiler {

using namespace llvm;

bool check_pointers(Function& f) {
  if (f.isDeclaration() || f.hasFnAttribute(Attribute::Naked)) return false;
  if (f.hasFnAttribute(pointers_checked_already)) return false;
  f.addFnAttr(pointers_checked_already);
  std::vector<StoreInst*> all;
  for (Instruction& i : instructions(f)) {
    auto* s = dyn_cast<StoreInst>(&i);
    if (s == nullptr || !s->getValueOperand()->getType()->isPointerTy()) continue;
    if (isa<ConstantPointerNull>(s->getValueOperand())) continue;
    if (isa<AllocaInst>(s->getPointerOperand()) || isa<GlobalVariable>(s->getPointerOperand())) continue;
    const std::uint64_t bytes = f.getParent()->getDataLayout().getPointerSize();
    if (unlogged_field_at(s->getPointerOperand(), bytes) == unlogged_field::reset) continue;
    all.push_back(s);
  }
  Type* pointer = PointerType::getUnqual(f.getContext());
  for (StoreInst* s : all) {
    FunctionCallee check = f.getParent()->getOrInsertFunction("__nvm_check_pointer", Type::getVoidTy(f.getContext()),
                                                              pointer, pointer, pointer);
    IRBuilder<> b(s);
    b.SetCurrentDebugLocation(s->getDebugLoc());
    b.CreateCall(check, {s->getPointerOperand(), s->getValueOperand(), site_of(*s)});
  }
  return !all.empty();
}

}  // namespace nvm::compiler
