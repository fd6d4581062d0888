// Files of the program, edits of them by place, and the edits as a unified diff.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvm::advisor::rewriter {

// Replaces `bytes` bytes at `offset` by `text`.
struct edit {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::string text;
  auto operator<=>(const edit&) const = default;
};

class source_text {
 public:
  // No value: the file cannot be read.
  [[nodiscard]] static std::optional<source_text> of(const std::string& path);

  [[nodiscard]] const std::string& content() const noexcept { return content_; }
  [[nodiscard]] std::string md5() const;
  // True: `text` stands at `offset`.
  [[nodiscard]] bool has(std::size_t offset, std::string_view text) const noexcept;
  [[nodiscard]] std::size_t line_of(std::size_t offset) const noexcept;  // from 1 on

  // Adds an edit; the same edit twice counts as one. False: it would overlap another.
  [[nodiscard]] bool add(const edit& e);
  [[nodiscard]] bool is_edited_at(std::size_t offset) const { return edits_.contains(offset); }
  [[nodiscard]] bool is_edited() const noexcept { return !edits_.empty(); }
  // Puts `line` where the program's includes begin, unless it is there already.
  void include(std::string_view line);

  // In the form of `diff -u`; empty: nothing changed.
  [[nodiscard]] std::string diff(const std::string& name) const;

 private:
  std::string content_;
  std::vector<std::size_t> line_starts_;
  std::map<std::size_t, edit> edits_;  // by offset
};

}  // namespace nvm::advisor::rewriter
