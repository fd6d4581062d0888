// nvm_profile_pass: counts loads and stores for `holdfast advise` (holdfast-cc -fnvm-profile).
//
// Runs last in the optimizer, after the pass that logs, so that it sees the accesses the machine will make.  Before
// each access that may go to allocated memory it inserts
//     if (address - window < window's bytes) __nvm_prof_load(address, bytes);
// and so on for stores, blocks and strings; for blocks that a function of the C library reads or writes after the call,
// where the result says how many bytes it was.  The window spans the heap of profiled programs and the pools
// (src/advisor/runtime/window.hpp).  places.hpp says how allocations know their call path.
//
// A vector access is one access of its bytes; of a masked one the lanes that are active count; a gathered or scattered
// one is an access for each active lane.  An atomic operation is a load and a store.  Not seen: inline assembly, the
// log's reads to find out how much a call will write, and functions that are neither instrumented, nor in
// library_calls.hpp, nor described by libc.unsafe with a number of bytes.
//
//   -mllvm -nvm-profile-unsafe=FILE  descriptions of precompiled functions; may be given several times
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <map>

#include "compiler/pass/log/unsafe_file.hpp"
#include "compiler/pass/log/written.hpp"
#include "library_calls.hpp"
#include "places.hpp"

using namespace llvm;
namespace compiler = nvm::compiler;
using compiler::access;
using compiler::written;

namespace {

// The values of src/advisor/runtime/window.hpp, which tests/advisor compares.
constexpr std::uint64_t window_base = 0x1800'0000'0000;
constexpr std::uint64_t window_bytes = 0x4000'0000'0000 - window_base;

cl::list<std::string> unsafe_files("nvm-profile-unsafe", cl::Hidden, cl::desc("descriptions of precompiled functions"));

using descriptions = std::map<std::string, compiler::unsafe_function>;

// Of this process, read once.  A file that cannot be read was refused by the pass that logs, which gets the same ones.
const descriptions& known_functions() {
  static const descriptions all = [] {
    descriptions d;
    for (const std::string& path : unsafe_files) {
      auto content = MemoryBuffer::getFile(path, /*IsText=*/true);
      std::vector<compiler::unsafe_function> functions;
      compiler::unsafe_error error;
      if (!content || !compiler::parse_unsafe((*content)->getBuffer(), functions, error)) continue;
      for (auto& f : functions) {
        const std::string name = f.name;
        d.emplace(name, std::move(f));
      }
    }
    return d;
  }();
  return all;
}

class counter {
 public:
  explicit counter(Module& m) : module_{m}, layout_{m.getDataLayout()}, places_{m} {
    LLVMContext& c = m.getContext();
    word_ = Type::getInt64Ty(c);
    Type* none = Type::getVoidTy(c);
    Type* pointer = PointerType::getUnqual(c);
    load_ = m.getOrInsertFunction("__nvm_prof_load", none, pointer, word_);
    store_ = m.getOrInsertFunction("__nvm_prof_store", none, pointer, word_);
    read_ = m.getOrInsertFunction("__nvm_prof_read", none, pointer, word_);
    write_ = m.getOrInsertFunction("__nvm_prof_write", none, pointer, word_);
    read_text_ = m.getOrInsertFunction("__nvm_prof_read_text", none, pointer);
    write_text_ = m.getOrInsertFunction("__nvm_prof_write_text", none, pointer);
    for (std::size_t k = 0; k < std::size(sizes); ++k) {
      const std::string size = std::to_string(sizes[k]);
      sized_loads_[k] = m.getOrInsertFunction("__nvm_prof_load_" + size, none, pointer);
      sized_stores_[k] = m.getOrInsertFunction("__nvm_prof_store_" + size, none, pointer);
      keeps_registers(sized_loads_[k]);
      keeps_registers(sized_stores_[k]);
    }
    keeps_registers(load_);
    keeps_registers(store_);
    length_ = m.getOrInsertFunction("__nvm_prof_length", word_, pointer);
  }

  bool run() {
    bool changed = false;
    for (Function& f : module_) {
      if (f.isDeclaration() || f.hasAvailableExternallyLinkage() || f.hasFnAttribute(Attribute::Naked)) continue;
      if (f.getName().starts_with("nvm.") || f.getName().starts_with("__nvm_")) continue;
      instrument(f);
      changed = true;
    }
    places_.announce();
    return changed;
  }

 private:
  static void keeps_registers(FunctionCallee f) {
    auto* hook = cast<Function>(f.getCallee());
    hook->setCallingConv(CallingConv::PreserveAll);
    hook->addFnAttr(Attribute::NonLazyBind);
  }

  void instrument(Function& f) {
    SmallVector<Instruction*, 64> accesses;
    for (Instruction& i : instructions(f)) {
      if (i.mayReadOrWriteMemory()) accesses.push_back(&i);
    }
    places_.keep_frame(f);
    for (Instruction* i : accesses) visit(*i);
  }

  // ---- one instruction --------------------------------------------------------------------------------------------

  void visit(Instruction& i) {
    if (i.getMetadata("nvm.log") != nullptr) return;  // the log's own
    if (auto* l = dyn_cast<LoadInst>(&i)) {
      count(i, load_, l->getPointerOperand(), bytes_of(l->getType()));
    } else if (auto* s = dyn_cast<StoreInst>(&i)) {
      count(i, store_, s->getPointerOperand(), bytes_of(s->getValueOperand()->getType()));
    } else if (auto* r = dyn_cast<AtomicRMWInst>(&i)) {
      count(i, load_, r->getPointerOperand(), bytes_of(r->getValOperand()->getType()));
      count(i, store_, r->getPointerOperand(), bytes_of(r->getValOperand()->getType()));
    } else if (auto* x = dyn_cast<AtomicCmpXchgInst>(&i)) {
      count(i, load_, x->getPointerOperand(), bytes_of(x->getNewValOperand()->getType()));
      count_exchange(*x);
    } else if (auto* m = dyn_cast<AnyMemIntrinsic>(&i)) {
      if (auto* t = dyn_cast<AnyMemTransferInst>(m)) count(i, read_, t->getRawSource(), m->getLength());
      count(i, write_, m->getRawDest(), m->getLength());
    } else if (auto* n = dyn_cast<IntrinsicInst>(&i)) {
      visit_intrinsic(*n);
    } else if (auto* c = dyn_cast<CallBase>(&i)) {
      visit_call(*c);
    }
  }

  ConstantInt* number(std::uint64_t v) const { return ConstantInt::get(cast<IntegerType>(word_), v); }
  Value* bytes_of(Type* type) const { return number(layout_.getTypeStoreSize(type).getKnownMinValue()); }

  // A store only where it was one.
  void count_exchange(AtomicCmpXchgInst& x) {
    IRBuilder<> b(x.getNextNode());
    Value* bytes = b.CreateSelect(b.CreateExtractValue(&x, 1), bytes_of(x.getNewValOperand()->getType()), number(0));
    count(x, store_, x.getPointerOperand(), bytes, cast<Instruction>(bytes)->getNextNode());
  }

  void visit_intrinsic(IntrinsicInst& i) {
    switch (i.getIntrinsicID()) {
      case Intrinsic::masked_load:
        return count_lanes(i, load_, i.getArgOperand(0), i.getArgOperand(2), i.getType());
      case Intrinsic::masked_expandload:
        return count_lanes(i, load_, i.getArgOperand(0), i.getArgOperand(1), i.getType());
      case Intrinsic::masked_gather: {
        written w;
        w.what = written::shape::scattered;
        w.address = i.getArgOperand(0);
        w.mask = i.getArgOperand(2);
        w.lanes = cast<FixedVectorType>(i.getType())->getNumElements();
        w.bytes = bytes_of(i.getType()->getScalarType());
        return count_scattered(i, load_, w);
      }
      default:
        break;
    }
    for (const written& w : compiler::written_by(i, layout_)) visit_written(i, w);
  }

  void visit_written(IntrinsicInst& i, const written& w) {
    switch (w.what) {
      case written::shape::bytes:
      case written::shape::line:
        return count(i, store_, w.address, w.bytes);
      case written::shape::masked:
      case written::shape::compressed: {
        IRBuilder<> b(&i);
        b.SetCurrentDebugLocation(i.getDebugLoc());
        Value* lanes = active(b, w);
        return count(i, store_, w.address, b.CreateMul(lanes, b.CreateZExtOrTrunc(w.bytes, word_)));
      }
      case written::shape::scattered:
        return count_scattered(i, store_, w);
      case written::shape::tile:
      case written::shape::object:
      case written::shape::refused:
        return;  // of an unknown length
    }
  }

  Value* active(IRBuilder<>& b, const written& w) {
    Value* bits = compiler::active_lanes(b, w);
    Value* lanes = number(0);
    for (unsigned first = 0; first < w.lanes; first += compiler::word_bits) {
      lanes = b.CreateAdd(lanes, b.CreateUnaryIntrinsic(Intrinsic::ctpop, compiler::lanes_word(b, bits, first)));
    }
    return lanes;
  }

  void count_lanes(Instruction& i, FunctionCallee what, Value* address, Value* mask, Type* type) {
    written w;
    w.address = address;
    w.mask = mask;
    w.lanes = cast<FixedVectorType>(type)->getNumElements();
    IRBuilder<> b(&i);
    b.SetCurrentDebugLocation(i.getDebugLoc());
    count(i, what, address, b.CreateMul(active(b, w), bytes_of(type->getScalarType())));
  }

  void count_scattered(Instruction& i, FunctionCallee what, const written& w) {
    IRBuilder<> b(&i);
    b.SetCurrentDebugLocation(i.getDebugLoc());
    Value* addresses = compiler::lane_addresses(b, w);
    Value* bits = compiler::active_lanes(b, w);
    Value* bytes = b.CreateZExtOrTrunc(w.bytes, word_);
    for (unsigned lane = 0; lane < w.lanes; ++lane) {
      IRBuilder<> c(&i);
      Value* pointer = c.CreateExtractElement(addresses, std::uint64_t{lane});
      Value* set = c.CreateExtractElement(bits, std::uint64_t{lane});
      count(i, what, pointer, c.CreateSelect(set, bytes, number(0)), &i);
    }
  }

  // ---- calls ------------------------------------------------------------------------------------------------------

  void visit_call(CallBase& c) {
    const Function* f = c.getCalledFunction();
    if (f == nullptr || !f->isDeclaration() || c.isInlineAsm()) return;
    bool known = false;
    for (const compiler::library_access& a : compiler::library_accesses) {
      if (f->getName() != a.name || a.pointer >= c.arg_size() || a.bytes >= c.arg_size()) continue;
      known = true;
      if (c.getArgOperand(a.pointer)->getType()->isPointerTy()) visit_library(c, a);
    }
    if (known) return;
    const auto described = known_functions().find(f->getName().str());
    if (described == known_functions().end() || described->second.arguments > c.arg_size()) return;
    for (const compiler::written_range& r : described->second.writes) visit_described(c, r);
  }

  void visit_library(CallBase& c, const compiler::library_access& a) {
    Value* pointer = c.getArgOperand(a.pointer);
    const FunctionCallee block = a.what == access::read ? read_ : write_;
    IRBuilder<> before(&c);
    before.SetCurrentDebugLocation(c.getDebugLoc());
    switch (a.how) {
      case compiler::extent::argument:
        return count(c, block, pointer, c.getArgOperand(a.bytes));
      case compiler::extent::product: {
        if (a.bytes + 1U >= c.arg_size()) return;
        Value* size = before.CreateZExtOrTrunc(c.getArgOperand(a.bytes + 1U), word_);
        return count(c, block, pointer,
                     before.CreateMul(before.CreateZExtOrTrunc(c.getArgOperand(a.bytes), word_), size));
      }
      case compiler::extent::same_as:
        return count(c, block, pointer, before.CreateCall(length_, {c.getArgOperand(a.bytes)}));
      case compiler::extent::string:
        // Text that is read exists before the call, which may free or change it.
        return count(c, a.what == access::read ? read_text_ : write_text_, pointer, nullptr,
                     a.what == access::read ? &c : after(c));
      case compiler::extent::result:
      case compiler::extent::result_blocks: {
        if (!c.getType()->isIntegerTy() || isa<InvokeInst>(c)) return;
        IRBuilder<> b(after(c));
        b.SetCurrentDebugLocation(c.getDebugLoc());
        Value* result = b.CreateSExtOrTrunc(&c, word_);
        Value* bytes = b.CreateBinaryIntrinsic(Intrinsic::smax, result, number(0));
        if (a.how == compiler::extent::result_blocks) {
          bytes = b.CreateMul(bytes, b.CreateZExtOrTrunc(c.getArgOperand(a.bytes), word_));
        }
        return count(c, block, pointer, bytes, &*b.GetInsertPoint());
      }
    }
  }

  // Numbers of bytes that follow from the arguments without a look into memory; null: it is none.
  Value* value_of(IRBuilder<>& b, CallBase& c, const compiler::expression& e) {
    using kind = compiler::expression::kind;
    switch (e.what) {
      case kind::constant:
        return number(e.value);
      case kind::argument: {
        Value* v = c.getArgOperand(static_cast<unsigned>(e.value));
        return v->getType()->isIntegerTy() ? b.CreateZExtOrTrunc(v, word_) : nullptr;
      }
      case kind::string_length: {
        Value* v = c.getArgOperand(static_cast<unsigned>(e.value));
        return v->getType()->isPointerTy() ? b.CreateSub(b.CreateCall(length_, {v}), number(1)) : nullptr;
      }
      case kind::sum:
      case kind::product:
      case kind::minimum: {
        Value* v = value_of(b, c, e.parts[0]);
        for (std::size_t k = 1; v != nullptr && k < e.parts.size(); ++k) {
          Value* next = value_of(b, c, e.parts[k]);
          if (next == nullptr) return nullptr;
          v = e.what == kind::sum       ? b.CreateAdd(v, next)
              : e.what == kind::product ? b.CreateMul(v, next)
                                        : b.CreateBinaryIntrinsic(Intrinsic::umin, v, next);
        }
        return v;
      }
      default:
        return nullptr;
    }
  }

  // "At most n" counts as n bytes, up to the end of the object.
  void visit_described(CallBase& c, const compiler::written_range& r) {
    constexpr std::uint64_t to_the_end = 0xFFFF'FFFF;
    if (compiler::is_unsaid(r) || r.further || r.address.what != compiler::expression::kind::argument) return;
    if (r.address.value >= c.arg_size()) return;
    if (r.bytes.what == compiler::expression::kind::constant && r.bytes.value > to_the_end) return;
    Value* pointer = c.getArgOperand(static_cast<unsigned>(r.address.value));
    if (!pointer->getType()->isPointerTy()) return;
    IRBuilder<> b(&c);
    b.SetCurrentDebugLocation(c.getDebugLoc());
    if (Value* bytes = value_of(b, c, r.bytes)) count(c, write_, pointer, bytes);
  }

  // ---- what is inserted -------------------------------------------------------------------------------------------

  // Variables of the running function, other address spaces and constants are never counted.
  static bool may_be_allocated(const Value* pointer) {
    if (!pointer->getType()->isPointerTy() || pointer->getType()->getPointerAddressSpace() != 0) return false;
    const Value* object = getUnderlyingObject(pointer);
    return !isa<AllocaInst>(object) && !isa<GlobalVariable>(object) && !isa<ConstantPointerNull>(object);
  }

  static Instruction* after(CallBase& c) {
    auto* invoke = dyn_cast<InvokeInst>(&c);
    if (invoke == nullptr) return c.getNextNode();
    BasicBlock* normal = invoke->getNormalDest();
    if (normal->getSinglePredecessor() == nullptr) normal = SplitEdge(invoke->getParent(), normal);
    return &*normal->getFirstInsertionPt();
  }

  // Inserts before `at` (default: `i`) the comparison, and under it the call.
  void count(Instruction& i, FunctionCallee what, Value* pointer, Value* bytes, Instruction* at = nullptr) {
    if (!may_be_allocated(pointer)) return;
    if (at == nullptr) at = &i;
    if (auto* c = dyn_cast<CallInst>(at); c != nullptr && c->isMustTailCall() && at != &i) return;
    IRBuilder<> b(at);
    b.SetCurrentDebugLocation(i.getDebugLoc());
    Value* offset = b.CreateSub(b.CreatePtrToInt(pointer, word_), number(window_base));
    Value* inside = b.CreateICmpULT(offset, number(window_bytes));
    IRBuilder<> then(SplitBlockAndInsertIfThen(inside, at->getIterator(), false));
    then.SetCurrentDebugLocation(i.getDebugLoc());
    const bool loads = what.getCallee() == load_.getCallee();
    if (const auto* n = dyn_cast_or_null<ConstantInt>(bytes);
        n != nullptr && (loads || what.getCallee() == store_.getCallee())) {
      const auto* size = find(sizes, n->getZExtValue());
      if (size != std::end(sizes)) {
        what = (loads ? sized_loads_ : sized_stores_)[size - std::begin(sizes)];
        bytes = nullptr;
      }
    }
    CallInst* call = bytes == nullptr ? then.CreateCall(what, {pointer})
                                      : then.CreateCall(what, {pointer, then.CreateZExtOrTrunc(bytes, word_)});
    call->setCallingConv(cast<Function>(what.getCallee())->getCallingConv());
  }

  Module& module_;
  const DataLayout& layout_;
  compiler::places places_;
  Type* word_ = nullptr;
  static constexpr std::uint64_t sizes[] = {1, 2, 4, 8};  // that have a function of their own
  FunctionCallee sized_loads_[std::size(sizes)], sized_stores_[std::size(sizes)];
  FunctionCallee load_, store_, read_, write_, read_text_, write_text_, length_;
};

struct profile_pass : PassInfoMixin<profile_pass> {
  static PreservedAnalyses run(Module& m, ModuleAnalysisManager&) {
    return counter(m).run() ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }  // also at -O0
};

}  // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {
      LLVM_PLUGIN_API_VERSION, "nvm_profile", "1", [](PassBuilder& b) {
        b.registerOptimizerLastEPCallback([](ModulePassManager& m, OptimizationLevel) { m.addPass(profile_pass()); });
        b.registerPipelineParsingCallback(
            [](StringRef name, ModulePassManager& m, ArrayRef<PassBuilder::PipelineElement>) {
              if (name != "nvm-profile") return false;
              m.addPass(profile_pass());
              return true;
            });
      }};
}
