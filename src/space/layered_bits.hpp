// Which pages are in use, and which are being worked on, in layers of bits: one for each page, chunk and group (Lewat,
// section III-C).
//
//   layered bitmap    pages in use; higher bits sum up the 64 below: a chunk or group of which all are used, a chunk of
//                     which any is
//   layered lock map  pages that a request works on; a bit of a chunk is no sum: the thread that sets it works on all
//                     of the chunk; one store sets up to 64 of them
//
// Sums.  Any thread changes any bit of the lowest layer by one atomic read-modify-write; that bit alone decides.  The
// thread whose change alters a sum of a word brings the layer above up to date, and looks at the word again afterwards.
// So a higher bit is a hint while its word changes, and exact when no thread is at work: the last thread that wrote it
// has seen the word after writing, and a later change of the word writes it again.  Whole chunks change by a store each
// and one read-modify-write of each word above, by a thread that has claimed them.
//
// Locks.  Requests inside a chunk lock pages, then look whether the chunk is claimed; requests of whole chunks claim
// these, then look whether a page of them is locked.  Both are sequentially consistent: at least one of two that meet
// sees the other, and steps back.  Nobody waits for a lock while it holds another.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "pool/pool.hpp"
#include "space/sparse_array.hpp"

namespace nvm {

inline constexpr unsigned bits_per_word = 64;
static_assert(layout::pages_per_chunk == bits_per_word && layout::chunks_per_group == bits_per_word);

struct sum_is_all {
  static bool of(std::uint64_t word) noexcept { return word == ~std::uint64_t{0}; }
};
struct sum_is_any {
  static bool of(std::uint64_t word) noexcept { return word != 0; }
};

// Brings bit `bit` of the upper word up to date with the lower word.  Returns whether it wrote; the caller sums the
// written word up in turn.
template <class Sum>
inline bool sum_up(std::atomic_ref<std::uint64_t> lower, std::atomic_ref<std::uint64_t> upper, unsigned bit) noexcept {
  const std::uint64_t mask = std::uint64_t{1} << bit;
  bool wrote = false;
  for (;;) {
    const bool sum = Sum::of(lower.load(std::memory_order_seq_cst));
    const bool is = (upper.load(std::memory_order_seq_cst) & mask) != 0;
    if (sum != is) {
      sum ? upper.fetch_or(mask, std::memory_order_seq_cst) : upper.fetch_and(~mask, std::memory_order_seq_cst);
      wrote = true;
    }
    if (Sum::of(lower.load(std::memory_order_seq_cst)) == sum) return wrote;
  }
}

class layered_bitmap {
 public:
  explicit layered_bitmap(std::uint64_t pages) noexcept
      : pages_{ceil_div(pages, 64)},
        full_{ceil_div(pages, 64 * 64)},
        full_groups_{ceil_div(pages, 64 * 64 * 64)},
        used_{ceil_div(pages, 64 * 64)} {}
  [[nodiscard]] bool exists() const noexcept {
    return pages_.exists() && full_.exists() && full_groups_.exists() && used_.exists();
  }

  // The 64 page bits of a chunk.  acquire: pairs with set() and clear(): what a thread did with pages before it gave
  // them up is done.
  [[nodiscard]] std::uint64_t word(std::uint64_t chunk) const noexcept {
    return pages_[chunk].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool chunk_bit(std::uint64_t chunk) const noexcept {
    return (group_word(chunk / 64) >> chunk % 64 & 1) != 0;
  }
  // The 64 chunk bits of a group: chunks with all pages in use, and chunks with any page in use.
  [[nodiscard]] std::uint64_t group_word(std::uint64_t group) const noexcept {
    return full_[group].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t used_chunks(std::uint64_t group) const noexcept {
    return used_[group].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool group_bit(std::uint64_t group) const noexcept {
    return (full_groups_[group / 64].load(std::memory_order_relaxed) >> group % 64 & 1) != 0;
  }

  // Both return the word as it was before.  seq_cst throughout: sum_up() relies on the order of its write and re-read.
  std::uint64_t set(std::uint64_t chunk, std::uint64_t mask) noexcept {
    const std::uint64_t old = pages_[chunk].fetch_or(mask, std::memory_order_seq_cst);
    sum_chunk(chunk, old, old | mask);
    return old;
  }
  std::uint64_t clear(std::uint64_t chunk, std::uint64_t mask) noexcept {
    const std::uint64_t old = pages_[chunk].fetch_and(~mask, std::memory_order_seq_cst);
    sum_chunk(chunk, old, old & ~mask);
    return old;
  }
  // The same for all pages of chunks of one group that the caller has claimed.
  void set_whole(std::uint64_t group, std::uint64_t chunks) noexcept {
    store_pages(group, chunks, ~std::uint64_t{0});
    used_[group].fetch_or(chunks, std::memory_order_seq_cst);
    full_[group].fetch_or(chunks, std::memory_order_seq_cst);
    sum_up<sum_is_all>(full_[group], full_groups_[group / 64], group % 64);
  }
  void clear_whole(std::uint64_t group, std::uint64_t chunks) noexcept {
    store_pages(group, chunks, 0);
    used_[group].fetch_and(~chunks, std::memory_order_seq_cst);
    full_[group].fetch_and(~chunks, std::memory_order_seq_cst);
    sum_up<sum_is_all>(full_[group], full_groups_[group / 64], group % 64);
  }

 private:
  void store_pages(std::uint64_t group, std::uint64_t chunks, std::uint64_t word) noexcept {
    for (; chunks != 0; chunks &= chunks - 1) {
      // release: pairs with word().
      pages_[group * 64 + static_cast<unsigned>(std::countr_zero(chunks))].store(word, std::memory_order_release);
    }
  }
  void sum_chunk(std::uint64_t chunk, std::uint64_t old, std::uint64_t now) noexcept {
    if (sum_is_any::of(old) != sum_is_any::of(now)) sum_up<sum_is_any>(pages_[chunk], used_[chunk / 64], chunk % 64);
    if (sum_is_all::of(old) == sum_is_all::of(now)) return;
    if (sum_up<sum_is_all>(pages_[chunk], full_[chunk / 64], chunk % 64)) {
      sum_up<sum_is_all>(full_[chunk / 64], full_groups_[chunk / 64 / 64], chunk / 64 % 64);
    }
  }

  sparse_array<std::uint64_t> pages_;
  sparse_array<std::uint64_t> full_;
  sparse_array<std::uint64_t> full_groups_;
  sparse_array<std::uint64_t> used_;
};

class layered_lock_map {
 public:
  explicit layered_lock_map(std::uint64_t pages) noexcept
      : pages_{ceil_div(pages, 64)}, chunks_{ceil_div(pages, 64 * 64)} {}
  [[nodiscard]] bool exists() const noexcept { return pages_.exists() && chunks_.exists(); }

  // seq_cst: half of the handshake above; also: what the holder of a lock has done to the pages is done.
  [[nodiscard]] std::uint64_t word(std::uint64_t chunk) const noexcept {
    return pages_[chunk].load(std::memory_order_seq_cst);
  }
  [[nodiscard]] std::uint64_t claims(std::uint64_t group) const noexcept {
    return chunks_[group].load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool is_claimed(std::uint64_t chunk) const noexcept {
    return (claims(chunk / 64) >> chunk % 64 & 1) != 0;
  }

  // Locks all pages of the mask if none is locked, and the chunk is not claimed.
  [[nodiscard]] bool try_lock(std::uint64_t chunk, std::uint64_t mask) noexcept {
    if (!try_set(pages_[chunk], mask)) return false;
    if (!is_claimed(chunk)) return true;
    unlock(chunk, mask);
    return false;
  }
  // release: pairs with word().
  void unlock(std::uint64_t chunk, std::uint64_t mask) noexcept {
    pages_[chunk].fetch_and(~mask, std::memory_order_release);
  }
  // All chunks of the mask, by one store, if none is claimed, and no page of them is locked.
  [[nodiscard]] bool try_claim(std::uint64_t group, std::uint64_t chunks) noexcept {
    if (!try_set(chunks_[group], chunks)) return false;
    for (std::uint64_t left = chunks; left != 0; left &= left - 1) {
      if (word(group * 64 + static_cast<unsigned>(std::countr_zero(left))) == 0) continue;
      release(group, chunks);
      return false;
    }
    return true;
  }
  void release(std::uint64_t group, std::uint64_t chunks) noexcept {
    chunks_[group].fetch_and(~chunks, std::memory_order_release);
  }

 private:
  static bool try_set(std::atomic_ref<std::uint64_t> word, std::uint64_t mask) noexcept {
    std::uint64_t old = word.load(std::memory_order_relaxed);
    do {
      if ((old & mask) != 0) return false;
    } while (!word.compare_exchange_weak(old, old | mask, std::memory_order_seq_cst, std::memory_order_relaxed));
    return true;
  }

  sparse_array<std::uint64_t> pages_;
  sparse_array<std::uint64_t> chunks_;
};

}  // namespace nvm
