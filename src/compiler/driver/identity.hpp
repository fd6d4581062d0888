// Identity of this Holdfast.
#pragma once

namespace nvm::compiler::driver {

// A digest of all that the compiler loads (written by identity.cmake). With it the driver's file changes whenever the
// pass changes: compiler caches recognise a compiler by its file.
extern const char pass_identity[];

}  // namespace nvm::compiler::driver
