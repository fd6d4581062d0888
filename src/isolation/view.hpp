// View that one transaction has of shared memory: always the state at one version, its snapshot (LSA, as in TinySTM).
//
// load()  takes a value if the line's orec is unlocked and no newer than the snapshot, before and after.  A newer orec
//         extends the snapshot to now, which holds if nothing read so far has changed.  So every value fits every other
//         one at the moment it is returned, also in a transaction that will be rolled back later.
// lock()  at the first write to a line (encounter time), if the line is no newer than the snapshot.
// commit  draw a version; the reads must still hold, unless no other version was drawn since the snapshot; write home;
//         unlock(version).
//
// Conflicts are answers, not jumps.  A transaction without locks waits a while for a lock of another thread; one that
// holds locks gives up soon, since the other may be waiting for it.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/base.hpp"
#include "base/inlining.hpp"
#include "isolation/orec.hpp"
#include "isolation/participants.hpp"
#include "isolation/shared_memory.hpp"
#include "isolation/version_clock.hpp"

namespace nvm::isolation {

enum class seen : std::uint8_t {
  ok,
  mine,      // this transaction writes the line, nothing was read
  conflict,  // roll back
};

class view {
 public:
  explicit view(participant& who) : who_{who}, reads_(reads_first), locks_(locks_first) {}

  // The thread has entered.
  void begin() noexcept {
    limit_ = limit_of(version_clock::of_process().now());
    used_ = 0;
    last_ = nullptr;
    held_ = 0;
  }
  // Every later read or lock is a conflict. Earlier reads stay known, for something_changed().
  void end() noexcept { limit_ = 0; }
  [[nodiscard]] bool open() const noexcept { return limit_ != 0; }
  [[nodiscard]] bool has_read() const noexcept { return used_ != 0; }
  [[nodiscard]] bool has_locks() const noexcept { return held_ != 0; }

  // Loads *p, which is aligned, if nothing is in the way; false: nothing was done.
  template <class T>
  [[nodiscard, NVM_INLINE]] bool load_quickly(const T* p, T& out) noexcept {
    orec& o = orec_of_line(line_of(p));
    // acquire: pairs with the release in unlock(): a thread that sees a version sees the stores made under it.
    const std::uint64_t before = o.load(std::memory_order_acquire);
    if (orec_word::locked(before) || before >= limit_) return false;
    const T value = load_shared(p);
    // relaxed: after the value, by the acquire there.
    if (o.load(std::memory_order_relaxed) != before || !note_quickly(o, before)) return false;
    out = value;
    return true;
  }
  // *p, which is aligned.  May throw std::bad_alloc.
  template <class T>
  [[nodiscard, NVM_INLINE]] seen load(const T* p, T& out) {
    if (load_quickly(p, out)) [[likely]] {
      return seen::ok;
    }
    return read_slowly(orec_of_line(line_of(p)), p, sizeof(T), &out);
  }

  // n bytes inside one line.  May throw std::bad_alloc.
  [[nodiscard]] seen read(const void* p, std::size_t n, void* out) {
    return read_slowly(orec_of_line(line_of(p)), p, n, out);
  }

  // Reads memory of orec `o` by take(), which may be called several times.
  template <class Take>
  [[nodiscard]] seen read_under(orec& o, Take&& take) {
    while (open()) {
      const std::uint64_t before = o.load(std::memory_order_acquire);
      if (orec_word::locked(before)) {
        if (orec_word::locked_by(before, who_.number())) return seen::mine;
        if (!outwait(o, before)) return seen::conflict;
      } else if (before >= limit_) {
        if (!extend()) return seen::conflict;
      } else {
        take();
        // acquire: take() need not end with an acquiring load.
        std::atomic_signal_fence(std::memory_order_acq_rel);
        if (o.load(std::memory_order_acquire) == before) {
          note(o, before);
          return seen::ok;
        }
      }
    }
    return seen::conflict;
  }

  // Reads the lines [first, last] at once by take(), if they are few and nothing is in the way. False: what take()
  // read, if anything, does not count.  May throw std::bad_alloc.
  template <class Take>
  [[nodiscard]] bool read_lines_quickly(std::uint64_t first, std::uint64_t last, Take&& take) {
    constexpr std::uint64_t lines_at_once = 32;
    if (last - first >= lines_at_once) return false;
    const std::size_t count = last - first + 1;
    std::uint64_t before[lines_at_once];
    for (std::size_t i = 0; i < count; ++i) {
      before[i] = orec_of_line(first + i).load(std::memory_order_acquire);
      if (orec_word::locked(before[i]) || before[i] >= limit_) return false;
    }
    take();
    // acquire: take() need not end with an acquiring load.
    std::atomic_signal_fence(std::memory_order_acq_rel);
    for (std::size_t i = 0; i < count; ++i) {
      if (orec_of_line(first + i).load(std::memory_order_acquire) != before[i]) return false;
    }
    for (std::size_t i = 0; i < count; ++i) note(orec_of_line(first + i), before[i]);
    return true;
  }

  // True: this transaction holds the lock.  False: lock() may get it.
  [[nodiscard, NVM_INLINE]] bool lock_quickly(orec& o) noexcept {
    // acquire: what was written under the version found.
    const std::uint64_t w = o.load(std::memory_order_acquire);
    if (orec_word::locked_by(w, who_.number())) return true;
    if (orec_word::locked(w) || w >= limit_ || held_ == locks_.size()) return false;
    bool taken = false;
    (void)who_.in_peace([&] { taken = take_alone(o, w); });
    return taken;
  }
  // False: conflict.  May throw std::bad_alloc, holding no new lock.
  [[nodiscard, NVM_INLINE]] bool lock(orec& o) { return lock_quickly(o) || lock_slowly(o); }

  // Whether everything read is unchanged, and unlocked or locked by this transaction.
  [[nodiscard]] bool holds() const noexcept {
    if (planted(plant::reads_not_validated)) return true;
    for (std::size_t i = 0; i < used_; ++i) {
      const entry& e = reads_[i];
      const std::uint64_t w = e.word->load(std::memory_order_acquire);
      if (w == e.version) continue;
      if (!orec_word::locked_by(w, who_.number()) || locks_[orec_word::lock_of(w)].version != e.version) return false;
    }
    return true;
  }
  // Moves the snapshot to now.  False: conflict.
  [[nodiscard]] bool extend() noexcept {
    const std::uint64_t now = version_clock::of_process().now();
    if (!holds()) return false;
    limit_ = limit_of(now);
    who_.look_from(now);
    participant::counters::add(who_.count.extensions);
    return true;
  }
  // Whether to commit with a version that was drawn while all locks were held.
  [[nodiscard]] bool may_commit(std::uint64_t version) const noexcept {
    return limit_ == limit_of(version - 1) || holds();
  }

  // Releases all locks: the stores are home, as of this version.
  void unlock(std::uint64_t version) noexcept {
    // release: pairs with the acquire of the next thread that reads the line.
    for (std::size_t i = 0; i < held_; ++i) {
      locks_[i].word->store(orec_word::of_version(version), std::memory_order_release);
    }
    held_ = 0;
  }
  // Releases all locks: nothing was written home.
  void unlock_unchanged() noexcept {
    for (std::size_t i = 0; i < held_; ++i) locks_[i].word->store(locks_[i].version, std::memory_order_release);
    held_ = 0;
  }

  // Whether some line that was read has another version by now; for a transaction that has released its locks.
  [[nodiscard]] bool something_changed() const noexcept {
    for (std::size_t i = 0; i < used_; ++i) {
      if (reads_[i].word->load(std::memory_order_acquire) != reads_[i].version) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t reads_first = 1024;
  static constexpr std::size_t locks_first = 64;

  struct entry {
    orec* word;
    std::uint64_t version;  // the word, unlocked
  };
  struct held {
    orec* word;
    std::uint64_t version;  // the word before it was locked
  };

  static constexpr std::uint64_t limit_of(std::uint64_t version) noexcept { return orec_word::of_version(version) + 1; }

  // False: there is no room.
  [[nodiscard, NVM_INLINE]] bool note_quickly(orec& o, std::uint64_t word) noexcept {
    // Programs read one object after the other: the line read last is often the next one too.
    if (last_ == &o) return true;
    if (used_ == reads_.size()) return false;
    last_ = &o;
    reads_[used_++] = {&o, word};
    return true;
  }
  void note(orec& o, std::uint64_t word) {
    if (note_quickly(o, word)) return;
    reads_.resize(reads_.size() * 2);
    (void)note_quickly(o, word);
  }
  // Locks the word for a thread that is alone inside; there is room. False: the word has changed since.
  [[nodiscard, NVM_INLINE]] bool take_alone(orec& o, std::uint64_t w) noexcept {
    if (o.load(std::memory_order_relaxed) != w) return false;
    o.store(orec_word::of_lock(who_.number(), held_), std::memory_order_relaxed);
    locks_[held_++] = {&o, w};
    return true;
  }

  [[gnu::noinline]] seen read_slowly(orec& o, const void* p, std::size_t n, void* out);
  [[gnu::noinline]] bool lock_slowly(orec& o);
  // Waits for another transaction's lock; false: still locked after a long wait.
  [[nodiscard]] bool outwait(const orec& o, std::uint64_t locked) const noexcept;

  participant& who_;
  // The snapshot, as the first word beyond it: unlocked words below are versions that belong to it. 0: no snapshot is
  // open.
  std::uint64_t limit_ = 0;
  const orec* last_ = nullptr;
  std::size_t used_ = 0;
  std::vector<entry> reads_;
  std::size_t held_ = 0;
  std::vector<held> locks_;
};

}  // namespace nvm::isolation
