// nvm_log_pass: a call of the log before each store that may be durable (Breeze, sections IV-C, IV-D and IV-G).
//
//     if ((address >> window bits) == window) __nvm_log(address, bytes);
//     store
//
// It runs last in the optimizer, so that it sees the stores that the machine will execute: merged, vectorised, turned
// into memory intrinsics.  It guards
//   stores, atomic operations, memory intrinsics, masked vector stores;
//   calls of precompiled functions, by what *.unsafe files say that they write (unsafe_file.hpp).
// It leaves out what cannot be durable or is logged already:
//   volatile   every object that the address can belong to is a variable, or fresh from malloc and its kin;
//   dominated  the same bytes were logged on every way here, with no call in between that could begin, end or nest a
//              transaction;
//   merged     stores of a straight line of code to touching bytes share the log call of the first;
//   hoisted    a store of each turn of a counted loop to the next bytes is logged as one range before the loop.
// A range that is logged is exactly bytes that will certainly be written (calls of precompiled functions apart): a
// neighbour's bytes may belong to another lock.
//
// Each decision is a remark (-Rpass=nvm-log, -Rpass-missed=nvm-log); -mllvm -nvm-log-stats prints their numbers.
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemoryBuiltins.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <map>

#include "unsafe_file.hpp"

using namespace llvm;

namespace {

cl::list<std::string> unsafe_files("nvm-unsafe", cl::desc("What precompiled functions write"), cl::value_desc("file"));
cl::opt<bool> print_statistics("nvm-log-stats", cl::desc("Print what the log pass did with each module's stores"));
cl::opt<bool> log_everything("nvm-log-everything", cl::desc("Leave out nothing: for comparison with what is left out"));
cl::opt<bool> check_stores("nvm-log-check",
                           cl::desc("Report each store to the run-time, with its place in the source"));

// Functions of the durable heap's interface: they log for themselves, and begin and end transactions.
bool is_heap_function(StringRef name) { return name.starts_with("nvm_") || name.starts_with("__nvm_"); }

// Pointers that these return are durable.
bool returns_durable(StringRef name) {
  return name == "nvm_alloc" || name == "nvm_calloc" || name == "nvm_realloc" || name == "nvm_strdup" ||
         name == "nvm_pool_get_root";
}

struct counts {
  unsigned stores = 0, logged = 0, volatile_target = 0, dominated = 0, merged = 0, hoisted = 0, calls = 0, fresh = 0;
};

class function_logger {
 public:
  function_logger(Function& f, FunctionAnalysisManager& analyses,
                  const std::map<std::string, nvm::compiler::unsafe_function>& table, counts& n)
      : f_{f},
        layout_{f.getDataLayout()},
        libc_{analyses.getResult<TargetLibraryAnalysis>(f)},
        dominators_{analyses.getResult<DominatorTreeAnalysis>(f)},
        loops_{analyses.getResult<LoopAnalysis>(f)},
        evolution_{analyses.getResult<ScalarEvolutionAnalysis>(f)},
        remarks_{analyses.getResult<OptimizationRemarkEmitterAnalysis>(f)},
        table_{table},
        counts_{n},
        word_{Type::getInt64Ty(f.getContext())} {
    Module& m = *f.getParent();
    Type* none = Type::getVoidTy(f.getContext());
    Type* pointer = PointerType::getUnqual(f.getContext());
    log_ = m.getOrInsertFunction(check_stores ? "__nvm_log_checked" : "__nvm_log", none, pointer, word_);
    masked_ = m.getOrInsertFunction("__nvm_log_masked", none, pointer, word_, word_);
    if (auto* declared = dyn_cast<Function>(log_.getCallee())) {
      declared->addFnAttr(Attribute::NoUnwind);
      declared->addFnAttr(Attribute::Cold);
    }
  }

  bool run() {
    for (BasicBlock* b : ReversePostOrderTraversal<Function*>(&f_)) plan_block(*b);
    // Expansion asks for dominance and loops, which the guards' blocks spoil: all of it first.
    for (planned& p : plan_) expand(p);
    for (const planned& p : plan_) emit(p);
    return !plan_.empty();
  }

 private:
  // Bytes [base + offset, + bytes).
  struct known_range {
    const Value* base;
    std::int64_t offset;
    std::int64_t bytes;
  };
  struct planned {
    enum class shape { constant, value, call, masked, loop } what;
    Instruction* before;
    Value* address;
    std::int64_t offset = 0;
    std::uint64_t bytes = 0;  // constant
    Value* size = nullptr;    // value, masked: the mask
    const nvm::compiler::unsafe_function* function = nullptr;
    const SCEV* begin = nullptr;  // loop
    const SCEV* length = nullptr;
    Instruction* reason = nullptr;  // for remarks and line numbers
  };
  // A store of this block that is to be logged, until the straight line it stands in ends.
  struct candidate {
    Instruction* at;
    Value* base;
    std::int64_t offset;
    std::int64_t bytes;
  };

  // ---- what the function does -------------------------------------------------------------------------------------

  void plan_block(BasicBlock& b) {
    auto& known = known_[&b];
    inherit(b, known);
    std::vector<candidate> line;
    const auto flush_line = [&] {
      settle(line, known);
      line.clear();
    };
    for (Instruction& i : b) {
      if (auto* s = dyn_cast<StoreInst>(&i)) {
        store(i, s->getPointerOperand(), layout_.getTypeStoreSize(s->getValueOperand()->getType()), known, line);
      } else if (auto* r = dyn_cast<AtomicRMWInst>(&i)) {
        store(i, r->getPointerOperand(), layout_.getTypeStoreSize(r->getValOperand()->getType()), known, line);
      } else if (auto* x = dyn_cast<AtomicCmpXchgInst>(&i)) {
        store(i, x->getPointerOperand(), layout_.getTypeStoreSize(x->getNewValOperand()->getType()), known, line);
      } else if (auto* m = dyn_cast<AnyMemIntrinsic>(&i)) {
        block_store(i, m->getRawDest(), m->getLength(), known, line);
      } else if (auto* n = dyn_cast<IntrinsicInst>(&i)) {
        intrinsic(*n);
      } else if (auto* c = dyn_cast<CallBase>(&i)) {
        if (call(*c)) {
          flush_line();
          known.clear();
        } else if (!c->willReturn() || c->mayThrow()) {
          flush_line();
        }
      }
    }
    flush_line();
  }

  // What is logged on every way to the block's beginning.
  void inherit(BasicBlock& b, std::vector<known_range>& known) {
    bool first = true;
    for (BasicBlock* p : predecessors(&b)) {
      const auto found = known_.find(p);
      if (found == known_.end()) {
        known.clear();
        return;
      }
      if (first) {
        known = found->second;
        first = false;
        continue;
      }
      llvm::erase_if(known, [&](const known_range& r) { return !covered(found->second, r.base, r.offset, r.bytes); });
    }
  }
  static bool covered(const std::vector<known_range>& known, const Value* base, std::int64_t offset,
                      std::int64_t bytes) {
    for (const known_range& r : known) {
      if (r.base == base && r.offset <= offset && offset + bytes <= r.offset + r.bytes) return true;
    }
    return false;
  }

  void store(Instruction& i, Value* address, TypeSize size, std::vector<known_range>& known,
             std::vector<candidate>& line) {
    ++counts_.stores;
    if (size.isScalable()) return report_missed(i, "a vector of unknown length");
    const auto bytes = static_cast<std::int64_t>(size.getFixedValue());
    if (!log_everything && is_volatile(address)) {
      ++counts_.volatile_target;
      return report(i, "Volatile", "not logged: the target is a variable or memory from malloc");
    }
    std::int64_t offset = 0;
    Value* base = GetPointerBaseWithConstantOffset(address, offset, layout_);
    if (!log_everything && covered(known, base, offset, bytes)) {
      ++counts_.dominated;
      return report(i, "Dominated", "not logged again: the bytes are logged on every way here");
    }
    line.push_back({&i, base, offset, bytes});
  }

  // memcpy and its kin, as instructions.
  void block_store(Instruction& i, Value* address, Value* length, std::vector<known_range>& known,
                   std::vector<candidate>& line) {
    if (auto* constant = dyn_cast<ConstantInt>(length)) {
      if (constant->isZero()) return;
      return store(i, address, TypeSize::getFixed(constant->getZExtValue()), known, line);
    }
    ++counts_.stores;
    if (!log_everything && is_volatile(address)) {
      ++counts_.volatile_target;
      return report(i, "Volatile", "not logged: the target is a variable or memory from malloc");
    }
    planned p{planned::shape::value, &i, address};
    p.size = length;
    p.reason = &i;
    plan(p);
  }

  void intrinsic(IntrinsicInst& i) {
    if (i.getIntrinsicID() == Intrinsic::masked_store) {
      ++counts_.stores;
      if (!log_everything && is_volatile(i.getArgOperand(1))) {
        ++counts_.volatile_target;
        return report(i, "Volatile", "not logged: the target is a variable or memory from malloc");
      }
      auto* type = cast<FixedVectorType>(i.getArgOperand(0)->getType());
      planned p{planned::shape::masked, &i, i.getArgOperand(1)};
      p.bytes = layout_.getTypeStoreSize(type->getElementType());
      p.size = i.getArgOperand(3);
      p.reason = &i;
      return plan(p);
    }
    if (i.mayWriteToMemory() && !i.onlyAccessesInaccessibleMemory() && !i.isAssumeLikeIntrinsic() &&
        i.getIntrinsicID() != Intrinsic::vastart && i.getIntrinsicID() != Intrinsic::vacopy &&
        i.getIntrinsicID() != Intrinsic::vaend && i.getIntrinsicID() != Intrinsic::stackrestore &&
        i.getIntrinsicID() != Intrinsic::prefetch && any_durable_argument(i)) {
      warn(i, "a store that Holdfast does not know: " + i.getCalledFunction()->getName().str());
    }
  }

  // True: afterwards another transaction may be open, or another level of it.
  bool call(CallBase& c) {
    if (c.isInlineAsm()) {
      if (c.mayWriteToMemory() && any_durable_argument(c)) warn(c, "inline assembly may write durable memory unlogged");
      return false;
    }
    Function* callee = c.getCalledFunction();
    if (callee == nullptr) return true;
    const StringRef name = callee->getName();
    if (is_heap_function(name)) return name != "nvm_tx_log" && name != "nvm_tx_log_many" && name != "nvm_is_durable";
    const auto known = table_.find(name.str());
    if (known != table_.end() && callee->isDeclaration()) {
      precompiled(c, known->second);
      return false;
    }
    if (c.onlyReadsMemory() || c.onlyAccessesInaccessibleMemory()) return false;
    if (isAllocationFn(&c, &libc_) || isFreedByLibrary(c)) return false;
    if (callee->isDeclaration() && callee->isIntrinsic() == false && any_durable_argument(c)) {
      // It may come from another file that was compiled with the pass; who knows is the linker.
      report_missed(c, "a durable pointer goes to a function whose code is elsewhere");
    }
    return true;
  }
  bool isFreedByLibrary(const CallBase& c) const { return getFreedOperand(&c, &libc_) != nullptr; }

  void precompiled(CallBase& c, const nvm::compiler::unsafe_function& f) {
    if (c.arg_size() < f.arguments || (c.arg_size() > f.arguments && !f.more_arguments)) {
      return warn(c, f.name + " is called with " + std::to_string(c.arg_size()) +
                         " arguments, its line in an unsafe file says " + std::to_string(f.arguments));
    }
    if (f.unknown) {
      if (any_durable_argument(c))
        warn(c, f.name + " may write durable memory, and nobody can say how much: not logged");
      return;
    }
    bool needed = false;
    for (const auto& r : f.writes)
      needed = needed || log_everything || !is_volatile(c.getArgOperand(argument_of(r.address)));
    if (f.writes.empty()) return;
    ++counts_.stores;
    if (!needed) {
      ++counts_.volatile_target;
      return report(c, "Volatile", "not logged: the target is a variable or memory from malloc");
    }
    ++counts_.calls;
    planned p{planned::shape::call, &c, nullptr};
    p.function = &f;
    p.reason = &c;
    plan(p);
  }
  static unsigned argument_of(const nvm::compiler::expression& e) {
    return static_cast<unsigned>(e.what == nvm::compiler::expression::kind::sum ? e.parts.front().value : e.value);
  }

  // ---- what an address can be -------------------------------------------------------------------------------------

  bool is_volatile(Value* address) const {
    SmallVector<const Value*, 8> objects;
    getUnderlyingObjects(address, objects, nullptr, 16);
    for (const Value* o : objects) {
      if (isa<AllocaInst>(o) || isa<GlobalVariable>(o) || isa<Function>(o) || isa<ConstantPointerNull>(o) ||
          isa<UndefValue>(o))
        continue;
      if (const auto* a = dyn_cast<Argument>(o); a != nullptr && a->hasByValAttr()) continue;
      if (const auto* c = dyn_cast<CallBase>(o); c != nullptr && isAllocationFn(c, &libc_) && !is_durable_call(*c))
        continue;
      return false;
    }
    return !objects.empty();
  }
  static bool is_durable_call(const CallBase& c) {
    const Function* f = c.getCalledFunction();
    return f != nullptr && returns_durable(f->getName());
  }
  static bool is_durable(Value* v) {
    if (!v->getType()->isPointerTy()) return false;
    const auto* c = dyn_cast<CallBase>(getUnderlyingObject(v, 16));
    return c != nullptr && is_durable_call(*c);
  }
  static bool any_durable_argument(const CallBase& c) {
    return llvm::any_of(c.args(), [](const Use& u) { return is_durable(u.get()); });
  }

  // ---- merging and hoisting ---------------------------------------------------------------------------------------

  // The stores of a straight line of code: touching bytes of one base become one range, logged before the first of
  // them.
  void settle(std::vector<candidate>& line, std::vector<known_range>& known) {
    std::vector<bool> done(line.size());
    for (std::size_t k = 0; k < line.size(); ++k) {
      if (done[k]) continue;
      std::int64_t begin = line[k].offset;
      std::int64_t end = begin + line[k].bytes;
      done[k] = true;
      bool grew = !log_everything;
      while (grew) {
        grew = false;
        for (std::size_t j = k + 1; j < line.size(); ++j) {
          const candidate& c = line[j];
          if (done[j] || c.base != line[k].base || c.offset > end || c.offset + c.bytes < begin) continue;
          begin = std::min(begin, c.offset);
          end = std::max(end, c.offset + c.bytes);
          done[j] = grew = true;
          ++counts_.merged;
          report(*c.at, "Merged", "logged together with a store before it");
        }
      }
      planned p{planned::shape::constant, line[k].at, line[k].base};
      p.offset = begin;
      p.bytes = static_cast<std::uint64_t>(end - begin);
      p.reason = line[k].at;
      if (!log_everything && hoist(p)) {
        ++counts_.hoisted;
        report(*line[k].at, "Hoisted", "logged before the loop, one range for all turns");
        continue;
      }
      plan(p);
      known.push_back({line[k].base, begin, end - begin});
    }
  }

  // A range that every turn of a counted loop stores to, behind or before that of the turn before: one range for all
  // turns.
  bool hoist(const planned& each) {
    BasicBlock* block = each.before->getParent();
    Loop* l = loops_.getLoopFor(block);
    if (l == nullptr || l->getLoopPreheader() == nullptr || l->getLoopLatch() == nullptr) return false;
    if (l->getExitingBlock() != l->getLoopLatch() || !dominators_.dominates(block, l->getLoopLatch())) return false;
    if (!harmless_.count(l)) harmless_[l] = is_harmless(*l);
    if (!harmless_[l]) return false;
    const SCEV* offset = evolution_.getConstant(word_, static_cast<std::uint64_t>(each.offset), true);
    const auto* turn = dyn_cast<SCEVAddRecExpr>(evolution_.getAddExpr(evolution_.getSCEV(each.address), offset));
    if (turn == nullptr || turn->getLoop() != l || !turn->isAffine()) return false;
    const auto* step = dyn_cast<SCEVConstant>(turn->getStepRecurrence(evolution_));
    if (step == nullptr) return false;
    const std::int64_t stride = step->getAPInt().getSExtValue();
    const auto bytes = static_cast<std::int64_t>(each.bytes);
    if (stride != bytes && stride != -bytes) return false;
    const SCEV* more = evolution_.getBackedgeTakenCount(l);
    if (isa<SCEVCouldNotCompute>(more)) return false;
    const SCEV* turns_but_one = evolution_.getTruncateOrZeroExtend(more, word_);
    const SCEV* unit = evolution_.getConstant(word_, each.bytes);
    const SCEV* before_last = evolution_.getMulExpr(turns_but_one, unit);
    planned p{planned::shape::loop, l->getLoopPreheader()->getTerminator(), each.address};
    p.begin = stride > 0 ? turn->getStart() : evolution_.getMinusSCEV(turn->getStart(), before_last);
    p.length = evolution_.getAddExpr(before_last, unit);
    SCEVExpander probe(evolution_, layout_, "nvm");
    if (isa<SCEVCouldNotCompute>(p.begin) || !probe.isSafeToExpandAt(p.begin, p.before) ||
        !probe.isSafeToExpandAt(p.length, p.before))
      return false;
    p.reason = each.reason;
    plan(p);
    return true;
  }
  // Nothing in the loop can leave it early, or begin or end a transaction.
  bool is_harmless(const Loop& l) const {
    for (BasicBlock* b : l.blocks()) {
      for (Instruction& i : *b) {
        if (const auto* c = dyn_cast<CallBase>(&i)) {
          if (!isa<IntrinsicInst>(c) && (!c->onlyReadsMemory() || !c->willReturn() || !c->doesNotThrow())) return false;
        }
      }
    }
    return true;
  }

  // ---- code -------------------------------------------------------------------------------------------------------

  void plan(const planned& p) {
    ++counts_.logged;
    report(*p.reason, "Logged", "logged: the target may be durable");
    plan_.push_back(p);
  }

  Value* constant(std::uint64_t v) const { return ConstantInt::get(word_, v); }

  void expand(planned& p) {
    if (p.what != planned::shape::loop) return;
    SCEVExpander expander(evolution_, layout_, "nvm");
    p.address = expander.expandCodeFor(p.begin, p.address->getType(), p.before);
    p.size = expander.expandCodeFor(p.length, word_, p.before);
  }

  void emit(const planned& p) {
    IRBuilder<> b(p.before);
    b.SetCurrentDebugLocation(p.reason->getDebugLoc());
    switch (p.what) {
      case planned::shape::constant: {
        Value* at =
            p.offset == 0 ? p.address : b.CreatePtrAdd(p.address, constant(static_cast<std::uint64_t>(p.offset)));
        return guarded(b, at, p, [&](IRBuilder<>& c) { c.CreateCall(log_, {at, constant(p.bytes)}); });
      }
      case planned::shape::value:
        return guarded(b, p.address, p,
                       [&](IRBuilder<>& c) { c.CreateCall(log_, {p.address, c.CreateZExtOrTrunc(p.size, word_)}); });
      case planned::shape::masked: {
        const unsigned lanes = cast<FixedVectorType>(p.size->getType())->getNumElements();
        return guarded(b, p.address, p, [&](IRBuilder<>& c) {
          Value* bits = c.CreateZExt(c.CreateBitCast(p.size, c.getIntNTy(lanes)), word_);
          c.CreateCall(masked_, {p.address, constant(p.bytes), bits});
        });
      }
      case planned::shape::loop:
        return guarded(b, p.address, p, [&](IRBuilder<>& c) { c.CreateCall(log_, {p.address, p.size}); });
      case planned::shape::call:
        break;
    }
    auto& call = cast<CallBase>(*p.before);
    for (const auto& r : p.function->writes) {
      Value* target = call.getArgOperand(argument_of(r.address));
      if (!target->getType()->isPointerTy() || (!log_everything && is_volatile(target))) continue;
      IRBuilder<> at(p.before);
      at.SetCurrentDebugLocation(p.reason->getDebugLoc());
      // The lengths are looked at only where the target is durable: strlen costs.
      guarded(at, target, p, [&](IRBuilder<>& c) {
        Value* address = target;
        if (r.address.what == nvm::compiler::expression::kind::sum) {
          for (std::size_t k = 1; k < r.address.parts.size(); ++k)
            address = c.CreatePtrAdd(address, value_of(c, call, r.address.parts[k]));
        }
        c.CreateCall(log_, {address, value_of(c, call, r.bytes)});
      });
    }
  }

  template <class Then>
  void guarded(IRBuilder<>& b, Value* address, const planned& p, Then&& then) {
    Value* number = b.CreateLShr(b.CreatePtrToInt(address, word_), constant(NVM_WINDOW_BITS));
    Value* durable = b.CreateICmpEQ(number, constant(std::uint64_t{NVM_WINDOW_BASE} >> NVM_WINDOW_BITS));
    MDNode* weights = MDBuilder(f_.getContext()).createUnlikelyBranchWeights();
    Instruction* inside = SplitBlockAndInsertIfThen(durable, p.before->getIterator(), false, weights);
    IRBuilder<> c(inside);
    c.SetCurrentDebugLocation(p.reason->getDebugLoc());
    then(c);
  }

  Value* value_of(IRBuilder<>& b, CallBase& call, const nvm::compiler::expression& e) {
    using kind = nvm::compiler::expression::kind;
    switch (e.what) {
      case kind::constant:
        return constant(e.value);
      case kind::argument: {
        Value* v = call.getArgOperand(static_cast<unsigned>(e.value));
        return v->getType()->isPointerTy() ? b.CreatePtrToInt(v, word_) : b.CreateZExtOrTrunc(v, word_);
      }
      case kind::string_length:
        return b.CreateCall(library("strlen", 1), {call.getArgOperand(static_cast<unsigned>(e.value))});
      case kind::bounded_length:
        return b.CreateCall(library("strnlen", 2),
                            {call.getArgOperand(static_cast<unsigned>(e.value)), value_of(b, call, e.parts[0])});
      case kind::sum:
      case kind::product:
      case kind::minimum: {
        Value* v = value_of(b, call, e.parts[0]);
        for (std::size_t k = 1; k < e.parts.size(); ++k) {
          Value* next = value_of(b, call, e.parts[k]);
          v = e.what == kind::sum       ? b.CreateAdd(v, next)
              : e.what == kind::product ? b.CreateMul(v, next)
                                        : b.CreateBinaryIntrinsic(Intrinsic::umin, v, next);
        }
        return v;
      }
    }
    llvm_unreachable("an expression of no kind");
  }
  FunctionCallee library(const char* name, unsigned arguments) {
    Type* pointer = PointerType::getUnqual(f_.getContext());
    Module& m = *f_.getParent();
    return arguments == 1 ? m.getOrInsertFunction(name, word_, pointer)
                          : m.getOrInsertFunction(name, word_, pointer, word_);
  }

  // ---- remarks ----------------------------------------------------------------------------------------------------

  void report(Instruction& i, const char* name, const char* text) {
    remarks_.emit([&] { return OptimizationRemark("nvm-log", name, &i) << text; });
  }
  void report_missed(Instruction& i, const char* text) {
    remarks_.emit([&] { return OptimizationRemarkMissed("nvm-log", "NotLogged", &i) << text; });
  }
  void warn(Instruction& i, const std::string& text) {
    f_.getContext().diagnose(DiagnosticInfoUnsupported(f_, text, i.getDebugLoc(), DS_Warning));
  }

  Function& f_;
  const DataLayout& layout_;
  const TargetLibraryInfo& libc_;
  DominatorTree& dominators_;
  LoopInfo& loops_;
  ScalarEvolution& evolution_;
  OptimizationRemarkEmitter& remarks_;
  const std::map<std::string, nvm::compiler::unsafe_function>& table_;
  counts& counts_;
  Type* word_;
  FunctionCallee log_, masked_;
  std::map<const BasicBlock*, std::vector<known_range>> known_;
  std::map<const Loop*, bool> harmless_;
  std::vector<planned> plan_;
};

class log_pass : public PassInfoMixin<log_pass> {
 public:
  PreservedAnalyses run(Module& m, ModuleAnalysisManager& analyses) {
    std::map<std::string, nvm::compiler::unsafe_function> table;
    if (!read_tables(m, table)) return PreservedAnalyses::all();
    auto& functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(m).getManager();
    counts n;
    bool changed = false;
    for (Function& f : m) {
      if (f.isDeclaration() || f.hasAvailableExternallyLinkage() || f.hasFnAttribute(Attribute::Naked)) continue;
      if (is_heap_function(f.getName())) continue;
      changed = function_logger(f, functions, table, n).run() || changed;
    }
    if (print_statistics) {
      errs() << m.getSourceFileName() << ": " << n.stores << " stores; " << n.logged << " log calls (" << n.calls
             << " of them before precompiled functions), left out: " << n.volatile_target << " volatile, "
             << n.dominated << " dominated, " << n.merged << " merged, " << n.hoisted << " hoisted\n";
    }
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  // Also with -O0.
  static bool isRequired() { return true; }

 private:
  static bool read_tables(Module& m, std::map<std::string, nvm::compiler::unsafe_function>& table) {
    std::vector<nvm::compiler::unsafe_function> functions;
    for (const std::string& path : unsafe_files) {
      auto text = MemoryBuffer::getFile(path, /*IsText=*/true);
      if (!text) {
        m.getContext().emitError("cannot read " + path + ": " + text.getError().message());
        return false;
      }
      nvm::compiler::unsafe_error error;
      const StringRef content = (*text)->getBuffer();
      if (!nvm::compiler::parse_unsafe({content.data(), content.size()}, functions, error)) {
        m.getContext().emitError(path + ":" + Twine(error.line) + ":" + Twine(error.column) + ": " + error.message);
        return false;
      }
    }
    for (auto& f : functions) table.emplace(f.name, std::move(f));
    return true;
  }
};

}  // namespace

extern "C" LLVM_ATTRIBUTE_WEAK __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "nvm_log_pass", LLVM_VERSION_STRING, [](PassBuilder& builder) {
            builder.registerOptimizerLastEPCallback(
                [](ModulePassManager& passes, OptimizationLevel) { passes.addPass(log_pass()); });
            builder.registerPipelineParsingCallback(
                [](StringRef name, ModulePassManager& passes, ArrayRef<PassBuilder::PipelineElement>) {
                  if (name != "nvm-log") return false;
                  passes.addPass(log_pass());
                  return true;
                });
          }};
}
