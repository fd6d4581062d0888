// memcached's text protocol, classic and meta commands: from bytes to one command at a time.
//
// Pure: no input or output, no memory of its own, no state between calls. Refused input comes out as a command, too, of
// the verb `refused`, with the line that memcached 1.6.18 answers. Bytes may come in any pieces: a piece without a
// whole command gives `incomplete`, and with it the bytes that are needed before the next try, so that a value in a
// thousand pieces is not scanned a thousand times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "server/item_store.hpp"

namespace nvm::server {

enum class verb : std::uint8_t {
  refused,
  get,
  gets,
  gat,
  gats,
  set,
  add,
  replace,
  append,
  prepend,
  cas,
  remove,
  incr,
  decr,
  touch,
  meta_get,
  meta_set,
  meta_delete,
  meta_arithmetic,
  meta_noop,
  meta_debug,
  flush_all,
  version,
  quit,
  verbosity,
  stats,
  shutdown,
  cache_memlimit,
  slabs,
  lru,
  lru_crawler,
  watch,
  debugtime,
};

// Meaning of the flags of a meta command; the flags themselves stay in command::words, for the reply.
struct meta_flags {
  bool value = false;         // v
  bool quiet = false;         // q
  bool no_access = false;     // u
  bool invalidate = false;    // I
  bool binary_key = false;    // b
  bool has_cas = false;       // C
  bool has_ttl = false;       // T
  bool has_vivify = false;    // N
  bool has_recache = false;   // R
  char mode = 0;              // M
  std::int64_t ttl = 0;       // T
  std::int64_t vivify = 0;    // N
  std::int64_t recache = 0;   // R
  std::uint64_t initial = 0;  // J
  std::uint64_t delta = 1;    // D
};

struct command {
  static constexpr std::size_t words_max = 24;

  verb what = verb::refused;
  bool silent = false;  // "noreply": nothing is answered, not even an error
  bool drops_item =
      false;  // refused: an item of this key is removed, so that it does not outlive its failed replacement
  std::uint8_t word_count = 0;
  std::uint32_t flags = 0;   // of the item
  std::int64_t expiry = 0;   // as the client gave it
  std::uint64_t number = 0;  // cas id, delta, or level
  std::size_t swallow = 0;   // refused: bytes after the command that belong to it; the answer comes after them
  std::string_view key;      // of get and its kin: all the keys, with the spaces between them
  std::string_view value;
  std::string_view refusal;  // without its line end; a literal
  meta_flags meta;
  std::array<std::string_view, words_max> words;  // of the line, the command's name first
  std::array<char, key_bytes_max> decoded_key;    // where `key` lies when it came in base64

  [[nodiscard]] std::span<const std::string_view> arguments() const noexcept {
    return {words.data() + 1, word_count > 0 ? word_count - 1U : 0};
  }
  // The words of a meta command's flags.
  [[nodiscard]] std::span<const std::string_view> flag_words() const noexcept {
    const std::size_t first = what == verb::meta_set ? 3 : 2;
    return {words.data() + first, word_count > first ? word_count - first : 0};
  }
};

struct parse_limits {
  std::size_t item_bytes_max = std::size_t{1} << 20;
  bool debug_commands = false;  // debugtime, which only memcached's tests use
};

// Without a line end within so many bytes a command is no command, unless it gets many keys.
inline constexpr std::size_t line_bytes_max = 2048;
// If its line end has come it may be longer: as much as memcached receives at a time.
inline constexpr std::size_t whole_line_bytes_max = std::size_t{16} << 10;
inline constexpr std::size_t get_line_bytes_max = std::size_t{1} << 20;

struct parsed {
  enum class answer : std::uint8_t {
    command,     // it took `bytes`
    incomplete,  // call again when there are `bytes`
    hang_up,     // the input is not of the protocol
  };
  answer what = answer::incomplete;
  std::size_t bytes = 0;
};

// Reads one command from the beginning of `input` into `to`, which refers to the input.
parsed parse(std::string_view input, const parse_limits& limits, command& to) noexcept;

// Takes the next key from the keys of a get; empty: there is none.
std::string_view next_key(std::string_view& keys) noexcept;

}  // namespace nvm::server
