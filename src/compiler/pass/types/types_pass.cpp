// The type map of a translation unit becomes known to the library: a constructor calls nvm_register_types().
//
// The first half of the plugin (types_plugin.cpp) leaves the map as a constant in a section of its own, so that it
// survives the steps between the two: bitcode files, link-time optimisation, -save-temps.  Every kind of linking keeps
// a constructor: in static libraries it comes and goes with its object file, in shared ones it runs when they are
// loaded, early or late, and --gc-sections has to leave it in.
//
// If the map has static pointers, and with -fnvm-statics in each unit, a second constructor calls
// nvm_register_statics() with the things of the unit to which they may lead (statics_of_unit.hpp).
#include "types_pass.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "statics_of_unit.hpp"

using namespace llvm;

namespace nvm::compiler {
namespace {

// Before the constructors of C++ objects, which may open pools; 100 and below are the implementation's.
constexpr int constructor_priority = 101;
constexpr const char* done_name = "nvm_types_of_unit";

cl::opt<bool> all_statics("nvm-statics", cl::desc("Announce functions and static objects, for objects without a type"));

struct types_pass : PassInfoMixin<types_pass> {
  PreservedAnalyses run(Module& m, ModuleAnalysisManager&) {
    SmallVector<GlobalVariable*, 1> maps;
    for (GlobalVariable& g : m.globals()) {
      // A module that went through here already, in an earlier step of the compilation, has its constructor.
      if (g.getSection() == types_section && g.hasInitializer() && !g.getName().starts_with(done_name)) {
        maps.push_back(&g);
      }
    }
    // Before our own additions to the module.
    std::vector<named_static> statics;
    const bool all = all_statics && !has_statics_constructor(m);
    if (all || any_of(maps, [](const GlobalVariable* g) { return has_static_pointers(*g); })) statics = statics_of(m);
    for (GlobalVariable* g : maps) {
      g->setName(done_name);
      // The constant ends with the zero of a C string.
      const std::uint64_t bytes = m.getDataLayout().getTypeAllocSize(g->getValueType()).getFixedValue() / 8 * 8;
      add_constructor(m, "nvm_register_types", *g, bytes);
    }
    if (!statics.empty()) add_constructor(m, "nvm_register_statics", table_of(m, statics), statics.size());
    if (all) say_untyped_may_lead(m);
    return maps.empty() && !all ? PreservedAnalyses::all() : PreservedAnalyses::none();
  }
  // Also with -O0.
  static bool isRequired() { return true; }

 private:
  static constexpr const char* says_name = "nvm_statics_constructor";
  static bool has_statics_constructor(const Module& m) {
    return any_of(m.functions(), [](const Function& f) { return f.getName().starts_with(says_name); });
  }
  static void say_untyped_may_lead(Module& m) {
    LLVMContext& c = m.getContext();
    Type* number = Type::getInt32Ty(c);
    const FunctionCallee call = m.getOrInsertFunction("nvm_statics_in_untyped", Type::getVoidTy(c), number);
    add_constructor(m, says_name, call, {ConstantInt::get(number, 1)});
  }
  static void add_constructor(Module& m, StringRef callee, GlobalVariable& what, std::uint64_t size_of_it) {
    LLVMContext& c = m.getContext();
    Type* size = m.getDataLayout().getIntPtrType(c);
    const FunctionCallee call = m.getOrInsertFunction(callee, Type::getInt32Ty(c), PointerType::getUnqual(c), size);
    add_constructor(m, "nvm_types_constructor", call, {&what, ConstantInt::get(size, size_of_it)});
  }
  static void add_constructor(Module& m, const char* name, FunctionCallee call, ArrayRef<Value*> arguments) {
    LLVMContext& c = m.getContext();
    auto* f = Function::createWithDefaultAttr(FunctionType::get(Type::getVoidTy(c), false),
                                              GlobalValue::InternalLinkage, 0, name, &m);
    f->addFnAttr(Attribute::NoUnwind);
    IRBuilder<> b(BasicBlock::Create(c, "", f));
    b.CreateCall(call, arguments);
    b.CreateRetVoid();
    appendToGlobalCtors(m, f, constructor_priority);
  }
};

}  // namespace

void add_types_pass(PassBuilder& builder) {
  builder.registerPipelineStartEPCallback(
      [](ModulePassManager& passes, OptimizationLevel) { passes.addPass(types_pass()); });
}

}  // namespace nvm::compiler
