// Plans block by block which stores are logged and which are not, then makes the code.  A logged range holds only bytes
// that will certainly be written (calls of precompiled functions apart): neighbouring bytes may belong to another lock.
#include "function_logger.hpp"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/MemoryBuiltins.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include "call_logger.hpp"
#include "code.hpp"
#include "diagnostics.hpp"
#include "facts.hpp"
#include "written.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

// Of x86-64.
constexpr std::uint64_t va_list_bytes = 24;

class function_logger {
 public:
  function_logger(Function& f, FunctionAnalysisManager& analyses, const unsafe_table& table,
                  const logging_options& options, counts& n)
      : f_{f},
        layout_{f.getDataLayout()},
        libc_{analyses.getResult<TargetLibraryAnalysis>(f)},
        dominators_{analyses.getResult<DominatorTreeAnalysis>(f)},
        loops_{analyses.getResult<LoopAnalysis>(f)},
        evolution_{analyses.getResult<ScalarEvolutionAnalysis>(f)},
        remarks_{analyses.getResult<OptimizationRemarkEmitterAnalysis>(f)},
        table_{table},
        options_{options},
        counts_{n},
        word_{Type::getInt64Ty(f.getContext())},
        pointer_{PointerType::getUnqual(f.getContext())} {}

  bool run() {
    for (BasicBlock* b : ReversePostOrderTraversal<Function*>(&f_)) plan_block(*b);
    // Expansion needs dominance and loops, which the guards' blocks invalidate: so all expansion comes first.
    for (planned& p : plan_) expand(p);
    for (const planned& p : plan_) emit(p);
    for (CallBase* c : watched_) watch_call(*c, libc_);
    return !plan_.empty() || !watched_.empty();
  }

 private:
  [[nodiscard]] bool planted(planted_mistake m) const { return options_.plant == m && !options_.everything; }

  // Bytes [base + offset, + bytes).
  struct known_range {
    const Value* base;
    std::int64_t offset;
    std::int64_t bytes;
    bool fresh;  // of an object allocated in this transaction: it needs no log
  };
  struct planned {
    // The last two only check, in a checked build, a store whose log call was left out.
    enum class shape { constant, batch, value, call, intrinsic, loop, expect_logged, expect_volatile } what;
    Instruction* before;
    Value* address;
    std::int64_t offset = 0;
    std::uint64_t bytes = 0;  // constant
    Value* size = nullptr;    // value
    written what_for{};       // intrinsic
    const unsafe_function* function = nullptr;
    const SCEV* begin = nullptr;  // loop
    const SCEV* length = nullptr;
    Instruction* reason = nullptr;  // for remarks and line numbers
    std::vector<planned> ranges{};  // batch: of shape constant
  };
  // A store of this block that is to be logged, kept until its straight line of code ends.
  struct candidate {
    Instruction* at;
    Value* address;
    Value* base;
    std::int64_t offset;
    std::int64_t bytes;
  };

  // ---- what the function does -------------------------------------------------------------------------------------

  void plan_block(BasicBlock& b) {
    // Known of the block only then: one that is its own predecessor has nothing to inherit from itself.
    std::vector<known_range> inherited;
    inherit(b, inherited);
    auto& known = known_[&b] = std::move(inherited);
    std::vector<candidate> line;
    const auto flush_line = [&] {
      settle(line, known);
      line.clear();
    };
    for (Instruction& i : b) {
      // Another thread may own bytes until then that are stored to after it.
      if (acquires(i)) flush_line();
      if (auto* s = dyn_cast<StoreInst>(&i)) {
        remark_static(*s);
        store(i, s->getPointerOperand(), layout_.getTypeStoreSize(s->getValueOperand()->getType()), known, line);
      } else if (auto* r = dyn_cast<AtomicRMWInst>(&i)) {
        store(i, r->getPointerOperand(), layout_.getTypeStoreSize(r->getValOperand()->getType()), known, line);
      } else if (auto* x = dyn_cast<AtomicCmpXchgInst>(&i)) {
        store(i, x->getPointerOperand(), layout_.getTypeStoreSize(x->getNewValOperand()->getType()), known, line);
      } else if (auto* m = dyn_cast<AnyMemIntrinsic>(&i)) {
        block_store(i, m->getRawDest(), m->getLength(), known, line);
      } else if (auto* v = dyn_cast<VAArgInst>(&i)) {
        store(i, v->getPointerOperand(), TypeSize::getFixed(va_list_bytes), known, line);
      } else if (auto* c = dyn_cast<CallBase>(&i)) {
        if (call(*c, known, line)) {
          flush_line();
          llvm::erase_if(known, [&](const known_range& r) {
            return !planted(planted_mistake::calls_keep_logs) && !(r.fresh && planted(planted_mistake::fresh_for_ever));
          });
        } else if (!c->willReturn() || c->mayThrow()) {
          flush_line();
        }
        if (const auto bytes = fresh_bytes(*c); bytes != 0 && !options_.everything)
          known.push_back({c, 0, static_cast<std::int64_t>(bytes), true});
      } else if (i.mayWriteToMemory() && !isa<LoadInst, FenceInst>(i)) {
        // LLVM counts loads and fences as writes if they keep an order.
        refuse(i, std::string("an instruction whose stores Holdfast cannot log: ") + i.getOpcodeName());
      }
    }
    flush_line();
  }

  // Collects the ranges that are logged on every way to the block's beginning.
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
      if (planted(planted_mistake::one_way_is_enough)) {
        known.insert(known.end(), found->second.begin(), found->second.end());
        continue;
      }
      llvm::erase_if(
          known, [&](const known_range& r) { return covering(found->second, r.base, r.offset, r.bytes) == nullptr; });
    }
  }
  static const known_range* covering(const std::vector<known_range>& known, const Value* base, std::int64_t offset,
                                     std::int64_t bytes) {
    for (const known_range& r : known) {
      if (r.base == base && r.offset <= offset && offset + bytes <= r.offset + r.bytes) return &r;
    }
    return nullptr;
  }

  void store(Instruction& i, Value* address, TypeSize size, std::vector<known_range>& known,
             std::vector<candidate>& line) {
    ++counts_.stores;
    if (size.isScalable()) return refuse(i, "a store of a vector of unknown length cannot be logged");
    const auto bytes = static_cast<std::int64_t>(size.getFixedValue());
    if (left_out_as_volatile(i, address)) return;
    const unlogged_field f = unlogged_field_of(i, address, size.getFixedValue());
    if (f != unlogged_field::none) {
      ++counts_.stale;
      return f == unlogged_field::reset ? report(i, "Reset", "not logged: the field is NVM_RESET")
                                        : report(i, "Stale", "not logged: the field is NVM_STALE_OK");
    }
    std::int64_t offset = 0;
    Value* base = GetPointerBaseWithConstantOffset(address, offset, layout_);
    if (const known_range* r = options_.everything ? nullptr : covering(known, base, offset, bytes); r != nullptr) {
      expect_logged(i, address, static_cast<std::uint64_t>(bytes));
      if (r->fresh) {
        ++counts_.fresh;
        return report(i, "Fresh", "not logged: the object was allocated in this transaction");
      }
      ++counts_.dominated;
      return report(i, "Dominated", "not logged again: the bytes are logged on every way here");
    }
    line.push_back({&i, address, base, offset, bytes});
  }

  bool left_out_as_volatile(Instruction& i, Value* address) {
    if (options_.everything && !is_elsewhere(address)) return false;
    const bool guessed = planted(planted_mistake::variables_win) && isa<PHINode, SelectInst>(address);
    if (!guessed && !is_volatile(address, libc_)) return false;
    ++counts_.volatile_target;
    report(i, "Volatile", "not logged: the target is a variable or memory from malloc");
    if (options_.check && address->getType()->isPointerTy() && !is_elsewhere(address)) {
      planned p{planned::shape::expect_volatile, &i, address};
      p.reason = &i;
      plan_.push_back(p);
    }
    return true;
  }
  void expect_logged(Instruction& i, Value* address, std::uint64_t bytes) {
    if (!options_.check) return;
    planned p{planned::shape::expect_logged, &i, address};
    p.bytes = bytes;
    p.reason = &i;
    plan_.push_back(p);
  }

  // memcpy and its kin, as instructions.
  void block_store(Instruction& i, Value* address, Value* length, std::vector<known_range>& known,
                   std::vector<candidate>& line) {
    if (auto* constant = dyn_cast<ConstantInt>(length)) {
      if (constant->isZero()) return;
      return store(i, address, TypeSize::getFixed(constant->getZExtValue()), known, line);
    }
    ++counts_.stores;
    if (left_out_as_volatile(i, address)) return;
    planned p{planned::shape::value, &i, address};
    p.size = length;
    p.reason = &i;
    plan(p);
  }

  // True: afterwards another transaction may be open, or another level of it.
  bool intrinsic(CallBase& c, std::vector<known_range>& known, std::vector<candidate>& line) {
    for (const written& w : written_by(c, layout_)) write(c, w, known, line);
    return may_change_transactions(c);
  }
  void write(CallBase& c, const written& w, std::vector<known_range>& known, std::vector<candidate>& line) {
    if (w.what == written::shape::refused)
      return refuse(
          c, "a store of a vector of unknown length cannot be logged: " + c.getCalledFunction()->getName().str());
    if (w.what == written::shape::bytes) return block_store(c, w.address, w.bytes, known, line);
    ++counts_.stores;
    if (left_out_as_volatile(c, w.address)) return;
    planned p{planned::shape::intrinsic, &c, w.address};
    p.what_for = w;
    p.reason = &c;
    plan(p);
  }

  // True: afterwards another transaction may be open, or another level of it.
  bool call(CallBase& c, std::vector<known_range>& known, std::vector<candidate>& line) {
    if (c.isInlineAsm()) {
      assembly(c, known, line);
      return false;
    }
    const Function* callee = function_of(c);
    if (callee != nullptr && callee->isIntrinsic()) return intrinsic(c, known, line);
    returned_in_memory(c, known, line);
    if (callee == nullptr) {
      if (options_.check) watched_.push_back(&c);
      return true;
    }
    const StringRef name = callee->getName();
    if (is_heap_function(*callee)) return !leaves_transactions_alone(name);
    if (const unsafe_function* described = description(c, *callee)) {
      precompiled(c, *described);
      return described->calls_back;
    }
    if (c.onlyReadsMemory() || c.onlyAccessesInaccessibleMemory()) return false;
    if (isAllocationFn(&c, &libc_) || getFreedOperand(&c, &libc_) != nullptr) return false;
    if (comes_compiled(*callee) && gets_durable(c, *callee)) {
      if (is_assembly(*callee)) {
        warn(c, warning_group::assembly,
             name.str() + " is assembly, and may write the durable object that it gets; describe it in an unsafe file");
      } else if (is_system_function(*callee)) {
        warn(c, warning_group::unlogged,
             demangle(name) + " may write the durable object that it gets; describe it in an unsafe file");
      } else {
        // It may come from another file that was compiled with the pass; only the linker knows.
        report_missed(c, "a durable pointer goes to a function whose code is elsewhere");
      }
    }
    if (comes_compiled(*callee) && options_.check) watched_.push_back(&c);
    return true;
  }
  // A file's description of the function; nullptr: none.
  const unsafe_function* description(CallBase& c, const Function& callee) {
    const auto known = table_.find(callee.getName().str());
    if (known == table_.end() || !comes_compiled(callee)) return nullptr;
    const bool own_name = is_program_function(callee) || callee.hasFnAttribute(Attribute::Naked);
    if (!known->second.of_library || !own_name) return &known->second;
    const unsafe_function& own = own_.try_emplace(known->first, guessed(known->second)).first->second;
    return misfit({c, own, libc_, options_.everything, options_.check}).empty() && !own.unknown ? &own : nullptr;
  }

  // Whether it gets a durable pointer, or the address of a variable that holds one, and may write there.
  static bool gets_durable(const CallBase& c, const Function& callee) {
    for (unsigned k = 0; k < c.arg_size(); ++k) {
      if (holds_durable(c.getArgOperand(k))) return true;
      if (is_durable(c.getArgOperand(k)) && !c.onlyReadsMemory(k) && !only_reads(callee, k)) return true;
    }
    return false;
  }

  // Logs the place where a function of another file leaves the structure that it returns: its code may come compiled.
  void returned_in_memory(CallBase& c, std::vector<known_range>& known, std::vector<candidate>& line) {
    if (c.getCalledFunction() != nullptr && !comes_compiled(*c.getCalledFunction())) return;
    for (unsigned k = 0; k < c.arg_size(); ++k) {
      Type* type = c.getParamStructRetType(k);
      if (type != nullptr) store(c, c.getArgOperand(k), layout_.getTypeStoreSize(type), known, line);
    }
  }

  // An output in memory of inline assembly is a store like another. If the assembly says that it writes other memory,
  // this may be the whole object around each address that it gets.
  void assembly(CallBase& c, std::vector<known_range>& known, std::vector<candidate>& line) {
    if (!c.mayWriteToMemory()) return;
    const auto* code = cast<InlineAsm>(c.getCalledOperand());
    const bool anywhere = StringRef(code->getConstraintString()).contains("~{memory}") && !code->getAsmString().empty();
    unsigned k = 0;
    for (const InlineAsm::ConstraintInfo& o : code->ParseConstraints()) {
      if (!o.hasArg()) continue;
      if (k >= c.arg_size()) break;
      Value* argument = c.getArgOperand(k);
      Type* type = c.getParamElementType(k);
      ++k;
      if (o.isIndirect && type != nullptr && o.Type == InlineAsm::isOutput) {
        store(c, argument, layout_.getTypeStoreSize(type), known, line);
      } else if (anywhere && may_be_address(*argument)) {
        written w;
        w.what = written::shape::object;
        w.address = argument;
        write(c, w, known, line);
      }
    }
  }
  bool may_be_address(const Value& v) const {
    return v.getType()->isPtrOrPtrVectorTy() || (v.getType() == word_ && !isa<ConstantInt>(v));
  }

  void precompiled(CallBase& c, const unsafe_function& f) {
    const described_call d{c, f, libc_, options_.everything, options_.check};
    if (!fits(d)) {
      if (options_.check && f.unknown) watched_.push_back(&c);
      return;
    }
    if ((all_of(f.writes, [&](const written_range& r) { return is_unsaid(r) && !options_.check; }) && f.by.empty()) ||
        planted(planted_mistake::library_calls_forgotten))
      return;
    ++counts_.stores;
    if (!may_write_durable(d)) {
      ++counts_.volatile_target;
      return report(c, "Volatile", "not logged: the targets are variables or memory from malloc");
    }
    ++counts_.calls;
    planned p{planned::shape::call, &c, nullptr};
    p.function = &f;
    p.reason = &c;
    plan(p);
  }

  // ---- merging and hoisting ---------------------------------------------------------------------------------------

  // Settles the stores of a straight line of code: touching bytes of one base become one range, logged before the first
  // of them; ranges whose addresses are known there share the first one's call and fence.
  void settle(std::vector<candidate>& line, std::vector<known_range>& known) {
    std::vector<bool> done(line.size());
    std::vector<planned> ranges;
    for (std::size_t k = 0; k < line.size(); ++k) {
      if (done[k]) continue;
      std::int64_t begin = line[k].offset;
      std::int64_t end = begin + line[k].bytes;
      done[k] = true;
      bool grew = !options_.everything;
      while (grew) {
        grew = false;
        for (std::size_t j = k + 1; j < line.size(); ++j) {
          const candidate& c = line[j];
          if (done[j] || c.base != line[k].base || c.offset > end || c.offset + c.bytes < begin) continue;
          begin = std::min(begin, c.offset);
          end = std::max(end, c.offset + c.bytes);
          done[j] = grew = true;
          ++counts_.merged;
          expect_logged(*c.at, c.address, static_cast<std::uint64_t>(c.bytes));
          report(*c.at, "Merged", "logged together with a store before it");
        }
      }
      planned p{planned::shape::constant, line[k].at, line[k].base};
      if (planted(planted_mistake::late_merges)) p.before = line.back().at;
      p.offset = begin;
      p.bytes = static_cast<std::uint64_t>(end - begin);
      p.reason = line[k].at;
      if (!options_.everything && hoist(p)) {
        ++counts_.hoisted;
        report(*line[k].at, "Hoisted", "not logged here: one range for all turns before the loop");
        expect_logged(*line[k].at, line[k].address, static_cast<std::uint64_t>(line[k].bytes));
        continue;
      }
      ranges.push_back(p);
      known.push_back({line[k].base, begin, end - begin, false});
    }
    plan_batches(ranges);
  }

  void plan_batches(std::vector<planned>& ranges) {
    constexpr std::size_t batch_max = 8;
    std::vector<bool> done(ranges.size());
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      if (done[k]) continue;
      planned batch = ranges[k];
      batch.what = planned::shape::batch;
      batch.ranges.push_back(ranges[k]);
      for (std::size_t j = k + 1; j < ranges.size() && batch.ranges.size() < batch_max; ++j) {
        if (done[j] || options_.everything || options_.check) continue;
        const auto* made = dyn_cast<Instruction>(ranges[j].address);
        if (made != nullptr && !dominators_.dominates(made, batch.before)) continue;
        batch.ranges.push_back(ranges[j]);
        done[j] = true;
      }
      if (batch.ranges.size() == 1) {
        plan(ranges[k]);
        continue;
      }
      plan(batch);
      for (std::size_t i = 1; i < batch.ranges.size(); ++i) {
        ++counts_.batched;
        report(*batch.ranges[i].reason, "Batched", "logged by one call together with a store before it");
      }
    }
  }

  // A range to which every turn of a counted loop stores, next to that of the turn before: logged as one range for all
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
    p.length = planted(planted_mistake::short_loops) ? before_last : evolution_.getAddExpr(before_last, unit);
    SCEVExpander probe(evolution_, layout_, "nvm");
    if (isa<SCEVCouldNotCompute>(p.begin) || !probe.isSafeToExpandAt(p.begin, p.before) ||
        !probe.isSafeToExpandAt(p.length, p.before))
      return false;
    p.reason = each.reason;
    plan(p);
    return true;
  }
  // Whether other threads' stores may be seen from here on that were not before.
  static bool acquires(const Instruction& i) {
    if (isa<FenceInst>(i) || i.isVolatile()) return true;
    if (const auto* r = dyn_cast<LoadInst>(&i)) return llvm::isAcquireOrStronger(r->getOrdering());
    if (const auto* r = dyn_cast<AtomicRMWInst>(&i)) return llvm::isAcquireOrStronger(r->getOrdering());
    if (const auto* r = dyn_cast<AtomicCmpXchgInst>(&i)) return llvm::isAcquireOrStronger(r->getSuccessOrdering());
    return false;
  }
  // Nothing in the loop can leave it early, begin or end a transaction, or wait for another thread.
  bool is_harmless(const Loop& l) const {
    for (BasicBlock* b : l.blocks()) {
      for (Instruction& i : *b) {
        if (acquires(i)) return false;
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
    if (p.what == planned::shape::loop) {
      ++counts_.loops;
    } else if (isa<AtomicRMWInst>(p.reason) || isa<AtomicCmpXchgInst>(p.reason) || p.reason->isAtomic()) {
      report(*p.reason, "LoggedAtomic",
             "logged: the target may be durable; an abort takes back what other threads stored there since");
    } else {
      report(*p.reason, "Logged", "logged: the target may be durable");
    }
    plan_.push_back(p);
  }

  Value* constant(std::uint64_t v) const { return ConstantInt::get(word_, v); }

  void expand(planned& p) {
    if (p.what != planned::shape::loop) return;
    SCEVExpander expander(evolution_, layout_, "nvm");
    p.address = expander.expandCodeFor(p.begin, p.address->getType(), p.before);
    p.size = expander.expandCodeFor(p.length, word_, p.before);
  }

  // Logs [address, + bytes); in a checked build with its place.
  void call_log(IRBuilder<>& b, const planned& p, Value* address, Value* bytes) {
    if (options_.check) {
      b.CreateCall(runtime("__nvm_log_at", {pointer_, word_, pointer_}), {address, bytes, site_of(*p.reason)});
    } else {
      b.CreateCall(runtime("__nvm_log", {pointer_, word_}), {address, bytes});
    }
  }

  void emit(const planned& p) {
    IRBuilder<> b(p.before);
    b.SetCurrentDebugLocation(p.reason->getDebugLoc());
    switch (p.what) {
      case planned::shape::constant: {
        Value* at =
            p.offset == 0 ? p.address : b.CreatePtrAdd(p.address, constant(static_cast<std::uint64_t>(p.offset)));
        return guarded(b, at, p, [&](IRBuilder<>& c) { call_log(c, p, at, constant(p.bytes)); });
      }
      case planned::shape::batch:
        return emit_batch(b, p);
      case planned::shape::value:
        return guarded(b, p.address, p,
                       [&](IRBuilder<>& c) { call_log(c, p, p.address, c.CreateZExtOrTrunc(p.size, word_)); });
      case planned::shape::intrinsic:
        return log_written(p.what_for, *p.before, options_.check);
      case planned::shape::loop:
        return guarded(b, p.address, p, [&](IRBuilder<>& c) { call_log(c, p, p.address, p.size); });
      case planned::shape::expect_logged:
        return guarded(b, p.address, p, [&](IRBuilder<>& c) {
          c.CreateCall(runtime("__nvm_expect_logged", {pointer_, word_, pointer_}),
                       {p.address, constant(p.bytes), site_of(*p.reason)});
        });
      case planned::shape::expect_volatile:
        return guarded(b, p.address, p, [&](IRBuilder<>& c) {
          c.CreateCall(runtime("__nvm_expect_volatile", {pointer_, pointer_}), {p.address, site_of(*p.reason)});
        });
      case planned::shape::call:
        break;
    }
    log_call({cast<CallBase>(*p.before), *p.function, libc_, options_.everything, options_.check});
  }

  void emit_batch(IRBuilder<>& b, const planned& p) {
    StructType* range = StructType::get(pointer_, word_);
    ArrayType* list = ArrayType::get(range, p.ranges.size());
    std::vector<Value*> at;
    std::vector<Value*> bases;
    for (const planned& r : p.ranges) {
      at.push_back(r.offset == 0 ? r.address
                                 : b.CreatePtrAdd(r.address, constant(static_cast<std::uint64_t>(r.offset))));
      if (!is_contained(bases, r.address)) bases.push_back(r.address);
    }
    IRBuilder<> entry(&*f_.getEntryBlock().getFirstInsertionPt());
    Value* ranges = entry.CreateAlloca(list);
    guarded(b, bases, p, [&](IRBuilder<>& c) {
      c.CreateLifetimeStart(ranges, c.getInt64(layout_.getTypeAllocSize(list)));
      for (unsigned i = 0; i < at.size(); ++i) {
        c.CreateStore(at[i], c.CreateConstInBoundsGEP2_32(list, ranges, 0, i));
        c.CreateStore(constant(p.ranges[i].bytes),
                      c.CreateStructGEP(range, c.CreateConstInBoundsGEP2_32(list, ranges, 0, i), 1));
      }
      c.CreateCall(runtime("__nvm_log_many", {pointer_, word_}), {ranges, constant(at.size())});
      c.CreateLifetimeEnd(ranges, c.getInt64(layout_.getTypeAllocSize(list)));
    });
  }

  template <class Then>
  void guarded(IRBuilder<>& b, ArrayRef<Value*> addresses, const planned& p, Then&& then) {
    Instruction* inside = guard(b, addresses, p.before);
    IRBuilder<> c(inside);
    c.SetCurrentDebugLocation(p.reason->getDebugLoc());
    then(c);
  }

  FunctionCallee runtime(const char* name, ArrayRef<Type*> arguments) {
    return runtime_function(*f_.getParent(), Type::getVoidTy(f_.getContext()), name, arguments);
  }

  // ---- remarks ----------------------------------------------------------------------------------------------------

  void report(Instruction& i, const char* name, const char* text) {
    remarks_.emit([&] { return OptimizationRemark("nvm-log", name, &i) << text; });
  }
  void report_missed(Instruction& i, const char* text) {
    remarks_.emit([&] { return OptimizationRemarkMissed("nvm-log", "NotLogged", &i) << text; });
  }

  // Remarks that the address of a function or static object goes to memory that may be durable.
  void remark_static(StoreInst& s) {
    if (!s.getValueOperand()->getType()->isPointerTy() || is_elsewhere(s.getPointerOperand())) return;
    if (is_volatile(s.getPointerOperand(), libc_)) return;
    if (unlogged_field_of(s, s.getPointerOperand(), layout_.getPointerSize()) == unlogged_field::reset) return;
    SmallVector<const Value*, 4> objects;
    getUnderlyingObjects(s.getValueOperand(), objects);
    for (const Value* o : objects) {
      const auto* g = dyn_cast<GlobalValue>(o);
      if (g == nullptr || g->isThreadLocal()) continue;
      remarks_.emit([&] {
        return OptimizationRemarkAnalysis("nvm-static", "Static", &s)
               << "the address of " << (g->hasPrivateLinkage() ? StringRef{"a constant"} : g->getName())
               << " may become durable: NVM_STATIC_PTR or -fnvm-statics puts it right in the next process";
      });
    }
  }

  Function& f_;
  const DataLayout& layout_;
  const TargetLibraryInfo& libc_;
  DominatorTree& dominators_;
  LoopInfo& loops_;
  ScalarEvolution& evolution_;
  OptimizationRemarkEmitter& remarks_;
  const unsafe_table& table_;
  const logging_options& options_;
  counts& counts_;
  Type* word_;
  Type* pointer_;
  std::map<const BasicBlock*, std::vector<known_range>> known_;
  std::map<const Loop*, bool> harmless_;
  std::vector<planned> plan_;
  std::vector<CallBase*> watched_;
  unsafe_table own_;  // of functions that may be the program's own
};

}  // namespace

bool log_stores(Function& f, FunctionAnalysisManager& analyses, const unsafe_table& table,
                const logging_options& options, counts& n) {
  return function_logger(f, analyses, table, options, n).run();
}

}  // namespace nvm::compiler
