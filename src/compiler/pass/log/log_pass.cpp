// nvm_log_pass: a call of the log before each store that may be durable (Breeze, sections IV-C, IV-D and IV-G).
//
//     if ((address >> window bits) == window) __nvm_log(address, bytes);
//     store
//
// It runs last in the optimizer, so that it sees the stores that the machine will execute: merged, vectorised, turned
// into memory intrinsics.  It guards
//   every instruction and intrinsic that may store according to LLVM (written.hpp has the bytes), outputs of inline
//   assembly in memory, and other memory that assembly may write;
//   calls of precompiled functions, by what *.unsafe files say that they write (unsafe_file.hpp), also through pointers
//   (safe_wrappers.cpp).
// It leaves out stores to memory that cannot be durable or is logged already:
//   volatile   every object that the address can belong to is a variable, or fresh from malloc and its kin;
//   fresh      the object was allocated in this transaction, and exists only if that commits;
//   dominated  the same bytes were logged on every way here, with no call in between that could begin, end or nest a
//              transaction;
//   merged     stores of a straight line of code to touching bytes share the log call of the first;
//   batched    other stores of that line share the call, and its fence, where their addresses are known in time;
//   hoisted    a store of each turn of a counted loop to the next bytes is logged as one range before the loop.
//
// A checked build (-fnvm-check) checks each store, also those that were left out, and names its place.
//
// Each decision is a remark (-Rpass=nvm-log, -Rpass-missed=nvm-log); -mllvm -nvm-log-stats prints their numbers.
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/MemoryBuffer.h>

#include "compiler/pass/assembly_text.hpp"
#include "compiler/pass/types/types_pass.hpp"
#include "facts.hpp"
#include "function_logger.hpp"
#include "module_rewrites.hpp"

using namespace llvm;
namespace nc = nvm::compiler;

namespace {

cl::list<std::string> unsafe_files("nvm-unsafe", cl::desc("What precompiled functions write"), cl::value_desc("file"));
cl::opt<bool> print_statistics("nvm-log-stats", cl::desc("Print what the log pass did with each module's stores"));
cl::opt<bool> log_everything("nvm-log-everything", cl::desc("Leave out nothing: for comparison with what is left out"));
cl::opt<bool> check_stores("nvm-log-check", cl::desc("Look at each store, and at each pointer stored, at run time"));

cl::opt<nc::planted_mistake> plant(
    "nvm-log-plant", cl::desc("Make a mistake, for the test that has to find it"), cl::Hidden,
    cl::values(clEnumValN(nc::planted_mistake::calls_keep_logs, "calls-keep-logs", ""),
               clEnumValN(nc::planted_mistake::one_way_is_enough, "one-way-is-enough", ""),
               clEnumValN(nc::planted_mistake::short_loops, "short-loops", ""),
               clEnumValN(nc::planted_mistake::late_merges, "late-merges", ""),
               clEnumValN(nc::planted_mistake::variables_win, "variables-win", ""),
               clEnumValN(nc::planted_mistake::fresh_for_ever, "fresh-for-ever", ""),
               clEnumValN(nc::planted_mistake::library_calls_forgotten, "library-calls-forgotten", "")));

bool read_tables(Module& m, nc::unsafe_table& table) {
  std::vector<nc::unsafe_function> functions;
  for (const std::string& path : unsafe_files) {
    auto text = MemoryBuffer::getFile(path, /*IsText=*/true);
    if (!text) {
      m.getContext().emitError("cannot read " + path + ": " + text.getError().message());
      return false;
    }
    nc::unsafe_error error;
    const StringRef content = (*text)->getBuffer();
    if (!nc::parse_unsafe({content.data(), content.size()}, functions, error)) {
      m.getContext().emitError(path + ":" + Twine(error.line) + ":" + Twine(error.column) + ": " + error.message);
      return false;
    }
    // The driver gives the installation's file first.
    if (&path == &unsafe_files.front()) {
      for (auto& f : functions) f.of_library = true;
    }
  }
  for (auto& f : functions) {
    const std::string name = f.name;
    table.emplace(name, std::move(f));
  }
  return true;
}

// The tables of this process, read once; nullptr: an error was reported.
const nc::unsafe_table* tables(Module& m) {
  static nc::unsafe_table table;
  static const bool good = read_tables(m, table);
  return good ? &table : nullptr;
}

// Functions of C++ libraries whose code is in headers, too: described ones are not inlined, since functions that they
// call are not described.
class library_pass : public PassInfoMixin<library_pass> {
 public:
  PreservedAnalyses run(Module& m, ModuleAnalysisManager&) {
    bool changed = false;
    for (Function& f : m) {
      if (!f.hasAvailableExternallyLinkage() || !f.getName().starts_with("_Z")) continue;
      const nc::unsafe_table* table = tables(m);
      if (table == nullptr) return PreservedAnalyses::all();
      if (table->count(f.getName().str()) == 0) continue;
      f.deleteBody();
      changed = true;
    }
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

class log_pass : public PassInfoMixin<log_pass> {
 public:
  PreservedAnalyses run(Module& m, ModuleAnalysisManager& analyses) {
    const nc::unsafe_table* known = tables(m);
    if (known == nullptr) return PreservedAnalyses::all();
    const nc::unsafe_table& table = *known;
    auto& functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(m).getManager();
    bool changed = mark_assembly(m);
    changed = nc::make_safe_wrappers(m, table) || changed;
    changed = nc::guard_jumps(m) || changed;
    nc::logging_options options;
    options.everything = log_everything;
    options.check = check_stores;
    options.plant = plant;
    nc::counts n;
    for (Function& f : m) {
      if (f.isDeclaration() || f.hasAvailableExternallyLinkage() || f.hasFnAttribute(Attribute::Naked)) continue;
      if (f.hasFnAttribute(nc::logged_already)) continue;
      changed = nc::log_stores(f, functions, table, options, n) || changed;
      f.addFnAttr(nc::logged_already);
    }
    if (print_statistics) {
      errs() << m.getSourceFileName() << ": " << n.stores << " stores; " << n.logged << " log calls (" << n.calls
             << " of them before precompiled functions, " << n.loops
             << " before loops), left out: " << n.volatile_target << " volatile, " << n.fresh << " fresh, "
             << n.dominated << " dominated, " << n.merged << " merged, " << n.hoisted << " hoisted, " << n.batched
             << " batched, " << n.stale << " stale\n";
    }
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  // Also with -O0.
  static bool isRequired() { return true; }

 private:
  // Functions that assembly outside of functions defines.
  static bool mark_assembly(Module& m) {
    bool any = false;
    for (const std::string& label : nc::read_assembly(m.getModuleInlineAsm()).labels) {
      Function* f = m.getFunction(label);
      if (f == nullptr || !f->isDeclaration()) continue;
      f->addFnAttr(nc::assembly_mark);
      any = true;
    }
    return any;
  }
};

// Before the optimizer forgets what the front end has said of fields.
class field_mark_pass : public PassInfoMixin<field_mark_pass> {
 public:
  static PreservedAnalyses run(Module& m, ModuleAnalysisManager& /*analyses*/) {
    for (Function& f : m) nc::mark_unlogged_stores(f);
    return PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

class pointer_check_pass : public PassInfoMixin<pointer_check_pass> {
 public:
  PreservedAnalyses run(Module& m, ModuleAnalysisManager&) {
    bool changed = false;
    for (Function& f : m) changed = nc::check_pointers(f) || changed;
    return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

}  // namespace

extern "C" LLVM_ATTRIBUTE_WEAK __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "nvm_log_pass", LLVM_VERSION_STRING, [](PassBuilder& builder) {
            nvm::compiler::add_types_pass(builder);
            builder.registerPipelineStartEPCallback([](ModulePassManager& passes, OptimizationLevel) {
              passes.addPass(library_pass());
              passes.addPass(field_mark_pass());
              if (check_stores) passes.addPass(pointer_check_pass());
            });
            builder.registerOptimizerLastEPCallback(
                [](ModulePassManager& passes, OptimizationLevel) { passes.addPass(log_pass()); });
            builder.registerPipelineParsingCallback(
                [](StringRef name, ModulePassManager& passes, ArrayRef<PassBuilder::PipelineElement>) {
                  if (name == "nvm-log") {
                    passes.addPass(log_pass());
                  } else if (name == "nvm-check-pointers") {
                    passes.addPass(pointer_check_pass());
                  } else {
                    return false;
                  }
                  return true;
                });
          }};
}
