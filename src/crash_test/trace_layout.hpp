// The trace file: what a recorded program did to its pools, in one total order.
//
// A header, then records one after the other: 24 bytes each, those of some kinds followed by a payload, rounded up
// to 8.  Written by the recording run-time through a shared mapping, so that a killed program leaves a trace that is
// whole up to `used`. Addresses are those of the recorded process.  Little-endian; a temporary file, read only by the
// build that wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace nvm::layout {

inline constexpr std::uint64_t trace_magic = 0x4543'4152'5446'4C48;  // "HLFTRACE" in file order
inline constexpr std::uint32_t trace_version = 1;

struct trace_header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t cut;   // 1: the trace ends before the program, for lack of room
  std::uint64_t used;  // bytes of the file that hold header and records
  std::uint64_t pid;
  std::uint64_t reserved[4];
};
static_assert(sizeof(trace_header) == 64 && std::is_trivially_copyable_v<trace_header>);

enum class trace_kind : std::uint8_t {
  store = 1,   // address, bytes, place; word: the aligned word after the store, or payload: its aligned words
  flush,       // address, word = bytes, place
  fence,       // place
  place,       // defines number `place`: address = line | column << 32, bytes = kind, thread = of_library; payload:
               // file, zero, function, zero
  pool_open,   // address = base; payload: bytes of address space, path
  page,        // address; payload: a page of the pool as it was when it was opened; those that are zero are left out
  pool_ready,  // address = base: the pages are complete
  pool_sums,   // address = base; payload: trace_sum of each page of the file, just before it is closed
  pool_close,  // address = base
  tx_begin,    // of this thread in the pool at `address`
  tx_commit,   // it has returned: durable
  tx_abort,    // it has been rolled back
  logged,      // address, word = bytes: announced to the thread's transaction
  fresh,       // address, word = bytes: allocated by it
};
inline constexpr std::uint8_t trace_kind_max = static_cast<std::uint8_t>(trace_kind::fresh);

[[nodiscard]] constexpr bool has_payload(trace_kind k) noexcept {
  return k == trace_kind::place || k == trace_kind::pool_open || k == trace_kind::page || k == trace_kind::pool_sums;
}

inline constexpr std::uint32_t trace_page_bytes = 4096;

// Tells a page that recorded stores have made from one that unrecorded stores have changed.
inline std::uint64_t trace_sum(const std::byte* page) noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t at = 0; at < trace_page_bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, page + at, 8);
    sum = (sum ^ word) * 0x9E37'79B9'7F4A'7C15ULL;
    sum ^= sum >> 29;
  }
  return sum;
}

struct trace_record {
  std::uint64_t address;
  std::uint64_t word;  // where a payload follows other than a store's: its bytes
  std::uint32_t place;
  std::uint16_t bytes;
  std::uint8_t kind;    // enum trace_kind
  std::uint8_t thread;  // from 0
};
static_assert(sizeof(trace_record) == 24 && std::has_unique_object_representations_v<trace_record>);

// Bytes of the words around a store, which are its payload unless it is one word.
constexpr std::uint64_t trace_span(std::uint64_t address, std::uint64_t bytes) noexcept {
  return (address + bytes + 7) / 8 * 8 - address / 8 * 8;
}

}  // namespace nvm::layout
