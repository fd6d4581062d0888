// Reports of checked builds: with the place in the sources, once for each, and those that a file suppresses.
#pragma once

#include "nvm/compiled.h"

namespace nvm::checked {

// By these names suppressions know reports.
enum class kind { unlogged, outside, pointer, lock, unknown, shared };

// Prints a finding at this place and ends the process; with NVM_CHECK=report it prints once for each place and returns.
// One that is suppressed there is passed over.
[[gnu::format(printf, 3, 4)]] void found(kind what, const nvm_site* site, const char* format, ...);
// The same for a finding that has another place: a suppression of either counts.
void found_twice(kind what, const nvm_site* site, const nvm_site* other, const char* text);

}  // namespace nvm::checked
