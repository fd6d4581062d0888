// Changes of a module before its stores are examined.
#pragma once

#include <llvm/IR/Module.h>

#include "function_logger.hpp"

namespace nvm::compiler {

// Replaces each address of a precompiled function that writes by that of a function of ours, which logs and calls it
// (Breeze, section III-D).  It is one function for all modules of a program, so that pointers to it are equal.  A
// variadic function cannot be called like this: a warning. True: an address was replaced.
bool make_safe_wrappers(llvm::Module& m, const unsafe_table& table);

// setjmp: when it returns again, transactions that were begun since are rolled back; if one that was open then has
// ended, the run-time ends the program with the place. True: the module has a setjmp.
bool guard_jumps(llvm::Module& m);

// Checked builds: what a store of a pointer puts into a durable object must be NULL or inside the same pool.  Before
// the optimizer, which forgets what is a pointer.  True: there is such a store.
bool check_pointers(llvm::Function& f);

}  // namespace nvm::compiler
