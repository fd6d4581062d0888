// Interface of the server to its items, the only one that the protocol, the commands and the connections know.  It is
// implemented by the lock-free hash table of a pool (durable_store.hpp) and by a volatile twin (volatile_store.hpp).
//
// An item is replaced as a whole and never changed in place, except for its state word: expiry and marks, eight bytes
// that a reader may change by compare-and-swap, so that touching an item needs no copy.
//
// Threads: a store is shared; each thread has a session of its own. Between enter() and leave() an item that find()
// showed stays readable, also when another thread replaces or removes it.
// Durability: each change has a position in the store's order of changes. It may be acknowledged, and data that was
// read may be sent, when everything up to the session's position() is durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace nvm::server {

// A position in the order of changes; 0 lies before all of them, no_position after all that will ever be durable.
using position = std::uint64_t;
inline constexpr position no_position = ~position{0};

inline constexpr std::size_t key_bytes_max = 250;

// The state word of an item, unpacked.
struct item_state {
  std::uint32_t expiry = 0;    // unix time in seconds, from which on the item is gone; 0: never
  std::uint32_t accessed = 0;  // unix time in seconds, its low accessed_bits: exact to a minute, and lost in a crash
  bool fetched = false;        // a client has read it since it was stored; lost in a crash
  bool stale = false;          // marked by `md key I`: served, and one client is asked to renew it
  bool won = false;            // a client has been asked to renew it
  bool binary_key = false;     // the key came in base64, and goes out so
  bool used = false;           // the store's own: used since the last pass of the evicting hand

  static constexpr unsigned accessed_bits = 27;
  static constexpr std::uint64_t used_bit = 16;

  [[nodiscard]] constexpr std::uint64_t word() const noexcept {
    return std::uint64_t{expiry} << 32 | std::uint64_t{accessed & ((1U << accessed_bits) - 1)} << 5 |
           (used ? used_bit : 0) | std::uint64_t{fetched} << 3 | std::uint64_t{stale} << 2 | std::uint64_t{won} << 1 |
           std::uint64_t{binary_key};
  }
  [[nodiscard]] static constexpr item_state of(std::uint64_t word) noexcept {
    item_state s;
    s.expiry = static_cast<std::uint32_t>(word >> 32);
    s.accessed = static_cast<std::uint32_t>(word >> 5) & ((1U << accessed_bits) - 1);
    s.used = (word & used_bit) != 0;
    s.fetched = (word >> 3 & 1) != 0;
    s.stale = (word >> 2 & 1) != 0;
    s.won = (word >> 1 & 1) != 0;
    s.binary_key = (word & 1) != 0;
    return s;
  }
  // Seconds since the last access; the bits wrap around after four years.
  [[nodiscard]] constexpr std::uint32_t idle(std::uint32_t now) const noexcept {
    return (now - accessed) & ((1U << accessed_bits) - 1);
  }
  friend constexpr bool operator==(const item_state&, const item_state&) = default;
};

// An item as a session sees it.  The bytes are the store's.
struct item {
  std::string_view key;
  std::string_view value;
  std::uint32_t flags = 0;       // the client's
  std::uint64_t cas = 0;         // unique, and greater in items stored later
  std::uint64_t state_word = 0;  // at the time when the item was found
  std::uint64_t place = 0;       // the store's own

  [[nodiscard]] item_state state() const noexcept { return item_state::of(state_word); }
};

// Bytes of an item for the memory limit and the largest size, as memcached counts: header, key, value.
inline constexpr std::size_t item_header_bytes = 56;
constexpr std::size_t item_bytes(std::size_t key, std::size_t value) noexcept {
  return item_header_bytes + key + 1 + value + 2;
}
inline std::size_t item_bytes(const item& i) noexcept { return item_bytes(i.key.size(), i.value.size()); }

// Decision about a key.  decide() sees the present item (nullptr: none; it may have expired) and is called again if
// another thread was faster, so it must not count or reply; then fill() writes the new value.
class decision {
 public:
  enum class what : std::uint8_t { keep, remove, replace };
  struct wish {
    what to_do = what::keep;
    std::size_t value_bytes = 0;
    std::uint32_t flags = 0;
    item_state state = {};
  };

  virtual wish decide(const item* old) noexcept = 0;
  virtual void fill(char* value, const item* old) noexcept = 0;
  // Whether decide() sees a damaged item, which otherwise counts as absent.
  [[nodiscard]] virtual bool sees_damaged() const noexcept { return false; }

 protected:
  ~decision() = default;
};

// no_memory: over the limit; no_room: below it, but the pool has no place of this size; failed: as a look.
enum class outcome : std::uint8_t { kept, removed, replaced, no_memory, no_room, too_large, failed };

// failed: the store has failed, or a damaged place in it hides the answer.
enum class look : std::uint8_t { absent, there, failed };

struct update_result {
  outcome what = outcome::kept;
  std::uint64_t cas = 0;  // replaced: of the new item
};

class item_session {
 public:
  virtual ~item_session() = default;

  // False: there is no volatile memory for it, and nothing has been entered.
  [[nodiscard]] virtual bool enter() noexcept = 0;
  virtual void leave() noexcept = 0;

  // Also marks the item as used, for the choice of items to evict.
  virtual look find(std::string_view key, item& found) noexcept = 0;

  // Atomic.  no_memory, no_room: nothing has changed; make room and call again.  May also be called outside: then items
  // removed by this thread, or by others that are outside, are room.
  virtual update_result update(std::string_view key, decision& by) noexcept = 0;

  // Changes the state word of an item that find() showed.  False: the word is not `expected`, which becomes the word.
  // A change that is not durable may be taken back by a crash.
  virtual bool change_state(const item& of, item_state& expected, item_state wanted, bool durable) noexcept = 0;

  // Position of all that this session has read and changed; no_position when the store has failed, which this call
  // notices: changes without a wait are lost then.
  [[nodiscard]] virtual position reached() const noexcept = 0;
};

struct usage {
  std::optional<std::uint64_t> items = 0;  // no value: the store has failed, and the number is unknown
  std::uint64_t item_bytes = 0;            // by item_bytes()
  std::uint64_t memory_bytes = 0;          // occupied by items, with rounding
  std::uint64_t limit_bytes = 0;
  std::uint64_t places_made = 0;  // times that memory was emptied for items of other sizes
  std::uint32_t buckets_log2 = 0;
  std::uint64_t index_bytes = 0;
  bool resizing = false;
};

// Patience of a sweep. An item that was used since the hand's last pass is spared, until too many were spared in a row:
// new items begin as used, so all are marked when the limit is first reached. Then items go that were never fetched,
// and after as many more any item. If the hand comes around within one sweep, items have had no time to be used again:
// those that were ever fetched count as used.
class patience {
 public:
  static constexpr std::size_t items = 512;

  [[nodiscard]] bool spares(bool used, bool fetched, bool came_around) noexcept {
    const std::size_t seen = since_++;
    const bool spared = seen < items ? used || (came_around && fetched) : seen < 2 * items && fetched;
    if (!spared) since_ = 0;
    return spared;
  }

 private:
  std::size_t since_ = 0;  // since the last one that was not spared
};

class item_store {
 public:
  virtual ~item_store() = default;

  virtual std::unique_ptr<item_session> open_session() = 0;

  // Returns when everything up to `p` is durable; false: the medium failed, and it will not be.
  [[nodiscard]] virtual bool wait(position p) noexcept = 0;
  // A write, a sync or a read of the store has failed. From then on none of its answers, not even a miss, may be sent
  // to a client; changes acknowledged before exist at the next start.
  [[nodiscard]] virtual bool failed() const noexcept = 0;
  // Called once, when all sessions are gone: makes everything durable; afterwards only failed() and failure() may be
  // called. False: not everything is durable; failed() says so, too.
  [[nodiscard]] virtual bool close() noexcept = 0;
  // The failure, for people; empty: none.
  [[nodiscard]] virtual std::string failure() const = 0;
  [[nodiscard]] virtual bool is_durable(position p) const noexcept = 0;

  // Removes items until `bytes` of memory are free below the limit or `items_max` items have been examined. Items that
  // are gone at `now` go first, and with `living` those that were not used lately. If all were used, it takes those
  // that were never fetched, then any: a sweep examines at most some thousand items before it removes one. With
  // `same_room` it makes a place for a new item of `bytes`, regardless of the limit: removes one that takes as much
  // memory, or all items around one of another size. Reports each removed item, and returns their number.
  struct sweep_wish {
    std::uint32_t now = 0;
    std::size_t bytes = 0;
    std::size_t items_max = 0;
    bool living = false;
    bool same_room = false;
  };
  using sweep_listener = std::function<void(const item&, bool was_alive)>;
  virtual std::size_t sweep(item_session& by, const sweep_wish& wish, const sweep_listener& told) = 0;

  // Visits every item that exists from the beginning to the end, and perhaps others, until the visitor says false. The
  // session has entered, and no memory is used again meanwhile.
  virtual void for_each(item_session& by, const std::function<bool(const item&)>& visit) = 0;

  [[nodiscard]] virtual usage used() noexcept = 0;
  virtual void limit(std::uint64_t bytes) noexcept = 0;

  // Items with a smaller cas id than this are gone.
  [[nodiscard]] virtual std::uint64_t flushed_before() const noexcept = 0;
  // All items that exist at the time `at` are gone from then on; a later call replaces an earlier one that still waits.
  // False: the store has failed, or has no room to note it, and nothing has changed.
  [[nodiscard]] virtual bool flush_all(std::uint32_t at, std::uint32_t now) noexcept = 0;
  // Called after each reading of the clock, before the time is used: carries out a flush that flush_all() has put off.
  virtual void tick(std::uint32_t now) noexcept = 0;

  // For people: where the items are, and what an acknowledged command survives.
  [[nodiscard]] virtual std::string_view place() const noexcept = 0;
  [[nodiscard]] virtual std::string_view survives() const noexcept = 0;
  // How often a damaged item was met and counted as absent.
  [[nodiscard]] virtual std::uint64_t damaged_misses() const noexcept { return 0; }

 protected:
  item_store() = default;
  item_store(const item_store&) = delete;
  item_store& operator=(const item_store&) = delete;
};

// Whether the item has expired or was flushed, and must not be shown.
inline bool is_gone(const item& i, std::uint32_t now, std::uint64_t flushed_before) noexcept {
  const std::uint32_t expiry = i.state().expiry;
  return (expiry != 0 && expiry <= now) || i.cas < flushed_before;
}

}  // namespace nvm::server
