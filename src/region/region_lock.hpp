// The lock of a region: one word of volatile memory (Lewat, section IV-F; holes V1 to V3 and R5 of docs/design/023).
//
// Readers take nothing: they read the version, the bytes, and the version again.  A reader that has lost often enough
// registers, and then no writer stores in place until it has gone.  A writer holds the region while it makes its
// change durable elsewhere, beside readers, and marks it as changing only while it stores home.
//
//   read-in-read    nothing is stored
//   read-in-write   good until the writer stores home
//   write-in-read   a writer holds the region beside readers; it waits for registered readers before it stores home,
//                   and keeps new ones out while it waits, so that neither starves
//
// The paper's locker is the same word with another way to read: every reader is counted, by a fetch-and-add at its
// beginning and one at its end (RL), and a writer that has waited for them for a while registers (the rest of the word
// is WL).  Both kinds of readers may use a region at once.
//
// Writers wait for each other outside of the lock (turns.hpp).  Threads of the pool's own hold a region for moments,
// and mark that: such a thread waits for no other, so a thread that meets it may wait, whatever it holds itself.
//
// A place may be leased (leases.hpp): then the word is marked until the region has another place, and writers store
// nothing where a lease may look.  A writer that stores home in place first makes sure that no lease begins meanwhile.
//
// The version counts, so that a state that comes again (ABA) is told from the earlier one.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "platform/platform.hpp"

namespace nvm::region {

class region_lock {
 public:
  // ---- readers ----

  // The word that end_read() compares with; waits while a writer stores home.
  [[nodiscard]] std::uint64_t begin_read() const noexcept {
    for (unsigned spins = 0;; ++spins) {
      // acquire: pairs with end_change(): the bytes that it left.
      const std::uint64_t word = word_.load(std::memory_order_acquire);
      if ((word & changing) == 0) return word & version_mask;
      wait(spins);
    }
  }
  // Whether all that was loaded since begin_read(), by loads that acquire, is of one moment.
  [[nodiscard]] bool end_read(std::uint64_t begun) const noexcept {
    // relaxed: the loads of the bytes acquire, and come before.
    return (word_.load(std::memory_order_relaxed) & (version_mask | changing)) == begun;
  }
  // From here to leave_reading() no writer stores home.
  void register_reader() noexcept {
    for (unsigned spins = 0;; ++spins) {
      std::uint64_t word = word_.load(std::memory_order_relaxed);
      // acquire: as in begin_read().
      if ((word & (changing | waiting)) == 0 && (word & readers_mask) != readers_mask &&
          word_.compare_exchange_weak(word, word + one_reader, std::memory_order_acquire, std::memory_order_relaxed)) {
        return;
      }
      wait(spins);
    }
  }
  // The same as in the paper: always counted, and taken back if a writer has registered or stores.
  void count_reader() noexcept {
    for (unsigned spins = 0;; ++spins) {
      // acquire: as in begin_read().
      if ((word_.fetch_add(one_reader, std::memory_order_acquire) & (changing | waiting)) == 0) return;
      word_.fetch_sub(one_reader, std::memory_order_relaxed);
      wait(spins);
    }
  }
  // release: pairs with the acquire in begin_change(): the reads come before.
  void leave_reading() noexcept { word_.fetch_sub(one_reader, std::memory_order_release); }

  // ---- writers ----

  // What keeps a thread from holding the region.
  enum class kept_by : std::uint8_t { nobody, transaction, moment };
  // nobody: the caller holds it now.  `in_turn`: also while writers wait that have waited long.
  [[nodiscard]] kept_by try_hold(bool in_turn = false) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & held) != 0) return (word & moment) != 0 ? kept_by::moment : kept_by::transaction;
      if ((word & wanted) != 0 && !in_turn) return kept_by::transaction;
      // acquire: pairs with let_go(): the state of the region as its last writer left it.
    } while (!word_.compare_exchange_weak(word, word | held, std::memory_order_acquire, std::memory_order_relaxed));
    return kept_by::nobody;
  }
  // For a thread that waits for no region until it has let go.
  [[nodiscard]] bool try_hold_for_a_moment() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    // acquire: as in try_hold().
    return (word & (held | wanted)) == 0 &&
           word_.compare_exchange_strong(word, word | held | moment, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  // From here on threads get it only in turn.  relaxed: a hint, which a waiting thread repeats.
  void want() noexcept { word_.fetch_or(wanted, std::memory_order_relaxed); }
  void want_no_longer() noexcept { word_.fetch_and(~wanted, std::memory_order_relaxed); }
  [[nodiscard]] bool is_wanted() const noexcept { return (word_.load(std::memory_order_relaxed) & wanted) != 0; }
  [[nodiscard]] bool is_held() const noexcept { return (word_.load(std::memory_order_relaxed) & held) != 0; }
  void let_go() noexcept { word_.fetch_and(~(held | moment | closed), std::memory_order_release); }

  // By the holder, before its first store home.  `patience`: looks in vain before it keeps new readers out.
  void begin_change(unsigned patience = 0) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (unsigned spins = 0;; ++spins) {
      if ((word & readers_mask) == 0) {
        // acquire: pairs with leave_reading().  The stores home release: a reader that sees one sees the mark.
        if (word_.compare_exchange_weak(word, (word & ~waiting) | changing, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
          return;
        }
        continue;
      }
      if ((word & waiting) == 0 && spins >= patience) word_.fetch_or(waiting, std::memory_order_relaxed);
      wait(spins);
      word = word_.load(std::memory_order_relaxed);
    }
  }
  // Called by the holder, which goes on holding it.  `moved`: the region has another place, which is not leased.
  void end_change(bool moved) noexcept {
    // No other thread sets or clears these bits meanwhile; others count readers, or want the region.
    const std::uint64_t lease = moved ? word_.load(std::memory_order_relaxed) & leased : 0;
    // release: pairs with begin_read(): the bytes.
    word_.fetch_add(one_version - changing - lease, std::memory_order_release);
  }

  // ---- leases ----

  // The word that end_lease() compares with; marks the place as leased.  Waits while a writer changes it in place.
  [[nodiscard]] std::uint64_t begin_lease() noexcept {
    for (unsigned spins = 0;; ++spins) {
      // acquire: as in begin_read().
      std::uint64_t word = word_.load(std::memory_order_acquire);
      if ((word & (changing | closed)) == 0 &&
          ((word & leased) != 0 ||
           word_.compare_exchange_strong(word, word | leased, std::memory_order_acquire, std::memory_order_relaxed))) {
        return (word & version_mask) | leased;
      }
      wait(spins);
    }
  }
  // Whether the place that was read since is still the region's; then it stays marked as long as it is.
  [[nodiscard]] bool end_lease(std::uint64_t begun) const noexcept {
    return (word_.load(std::memory_order_relaxed) & (version_mask | changing | closed | leased)) == begun;
  }
  [[nodiscard]] bool is_leased() const noexcept { return (word_.load(std::memory_order_relaxed) & leased) != 0; }
  // By the holder: until it lets go no lease begins.  False: the place is leased, and nothing has changed.
  [[nodiscard]] bool close_unless_leased() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & leased) != 0) return false;
    } while (!word_.compare_exchange_weak(word, word | closed, std::memory_order_relaxed, std::memory_order_relaxed));
    return true;
  }
  void close_to_leases() noexcept { word_.fetch_or(closed, std::memory_order_relaxed); }
  void open_to_leases() noexcept { word_.fetch_and(~closed, std::memory_order_relaxed); }
  // Called by the holder, which has closed it, when no lease of the place is left.
  void forget_leases() noexcept { word_.fetch_and(~leased, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t held = 1;
  static constexpr std::uint64_t waiting = 2;  // a writer waits for registered readers
  static constexpr std::uint64_t changing = 4;
  static constexpr std::uint64_t one_reader = 8;
  static constexpr std::uint64_t readers_mask = 0x3FFULL << 3;
  static constexpr std::uint64_t leased = std::uint64_t{1} << 13;
  static constexpr std::uint64_t closed = std::uint64_t{1} << 14;  // no lease begins
  static constexpr std::uint64_t moment = std::uint64_t{1} << 15;  // held by a thread of the pool's own
  static constexpr std::uint64_t wanted = std::uint64_t{1} << 16;  // by writers that have waited long
  static constexpr std::uint64_t one_version = std::uint64_t{1} << 17;
  static constexpr std::uint64_t version_mask = ~(one_version - 1);

  static void wait(unsigned spins) noexcept {
    if (spins < 64) {
      isa::spin_hint();
    } else {
      std::this_thread::yield();
    }
  }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace nvm::region
