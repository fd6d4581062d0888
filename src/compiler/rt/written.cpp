// Writes of functions of the C library that do not follow from the arguments alone: formats, vectors, messages, save
// pointers.  Called before them; C programs link this, hence nothing of the C++ library.
//
// A target is logged even if the function does not reach it, but never beyond the end of its object.
#include <getopt.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include "nvm/compiled.h"

namespace {

constexpr std::size_t to_the_end = SIZE_MAX;

// At most n bytes from p on are about to be written.
void log(const nvm_site* site, const void* p, std::size_t n) {
  if (!nvm_is_durable(p)) return;
  n = __nvm_room(p, n);
  if (site != nullptr) {
    __nvm_log_at(p, n, site);
  } else {
    __nvm_log(p, n);
  }
}

template <class Char>
bool is_one_of(Char c, const char* all) {
  for (; *all != 0; ++all) {
    if (c == static_cast<Char>(*all)) return true;
  }
  return false;
}

// A number at `at`, which is moved after it; -1: there is none.
template <class Char>
long number(const Char*& at) {
  if (*at < '0' || *at > '9') return -1;
  long n = 0;
  for (; *at >= '0' && *at <= '9'; ++at) n = n < INT_MAX / 10 ? n * 10 + (*at - '0') : INT_MAX;
  return n;
}
// "N$": N, counted from 1; 0: there is none.
template <class Char>
long position(const Char*& at) {
  const Char* behind = at;
  const long n = number(behind);
  if (n <= 0 || *behind != '$') return 0;
  at = behind + 1;
  return n;
}

enum class length : std::uint8_t { none, byte, half, word, longer };  // "", hh, h, l, and all that is more

template <class Char>
length length_of(const Char*& at) {
  length l = length::none;
  for (;; ++at) {
    if (*at == 'h') {
      l = l == length::half ? length::byte : length::half;
    } else if (*at == 'l') {
      l = l == length::word ? length::longer : length::word;
    } else if (is_one_of(*at, "qLjzZtw")) {
      l = length::longer;
      if (*at == 'w') {  // C23: w8, wf32
        ++at;
        if (*at == 'f') ++at;
        (void)number(at);
        --at;
      }
    } else {
      return l;
    }
  }
}
std::size_t bytes_of_number(length l) {
  switch (l) {
    case length::byte:
      return 1;
    case length::half:
      return 2;
    case length::none:
      return 4;
    default:
      return 8;
  }
}

// ---- printf ---------------------------------------------------------------------------------------------------------

enum class passed : std::uint8_t { unused, word, real, long_real };  // how an argument is passed

// The arguments that a format speaks of: how each is passed, and how many bytes %n stores through it.
struct arguments {
  static constexpr std::size_t most = 256;
  passed how[most];
  std::uint8_t stores[most];
  std::size_t count = 0;
  std::size_t next = 0;
  bool any = false;

  void add(long at, passed p, std::size_t stored) {
    const std::size_t k = at > 0 ? static_cast<std::size_t>(at) - 1 : next++;
    if (k >= most) return;
    for (; count <= k; ++count) {
      how[count] = passed::unused;
      stores[count] = 0;
    }
    how[k] = p;
    stores[k] = static_cast<std::uint8_t>(stored);
    any = any || stored != 0;
  }
};

// A width or precision that is an argument.
template <class Char>
void add_star(const Char*& at, arguments& found) {
  if (*at != '*') {
    (void)number(at);
    return;
  }
  ++at;
  found.add(position(at), passed::word, 0);
}
template <class Char>
void read_printf(const Char* at, arguments& found) {
  while (*at != 0) {
    if (*at++ != '%') continue;
    if (*at == '%') {
      ++at;
      continue;
    }
    const long where = position(at);
    while (is_one_of(*at, "-+ #0'I")) ++at;
    add_star(at, found);
    if (*at == '.') {
      ++at;
      add_star(at, found);
    }
    const bool is_long_real = *at == 'L' || (*at == 'l' && at[1] == 'l') || *at == 'q';
    const length l = length_of(at);
    const Char what = *at;
    if (what == 0) return;
    ++at;
    if (what == 'n') {
      found.add(where, passed::word, bytes_of_number(l));
    } else if (is_one_of(what, "aAeEfFgG")) {
      found.add(where, is_long_real ? passed::long_real : passed::real, 0);
    } else if (what != 'm' && what != '%') {
      found.add(where, passed::word, 0);
    }
  }
}
template <class Char>
void log_printf(const nvm_site* site, const Char* format, va_list list) {
  arguments found;
  read_printf(format, found);
  if (!found.any) return;
  va_list copy;
  va_copy(copy, list);
  for (std::size_t k = 0; k < found.count; ++k) {
    if (found.how[k] == passed::real) {
      (void)va_arg(copy, double);
    } else if (found.how[k] == passed::long_real) {
      (void)va_arg(copy, long double);
    } else {
      void* p = va_arg(copy, void*);  // integers are passed in words, too
      if (found.stores[k] != 0) log(site, p, found.stores[k]);
    }
  }
  va_end(copy);
}

// ---- scanf ----------------------------------------------------------------------------------------------------------

struct target {
  long where = 0;  // 0: the next argument
  std::size_t bytes = 0;
};

// After the `]` of a set that begins at `at`.
template <class Char>
const Char* behind_set(const Char* at) {
  if (*at == '^') ++at;
  if (*at == ']') ++at;
  while (*at != 0 && *at != ']') ++at;
  return *at == 0 ? at : at + 1;
}
// `width` characters, or all; those of a text and their end.  A function for wide text makes several bytes of one
// character.
template <class Char>
std::size_t bytes_of_text(bool wide, long width, bool ends) {
  if (width < 0) return ends ? to_the_end : wide ? sizeof(wchar_t) : sizeof(Char) == 1 ? 1 : MB_LEN_MAX;
  const std::size_t each = wide ? sizeof(wchar_t) : sizeof(Char) == 1 ? 1 : MB_LEN_MAX;
  return (static_cast<std::size_t>(width) + (ends ? 1 : 0)) * each;
}
// The next conversion that stores; false: none follows.
template <class Char>
bool next_target(const Char*& at, target& found) {
  while (*at != 0) {
    if (*at++ != '%') continue;
    if (*at == '%') {
      ++at;
      continue;
    }
    found.where = position(at);
    const bool skips = *at == '*';
    if (skips) ++at;
    while (is_one_of(*at, "'I")) ++at;
    const long width = number(at);
    bool allocates = *at == 'm';
    if (allocates) ++at;
    // The older meaning: %as, %aS and %a[ allocate.
    if (*at == 'a' && is_one_of(at[1], "sS[")) {
      allocates = true;
      ++at;
    }
    const length l = length_of(at);
    const Char what = *at;
    if (what == 0) return false;
    ++at;
    if (what == '[') at = behind_set(at);
    if (skips) continue;
    const bool wide = l == length::word || what == 'C' || what == 'S';
    if (allocates || what == 'p') {
      found.bytes = sizeof(void*);
    } else if (is_one_of(what, "sS[")) {
      found.bytes = bytes_of_text<Char>(wide, width, true);
    } else if (is_one_of(what, "cC")) {
      found.bytes = bytes_of_text<Char>(wide, width, false);
    } else if (is_one_of(what, "aAeEfFgG")) {
      found.bytes = l == length::longer ? sizeof(long double) : l == length::word ? sizeof(double) : sizeof(float);
    } else {
      found.bytes = bytes_of_number(l);
    }
    return true;
  }
  return false;
}
void* argument_at(va_list list, long where) {
  va_list copy;
  va_copy(copy, list);
  void* p = nullptr;
  for (long k = 0; k < where && k < 4096; ++k) p = va_arg(copy, void*);
  va_end(copy);
  return p;
}
template <class Char>
void log_scanf(const nvm_site* site, const Char* format, va_list list) {
  long next = 0;
  for (target t; next_target(format, t);) log(site, argument_at(list, t.where > 0 ? t.where : ++next), t.bytes);
}

// ---- others ---------------------------------------------------------------------------------------------------------

void log_vector(const nvm_site* site, const iovec* v, std::size_t count) {
  for (std::size_t k = 0; v != nullptr && k < count; ++k) log(site, v[k].iov_base, v[k].iov_len);
}
void log_message(const nvm_site* site, const msghdr* m) {
  if (m == nullptr) return;
  log(site, m, sizeof *m);
  log(site, m->msg_name, m->msg_namelen);
  log(site, m->msg_control, m->msg_controllen);
  log_vector(site, m->msg_iov, m->msg_iovlen);
}

}  // namespace

#define NVM_FOR_CALLS extern "C" __attribute__((visibility("default")))

#define NVM_FORMAT(name, character, walk)                                                                 \
  NVM_FOR_CALLS void __nvm_written_##name(const nvm_site* site, const character* format, ...) {           \
    va_list list;                                                                                         \
    va_start(list, format);                                                                               \
    walk(site, format, list);                                                                             \
    va_end(list);                                                                                         \
  }                                                                                                       \
  NVM_FOR_CALLS void __nvm_written_v##name(const nvm_site* site, const character* format, va_list list) { \
    walk(site, format, list);                                                                             \
  }

NVM_FORMAT(printf, char, log_printf)
NVM_FORMAT(wprintf, wchar_t, log_printf)
NVM_FORMAT(scanf, char, log_scanf)
NVM_FORMAT(wscanf, wchar_t, log_scanf)

NVM_FOR_CALLS std::size_t __nvm_vprinted(const char* format, va_list list) {
  const int before = errno;
  va_list copy;
  va_copy(copy, list);
  const int n = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  errno = before;
  return n < 0 ? to_the_end : static_cast<std::size_t>(n);
}
NVM_FOR_CALLS std::size_t __nvm_printed(const char* format, ...) {
  va_list list;
  va_start(list, format);
  const std::size_t n = __nvm_vprinted(format, list);
  va_end(list);
  return n;
}

NVM_FOR_CALLS void __nvm_written_vector(const nvm_site* site, const iovec* v, std::size_t count) {
  log_vector(site, v, static_cast<std::size_t>(static_cast<int>(count)));
}
NVM_FOR_CALLS void __nvm_written_message(const nvm_site* site, const msghdr* m) { log_message(site, m); }
NVM_FOR_CALLS void __nvm_written_messages(const nvm_site* site, mmsghdr* all, std::size_t count) {
  log(site, all, count * sizeof *all);
  for (std::size_t k = 0; all != nullptr && k < count; ++k) log_message(site, &all[k].msg_hdr);
}

// strtok() goes on in a string that it was given before; it is not for several threads.
NVM_FOR_CALLS void __nvm_written_tokens(const nvm_site* site, const char* text) {
  static const char* known = nullptr;
  static std::size_t bytes = 0;
  if (text != nullptr) {
    known = text;
    bytes = nvm_is_durable(text) ? std::strlen(text) : 0;
  }
  if (bytes != 0) log(site, known, bytes);
}
NVM_FOR_CALLS void __nvm_written_tokens_r(const nvm_site* site, const char* text, char** saved) {
  const char* begin = text != nullptr ? text : *saved;
  if (nvm_is_durable(begin)) log(site, begin, std::strlen(begin));
  log(site, saved, sizeof *saved);
}
NVM_FOR_CALLS void __nvm_written_separated(const nvm_site* site, char** text) {
  if (text != nullptr && *text != nullptr) __nvm_written_tokens_r(site, nullptr, text);
}
NVM_FOR_CALLS void __nvm_written_wtokens(const nvm_site* site, const wchar_t* text, wchar_t** saved) {
  const wchar_t* begin = text != nullptr ? text : *saved;
  if (nvm_is_durable(begin)) log(site, begin, std::wcslen(begin) * sizeof *begin);
  log(site, saved, sizeof *saved);
}

NVM_FOR_CALLS void __nvm_written_options(const nvm_site* site, const option* all) {
  for (; all != nullptr && all->name != nullptr; ++all) log(site, all->flag, sizeof *all->flag);
}
