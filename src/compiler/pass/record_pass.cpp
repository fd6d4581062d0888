// nvm_record_pass: reports each store to the run-time (include/nvm/record.h).
//
// Runs last in the optimizer, so that it sees the stores the machine will execute: merged, vectorised, promoted to
// memory intrinsics.  After each store it inserts
//     if (address - __nvm_rec_base < __nvm_rec_bytes) __nvm_rec_store(address, bytes, site);
// and so on for atomics, memory intrinsics, the libc calls that do the same work, masked and scattered vector stores,
// and the write-back and fence intrinsics.  Each loop iteration and function entry counts as a step, so that the
// run-time can stop an endless recovery at a deterministic point.  Built with NVM_RECORD_LOADS it reports loads too.
//
//   -mllvm -nvm-record-steps=false  counts no steps: for programs that are recorded and not explored in their own
//   process -mllvm -nvm-record-library      marks each place as the library's own, so that reports can name the user's
//
// Functions of an instrumented module that the linker would merge with copies of other modules (linkonce_odr) become
// internal: an uninstrumented copy can never be chosen in their place.
//
// The bytes that an intrinsic writes are those of the pass that logs (log/written.hpp); if their number is unknown, as
// for xsave, the pass warns.  Not seen: inline assembly, and functions that are neither instrumented nor in the table
// below.
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <map>
#include <set>
#include <tuple>

#include "log/written.hpp"

using namespace llvm;

using nvm::compiler::written;
namespace compiler = nvm::compiler;

namespace {

#ifdef NVM_RECORD_LOADS
constexpr bool record_loads = true;
#else
constexpr bool record_loads = false;
#endif

cl::opt<bool> count_steps("nvm-record-steps", cl::init(true), cl::Hidden, cl::desc("count loop iterations and calls"));
cl::opt<bool> of_library("nvm-record-library", cl::init(false), cl::Hidden,
                         cl::desc("mark places as the library's own"));

// The values of enum nvm_rec_kind, which this file cannot include: the pass is built without the project's headers.
enum kind : std::uint32_t { plain, atomic, rmw, vector, masked, copy, flush, fence, load, non_temporal = 16 };

// libc functions whose call stores [argument `pointer`, + argument `bytes`).
struct block_call {
  StringLiteral name;
  unsigned pointer;
  unsigned bytes;
};
constexpr block_call block_calls[] = {
    {"memcpy", 0, 2},       {"memmove", 0, 2},        {"memset", 0, 2},        {"mempcpy", 0, 2},
    {"__memcpy_chk", 0, 2}, {"__memmove_chk", 0, 2},  {"__memset_chk", 0, 2},  {"__mempcpy_chk", 0, 2},
    {"bzero", 0, 1},        {"explicit_bzero", 0, 1}, {"bcopy", 1, 2},         {"memccpy", 0, 3},
    {"strncpy", 0, 2},      {"stpncpy", 0, 2},        {"__strncpy_chk", 0, 2}, {"read", 1, 2},
    {"pread", 1, 2},        {"pread64", 1, 2},        {"getrandom", 0, 1},
};
// libc functions that leave a string at argument 0.
constexpr StringLiteral string_calls[] = {"strcpy",       "stpcpy",         "strcat",   "strncat",
                                          "__strcpy_chk", "__stpcpy_chk",   "sprintf",  "snprintf",
                                          "vsnprintf",    "__snprintf_chk", "vsprintf", "__vsnprintf_chk"};

// libc functions that read [argument `pointer`, + argument `bytes`).
constexpr block_call block_reads[] = {
    {"memcmp", 0, 2}, {"memcmp", 1, 2}, {"bcmp", 0, 2},   {"bcmp", 1, 2},    {"memchr", 0, 2},
    {"memcpy", 1, 2}, {"write", 1, 2},  {"pwrite", 1, 2}, {"memmove", 1, 2}, {"pwrite64", 1, 2},
};

class instrumenter {
 public:
  explicit instrumenter(Module& m) : module_{m}, layout_{m.getDataLayout()} {
    LLVMContext& c = m.getContext();
    word_ = Type::getInt64Ty(c);
    pointer_ = PointerType::getUnqual(c);
    Type* none = Type::getVoidTy(c);
    site_type_ = StructType::get(
        c, {pointer_, pointer_, Type::getInt32Ty(c), Type::getInt32Ty(c), Type::getInt32Ty(c), Type::getInt32Ty(c)});
    base_ = m.getOrInsertGlobal("__nvm_rec_base", word_);
    bytes_ = m.getOrInsertGlobal("__nvm_rec_bytes", word_);
    steps_ = m.getOrInsertGlobal("__nvm_rec_steps", word_);
    store_ = m.getOrInsertFunction("__nvm_rec_store", none, pointer_, word_, pointer_);
    string_ = m.getOrInsertFunction("__nvm_rec_string", none, pointer_, pointer_);
    masked_ = m.getOrInsertFunction("__nvm_rec_masked", none, pointer_, word_, word_, pointer_);
    rmw_ = m.getOrInsertFunction("__nvm_rec_rmw", none, pointer_, word_, pointer_);
    flush_ = m.getOrInsertFunction("__nvm_rec_flush", none, pointer_, pointer_);
    fence_ = m.getOrInsertFunction("__nvm_rec_fence", none, pointer_);
    load_ = m.getOrInsertFunction("__nvm_rec_load", none, pointer_, word_, pointer_);
    access_ = m.getOrInsertFunction("__nvm_rec_access", none, pointer_, pointer_);
    step_limit_ = m.getOrInsertFunction("__nvm_rec_step_limit", none);
    unlikely_ = MDBuilder(c).createUnlikelyBranchWeights();
    find_excluded();
  }

  bool run() {
    bool changed = false;
    for (Function& f : module_) {
      if (f.isDeclaration() || f.hasAvailableExternallyLinkage() || f.getName().starts_with("__nvm_rec_") ||
          f.hasFnAttribute(Attribute::Naked) || excluded_.count(&f) != 0) {
        continue;
      }
      instrument(f);
      changed = true;
    }
    for (Function& f : module_) {
      if (f.hasLinkOnceODRLinkage() && !f.isDeclaration()) make_internal(f);
    }
    for (GlobalAlias& a : module_.aliases()) {
      if (a.hasLinkOnceODRLinkage()) a.setLinkage(GlobalValue::InternalLinkage);
    }
    return changed;
  }

 private:
  static void make_internal(Function& f) {
    f.setLinkage(GlobalValue::InternalLinkage);
    f.setVisibility(GlobalValue::DefaultVisibility);
    f.setDSOLocal(true);
    f.setComdat(nullptr);
  }

  // Functions annotated with NVM_NO_RECORD.
  void find_excluded() {
    auto* annotations = module_.getGlobalVariable("llvm.global.annotations");
    if (annotations == nullptr || !annotations->hasInitializer()) return;
    auto* entries = dyn_cast<ConstantArray>(annotations->getInitializer());
    if (entries == nullptr) return;
    for (const Use& use : entries->operands()) {
      auto* entry = dyn_cast<ConstantStruct>(use.get());
      if (entry == nullptr || entry->getNumOperands() < 2) continue;
      auto* f = dyn_cast<Function>(entry->getOperand(0)->stripPointerCasts());
      auto* text = dyn_cast<GlobalVariable>(entry->getOperand(1)->stripPointerCasts());
      if (f == nullptr || text == nullptr || !text->hasInitializer()) continue;
      auto* string = dyn_cast<ConstantDataSequential>(text->getInitializer());
      if (string != nullptr && string->isCString() && string->getAsCString() == "nvm_no_record") excluded_.insert(f);
    }
  }

  void instrument(Function& f) {
    DominatorTree dominators(f);
    LoopInfo loops(dominators);
    SmallVector<BasicBlock*, 16> headers;
    for (Loop* l : loops.getLoopsInPreorder()) headers.push_back(l->getHeader());
    SmallVector<Instruction*, 64> places;
    bool leaf = true;
    for (Instruction& i : instructions(f)) {
      if (isa<CallBase>(i) && !isa<IntrinsicInst>(i)) leaf = false;
      if (i.mayReadOrWriteMemory() || isa<FenceInst>(i)) places.push_back(&i);
    }
    for (Instruction* i : places) visit(*i);
    if (!count_steps) return;
    for (BasicBlock* b : headers) count_step(*b);
    if (!leaf) count_step(f.getEntryBlock());
  }

  // ---- one instruction --------------------------------------------------------------------------------------------

  void visit(Instruction& i) {
    if (auto* s = dyn_cast<StoreInst>(&i)) {
      Type* type = s->getValueOperand()->getType();
      std::uint32_t k = s->isAtomic() ? atomic : type->isVectorTy() ? vector : plain;
      if (s->hasMetadata(LLVMContext::MD_nontemporal)) k |= non_temporal;
      if (s->isAtomic()) report_access(i, s->getPointerOperand());
      report_store(i, s->getPointerOperand(), constant(layout_.getTypeStoreSize(type)), k);
    } else if (auto* r = dyn_cast<AtomicRMWInst>(&i)) {
      const std::uint64_t bytes = layout_.getTypeStoreSize(r->getValOperand()->getType());
      report_access(i, r->getPointerOperand());
      report_load(i, r->getPointerOperand(), constant(bytes));
      report_rmw(i, r->getPointerOperand(), constant(bytes));
    } else if (auto* x = dyn_cast<AtomicCmpXchgInst>(&i)) {
      const std::uint64_t bytes = layout_.getTypeStoreSize(x->getNewValOperand()->getType());
      report_access(i, x->getPointerOperand());
      report_load(i, x->getPointerOperand(), constant(bytes));
      IRBuilder<> b(after(i));
      Value* stored = b.CreateSelect(b.CreateExtractValue(x, 1), constant(bytes), constant(0));
      report_rmw(i, x->getPointerOperand(), stored, cast<Instruction>(stored)->getNextNode());
    } else if (auto* f = dyn_cast<FenceInst>(&i)) {
      // Of the C++ fences only the sequentially consistent one is an instruction on x86.
      if (f->getOrdering() == AtomicOrdering::SequentiallyConsistent && f->getSyncScopeID() == SyncScope::System) {
        report_fence(i);
      }
    } else if (auto* l = dyn_cast<LoadInst>(&i)) {
      if (l->isAtomic()) report_access(i, l->getPointerOperand());
      report_load(i, l->getPointerOperand(), constant(layout_.getTypeStoreSize(l->getType())));
    } else if (auto* m = dyn_cast<AnyMemIntrinsic>(&i)) {
      if (auto* t = dyn_cast<AnyMemTransferInst>(m)) report_load(i, t->getRawSource(), m->getLength());
      report_store(i, m->getRawDest(), m->getLength(), copy);
    } else if (auto* n = dyn_cast<IntrinsicInst>(&i)) {
      visit_intrinsic(*n);
    } else if (auto* c = dyn_cast<CallBase>(&i)) {
      visit_call(*c);
    }
  }

  void visit_intrinsic(IntrinsicInst& i) {
    switch (i.getIntrinsicID()) {
      case Intrinsic::x86_sse2_clflush:
      case Intrinsic::x86_clflushopt:
      case Intrinsic::x86_clwb:
        return report_flush(i, i.getArgOperand(0));
      case Intrinsic::x86_sse_sfence:
      case Intrinsic::x86_sse2_mfence:
        return report_fence(i);
      default:
        break;
    }
    // The pass that logs knows whether it writes, and which bytes.
    for (const written& w : compiler::written_by(i, layout_)) {
      if (w.what == written::shape::scattered || w.address == nullptr || may_be_watched(w.address))
        report_written(i, w);
    }
  }

  void report_written(IntrinsicInst& i, const written& w) {
    const std::uint32_t past_the_cache = is_non_temporal(i.getIntrinsicID()) ? std::uint32_t{non_temporal} : 0;
    switch (w.what) {
      case written::shape::bytes:
        if (is_locked(i.getIntrinsicID())) return report_rmw(i, w.address, w.bytes);
        return report_store(i, w.address, w.bytes, (is_a_word(w.bytes) ? plain : vector) | past_the_cache);
      case written::shape::line: {
        Instruction* at = after(i);
        IRBuilder<> b(at);
        const std::uint64_t bytes = cast<ConstantInt>(w.bytes)->getZExtValue();
        Value* line = b.CreateIntrinsic(Intrinsic::ptrmask, {pointer_, word_}, {w.address, constant(~(bytes - 1))});
        return report_store(i, line, w.bytes, vector | past_the_cache, at);
      }
      case written::shape::masked:
        return report_masked(i, w, masked | past_the_cache);
      case written::shape::compressed:
        return report_compressed(i, w);
      case written::shape::scattered:
        return report_lanes(i, w, after(i));
      case written::shape::tile: {
        IRBuilder<> entry(&*i.getFunction()->getEntryBlock().getFirstInsertionPt());
        Value* room = entry.CreateAlloca(ArrayType::get(entry.getInt8Ty(), compiler::tile_configuration_bytes));
        Instruction* at = after(i);
        IRBuilder<> b(at);
        return report_lanes(i, compiler::rows_of_tile(b, w, room), at);
      }
      case written::shape::object:
      case written::shape::refused:
        return not_recorded(i);
    }
  }

  // Warns of an intrinsic that writes an unknown number of bytes.
  static void not_recorded(const IntrinsicInst& i) {
    const Function& f = *i.getFunction();
    const std::string text = "what " + i.getCalledFunction()->getName().str() + " writes is not recorded";
    f.getContext().diagnose(DiagnosticInfoUnsupported(f, text, i.getDebugLoc(), DS_Warning));
  }

  static bool is_a_word(const Value* bytes) {
    const auto* number = dyn_cast<ConstantInt>(bytes);
    return number != nullptr && number->getZExtValue() <= sizeof(std::uint64_t);
  }
  static bool is_non_temporal(Intrinsic::ID id) {
    return id == Intrinsic::x86_movdir64b || id == Intrinsic::x86_directstore32 || id == Intrinsic::x86_directstore64 ||
           id == Intrinsic::x86_sse2_maskmov_dqu || id == Intrinsic::x86_mmx_maskmovq ||
           id == Intrinsic::x86_mmx_movnt_dq || id == Intrinsic::x86_clzero;
  }
  // They have a lock prefix, or lock by themselves.
  static bool is_locked(Intrinsic::ID id) {
    const StringRef name = Intrinsic::getBaseName(id);
    return name.starts_with("llvm.x86.atomic.") || name.starts_with("llvm.x86.cmpccxadd");
  }

  void visit_call(CallBase& i) {
    Function* f = i.getCalledFunction();
    if (f == nullptr || !f->isDeclaration()) return;
    const StringRef name = f->getName();
    for (const block_call& c : block_reads) {
      if (name != c.name || i.arg_size() <= std::max(c.pointer, c.bytes)) continue;
      report_load(i, i.getArgOperand(c.pointer), i.getArgOperand(c.bytes));
    }
    for (const block_call& c : block_calls) {
      if (name != c.name || i.arg_size() <= std::max(c.pointer, c.bytes)) continue;
      return report_store(i, i.getArgOperand(c.pointer), i.getArgOperand(c.bytes), copy);
    }
    for (StringRef s : string_calls) {
      if (name != s || i.arg_size() == 0) continue;
      return guarded(i, i.getArgOperand(0), nullptr,
                     [&](IRBuilder<>& b) { b.CreateCall(string_, {i.getArgOperand(0), site_of(i, copy)}); });
    }
    StringRef atomic_name = name;
    if (!atomic_name.consume_front("__atomic_") || atomic_name.starts_with("load")) return;
    const bool is_store = atomic_name.starts_with("store");
    unsigned bytes = 0;
    const std::size_t digits = atomic_name.rfind('_');
    if (digits != StringRef::npos && !atomic_name.substr(digits + 1).getAsInteger(10, bytes)) {
      report_atomic_call(i, i.getArgOperand(0), constant(bytes), is_store);
    } else if (atomic_name == "store" || atomic_name == "exchange" || atomic_name == "compare_exchange") {
      report_atomic_call(i, i.getArgOperand(1), i.getArgOperand(0), is_store);
    }
  }

  void report_atomic_call(CallBase& i, Value* pointer, Value* bytes, bool is_store) {
    if (is_store) return report_store(i, pointer, bytes, atomic);
    report_rmw(i, pointer, bytes);
  }

  // ---- what is inserted -------------------------------------------------------------------------------------------

  void report_store(Instruction& i, Value* pointer, Value* bytes, std::uint32_t k, Instruction* at = nullptr) {
    guarded(i, pointer, at,
            [&](IRBuilder<>& b) { b.CreateCall(store_, {pointer, b.CreateZExtOrTrunc(bytes, word_), site_of(i, k)}); });
  }

  // A locked operation anywhere orders the thread's write-backs, so the range does not matter.
  void report_rmw(Instruction& i, Value* pointer, Value* bytes, Instruction* at = nullptr) {
    if (at == nullptr) at = after(i);
    IRBuilder<> b(at);
    Value* watching = b.CreateICmpNE(b.CreateLoad(word_, bytes_), constant(0));
    IRBuilder<> then(SplitBlockAndInsertIfThen(watching, at->getIterator(), false, unlikely_));
    then.SetCurrentDebugLocation(i.getDebugLoc());
    then.CreateCall(rmw_, {pointer, then.CreateZExtOrTrunc(bytes, word_), site_of(i, rmw)});
  }

  void report_fence(Instruction& i) {
    Instruction* at = after(i);
    IRBuilder<> b(at);
    Value* watching = b.CreateICmpNE(b.CreateLoad(word_, bytes_), constant(0));
    IRBuilder<> then(SplitBlockAndInsertIfThen(watching, at->getIterator(), false, unlikely_));
    then.SetCurrentDebugLocation(i.getDebugLoc());
    then.CreateCall(fence_, {site_of(i, fence)});
  }

  // Not only inside the range: a write-back of other memory while recording is a finding of its own.
  void report_flush(Instruction& i, Value* pointer) {
    Instruction* at = after(i);
    IRBuilder<> b(at);
    Value* watching = b.CreateICmpNE(b.CreateLoad(word_, bytes_), constant(0));
    IRBuilder<> then(SplitBlockAndInsertIfThen(watching, at->getIterator(), false, unlikely_));
    then.SetCurrentDebugLocation(i.getDebugLoc());
    then.CreateCall(flush_, {pointer, site_of(i, flush)});
  }

  // The first stored lane may lie in the range though the pointer does not; the run-time cuts.
  void report_masked(Instruction& i, const written& w, std::uint32_t k) {
    Instruction* at = after(i);
    const std::uint64_t bytes = cast<ConstantInt>(w.bytes)->getZExtValue();
    for (unsigned first = 0; first < w.lanes; first += compiler::word_bits) {
      IRBuilder<> b(at);
      Value* pointer = first == 0 ? w.address : b.CreatePtrAdd(w.address, constant(first * bytes));
      Value* bits = compiler::lanes_word(b, compiler::active_lanes(b, w), first);
      guarded(i, pointer, at,
              [&](IRBuilder<>& c) { c.CreateCall(masked_, {pointer, constant(bytes), bits, site_of(i, k)}); });
    }
  }

  void report_compressed(Instruction& i, const written& w) {
    Instruction* at = after(i);
    IRBuilder<> b(at);
    Value* bits = compiler::active_lanes(b, w);
    Value* lanes = b.CreateUnaryIntrinsic(Intrinsic::ctpop, compiler::lanes_word(b, bits, 0));
    for (unsigned first = compiler::word_bits; first < w.lanes; first += compiler::word_bits) {
      lanes = b.CreateAdd(lanes, b.CreateUnaryIntrinsic(Intrinsic::ctpop, compiler::lanes_word(b, bits, first)));
    }
    report_store(i, w.address, b.CreateMul(lanes, w.bytes), masked, at);
  }

  void report_lanes(Instruction& i, const written& w, Instruction* at) {
    IRBuilder<> b(at);
    Value* addresses = compiler::lane_addresses(b, w);
    Value* bits = compiler::active_lanes(b, w);
    Value* bytes = b.CreateZExtOrTrunc(w.bytes, word_);
    for (unsigned lane = 0; lane < w.lanes; ++lane) {
      IRBuilder<> c(at);
      Value* pointer = c.CreateExtractElement(addresses, std::uint64_t{lane});
      Value* set = c.CreateExtractElement(bits, std::uint64_t{lane});
      report_store(i, pointer, c.CreateSelect(set, bytes, constant(0)), masked, at);
    }
  }

  void report_load(Instruction& i, Value* pointer, Value* bytes) {
    if (!record_loads) return;
    guarded(i, pointer, &i, [&](IRBuilder<>& b) {
      b.CreateCall(load_, {pointer, b.CreateZExtOrTrunc(bytes, word_), site_of(i, load)});
    });
  }

  // Where another thread may run first: before an atomic access, wherever it is.
  void report_access(Instruction& i, Value* pointer) {
    if (!record_loads || !may_be_watched(pointer)) return;
    IRBuilder<> b(&i);
    Value* watching = b.CreateICmpNE(b.CreateLoad(word_, bytes_), constant(0));
    IRBuilder<> then(SplitBlockAndInsertIfThen(watching, i.getIterator(), false, unlikely_));
    then.SetCurrentDebugLocation(i.getDebugLoc());
    then.CreateCall(access_, {pointer, site_of(i, load)});
  }

  // Inserts before `at` (default: after `i`) the range check, and under it what `body` builds.
  template <class Body>
  void guarded(Instruction& i, Value* pointer, Instruction* at, Body body) {
    if (!may_be_watched(pointer)) return;
    if (at == nullptr) at = after(i);
    IRBuilder<> b(at);
    b.SetCurrentDebugLocation(i.getDebugLoc());
    Value* address = b.CreatePtrToInt(pointer, word_);
    Value* offset = b.CreateSub(address, b.CreateLoad(word_, base_));
    Value* inside = b.CreateICmpULT(offset, b.CreateLoad(word_, bytes_));
    IRBuilder<> then(SplitBlockAndInsertIfThen(inside, at->getIterator(), false, unlikely_));
    then.SetCurrentDebugLocation(i.getDebugLoc());
    body(then);
  }

  void count_step(BasicBlock& block) {
    Instruction* at = &*block.getFirstInsertionPt();
    if (block.isEHPad()) return;
    while (isa<AllocaInst>(at)) at = at->getNextNode();  // allocas stay together in the entry block
    IRBuilder<> b(at);
    Value* left = b.CreateSub(b.CreateLoad(word_, steps_), constant(1));
    b.CreateStore(left, steps_);
    Value* over = b.CreateICmpSLT(left, constant(0));
    IRBuilder<> then(SplitBlockAndInsertIfThen(over, at->getIterator(), false, unlikely_));
    if (DISubprogram* s = block.getParent()->getSubprogram()) {
      then.SetCurrentDebugLocation(DILocation::get(block.getContext(), s->getLine(), 0, s));
    }
    then.CreateCall(step_limit_);
  }

  // ---- helpers ----------------------------------------------------------------------------------------------------

  // Memory of the running function is never in the watched range, nor is any address space but the first.
  static bool may_be_watched(Value* pointer) {
    return pointer->getType()->isPointerTy() && pointer->getType()->getPointerAddressSpace() == 0 &&
           !isa<AllocaInst>(getUnderlyingObject(pointer)) && !isa<ConstantPointerNull>(pointer);
  }

  // The first place where `i` has been executed.
  static Instruction* after(Instruction& i) {
    auto* invoke = dyn_cast<InvokeInst>(&i);
    if (invoke == nullptr) return i.getNextNode();
    BasicBlock* normal = invoke->getNormalDest();
    if (normal->getSinglePredecessor() == nullptr) normal = SplitEdge(invoke->getParent(), normal);
    return &*normal->getFirstInsertionPt();
  }

  ConstantInt* constant(std::uint64_t v) const { return ConstantInt::get(cast<IntegerType>(word_), v); }

  Constant* string_constant(StringRef text) {
    Constant*& s = strings_[text.str()];
    if (s == nullptr) {
      Constant* data = ConstantDataArray::getString(module_.getContext(), text);
      auto* g = new GlobalVariable(module_, data->getType(), true, GlobalValue::PrivateLinkage, data, "nvm.text");
      g->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
      s = g;
    }
    return s;
  }

  // The place a reader wants: the innermost frame of the project's own code, so not inside the standard library.
  static const DILocation* place_of(const Instruction& i) {
    const DILocation* innermost = i.getDebugLoc().get();
    for (const DILocation* l = innermost; l != nullptr; l = l->getInlinedAt()) {
      if (!l->getFilename().starts_with("/usr/")) return l;
    }
    return innermost;
  }

  // As the compiler was given it: relative to where it ran, or whole.
  static std::string path_of(const DILocation& l) {
    const DISubprogram* s = l.getScope()->getSubprogram();
    const StringRef name = l.getFilename();
    const StringRef folder = l.getDirectory();
    const bool here = s == nullptr || s->getUnit() == nullptr || s->getUnit()->getDirectory() == folder;
    return here || folder.empty() || name.starts_with("/") ? name.str() : (folder + "/" + name).str();
  }

  Constant* site_of(const Instruction& i, std::uint32_t k) {
    std::string file;
    StringRef function = i.getFunction()->getName();
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    if (const DILocation* l = place_of(i)) {
      file = path_of(*l);
      line = l->getLine();
      column = l->getColumn();
      if (const DISubprogram* s = l->getScope()->getSubprogram()) function = s->getName();
    }
    GlobalVariable*& g = sites_[{file, function.str(), line, column, k}];
    if (g == nullptr) {
      Type* u32 = Type::getInt32Ty(module_.getContext());
      Constant* fields[] = {string_constant(file),       string_constant(function),
                            ConstantInt::get(u32, line), ConstantInt::get(u32, column),
                            ConstantInt::get(u32, k),    ConstantInt::get(u32, of_library ? 1 : 0)};
      g = new GlobalVariable(module_, site_type_, true, GlobalValue::PrivateLinkage,
                             ConstantStruct::get(site_type_, fields), "nvm.site");
    }
    return g;
  }

  Module& module_;
  const DataLayout& layout_;
  Type* word_ = nullptr;
  PointerType* pointer_ = nullptr;
  StructType* site_type_ = nullptr;
  Constant* base_ = nullptr;
  Constant* bytes_ = nullptr;
  Constant* steps_ = nullptr;
  FunctionCallee store_, string_, masked_, rmw_, flush_, fence_, load_, access_, step_limit_;
  MDNode* unlikely_ = nullptr;
  std::set<const Function*> excluded_;
  std::map<std::string, Constant*> strings_;
  std::map<std::tuple<std::string, std::string, std::uint32_t, std::uint32_t, std::uint32_t>, GlobalVariable*> sites_;
};

struct record_pass : PassInfoMixin<record_pass> {
  static PreservedAnalyses run(Module& m, ModuleAnalysisManager&) {
    return instrumenter(m).run() ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }  // also for functions marked optnone, that is at -O0
};

}  // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {
      LLVM_PLUGIN_API_VERSION, "nvm_record", "1", [](PassBuilder& b) {
        b.registerOptimizerLastEPCallback([](ModulePassManager& m, OptimizationLevel) { m.addPass(record_pass()); });
        b.registerPipelineParsingCallback(
            [](StringRef name, ModulePassManager& m, ArrayRef<PassBuilder::PipelineElement>) {
              if (name != "nvm-record") return false;
              m.addPass(record_pass());
              return true;
            });
      }};
}
