// Which Holdfast this is.
#pragma once

namespace nvm::compiler::driver {

// A digest of all that the compiler loads (written by identity.cmake).  It makes the driver another file when the pass
// becomes another, and compiler caches recognise a compiler by its file.
extern const char pass_identity[];

}  // namespace nvm::compiler::driver
