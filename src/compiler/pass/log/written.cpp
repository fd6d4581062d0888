#include "written.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace nvm::compiler {

using namespace llvm;

namespace {

// Sizes that follow neither from a type nor from an argument.
constexpr std::uint64_t va_list_bytes = 24;
constexpr std::uint64_t windows_va_list_bytes = 8;
constexpr std::uint64_t jump_buffer_bytes = 40;  // five words, the same for every function
constexpr std::uint64_t trampoline_bytes = 23;
constexpr std::uint64_t fxsave_bytes = 512;
constexpr std::uint64_t line_bytes = 64;
constexpr unsigned tile_rows_max = 16;

class description {
 public:
  description(CallBase& c, const DataLayout& layout) : c_{c}, layout_{layout}, id_{c.getIntrinsicID()} {}

  SmallVector<written, 2> take() {
    if (!may_store()) return {};
    if (is_scalable()) {
      add(written::shape::refused, nullptr);
    } else if (!of_any_target() && !of_x86()) {
      objects();
    }
    return std::move(out_);
  }

 private:
  bool may_store() const {
    if (!c_.mayWriteToMemory() || c_.onlyAccessesInaccessibleMemory()) return false;
    const auto* i = dyn_cast<IntrinsicInst>(&c_);
    return i == nullptr || !i->isAssumeLikeIntrinsic();
  }
  bool is_scalable() const {
    return any_of(c_.args(), [](const Use& u) { return isa<ScalableVectorType>(u->getType()); });
  }

  Value* argument(unsigned k) const { return c_.getArgOperand(k); }
  Value* number(std::uint64_t v) const { return ConstantInt::get(Type::getInt64Ty(c_.getContext()), v); }
  Value* size_of(Type* t) const { return number(layout_.getTypeStoreSize(t).getFixedValue()); }
  static FixedVectorType* vector(const Value* v) { return cast<FixedVectorType>(v->getType()); }
  Value* lane_of(const Value* v) const { return size_of(vector(v)->getElementType()); }

  written& add(written::shape what, Value* address, Value* bytes = nullptr, unsigned lanes = 1, Value* mask = nullptr) {
    written w;
    w.what = what;
    w.address = address;
    w.bytes = bytes;
    w.lanes = lanes;
    w.mask = mask;
    out_.push_back(w);
    return out_.back();
  }
  bool exactly(unsigned pointer, std::uint64_t bytes) {
    add(written::shape::bytes, argument(pointer), number(bytes));
    return true;
  }
  bool as_large_as(unsigned pointer, Type* type) {
    add(written::shape::bytes, argument(pointer), size_of(type));
    return true;
  }
  bool lanes(written::shape what, unsigned value, unsigned pointer, unsigned mask) {
    Value* v = argument(value);
    add(what, argument(pointer), lane_of(v), vector(v)->getNumElements(), argument(mask));
    return true;
  }
  // The mask is a vector of as many lanes of the same size as what is stored.
  bool by_sign(unsigned pointer, unsigned mask) { return lanes(written::shape::masked, mask, pointer, mask); }
  // vp.*: value, pointer, ..., mask, number of lanes.
  bool counted(written::shape what) {
    const unsigned n = c_.arg_size();
    lanes(what, 0, 1, n - 2);
    out_.back().active_lanes = argument(n - 1);
    return true;
  }

  bool of_any_target() {
    switch (id_) {
      case Intrinsic::masked_store:
        return lanes(written::shape::masked, 0, 1, 3);
      case Intrinsic::masked_scatter:
        return lanes(written::shape::scattered, 0, 1, 3);
      case Intrinsic::masked_compressstore:
        return lanes(written::shape::compressed, 0, 1, 2);
      case Intrinsic::vp_store:
        return counted(written::shape::masked);
      case Intrinsic::vp_scatter:
        return counted(written::shape::scattered);
      case Intrinsic::experimental_vp_strided_store:
        counted(written::shape::scattered);
        out_.back().scale = argument(2);
        return true;
      case Intrinsic::experimental_vector_histogram_add:
        add(written::shape::scattered, argument(0), size_of(argument(1)->getType()),
            vector(argument(0))->getNumElements(), argument(2));
        return true;
      case Intrinsic::matrix_column_major_store:
        return matrix();
      case Intrinsic::vastart:
        return exactly(
            0, c_.getFunction()->getCallingConv() == CallingConv::Win64 ? windows_va_list_bytes : va_list_bytes);
      case Intrinsic::vacopy:
        return exactly(0, va_list_bytes);
      case Intrinsic::eh_sjlj_setjmp:
        return exactly(0, jump_buffer_bytes);
      case Intrinsic::init_trampoline:
        return exactly(0, trampoline_bytes);
      case Intrinsic::gcwrite:
        return as_large_as(2, argument(0)->getType());
      case Intrinsic::vaend:
      case Intrinsic::eh_sjlj_longjmp:
      case Intrinsic::clear_cache:
      case Intrinsic::stackrestore:
      case Intrinsic::asan_check_memaccess:
      case Intrinsic::hwasan_check_memaccess:
      case Intrinsic::hwasan_check_memaccess_shortgranules:
      case Intrinsic::hwasan_check_memaccess_fixedshadow:
      case Intrinsic::hwasan_check_memaccess_shortgranules_fixedshadow:
        return true;  // read, or nothing
      default:
        return false;
    }
  }
  bool matrix() {
    Type* element = vector(argument(0))->getElementType();
    const std::uint64_t bytes = layout_.getTypeStoreSize(element).getFixedValue();
    const auto* rows = cast<ConstantInt>(argument(4));
    const auto* columns = cast<ConstantInt>(argument(5));
    written& w = add(written::shape::scattered, argument(1), number(rows->getZExtValue() * bytes),
                     static_cast<unsigned>(columns->getZExtValue()));
    w.scale = argument(2);
    w.scale_unit = bytes;
    return true;
  }

  bool of_x86() {
    switch (id_) {
      case Intrinsic::x86_fxsave:
      case Intrinsic::x86_fxsave64:
        return exactly(0, fxsave_bytes);
      case Intrinsic::x86_sse_stmxcsr:
        return exactly(0, 4);
      case Intrinsic::x86_sttilecfg:
        return exactly(0, tile_configuration_bytes);
      case Intrinsic::x86_movdir64b:
      case Intrinsic::x86_enqcmd:
      case Intrinsic::x86_enqcmds:
        return exactly(0, line_bytes);
      case Intrinsic::x86_clzero:
        add(written::shape::line, argument(0), number(line_bytes));
        return true;
      case Intrinsic::x86_mmx_movnt_dq:
      case Intrinsic::x86_rstorssp:
      case Intrinsic::x86_clrssbsy:
        return exactly(0, 8);
      case Intrinsic::x86_wrssd:
      case Intrinsic::x86_wrssq:
      case Intrinsic::x86_wrussd:
      case Intrinsic::x86_wrussq:
        return as_large_as(1, argument(0)->getType());
      case Intrinsic::x86_atomic_bts:
      case Intrinsic::x86_atomic_btr:
      case Intrinsic::x86_atomic_btc:
        return as_large_as(0, c_.getType());
      case Intrinsic::x86_directstore32:
      case Intrinsic::x86_directstore64:
      case Intrinsic::x86_aadd32:
      case Intrinsic::x86_aadd64:
      case Intrinsic::x86_aand32:
      case Intrinsic::x86_aand64:
      case Intrinsic::x86_aor32:
      case Intrinsic::x86_aor64:
      case Intrinsic::x86_axor32:
      case Intrinsic::x86_axor64:
      case Intrinsic::x86_cmpccxadd32:
      case Intrinsic::x86_cmpccxadd64:
      case Intrinsic::x86_atomic_add_cc:
      case Intrinsic::x86_atomic_sub_cc:
      case Intrinsic::x86_atomic_or_cc:
      case Intrinsic::x86_atomic_and_cc:
      case Intrinsic::x86_atomic_xor_cc:
      case Intrinsic::x86_atomic_bts_rm:
      case Intrinsic::x86_atomic_btr_rm:
      case Intrinsic::x86_atomic_btc_rm:
        return as_large_as(0, argument(1)->getType());
      case Intrinsic::x86_avx_maskstore_ps:
      case Intrinsic::x86_avx_maskstore_pd:
      case Intrinsic::x86_avx_maskstore_ps_256:
      case Intrinsic::x86_avx_maskstore_pd_256:
      case Intrinsic::x86_avx2_maskstore_d:
      case Intrinsic::x86_avx2_maskstore_q:
      case Intrinsic::x86_avx2_maskstore_d_256:
      case Intrinsic::x86_avx2_maskstore_q_256:
        return by_sign(0, 1);
      case Intrinsic::x86_sse2_maskmov_dqu:
        return by_sign(2, 1);
      case Intrinsic::x86_mmx_maskmovq:
        add(written::shape::masked, argument(2), number(1), 8, argument(1));
        return true;
      case Intrinsic::x86_tilestored64:
        return tile(add(written::shape::tile, argument(1)));
      case Intrinsic::x86_tilestored64_internal:
        return rows(add(written::shape::scattered, argument(2), argument(1), tile_rows_max));
      default:
        return only_read_by_x86() || narrowing() || scatter_of_avx512();
    }
  }

  bool tile(written& w) {
    w.tile = static_cast<unsigned>(cast<ConstantInt>(argument(0))->getZExtValue());
    w.scale = argument(2);
    return true;
  }
  bool rows(written& w) {
    w.active_lanes = argument(0);
    w.scale = argument(3);
    return true;
  }

  // LLVM has no attribute that says so.
  bool only_read_by_x86() const {
    switch (id_) {
      case Intrinsic::x86_fxrstor:
      case Intrinsic::x86_fxrstor64:
      case Intrinsic::x86_xrstor:
      case Intrinsic::x86_xrstor64:
      case Intrinsic::x86_xrstors:
      case Intrinsic::x86_xrstors64:
      case Intrinsic::x86_sse_ldmxcsr:
      case Intrinsic::x86_ldtilecfg:
      case Intrinsic::x86_ldtilecfg_internal:
      case Intrinsic::x86_tileloadd64:
      case Intrinsic::x86_tileloaddt164:
      case Intrinsic::x86_tileloadd64_internal:
      case Intrinsic::x86_tileloaddt164_internal:
      case Intrinsic::x86_aesenc128kl:
      case Intrinsic::x86_aesenc256kl:
      case Intrinsic::x86_aesdec128kl:
      case Intrinsic::x86_aesdec256kl:
      case Intrinsic::x86_aesencwide128kl:
      case Intrinsic::x86_aesencwide256kl:
      case Intrinsic::x86_aesdecwide128kl:
      case Intrinsic::x86_aesdecwide256kl:
      case Intrinsic::x86_invpcid:
      case Intrinsic::x86_sse2_clflush:
      case Intrinsic::x86_clflushopt:
      case Intrinsic::x86_clwb:
      case Intrinsic::x86_cldemote:
      case Intrinsic::x86_sse3_monitor:
      case Intrinsic::x86_monitorx:
      case Intrinsic::x86_umonitor:
        return true;
      default:
        return false;
    }
  }

  // llvm.x86.avx512.mask.pmov[s|us].qb.mem.512 (pointer, lanes of type q, mask): they are truncated to type b.
  bool narrowing() {
    const StringRef name = c_.getCalledFunction()->getName();
    if (!name.starts_with("llvm.x86.avx512.mask.pmov") || !name.contains(".mem.")) return false;
    const char to = name.substr(0, name.find(".mem.")).back();
    add(written::shape::masked, argument(0),
        number(to == 'b'   ? 1
               : to == 'w' ? 2
                           : 4),
        vector(argument(1))->getNumElements(), argument(2));
    return true;
  }
  // llvm.x86.avx512[.mask].scatter* (base, mask, indexes, values, scale): the shorter vector counts.
  bool scatter_of_avx512() {
    const StringRef name = c_.getCalledFunction()->getName();
    if (!name.starts_with("llvm.x86.avx512.scatter") && !name.starts_with("llvm.x86.avx512.mask.scatter")) return false;
    const unsigned lanes = std::min(vector(argument(2))->getNumElements(), vector(argument(3))->getNumElements());
    written& w = add(written::shape::scattered, argument(0), lane_of(argument(3)), lanes, argument(1));
    w.index = argument(2);
    w.scale = argument(4);
    return true;
  }

  // xsave and its kin, and intrinsics that are newer than this file.
  void objects() {
    for (unsigned k = 0; k < c_.arg_size(); ++k) {
      if (!argument(k)->getType()->isPtrOrPtrVectorTy() || c_.onlyReadsMemory(k)) continue;
      add(written::shape::object, argument(k));
    }
  }

  CallBase& c_;
  const DataLayout& layout_;
  Intrinsic::ID id_;
  SmallVector<written, 2> out_;
};

}  // namespace

SmallVector<written, 2> written_by(CallBase& intrinsic, const DataLayout& layout) {
  return description(intrinsic, layout).take();
}

bool may_change_transactions(const CallBase& intrinsic) {
  switch (intrinsic.getIntrinsicID()) {
    case Intrinsic::experimental_gc_statepoint:
    case Intrinsic::experimental_patchpoint:
    case Intrinsic::experimental_patchpoint_void:
    case Intrinsic::experimental_deoptimize:
    case Intrinsic::icall_branch_funnel:
    case Intrinsic::eh_sjlj_setjmp:
      return true;
    default: {
      const StringRef name = intrinsic.getCalledFunction()->getName();
      return name.starts_with("llvm.coro.") || name.starts_with("llvm.objc.");
    }
  }
}

}  // namespace nvm::compiler
