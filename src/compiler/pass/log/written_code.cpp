// The code that logs what an intrinsic writes: lanes at once, with one call and one fence, where any of them is
// durable.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "code.hpp"
#include "facts.hpp"
#include "written.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

constexpr unsigned word_bits = 64;

// As ldtilecfg lays it out.
constexpr std::uint64_t tile_columns_at = 16;  // two bytes a tile
constexpr std::uint64_t tile_rows_at = 48;     // one
constexpr std::uint64_t tile_configuration_bytes = 64;
constexpr unsigned tile_rows_max = 16;

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

  // A bit for each lane.
  Value* active(IRBuilder<>& b, const written& w) {
    auto* bits = FixedVectorType::get(b.getInt1Ty(), w.lanes);
    Value* all = Constant::getAllOnesValue(bits);
    if (w.mask != nullptr) all = first_of(b, as_bits(b, w.mask), w.lanes);
    if (w.active_lanes == nullptr) return all;
    SmallVector<Constant*, 64> numbers;
    for (unsigned k = 0; k < w.lanes; ++k) numbers.push_back(b.getInt32(k));
    Value* most = b.CreateVectorSplat(w.lanes, b.CreateZExtOrTrunc(w.active_lanes, b.getInt32Ty()));
    return b.CreateAnd(all, b.CreateICmpULT(ConstantVector::get(numbers), most));
  }
  static Value* as_bits(IRBuilder<>& b, Value* mask) {
    Type* type = mask->getType();
    if (type->isX86_MMXTy()) return as_bits(b, b.CreateBitCast(mask, FixedVectorType::get(b.getInt8Ty(), 8)));
    if (auto* number = dyn_cast<IntegerType>(type))
      return b.CreateBitCast(mask, FixedVectorType::get(b.getInt1Ty(), number->getBitWidth()));
    if (type->getScalarType()->isIntegerTy(1)) return mask;
    return b.CreateICmpSLT(mask, Constant::getNullValue(type));
  }
  static Value* first_of(IRBuilder<>& b, Value* vector, unsigned lanes) {
    if (cast<FixedVectorType>(vector->getType())->getNumElements() == lanes) return vector;
    SmallVector<int, 64> chosen;
    for (unsigned k = 0; k < lanes; ++k) chosen.push_back(static_cast<int>(k));
    return b.CreateShuffleVector(vector, chosen);
  }
  // Of 64 lanes, as a number.
  Value* word_of(IRBuilder<>& b, Value* bits, unsigned first) {
    const unsigned lanes = cast<FixedVectorType>(bits->getType())->getNumElements();
    Value* n = b.CreateBitCast(bits, b.getIntNTy(lanes));
    if (first != 0) n = b.CreateLShr(n, first);
    return b.CreateZExtOrTrunc(n, word_);
  }

  void masked(const written& w) {
    Value* bytes = w.bytes;
    for (unsigned first = 0; first < w.lanes; first += word_bits) {
      code_at b = here();
      Value* address = first == 0 ? w.address : b.CreatePtrAdd(w.address, b.CreateMul(bytes, number(first)));
      code_at c = where_durable(address);
      Value* bits = word_of(c, active(c, w), first);
      call(c, "__nvm_log_masked", "__nvm_log_masked_at", {address, bytes, bits});
    }
  }

  void compressed(const written& w) {
    code_at b = where_durable(w.address);
    Value* bits = active(b, w);
    Value* lanes = number(0);
    for (unsigned first = 0; first < w.lanes; first += word_bits)
      lanes = b.CreateAdd(lanes, b.CreateUnaryIntrinsic(Intrinsic::ctpop, word_of(b, bits, first)));
    call_log(b, w.address, b.CreateMul(lanes, w.bytes));
  }

  Value* addresses(IRBuilder<>& b, const written& w) {
    if (w.scale == nullptr) return w.address;
    Value* index = nullptr;
    auto* words = FixedVectorType::get(word_, w.lanes);
    if (w.index == nullptr) {
      SmallVector<Constant*, 64> numbers;
      for (unsigned k = 0; k < w.lanes; ++k) numbers.push_back(b.getInt64(k));
      index = ConstantVector::get(numbers);
    } else {
      index = b.CreateSExt(first_of(b, w.index, w.lanes), words);
    }
    Value* scale = b.CreateMul(b.CreateSExtOrTrunc(w.scale, word_), number(w.scale_unit));
    return b.CreateGEP(b.getInt8Ty(), w.address, b.CreateMul(index, b.CreateVectorSplat(w.lanes, scale)));
  }

  void scattered(const written& w) {
    Type* pointers = FixedVectorType::get(pointer_, w.lanes);
    code_at b = here();
    Value* all = addresses(b, w);
    Value* bits = active(b, w);
    Value* durable = b.CreateOrReduce(b.CreateAnd(bits, inside_window(b, all)));
    Value* list = room(pointers);
    code_at c = at(block_if(b, durable, &by_));
    ConstantInt* size = c.getInt64(by_.getDataLayout().getTypeAllocSize(pointers));
    c.CreateLifetimeStart(list, size);
    c.CreateStore(all, list);
    Value* bytes = c.CreateZExtOrTrunc(w.bytes, word_);
    for (unsigned first = 0; first < w.lanes; first += word_bits) {
      Value* part = first == 0 ? list : c.CreateConstInBoundsGEP1_32(pointer_, list, first);
      call(c, "__nvm_log_scattered", "__nvm_log_scattered_at", {part, bytes, word_of(c, bits, first)});
    }
    c.CreateLifetimeEnd(list, size);
  }

  void tile(const written& w) {
    Value* configuration = room(ArrayType::get(Type::getInt8Ty(by_.getContext()), tile_configuration_bytes));
    code_at b = here();
    b.CreateIntrinsic(Intrinsic::x86_sttilecfg, {}, {configuration});
    written rows = w;
    rows.what = written::shape::scattered;
    rows.lanes = tile_rows_max;
    rows.bytes = b.CreateLoad(b.getInt16Ty(), b.CreatePtrAdd(configuration, number(tile_columns_at + 2 * w.tile)));
    rows.active_lanes = b.CreateLoad(b.getInt8Ty(), b.CreatePtrAdd(configuration, number(tile_rows_at + w.tile)));
    scattered(rows);
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
