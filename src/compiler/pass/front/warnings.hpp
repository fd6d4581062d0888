// Warnings of the plugins in Clang's front end.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/Basic/Diagnostic.h>

#include <string>

#include "compiler/pass/warning_groups.hpp"

namespace nvm::compiler {

// Levels from the arguments of the plugin nvm, known before any source is read.
[[nodiscard]] warning_levels& levels_of_front();

[[nodiscard]] clang::DiagnosticBuilder warn(const clang::ASTContext& c, warning_group g, clang::SourceLocation at,
                                            const std::string& text);

}  // namespace nvm::compiler
