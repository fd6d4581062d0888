// Which lanes of a vector store are written, and where.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "written.hpp"

namespace nvm::compiler {

using namespace llvm;

namespace {

// As ldtilecfg lays it out.
constexpr std::uint64_t tile_columns_at = 16;  // two bytes a tile
constexpr std::uint64_t tile_rows_at = 48;     // one
constexpr unsigned rows_of_a_tile_max = 16;

Value* as_bits(IRBuilder<>& b, Value* mask) {
  Type* type = mask->getType();
  if (type->isX86_MMXTy()) return as_bits(b, b.CreateBitCast(mask, FixedVectorType::get(b.getInt8Ty(), 8)));
  if (auto* number = dyn_cast<IntegerType>(type))
    return b.CreateBitCast(mask, FixedVectorType::get(b.getInt1Ty(), number->getBitWidth()));
  if (type->getScalarType()->isIntegerTy(1)) return mask;
  return b.CreateICmpSLT(mask, Constant::getNullValue(type));
}

Value* first_of(IRBuilder<>& b, Value* vector, unsigned lanes) {
  if (cast<FixedVectorType>(vector->getType())->getNumElements() == lanes) return vector;
  SmallVector<int, 64> chosen;
  for (unsigned k = 0; k < lanes; ++k) chosen.push_back(static_cast<int>(k));
  return b.CreateShuffleVector(vector, chosen);
}

}  // namespace

Value* active_lanes(IRBuilder<>& b, const written& w) {
  auto* bits = FixedVectorType::get(b.getInt1Ty(), w.lanes);
  Value* all = Constant::getAllOnesValue(bits);
  if (w.mask != nullptr) all = first_of(b, as_bits(b, w.mask), w.lanes);
  if (w.active_lanes == nullptr) return all;
  SmallVector<Constant*, 64> numbers;
  for (unsigned k = 0; k < w.lanes; ++k) numbers.push_back(b.getInt32(k));
  Value* most = b.CreateVectorSplat(w.lanes, b.CreateZExtOrTrunc(w.active_lanes, b.getInt32Ty()));
  return b.CreateAnd(all, b.CreateICmpULT(ConstantVector::get(numbers), most));
}

Value* lanes_word(IRBuilder<>& b, Value* bits, unsigned first) {
  const unsigned lanes = cast<FixedVectorType>(bits->getType())->getNumElements();
  Value* n = b.CreateBitCast(bits, b.getIntNTy(lanes));
  if (first != 0) n = b.CreateLShr(n, first);
  return b.CreateZExtOrTrunc(n, b.getInt64Ty());
}

Value* lane_addresses(IRBuilder<>& b, const written& w) {
  if (w.scale == nullptr) return w.address;
  Value* index = nullptr;
  auto* words = FixedVectorType::get(b.getInt64Ty(), w.lanes);
  if (w.index == nullptr) {
    SmallVector<Constant*, 64> numbers;
    for (unsigned k = 0; k < w.lanes; ++k) numbers.push_back(b.getInt64(k));
    index = ConstantVector::get(numbers);
  } else {
    index = b.CreateSExt(first_of(b, w.index, w.lanes), words);
  }
  Value* scale = b.CreateMul(b.CreateSExtOrTrunc(w.scale, b.getInt64Ty()), b.getInt64(w.scale_unit));
  return b.CreateGEP(b.getInt8Ty(), w.address, b.CreateMul(index, b.CreateVectorSplat(w.lanes, scale)));
}

written rows_of_tile(IRBuilder<>& b, const written& tile, Value* configuration) {
  const auto at = [&](std::uint64_t offset) { return b.CreatePtrAdd(configuration, b.getInt64(offset)); };
  b.CreateIntrinsic(Intrinsic::x86_sttilecfg, {}, {configuration});
  written rows = tile;
  rows.what = written::shape::scattered;
  rows.lanes = rows_of_a_tile_max;
  rows.bytes = b.CreateLoad(b.getInt16Ty(), at(tile_columns_at + 2 * tile.tile));
  rows.active_lanes = b.CreateLoad(b.getInt8Ty(), at(tile_rows_at + tile.tile));
  return rows;
}

}  // namespace nvm::compiler
