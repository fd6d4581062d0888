// libFuzzer's door to *.unsafe files: any text is understood or refused with a place inside it, and adds nothing then.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "compiler/pass/log/unsafe_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nvm::compiler;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  std::vector<unsafe_function> functions(1);
  unsafe_error error;
  if (parse_unsafe(text, functions, error)) return 0;
  if (functions.size() != 1 || error.line == 0 || error.column == 0 || error.message.empty()) std::abort();
  // The place exists, or is right after the line.
  unsigned line = 1;
  std::size_t begin = 0;
  for (; line < error.line; ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) std::abort();
    begin = end + 1;
  }
  const std::size_t end = text.find('\n', begin);
  const std::size_t length = (end == std::string_view::npos ? text.size() : end) - begin;
  if (error.column > length + 1) std::abort();
  return 0;
}
