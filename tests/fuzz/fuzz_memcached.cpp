// libFuzzer's door to the server's protocol: any bytes, in any pieces, are answered without a fault, and alike in which
// pieces they come. The first byte chooses the pieces.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "conversation.hpp"

namespace {

using namespace nvm::server;

std::string answer(std::string_view text, std::size_t piece) {
  settings s;
  s.item_bytes_max = 4096;
  s.memory_bytes = 32768;
  // The clock stands still, whatever the bytes tell it: or two runs of the same bytes could differ.
  conversation say{s, 1'800'000'000};
  std::string replies;
  while (!text.empty() && !say.ended) {
    const std::size_t n = std::min(piece, text.size());
    replies += say(text.substr(0, n));
    text.remove_prefix(n);
  }
  return replies;
}

// What tells of the process itself is not alike twice.
bool tells_of_itself(std::string_view replies) { return replies.find("STAT ") != std::string_view::npos; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  const std::string whole = answer(text, text.size() + 1);
  const std::string pieces = answer(text, std::size_t{data[0]} % 64 + 1);
  // A line that is too long is given up before its end when it comes in pieces.
  const bool long_line = text.size() > line_bytes_max;
  if (long_line || tells_of_itself(whole) || whole == pieces) return 0;
  const auto differ = std::mismatch(whole.begin(), whole.end(), pieces.begin(), pieces.end());
  const auto shown = [](const std::string& replies, auto at) {
    return replies.substr(static_cast<std::size_t>(at - replies.begin()), 200);
  };
  std::fprintf(stderr, "after %td bytes that are alike\n-- at once: %s\n-- in pieces: %s\n",
               differ.first - whole.begin(), shown(whole, differ.first).c_str(), shown(pieces, differ.second).c_str());
  std::abort();
}
