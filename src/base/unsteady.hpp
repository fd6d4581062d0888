// Copy of memory that another thread may be changing meanwhile.
#pragma once

#include <cstddef>

namespace nvm {

// The copy may mix bytes of different times: the caller looks at the memory again, in a way that tells whether the
// copy was right.  The thread sanitizer is not told of these reads.
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) inline void copy_unsteady(void* to, const void* from,
                                                                                   std::size_t bytes) noexcept {
  auto* const out = static_cast<volatile unsigned char*>(to);
  const auto* const in = static_cast<const volatile unsigned char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = in[i];
}

}  // namespace nvm
