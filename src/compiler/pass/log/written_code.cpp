// The code that logs the writes of an intrinsic: all lanes with one call and one fence, if any of them is durable.
#include <llvm/IR/Constants.h>

#include "code.hpp"
#include "facts.hpp"
#include "written.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

// Makes code before an instruction, of the line of another.
class code_at : public IRBuilder<> {
 public:
  code_at(Instruction* before, const Instruction& of) : IRBuilder<>(before) {
    SetCurrentDebugLocation(of.getDebugLoc());
  }
};

class writer {
 public:
  writer(Instruction& by, bool check)
      : by_{by},
        check_{check},
        word_{Type::getInt64Ty(by.getContext())},
        pointer_{PointerType::getUnqual(by.getContext())} {}

  void log(const written& w) {
    switch (w.what) {
      case written::shape::bytes:
      case written::shape::line:
        return range(w);
      case written::shape::masked:
        return masked(w);
      case written::shape::compressed:
        return compressed(w);
      case written::shape::scattered:
        return scattered(w);
      case written::shape::tile:
        return tile(w);
      case written::shape::object:
        return objects(w);
      case written::shape::refused:
        return;
    }
  }

 private:
  code_at at(Instruction* before) { return code_at(before, by_); }
  code_at here() { return at(&by_); }
  // In a block of its own, which is entered where the address is in the window of pools.
  code_at where_durable(Value* address) {
    code_at b = here();
    return at(guard(b, address, &by_));
  }
  Value* number(std::uint64_t v) { return ConstantInt::get(word_, v); }
  // A call of the log, or of the run-time of checked builds, which is told the place.
  void call(IRBuilder<>& b, const char* name, const char* checked, ArrayRef<Value*> values) {
    SmallVector<Value*, 5> arguments(values);
    if (check_) arguments.push_back(site_of(by_));
    SmallVector<Type*, 5> types;
    for (Value* v : arguments) types.push_back(v->getType());
    b.CreateCall(runtime_function(*by_.getModule(), b.getVoidTy(), check_ ? checked : name, types), arguments);
  }
  void call_log(IRBuilder<>& b, Value* address, Value* bytes) {
    call(b, "__nvm_log", "__nvm_log_at", {address, b.CreateZExtOrTrunc(bytes, word_)});
  }
  // Memory of the function's own, in which something is handed over.
  Value* room(Type* type) {
    BasicBlock& entry = by_.getFunction()->getEntryBlock();
    return IRBuilder<>(&*entry.getFirstInsertionPt()).CreateAlloca(type);
  }

  void range(const written& w) {
    code_at b = here();
    Value* address = w.address;
    if (w.what == written::shape::line) {
      const std::uint64_t bytes = cast<ConstantInt>(w.bytes)->getZExtValue();
      address = b.CreateIntrinsic(Intrinsic::ptrmask, {pointer_, word_}, {address, number(~(bytes - 1))});
    }
    code_at c = where_durable(address);
    call_log(c, address, w.bytes);
  }

  // ---- lanes ------------------------------------------------------------------------------------------------------

  void masked(const written& w) {
    Value* bytes = w.bytes;
    for (unsigned first = 0; first < w.lanes; first += word_bits) {
      code_at b = here();
      Value* address = first == 0 ? w.address : b.CreatePtrAdd(w.address, b.CreateMul(bytes, number(first)));
      code_at c = where_durable(address);
      Value* bits = lanes_word(c, active_lanes(c, w), first);
      call(c, "__nvm_log_masked", "__nvm_log_masked_at", {address, bytes, bits});
    }
  }

  void compressed(const written& w) {
    code_at b = where_durable(w.address);
    Value* bits = active_lanes(b, w);
    Value* lanes = number(0);
    for (unsigned first = 0; first < w.lanes; first += word_bits)
      lanes = b.CreateAdd(lanes, b.CreateUnaryIntrinsic(Intrinsic::ctpop, lanes_word(b, bits, first)));
    call_log(b, w.address, b.CreateMul(lanes, w.bytes));
  }

  void scattered(const written& w) {
    Type* pointers = FixedVectorType::get(pointer_, w.lanes);
    code_at b = here();
    Value* all = lane_addresses(b, w);
    Value* bits = active_lanes(b, w);
    Value* durable = b.CreateOrReduce(b.CreateAnd(bits, inside_window(b, all)));
    Value* list = room(pointers);
    code_at c = at(block_if(b, durable, &by_));
    ConstantInt* size = c.getInt64(by_.getDataLayout().getTypeAllocSize(pointers));
    c.CreateLifetimeStart(list, size);
    c.CreateStore(all, list);
    Value* bytes = c.CreateZExtOrTrunc(w.bytes, word_);
    for (unsigned first = 0; first < w.lanes; first += word_bits) {
      Value* part = first == 0 ? list : c.CreateConstInBoundsGEP1_32(pointer_, list, first);
      call(c, "__nvm_log_scattered", "__nvm_log_scattered_at", {part, bytes, lanes_word(c, bits, first)});
    }
    c.CreateLifetimeEnd(list, size);
  }

  void tile(const written& w) {
    Value* configuration = room(ArrayType::get(Type::getInt8Ty(by_.getContext()), tile_configuration_bytes));
    code_at b = here();
    scattered(rows_of_tile(b, w, configuration));
  }

  // A number may be an address, too: inline assembly does not say.
  void objects(const written& w) {
    const auto* several = dyn_cast<FixedVectorType>(w.address->getType());
    for (unsigned k = 0; k < (several == nullptr ? 1 : several->getNumElements()); ++k) {
      code_at b = here();
      Value* address = several == nullptr ? w.address : b.CreateExtractElement(w.address, std::uint64_t{k});
      if (address->getType()->isIntegerTy()) address = b.CreateIntToPtr(address, pointer_);
      code_at c = where_durable(address);
      call(c, "__nvm_log_object", "__nvm_log_object_at", {address});
    }
  }

  Instruction& by_;
  bool check_;
  Type* word_;
  Type* pointer_;
};

}  // namespace

void log_written(const written& w, Instruction& by, bool check) { writer(by, check).log(w); }

}  // namespace nvm::compiler
