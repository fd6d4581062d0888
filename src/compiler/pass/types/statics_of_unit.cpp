#include "statics_of_unit.hpp"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Support/xxhash.h>

#include <cstring>

#include "object/type_map_layout.hpp"
#include "types_pass.hpp"

using namespace llvm;

namespace nvm::compiler {
namespace {

constexpr std::uint64_t text_max = 256;  // bytes of a text that is its name; of a longer one a part and a hash are

// Whether a use hands the address on, to where it may be stored in a field.
bool hands_on(const Value& v, bool is_text);
bool hands_on(const Use& use, bool is_text) {
  const User* user = use.getUser();
  if (isa<LoadInst>(user) || isa<CmpInst>(user) || isa<BlockAddress>(user) || isa<Function>(user)) return false;
  if (isa<StoreInst>(user)) return use.getOperandNo() == 0;
  if (const auto* call = dyn_cast<CallBase>(user)) {
    if (call->isCallee(&use) || isa<IntrinsicInst>(call)) return false;
    // A printed text is not stored.
    return !is_text || !call->getFunctionType()->isVarArg();
  }
  if (const auto* global = dyn_cast<GlobalVariable>(user)) return !global->getName().starts_with("llvm.");
  const bool passes = isa<GEPOperator>(user) || isa<CastInst>(user) || (isa<Constant>(user) && !isa<GlobalValue>(user));
  return !passes || hands_on(*user, is_text);
}
bool hands_on(const Value& v, bool is_text) {
  return any_of(v.uses(), [&](const Use& u) { return hands_on(u, is_text); });
}

// Empty: it has none, or another build could not find it again.
std::string name_of(const GlobalValue& g, function_ref<std::string()> unit) {
  if (g.isThreadLocal() || g.hasExternalWeakLinkage() || g.getName().starts_with("llvm.")) return {};
  if (!g.hasLocalLinkage()) return g.getName().str();
  if (g.hasPrivateLinkage()) {
    const auto* v = dyn_cast<GlobalVariable>(&g);
    if (v == nullptr || !v->isConstant() || !v->hasInitializer()) return {};
    const auto* text = dyn_cast<ConstantDataSequential>(v->getInitializer());
    if (text == nullptr || !text->isCString()) return {};
    std::string name = "\"";
    raw_string_ostream to{name};
    const StringRef all = text->getAsCString();
    printEscapedString(all.take_front(text_max), to);
    if (all.size() > text_max) to << "..." << all.size() << ":" << utohexstr(xxh3_64bits(all));
    return name + "\"";
  }
  if (g.getName().empty()) return {};
  // LLVM numbers equal local names, and literals, by their order: the next build may give the number to another one,
  // unless the unit is the same.
  const StringRef number = g.getName().rsplit('.').second;
  const bool numbered =
      g.getName().starts_with(".") || (!number.empty() && all_of(number, [](char c) { return isDigit(c); }));
  if (numbered)
    return (sys::path::filename(g.getParent()->getSourceFileName()) + ":" + g.getName() + "#" + unit()).str();
  return (sys::path::filename(g.getParent()->getSourceFileName()) + ":" + g.getName()).str();
}

std::uint64_t bytes_of(const GlobalValue& g) {
  const auto* v = dyn_cast<GlobalVariable>(&g);
  if (v == nullptr || !v->getValueType()->isSized()) return 1;
  return g.getParent()->getDataLayout().getTypeAllocSize(v->getValueType()).getFixedValue();
}

}  // namespace

bool has_static_pointers(const GlobalVariable& map) {
  const auto* words = dyn_cast<ConstantDataSequential>(map.getInitializer());
  if (words == nullptr) return false;
  const StringRef bytes = words->getRawDataValues();
  layout::type_record r;
  for (std::size_t at = sizeof(layout::type_map_header); at + sizeof r <= bytes.size(); at += r.bytes) {
    std::memcpy(&r, bytes.data() + at, sizeof r);
    if (r.bytes < sizeof r || r.bytes > bytes.size() - at) return false;  // the zero at the end
    for (std::uint32_t i = 0; i < r.fields; ++i) {
      layout::type_field f;
      std::memcpy(&f, bytes.data() + at + sizeof r + i * sizeof f, sizeof f);
      if (f.kind == layout::field_kind::static_pointer) return true;
    }
  }
  return false;
}

std::vector<named_static> statics_of(Module& m) {
  std::vector<named_static> all;
  std::string hash;
  const auto unit = [&] {
    if (hash.empty()) {
      std::string text;
      raw_string_ostream to{text};
      m.print(to, nullptr);
      hash = utohexstr(xxh3_64bits(text));
    }
    return hash;
  };
  const auto take = [&](GlobalValue& g) {
    std::string name = name_of(g, unit);
    if (name.empty() || !hands_on(g, name.front() == '"')) return;
    all.push_back({std::move(name), &g, bytes_of(g)});
  };
  for (Function& f : m.functions()) take(f);
  for (GlobalVariable& g : m.globals()) {
    if (g.getSection() != types_section) take(g);
  }
  return all;
}

GlobalVariable& table_of(Module& m, const std::vector<named_static>& statics) {
  LLVMContext& c = m.getContext();
  auto* const pointer = PointerType::getUnqual(c);
  auto* const number = Type::getInt64Ty(c);
  auto* const row = StructType::get(c, {pointer, pointer, number});
  std::vector<Constant*> rows;
  for (const named_static& s : statics) {
    Constant* text = ConstantDataArray::getString(c, s.name);
    auto* const name = new GlobalVariable(m, text->getType(), true, GlobalValue::PrivateLinkage, text);
    name->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    rows.push_back(ConstantStruct::get(row, {name, s.what, ConstantInt::get(number, s.bytes)}));
  }
  auto* const type = ArrayType::get(row, rows.size());
  return *new GlobalVariable(m, type, true, GlobalValue::PrivateLinkage, ConstantArray::get(type, rows),
                             "nvm_statics_of_unit");
}

}  // namespace nvm::compiler
