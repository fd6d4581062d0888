// Entries that recovery has read in the log and not replayed yet: records, lists of them that grow without being moved,
// and the rule which share replays which.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "logheap/logheap_layout.hpp"
#include "logheap/mapping.hpp"

namespace nvm::logheap {

// A part of an entry of at most bytes_max.  32 bytes.
struct replay_record {
  static constexpr std::uint64_t bytes_max = 32768;
  static constexpr std::uint64_t log_mask = (std::uint64_t{1} << log_bits) - 1;
  static constexpr unsigned shift_kind = home_bits;
  static constexpr unsigned shift_first = home_bits + 2;
  std::uint64_t home_and_kind;  // home (47), kind (2), first (1): of an entry, the part where it begins
  std::uint64_t log_and_bytes;  // of contents: log address (48), bytes (16); 0: there are none
  std::uint64_t self_and_room;  // the entry's own log address (48), bytes that it is about (16)
  std::uint64_t version;

  static replay_record of(layout::entry_kind kind, bool first, home_t home, log_t log, std::uint64_t bytes, log_t self,
                          std::uint64_t room, std::uint64_t version) noexcept {
    return {home | std::uint64_t(kind) << shift_kind | std::uint64_t{first} << shift_first,
            bytes == 0 ? 0 : log | bytes << log_bits, self | room << log_bits, version};
  }
  [[nodiscard]] home_t home() const noexcept { return home_and_kind & layout::home_mask; }
  [[nodiscard]] layout::entry_kind kind() const noexcept {
    return static_cast<layout::entry_kind>(home_and_kind >> shift_kind & 3);
  }
  [[nodiscard]] bool is_update() const noexcept { return kind() == layout::entry_kind::update; }
  [[nodiscard]] bool first() const noexcept { return (home_and_kind >> shift_first & 1) != 0; }
  [[nodiscard]] log_t log() const noexcept { return log_and_bytes & log_mask; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return log_and_bytes >> log_bits; }
  [[nodiscard]] log_t self() const noexcept { return self_and_room & log_mask; }
  [[nodiscard]] home_t end() const noexcept { return home() + (self_and_room >> log_bits); }
  // In one version an object comes before stores into it.
  [[nodiscard]] bool newer_than(const replay_record& r) const noexcept {
    return version != r.version ? version > r.version : rank() > r.rank();
  }
  [[nodiscard]] unsigned rank() const noexcept {
    return is_update() ? 2 : kind() == layout::entry_kind::allocation ? 1 : 0;
  }
};
// How home space is dealt out: spans of 2^shift bytes go round the shares.
struct share_rule {
  home_t first = 0;
  unsigned shift = 0;
  unsigned shares_shift = 0;

  [[nodiscard]] std::size_t shares() const noexcept { return std::size_t{1} << shares_shift; }
  [[nodiscard]] std::size_t share_of(home_t home) const noexcept { return (home - first) >> shift & (shares() - 1); }
  // The addresses of one share, in order and without those of others.
  [[nodiscard]] std::uint64_t within_share(home_t home) const noexcept {
    const std::uint64_t x = home - first;
    return x >> (shift + shares_shift) << shift | (x & ((std::uint64_t{1} << shift) - 1));
  }
};

// Grows without being moved.
class replay_list {
 public:
  void push_back(const replay_record& r) {
    if (count_ == pages_.size() * each) pages_.push_back(std::make_unique_for_overwrite<replay_record[]>(each));
    pages_[count_ / each][count_ % each] = r;
    ++count_;
  }
  // Appends all, and is empty.
  void move_to(std::vector<replay_record>& to) {
    for (auto& page : pages_) {
      const std::size_t n = std::min(each, count_);
      to.insert(to.end(), page.get(), page.get() + n);
      count_ -= n;
      page.reset();
    }
    pages_.clear();
  }

 private:
  static constexpr std::size_t each = 128;
  std::vector<std::unique_ptr<replay_record[]>> pages_;
  std::size_t count_ = 0;
};

}  // namespace nvm::logheap
