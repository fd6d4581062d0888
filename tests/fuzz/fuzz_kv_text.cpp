// libFuzzer's door to entries as text, CSV and JSON lines: any text is read to its end or refused with a line inside
// it, also by a reader that goes on after each mistake, and accepted entries are the same after being written and read
// again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "cli/kv_text.hpp"

namespace {

using namespace nvm::cli;

// Gives at most `step` bytes at a time.
entry_reader::source pieces(std::string_view text, std::size_t step) {
  return [text, step](char* to, std::size_t room) mutable {
    const std::size_t n = std::min({step, room, text.size()});
    std::memcpy(to, text.data(), n);
    text.remove_prefix(n);
    return n;
  };
}

void require(bool holds) {
  if (!holds) std::abort();
}

void read_all(text_format format, std::string_view text, std::size_t step) {
  const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  std::vector<text_entry> entries;
  std::uint64_t last = 0;
  entry_reader reader{format, pieces(text, step), true};
  for (text_entry e;;) {
    const auto a = reader.next(e);
    if (a == entry_reader::answer::end) break;
    require(reader.line() > last && reader.line() <= lines);
    last = reader.line();
    if (a == entry_reader::answer::problem) {
      require(!reader.problem().empty());
    } else {
      entries.push_back(std::move(e));
      e = {};
    }
  }
  std::string again = text_head(format);
  for (const text_entry& e : entries) again += text_of(format, e.key, e.value);
  entry_reader second{format, pieces(again, 7), true};
  for (const text_entry& wanted : entries) {
    text_entry e;
    require(second.next(e) == entry_reader::answer::entry);
    require(e.key == wanted.key && e.value == wanted.value);
  }
  text_entry none;
  require(second.next(none) == entry_reader::answer::end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  for (const text_format format : {text_format::csv, text_format::json_lines}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{1} << 16}) read_all(format, text, step);
  }
  // Any bytes survive, as key and as value.
  const std::string_view key = text.substr(0, size / 3);
  for (const text_format format : {text_format::csv, text_format::json_lines}) {
    const std::string line = text_head(format) + text_of(format, key, text);
    entry_reader reader{format, pieces(line, 5), true};
    text_entry e;
    require(reader.next(e) == entry_reader::answer::entry && e.key == key && e.value == text);
  }
  const auto bytes = bytes_of_base64(base64_of(text));
  require(bytes && *bytes == text);
  if (const auto own = bytes_of_base64(text)) require(base64_of(*own) == text);
  return 0;
}
