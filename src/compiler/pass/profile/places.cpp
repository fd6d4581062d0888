#include "places.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/MD5.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Path.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

namespace nvm::compiler {

using namespace llvm;

namespace {

constexpr StringLiteral places_section = "nvm_prof_places";

// Digest of files to which Clang gives none: those with #line, such as generated ones.
std::string digest_of(StringRef path) {
  const auto content = MemoryBuffer::getFile(path);
  if (!content) return {};
  MD5 sum;
  sum.update((*content)->getBuffer());
  MD5::MD5Result result;
  sum.final(result);
  return std::string{result.digest().str()};
}

GlobalVariable* limit_of_section(Module& m, const char* name) {
  auto* g = new GlobalVariable(m, Type::getInt8Ty(m.getContext()), true, GlobalValue::ExternalLinkage, nullptr, name);
  g->setVisibility(GlobalValue::HiddenVisibility);
  return g;
}

}  // namespace

bool is_on_path(const CallBase& call) {
  if (isa<IntrinsicInst>(call) || call.isInlineAsm() || call.onlyReadsMemory()) return false;
  const Function* f = call.getCalledFunction();
  return f == nullptr || !f->getName().starts_with("__nvm_");
}

places::places(Module& m) : module_{m} {
  LLVMContext& c = m.getContext();
  word_ = Type::getInt64Ty(c);
  pointer_ = PointerType::getUnqual(c);
  // file, function, callee, line and column, place that the function was inlined at
  place_type_ = StructType::get(c, {pointer_, pointer_, pointer_, Type::getInt32Ty(c), Type::getInt32Ty(c), pointer_});
  frame_type_ = StructType::get(c, {pointer_, pointer_});
  GlobalVariable* top = m.getNamedGlobal("__nvm_prof_top");
  if (top == nullptr) {
    top = new GlobalVariable(m, pointer_, false, GlobalValue::ExternalLinkage, nullptr, "__nvm_prof_top", nullptr,
                             GlobalValue::InitialExecTLSModel);
  }
  top_ = top;
}

Constant* places::text(StringRef t) {
  Constant*& s = texts_[t.str()];
  if (s == nullptr) {
    Constant* data = ConstantDataArray::getString(module_.getContext(), t);
    auto* g = new GlobalVariable(module_, data->getType(), true, GlobalValue::PrivateLinkage, data, "nvm.prof.text");
    g->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    s = g;
  }
  return s;
}

// {path, digest of its contents when it was compiled}: a path that is whole, so that it is found from anywhere.
Constant* places::file_of(const DIFile* f) {
  SmallString<128> path;
  std::string digest;
  if (f != nullptr) {
    if (!sys::path::is_absolute(f->getFilename())) path = f->getDirectory();
    sys::path::append(path, f->getFilename());
    sys::path::remove_dots(path, true);
    if (const auto sum = f->getChecksum(); sum && sum->Kind == DIFile::CSK_MD5) digest = sum->Value.str();
  }
  Constant*& known = files_[std::string{path}];
  if (known == nullptr) {
    if (digest.empty() && !path.empty()) digest = digest_of(path);
    Constant* fields[] = {text(path), text(digest)};
    auto* type = StructType::get(pointer_, pointer_);
    known = new GlobalVariable(module_, type, true, GlobalValue::PrivateLinkage, ConstantStruct::get(type, fields),
                               "nvm.prof.file");
  }
  return known;
}

Constant* places::place_at(const DILocation* at, StringRef function, StringRef callee) {
  Constant* none = ConstantPointerNull::get(pointer_);
  Constant* file = none;
  Constant* around = none;
  unsigned line = 0;
  unsigned column = 0;
  if (at != nullptr) {
    file = file_of(at->getScope()->getFile());
    line = at->getLine();
    column = at->getColumn();
    const DISubprogram* s = at->getScope()->getSubprogram();
    if (s != nullptr) function = s->getName();
    if (const DILocation* outer = at->getInlinedAt()) {
      around = place_at(outer, outer->getScope()->getSubprogram()->getName(), function);
    }
  }
  Constant*& known = places_[{file, function.str(), callee.str(), line, column, around}];
  if (known == nullptr) {
    Type* u32 = Type::getInt32Ty(module_.getContext());
    Constant* fields[] = {
        file, text(function), text(callee), ConstantInt::get(u32, line), ConstantInt::get(u32, column), around};
    auto* g = new GlobalVariable(module_, place_type_, true, GlobalValue::PrivateLinkage,
                                 ConstantStruct::get(place_type_, fields), "nvm.prof.place");
    g->setSection(places_section);
    g->setAlignment(Align(8));
    known = g;
  }
  return known;
}

Constant* places::place_of(const CallBase& call) {
  const Function* callee = call.getCalledFunction();
  return place_at(call.getDebugLoc().get(), call.getFunction()->getName(),
                  callee == nullptr ? StringRef{} : callee->getName());
}

void places::note_call(CallBase& call, Value* frame) {
  IRBuilder<> b(&call);
  b.SetCurrentDebugLocation(call.getDebugLoc());
  b.CreateStore(place_of(call), b.CreateStructGEP(frame_type_, frame, 1));
  const auto* plain = dyn_cast<CallInst>(&call);
  if (plain != nullptr && plain->isMustTailCall()) {
    // Nothing of this function runs after it: its caller's record is the innermost one.
    Value* caller = b.CreateLoad(pointer_, frame);
    b.CreateStore(caller, b.CreateThreadLocalAddress(top_));
    return;
  }
  // The callee reads the record, which is this function's.
  if (auto* c = dyn_cast<CallInst>(&call)) c->setTailCallKind(CallInst::TCK_NoTail);
}

bool places::keep_frame(Function& f) {
  SmallVector<CallBase*, 16> calls;
  SmallVector<Instruction*, 8> ends;
  SmallVector<Instruction*, 4> returns;  // returns to here, from frames that have ended
  for (Instruction& i : instructions(f)) {
    if (auto* c = dyn_cast<CallBase>(&i); c != nullptr && is_on_path(*c)) {
      calls.push_back(c);
      if (c->hasFnAttr(Attribute::ReturnsTwice) && isa<CallInst>(c)) returns.push_back(c->getNextNode());
    }
    if (isa<ReturnInst>(i) || isa<ResumeInst>(i)) {
      const CallInst* before = i.getParent()->getTerminatingMustTailCall();
      if (before == nullptr) ends.push_back(&i);
    }
    if (isa<LandingPadInst>(i)) returns.push_back(i.getNextNode());
  }
  if (calls.empty()) return false;

  IRBuilder<> b(&*f.getEntryBlock().getFirstInsertionPt());
  AllocaInst* frame = b.CreateAlloca(frame_type_, nullptr, "nvm.prof.frame");
  Instruction* at = frame->getNextNode();
  while (isa<AllocaInst>(at)) at = at->getNextNode();
  b.SetInsertPoint(at);
  Value* top = b.CreateThreadLocalAddress(top_);
  b.CreateStore(b.CreateLoad(pointer_, top), frame);
  b.CreateStore(ConstantPointerNull::get(pointer_), b.CreateStructGEP(frame_type_, frame, 1));
  b.CreateStore(frame, top);
  for (CallBase* c : calls) note_call(*c, frame);
  for (Instruction* i : returns) {
    b.SetInsertPoint(i);
    b.CreateStore(frame, b.CreateThreadLocalAddress(top_));
  }
  for (Instruction* i : ends) {
    b.SetInsertPoint(i);
    Value* caller = b.CreateLoad(pointer_, frame);
    b.CreateStore(caller, b.CreateThreadLocalAddress(top_));
  }
  return true;
}

// {files, how many, folder, command line}: the source itself, then what else has code in it.
Constant* places::unit_of(const DICompileUnit& unit) {
  SmallVector<Constant*, 8> files{file_of(unit.getFile())};
  for (const Function& f : module_) {
    const DISubprogram* s = f.getSubprogram();
    if (s == nullptr || s->getUnit() != &unit) continue;
    Constant* file = file_of(s->getFile());
    if (!is_contained(files, file)) files.push_back(file);
  }
  auto* array = ArrayType::get(pointer_, files.size());
  auto* all = new GlobalVariable(module_, array, true, GlobalValue::PrivateLinkage, ConstantArray::get(array, files),
                                 "nvm.prof.files");
  Constant* fields[] = {all, ConstantInt::get(word_, files.size()), text(unit.getDirectory()), text(unit.getFlags())};
  auto* type = StructType::get(pointer_, word_, pointer_, pointer_);
  return new GlobalVariable(module_, type, true, GlobalValue::PrivateLinkage, ConstantStruct::get(type, fields),
                            "nvm.prof.unit");
}

void places::announce() {
  if (places_.empty()) return;
  LLVMContext& c = module_.getContext();
  Type* none = Type::getVoidTy(c);
  auto* f =
      Function::Create(FunctionType::get(none, false), GlobalValue::InternalLinkage, "nvm.prof.announce", module_);
  IRBuilder<> b(BasicBlock::Create(c, "", f));
  FunctionCallee announce = module_.getOrInsertFunction("__nvm_prof_places", none, pointer_, pointer_);
  b.CreateCall(announce, {limit_of_section(module_, "__start_nvm_prof_places"),
                          limit_of_section(module_, "__stop_nvm_prof_places")});
  FunctionCallee unit = module_.getOrInsertFunction("__nvm_prof_unit", none, pointer_);
  for (const DICompileUnit* u : module_.debug_compile_units()) b.CreateCall(unit, {unit_of(*u)});
  b.CreateRetVoid();
  appendToGlobalCtors(module_, f, 0);
}

}  // namespace nvm::compiler
