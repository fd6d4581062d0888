#include "reports.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nvm::checked {
namespace {

// C programs link this, hence nothing of the C++ library.
bool only_reports() {
  static constinit std::atomic<int> answer{-1};
  int known = answer.load(std::memory_order_relaxed);
  if (known < 0) {
    const char* said = std::getenv("NVM_CHECK");
    known = said != nullptr && std::strcmp(said, "report") == 0 ? 1 : 0;
    answer.store(known, std::memory_order_relaxed);
  }
  return known == 1;
}

// False if this place has been reported already; with a full table, many places are reported once more.
bool found_at(const nvm_site* site) {
  if (!only_reports()) return true;
  constexpr std::size_t places = 4096;
  static constinit std::atomic<const nvm_site*> reported[places] = {};
  for (std::size_t k = reinterpret_cast<std::uintptr_t>(site) / sizeof *site, tries = 0; tries < 64; ++k, ++tries) {
    const nvm_site* known = nullptr;
    if (reported[k % places].compare_exchange_strong(known, site, std::memory_order_relaxed)) return true;
    if (known == site) return false;
  }
  return true;
}

// ---- suppressions ----

constexpr const char* names[] = {"unlogged", "outside", "pointer", "lock", "unknown", "shared"};

struct suppression {
  suppression* next;
  int what;        // kind; -1: any
  char pattern[];  // with its 0
};

// `line` 0: of the whole file.
[[noreturn]] void refuse(const char* file, unsigned line, const char* why) {
  if (line != 0) {
    std::fprintf(stderr, "%s:%u: holdfast: %s\n", file, line, why);
  } else {
    std::fprintf(stderr, "%s: holdfast: %s\n", file, why);
  }
  std::abort();
}

suppression* read_line(const char* file, unsigned number, char* line, suppression* next) {
  char* const text = line + std::strspn(line, " \t");
  std::size_t n = std::strlen(text);
  while (n != 0 && std::strchr(" \t\r\n", text[n - 1]) != nullptr) --n;
  text[n] = 0;
  if (n == 0 || text[0] == '#') return next;
  char* const colon = std::strchr(text, ':');
  if (colon == nullptr || colon[1] == 0) refuse(file, number, "expected a kind of report, a colon, and a name");
  *colon = 0;
  int what = std::strcmp(text, "*") == 0 ? -1 : 0;
  while (what >= 0 && std::strcmp(text, names[what]) != 0) {
    if (++what == static_cast<int>(sizeof names / sizeof *names))
      refuse(file, number, "no such kind of report: expected unlogged, outside, pointer, lock, unknown, shared or *");
  }
  const std::size_t bytes = std::strlen(colon + 1) + 1;
  auto* const s = static_cast<suppression*>(std::malloc(sizeof(suppression) + bytes));
  if (s == nullptr) refuse(file, number, "no memory for it");
  s->next = next;
  s->what = what;
  std::memcpy(s->pattern, colon + 1, bytes);
  return s;
}

const suppression* read_all() {
  const char* const name = std::getenv("NVM_CHECK_SUPPRESSIONS");
  if (name == nullptr || *name == 0) return nullptr;
  std::FILE* const file = std::fopen(name, "re");
  if (file == nullptr) refuse(name, 0, "the file of NVM_CHECK_SUPPRESSIONS cannot be read");
  suppression* all = nullptr;
  char line[1024];
  for (unsigned number = 1; std::fgets(line, sizeof line, file) != nullptr; ++number) {
    if (std::strlen(line) == sizeof line - 1) refuse(name, number, "the line is too long");
    all = read_line(name, number, line, all);
  }
  if (std::ferror(file) != 0) refuse(name, 0, "the file of NVM_CHECK_SUPPRESSIONS cannot be read");
  std::fclose(file);
  return all;
}

const suppression* suppressions() {
  // Two threads may read the file; one of the lists is forgotten.
  static constinit std::atomic<const suppression*> known{nullptr};
  static constinit std::atomic<bool> is_known{false};
  if (!is_known.load(std::memory_order_acquire)) {
    known.store(read_all(), std::memory_order_relaxed);
    is_known.store(true, std::memory_order_release);
  }
  return known.load(std::memory_order_relaxed);
}

// A `*` of the pattern stands for any characters.
bool matches(const char* pattern, const char* text) {
  const char* star = nullptr;
  const char* again = nullptr;
  while (*text != 0) {
    if (*pattern == '*') {
      star = ++pattern;
      again = text;
    } else if (*pattern == *text) {
      ++pattern;
      ++text;
    } else if (star != nullptr) {
      pattern = star;
      text = ++again;
    } else {
      return false;
    }
  }
  while (*pattern == '*') ++pattern;
  return *pattern == 0;
}

bool is_suppressed(kind what, const nvm_site* site) {
  for (const suppression* s = suppressions(); s != nullptr; s = s->next) {
    if (s->what >= 0 && s->what != static_cast<int>(what)) continue;
    if (matches(s->pattern, site->function) || matches(s->pattern, site->file)) return true;
  }
  return false;
}

void print(const nvm_site* site, const char* text) {
  if (site->line != 0) {
    std::fprintf(stderr, "%s:%u:%u: holdfast: %s (in %s)\n", site->file, site->line, site->column, text,
                 site->function);
  } else {
    std::fprintf(stderr, "%s: holdfast: %s (in %s; compile with -g for the line)\n", site->file, text, site->function);
  }
  if (!only_reports()) std::abort();
}

}  // namespace

void found(kind what, const nvm_site* site, const char* format, ...) {
  if (is_suppressed(what, site) || !found_at(site)) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print(site, text);
}

void found_twice(kind what, const nvm_site* site, const nvm_site* other, const char* text) {
  if (is_suppressed(what, site) || is_suppressed(what, other) || !found_at(site)) return;
  char whole[768];
  std::snprintf(whole, sizeof whole, "%s, at %s:%u:%u (in %s)", text, other->file, other->line, other->column,
                other->function);
  print(site, whole);
}

}  // namespace nvm::checked
