// Memory that a forked child does not have: before the SIGSEGV that an access there is, a sentence says whose it was.
//
// Signals.  The handler is installed in the child alone, when there is such memory.  It takes itself away and returns,
// so that the access is made again, and the signal goes to whoever had it before.  A handler that the child installs
// later takes its place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::platform {

// In a child, in the handler that runs there after fork().  `name` is copied.
void miss_in_child(const std::byte* at, std::uint64_t bytes, const char* name) noexcept;
// Something else is at these addresses now.
void miss_no_more(const std::byte* at) noexcept;

}  // namespace nvm::platform
