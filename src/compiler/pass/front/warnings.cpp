#include "warnings.hpp"

#include <clang/Basic/SourceManager.h>

namespace nvm::compiler {

using namespace clang;

warning_levels& levels_of_front() {
  static warning_levels levels;
  return levels;
}

// Clang maps only its own warnings by what its options say.
DiagnosticBuilder warn(const ASTContext& c, warning_group g, SourceLocation at, const std::string& text) {
  DiagnosticsEngine& d = c.getDiagnostics();
  const warning_level asked = levels_of_front().of(g);
  const bool silent =
      d.getIgnoreAllWarnings() || (d.getSuppressSystemWarnings() && c.getSourceManager().isInSystemHeader(at));
  const bool born_error = g == warning_group::library_type && asked == warning_level::usual;
  DiagnosticIDs::Level level = DiagnosticIDs::Warning;
  if (asked == warning_level::off || (silent && !born_error)) {
    level = DiagnosticIDs::Ignored;
  } else if (born_error || asked == warning_level::error ||
             (asked == warning_level::usual && d.getWarningsAsErrors())) {
    level = DiagnosticIDs::Error;
  }
  const bool made_error = level == DiagnosticIDs::Error && !born_error;
  return d.Report(at, d.getDiagnosticIDs()->getCustomDiagID(level, text + warning_mark(g, made_error)));
}

}  // namespace nvm::compiler
