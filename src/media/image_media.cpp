#include "media/image_media.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace nvm {
namespace {

std::atomic<std::uint64_t> media_made{0};

// The latest LSN of this thread in the medium that it used last: memory of the thread itself is scarce
// (base/result.cpp), and for any other medium the end of its log stands in.
struct thread_lsn {
  std::uint64_t medium = 0;  // 0: none
  lsn_t lsn = 0;
};
constinit thread_local thread_lsn last_appended;

}  // namespace

image_media::image_media(block_device& device, const image_settings& settings, log_run run) noexcept
    : device_{device},
      log_syncs_{settings.log_syncs != nullptr ? *settings.log_syncs : device},
      settings_{settings},
      ring_bytes_{settings.ring.place.ring_bytes()},
      id_{media_made.fetch_add(1, std::memory_order_relaxed) + 1},
      tail_{run.state.new_lap ? run.state.checkpoint : next_lap(run.end, settings.ring.place)},
      durable_{tail_},
      checkpoint_{tail_},
      told_{tail_},
      proved_{tail_},
      left_{std::move(run)},
      replay_left_{!left_.empty()},
      lap_begun_{left_.state.new_lap},
      header_copy_{left_.state.copy},
      header_sequence_{left_.state.sequence} {}

result<std::unique_ptr<image_media>> image_media::open(block_device& device, const image_settings& settings,
                                                       const ring_state& state) noexcept {
  return open(device, settings, log_run{.state = state, .end = state.checkpoint, .bytes = {}});
}

result<std::unique_ptr<image_media>> image_media::open(block_device& device, const image_settings& settings,
                                                       log_run run) noexcept {
  std::unique_ptr<image_media> m{new (std::nothrow) image_media{device, settings, std::move(run)}};
  if (m != nullptr) m->ring_.reset(static_cast<std::byte*>(std::calloc(m->ring_bytes_, 1)));
  if (m == nullptr || m->ring_ == nullptr)
    return fail(errc::no_memory, "no memory for a log of %llu bytes",
                static_cast<unsigned long long>(settings.ring.place.ring_bytes()));
  const std::size_t pages =
      static_cast<std::size_t>(std::min<std::uint64_t>(settings.checkpoint_pages, settings.bytes / 4096 + 1));
  result<std::unique_ptr<home_writer>> home = home_writer::make(device, pages);
  if (!home) return home.error();
  m->home_ = std::move(*home);
  if (settings.guest.meet != nullptr) {
    if (!m->know_touched()) return fail(errc::no_memory, "no memory to know which pages of the image are in the file");
    // relaxed: no other thread knows the medium yet.
    if (!m->replay_left_) m->home_lsn_.store(m->checkpoint_, std::memory_order_relaxed);
    settings.guest.meet(settings.guest.context, m.get());
  }
  return m;
}

image_media::~image_media() {
  if (touched_ != nullptr && settings_.guest.meet != nullptr) settings_.guest.meet(settings_.guest.context, nullptr);
}

// ---- appending --------------------------------------------------------------------------------------

std::uint64_t image_media::wrap_pad(std::uint64_t bytes) const noexcept {
  const std::uint64_t to_ring_end = ring_bytes_ - tail_ % ring_bytes_;
  return bytes > to_ring_end ? to_ring_end : 0;
}

bool image_media::has_room(std::uint64_t bytes, bool to_move) const noexcept {
  const std::uint64_t needed = to_move ? std::min(3 * bytes, ring_bytes_) : wrap_pad(bytes) + bytes;
  return tail_ + needed <= checkpoint_ + ring_bytes_;
}

// Waits until a record of up to `bytes` bytes fits with its padding; `to_move`: also that which tells it apart, or
// until the ring is empty where the record has more than a third of it.  Both ends of the free space are whole sectors
// when the log is synced, so that sealing a sector always fits too.
status image_media::find_room(lock& held, std::uint64_t bytes, bool to_move) noexcept {
  if (!poisoned() && !draining_ && has_room(bytes, to_move)) return {};
  freed_.wait(held, [this] { return !draining_ || poisoned(); });
  if (poisoned()) return refuse();
  if (has_room(bytes, to_move)) return {};
  ++counts_.stalls;
  draining_ = true;
  const status s = drain(held, bytes, to_move);
  draining_ = false;
  freed_.notify_all();
  return s;
}

status image_media::drain(lock& held, std::uint64_t bytes, bool to_move) noexcept {
  while (!has_room(bytes, to_move)) {
    if (poisoned()) return refuse();
    if (checkpointing_) {
      freed_.wait(held);
    } else if (durable_lsn() > checkpoint_) {
      if (const status s = run_checkpoint(held); !s) return s;
    } else if (const status s = sync_to(held, tail_); !s) {
      return s;
    }
  }
  if (poisoned()) return refuse();
  return {};
}

void image_media::append_pad(std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  told_ = durable_lsn();
  seal_record(at(tail_), tail_, told_, bytes, 0, settings_.ring.uuid);
  tail_ += bytes;
  counts_.pad_bytes += bytes;
}

// Room was found.  Returns where the record's bytes go.
std::byte* image_media::begin_record(std::uint64_t bytes) noexcept {
  append_pad(wrap_pad(bytes));
  return at(tail_);
}

// Moves a record of which a part reads as a header of the place where it lies. What it leaves behind is zeros: a pad's
// bytes get to the device, too.
void image_media::tell_apart(std::uint64_t bytes) noexcept {
  const std::uint64_t pad = pad_to_be_told_apart({at(tail_), bytes}, tail_, settings_.ring.place);
  if (pad == 0 || tail_ + pad + bytes > checkpoint_ + ring_bytes_) return;
  const std::uint64_t to_ring_end = ring_bytes_ - tail_ % ring_bytes_;
  const std::uint64_t before_end = pad + bytes <= to_ring_end ? pad : to_ring_end;
  std::memmove(at(tail_ + pad), at(tail_), bytes);
  std::memset(at(tail_), 0, before_end);
  std::memset(at(tail_ + before_end), 0, pad - before_end);
  append_pad(before_end);
  append_pad(pad - before_end);
}

lsn_t image_media::end_record(std::uint64_t bytes, std::uint32_t count) noexcept {
  tell_apart(bytes);
  told_ = durable_lsn();
  seal_record(at(tail_), tail_, told_, bytes, count, settings_.ring.uuid);
  tail_ += bytes;
  ++counts_.records;
  counts_.logged_bytes += bytes;
  if (tail_ - checkpoint_ > ring_bytes_ / 2) work_.notify_one();
  last_appended = {id_, tail_};
  return tail_;
}

// The entry of a record that is not sealed yet, at the log's end.
void image_media::put_captured(const std::byte* from, std::size_t bytes, std::uint64_t record_bytes) noexcept {
  std::byte* const record = begin_record(record_bytes);
  const layout::ring_entry entry{.offset = static_cast<std::uint64_t>(from - settings_.base), .bytes = bytes};
  std::byte* const data = record + sizeof(layout::ring_record) + sizeof entry;
  std::memcpy(data - sizeof entry, &entry, sizeof entry);
  capture(data, from, bytes);
  std::memset(data + bytes, 0, static_cast<std::size_t>(record + record_bytes - (data + bytes)));
}

void image_media::flush(const void* p, std::size_t bytes, site) noexcept {
  const auto* from = static_cast<const std::byte*>(p);
  constexpr std::uint64_t overhead = sizeof(layout::ring_record) + sizeof(layout::ring_entry) + layout::ring_unit;
  const std::uint64_t piece_max =
      std::min<std::uint64_t>(64 * 1024, round_down(settings_.ring.place.record_bytes_max() - overhead, line_bytes));
  while (bytes != 0) {
    const std::uint64_t offset = static_cast<std::uint64_t>(from - settings_.base);
    // Pieces end where lines end.
    const std::size_t count = std::min<std::uint64_t>(bytes, piece_max - offset % line_bytes);
    NVM_ASSERT(range_inside(offset, count, settings_.bytes));
    NVM_ASSERT(!settings_.ring.place.overlaps(offset, count));
    const std::uint64_t record_bytes =
        round_up(sizeof(layout::ring_record) + layout::ring_entry_bytes(count), layout::ring_unit);
    lock held{order_};
    // Poisoned: nothing is captured, and durable() says so for ever.
    if (!find_room(held, record_bytes)) return;
    put_captured(from, count, record_bytes);
    if (!has_room(record_bytes, true) &&
        may_read_as_header({at(tail_), static_cast<std::size_t>(record_bytes)}, tail_)) {
      // Others may append before there is room to move it.
      std::memset(at(tail_), 0, record_bytes);
      if (!find_room(held, record_bytes, true)) return;
      put_captured(from, count, record_bytes);
    }
    end_record(record_bytes, 1);
    if (touched_ != nullptr) touched_->logged(offset, count, tail_);
    from += count;
    bytes -= count;
  }
}

status image_media::find_room_for(batch& b, lock& held) noexcept {
  const std::uint64_t needed = b.record_bytes_max();
  const std::uint64_t most = settings_.ring.place.record_bytes_max();
  if (needed > most)
    return fail(errc::log_full, "transaction needs %llu bytes of log, a record has at most %llu (half the log)",
                static_cast<unsigned long long>(needed), static_cast<unsigned long long>(most));
  if (b.out_of_memory_ || !b.reserve(needed))
    return fail(errc::no_memory, "no memory for a transaction's record of %llu bytes",
                static_cast<unsigned long long>(needed));
  const bool to_move = may_read_as_header({b.bytes_, b.used_}, durable_lsn());
  held = lock{order_};
  return find_room(held, needed, to_move);
}

status image_media::await_room(batch& b) noexcept {
  lock held;
  return find_room_for(b, held);
}

result<lsn_t> image_media::publish_with(batch& b, stores_call stores, void* context, edge) noexcept {
  lock held;
  if (const status s = find_room_for(b, held); !s) return s.error();
  const std::uint64_t needed = b.record_bytes_max();
  stores(context);
  const std::uint64_t bytes = b.record_bytes();
  NVM_ASSERT(bytes <= needed && !b.out_of_memory_);  // more than expect() announced
  if (b.empty()) {
    held.unlock();
    b.clear();
    return last_lsn();
  }
  std::byte* record = begin_record(bytes);
  std::memcpy(record, b.bytes_, b.used_);
  std::memset(record + b.used_, 0, bytes - b.used_);
  // Entries hold addresses so far.
  for (std::size_t i = sizeof(layout::ring_record); i < b.used_;) {
    layout::ring_entry entry;
    std::memcpy(&entry, record + i, sizeof entry);
    const std::uint64_t straight = entry.offset & layout::straight_bit;
    const std::uint64_t offset = (entry.offset ^ straight) - reinterpret_cast<std::uintptr_t>(settings_.base);
    NVM_ASSERT(range_inside(offset, entry.bytes, settings_.bytes));
    NVM_ASSERT(!settings_.ring.place.overlaps(offset, entry.bytes));
    entry.offset = offset | straight;
    std::memcpy(record + i, &entry, sizeof entry);
    if (straight != 0) {
      NVM_ASSERT(touched_ != nullptr);  // write_straight() was there
      // By B; other records may have come into its pages since.
      const lsn_t home = std::min(checkpoint_, std::max(touched_from_, touched_->of(offset, entry.bytes).logged));
      std::memcpy(record + i + sizeof entry + offsetof(layout::straight_rest, home_lsn), &home, sizeof home);
    }
    i += straight != 0 ? layout::straight_entry_bytes : layout::ring_entry_bytes(entry.bytes);
  }
  const lsn_t lsn = end_record(bytes, b.count_);
  if (touched_ != nullptr) note_touched(lsn - bytes, bytes);
  held.unlock();
  b.clear();
  return lsn;
}

// ---- durability -------------------------------------------------------------------------------------

lsn_t image_media::last_lsn() noexcept {
  if (last_appended.medium == id_) return last_appended.lsn;
  const lock held{order_};
  return tail_;
}

status image_media::durable(lsn_t lsn) noexcept {
  if (durable_lsn() >= lsn && !poisoned()) return {};
  lock held{order_};
  if (lsn > tail_)
    return fail(errc::invalid, "LSN %llu was not given out yet, the newest is %llu",
                static_cast<unsigned long long>(lsn), static_cast<unsigned long long>(tail_));
  ++counts_.durable_waits;
  return sync_to(held, lsn);
}

status image_media::sync_appended() noexcept {
  lock held{order_};
  return sync_to(held, tail_);
}

status image_media::sync_to(lock& held, lsn_t lsn) noexcept {
  while (durable_lsn() < lsn) {
    if (syncing_) {
      synced_.wait(held);  // after a failure, too: once a call is refused, no LSN becomes durable any more
    } else if (poisoned()) {
      break;
    } else {
      lead(held);
    }
  }
  // Closed by the thread that ends the process: all records are durable. After a failure that is not enough, since an
  // operation whose append failed would be reported durable.
  if (poisoned() && !(closed_ && durable_lsn() >= lsn)) return refuse();
  return {};
}

// Step 2, for everything appended so far.
void image_media::lead(lock& held) noexcept {
  syncing_ = true;
  if (!finish_replay(held)) {
    syncing_ = false;
    synced_.notify_all();
    return;
  }
  append_pad(round_up(tail_, sector_bytes) - tail_);
  const lsn_t from = durable_lsn();
  const lsn_t to = tail_;
  const lsn_t told = told_;
  const bool begin_lap = !lap_begun_;
  held.unlock();
  const status written = write_log(from, to, begin_lap);
  held.lock();
  syncing_ = false;
  if (written) {
    lap_begun_ = true;
    ++counts_.log_syncs;
    proved_ = std::max(proved_, told);
    // release: pairs with the acquire in durable_lsn(); a thread that sees it may act on the records.
    durable_.store(to, std::memory_order_release);
  } else {
    poison_locked();
  }
  synced_.notify_all();
}

status image_media::may_write() noexcept {
  return settings_.may_write != nullptr ? settings_.may_write(settings_.context) : status{};
}

status image_media::first_write() noexcept {
  if (status s = may_write(); !s) return s;
  if (first_write_done_) return {};
  first_write_done_ = true;
  return settings_.before_first_write != nullptr ? settings_.before_first_write(settings_.context) : status{};
}

// Steps 3 and 4 of replay.hpp, by this thread or by one that has begun them. No other write was made yet.
status image_media::finish_replay(lock& held) noexcept {
  while (!poisoned() && replay_left_) {
    if (checkpointing_) {
      freed_.wait(held);
      continue;
    }
    checkpointing_ = true;
    held.unlock();
    status done = first_write();
    if (done) done = nvm::bring_home(device_, settings_.ring, left_, *home_);
    held.lock();
    checkpointing_ = false;
    if (done) {
      replay_left_ = false;
      // release: pairs with is_home(): the file has it.
      home_lsn_.store(checkpoint_, std::memory_order_release);
      lap_begun_ = true;
      header_copy_ = left_.state.copy;
      header_sequence_ = left_.state.sequence;
      ++counts_.checkpoints;
      counts_.home_bytes += home_->bytes_written();
      other_syncs_.fetch_add(2, std::memory_order_relaxed);
    } else {
      poison_locked();
    }
    freed_.notify_all();
  }
  if (poisoned()) return refuse();
  return {};
}

status image_media::write_log(lsn_t from, lsn_t to, bool begin_lap) noexcept {
  if (const status s = first_write(); !s) return s;
  if (begin_lap) {
    if (const status s = move_header(from); !s) return s;
    if (const status s = log_syncs_.sync(edge{"image/E4"}); !s) return s;
    other_syncs_.fetch_add(1, std::memory_order_relaxed);
  }
  while (from < to) {
    const std::uint64_t count = std::min(to - from, ring_bytes_ - from % ring_bytes_);
    const status s = device_.write(settings_.ring.place.offset_of(from), at(from), static_cast<std::size_t>(count));
    if (!s) return s;
    from += count;
  }
  return log_syncs_.sync(edge{"image/E1"});
}

status image_media::move_header(lsn_t checkpoint, lsn_t proved, site s) noexcept {
  const status written =
      write_ring_header(device_, settings_.ring, header_copy_ ^ 1, header_sequence_ + 1, checkpoint, proved, s);
  if (!written) return written;
  header_copy_ ^= 1;
  ++header_sequence_;
  return {};
}

// ---- checkpoint -------------------------------------------------------------------------------------

status image_media::checkpoint_step() noexcept {
  lock held{order_};
  if (checkpointing_) {
    freed_.wait(held, [this] { return !checkpointing_; });
    if (poisoned()) return refuse();
    return {};
  }
  if (const status s = finish_replay(held); !s) return s;
  return run_checkpoint(held);
}

// Steps 3 and 4, by one thread at a time; records below durable_ stay where they are until checkpoint_
// moves, so they are read without the lock.
status image_media::run_checkpoint(lock& held) noexcept {
  const lsn_t from = checkpoint_;
  const lsn_t to = durable_lsn();
  if (from == to) return {};
  checkpointing_ = true;
  const bool prove = last_straight_ > proved_;
  held.unlock();
  const status done = bring_home(from, to, prove);
  held.lock();
  checkpointing_ = false;
  if (done) {
    checkpoint_ = to;
    home_lsn_.store(to, std::memory_order_release);  // as above
    proved_ = std::max(proved_, to);
    ++counts_.checkpoints;
    counts_.home_bytes += home_->bytes_written();
  } else {
    poison_locked();
  }
  freed_.notify_all();
  if (!done) return refuse();
  return {};
}

status image_media::bring_home(lsn_t from, lsn_t to, bool prove) noexcept {
  if (const status s = may_write(); !s) return s;
  if (prove) {
    if (const status s = move_header(from, to); !s) return s;
    if (const status s = device_.sync(edge{"image/E5"}); !s) return s;
    other_syncs_.fetch_add(1, std::memory_order_relaxed);
  }
  if (const status s = home_->begin(); !s) return s;
  const auto put = [this](std::uint64_t offset, const std::byte* data, std::size_t bytes) noexcept {
    return home_->put(offset, data, bytes);
  };
  for (lsn_t lsn = from; lsn < to;) {
    layout::ring_record header;
    std::memcpy(&header, at(lsn), sizeof header);
    NVM_ASSERT(header.lsn == lsn && claimed_bytes(header, lsn, settings_.ring.place) != 0);
    const std::uint64_t bytes = header.units * layout::ring_unit;
    const status s = each_entry({at(lsn), static_cast<std::size_t>(bytes)}, settings_.ring.place, settings_.bytes, put);
    if (!s) return s;
    lsn += bytes;
  }
  if (const status s = home_->finish(); !s) return s;
  if (const status s = device_.sync(edge{"image/E2"}); !s) return s;
  if (planted(plant::ring_before_header)) return {};
  if (const status s = move_header(to); !s) return s;
  if (const status s = device_.sync(edge{"image/E3"}); !s) return s;
  other_syncs_.fetch_add(2, std::memory_order_relaxed);
  return {};
}

status image_media::quiesce() noexcept {
  lock held{order_};
  if (const status s = finish_replay(held); !s) return s;
  const lsn_t goal = tail_;
  while (!poisoned() && checkpoint_ < goal) {
    if (checkpointing_) {
      freed_.wait(held);
    } else if (durable_lsn() < goal) {
      if (const status s = sync_to(held, goal); !s) return s;
    } else if (const status s = run_checkpoint(held); !s) {
      return s;
    }
  }
  if (poisoned()) return refuse();
  return {};
}

status image_media::close() noexcept {
  if (const status s = quiesce(); !s) return s;
  lock held{order_};
  freed_.wait(held, [this] { return !checkpointing_; });
  if (poisoned()) return refuse();
  NVM_ASSERT(checkpoint_ == tail_);  // nothing is appended to a medium that is being closed
  // It needs no sync: until it is on the device, the other copy is there, which says the same.
  status moved = lap_begun_ ? may_write() : status{};
  if (moved && lap_begun_) moved = move_header(checkpoint_);
  if (moved) {
    fail(errc::io, "closed");
    closed_ = true;
  }
  poison_locked();
  return moved;
}

status image_media::drop_clean() noexcept {
  if (const status s = quiesce(); !s) return s;
  return platform::drop_private_pages(settings_.base, settings_.bytes);
}

// ---- the rest ---------------------------------------------------------------------------------------

// Keeps the message of the failure that just happened in this thread.
void image_media::poison_locked() noexcept {
  if (poisoned()) return;
  std::snprintf(poison_reason_, sizeof poison_reason_, "%s", last_message());
  // release: pairs with the acquire in poisoned(): the reason is there.
  poisoned_.store(true, std::memory_order_release);
  synced_.notify_all();
  freed_.notify_all();
  work_.notify_all();
}

void image_media::poison(const char* reason) noexcept {
  const lock held{order_};
  // Keeps the caller's failure.
  char kept[256];
  std::snprintf(kept, sizeof kept, "%s", last_message());
  fail(errc::io, "%s", reason);
  poison_locked();
  fail(errc::io, "%s", kept);
}

status image_media::refuse() const noexcept {
  return fail(errc::io, "%s takes no more commits: %s", settings_.name, poison_reason_);
}

image_statistics image_media::statistics() const noexcept {
  const lock held{order_};
  image_statistics s = counts_;
  s.other_syncs = other_syncs_.load(std::memory_order_relaxed);
  return s;
}

void image_media::await_work(std::chrono::milliseconds interval, const std::atomic<bool>& stop) noexcept {
  lock held{order_};
  work_.wait_for(held, interval, [&] {
    return stop.load(std::memory_order_relaxed) || poisoned() || (replay_left_ && !checkpointing_) ||
           tail_ - checkpoint_ > ring_bytes_ / 2 || wanted_home_.load(std::memory_order_relaxed);
  });
  wanted_home_.store(false, std::memory_order_relaxed);  // the next step does what was wanted
}

void image_media::wake() noexcept {
  const lock held{order_};
  work_.notify_all();
}

}  // namespace nvm
