// A barrier transaction: a view of shared memory (isolation/) composed with a transaction of a pool's engine (tx/).
//
// Write-back, if the engine or the program asks for it: stores stay in the write set.
//   1. lock the line's orec at the first store to it
//   2. commit: engine.enter_commit(lines), draw a version, the reads still hold, engine.commit_lines(), volatile
//      lines home, unlock(version)
// Write-through otherwise: the engine keeps old bytes.
//   1. lock the line's orec, engine.announce(), store in place
//   2. commit: draw a version, the reads still hold, engine.commit(), unlock(version)
//   3. roll back: engine.abort() puts old bytes back, unlock(a new version), since other threads may have loaded the
//      bytes in between and found them locked
// Volatile memory is stored in place in a write-through transaction, with the old bytes kept here, and buffered in a
// write-back one.  A transaction that runs alone is write-through wherever the engine lets it: code without barriers
// sees what it has stored.  The engine's transaction begins with the first durable store, allocation or free; a
// transaction that only reads takes no lane and no lock.
//
// An object that this transaction has allocated is private to it: stores go in place, without orecs, and are undone
// only if the object is older than the level that is rolled back.  A freed object is locked line by line.  So a
// transaction that still sees it learns from the version that it was freed; reuse stores in place and needs no locks.
//
// Levels: a savepoint costs nothing until something is written in it.  Rolling back an inner level keeps its locks and
// its reads.
//
// Answers: `conflict` means that the caller has to roll everything back and start again; `failed` that it has to roll
// the innermost level back, and failure() says why.
// Threads: one, that of the participant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/inlining.hpp"
#include "isolation/isolation.hpp"
#include "nvm/nvm.h"
#include "stm/durable_side.hpp"
#include "tx/face.hpp"

namespace nvm::stm {

enum class verdict : std::uint8_t { done, conflict, failed };

// Hooks of the program, of which the engine's transaction knows nothing.
using tx::hook;

class transaction {
 public:
  explicit transaction(isolation::participant& who) : who_{who}, view_{who}, limbo_{who}, back_off_{who.number() + 1} {}
  ~transaction() = default;
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  // ---- life ----

  // The outermost level of an attempt; attempts of a series are counted.  `side` nullptr: volatile memory only.
  [[nodiscard, NVM_INLINE]] verdict begin(durable_side* side) {
    if (++series_.attempts > 1 || series_.wants_serial || side == nullptr ||
        side->engine_policy.load(std::memory_order_relaxed) == policy::unknown) {
      return begin_carefully(side);
    }
    write_back_ = side->wants_write_back();
    translates_ = side->translates();
    who_.enter(side);
    has_entered(side);
    return verdict::done;
  }
  // Begins an inner level, a savepoint. If the transaction has no pool yet, `side` becomes its pool.
  [[nodiscard]] verdict begin_level(durable_side* side);
  [[nodiscard]] unsigned depth() const noexcept { return static_cast<unsigned>(levels_.size()); }
  [[nodiscard]] durable_side* side() const noexcept { return side_; }

  // Ends the outermost level.  On `failed` everything was rolled back, on `conflict` nothing yet. On `done` everything
  // is visible, and it is durable when finish_wait(last()) has returned success.
  [[nodiscard]] verdict commit();
  // What is still to be waited for after the transaction that has just ended.
  struct ended {
    durable_side* side = nullptr;
    lsn_t lsn = 0;
    bool changed = false;       // it did, and the LSN is its own
    std::uint64_t version = 0;  // 0: no wait for quiescence
  };
  [[nodiscard]] const ended& last() const noexcept { return ended_; }
  // Waits until all that the transaction did and saw is durable; if that was asked for, also until no other transaction
  // can read the memory that it made private.
  [[nodiscard]] status finish_wait(const ended& e) noexcept;
  [[nodiscard]] verdict commit_level();
  void roll_back_level() noexcept;
  // Rolls everything back; the thread is outside afterwards.
  enum class reason : std::uint8_t { conflict, retry, left };
  void roll_back(reason why) noexcept;
  // The series of attempts is over.
  void end_series() noexcept {
    if (series_.attempts != 0 || series_.wants_serial) series_ = {};
  }
  // State of the series, for a hook that runs transactions of its own between two attempts.
  struct series {
    unsigned attempts = 0;
    bool wants_serial = false;
  };
  [[nodiscard]] series interrupt_series() noexcept { return std::exchange(series_, series{}); }
  void resume_series(const series& s) noexcept { series_ = s; }
  // Between roll_back(conflict or retry) and begin().
  void wait_before_next_attempt() noexcept;
  // After roll_back(retry): until something that the transaction read has changed.
  void wait_for_change() noexcept;

  // From now on no conflict rolls it back. `conflict`: it has to start again first.
  [[nodiscard]] verdict become_irrevocable();
  [[nodiscard]] bool irrevocable() const noexcept { return who_.alone(); }
  // Everything written so far is at home.
  [[nodiscard]] bool in_place() const noexcept { return !write_back_; }
  void privatise() noexcept { privatises_ = true; }

  // ---- memory ----

  // Loads *p, aligned, if nothing is in the way; false: nothing was done, and load() may succeed.
  template <class T>
  [[nodiscard, NVM_INLINE]] bool load_quickly(const T* p, T& out) noexcept {
    return !translates_ && isolation::is_aligned(p) && view_.load_quickly(p, out);
  }
  // Puts *p = value into the write set, likewise; write() may succeed.
  template <class T>
  [[nodiscard, NVM_INLINE]] bool store_quickly(T* p, T value) noexcept {
    if (!buffers_ || !isolation::is_aligned(p) || !side_->surely_in_data(p)) return false;
    return writes_.put_quickly(p, value,
                               [&] { return view_.lock_quickly(isolation::orec_of_line(isolation::line_of(p))); });
  }
  template <class T>
  [[nodiscard]] verdict store(T* p, T value) {
    if (write_back_ && engine_ == nullptr && side_ != nullptr && side_->holds(p)) {
      // The first store.
      if (verdict a = begin_engine(); a != verdict::done) return a;
      if (store_quickly(p, value)) return verdict::done;
    }
    return write(p, &value, sizeof value);
  }
  // *p, aligned.
  template <class T>
  [[nodiscard]] verdict load(const T* p, T& out) {
    if (translates_) return read(&out, p, sizeof out);
    const isolation::seen s = view_.load(p, out);
    return s == isolation::seen::ok ? verdict::done : load_own(s, p, sizeof(T), &out);
  }
  [[nodiscard]] verdict read(void* to, const void* from, std::size_t n);
  [[nodiscard]] verdict write(void* to, const void* from, std::size_t n);
  // The same, with a word after it: one piece, whose lines are locked and announced once.
  [[nodiscard]] verdict write_with_word(void* to, const void* from, std::size_t n, std::uint64_t last);
  // Announces bytes that will be stored plainly; only if the transaction is in place.
  [[nodiscard]] verdict announce(const void* p, std::size_t n);
  // Stores to these bytes will follow: in a write-through transaction all are announced at once.
  [[nodiscard]] verdict expect(const nvm_range* ranges, std::size_t count);
  [[nodiscard]] verdict copy(void* to, const void* from, std::size_t n);
  [[nodiscard]] verdict fill(void* to, int byte, std::size_t n);
  // memcmp(shared, mine, n)
  [[nodiscard]] verdict compare(const void* shared, const void* mine, std::size_t n, int& out);

  // Objects of the pool.
  [[nodiscard]] verdict allocate(std::uint32_t type, std::size_t bytes, std::size_t alignment, void*& out);
  // The same in an object store.  errc::invalid: that attachment of it has ended.
  [[nodiscard]] verdict allocate_in(const store_attachment& store, std::uint32_t type, std::size_t bytes, void*& out);
  // Volatile memory, from malloc().
  [[nodiscard]] verdict allocate_volatile(std::size_t bytes, void*& out);
  // Either kind.
  [[nodiscard]] verdict free(void* p);
  // Sets a word of the anchors, for example the root.
  [[nodiscard]] verdict set_anchor(anchor_word which, void* object);
  [[nodiscard]] verdict anchor(anchor_word which, void*& out);

  [[nodiscard]] verdict on(int event, void (*call)(), void* argument);
  // Whether hooks are due, of any event: those of the ended transaction, or of the level that was rolled back.
  [[nodiscard]] bool has_hooks() const noexcept { return !due_.empty(); }
  [[nodiscard]] std::vector<hook> take_hooks() noexcept { return std::move(due_); }

  // ---- failure ----

  [[nodiscard]] errc failure() const noexcept { return failure_; }
  // The innermost level can only be rolled back.
  verdict fails(errc code) noexcept {
    failure_ = code;
    return verdict::failed;
  }
  // As fails(), but the program goes on: its commit will fail likewise.
  verdict doom(errc code) noexcept { return fails(doomed_.note(code, depth())); }
  // As doom(), also if something has failed before: that failure came from reads that cannot be believed.
  verdict doom_anew(errc code) noexcept {
    doomed_.clear();
    return doom(code);
  }
  // errc::ok: the innermost level may commit.
  [[nodiscard]] const tx::first_failure& doomed() const noexcept { return doomed_; }

 private:
  struct level {
    isolation::journal::mark journal{};
    isolation::journal::mark fresh_journal{};
    isolation::write_set::mark writes = 0;
    std::size_t fresh_volatile = 0;
    std::size_t freed_volatile = 0;
    std::size_t hooks = 0;
  };
  // The open levels.  The outermost one begins without a look at memory: it is always the same.
  class level_stack {
   public:
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] level& back() noexcept { return of_[size_ - 1]; }
    void begin() noexcept { size_ = 1; }
    // May throw std::bad_alloc.
    void push_back(const level& l) {
      if (size_ == of_.size()) of_.resize(2 * size_);
      of_[size_++] = l;
    }
    void pop_back() noexcept { --size_; }
    void clear() noexcept { size_ = 0; }

   private:
    std::vector<level> of_ = std::vector<level>(8);
    std::size_t size_ = 0;
  };
  struct fresh_object {
    std::uintptr_t begin, end;
    unsigned level;
  };

  [[nodiscard]] bool runs_alone() const noexcept {
    return series_.wants_serial || series_.attempts > attempts_before_serial;
  }
  [[nodiscard]] verdict begin_carefully(durable_side* side);
  [[nodiscard]] verdict ask_engine(durable_side* side);
  // Sets write_back_.
  [[nodiscard]] verdict learn_policy(durable_side* side);
  void has_entered(durable_side* side) {
    view_.begin();
    side_ = side;
    levels_.begin();
    doomed_.clear();
  }
  [[nodiscard]] bool outermost() const noexcept { return levels_.size() == 1; }
  // 0: not inside an object that this transaction has allocated.
  [[nodiscard]] unsigned level_of_fresh(const void* p, std::size_t n) noexcept;
  [[nodiscard]] verdict lock_lines(const void* p, std::size_t n);
  // Adds the durable bytes of the range that are not fresh to expected_, to be announced.
  [[nodiscard]] verdict expect_one(const void* p, std::size_t n);
  // Makes [p, p + n) ready for put(): locked, and where stores go in place, announced.
  enum class place : std::uint8_t { home, buffer_durable, buffer_volatile };
  [[nodiscard]] verdict prepare(void* p, std::size_t n, place& where);
  // Whether a transaction of this pool may store there; `born` is the level of the fresh object around it, or 0.
  [[nodiscard]] verdict find_place(void* p, std::size_t n, bool& durable, unsigned& born);
  [[nodiscard]] verdict lock_and_announce(void* p, std::size_t n, bool durable, place& where);
  [[nodiscard]] verdict put(void* p, const void* from, std::size_t n, place where);
  [[nodiscard]] verdict load_own(isolation::seen s, const void* p, std::size_t n, void* out);
  void read_own(const void* p, std::size_t n, void* out) noexcept;
  // Whether these are virtual addresses: of a pool that has such, and not in objects of this transaction.
  [[nodiscard]] bool is_virtual(const void* p, std::size_t n) noexcept {
    return translates_ && side_->holds(p) && (fresh_.empty() || level_of_fresh(p, n) == 0);
  }
  [[nodiscard]] verdict read_virtual(void* to, const void* from, std::size_t n);
  // The engine's transaction, with as many levels as this one.
  [[nodiscard]] verdict engine(tx::open_transaction*& out);
  [[nodiscard]] verdict begin_engine();
  [[nodiscard]] verdict in_pool(const void* p, std::size_t n);
  void add_fresh(void* p, std::size_t bytes);
  // Called after a change of any of these.
  void find_out_whether_it_buffers() noexcept {
    buffers_ = write_back_ && engine_ != nullptr && !logs_each_store_ && outermost() && fresh_.empty();
  }
  [[nodiscard]] verdict made(const result<std::uint64_t>& payload, std::uint32_t type, std::size_t bytes, void*& out);
  [[nodiscard]] bool forget_readers(const void* p, std::size_t bytes) noexcept;
  [[nodiscard]] verdict commit_in_engine(std::uint64_t& version, lsn_t& lsn);
  void take_level_back(bool engine_too) noexcept;
  void hooks_are_due(std::size_t from) noexcept {
    if (!hooks_.empty() || !due_.empty()) some_hooks_are_due(from);
  }
  void some_hooks_are_due(std::size_t from) noexcept;
  // Nothing of the transaction is left; the thread goes outside.
  void leave() noexcept;

  static constexpr unsigned attempts_before_serial = 12;

  isolation::participant& who_;
  isolation::view view_;
  isolation::write_set writes_;
  isolation::journal journal_;        // volatile memory, stored in place
  isolation::journal fresh_journal_;  // objects of outer levels, stored in place by inner ones
  isolation::limbo limbo_;
  isolation::back_off back_off_;
  durable_side* side_ = nullptr;
  tx::open_transaction* engine_ = nullptr;
  bool logs_each_store_ = false;  // engine_ does
  bool write_back_ = false;
  bool translates_ = false;        // side_ does
  home_reader* reader_ = nullptr;  // nullptr: not asked for yet
  bool buffers_ = false;           // stores to the pool all go into the write set
  bool stored_in_place_ = false;   // under a lock
  bool privatises_ = false;
  series series_;
  errc failure_ = errc::ok;
  tx::first_failure doomed_;  // of an open level and those inside it
  level_stack levels_;
  std::vector<fresh_object> fresh_;  // by ascending address
  std::size_t last_fresh_ = 0;
  std::vector<void*> fresh_volatile_;
  std::vector<void*> freed_volatile_;
  std::vector<log::byte_range> expected_;
  std::vector<hook> hooks_;
  std::vector<hook> due_;
  std::vector<hook> no_hooks_;  // given to the engine, which runs none
  ended ended_;
};

}  // namespace nvm::stm
