// Warnings and errors of the pass, with the place of an instruction.
#pragma once

#include <llvm/IR/InstrTypes.h>

#include <string>

#include "compiler/pass/warning_groups.hpp"

namespace nvm::compiler {

[[nodiscard]] bool is_off(warning_group g);
void warn(const llvm::Instruction& i, warning_group g, const std::string& text);
void refuse(const llvm::Instruction& i, const std::string& text);

}  // namespace nvm::compiler
