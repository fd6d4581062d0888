// Recording: what a program did to its pools, read from a trace file, ready for the explorer.
//
// A trace file may be anything: every length, number and address is checked before it is used, and the first that does
// not fit refuses the file with the record's offset.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explore/explore.hpp"
#include "pool/pool.hpp"

namespace nvm::crash_test {

// A place in the sources, of a store, flush or fence.
struct place {
  std::string file;
  std::string function;
  nvm_rec_site site{};  // its texts are those above

  // "file:line (function)".
  [[nodiscard]] std::string text() const;
};
// Text of a site that read_recording() made.
[[nodiscard]] std::string text_of(const nvm_rec_site* s);

// Fault of a program's own store, as the trace alone shows it.
enum class store_fault : std::uint8_t {
  none,
  outside,   // its thread has no transaction open in the pool
  unlogged,  // neither announced nor allocated by its transaction
  late,      // announced by its transaction after the store
};

// From the opening of a pool to its closing.
struct session {
  std::string path;
  std::vector<std::byte> image;  // bytes at the opening; whole pages, up to the last used one
  std::uint64_t pages_used = 0;  // data pages from this one on are free in every state
  explore::trace trace;          // offsets instead of addresses; `place` of a flush or fence indexes recording::places
  std::vector<store_fault> faults;  // of each event
  unsigned threads = 0;
  std::uint64_t transactions = 0;
  std::uint64_t stores = 0;
  // Pages that were changed by stores that were not recorded, and the offset of the first.
  std::uint64_t unseen_pages = 0;
  std::uint64_t unseen_at = 0;
};

struct recording {
  std::deque<place> places;
  std::vector<session> sessions;  // those in which something was stored
  bool cut = false;               // the trace ends before the program
  std::uint64_t events = 0;
};

// Images larger than this are refused: the explorer holds three of them.
inline constexpr std::uint64_t image_bytes_max = std::uint64_t{1} << 30;

// nullopt with the reason.
[[nodiscard]] std::optional<recording> read_recording(const std::string& path, std::string& problem);
// The same from memory.
[[nodiscard]] std::optional<recording> read_recording(const std::byte* trace, std::uint64_t bytes, std::string& problem,
                                                      std::uint64_t image_max = image_bytes_max);

// Whether text from a file may be shown to people: it has no control characters but white space.
[[nodiscard]] bool is_text(std::string_view text) noexcept;

// Finds the faults of a session's stores.
void find_faults(session& s);

// The superblock in an image that ends before its pool does; nullopt with last_message().
[[nodiscard]] std::optional<layout::superblock> superblock_of(const std::byte* base, std::uint64_t bytes);

// Appends a store to a trace: the words around it are `words`, (offset + bytes up to 8 - offset down to 8) / 8 of them.
void append_store(explore::trace& t, std::uint64_t offset, std::uint32_t bytes, const std::uint64_t* words,
                  const nvm_rec_site* site, std::uint8_t thread);

// Makes a recorded store.
void apply(const explore::trace& t, const explore::event& e, std::byte* image) noexcept;

}  // namespace nvm::crash_test
