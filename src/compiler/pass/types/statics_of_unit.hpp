// The functions and static objects of a translation unit whose address its code hands on: what a pointer into the
// program may lead to (NVM_STATIC_PTR), by the names that the next build of the program has for them.
#pragma once

#include <llvm/IR/Module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nvm::compiler {

struct named_static {
  std::string name;
  llvm::GlobalValue* what;
  std::uint64_t bytes;
};

// Whether a type map (types_section) has a field that is a static pointer.
[[nodiscard]] bool has_static_pointers(const llvm::GlobalVariable& map);
// Those with external linkage by their names, those without as "file.c:name", texts as what they say in quotes.
[[nodiscard]] std::vector<named_static> statics_of(llvm::Module& m);
// A constant array of nvm_static_object (nvm/static.h).
[[nodiscard]] llvm::GlobalVariable& table_of(llvm::Module& m, const std::vector<named_static>& statics);

}  // namespace nvm::compiler
