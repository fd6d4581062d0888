#include "crash_test/pmemcheck.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/bits.hpp"

namespace nvm::crash_test {
namespace {

using explore::event;
using explore::event_kind;

constexpr std::uint64_t store_bytes_max = 64;  // the widest store there is
constexpr std::size_t entries_max = std::size_t{1} << 28;

struct mapping {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t offset;  // of the file
};

class log_reader {
 public:
  log_reader(std::string_view log, std::vector<std::byte> base, std::string_view file, std::uint64_t image_max,
             std::string& problem)
      : log_{log}, wanted_{file}, image_max_{image_max}, problem_{problem} {
    session_.image = std::move(base);
    reach_ = round_up(session_.image.size(), 4096);
  }

  std::optional<recording> run() {
    begin();
    while (at_ < log_.size()) {
      const std::size_t end = std::min(log_.find('|', at_), log_.size());
      std::string_view entry = log_.substr(at_, end - at_);
      // Lines may end anywhere between entries.
      while (!entry.empty() && is_space(entry.front())) {
        if (entry.front() == '\n') ++line_;
        entry.remove_prefix(1);
      }
      const std::size_t first_line = line_;
      line_ += static_cast<std::size_t>(std::count(entry.begin(), entry.end(), '\n'));
      while (!entry.empty() && is_space(entry.back())) entry.remove_suffix(1);
      at_ = end + 1;
      if (entry.empty()) continue;
      if (++number_ > entries_max) return refuse(first_line, "more entries than are taken");
      if (const std::string why = take(entry, first_line); !why.empty()) return refuse(first_line, why);
    }
    if (files_.empty()) return refuse("no REGISTER_FILE: the log does not say where a file was mapped");
    if (session_.path.empty()) {
      return refuse(wanted_.empty() ? "several files are registered: name one"
                                    : "the file that was named is not registered");
    }
    if (session_.stores == 0) return refuse("no store goes to " + session_.path);
    push(event_kind::op_end, 0, 0, 0);
    session_.image.resize(reach_);
    session_.threads = 1;
    session_.faults.assign(session_.trace.events.size(), store_fault::none);
    for (event& e : session_.trace.events) {
      if (e.kind == event_kind::flush) e.payload = std::min(e.payload, reach_ - e.offset);
    }
    all_.events = session_.trace.events.size();
    all_.sessions.push_back(std::move(session_));
    return std::move(all_);
  }

 private:
  static bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  std::optional<recording> refuse(const std::string& why) {
    problem_ = why;
    return std::nullopt;
  }
  std::optional<recording> refuse(std::size_t line, const std::string& why) {
    return refuse("line " + std::to_string(line) + ", entry " + std::to_string(number_) + ": " + why);
  }

  void begin() {
    all_.places.emplace_back().function = "fence";
    place& p = all_.places.back();
    p.site = {p.file.c_str(), p.function.c_str(), 0, 0, NVM_REC_FENCE, 0};
    push(event_kind::op_begin, 0, 0, 0);
  }

  void push(event_kind kind, std::uint64_t offset, std::uint64_t payload, std::uint64_t where) {
    event e{};
    e.kind = kind;
    e.offset = offset;
    e.payload = payload;
    e.place = where;
    session_.trace.events.push_back(e);
  }

  // The next field, up to ';'; false: there is none.
  static bool field(std::string_view& rest, std::string_view& f) {
    if (rest.data() == nullptr) return false;
    const std::size_t end = rest.find(';');
    f = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    return true;
  }
  static std::optional<std::uint64_t> number(std::string_view text) {
    if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
    if (text.empty() || text.size() > 16) return std::nullopt;
    std::uint64_t v = 0;
    for (const char c : text) {
      const int digit = digit_of(c);
      if (digit < 0) return std::nullopt;
      v = v << 4 | static_cast<unsigned>(digit);
    }
    return v;
  }
  static int digit_of(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }
  // Little-endian bytes of a hexadecimal number of any width.
  static bool value(std::string_view text, std::byte* to, std::uint64_t bytes) {
    if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
    if (text.empty()) return false;
    std::memset(to, 0, bytes);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const int digit = digit_of(text[text.size() - 1 - i]);
      if (digit < 0) return false;
      if (i / 2 >= bytes) {
        if (digit != 0) return false;
        continue;
      }
      to[i / 2] |= static_cast<std::byte>(digit << (i % 2 * 4));
    }
    return true;
  }

  // A word in capitals, or the begin or end of a section that the program has named.
  static bool is_marker(std::string_view word) {
    const bool section = word.ends_with(".BEGIN") || word.ends_with(".END");
    return !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
      return (c >= 'A' && c <= 'Z') || c == '_' ||
             (section && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.'));
    });
  }

  std::string take(std::string_view entry, std::size_t line) {
    if (!is_text(entry)) return "a control character in it";
    std::string_view rest = entry;
    std::string_view word;
    (void)field(rest, word);
    if (word == "STORE") return store(rest, line);
    if (word == "FLUSH") return flush(rest);
    if (word == "FENCE") {
      push(event_kind::fence, 0, 0, 0);
      return {};
    }
    if (word == "REGISTER_FILE") return map_file(rest);
    if (is_marker(word)) return {};
    return "expected STORE, FLUSH, FENCE, REGISTER_FILE or a marker";
  }

  std::string map_file(std::string_view rest) {
    std::string_view path, address, size, offset;
    if (!field(rest, path) || !field(rest, address) || !field(rest, size) || !field(rest, offset)) {
      return "REGISTER_FILE wants path, address, size and offset";
    }
    const auto a = number(address);
    const auto n = number(size);
    const auto o = number(offset);
    if (path.empty() || !a || !n || !o) return "REGISTER_FILE: a number is not hexadecimal, or the path is empty";
    if (*n == 0 || !checked_add(*a, *n) || !checked_add(*o, *n) || *o % 8 != 0 || *a % 8 != 0) {
      return "REGISTER_FILE: no such range of addresses";
    }
    const std::string name{path};
    if (std::find(files_.begin(), files_.end(), name) == files_.end()) files_.push_back(name);
    if (wanted_.empty() ? files_.size() > 1 : name != wanted_) {
      if (wanted_.empty()) session_.path.clear();
      return {};
    }
    session_.path = name;
    // A new mapping takes the place of older ones there.
    std::erase_if(mappings_, [&](const mapping& m) { return m.address < *a + *n && *a < m.address + m.bytes; });
    mappings_.push_back({*a, *n, *o});
    return {};
  }

  // Offset in the file of a range of addresses; no value: the range is outside of the file.
  std::optional<std::uint64_t> offset_of(std::uint64_t address, std::uint64_t bytes) const {
    for (const mapping& m : mappings_) {
      if (range_inside(address - m.address, bytes, m.bytes)) return m.offset + (address - m.address);
    }
    return std::nullopt;
  }

  bool reach(std::uint64_t offset, std::uint64_t bytes) {
    if (!range_inside(offset, bytes, image_max_)) return false;
    reach_ = std::max(reach_, round_up(offset + bytes, 4096));
    if (mirror_.size() < reach_) {
      const std::size_t known = mirror_.size();
      mirror_.resize(std::max<std::size_t>(reach_, mirror_.size() * 2));
      if (known < session_.image.size()) {
        std::copy(session_.image.begin() + static_cast<std::ptrdiff_t>(known), session_.image.end(),
                  mirror_.begin() + static_cast<std::ptrdiff_t>(known));
      }
    }
    return true;
  }

  std::string store(std::string_view rest, std::size_t line) {
    std::string_view address, content, size;
    if (!field(rest, address) || !field(rest, content) || !field(rest, size)) {
      return "STORE wants address, value and size";
    }
    const auto a = number(address);
    const auto n = number(size);
    if (!a || !n) return "STORE: a number is not hexadecimal";
    if (*n == 0 || *n > store_bytes_max) {
      return "STORE: size is " + std::to_string(*n) + ", expected 1 to " + std::to_string(store_bytes_max);
    }
    std::byte bytes[store_bytes_max];
    if (!value(content, bytes, *n)) return "STORE: the value is no hexadecimal number of that size";
    const auto offset = offset_of(*a, *n);
    if (!offset) return {};
    if (!reach(*offset, *n)) return "STORE: beyond the first " + std::to_string(image_max_) + " bytes of the file";
    std::memcpy(mirror_.data() + *offset, bytes, *n);
    const std::uint64_t first = round_down(*offset, 8);
    const std::uint64_t span = round_up(*offset + *n, 8) - first;
    std::uint64_t words[store_bytes_max / 8 + 1];
    std::memcpy(words, mirror_.data() + first, span);
    append_store(session_.trace, *offset, static_cast<std::uint32_t>(*n), words, site_of(rest, line), 0);
    ++session_.stores;
    return {};
  }

  // With a stack trace, its innermost frame; otherwise the entry.
  const nvm_rec_site* site_of(std::string_view frames, std::size_t line) {
    std::string_view innermost;
    std::string text;
    if (field(frames, innermost) && !innermost.empty()) {
      text = innermost;
    } else {
      text = "log entry " + std::to_string(number_) + ", line " + std::to_string(line);
    }
    const auto [known, fresh] = sites_.try_emplace(text, nullptr);
    if (fresh) {
      place& p = all_.places.emplace_back();
      p.function = text;
      p.site = {p.file.c_str(), p.function.c_str(), 0, 0, NVM_REC_PLAIN, 0};
      known->second = &p.site;
    }
    return known->second;
  }

  std::string flush(std::string_view rest) {
    std::string_view address, size;
    if (!field(rest, address) || !field(rest, size)) return "FLUSH wants address and size";
    const auto a = number(address);
    const auto n = number(size);
    if (!a || !n) return "FLUSH: a number is not hexadecimal";
    if (*n == 0) return {};
    const auto offset = offset_of(*a, 1);
    if (!offset) return {};
    if (!reach(*offset, 1)) return "FLUSH: beyond the first " + std::to_string(image_max_) + " bytes of the file";
    push(event_kind::flush, *offset, std::min(*n, image_max_), 0);
    return {};
  }

  std::string_view log_;
  std::string_view wanted_;
  std::uint64_t image_max_;
  std::string& problem_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t number_ = 0;  // of entries
  std::vector<std::string> files_;
  std::vector<mapping> mappings_;
  std::vector<std::byte> mirror_;  // the file after the entries so far
  std::uint64_t reach_ = 0;
  std::map<std::string, const nvm_rec_site*> sites_;
  session session_;
  recording all_;
};

}  // namespace

std::optional<recording> read_pmemcheck(std::string_view log, std::vector<std::byte> base, std::string_view file,
                                        std::string& problem, std::uint64_t image_max) {
  if (base.size() > image_max) {
    problem = "the image has " + std::to_string(base.size()) + " bytes, expected at most " + std::to_string(image_max);
    return std::nullopt;
  }
  return log_reader{log, std::move(base), file, image_max, problem}.run();
}

}  // namespace nvm::crash_test
