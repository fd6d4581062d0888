// Which stores of one function are logged, and the code that logs them.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/PassManager.h>

#include <map>
#include <string>

#include "unsafe_file.hpp"

namespace nvm::compiler {

// Mistakes that can be planted, for the test that has to find them (tests/holdfast_cc/random).
enum class planted_mistake {
  none,
  calls_keep_logs,         // ranges logged before a call count as logged after any call
  one_way_is_enough,       // ranges logged on one way to a block count as logged there
  short_loops,             // the range before a loop lacks the last turn
  late_merges,             // stores that share a log call share the last one's
  variables_win,           // an address that may belong to a variable counts as volatile
  fresh_for_ever,          // an object stays fresh after any call
  library_calls_forgotten  // calls of precompiled functions are not logged for
};

struct logging_options {
  bool everything = false;  // log every store, for comparison
  planted_mistake plant = planted_mistake::none;
  bool check = false;  // every store reports its place; stores without a log call are checked, too
};

// Of a module, for -mllvm -nvm-log-stats.
struct counts {
  unsigned stores = 0, calls = 0;
  unsigned logged = 0, loops = 0;  // log calls; `loops` of them before a loop
  unsigned volatile_target = 0, fresh = 0, dominated = 0, merged = 0, hoisted = 0, batched = 0, stale = 0;  // left out
};

using unsafe_table = std::map<std::string, unsafe_function>;

// True: the function was changed.
bool log_stores(llvm::Function& f, llvm::FunctionAnalysisManager& analyses, const unsafe_table& table,
                const logging_options& options, counts& n);

}  // namespace nvm::compiler
