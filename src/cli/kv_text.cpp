#include "cli/kv_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "nvm/kv.h"

namespace nvm::cli {
namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The fields of a CSV record, fed line by line.
class csv_record {
 public:
  // Takes a whole line with its end; returns the fault, or an empty text.
  std::string feed(std::string_view line) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const bool ends = c == '\n' || (c == '\r' && (i + 1 == line.size() || line[i + 1] == '\n'));
      switch (state_) {
        case state::field_begins:
          if (c == '"') {
            state_ = state::quoted;
            continue;
          }
          state_ = state::plain;
          [[fallthrough]];
        case state::plain:
          if (ends) return end_line(), std::string{};
          if (c == ',') {
            end_field();
          } else if (c == '"') {
            return "a quote inside a field that does not begin with one";
          } else if (c == '\r') {
            return "a carriage return outside of quotes";
          } else {
            fields_.back() += c;
          }
          break;
        case state::quoted:
          if (c == '"') {
            state_ = state::quote_in_quoted;
          } else {
            fields_.back() += c;
          }
          break;
        case state::quote_in_quoted:
          if (ends) return end_line(), std::string{};
          if (c == '"') {
            fields_.back() += c;
            state_ = state::quoted;
          } else if (c == ',') {
            end_field();
          } else {
            return "something between a closing quote and the end of the field";
          }
          break;
      }
      if (fields_.size() > 3) return "more than two fields";
      const std::size_t most = fields_.size() == 1 ? NVM_KV_KEY_MAX : NVM_KV_VALUE_MAX;
      if (fields_.back().size() > most) {
        return fmt::format("a {} of more than {} bytes", fields_.size() == 1 ? "key" : "value", most);
      }
    }
    return {};
  }
  // No more lines come; the last one may have had no end.
  void end() {
    if (state_ != state::quoted && !ended_) end_field();
  }
  [[nodiscard]] bool open() const noexcept { return state_ == state::quoted; }
  // After the last one is an empty one, which has not begun.
  [[nodiscard]] std::size_t fields() const noexcept { return fields_.size() - 1; }
  [[nodiscard]] std::string& field(std::size_t i) noexcept { return fields_[i]; }

 private:
  enum class state { field_begins, plain, quoted, quote_in_quoted };
  void end_field() {
    fields_.emplace_back();
    state_ = state::field_begins;
  }
  void end_line() {
    end_field();
    ended_ = true;
  }
  bool ended_ = false;
  state state_ = state::field_begins;
  std::vector<std::string> fields_{1};
};

bool is_blank(std::string_view line) noexcept { return line.find_first_not_of("\r\n") == std::string_view::npos; }

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // that some programs put before the first line

std::string csv_field(std::string_view bytes) {
  const bool plain = bytes.find_first_of(",\"\r\n") == std::string_view::npos;
  if (plain && !bytes.starts_with(byte_order_mark)) return std::string{bytes};
  std::string text = "\"";
  for (const char c : bytes) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

void add_member(nlohmann::ordered_json& o, const std::string& name, std::string_view bytes) {
  if (is_utf8(bytes)) {
    o[name] = bytes;
  } else {
    o[name + "_base64"] = base64_of(bytes);
  }
}

// Takes `name` or `name`_base64 out of a JSON object; returns the fault, if any.
std::string take_member(nlohmann::ordered_json& o, const std::string& name, std::string& out) {
  const std::string coded = name + "_base64";
  const bool plain = o.contains(name);
  if (plain == o.contains(coded)) return fmt::format("expected either \"{}\" or \"{}\"", name, coded);
  nlohmann::ordered_json& member = o[plain ? name : coded];
  if (!member.is_string()) return fmt::format("\"{}\" is no string", plain ? name : coded);
  out = member.get<std::string>();
  if (!plain) {
    auto bytes = bytes_of_base64(out);
    if (!bytes) return fmt::format("\"{}\" is no base64", coded);
    out = std::move(*bytes);
  }
  o.erase(plain ? name : coded);
  return {};
}

std::string limits(const text_entry& e) {
  if (e.key.size() > NVM_KV_KEY_MAX) {
    return fmt::format("a key of {} bytes: at most {}", e.key.size(), NVM_KV_KEY_MAX);
  }
  if (e.value.size() > NVM_KV_VALUE_MAX) {
    return fmt::format("a value of {} bytes: at most {}", e.value.size(), NVM_KV_VALUE_MAX);
  }
  return {};
}

}  // namespace

std::string base64_of(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= n ? digits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    std::size_t n = 4;
    while (last && n > 2 && text[i + n - 1] == '=') --n;
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t digit = k < n ? digits.find(text[i + k]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      word = word << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t k = 0; k + 1 < n; ++k) bytes += static_cast<char>(word >> (16 - 8 * k));
    // Bits that belong to no byte must be zero: so the same bytes have one text.
    if (n < 4 && (word & (n == 2 ? 0xFFFFU : 0xFFU)) != 0) return std::nullopt;
  }
  return bytes;
}

bool is_utf8(std::string_view bytes) noexcept {
  const auto at = [&](std::size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U; };
  for (std::size_t i = 0; i < bytes.size();) {
    const unsigned first = at(i);
    std::size_t more = 0;
    if (first >= 0xC2 && first <= 0xDF) more = 1;
    if (first >= 0xE0 && first <= 0xEF) more = 2;
    if (first >= 0xF0 && first <= 0xF4) more = 3;
    if (first >= 0x80 && more == 0) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((at(i + k) & 0xC0) != 0x80) return false;
    }
    // Too long forms, surrogates, and numbers beyond the last character.
    if ((first == 0xE0 && at(i + 1) < 0xA0) || (first == 0xED && at(i + 1) > 0x9F) ||
        (first == 0xF0 && at(i + 1) < 0x90) || (first == 0xF4 && at(i + 1) > 0x8F)) {
      return false;
    }
    i += 1 + more;
  }
  return true;
}

std::string text_head(text_format format) { return format == text_format::csv ? "key,value\n" : ""; }

std::string text_of(text_format format, std::string_view key, std::string_view value) {
  if (format == text_format::csv) {
    std::string line = csv_field(key) + ',' + csv_field(value) + '\n';
    return line;
  }
  nlohmann::ordered_json o;
  add_member(o, "key", key);
  add_member(o, "value", value);
  return o.dump() + '\n';
}

bool entry_reader::read_line(std::string& line) {
  line.clear();
  if (!again_.empty()) {
    line = std::move(again_.front());
    again_.pop_front();
    ++lines_;
    return true;
  }
  for (;;) {
    const std::string_view here{buffer_.data() + used_, filled_ - used_};
    if (const std::size_t end = here.find('\n'); end != std::string_view::npos) {
      line.append(here.substr(0, end + 1));
      used_ += end + 1;
      break;
    }
    line.append(here);
    used_ = 0;
    const auto more = from_(buffer_.data(), buffer_.size());
    filled_ = more.value_or(0);
    failed_ = !more;
    if (filled_ == 0) {
      // What comes before a failure may be the half of a line.
      if (line.empty() || failed_) return false;
      break;
    }
  }
  ++lines_;
  return true;
}

entry_reader::answer entry_reader::next(text_entry& out) {
  for (;;) {
    const answer a = format_ == text_format::csv ? next_csv(out) : next_json(out);
    const bool header = has_header_ && a == answer::entry && out.key == "key" && out.value == "value";
    has_header_ = false;
    if (!header) return a;
  }
}

entry_reader::answer entry_reader::next_csv(text_entry& out) {
  std::string line;
  do {
    if (!read_line(line)) return failed_ ? answer::unreadable : answer::end;
    if (at_start_ && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    at_start_ = false;
  } while (is_blank(line));
  line_ = lines_;
  csv_record record;
  std::string what = record.feed(line);
  std::deque<std::string> others;
  while (what.empty() && record.open()) {
    if (!read_line(line)) {
      if (failed_) return answer::unreadable;
      what = "a quoted field that does not end";
      break;
    }
    what = record.feed(line);
    others.push_back(std::move(line));
  }
  if (what.empty()) record.end();
  if (what.empty() && record.fields() != 2) {
    what = fmt::format("{} field{}, expected two", record.fields(), record.fields() == 1 ? "" : "s");
  }
  if (!what.empty()) {
    lines_ -= others.size();
    for (; !others.empty(); others.pop_back()) again_.push_front(std::move(others.back()));
    return wrong(std::move(what));
  }
  out.key = std::move(record.field(0));
  out.value = std::move(record.field(1));
  return answer::entry;
}

entry_reader::answer entry_reader::next_json(text_entry& out) {
  std::string line;
  do {
    if (!read_line(line)) return failed_ ? answer::unreadable : answer::end;
  } while (is_blank(line));
  line_ = lines_;
  nlohmann::ordered_json o;
  // The library keeps the last member of a name, without a word.
  std::vector<std::string> names;
  std::string repeated;
  const auto note = [&](int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& name) {
    if (depth != 1 || event != nlohmann::ordered_json::parse_event_t::key) return true;
    auto& text = name.get_ref<const std::string&>();
    if (std::find(names.begin(), names.end(), text) != names.end()) repeated = text;
    if (names.size() < 8) names.push_back(text);  // of more, some are unknown
    return true;
  };
  try {
    o = nlohmann::ordered_json::parse(line, note);
  } catch (const nlohmann::json::exception& e) {
    // After the library's own name of the error.
    const std::string_view text = e.what();
    const std::size_t at = text.find("] ");
    return wrong(fmt::format("no JSON: {}", at == std::string_view::npos ? text : text.substr(at + 2)));
  }
  if (!o.is_object()) return wrong("no JSON object");
  if (!repeated.empty()) return wrong(fmt::format("two members \"{}\"", repeated));
  std::string what = take_member(o, "key", out.key);
  if (what.empty()) what = take_member(o, "value", out.value);
  if (what.empty() && !o.empty()) what = fmt::format("unknown member \"{}\"", o.begin().key());
  if (what.empty()) what = limits(out);
  return what.empty() ? answer::entry : wrong(std::move(what));
}

}  // namespace nvm::cli
