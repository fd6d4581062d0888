#include "advisor/rewriter/sources.hpp"

#include <llvm/ADT/SmallString.h>
#include <llvm/Support/MD5.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace nvm::advisor::rewriter {
namespace {

constexpr std::size_t context = 3;  // lines around a change

// Lines [first, last) of the old text, and what takes their place.
struct change {
  std::size_t first, last;
  std::vector<std::string> lines;
};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t bytes = end == std::string_view::npos ? text.size() : end + 1;
    all.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return all;
}

void print(std::string& to, char sign, std::string_view line) {
  to += sign;
  to += line;
  if (!line.ends_with('\n')) to += "\n\\ No newline at end of file\n";
}

}  // namespace

std::optional<source_text> source_text::of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in) return std::nullopt;
  source_text s;
  s.content_.assign(std::istreambuf_iterator<char>{in}, {});
  s.line_starts_.push_back(0);
  for (std::size_t k = 0; k + 1 < s.content_.size(); ++k) {
    if (s.content_[k] == '\n') s.line_starts_.push_back(k + 1);
  }
  return s;
}

std::string source_text::md5() const {
  llvm::MD5 sum;
  sum.update(content_);
  llvm::MD5::MD5Result result;
  sum.final(result);
  return std::string{result.digest().str()};
}

bool source_text::has(std::size_t offset, std::string_view text) const noexcept {
  return offset <= content_.size() && std::string_view{content_}.substr(offset).starts_with(text);
}

std::size_t source_text::line_of(std::size_t offset) const noexcept {
  return static_cast<std::size_t>(std::ranges::upper_bound(line_starts_, offset) - line_starts_.begin());
}

bool source_text::add(const edit& e) {
  const auto at = edits_.find(e.offset);
  if (at != edits_.end()) {
    if (at->second == e) return true;
    // An insertion just before replaced text: both begin at one place.
    if (at->second.bytes != 0 && e.bytes != 0) return false;
    const bool first = e.bytes == 0;
    at->second = {e.offset, std::max(e.bytes, at->second.bytes),
                  first ? e.text + at->second.text : at->second.text + e.text};
    return true;
  }
  const auto next = edits_.lower_bound(e.offset);
  if (next != edits_.end() && e.offset + e.bytes > next->first) return false;
  if (next != edits_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > e.offset) return false;
  edits_.emplace(e.offset, e);
  return true;
}

// Puts the line before the first include outside of any condition; in a file without one, at its beginning.
void source_text::include(std::string_view line) {
  if (content_.find(line) != std::string::npos) return;
  std::size_t depth = 0;
  std::size_t at = 0;
  for (const std::size_t start : line_starts_) {
    std::string_view rest = std::string_view{content_}.substr(start);
    rest = rest.substr(0, rest.find('\n'));
    const std::size_t hash = rest.find_first_not_of(" \t");
    if (hash == std::string_view::npos || rest[hash] != '#') continue;
    rest.remove_prefix(hash + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (rest.starts_with("if")) ++depth;
    if (rest.starts_with("endif") && depth != 0) --depth;
    if (rest.starts_with("include") && depth == 0) {
      at = start;
      break;
    }
  }
  (void)add({at, 0, std::string{line} + "\n"});
}

std::string source_text::diff(const std::string& name) const {
  const std::vector<std::string> old = lines_of(content_);
  std::vector<change> changes;
  for (const auto& [offset, e] : edits_) {
    const bool before_a_line =
        e.bytes == 0 && e.text.ends_with('\n') && std::ranges::binary_search(line_starts_, offset);
    const std::size_t first = line_of(offset) - 1;
    const std::size_t last = before_a_line ? first : line_of(offset + std::max<std::size_t>(e.bytes, 1) - 1);
    // An insertion of lines stands by itself after a change, and joins one that follows it.
    const bool touches = !changes.empty() && first == changes.back().last && last > first;
    if (touches || (!changes.empty() && first < changes.back().last)) {
      changes.back().last = std::max(changes.back().last, last);
      continue;
    }
    changes.push_back({first, last, {}});
  }
  const auto offset_of = [&](std::size_t line) {
    return line < line_starts_.size() ? line_starts_[line] : content_.size();
  };
  for (change& c : changes) {
    std::string text;
    std::size_t at = offset_of(c.first);
    const std::size_t end = offset_of(c.last);
    for (auto e = edits_.lower_bound(at); e != edits_.end() && (e->first < end || (e->first == end && at == end));
         ++e) {
      text.append(content_, at, e->first - at);
      text += e->second.text;
      at = e->first + e->second.bytes;
      if (c.first == c.last) break;
    }
    text.append(content_, at, end - at);
    c.lines = lines_of(text);
  }

  std::string out;
  std::ptrdiff_t shift = 0;
  for (std::size_t k = 0; k < changes.size();) {
    std::size_t end = k + 1;
    while (end < changes.size() && changes[end].first <= changes[end - 1].last + 2 * context) ++end;
    const std::size_t from = changes[k].first > context ? changes[k].first - context : 0;
    const std::size_t to = std::min(changes[end - 1].last + context, old.size());
    std::string hunk;
    std::size_t at = from;
    std::ptrdiff_t grown = 0;
    for (; k < end; ++k) {
      for (; at < changes[k].first; ++at) print(hunk, ' ', old[at]);
      for (; at < changes[k].last; ++at) print(hunk, '-', old[at]);
      for (const std::string& l : changes[k].lines) print(hunk, '+', l);
      grown += static_cast<std::ptrdiff_t>(changes[k].lines.size()) -
               static_cast<std::ptrdiff_t>(changes[k].last - changes[k].first);
    }
    for (; at < to; ++at) print(hunk, ' ', old[at]);
    const auto lines = static_cast<std::ptrdiff_t>(to - from);
    const auto start = static_cast<std::ptrdiff_t>(from) + 1;
    out += "@@ -" + std::to_string(lines == 0 ? start - 1 : start) + "," + std::to_string(lines) + " +" +
           std::to_string(start + shift) + "," + std::to_string(lines + grown) + " @@\n" + hunk;
    shift += grown;
  }
  return out.empty() ? out : "--- a/" + name + "\n+++ b/" + name + "\n" + out;
}

}  // namespace nvm::advisor::rewriter
