// Contents of assembly outside of functions.
#pragma once

#include <llvm/ADT/StringRef.h>

#include <string>
#include <vector>

namespace nvm::compiler {

struct assembly_text {
  bool has_code = false;            // an instruction, or data where instructions are
  std::vector<std::string> labels;  // local ones, too
};
[[nodiscard]] assembly_text read_assembly(llvm::StringRef text);

}  // namespace nvm::compiler
