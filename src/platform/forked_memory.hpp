// Memory that a forked child does not have: before the SIGSEGV of an access, a message says whose memory it was.
//
// Signals.  The handler is installed only in the child, and only if there is such memory. It removes itself and
// returns, so that the access is repeated, and the signal goes to its earlier handler.  A handler that the child
// installs later takes its place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::platform {

// In a child, in the handler that runs there after fork().  `name` is copied.
void miss_in_child(const std::byte* at, std::uint64_t bytes, const char* name) noexcept;
// These addresses have another use now: no message for them.
void miss_no_more(const std::byte* at) noexcept;

}  // namespace nvm::platform
