#include "diagnostics.hpp"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/DynamicLibrary.h>

namespace nvm::compiler {

using namespace llvm;

namespace {

warning_levels levels;
cl::list<std::string> level_arguments("nvm-warning", cl::desc("Wno-nvm-... and its kin"),
                                      cl::callback([](const std::string& a) { levels.take(a); }));

// Sets Clang's own -Werror and returns the old setting (pass/front/system_functions.cpp); opt has none.
bool set_warnings_as_errors(bool to) {
  using setter = bool (*)(bool);
  auto* set =
      reinterpret_cast<setter>(sys::DynamicLibrary::SearchForAddressOfSymbol("nvm_front_set_warnings_as_errors"));
  return set != nullptr && set(to);
}

void say(const Instruction& i, const std::string& text, DiagnosticSeverity severity) {
  const Function& f = *i.getFunction();
  f.getContext().diagnose(DiagnosticInfoUnsupported(f, text, i.getDebugLoc(), severity));
}

}  // namespace

bool is_off(warning_group g) { return levels.of(g) == warning_level::off; }

void warn(const Instruction& i, warning_group g, const std::string& text) {
  if (is_off(g)) return;
  const bool all_errors = set_warnings_as_errors(false);
  const warning_level level = levels.of(g);
  const bool error = level == warning_level::error || (level == warning_level::usual && all_errors);
  say(i, text + warning_mark(g, error), error ? DS_Error : DS_Warning);
  set_warnings_as_errors(all_errors);
}

void refuse(const Instruction& i, const std::string& text) { say(i, text, DS_Error); }

}  // namespace nvm::compiler
