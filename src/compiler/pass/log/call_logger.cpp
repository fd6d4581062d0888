#include "call_logger.hpp"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "code.hpp"
#include "diagnostics.hpp"
#include "facts.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

using kind = expression::kind;

// The number of the argument that an address begins with.
unsigned argument_of(const expression& e) {
  if (e.what == kind::sum || e.what == kind::word_at) return argument_of(e.parts.front());
  return static_cast<unsigned>(e.value);
}
bool begins_in_memory(const expression& e) {
  return e.what == kind::word_at || (e.what == kind::sum && e.parts.front().what == kind::word_at);
}

// Also numbers that may be addresses: prctl() and syscall() use them as such.
std::vector<Value*> further_pointers(const described_call& c) {
  std::vector<Value*> found;
  for (unsigned k = c.function.arguments; k < c.call.arg_size(); ++k) {
    Value* v = c.call.getArgOperand(k);
    if (auto* number = dyn_cast<PtrToIntOperator>(v)) v = number->getPointerOperand();
    const bool may_be = v->getType()->isPointerTy() || (v->getType()->isIntegerTy(64) && !isa<Constant>(v));
    if (may_be && (c.everything || !v->getType()->isPointerTy() || !is_volatile(v, c.libc))) found.push_back(v);
  }
  return found;
}

// ---- formats --------------------------------------------------------------------------------------------------------

// The text of a constant format, wide or not, as far as ASCII goes; false: not known here.
bool constant_text(const Value* format, std::string& text) {
  const auto* g = dyn_cast<GlobalVariable>(format->stripPointerCasts());
  if (g == nullptr || !g->isConstant() || !g->hasDefinitiveInitializer()) return false;
  if (isa<ConstantAggregateZero>(g->getInitializer())) return true;
  const auto* data = dyn_cast<ConstantDataSequential>(g->getInitializer());
  if (data == nullptr || !data->getElementType()->isIntegerTy()) return false;
  for (unsigned i = 0; i < data->getNumElements(); ++i) {
    const std::uint64_t unit = data->getElementAsInteger(i);
    if (unit == 0) return true;
    text += unit < 128 ? static_cast<char>(unit) : '?';
  }
  return false;
}
// Whether a printf format has a conversion that stores: %n.
bool stores_count(const std::string& text) {
  for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at)) {
    at = text.find_first_not_of("0123456789-+ #'I*$.hlqLjzt", at + 1);
    if (at == std::string::npos) return false;
    if (text[at] == 'n') return true;
    ++at;
  }
  return false;
}

// Whether the run-time has to examine the call's arguments.
bool matters(const described_call& c, const walk_of_memory& w) {
  if (c.everything) return true;
  const StringRef what = w.what;
  if (what.ends_with("printf")) {
    std::string text;
    if (constant_text(c.call.getArgOperand(w.arguments[0]), text) && !stores_count(text)) return false;
  }
  if (w.further) return !further_pointers(c).empty();
  return true;
}
bool matters(const described_call& c, const written_range& r) {
  if (c.everything) return true;
  if (r.further) return !further_pointers(c).empty();
  if (begins_in_memory(r.address)) return true;
  Value* v = c.call.getArgOperand(argument_of(r.address));
  return v->getType()->isPointerTy() && !is_volatile(v, c.libc);
}

// ---- code -----------------------------------------------------------------------------------------------------------

class coder {
 public:
  explicit coder(const described_call& c)
      : c_{c},
        module_{*c.call.getModule()},
        word_{Type::getInt64Ty(module_.getContext())},
        pointer_{PointerType::getUnqual(module_.getContext())} {}

  void run() {
    // Formats first: measuring the output of printf stores the counts of %n.
    for (const walk_of_memory& w : c_.function.by) {
      if (matters(c_, w)) look(w);
    }
    for (const written_range& r : c_.function.writes) {
      if (!matters(c_, r)) continue;
      if (r.further) {
        for (Value* v : further_pointers(c_)) write(r, as_pointer(v));
        continue;
      }
      IRBuilder<> b(&c_.call);
      take_place(b);
      Value* base = c_.call.getArgOperand(argument_of(r.address));
      if (!base->getType()->isPointerTy()) continue;
      if (begins_in_memory(r.address)) {
        const expression& first = r.address.what == kind::sum ? r.address.parts.front() : r.address;
        base = b.CreateIntToPtr(value_of(b, first), pointer_);
      }
      write(r, base);
    }
  }

 private:
  Value* as_pointer(Value* v) {
    if (v->getType()->isPointerTy()) return v;
    IRBuilder<> b(&c_.call);
    take_place(b);
    return b.CreateIntToPtr(v, pointer_);
  }
  void take_place(IRBuilder<>& b) { b.SetCurrentDebugLocation(c_.call.getDebugLoc()); }
  Value* site() { return c_.check ? static_cast<Value*>(site_of(c_.call)) : ConstantPointerNull::get(pointer_); }

  void look(const walk_of_memory& w) {
    IRBuilder<> b(&c_.call);
    take_place(b);
    SmallVector<Value*, 8> arguments{site()};
    SmallVector<Type*, 8> types{pointer_};
    for (const unsigned k : w.arguments) {
      Value* v = c_.call.getArgOperand(k);
      arguments.push_back(v->getType()->isPointerTy() ? v : b.CreateZExtOrTrunc(v, word_));
      types.push_back(arguments.back()->getType());
    }
    if (w.further) {
      for (unsigned k = c_.function.arguments; k < c_.call.arg_size(); ++k)
        arguments.push_back(c_.call.getArgOperand(k));
    }
    const std::string name = "__nvm_written_" + w.what;
    b.CreateCall(runtime(Type::getVoidTy(module_.getContext()), name.c_str(), types, w.further), arguments);
  }

  // Lengths are computed only if the target is durable: strlen costs.
  void write(const written_range& r, Value* base) {
    if (is_unsaid(r) && !c_.check) return;
    const bool lock = r.how == written_range::extent::lock;
    if (lock && (is_off(warning_group::lock) || unlogged_field_at(base, 1) == unlogged_field::reset)) return;
    IRBuilder<> before(&c_.call);
    take_place(before);
    IRBuilder<> b(guard(before, base, &c_.call));
    take_place(b);
    Type* nothing = Type::getVoidTy(module_.getContext());
    if (is_unsaid(r)) {
      Value* name = b.CreateGlobalStringPtr(c_.function.name, "", 0, &module_);
      b.CreateCall(runtime(nothing, lock ? "__nvm_lock_found" : "__nvm_refused", {pointer_, pointer_, pointer_}),
                   {base, name, site()});
      return;
    }
    Value* address = base;
    if (!r.further && r.address.what == kind::sum) {
      for (std::size_t k = 1; k < r.address.parts.size(); ++k)
        address = b.CreatePtrAdd(address, value_of(b, r.address.parts[k]));
    }
    Value* bytes = value_of(b, r.bytes);
    if (r.how == written_range::extent::at_most)
      bytes = b.CreateCall(runtime(word_, "__nvm_room", {pointer_, word_}), {address, bytes});
    if (c_.check) {
      b.CreateCall(runtime(nothing, "__nvm_log_at", {pointer_, word_, pointer_}), {address, bytes, site()});
    } else {
      b.CreateCall(runtime(nothing, "__nvm_log", {pointer_, word_}), {address, bytes});
    }
  }

  Value* argument(const expression& e) { return c_.call.getArgOperand(static_cast<unsigned>(e.value)); }

  // Marks reads of the log, which the program's profile leaves out.
  static Instruction* of_log(Instruction* i) {
    i->setMetadata("nvm.log", MDNode::get(i->getContext(), {}));
    return i;
  }

  // The value at an address that may be NULL.
  Value* loaded(IRBuilder<>& b, Value* base, Value* address, Type* type) {
    const std::string name = "__nvm_zero";
    GlobalVariable* zero = module_.getNamedGlobal(name);
    if (zero == nullptr) {
      zero = new GlobalVariable(module_, word_, true, GlobalValue::PrivateLinkage, ConstantInt::get(word_, 0), name);
    }
    Value* there = b.CreateSelect(b.CreateIsNull(base), zero, address);
    return b.CreateZExt(of_log(b.CreateAlignedLoad(type, there, Align(1))), word_);
  }
  Value* word_at(IRBuilder<>& b, const expression& address) {
    const expression& first = address.what == kind::sum ? address.parts.front() : address;
    Value* base =
        first.what == kind::word_at ? b.CreateIntToPtr(word_at(b, first.parts[0]), pointer_) : argument(first);
    Value* at = base;
    if (address.what == kind::sum) {
      for (std::size_t k = 1; k < address.parts.size(); ++k) at = b.CreatePtrAdd(at, value_of(b, address.parts[k]));
    }
    return loaded(b, base, at, word_);
  }
  Value* printed(IRBuilder<>& b, const expression& e) {
    if (e.what == kind::printed_list) {
      Value* list = argument(e.parts[0]);
      return b.CreateCall(runtime(word_, "__nvm_vprinted", {pointer_, pointer_}), {argument(e), list});
    }
    SmallVector<Value*, 8> all{argument(e)};
    for (unsigned k = c_.function.arguments; k < c_.call.arg_size(); ++k) all.push_back(c_.call.getArgOperand(k));
    return b.CreateCall(runtime(word_, "__nvm_printed", {pointer_}, true), all);
  }
  // No product wraps around, and no sum: a bound that is too large is cut, one that is exact fails.
  Value* combined(IRBuilder<>& b, const expression& e) {
    Value* v = value_of(b, e.parts[0]);
    for (std::size_t k = 1; k < e.parts.size(); ++k) {
      Value* next = value_of(b, e.parts[k]);
      if (e.what == kind::sum) {
        v = b.CreateBinaryIntrinsic(Intrinsic::uadd_sat, v, next);
      } else if (e.what == kind::minimum) {
        v = b.CreateBinaryIntrinsic(Intrinsic::umin, v, next);
      } else {
        Value* both = b.CreateBinaryIntrinsic(Intrinsic::umul_with_overflow, v, next);
        v = b.CreateSelect(b.CreateExtractValue(both, 1), ConstantInt::get(word_, ~std::uint64_t{0}),
                           b.CreateExtractValue(both, 0));
      }
    }
    return v;
  }

  Value* value_of(IRBuilder<>& b, const expression& e) {
    switch (e.what) {
      case kind::constant:
        return ConstantInt::get(word_, e.value);
      case kind::argument: {
        Value* v = argument(e);
        return v->getType()->isPointerTy() ? b.CreatePtrToInt(v, word_) : b.CreateZExtOrTrunc(v, word_);
      }
      case kind::string_length:
      case kind::wide_length:
        return of_log(
            b.CreateCall(library(e.what == kind::string_length ? "strlen" : "wcslen", {pointer_}), {argument(e)}));
      case kind::bounded_length:
      case kind::bounded_wide_length:
        return of_log(b.CreateCall(library(e.what == kind::bounded_length ? "strnlen" : "wcsnlen", {pointer_, word_}),
                                   {argument(e), value_of(b, e.parts[0])}));
      case kind::number_at:
        return loaded(b, argument(e), argument(e), b.getInt32Ty());
      case kind::word_at:
        return word_at(b, e.parts[0]);
      case kind::bits:
        return b.CreateShl(
            b.CreateLShr(b.CreateBinaryIntrinsic(Intrinsic::uadd_sat, value_of(b, e.parts[0]), b.getInt64(63)), 6), 3);
      case kind::printed:
      case kind::printed_list:
        return printed(b, e);
      case kind::between:
        return b.CreateBinaryIntrinsic(Intrinsic::usub_sat, value_of(b, e.parts[0]),
                                       b.CreatePtrToInt(argument(e), word_));
      case kind::sum:
      case kind::product:
      case kind::minimum:
        return combined(b, e);
    }
    llvm_unreachable("an expression of no kind");
  }

  FunctionCallee runtime(Type* result, const char* name, ArrayRef<Type*> arguments, bool variadic = false) {
    return runtime_function(module_, result, name, arguments, variadic);
  }
  FunctionCallee library(const char* name, ArrayRef<Type*> arguments) {
    return module_.getOrInsertFunction(name, FunctionType::get(word_, arguments, false));
  }

  const described_call& c_;
  Module& module_;
  Type* word_;
  PointerType* pointer_;
};

// Only numbers and addresses can be named.
bool names_other_types(const CallBase& c, const expression& e) {
  const bool counts = e.what == kind::argument || e.what == kind::string_length || e.what == kind::bounded_length ||
                      e.what == kind::wide_length || e.what == kind::bounded_wide_length || e.what == kind::number_at ||
                      e.what == kind::printed || e.what == kind::printed_list || e.what == kind::between;
  if (counts) {
    const Type* t = c.getArgOperand(static_cast<unsigned>(e.value))->getType();
    if (!t->isPointerTy() && (e.what != kind::argument || !t->isIntegerTy())) return true;
  }
  return any_of(e.parts, [&](const expression& part) { return names_other_types(c, part); });
}

bool looks_into_memory(const expression& e) {
  return e.what == kind::word_at || e.what == kind::number_at || e.what == kind::printed ||
         e.what == kind::printed_list || any_of(e.parts, looks_into_memory);
}

}  // namespace

unsafe_function guessed(const unsafe_function& f) {
  unsafe_function known = f;
  known.by.clear();
  known.calls_back = true;
  erase_if(known.writes, [](const written_range& r) {
    return r.further || is_unsaid(r) || looks_into_memory(r.address) || looks_into_memory(r.bytes);
  });
  return known;
}

std::string misfit(const described_call& c) {
  const unsafe_function& f = c.function;
  if (c.call.arg_size() < f.arguments || (c.call.arg_size() > f.arguments && !f.more_arguments)) {
    return f.name + " is called with " + std::to_string(c.call.arg_size()) +
           " arguments, its line in an unsafe file says " + std::to_string(f.arguments);
  }
  const auto other_types = [&](const written_range& r) {
    return !r.further && (names_other_types(c.call, r.address) || names_other_types(c.call, r.bytes));
  };
  if (any_of(f.writes, other_types))
    return f.name + " is called with arguments of other types than its line in an unsafe file speaks of";
  return {};
}

// A lock that is free after each open may lie in durable memory.
static bool is_lasting_lock(const Value* address) {
  return is_durable(address) && unlogged_field_at(address, 1) != unlogged_field::reset;
}

bool fits(const described_call& c) {
  const unsafe_function& f = c.function;
  if (const std::string text = misfit(c); !text.empty()) {
    warn(c.call, warning_group::unlogged, text);
    return false;
  }
  bool durable = f.unknown && any_durable_argument(c.call);
  bool lock = false;
  for (const written_range& r : f.writes) {
    if (!is_unsaid(r)) continue;
    const bool is_lock = r.how == written_range::extent::lock;
    bool& found = is_lock ? lock : durable;
    const auto lasts = is_lock ? is_lasting_lock : is_durable;
    found =
        found || (r.further ? any_of(further_pointers(c), lasts) : lasts(c.call.getArgOperand(argument_of(r.address))));
  }
  if (lock) {
    warn(c.call, warning_group::lock,
         f.name + " gets a lock in durable memory, which is not logged: after a crash it may be held for ever");
  }
  if (durable) {
    warn(c.call, warning_group::unlogged,
         f.name + " may write durable memory, and nobody can say how much: not logged");
  }
  return !f.unknown;
}

bool may_write_durable(const described_call& c) {
  return any_of(c.function.writes, [&](const written_range& r) { return matters(c, r); }) ||
         any_of(c.function.by, [&](const walk_of_memory& w) { return matters(c, w); });
}

void log_call(const described_call& c) { coder(c).run(); }

void watch_call(CallBase& c, const TargetLibraryInfo& libc) {
  if (c.doesNotReturn() || c.isMustTailCall() || isa<CallBrInst>(c)) return;
  Module& m = *c.getModule();
  Type* pointer = PointerType::getUnqual(m.getContext());
  Type* word = Type::getInt64Ty(m.getContext());
  const Function* callee = function_of(c);
  Instruction* after = c.getNextNode();
  for (Use& u : c.args()) {
    Value* target = u.get();
    if (!target->getType()->isPointerTy() || isa<Constant>(target)) continue;
    std::uint64_t bytes = 0;  // of a variable
    if (is_volatile(target, libc)) {
      const auto* variable = dyn_cast<AllocaInst>(target);
      const auto size = variable == nullptr ? std::nullopt : variable->getAllocationSize(m.getDataLayout());
      if (!size || size->isScalable() || size->getFixedValue() > 4096 || size->getFixedValue() < 8) continue;
      bytes = size->getFixedValue();
    }
    if (auto* i = dyn_cast<InvokeInst>(&c); i != nullptr && after == nullptr)
      after = &*SplitEdge(i->getParent(), i->getNormalDest())->getFirstInsertionPt();
    IRBuilder<> b(&c);
    b.SetCurrentDebugLocation(c.getDebugLoc());
    Value* before = b.CreateCall(runtime_function(m, pointer, "__nvm_watch", {pointer, word}),
                                 {target, ConstantInt::get(word, bytes)});
    IRBuilder<> then(after);
    then.SetCurrentDebugLocation(c.getDebugLoc());
    Value* name = then.CreateGlobalStringPtr(
        callee == nullptr ? StringRef("a function that was called through a pointer") : callee->getName(), "", 0, &m);
    then.CreateCall(runtime_function(m, Type::getVoidTy(m.getContext()), "__nvm_watched", {pointer, pointer, pointer}),
                    {before, name, site_of(c)});
  }
}

}  // namespace nvm::compiler
