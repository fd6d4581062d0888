// NVM_ASSERT states what only a bug of ours could break; it stays on in release builds, because a wrong metadata store
// is worse than an abort. Bytes that were read from a medium are never asserted: they get an `if` and errc::corrupt.
#pragma once

namespace nvm {
[[noreturn, gnu::cold]] void assertion_failed(const char* condition, const char* file, int line) noexcept;
}

#define NVM_ASSERT(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::nvm::assertion_failed(#condition, __FILE__, __LINE__))
