// Which stores of one function are logged, and the code that logs them.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/PassManager.h>

#include <map>
#include <string>

#include "unsafe_file.hpp"

namespace nvm::compiler {

struct logging_options {
  bool everything = false;  // leave nothing out: for comparison with what is left out
  bool check = false;       // every store reports its place, those that were left out are looked at, too
};

// Of a module, for -mllvm -nvm-log-stats.
struct counts {
  unsigned stores = 0, calls = 0;
  unsigned logged = 0, loops = 0;  // log calls; `loops` of them before a loop
  unsigned volatile_target = 0, fresh = 0, dominated = 0, merged = 0, hoisted = 0;  // left out
};

using unsafe_table = std::map<std::string, unsafe_function>;

// True: the function was changed.
bool log_stores(llvm::Function& f, llvm::FunctionAnalysisManager& analyses, const unsafe_table& table,
                const logging_options& options, counts& n);

}  // namespace nvm::compiler
