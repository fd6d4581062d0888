#include "facts.hpp"

#include <llvm/Analysis/MemoryBuiltins.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

namespace nvm::compiler {

using namespace llvm;

bool is_heap_function(const Function& f) {
  return f.isDeclaration() && (f.getName().starts_with("nvm_") || f.getName().starts_with("__nvm_"));
}

bool leaves_transactions_alone(StringRef name) {
  static const StringRef known[] = {"nvm_tx_log",        "nvm_tx_log_many",   "nvm_tx_depth",    "nvm_alloc",
                                    "nvm_calloc",        "nvm_strdup",        "nvm_free",        "nvm_size_of",
                                    "nvm_type_of",       "nvm_errno",         "nvm_errormsg",    "nvm_pool_of",
                                    "nvm_pool_get_root", "nvm_is_durable",    "nvm_malloc",      "nvm_malloc_zeroed",
                                    "nvm_malloc_strdup", "nvm_malloc_resize", "nvm_malloc_free", "nvm_scope_begin",
                                    "nvm_scope_end"};
  return is_contained(known, name);
}

bool is_jump_target(const CallBase& c) {
  const Function* f = c.getCalledFunction();
  if (f == nullptr || !f->isDeclaration()) return false;
  static const StringRef known[] = {"setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp"};
  return is_contained(known, f->getName()) && c.getType()->isIntegerTy();
}

namespace {

// Whether Clang's plugin has marked it (pass/front/system_functions.cpp).
bool is_assumed(const Function& f, StringRef what) {
  SmallVector<StringRef, 4> all;
  f.getFnAttribute("llvm.assume").getValueAsString().split(all, ',');
  return is_contained(all, what);
}

}  // namespace

Function* function_of(const CallBase& c) {
  return dyn_cast<Function>(c.getCalledOperand()->stripPointerCastsAndAliases());
}

bool is_system_function(const Function& f) { return is_assumed(f, "nvm_system"); }
bool is_program_function(const Function& f) { return !is_system_function(f) && is_assumed(f, "nvm_program"); }
bool comes_compiled(const Function& f) {
  return f.isDeclaration() || f.hasAvailableExternallyLinkage() || is_assembly(f);
}
bool is_assembly(const Function& f) { return f.hasFnAttribute(Attribute::Naked) || f.hasFnAttribute(assembly_mark); }
bool only_reads(const Function& f, unsigned parameter) {
  const unsigned before = f.hasStructRetAttr() ? 1 : 0;
  return parameter >= before && is_assumed(f, "nvm_reads_" + std::to_string(parameter - before));
}

namespace {

// Pointers that these return are durable, or NULL; tests/holdfast_cc/durable_sources_test.py reads the headers.
bool returns_durable(const CallBase& c) {
  const Function* f = c.getCalledFunction();
  if (f == nullptr) return false;
  static const StringRef known[] = {
      "nvm_alloc",          "nvm_calloc",        "nvm_alloc_aligned",  "nvm_calloc_aligned", "nvm_realloc",
      "nvm_strdup",         "nvm_pool_get_root", "nvm_object_around",  "nvm_stm_alloc",      "nvm_stm_alloc_aligned",
      "nvm_stm_get_root",   "nvm_weak_get",      "nvm_store_alloc",    "nvm_store_calloc",   "nvm_store_strdup",
      "nvm_store_get_root", "nvm_store_at",      "nvm_stm_store_alloc"};
  return is_contained(known, f->getName());
}
// It leaves a durable pointer, or NULL, in that variable.
bool leaves_durable(const CallBase& c, const Value* variable) {
  const Function* f = c.getCalledFunction();
  return f != nullptr && f->getName() == "nvm_pool_read_root" && c.arg_size() == 2 && c.getArgOperand(1) == variable;
}

constexpr unsigned variables_in_turn = 4;

bool belongs_to_durable(const Value* address, unsigned depth);

// A local variable that gets nothing but such pointers: without optimisation every pointer is in one.
bool is_durable_variable(const Value* place, unsigned depth) {
  if (!isa<AllocaInst>(place) || depth == variables_in_turn) return false;
  bool any = false;
  for (const User* u : place->users()) {
    const auto* c = dyn_cast<CallBase>(u);
    any = any || (c != nullptr && leaves_durable(*c, place));
    const auto* s = dyn_cast<StoreInst>(u);
    if (s == nullptr || s->getPointerOperand() != place || isa<ConstantPointerNull>(s->getValueOperand())) continue;
    if (!belongs_to_durable(s->getValueOperand(), depth + 1)) return false;
    any = true;
  }
  return any;
}

// Every object that the address can belong to is durable.
bool belongs_to_durable(const Value* address, unsigned depth) {
  if (!address->getType()->isPointerTy()) return false;
  SmallVector<const Value*, 4> objects;
  getUnderlyingObjects(address, objects, nullptr, 16);
  bool any = false;
  for (const Value* o : objects) {
    if (isa<ConstantPointerNull>(o)) continue;
    const auto* l = dyn_cast<LoadInst>(o);
    const auto* c = dyn_cast<CallBase>(o);
    if (l == nullptr ? c == nullptr || !returns_durable(*c) : !is_durable_variable(l->getPointerOperand(), depth))
      return false;
    any = true;
  }
  return any;
}

}  // namespace

bool is_elsewhere(const Value* address) {
  return address->getType()->isPtrOrPtrVectorTy() && address->getType()->getPointerAddressSpace() != 0;
}

bool is_volatile(const Value* address, const TargetLibraryInfo& libc) {
  if (is_elsewhere(address)) return true;
  // Many addresses in one object.
  if (const auto* g = dyn_cast<GEPOperator>(address); g != nullptr && address->getType()->isVectorTy())
    address = g->getPointerOperand();
  SmallVector<const Value*, 8> objects;
  getUnderlyingObjects(address, objects, nullptr, 16);
  for (const Value* o : objects) {
    if (isa<AllocaInst>(o) || isa<GlobalVariable>(o) || isa<Function>(o) || isa<ConstantPointerNull>(o) ||
        isa<UndefValue>(o))
      continue;
    if (const auto* a = dyn_cast<Argument>(o); a != nullptr && a->hasByValAttr()) continue;
    if (const auto* c = dyn_cast<CallBase>(o); c != nullptr && isAllocationFn(c, &libc) && !returns_durable(*c))
      continue;
    return false;
  }
  return !objects.empty();
}

bool may_be_stale(const Value* address) {
  if (!address->getType()->isPointerTy()) return false;
  while (const auto* g = dyn_cast<GEPOperator>(address->stripPointerCasts())) address = g->getPointerOperand();
  const auto* mark = dyn_cast<IntrinsicInst>(address->stripPointerCasts());
  if (mark == nullptr || mark->getIntrinsicID() != Intrinsic::ptr_annotation) return false;
  const auto* text = dyn_cast<GlobalVariable>(mark->getArgOperand(1)->stripPointerCasts());
  if (text == nullptr || !text->hasInitializer()) return false;
  const auto* what = dyn_cast<ConstantDataSequential>(text->getInitializer());
  return what != nullptr && what->isCString() && what->getAsCString() == "nvm_stale_ok";
}

bool is_durable(const Value* address) { return belongs_to_durable(address, 0); }

bool holds_durable(const Value* address) {
  if (!address->getType()->isPointerTy()) return false;
  const auto* variable = dyn_cast<AllocaInst>(getUnderlyingObject(address, 16));
  if (variable == nullptr) return false;
  SmallVector<const Value*, 16> places{variable};
  for (std::size_t k = 0; k < places.size() && k < 64; ++k) {
    for (const User* u : places[k]->users()) {
      if (isa<GetElementPtrInst>(u)) places.push_back(u);
      const auto* s = dyn_cast<StoreInst>(u);
      if (s != nullptr && s->getPointerOperand() == places[k] && is_durable(s->getValueOperand())) return true;
      const auto* c = dyn_cast<CallBase>(u);
      if (c != nullptr && leaves_durable(*c, places[k])) return true;
    }
  }
  return false;
}

bool any_durable_argument(const CallBase& c) {
  return any_of(c.args(), [](const Use& u) { return is_durable(u.get()); });
}

std::uint64_t fresh_bytes(const CallBase& c) {
  const Function* f = c.getCalledFunction();
  if (f == nullptr) return 0;
  const bool array = f->getName() == "nvm_calloc" && c.arg_size() == 4;
  if (!array && !(f->getName() == "nvm_alloc" && c.arg_size() == 3)) return 0;
  const auto* size = dyn_cast<ConstantInt>(c.getArgOperand(array ? 3 : 2));
  const auto* count = array ? dyn_cast<ConstantInt>(c.getArgOperand(2)) : nullptr;
  if (size == nullptr || (array && count == nullptr)) return 0;
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  const std::uint64_t bytes = size->getValue().getLimitedValue(most);
  const std::uint64_t times = array ? count->getValue().getLimitedValue(most) : 1;
  return bytes != 0 && times <= most / bytes ? bytes * times : 0;
}

Constant* site_of(const Instruction& i) {
  Module& m = *const_cast<Module*>(i.getModule());
  LLVMContext& context = m.getContext();
  std::string file = m.getSourceFileName();
  std::string function = i.getFunction()->getName().str();
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  if (const DILocation* l = i.getDebugLoc().get()) {
    file = l->getFilename().str();
    line = l->getLine();
    column = l->getColumn();
    if (const DISubprogram* s = l->getScope()->getSubprogram()) function = s->getName().str();
  }
  const auto text = [&](const std::string& t) -> Constant* {
    const std::string name = "__nvm_text." + t;
    if (GlobalVariable* known = m.getNamedGlobal(name)) return known;
    Constant* content = ConstantDataArray::getString(context, t);
    auto* g = new GlobalVariable(m, content->getType(), true, GlobalValue::PrivateLinkage, content, name);
    g->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    return g;
  };
  Type* number = Type::getInt32Ty(context);
  Constant* site = ConstantStruct::getAnon(
      {text(file), text(function), ConstantInt::get(number, line), ConstantInt::get(number, column)});
  auto* g = new GlobalVariable(m, site->getType(), true, GlobalValue::PrivateLinkage, site, "__nvm_site");
  g->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  return g;
}

}  // namespace nvm::compiler
