// Prints a module with one function for each intrinsic of LLVM, of any target or of x86, that may write memory that a
// program can name: it calls it with its own arguments. On standard error: those that cannot be called that way.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

using namespace llvm;

namespace {

constexpr unsigned lanes = 8;

Type* element_of(LLVMContext& c, Intrinsic::ID id) {
  // Its vector is of pointers, which nothing but the documents says.
  if (id == Intrinsic::experimental_vector_histogram_add) return PointerType::getUnqual(c);
  return Type::getInt32Ty(c);
}

// Rows and columns have to make up the vector.
std::uint64_t constant_of(Intrinsic::ID id, unsigned argument) {
  constexpr unsigned rows = 4;
  return id == Intrinsic::matrix_column_major_store && argument == rows ? lanes : 1;
}

// Types for the overloaded places: of the first kind that fits.
bool choose_types(LLVMContext& c, Intrinsic::ID id, SmallVectorImpl<Type*>& chosen) {
  using descriptor = Intrinsic::IITDescriptor;
  SmallVector<descriptor, 8> places;
  Intrinsic::getIntrinsicInfoTableEntries(id, places);
  const auto set = [&](unsigned k, Type* t) {
    if (chosen.size() <= k) chosen.resize(k + 1);
    chosen[k] = t;
  };
  for (const descriptor& d : places) {
    if (d.Kind == descriptor::VecOfAnyPtrsToElt) {
      set(d.getOverloadArgNumber(), FixedVectorType::get(PointerType::getUnqual(c), lanes));
    } else if (d.Kind == descriptor::Argument) {
      switch (d.getArgumentKind()) {
        case descriptor::AK_Any:
        case descriptor::AK_AnyInteger:
          set(d.getArgumentNumber(), Type::getInt64Ty(c));
          break;
        case descriptor::AK_AnyFloat:
          set(d.getArgumentNumber(), Type::getDoubleTy(c));
          break;
        case descriptor::AK_AnyVector:
          set(d.getArgumentNumber(), FixedVectorType::get(element_of(c, id), lanes));
          break;
        case descriptor::AK_AnyPointer:
          set(d.getArgumentNumber(), PointerType::getUnqual(c));
          break;
        case descriptor::AK_MatchType:
          break;
      }
    }
  }
  return none_of(chosen, [](Type* t) { return t == nullptr; });
}

bool may_write(LLVMContext& c, Intrinsic::ID id) {
  const MemoryEffects effects = Intrinsic::getAttributes(c, id).getMemoryEffects();
  return !effects.onlyReadsMemory() && !effects.onlyAccessesInaccessibleMem();
}

bool can_be_passed(Type* t) { return !t->isMetadataTy() && !t->isTokenTy() && !t->isLabelTy(); }

// False: the verifier refuses it.
bool make_caller(Module& m, Intrinsic::ID id, ArrayRef<Type*> overloads) {
  Function* callee = Intrinsic::getDeclaration(&m, id, overloads);
  FunctionType* type = callee->getFunctionType();
  SmallVector<Type*, 8> parameters;
  for (unsigned k = 0; k < type->getNumParams(); ++k) {
    if (!can_be_passed(type->getParamType(k))) return false;
    if (!callee->hasParamAttribute(k, Attribute::ImmArg)) parameters.push_back(type->getParamType(k));
  }
  auto* caller = Function::Create(FunctionType::get(Type::getVoidTy(m.getContext()), parameters, true),
                                  GlobalValue::ExternalLinkage, "calls." + callee->getName(), m);
  if (id == Intrinsic::gcwrite) caller->setGC("shadow-stack");
  IRBuilder<> b(BasicBlock::Create(m.getContext(), "entry", caller));
  SmallVector<Value*, 8> arguments;
  auto* next = caller->arg_begin();
  for (unsigned k = 0; k < type->getNumParams(); ++k) {
    const bool constant = callee->hasParamAttribute(k, Attribute::ImmArg);
    arguments.push_back(constant ? ConstantInt::get(type->getParamType(k), constant_of(id, k))
                                 : static_cast<Value*>(next++));
  }
  CallInst* call = b.CreateCall(callee, arguments);
  for (unsigned k = 0; k < type->getNumParams(); ++k) {  // what copies element by element wants to know
    if (type->getParamType(k)->isPointerTy())
      call->addParamAttr(k, Attribute::getWithAlignment(m.getContext(), Align(8)));
  }
  b.CreateRetVoid();
  if (!verifyFunction(*caller)) return true;
  caller->eraseFromParent();
  return false;
}

}  // namespace

int main() {
  LLVMContext context;
  Module module("writers", context);
  module.setTargetTriple("x86_64-pc-linux-gnu");
  module.setDataLayout("e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128");
  for (Intrinsic::ID id = 1; id < Intrinsic::num_intrinsics; ++id) {
    const StringRef name = Intrinsic::getBaseName(id);
    if (Function::isTargetIntrinsic(id) && !name.starts_with("llvm.x86.")) continue;
    if (!may_write(context, id)) continue;
    SmallVector<Type*, 4> overloads;
    if (!choose_types(context, id, overloads) || !make_caller(module, id, overloads)) errs() << name << "\n";
  }
  outs() << module;
  return 0;
}
