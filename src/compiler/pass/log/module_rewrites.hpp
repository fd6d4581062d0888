// What is changed in a module before its stores are looked at.
#pragma once

#include <llvm/IR/Module.h>

#include "function_logger.hpp"

namespace nvm::compiler {

// Where the address of a precompiled function that writes is taken, that of a function of ours takes its place, which
// calls it: the log calls stand there (Breeze, section III-D).  It is one function for all modules of a program, so
// that pointers to it are equal.  A variadic function cannot be called so: a warning.  True: something was replaced.
bool make_safe_wrappers(llvm::Module& m, const unsafe_table& table);

// setjmp: when it returns again, transactions that were begun since are rolled back; if one has ended that was open,
// the run-time ends the program with the place.  True: there is one.
bool guard_jumps(llvm::Module& m);

// Checked builds: what a store of a pointer puts into a durable object must be NULL or inside the same pool.  Before
// the optimizer, which forgets what is a pointer.  True: there is such a store.
bool check_pointers(llvm::Function& f);

}  // namespace nvm::compiler
