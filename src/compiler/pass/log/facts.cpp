#include "facts.hpp"

#include <llvm/ADT/StringSwitch.h>
#include <llvm/Analysis/MemoryBuiltins.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/GetElementPtrTypeIterator.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

#include <numeric>

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

namespace {

// How far an address lies after another one.
struct distance {
  std::uint64_t first = 0;       // bytes, of two's complement, but for indexes that are no constants
  std::uint64_t spread = 0;      // the most that such indexes into arrays add
  std::uint64_t step = 0;        // they add multiples of it; 0: there are none
  unsigned indexes = 0;          // such indexes
  unsigned unbounded = 0;        // those into no array, or into one of unknown size: they may add any multiple
  bool moved = false;            // one of these is into no array, so it may lead anywhere
  const Value* index = nullptr;  // one of them
};

// Adds what the instruction adds to its pointer; false: that cannot be said.
bool add(const GEPOperator& g, const DataLayout& layout, distance& d) {
  const Type* in = nullptr;
  for (gep_type_iterator t = gep_type_begin(g), end = gep_type_end(g); t != end; in = t.getIndexedType(), ++t) {
    const auto* number = dyn_cast<ConstantInt>(t.getOperand());
    if (number != nullptr && number->getBitWidth() > 64) return false;
    if (StructType* s = t.getStructTypeOrNull()) {
      if (number == nullptr || layout.getTypeAllocSize(s).isScalable()) return false;
      d.first += layout.getStructLayout(s)->getElementOffset(static_cast<unsigned>(number->getZExtValue()));
      continue;
    }
    const TypeSize stride = t.getSequentialElementStride(layout);
    if (stride.isScalable() || !t.getOperand()->getType()->isIntegerTy()) return false;
    const std::uint64_t bytes = stride.getFixedValue();
    const auto* array = in == nullptr ? nullptr : dyn_cast<ArrayType>(in);
    if (number != nullptr) {
      d.first += static_cast<std::uint64_t>(number->getSExtValue()) * bytes;
    } else {
      d.step = std::gcd(d.step, bytes);
      d.index = t.getOperand();
      ++d.indexes;
      if (array == nullptr || array->getNumElements() == 0) {
        ++d.unbounded;
        d.moved = d.moved || array == nullptr;
      } else {
        d.spread += (array->getNumElements() - 1) * bytes;
      }
    }
  }
  return true;
}

// What a field's mark says: "nvm_reset:12", or "nvm_reset:12[]" of an array (pass/front/system_functions.cpp).
struct marked_field {
  unlogged_field what = unlogged_field::none;
  std::uint64_t bytes = 0;  // 0: not known
  bool is_array = false;
};
marked_field field_of(const Value* marked) {
  const auto* mark = dyn_cast<IntrinsicInst>(marked);
  if (mark == nullptr || mark->getIntrinsicID() != Intrinsic::ptr_annotation) return {};
  const auto* text = dyn_cast<GlobalVariable>(mark->getArgOperand(1)->stripPointerCasts());
  if (text == nullptr || !text->hasInitializer()) return {};
  const auto* content = dyn_cast<ConstantDataSequential>(text->getInitializer());
  if (content == nullptr || !content->isCString()) return {};
  auto [what, bytes] = content->getAsCString().split(':');
  marked_field f;
  f.what = StringSwitch<unlogged_field>(what)
               .Case("nvm_stale_ok", unlogged_field::stale_ok)
               .Case("nvm_reset", unlogged_field::reset)
               .Default(unlogged_field::none);
  f.is_array = bytes.consume_back("[]");
  if (bytes.getAsInteger(10, f.bytes)) f.bytes = 0;
  return f;
}

constexpr std::uint64_t flexible = INT64_MAX;  // bytes of an array that goes to the object's end

// Grows by itself from turn to turn of a loop.
bool counts_turns(const Value* index) {
  while (isa<SExtInst, ZExtInst, TruncInst>(index)) index = cast<Instruction>(index)->getOperand(0);
  const auto* const sum = dyn_cast<BinaryOperator>(index);
  if (sum != nullptr && (sum->getOpcode() == Instruction::Add || sum->getOpcode() == Instruction::Or))
    return isa<PHINode>(sum->getOperand(0)) && counts_turns(sum->getOperand(0));
  const auto* const phi = dyn_cast<PHINode>(index);
  return phi != nullptr && any_of(phi->incoming_values(), [&](const Value* v) {
           const auto* const next = dyn_cast<BinaryOperator>(v);
           return next != nullptr && next->getOpcode() == Instruction::Add && is_contained(next->operands(), phi);
         });
}

// Whether all bytes there are the field's; a doubt is a no.  An index that is no constant stays in the array that it
// indexes.  One that has passed through other arithmetic may hide a way back, to the structure around an element: so if
// there is another one, or it counts bytes.
bool lies_in(const marked_field& f, distance d, std::uint64_t bytes, const VectorType* vector) {
  if (d.unbounded > (f.is_array ? 1U : 0U) || (d.moved && (d.indexes > 1 || d.step <= 1))) return false;
  if (d.first > f.bytes || bytes > f.bytes - d.first) return false;
  if (d.step == 0) return true;
  if (d.unbounded != 0 && f.bytes != flexible) d.spread += f.bytes - std::min(d.step, f.bytes);
  if (d.first % d.step + bytes <= d.step && d.spread <= f.bytes - d.first - bytes) return true;
  // The optimizer makes vectors of the stores of several turns, which lie in the array as these do.
  if (vector == nullptr || bytes <= 8 || d.indexes != 1) return false;
  const std::uint64_t element = vector->getScalarSizeInBits() / 8;
  return element != 0 && element <= d.step && d.first % d.step == 0 && bytes % d.step == 0 &&
         (d.first == 0 || counts_turns(d.index));
}

unlogged_field field_around(const Value* address, std::uint64_t bytes, const VectorType* vector) {
  if (!address->getType()->isPointerTy()) return unlogged_field::none;
  SmallVector<const GEPOperator*, 4> steps;
  while (const auto* g = dyn_cast<GEPOperator>(address->stripPointerCasts())) {
    steps.push_back(g);
    address = g->getPointerOperand();
  }
  const Value* const marked = address->stripPointerCasts();
  const marked_field f = field_of(marked);
  if (f.what == unlogged_field::none) return f.what;
  distance d;
  for (const GEPOperator* g : steps) {
    if (!add(*g, cast<Instruction>(marked)->getModule()->getDataLayout(), d)) return unlogged_field::none;
  }
  return lies_in(f, d, bytes, vector) ? f.what : unlogged_field::none;
}

}  // namespace

unlogged_field unlogged_field_at(const Value* address, std::uint64_t bytes) {
  return field_around(address, bytes, nullptr);
}

namespace {

constexpr const char* mark_of_store(unlogged_field f) {
  return f == unlogged_field::reset ? "nvm.reset" : "nvm.stale_ok";
}

// Where the instruction stores one value; nullptr: it does not.
const Value* address_of_one(const Instruction& i) {
  if (const auto* s = dyn_cast<StoreInst>(&i)) return s->getPointerOperand();
  if (const auto* r = dyn_cast<AtomicRMWInst>(&i)) return r->getPointerOperand();
  if (const auto* x = dyn_cast<AtomicCmpXchgInst>(&i)) return x->getPointerOperand();
  return nullptr;
}
TypeSize bytes_of_one(const Instruction& i) {
  const Type* type = i.getOperand(0)->getType();
  if (isa<AtomicRMWInst>(i) || isa<AtomicCmpXchgInst>(i)) type = i.getOperand(1)->getType();
  return i.getModule()->getDataLayout().getTypeStoreSize(const_cast<Type*>(type));
}

}  // namespace

void mark_unlogged_stores(Function& f) {
  LLVMContext& c = f.getContext();
  for (BasicBlock& b : f) {
    for (Instruction& i : b) {
      const Value* const address = address_of_one(i);
      if (address == nullptr) continue;
      const TypeSize bytes = bytes_of_one(i);
      if (bytes.isScalable()) continue;
      const unlogged_field field = unlogged_field_at(address, bytes.getFixedValue());
      if (field == unlogged_field::none) continue;
      Metadata* const size = ConstantAsMetadata::get(ConstantInt::get(Type::getInt64Ty(c), bytes.getFixedValue()));
      i.setMetadata(mark_of_store(field), MDNode::get(c, size));
    }
  }
}

unlogged_field unlogged_field_of(const Instruction& store, const Value* address, std::uint64_t bytes) {
  const auto* const vector = isa<StoreInst>(store) ? dyn_cast<VectorType>(store.getOperand(0)->getType()) : nullptr;
  if (const unlogged_field f = field_around(address, bytes, vector); f != unlogged_field::none) return f;
  if (address_of_one(store) != address) return unlogged_field::none;
  for (const unlogged_field f : {unlogged_field::reset, unlogged_field::stale_ok}) {
    const MDNode* const mark = store.getMetadata(mark_of_store(f));
    if (mark == nullptr || mark->getNumOperands() != 1) continue;
    const auto* size = mdconst::dyn_extract<ConstantInt>(mark->getOperand(0));
    if (size != nullptr && size->getZExtValue() == bytes) return f;
  }
  return unlogged_field::none;
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
