// Machine: the memory that a subject runs on, and the listener to its stores, flushes and fences.
//
// One watched image.  Stores arrive from code compiled with the recording pass, flushes and fences from recorder<M>
// (media/recorder.hpp), block writes and syncs from a device.  While a trace is attached all of them are appended to
// it; always, the lines that were written are noted, so that the image can be put back by copying those lines only.
// Single thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "explore/trace.hpp"
#include "media/media.hpp"

namespace nvm::explore {

// A begin or an end of an operation, as the oracle of concurrent code wants it.
struct op_event {
  std::uint64_t op = 0;     // number of the operation, in order of beginning
  std::uint64_t value = 0;  // begin: the caller's word for it; end: its result
  std::uint8_t thread = 0;
  bool end = false;
};

class machine final : public record_sink {
 public:
  // `bytes` is a multiple of line_bytes; guard pages lie on both sides.  `at`: address to map at, or null for any.
  explicit machine(std::size_t bytes, void* at = nullptr);
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  // ---- for subjects ---------------------------------------------------------------------------------------------
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  // A medium without cost that reports every call; or wrap another in recorder<M>{m, sink()}.
  [[nodiscard]] recorder<ordered_media>& media() noexcept { return media_; }
  [[nodiscard]] record_sink& sink() noexcept { return *this; }

  // An operation of run(): between begin and end its effect may be there or not; after the end it must be.
  void op_begin(std::uint64_t what = 0);
  void op_end(std::uint64_t result = 0);
  // With options::promise_at_op_end off: everything that has ended by now must survive (a sync returned).
  void promise();
  // Crashes are explored only from here on: earlier ones were explored in another run.
  void explore_from_here() noexcept { explored_from_ = into_ != nullptr ? into_->events.size() : 0; }
  [[nodiscard]] std::size_t explored_from() const noexcept { return explored_from_; }
  // The logical thread of the events that follow; write-backs and fences are per thread.
  void thread(unsigned number) noexcept { thread_ = static_cast<std::uint8_t>(number); }
  [[nodiscard]] unsigned thread() const noexcept { return thread_; }

  // Statements for the trace rules; without any, those rules are silent.
  void tx_begin() { append_mark(mark::tx_begin, nullptr, 0); }
  void tx_end() { append_mark(mark::tx_end, nullptr, 0); }
  void logged(const void* p, std::size_t bytes) { append_mark(mark::logged, p, bytes); }
  void fresh(const void* p, std::size_t bytes) { append_mark(mark::fresh, p, bytes); }

  // A block device over this image: the bytes of [offset, offset + bytes) have just been written, are now synced.
  void block_write(std::uint64_t offset, std::size_t bytes, site from = site::here());
  void block_sync(edge e);

  // record_sink
  void flush(const void* p, std::size_t bytes, site where) noexcept override;
  void fence(edge e) noexcept override;
  void publish(std::span<const recorded_range>, edge, lsn_t, errc) noexcept override {}
  void durable_begin(lsn_t) noexcept override {}
  void durable_end(lsn_t, errc) noexcept override {}

  // ---- for the explorer -----------------------------------------------------------------------------------------
  void record_into(trace* t) noexcept { into_ = t; }
  // Operations are numbered from 0 again, and crashes explored from the start.
  void forget_run() noexcept {
    ops_begun_ = 0;
    explored_from_ = 0;
    thread_ = 0;
    delayed_.clear();
  }
  [[nodiscard]] trace* recording() const noexcept { return into_; }
  // Takes stores of instrumented code as events (false: only block writes count), and write-back and fence
  // instructions too (false: only what comes through recorder<M>).
  void listen(bool stores, bool instructions) noexcept {
    stores_ = stores;
    instructions_ = instructions;
  }
  void attach();
  void detach();
  [[nodiscard]] place_table& places() noexcept { return places_; }
  [[nodiscard]] const place_table& places() const noexcept { return places_; }

  // Lines written since forget_touched(), each once.
  [[nodiscard]] std::span<const std::uint32_t> touched() const noexcept { return {touched_.data(), touched_count_}; }
  void forget_touched() noexcept {
    touched_count_ = 0;
    ++generation_;
    if (generation_ == 0) restart_generation(stamp_, generation_);
  }
  void touch(std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t last = (offset + bytes - 1) / line_bytes;
    for (std::uint64_t line = offset / line_bytes; line <= last; ++line) {
      if (stamp_[line] == generation_) continue;
      stamp_[line] = generation_;
      touched_[touched_count_++] = static_cast<std::uint32_t>(line);
    }
  }
  // Reads of instrumented code since forget_reads(), by line; only with the plugin that records loads.
  void track_reads(bool on) noexcept { track_reads_ = on; }
  void forget_reads() noexcept {
    if (++read_generation_ == 0) restart_generation(read_stamp_, read_generation_);
  }
  [[nodiscard]] bool was_read(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    for (std::uint64_t line = offset / line_bytes; line <= (offset + bytes - 1) / line_bytes; ++line) {
      if (read_stamp_[line] == read_generation_) return true;
    }
    return false;
  }
  // Called for each read while reads are tracked, unless null.
  std::function<void(std::uint64_t offset, std::uint64_t bytes, const nvm_rec_site* where)> on_read;

  // Called when a step limit is reached; does not return.
  void (*on_step_limit)() = nullptr;
  // Called where another thread may run first: before an atomic access (with the plugin that records loads), before a
  // flush and before a fence; and, `tired`, after a number of steps without any of these.
  struct switcher {
    void* self = nullptr;
    void (*call)(void* self, bool tired) = nullptr;
  };
  void switch_at_accesses(switcher s) noexcept { switcher_ = s; }
  // A place in the subject's code where another thread may run: for locks of its own.
  void yield() noexcept {
    if (switcher_.call != nullptr) switcher_.call(switcher_.self, false);
  }

 private:
  static void store_hook(void* self, const void* p, std::size_t bytes, const nvm_rec_site* where);
  static void rmw_hook(void* self, const void* p, std::size_t bytes, const nvm_rec_site* where);
  static void flush_hook(void* self, const void* p, const nvm_rec_site* where);
  static void fence_hook(void* self, const nvm_rec_site* where);
  static void access_hook(void* self, const void* p, const nvm_rec_site* where);
  static void load_hook(void* self, const void* p, std::size_t bytes, const nvm_rec_site* where);
  static void step_hook(void* self);

  void append_store(std::uint64_t offset, std::uint32_t bytes, const nvm_rec_site* where);
  void append_mark(mark m, const void* p, std::size_t bytes);
  std::uint64_t copy_words(std::uint64_t offset, std::uint64_t bytes);
  void append_flush(const void* p, std::size_t bytes, const char* file, std::uint32_t line);
  void append_fence(const char* name, event_kind kind);
  static void restart_generation(std::vector<std::uint32_t>& stamps, std::uint32_t& generation) noexcept;

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  trace* into_ = nullptr;
  bool stores_ = true;
  bool instructions_ = false;
  std::uint8_t thread_ = 0;
  std::vector<std::uint32_t> stamp_;
  std::vector<std::uint32_t> touched_;
  std::size_t touched_count_ = 0;
  std::uint32_t generation_ = 1;
  std::vector<std::uint32_t> read_stamp_;
  std::uint32_t read_generation_ = 1;
  bool track_reads_ = false;
  switcher switcher_;
  std::uint64_t ops_begun_ = 0;
  std::size_t explored_from_ = 0;
  std::array<std::uint64_t, 256> op_of_thread_{};
  std::vector<event> delayed_;
  place_table places_;
  ordered_media null_;
  recorder<ordered_media> media_;
};

}  // namespace nvm::explore
