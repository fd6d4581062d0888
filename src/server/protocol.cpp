#include "server/protocol.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "server/base64.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format";
constexpr std::string_view too_large = "SERVER_ERROR object too large for cache";

// More than this is no length: memcached's are 31 bits with the line end.
constexpr std::int32_t value_bytes_max = std::numeric_limits<std::int32_t>::max() - 2;
constexpr std::size_t value_end_bytes = 2;
constexpr std::size_t meta_words_max = 19;
constexpr std::size_t opaque_bytes_max = 32;

// Expiries have 32 bits.
bool read_expiry(std::string_view text, std::int64_t& to) noexcept {
  std::int32_t seconds = 0;
  if (!read_client_number(text, seconds)) return false;
  to = seconds;
  return true;
}

void refuse(command& to, std::string_view line) noexcept {
  to.what = verb::refused;
  to.refusal = line;
}

// The words of the line; no more than words_max - 1, as many as memcached looks at.
void split(std::string_view line, command& to) noexcept {
  const char* at = line.data();
  const char* const end = at + line.size();
  std::size_t n = 0;
  while (n < command::words_max - 1) {
    while (at != end && *at == ' ') ++at;
    if (at == end) break;
    const auto* const space = static_cast<const char*>(std::memchr(at, ' ', static_cast<std::size_t>(end - at)));
    const char* const last = space != nullptr ? space : end;
    to.words[n++] = {at, last};
    at = last;
  }
  to.word_count = static_cast<std::uint8_t>(n);
}

void note_silence(command& to) noexcept { to.silent = to.words[to.word_count - 1U] == "noreply"; }

bool words_are(const command& c, std::size_t least, std::size_t most) noexcept {
  return c.word_count >= least && c.word_count <= most;
}

// --- values ---

// Waits for the value of `bytes` after the line, or refuses a value that cannot be stored; the line took `line_bytes`.
parsed take_value(std::string_view input, std::size_t line_bytes, std::size_t bytes, const parse_limits& limits,
                  command& to) noexcept {
  if (item_bytes(to.key.size(), bytes) > limits.item_bytes_max) {
    const bool meta = to.what == verb::meta_set;
    to.drops_item = meta || to.what == verb::set;
    refuse(to, too_large);
    if (meta) to.silent = false;
    to.swallow = bytes + value_end_bytes;
    return {parsed::answer::command, line_bytes};
  }
  const std::size_t total = line_bytes + bytes + value_end_bytes;
  if (input.size() < total) return {parsed::answer::incomplete, total};
  to.value = input.substr(line_bytes, bytes);
  if (input[total - 2] != '\r' || input[total - 1] != '\n') {
    if (to.what == verb::meta_set) to.silent = false;
    refuse(to, "CLIENT_ERROR bad data chunk");
  }
  return {parsed::answer::command, total};
}

// set, add, replace, append, prepend, cas: <key> <flags> <exptime> <bytes> [<cas unique>] [noreply]
parsed parse_store(std::string_view input, std::size_t line_bytes, const parse_limits& limits, verb what,
                   command& to) noexcept {
  const parsed line{parsed::answer::command, line_bytes};
  const std::size_t least = what == verb::cas ? 6 : 5;
  if (!words_are(to, least, least + 1)) return refuse(to, "ERROR"), line;
  note_silence(to);
  std::int32_t bytes = 0;
  if (to.words[1].size() > key_bytes_max || !read_client_number(to.words[2], to.flags) ||
      !read_expiry(to.words[3], to.expiry) || !read_client_number(to.words[4], bytes) ||
      (what == verb::cas && !read_client_number(to.words[5], to.number)) || bytes < 0 || bytes > value_bytes_max) {
    return refuse(to, bad_format), line;
  }
  to.what = what;
  to.key = to.words[1];
  return take_value(input, line_bytes, static_cast<std::size_t>(bytes), limits, to);
}

// --- meta commands ---

constexpr std::string_view bad_token = "CLIENT_ERROR bad token in command line format";

// Reads one flag; false: its letter is unknown. A right argument leaves `error` alone.
bool parse_flag(command& to, std::string_view word, std::string_view& error) noexcept {
  constexpr std::string_view asks_back = "OPLkstcflh";  // flags that only shape the reply
  if (asks_back.find(word[0]) != std::string_view::npos) return true;
  meta_flags& m = to.meta;
  const auto number = [&](auto& value, std::string_view complaint) {
    const bool good = read_client_number(word.substr(1), value);
    if (!good) error = complaint;
    return good;
  };
  const auto expiry = [&](std::int64_t& value) {
    const bool good = read_expiry(word.substr(1), value);
    if (!good) error = bad_token;
    return good;
  };
  switch (word[0]) {
    case 'b': {
      const std::size_t n = read_base64(to.key, to.decoded_key.data());
      if (n == 0) error = "CLIENT_ERROR error decoding key";
      to.key = {to.decoded_key.data(), n};
      m.binary_key = true;
      break;
    }
    case 'N':
      m.has_vivify = expiry(m.vivify);
      break;
    case 'T':
      m.has_ttl = expiry(m.ttl);
      break;
    case 'R':
      m.has_recache = expiry(m.recache);
      break;
    case 'F':
      number(to.flags, error.empty() ? bad_format : error);
      break;
    case 'C':
      m.has_cas = number(to.number, bad_token);
      break;
    case 'J':
      number(m.initial, "CLIENT_ERROR invalid numeric initial value");
      break;
    case 'D':
      number(m.delta, "CLIENT_ERROR invalid numeric delta value");
      break;
    case 'M':
      if (word.size() == 2) {
        m.mode = word[1];
      } else {
        error = "CLIENT_ERROR incorrect length for M token";
      }
      break;
    case 'I':
      m.invalidate = true;
      break;
    case 'v':
      m.value = true;
      break;
    case 'u':
      m.no_access = true;
      break;
    case 'q':
      m.quiet = true;
      break;
    default:
      return false;
  }
  return true;
}

// Reads the flags from the word `first` on; returns the error that memcached answers, or an empty text: that of the
// first flag that is unknown or repeated, otherwise of the last one with a wrong argument.
std::string_view parse_flags(command& to, std::size_t first) noexcept {
  std::string_view error;
  std::uint64_t seen[2] = {};
  to.key = to.words[1];
  for (std::size_t i = first; i < to.word_count; ++i) {
    const std::string_view word = to.words[i];
    const auto letter = static_cast<std::uint8_t>(word[0]);
    if (letter >= 127 || (seen[letter >> 6] >> (letter & 63) & 1) != 0) return "CLIENT_ERROR duplicate flag";
    seen[letter >> 6] |= std::uint64_t{1} << (letter & 63);
    if (!parse_flag(to, word, error)) return "CLIENT_ERROR invalid flag";
  }
  return error;
}

bool has_long_opaque(const command& c, std::size_t first) noexcept {
  for (std::size_t i = first; i < c.word_count; ++i) {
    if (c.words[i][0] == 'O' && c.words[i].size() > opaque_bytes_max) return true;
  }
  return false;
}

constexpr std::string_view opaque_too_long = "CLIENT_ERROR opaque token too long";

// ms <key> <bytes> <flags>*
parsed parse_meta_set(std::string_view input, std::size_t line_bytes, const parse_limits& limits,
                      command& to) noexcept {
  const parsed line{parsed::answer::command, line_bytes};
  std::int32_t bytes = 0;
  if (to.word_count < 2) return refuse(to, "ERROR"), line;
  if (to.words[1].size() > key_bytes_max || to.word_count == 2) return refuse(to, bad_format), line;
  if (to.word_count > meta_words_max) return refuse(to, "CLIENT_ERROR options flags too long"), line;
  if (!read_client_number(to.words[2], bytes) || bytes < 0 || bytes > value_bytes_max)
    return refuse(to, bad_format), line;
  std::string_view error = parse_flags(to, 3);
  if (error.empty() && to.meta.mode != 0 && std::string_view{"EAPRS"}.find(to.meta.mode) == std::string_view::npos) {
    error = "CLIENT_ERROR invalid mode for ms M token";
  }
  if (error.empty() && has_long_opaque(to, 3)) error = opaque_too_long;
  if (!error.empty()) {
    refuse(to, error);
    to.swallow = static_cast<std::size_t>(bytes) + value_end_bytes;
    return line;
  }
  to.what = verb::meta_set;
  to.silent = to.meta.quiet;
  return take_value(input, line_bytes, static_cast<std::size_t>(bytes), limits, to);
}

void parse_meta(verb what, command& to) noexcept {
  if (to.word_count < 2) return refuse(to, "ERROR");
  if (to.words[1].size() > key_bytes_max) return refuse(to, bad_format);
  const bool get = what == verb::meta_get;
  if (to.word_count > meta_words_max) {
    return refuse(to, get ? "CLIENT_ERROR options flags are too long" : "CLIENT_ERROR options flags too long");
  }
  const std::string_view error = parse_flags(to, 2);
  if (!error.empty()) return refuse(to, get ? error : "CLIENT_ERROR invalid or duplicate flag");
  if (what == verb::meta_arithmetic && to.meta.mode != 0 &&
      std::string_view{"I+D-"}.find(to.meta.mode) == std::string_view::npos) {
    return refuse(to, "CLIENT_ERROR invalid mode for ma M token");
  }
  if (has_long_opaque(to, 2)) return refuse(to, opaque_too_long);
  to.what = what;
}

// me <key> [b]
void parse_meta_debug(command& to) noexcept {
  if (to.word_count < 2 || to.words[1].size() > key_bytes_max) return refuse(to, bad_format);
  to.key = to.words[1];
  if (to.word_count >= 3 && to.words[2] == "b") {
    const std::size_t n = read_base64(to.key, to.decoded_key.data());
    if (n == 0) return refuse(to, bad_format);
    to.key = {to.decoded_key.data(), n};
    to.meta.binary_key = true;
  }
  to.what = verb::meta_debug;
}

// --- classic commands without a value ---

// get <key>*, gat <exptime> <key>*: there may be more keys than words.
void parse_get(std::string_view line, verb what, command& to) noexcept {
  const bool touches = what == verb::gat || what == verb::gats;
  if (to.word_count < 2) return refuse(to, "ERROR");
  if (touches && !read_expiry(to.words[1], to.expiry)) return refuse(to, "CLIENT_ERROR invalid exptime argument");
  const std::string_view before = to.words[touches ? 1 : 0];
  to.key = {before.data() + before.size(), line.data() + line.size()};
  // All keys are checked before the first is answered, since a reply cannot be taken back.
  for (std::string_view rest = to.key, key; !(key = next_key(rest)).empty();) {
    if (key.size() > key_bytes_max) return refuse(to, bad_format);
  }
  to.what = what;
}

// delete <key> [0] [noreply]
void parse_delete(command& to) noexcept {
  if (!words_are(to, 2, 4)) return refuse(to, "ERROR");
  if (to.word_count > 2) {
    const bool zero = to.words[2] == "0";
    note_silence(to);
    const bool valid = to.word_count == 3 ? zero || to.silent : zero && to.silent;
    if (!valid) return refuse(to, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
  }
  if (to.words[1].size() > key_bytes_max) return refuse(to, bad_format);
  to.key = to.words[1];
  to.what = verb::remove;
}

// incr, decr <key> <delta> [noreply]; touch <key> <exptime> [noreply]
void parse_change(verb what, command& to) noexcept {
  if (!words_are(to, 3, 4)) return refuse(to, "ERROR");
  note_silence(to);
  if (to.words[1].size() > key_bytes_max) return refuse(to, bad_format);
  to.key = to.words[1];
  if (what == verb::touch) {
    if (!read_expiry(to.words[2], to.expiry)) return refuse(to, "CLIENT_ERROR invalid exptime argument");
  } else if (!read_client_number(to.words[2], to.number)) {
    return refuse(to, "CLIENT_ERROR invalid numeric delta argument");
  }
  to.what = what;
}

// flush_all [delay] [noreply]
void parse_flush_all(command& to) noexcept {
  if (!words_are(to, 1, 3)) return refuse(to, "ERROR");
  note_silence(to);
  to.what = verb::flush_all;
  if (to.word_count != (to.silent ? 2 : 1) && !read_expiry(to.words[1], to.expiry)) {
    refuse(to, "CLIENT_ERROR invalid exptime argument");
  }
}

void parse_level(verb what, command& to) noexcept {
  if (!words_are(to, 2, 3)) return refuse(to, "ERROR");
  note_silence(to);
  std::uint32_t level = 0;
  if (!read_client_number(to.words[1], level)) return refuse(to, what == verb::verbosity ? bad_format : "ERROR");
  to.number = level;
  to.what = what;
}

void parse_debugtime(const parse_limits& limits, command& to) noexcept {
  if (!limits.debug_commands) return refuse(to, "ERROR");
  if (to.word_count >= 2 && to.words[1] != "p" && to.words[1] != "r" && !read_client_number(to.words[1], to.expiry)) {
    return refuse(to, "ERROR");
  }
  to.what = verb::debugtime;
}

void parse_two_letters(char second, command& to) noexcept {
  switch (second) {
    case 'g':
      return parse_meta(verb::meta_get, to);
    case 'd':
      return parse_meta(verb::meta_delete, to);
    case 'a':
      return parse_meta(verb::meta_arithmetic, to);
    case 'e':
      return parse_meta_debug(to);
    case 'n':
      to.what = verb::meta_noop;
      return;
    default:
      return refuse(to, "ERROR");
  }
}

// The verbs that take a line and no value.
void parse_line(std::string_view line, const parse_limits& limits, command& to) noexcept {
  const std::string_view name = to.words[0];
  if (name[0] == 'm' && name.size() == 2) return parse_two_letters(name[1], to);
  if (name == "get" || name == "bget") return parse_get(line, verb::get, to);
  if (name == "gets") return parse_get(line, verb::gets, to);
  if (name == "gat") return parse_get(line, verb::gat, to);
  if (name == "gats") return parse_get(line, verb::gats, to);
  if (name == "delete") return parse_delete(to);
  if (name == "incr") return parse_change(verb::incr, to);
  if (name == "decr") return parse_change(verb::decr, to);
  if (name == "touch") return parse_change(verb::touch, to);
  if (name == "flush_all") return parse_flush_all(to);
  if (name == "verbosity") return parse_level(verb::verbosity, to);
  if (name == "cache_memlimit") return parse_level(verb::cache_memlimit, to);
  if (name == "debugtime") return parse_debugtime(limits, to);
  struct plain {
    std::string_view name;
    verb what;
    std::size_t words;
  };
  static constexpr plain table[] = {
      {"version", verb::version, 1},   {"quit", verb::quit, 1},   {"stats", verb::stats, 1},
      {"shutdown", verb::shutdown, 1}, {"slabs", verb::slabs, 1}, {"lru_crawler", verb::lru_crawler, 1},
      {"lru", verb::lru, 2},           {"watch", verb::watch, 1},
  };
  for (const plain& p : table) {
    if (name != p.name) continue;
    if (to.word_count < p.words) break;
    to.what = p.what;
    return;
  }
  refuse(to, "ERROR");
}

// The verbs that a value follows; `refused` for all others.
verb storing_verb(std::string_view name) noexcept {
  switch (name[0]) {
    case 's':
      return name == "set" ? verb::set : verb::refused;
    case 'a':
      return name == "add" ? verb::add : name == "append" ? verb::append : verb::refused;
    case 'c':
      return name == "cas" ? verb::cas : verb::refused;
    case 'r':
      return name == "replace" ? verb::replace : verb::refused;
    case 'p':
      return name == "prepend" ? verb::prepend : verb::refused;
    default:
      return verb::refused;
  }
}

// Whether input of this length without a line end may still become a command, or is one.
bool may_become_command(std::string_view input, std::size_t line_bytes) noexcept {
  if (input.size() <= line_bytes) return true;
  const std::size_t begin = input.find_first_not_of(' ');
  if (begin > 100 || input.size() > get_line_bytes_max) return false;  // npos: nothing but spaces
  const std::string_view text = input.substr(begin);
  return text.starts_with("get ") || text.starts_with("gets ");
}

}  // namespace

std::string_view next_key(std::string_view& keys) noexcept {
  const std::size_t begin = keys.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    keys = {};
    return {};
  }
  const std::size_t end = std::min(keys.find(' ', begin), keys.size());
  const std::string_view key = keys.substr(begin, end - begin);
  keys.remove_prefix(end);
  return key;
}

parsed parse(std::string_view input, const parse_limits& limits, command& to) noexcept {
  const auto* const newline =
      input.empty() ? nullptr : static_cast<const char*>(std::memchr(input.data(), '\n', input.size()));
  if (newline == nullptr) {
    if (!may_become_command(input, line_bytes_max)) return {parsed::answer::hang_up, 0};
    return {parsed::answer::incomplete, input.size() + 1};
  }
  auto length = static_cast<std::size_t>(newline - input.data());
  if (!may_become_command(input.substr(0, length), whole_line_bytes_max)) return {parsed::answer::hang_up, 0};
  const parsed whole{parsed::answer::command, length + 1};
  if (length > 1 && input[length - 1] == '\r') --length;
  // A zero byte ends the line for memcached, also before other bytes.
  const std::string_view line = input.substr(0, std::min(length, input.substr(0, length).find('\0')));

  to.what = verb::refused;
  to.silent = false;
  to.drops_item = false;
  to.flags = 0;
  to.expiry = 0;
  to.number = 0;
  to.swallow = 0;
  to.key = {};
  to.value = {};
  to.refusal = {};
  to.meta = {};
  split(line, to);
  if (to.word_count == 0 || to.words[0].size() < 2) return refuse(to, "ERROR"), whole;

  const std::string_view name = to.words[0];
  if (name == "ms") return parse_meta_set(input, whole.bytes, limits, to);
  if (const verb what = storing_verb(name); what != verb::refused) {
    return parse_store(input, whole.bytes, limits, what, to);
  }
  parse_line(line, limits, to);
  if (to.what == verb::refused && to.refusal == "ERROR" && to.words[to.word_count - 1U].starts_with("HTTP/") &&
      std::string_view{"gscaidt"}.find(name[0]) == std::string_view::npos) {
    return {parsed::answer::hang_up, 0};
  }
  return whole;
}

}  // namespace nvm::server
