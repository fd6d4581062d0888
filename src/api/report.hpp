// The answer of a call to its C caller after a failure.
#pragma once

#include <cerrno>
#include <cstring>

#include "base/result.hpp"

namespace nvm::api {

// Translates a failure for the C caller: remembers code and message for nvm_errno() and returns -1.
int report(errc code) noexcept;
// The failure of a call that runs hooks before it returns: they are told of it, and may fail in calls of their own.
class reported {
 public:
  explicit reported(errc code) noexcept;
  // -1
  int again() const noexcept;

 private:
  errc code_, cause_;
  char message_[failure_text_bytes];
};
template <class T>
T* report_null(errc code) noexcept {
  report(code);
  return nullptr;
}
// The current failure, of a call about this file: named, unless its message has the name already.  errno stays.
inline errc about(const char* path, errc code) noexcept {
  const int cause = errno;
  if (std::strstr(last_message(), path) == nullptr) fail(code, "pool %s: %s", path, last_message());
  errno = cause;
  return code;
}
inline int answer(const status& s) noexcept { return s ? 0 : report(s.error()); }

}  // namespace nvm::api
