// Image medium (ssd): a pool on an ordinary file of any file system, durable against power loss.
//
// The pool is a private image in memory; its stores never reach the file by themselves.  The only path
// to the file is one log with one sequence of LSNs: flush() captures a range into it, publish() a whole
// batch as one record.  After a crash the longest valid prefix of the log is what happened (replay.hpp).
//
// S store to the ring's copy in memory, W device write, | sync.  Failure atomicity: a sector.
//   Before anything else is written, if the last process left a run (replay.hpp): W it home | replay/E1,
//   W header at a lap of new LSNs | replay/E2.  The image has it already.  Otherwise:
//   Lap, before the first record of a process is written:
//   0. W other header, checkpoint at a lap of new LSNs | image/E4  no record left by a dead process can
//                                                                  follow one of ours
//   Commit:
//   1. S record, under the order's mutex: capture and LSN are one step, so that an older capture never
//      overwrites a newer one; after a pad, if a part of it reads as a header of its place (docs/design/043)
//   2. W all records not yet written, padded to a whole sector: a durable sector is never rewritten
//                                                      | image/E1  commit point of every record in it
//   Straight bytes, of a range that nothing leads to (docs/design/029):
//   A. wait until what freed the range is durable                      no crash shows what was there
//   B. no record after the checkpoint has bytes there                  none is replayed over them
//   C. the records of older straight bytes there are proved            they count without those
//      W the range, then 1 with its sum and 2: the record counts if the sum holds or it is proved
//   Checkpoint:
//      W other header, same checkpoint, all proved; if there are straight entries that are not
//                                                      | image/E5  before 3 changes what their sums are of
//   3. W home sectors, from durable records of the log, never from the image
//                                                      | image/E2  home before the log lets go
//   4. W other header, checkpoint after them           | image/E3  only now the ring's space is reused
//
// Group commit: durable() makes one thread the leader, which does step 2 for all; others wait and append meanwhile.
// Back-pressure: an append that finds no room syncs and checkpoints, or waits for the thread that does; later appends
// queue after it, so that small records do not starve a large one.  A failed write or sync poisons the medium for ever:
// the kernel may have dropped the pages, so that a later successful sync proves nothing.
//
// Threads: every call from any thread.  Locks: order_ is a leaf (publish() runs the caller's stores
// under it: they take no lock and touch no medium).  No lock is held during I/O: syncing_ and
// checkpointing_ name the one thread that does each.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "media/face.hpp"
#include "media/image_batch.hpp"
#include "media/replay.hpp"
#include "media/touched_pages.hpp"

namespace nvm {

struct image_settings {
  std::byte* base = nullptr;  // image of [0, bytes) of the file; private mapping or plain memory
  std::uint64_t bytes = 0;    // up to the capacity: the file may still have to grow to it
  ring_identity ring;
  std::size_t checkpoint_pages = home_writer::pages_max_default;  // staged at most before some are written home
  // Called once, before the first write to the device, which is synced before any record can become durable: for bytes
  // that have to be on the device before changes. The first thread that writes calls it, under no lock.
  status (*before_first_write)(void* context) noexcept = nullptr;
  // Called before each write of the log and each checkpoint; its failure counts as one of the write. Captures from
  // after the loss of pages of the image must not reach the device.
  status (*may_write)(void* context) noexcept = nullptr;
  // Whether the pool's format lets records have straight entries; nullptr: it does.
  bool (*may_go_straight)(void* context) noexcept = nullptr;
  void* context = nullptr;        // of all
  const char* name = "the pool";  // in messages
  // Ranges of at least so many bytes go straight to their place if allowed; 0: none.
  std::uint64_t straight_from = 64 * 1024;
  // The same device for syncs of the log; nullptr: the one that it is opened on. A device may report a failed
  // write-back to only one call of sync(), and a checkpoint's sync must not take that report from a commit's.
  block_device* log_syncs = nullptr;
  image_guest guest;
};

struct image_statistics {
  std::uint64_t log_syncs = 0;      // E1: each was waited for by one thread or several
  std::uint64_t other_syncs = 0;    // E2 to E5, and those of replay
  std::uint64_t durable_waits = 0;  // calls of durable() that found their LSN not yet durable
  std::uint64_t records = 0;
  std::uint64_t logged_bytes = 0;  // records with their headers, without pads
  std::uint64_t pad_bytes = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t home_bytes = 0;  // written by checkpoints
  std::uint64_t stalls = 0;      // appends that found the ring full
  std::uint64_t straight_writes = 0;
  std::uint64_t straight_bytes = 0;
};

class image_media {
 public:
  static constexpr bool atomic_batches = true;
  using batch = image_batch;

  // `state` as replay() or format_ring() returned it for this device; nothing else writes the log area
  // from here on.  No I/O.  errc::no_memory.
  [[nodiscard]] static result<std::unique_ptr<image_media>> open(block_device& device, const image_settings& settings,
                                                                 const ring_state& state) noexcept;
  // The same for what open_log() returned, which the caller has applied to the image: it is brought home before
  // anything else is written.
  [[nodiscard]] static result<std::unique_ptr<image_media>> open(block_device& device, const image_settings& settings,
                                                                 log_run run) noexcept;
  // Changes that are not durable are lost, as in a crash; close() before leaves an empty log.
  ~image_media();
  image_media(const image_media&) = delete;
  image_media& operator=(const image_media&) = delete;

  // Exactly these bytes, not the rest of their lines: a neighbour's bytes may be uncommitted.  Atomic
  // per line, not across lines.
  void flush(const void* p, std::size_t bytes, site = site::here()) noexcept;
  void fence(edge) noexcept { isa::compiler_fence(); }
  // Exact after this thread's own captures; otherwise (none yet, or it used many pools) the newest of
  // all threads, which is safe to wait for.
  [[nodiscard]] lsn_t last_lsn() noexcept;
  // errc::invalid for an LSN not yet given out.  errc::io: the medium has failed, and an LSN for which is_durable() is
  // false now never becomes durable.
  status durable(lsn_t lsn) noexcept;
  // Everything up to this LSN is durable: lets a server acknowledge without blocking a worker.
  [[nodiscard]] lsn_t durable_lsn() const noexcept { return durable_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_durable(lsn_t lsn) const noexcept { return durable_lsn() >= lsn; }

  // Waits for everything that any thread has appended so far.
  status sync_appended() noexcept;

  // See concept.hpp.  The batch is cleared on success and unchanged on failure (then its thread may
  // publish it again or clear it).  `stores` may add at
  // most what the batch was told to expect, or image_batch::allowance_bytes.  An empty batch writes
  // nothing and returns last_lsn().
  template <class F>
  result<lsn_t> publish(batch& b, F&& stores, edge e) noexcept {
    return publish_with(
        b, [](void* f) noexcept { (*static_cast<std::remove_reference_t<F>*>(f))(); },
        const_cast<void*>(static_cast<const void*>(std::addressof(stores))), e);
  }

  // Waits until the log has room for the batch; another thread may take it then.  The errors of publish().
  [[nodiscard]] status await_room(batch& b) noexcept;

  // See concept.hpp.  A write to the device; also a sync if `free_since` is not durable, and a checkpoint if the range
  // is large, or patience asked for, and the log has something for it.
  result<straight_outcome> write_straight(const void* p, std::size_t bytes, lsn_t free_since,
                                          straight_patience patience = straight_patience::if_large) noexcept;
  [[nodiscard]] std::uint64_t straight_from() const noexcept {
    const bool may = settings_.may_go_straight == nullptr || settings_.may_go_straight(settings_.context);
    return settings_.straight_from == 0 || !may ? UINT64_MAX : settings_.straight_from;
  }

  // Brings all durable records home, those of the last process first, and frees their log; returns at once if there are
  // none.  Joins a step that is under way.
  status checkpoint_step() noexcept;
  // Makes everything appended so far durable and brings it home; the ring is empty unless others append.
  status quiesce() noexcept;
  // quiesce(), then both headers name the empty log's LSN: the next process need not look at the ring.
  // No thread may append meanwhile; every call after it is refused.
  status close() noexcept;
  // At a quiescent point (no transaction open, no thread stores to the image): quiesce(), then give back
  // the image's private pages.  They show the file again, which has the same bytes.
  status drop_clean() noexcept;

  // Whether the file has the bytes of all records in the range, if there is a guest; false: unknown. For any thread,
  // without a lock, since a thread that holds the order's lock may wait for it.
  [[nodiscard]] bool is_home(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  // Lets the checkpointer soon bring more home. Likewise without a lock.
  void bring_home_soon() noexcept;

  // Refuses everything from here on, as after a failed sync.
  void poison(const char* reason) noexcept;
  [[nodiscard]] bool poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  [[nodiscard]] image_statistics statistics() const noexcept;

  // For the checkpointer: returns when records should be brought home at once (the ring is half full, or the last
  // process left some), after `interval`, or woken with *stop set.
  void await_work(std::chrono::milliseconds interval, const std::atomic<bool>& stop) noexcept;
  void wake() noexcept;

 private:
  using lock = std::unique_lock<std::mutex>;
  using stores_call = void (*)(void*) noexcept;

  image_media(block_device& device, const image_settings& settings, log_run run) noexcept;
  result<lsn_t> publish_with(batch& b, stores_call stores, void* context, edge e) noexcept;
  [[nodiscard]] std::byte* at(lsn_t lsn) noexcept { return &ring_[lsn % ring_bytes_]; }
  [[nodiscard]] std::uint64_t wrap_pad(std::uint64_t bytes) const noexcept;
  [[nodiscard]] bool has_room(std::uint64_t bytes, bool to_move) const noexcept;
  status find_room(lock& held, std::uint64_t bytes, bool to_move = false) noexcept;
  // Takes the lock, and finds room for the batch's record.
  [[nodiscard]] status find_room_for(batch& b, lock& held) noexcept;
  status drain(lock& held, std::uint64_t bytes, bool to_move) noexcept;
  void put_captured(const std::byte* from, std::size_t bytes, std::uint64_t record_bytes) noexcept;
  std::byte* begin_record(std::uint64_t bytes) noexcept;
  void tell_apart(std::uint64_t bytes) noexcept;
  lsn_t end_record(std::uint64_t bytes, std::uint32_t count) noexcept;
  void append_pad(std::uint64_t bytes) noexcept;
  [[nodiscard]] bool know_touched() noexcept;
  void note_touched(lsn_t lsn, std::uint64_t bytes) noexcept;
  status have_begun(lock& held) noexcept;
  result<bool> may_go_straight(lock& held, std::uint64_t offset, std::uint64_t bytes, lsn_t free_since,
                               straight_patience patience) noexcept;
  status sync_to(lock& held, lsn_t lsn) noexcept;
  void lead(lock& held) noexcept;
  status write_log(lsn_t from, lsn_t to, bool begin_lap) noexcept;
  status may_write() noexcept;
  status first_write() noexcept;
  status finish_replay(lock& held) noexcept;
  status run_checkpoint(lock& held) noexcept;
  status bring_home(lsn_t from, lsn_t to, bool prove) noexcept;
  status move_header(lsn_t checkpoint, lsn_t proved = 0, site s = site::here()) noexcept;
  void poison_locked() noexcept;
  status refuse() const noexcept;

  block_device& device_;
  block_device& log_syncs_;
  const image_settings settings_;
  const std::uint64_t ring_bytes_;
  const std::uint64_t id_;  // of this object among all of the process: key of the thread's last LSNs
  struct release {
    void operator()(std::byte* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<std::byte[], release> ring_;  // bytes of [checkpoint_, tail_), each at its place in the ring
  std::unique_ptr<home_writer> home_;           // of the thread that set checkpointing_

  mutable std::mutex order_;    // guards everything below
  platform::condition synced_;  // durable_ moved, or poisoned
  platform::condition freed_;   // checkpoint_ moved, or poisoned
  platform::condition work_;    // the ring is half full
  lsn_t tail_;                  // next append
  std::atomic<lsn_t> durable_;  // written under order_; a sector's start, as is checkpoint_
  lsn_t checkpoint_;            // durable in a header; tail_ <= checkpoint_ + ring_bytes_
  // Straight entries.  Records up to proved_ count on the device even if their bytes change; told_ is proved_ once the
  // newest record is durable.
  lsn_t told_;
  lsn_t proved_;
  lsn_t last_straight_ = 0;                 // end of the newest record that has one
  std::unique_ptr<touched_pages> touched_;  // nullptr: not needed so far
  lsn_t touched_from_ = 0;                  // by records from this LSN on
  log_run left_;                            // by the last process; of the thread that set checkpointing_
  bool replay_left_;                        // left_ is not home yet
  bool first_write_done_ = false;           // of the one thread that writes first
  bool syncing_ = false;
  bool checkpointing_ = false;
  bool draining_ = false;  // an append waits for room; later ones queue after it
  // Of is_home(): as checkpoint_, nothing_home until the last process's run is home.
  static constexpr lsn_t nothing_home = ~lsn_t{0};
  std::atomic<lsn_t> home_lsn_{nothing_home};
  std::atomic<bool> wanted_home_{false};  // by bring_home_soon()
  bool lap_begun_;                        // E4 done, or not needed
  std::atomic<bool> poisoned_{false};     // written under order_
  char poison_reason_[256] = "";
  bool closed_ = false;  // under order_; all that was appended is home
  // Header last written; of the one thread that moves it (E4 comes before any checkpoint can begin).
  unsigned header_copy_;
  std::uint64_t header_sequence_;
  image_statistics counts_;
  std::atomic<std::uint64_t> other_syncs_{0};
};
static_assert(media<image_media>);

}  // namespace nvm
