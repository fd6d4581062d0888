// Straight writes of an image medium (image_media.hpp): bytes to which nothing leads go to their place at once.
#include <algorithm>

#include "media/image_media.hpp"

namespace nvm {
namespace {

// Smaller ones go through the log rather than wait for a sync, or until the log is empty.
constexpr std::uint64_t worth_waiting_bytes = 256 * 1024;

std::uint64_t sum_of(const std::byte* at, std::uint64_t bytes, std::uint64_t seed) noexcept {
  std::uint64_t sum = seed;
  while (bytes != 0) {
    const std::uint64_t count = std::min(bytes, layout::straight_piece_bytes);
    sum = checksum(at, static_cast<std::size_t>(count), sum);
    at += count;
    bytes -= count;
  }
  return sum;
}

}  // namespace

// Notes the pages that the log's records in memory have touched. False: no memory.
bool image_media::know_touched() noexcept {
  if (touched_ != nullptr) return true;
  touched_ = touched_pages::make(settings_.bytes);
  if (touched_ == nullptr) return false;
  touched_from_ = checkpoint_;
  for (lsn_t lsn = checkpoint_; lsn < tail_;) {
    layout::ring_record header;
    std::memcpy(&header, at(lsn), sizeof header);
    const std::uint64_t bytes = header.units * layout::ring_unit;
    note_touched(lsn, bytes);
    lsn += bytes;
  }
  return true;
}

// Notes what the record of `bytes` bytes at `lsn` touches.
void image_media::note_touched(lsn_t lsn, std::uint64_t bytes) noexcept {
  const lsn_t end = lsn + bytes;
  const auto logged = [&](std::uint64_t offset, const std::byte*, std::size_t count) noexcept -> status {
    touched_->logged(offset, count, end);
    return {};
  };
  const auto straight = [&](std::uint64_t offset, std::uint64_t count, const auto&) noexcept -> status {
    touched_->straight(offset, count, end);
    last_straight_ = end;
    return {};
  };
  const status noted =
      each_entry({at(lsn), static_cast<std::size_t>(bytes)}, settings_.ring.place, settings_.bytes, logged, straight);
  NVM_ASSERT(noted);
}

// Makes a record of this process durable: then the device has been written to, and no older process's record can come
// back.
status image_media::have_begun(lock& held) noexcept {
  while (counts_.log_syncs == 0) {
    if (tail_ == durable_lsn()) {
      if (const status s = find_room(held, sector_bytes); !s) return s;
      if (tail_ == durable_lsn()) append_pad(sector_bytes);
    }
    if (const status s = sync_to(held, tail_); !s) return s;
  }
  return {};
}

// Whether [offset, offset + bytes) may be written before the record that will have it: steps A to C. It waits for these
// conditions as long as that pays.
result<bool> image_media::may_go_straight(lock& held, std::uint64_t offset, std::uint64_t bytes, lsn_t free_since,
                                          straight_patience patience) noexcept {
  if (poisoned()) return refuse().error();
  if (!know_touched()) return false;
  if (const status s = have_begun(held); !s) return s.error();
  const bool waits = patience == straight_patience::always || bytes >= std::min(worth_waiting_bytes, ring_bytes_ / 4);
  if (free_since > durable_lsn() && !planted(plant::straight_before_free)) {
    if (!waits) return false;
    if (const status s = sync_to(held, std::min(free_since, tail_)); !s) return s.error();
  }
  for (;;) {
    if (poisoned()) return refuse().error();
    const touched_pages::newest newest = touched_->of(offset, bytes);
    const bool replayed = newest.logged > checkpoint_ && !planted(plant::straight_under_record);
    const bool unproved =
        newest.straight > checkpoint_ && newest.straight > proved_ && !planted(plant::straight_over_unproved);
    if (!replayed && !unproved) return true;
    if (!waits) return false;
    if (checkpointing_) {
      freed_.wait(held);
    } else if (const status s = sync_to(held, std::max(newest.logged, newest.straight)); !s) {
      return s.error();
    } else if (!checkpointing_) {
      if (const status done = run_checkpoint(held); !done) return done.error();
    }
  }
}

result<straight_outcome> image_media::write_straight(const void* p, std::size_t bytes, lsn_t free_since,
                                                     straight_patience patience) noexcept {
  const std::uint64_t offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - settings_.base);
  NVM_ASSERT((offset | bytes) % sector_bytes == 0 && range_inside(offset, bytes, settings_.bytes));
  NVM_ASSERT(!settings_.ring.place.overlaps(offset, bytes));
  if (bytes < straight_from()) return straight_outcome{};
  {
    lock held{order_};
    const result<bool> may = may_go_straight(held, offset, bytes, free_since, patience);
    if (!may) return may.error();
    if (!*may) return straight_outcome{};
  }
  const std::uint64_t sum = sum_of(settings_.base + offset, bytes, layout::straight_seed(settings_.ring.uuid, offset));
  // A file system may lock the file before it reads the bytes, and bringing them in would wait for that lock.
  const image_guest& guest = settings_.guest;
  if (guest.hold != nullptr && !guest.hold(guest.context, p, bytes)) return straight_outcome{};
  status written = may_write();
  if (written) written = device_.write(offset, p, bytes);
  if (guest.hold != nullptr) guest.let_go(guest.context, p, bytes);
  const lock held{order_};
  if (!written) poison_locked();
  if (poisoned()) return refuse().error();
  ++counts_.straight_writes;
  counts_.straight_bytes += bytes;
  return straight_outcome{.written = true, .sum = sum};
}

}  // namespace nvm
