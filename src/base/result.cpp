#include "base/result.hpp"

#include <cerrno>
#include <cstdio>

namespace nvm {
namespace {
struct failure {
  errc code = errc::ok;
  char message[512] = "no error";
};
thread_local failure last;
}  // namespace

errc fail(errc code, const char* format, ...) noexcept {
  const int saved = errno;  // the caller's reason; formatting may change it
  char text[sizeof last.message];
  std::va_list arguments;
  va_start(arguments, format);
  // Built aside: the arguments may contain the previous message.
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::snprintf(last.message, sizeof last.message, "%s", text);
  last.code = code;
  errno = saved;
  return code;
}

const char* last_message() noexcept { return last.message; }
errc last_code() noexcept { return last.code; }

}  // namespace nvm
