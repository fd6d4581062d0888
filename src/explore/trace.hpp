// Trace: the actions of one run on an image, in program order.
//
// Events are 32 bytes; the bytes of stores that do not fit one aligned word lie beside them.  Places of flushes and
// labels of fences are numbered, so that a mutation can select them at the cost of an array access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "media/media.hpp"
#include "nvm/record.h"

namespace nvm::explore {

enum class event_kind : std::uint8_t {
  store,     // offset, bytes, site; payload: the aligned word after the store, or where its words lie
  flush,     // offset, payload = bytes, place
  fence,     // place
  rmw,       // a locked operation: orders the thread's write-backs
  write,     // block write: offset, bytes, place, payload: where its words lie
  sync,      // place
  op_begin,  // offset = operation's number, payload = the caller's word for it
  op_end,    // offset = operation's number, payload = its result
  promise,   // everything that has ended must survive from here on
  mark,      // place = enum mark: a statement for the trace rules about [offset, offset + payload)
};

enum class mark : std::uint32_t { tx_begin, tx_end, logged, fresh };

struct event {
  std::uint64_t offset;  // bytes from the image's start
  std::uint64_t payload;
  union {
    const nvm_rec_site* site;  // of a store or locked operation
    std::uint64_t place;       // of a flush, fence, block write, sync, mark
  };
  std::uint32_t bytes;
  event_kind kind;
  std::uint8_t thread;
  bool inline_word;  // a store inside one aligned word
  bool outside;      // a flush of memory that is not the image's
};
static_assert(sizeof(event) == 32);

enum class place_kind : std::uint8_t { flush, fence, write };

// Place of a flush or a block write in the sources, or label of a fence or a sync.
struct place {
  const char* name = "";   // file, or label of a fence
  std::uint32_t line = 0;  // 0 for a fence
  place_kind kind = place_kind::flush;
  std::uint64_t count = 0;  // in runs and recorded recoveries
  bool dropped = false;     // by the mutation under test
  bool delayed = false;

  [[nodiscard]] std::string text() const {
    return kind == place_kind::fence ? std::string{name} : std::string{name} + ":" + std::to_string(line);
  }
};

struct trace {
  std::vector<event> events;
  std::vector<std::uint64_t> words;

  void clear() noexcept {
    events.clear();
    words.clear();
  }
};

// Places met so far.  Looking one up costs a hash and a compare.  One place may have several addresses (its string
// stands in several objects): each address is a key, the contents decide the number.
class place_table {
 public:
  place_table() : keys_(256) {}

  // A line flushes or writes, not both.
  std::uint32_t number_of(const char* name, std::uint32_t line, place_kind kind) {
    key& k = find(name, kind == place_kind::fence ? fence_line : line);
    if (k.name != nullptr) return k.number;
    return add(name, line, kind);
  }
  place& operator[](std::size_t number) noexcept { return places_[number]; }
  const place& operator[](std::size_t number) const noexcept { return places_[number]; }
  [[nodiscard]] std::span<place> all() noexcept { return places_; }
  [[nodiscard]] std::span<const place> all() const noexcept { return places_; }
  // Called for each place when it is met first: recoveries meet places that the run did not.
  std::function<void(place&)> on_new;

 private:
  static constexpr std::uint32_t fence_line = ~std::uint32_t{0};
  struct key {
    const char* name = nullptr;
    std::uint32_t line = 0;
    std::uint32_t number = 0;
  };
  key& find(const char* name, std::uint32_t line) noexcept {
    std::size_t i = (reinterpret_cast<std::uintptr_t>(name) * 0x9E3779B97F4A7C15ULL >> 20) + line * 31ULL;
    for (;; ++i) {
      key& k = keys_[i & (keys_.size() - 1)];
      if (k.name == nullptr || (k.name == name && k.line == line)) return k;
    }
  }
  std::uint32_t add(const char* name, std::uint32_t line, place_kind kind);

  std::vector<place> places_;
  std::vector<key> keys_;
  std::size_t keys_used_ = 0;
};

}  // namespace nvm::explore
