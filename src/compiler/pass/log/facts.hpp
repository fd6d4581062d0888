// Facts about addresses and functions that need no view of the whole program.
#pragma once

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include <string>

namespace nvm::compiler {

// A function of the durable heap's interface: it logs for itself, and may begin and end transactions.  A function that
// the program defines does not count, even with such a name.
[[nodiscard]] bool is_heap_function(const llvm::Function& f);
// Whether after such a function the same transaction is open at the same level, with the same bytes logged.
[[nodiscard]] bool leaves_transactions_alone(llvm::StringRef name);
// A module may come to the pass twice: as a .bc file that is compiled again, or before and while it is linked.  An
// attribute of a function says that it has been processed.
inline constexpr const char* logged_already = "nvm-logged";
inline constexpr const char* pointers_checked_already = "nvm-pointers-checked";

// setjmp() and its kin: they return again when longjmp() is called.
[[nodiscard]] bool is_jump_target(const llvm::CallBase& c);
// The called function, also if the call's type differs from its own, as without a prototype. nullptr: a call through a
// pointer.
[[nodiscard]] llvm::Function* function_of(const llvm::CallBase& c);
// Declared by a system header, hence not compiled with the pass (pass/front/system_functions.cpp marks them).
[[nodiscard]] bool is_system_function(const llvm::Function& f);
// Declared only by the program, and unknown to the compiler: it may be the program's own.
[[nodiscard]] bool is_program_function(const llvm::Function& f);
// Its code is not compiled here, or is assembly.
[[nodiscard]] bool comes_compiled(const llvm::Function& f);
// A naked function, or one that assembly outside of functions defines: log_pass.cpp marks those.
[[nodiscard]] bool is_assembly(const llvm::Function& f);
inline constexpr const char* assembly_mark = "nvm-assembly";
// The parameter is declared, in a system header, as a pointer to data that the function does not change.
[[nodiscard]] bool only_reads(const llvm::Function& f, unsigned parameter);

// Relative to a segment register, or of 32 bits: no pool lies there.
[[nodiscard]] bool is_elsewhere(const llvm::Value* address);
// Every object that the address can belong to is a variable, or fresh from malloc and its kin.
[[nodiscard]] bool is_volatile(const llvm::Value* address, const llvm::TargetLibraryInfo& libc);
// The bytes there are all of a field that is NVM_STALE_OK or NVM_RESET (nvm/malloc.h): Clang marks each access.
enum class unlogged_field { none, stale_ok, reset };
[[nodiscard]] unlogged_field unlogged_field_at(const llvm::Value* address, std::uint64_t bytes);
// The optimizer takes Clang's mark of an address for the address itself, in loops above all, and goes on without it.
// So stores to such fields are marked themselves before it begins; what it makes of several stores has no mark.
void mark_unlogged_stores(llvm::Function& f);
// As unlogged_field_at(), of an instruction that stores there.
[[nodiscard]] unlogged_field unlogged_field_of(const llvm::Instruction& store, const llvm::Value* address,
                                               std::uint64_t bytes);
// The address is of an object that nvm_alloc and its kin, or nvm_pool_get_root, returned in this function.
[[nodiscard]] bool is_durable(const llvm::Value* address);
// The address is of a variable that such an address was stored into, in this function.
[[nodiscard]] bool holds_durable(const llvm::Value* address);
[[nodiscard]] bool any_durable_argument(const llvm::CallBase& c);
// Bytes of a fresh object: 0 if `c` is no allocation in a pool, or one whose size is not known here.
[[nodiscard]] std::uint64_t fresh_bytes(const llvm::CallBase& c);

// A constant nvm_site (nvm/compiled.h): the place in the sources of `i`.
[[nodiscard]] llvm::Constant* site_of(const llvm::Instruction& i);

}  // namespace nvm::compiler
