// Entries of a key-value store as text: CSV by RFC 4180, and JSON lines.
//
// CSV: a header `key,value`, then a record of two fields each.  All bytes are allowed: a field with a comma, a quote or
// the end of a line is quoted, every other is written unchanged. JSON lines: {"key": ..., "value": ...}; bytes that are
// no UTF-8 are "key_base64" or "value_base64" instead.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace nvm::cli {

enum class text_format { csv, json_lines };

struct text_entry {
  std::string key;
  std::string value;
};

[[nodiscard]] std::string base64_of(std::string_view bytes);
// Empty: `text` is no base64 with its padding.
[[nodiscard]] std::optional<std::string> bytes_of_base64(std::string_view text);
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

// Text before the first entry.
[[nodiscard]] std::string text_head(text_format format);
// One entry, with the end of its line.
[[nodiscard]] std::string text_of(text_format format, std::string_view key, std::string_view value);

class entry_reader {
 public:
  // Puts up to `room` bytes at `to`; 0: there are no more; no value: the rest cannot be read.
  using source = std::function<std::optional<std::size_t>(char* to, std::size_t room)>;
  // `has_header`: a first CSV record `key,value` is no entry.
  entry_reader(text_format format, source from, bool has_header)
      : format_{format}, from_{std::move(from)}, has_header_{has_header && format == text_format::csv} {}

  enum class answer { entry, problem, end, unreadable };
  // After a problem the next call continues with the line after the one on which this call began.
  [[nodiscard]] answer next(text_entry& out);
  // The line where the last answer begins; and the text of a problem.
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  // With its end; false: there are no more, or it cannot be read (failed_).
  bool read_line(std::string& line);
  [[nodiscard]] answer wrong(std::string what) {
    problem_ = std::move(what);
    return answer::problem;
  }
  [[nodiscard]] answer next_csv(text_entry& out);
  [[nodiscard]] answer next_json(text_entry& out);

  const text_format format_;
  const source from_;
  bool has_header_;
  bool at_start_ = true;
  std::string buffer_ = std::string(std::size_t{1} << 16, '\0');
  std::size_t filled_ = 0;
  std::size_t used_ = 0;
  bool failed_ = false;
  std::deque<std::string> again_;  // lines read but to be read again
  std::uint64_t lines_ = 0;        // read, without those
  std::uint64_t line_ = 0;
  std::string problem_;
};

}  // namespace nvm::cli
