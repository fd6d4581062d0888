// The pool's memory as an operation of a key-value store sees it: by places, through the operation's transaction.
//
// Nothing that is read is believed: a place is checked before it is followed.  Calls to the transaction may not return
// (a conflict runs the operation again), so nothing here owns anything.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "api/stm_pieces.hpp"
#include "base/base.hpp"
#include "base/plant.hpp"
#include "kv/kv_layout.hpp"
#include "nvm/stm.h"
#include "space/space_layout.hpp"
#include "store/own_links.hpp"

namespace nvm::keyed {

// The object store that a key-value store lies in: it allocates there, and follows no link out of it, since pages of
// others may be inaccessible.
class home_of_stores {
 public:
  home_of_stores(const store_attachment& store, unsigned page_shift) noexcept
      : store_{store}, page_shift_{page_shift} {}
  [[nodiscard]] const store_attachment& store() const noexcept { return store_; }
  // Whether the store has all of these bytes, which the pool has.
  [[nodiscard]] bool holds(std::uint64_t place, std::uint64_t bytes) noexcept {
    const std::uint64_t page = place >> page_shift_;
    const bool in_one = (place + bytes - 1) >> page_shift_ == page;
    // relaxed: what is known of a page was true once, and is asked again when another has taken its place here.
    if (in_one && known_[page % known_.size()].load(std::memory_order_relaxed) == page) return true;
    if (!asks_(asked_, *store_.store, place, bytes)) return false;
    if (in_one) known_[page % known_.size()].store(page, std::memory_order_relaxed);
    return true;
  }
  // ask(about, store, place, bytes) tells of any place whether the store has it.
  using asker = bool (*)(void* about, open_store& store, std::uint64_t place, std::uint64_t bytes);
  void ask_by(asker ask, void* about) noexcept {
    asks_ = ask;
    asked_ = about;
  }

 private:
  const store_attachment store_;
  unsigned page_shift_;
  asker asks_ = nullptr;
  void* asked_ = nullptr;
  std::array<std::atomic<std::uint64_t>, 128> known_{};  // numbers of pages, from the pool's start
};

// What is known of an open pool.
struct pool_bytes {
  std::byte* base = nullptr;
  std::uint64_t first = 0;              // place of the first data page
  std::atomic<std::uint64_t> limit{0};  // end of the data as last seen: it only grows
  std::uint64_t (*limit_now)(NVM_POOL*) = nullptr;
  // More bytes than one object can have, as last seen: addresses may be many times the pool.
  std::atomic<std::uint64_t> bytes_max{0};
  std::uint64_t (*bytes_max_now)(NVM_POOL*) = nullptr;
  // More objects than the pool's pages have room for: a walk that meets so many goes round.
  std::uint64_t (*objects_max)(NVM_POOL*) = nullptr;
  NVM_POOL* pool = nullptr;
  bool has_headers = true;                 // before each object; a log has them elsewhere, under its own checks
  std::unique_ptr<home_of_stores> home{};  // null: its stores are the pool's own
  stores::own_links links{};               // where there is none

  [[nodiscard]] bool holds(std::uint64_t place, std::uint64_t bytes) noexcept {
    if (!pool_holds(place, bytes)) return false;
    if (home == nullptr) [[likely]]
      return !links.lead_into_store(place, bytes);
    return bytes == 0 || home->holds(place, bytes);
  }

 private:
  [[nodiscard]] bool pool_holds(std::uint64_t place, std::uint64_t bytes) noexcept {
    if (place < first || place % 16 != 0) return false;
    if (bytes > bytes_max.load(std::memory_order_relaxed)) [[unlikely]] {
      const std::uint64_t most = bytes_max_now(pool);
      bytes_max.store(most, std::memory_order_relaxed);
      if (bytes > most) return false;
    }
    // relaxed: a number that only grows; an old one costs a look at the pool.
    if (range_inside(place, bytes, limit.load(std::memory_order_relaxed))) return true;
    const std::uint64_t now = limit_now(pool);
    limit.store(now, std::memory_order_relaxed);
    return range_inside(place, bytes, now);
  }
};

class access {
 public:
  access(nvm_stm* tx, pool_bytes& pool) noexcept : tx_{tx}, pool_{&pool} {}

  [[nodiscard]] nvm_stm* transaction() const noexcept { return tx_; }
  // A structure at a place; nullptr, with a message: the place is none of this pool's.
  template <class T>
  [[nodiscard]] T* at(std::uint64_t place, std::uint64_t bytes = sizeof(T)) const noexcept {
    if (!pool_->holds(place, bytes)) {
      lost(place);
      return nullptr;
    }
    return reinterpret_cast<T*>(pool_->base + place);
  }
  // A structure at a place that is known.
  template <class T>
  [[nodiscard]] T* known(std::uint64_t place) const noexcept {
    return reinterpret_cast<T*>(pool_->base + place);
  }
  [[nodiscard]] std::uint64_t place_of(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - pool_->base);
  }

  [[nodiscard]] std::uint64_t load(const std::uint64_t* p) const { return nvm_stm_load64(tx_, p); }
  void store(std::uint64_t* p, std::uint64_t v) const {
    if (planted(plant::store_past_barriers)) {
      *p = v;
      return;
    }
    nvm_stm_store64(tx_, p, v);
  }
  void read(void* to, const void* from, std::size_t n) const { nvm_stm_read(tx_, to, from, n); }
  void write(void* to, const void* from, std::size_t n) const { nvm_stm_write(tx_, to, from, n); }
  // Writes `n` bytes and a word after them.
  void write_with_word(void* to, const void* from, std::size_t n, std::uint64_t last) const {
    api::write_with_word(tx_, to, from, n, last);
  }
  // Stores to these places follow: an engine that logs before it stores waits once for all of them.
  template <std::size_t N>
  void expect(const nvm_range (&ranges)[N]) const {
    if (planted(plant::store_past_barriers)) return;
    nvm_stm_expect(tx_, ranges, N);
  }
  [[nodiscard]] int compare(const void* shared, const void* mine, std::size_t n) const {
    return nvm_stm_compare(tx_, shared, mine, n);
  }

  // Payload of a new object, the transaction's own until it commits; nullptr: nvm_errno(), and only rolling back is
  // left.
  template <class T>
  [[nodiscard]] T* allocate(std::uint32_t type, std::uint64_t bytes = sizeof(T)) const {
    if (pool_->home != nullptr) [[unlikely]]
      return static_cast<T*>(api::allocate_in(tx_, pool_->pool, pool_->home->store(), type, bytes));
    return static_cast<T*>(nvm_stm_alloc(tx_, type, bytes));
  }
  // Whether the object at `place`, which has been followed, is one of this type with so many bytes at least, as its
  // header says.
  [[nodiscard]] bool object_has(std::uint64_t place, std::uint32_t type, std::uint64_t bytes) const {
    if (!pool_->has_headers) return true;
    const std::uint64_t at = place - sizeof(layout::object_header);
    if (!pool_->holds(at, sizeof(layout::object_header))) return false;
    layout::object_header h{};
    h.size_generation_check = load(known<std::uint64_t>(at));
    h.type = static_cast<std::uint32_t>(load(known<std::uint64_t>(at + offsetof(layout::object_header, type))));
    return h.type == type && layout::object_header_holds(h, at) && bytes <= layout::object_size(h);
  }
  [[nodiscard]] status release(std::uint64_t place) const {
    if (nvm_stm_free(tx_, pool_->base + place) == 0) return {};
    return static_cast<errc>(nvm_errno());
  }

  static errc out_of_room() noexcept { return static_cast<errc>(nvm_errno()); }
  static errc damaged(const char* what, std::uint64_t place) noexcept {
    return fail(errc::corrupt, "key-value store: %s at offset %lu fails its check", what, place);
  }

 private:
  [[gnu::cold]] static void lost(std::uint64_t place) noexcept {
    (void)fail(errc::corrupt, "key-value store: a link leads to offset %lu, which is no object", place);
  }
  nvm_stm* tx_;
  pool_bytes* pool_;
};

// A key as the caller gave it.
struct key {
  const std::byte* bytes = nullptr;
  std::uint32_t count = 0;
  std::uint64_t hash = 0;  // checksum() seeded by the store's seed, if has_hash
  bool has_hash = false;   // in a hash table always

  void take_hash(std::uint64_t seed) noexcept {
    if (has_hash) return;
    hash = checksum(bytes, count, seed);
    has_hash = true;
  }

  // Up to eight bytes from `from` on as a big-endian number, filled up with zero bytes: compares as the bytes do.
  [[nodiscard]] std::uint64_t head(std::uint32_t from) const noexcept { return head_of(bytes + from, count - from); }
  static std::uint64_t head_of(const std::byte* p, std::uint32_t n) noexcept {
    std::uint64_t word = 0;
    if (n >= 8) {
      std::memcpy(&word, p, 8);
    } else {
      for (std::uint32_t i = 0; i < n; ++i) word |= std::uint64_t(p[i]) << 8 * i;
    }
    return __builtin_bswap64(word);
  }
};
struct bytes_view {
  const std::byte* bytes = nullptr;
  std::uint64_t count = 0;
};

}  // namespace nvm::keyed
