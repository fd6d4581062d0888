// The memory of node_memory.hpp without any persistence, to measure what the same structures cost where nothing has to
// last.
//
// A range of ordinary memory, whose offsets are links; nodes from chunks of equal nodes that a session takes for
// itself; epochs and generations as in domain.hpp.  No marks, no write-backs, no areas.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "base/inlining.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/link.hpp"
#include "lockfree/node_sizes.hpp"
#include "platform/platform.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree {

class volatile_memory {
 public:
  static constexpr std::uint64_t chunk_bytes = std::uint64_t{1} << 15;

  class session {
   public:
    explicit session(volatile_memory& m) noexcept : in_{m}, number_{m.epochs_.join()} {
      NVM_ASSERT(number_ != epochs::threads_max);
    }
    ~session() { in_.epochs_.leave_for_good(number_); }
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // The calls nest.
    [[NVM_INLINE]] void enter() noexcept {
      if (depth_++ == 0) in_.epochs_.enter(number_);
    }
    [[NVM_INLINE]] void leave() noexcept {
      if (--depth_ != 0) return;
      in_.epochs_.leave(number_);
      if (open_.size() >= generation_nodes) [[unlikely]]
        tidy_up();
    }
    [[nodiscard]] static errc refusal() noexcept { return errc::no_memory; }
    void count(std::int64_t more) noexcept { lately += more; }
    std::int64_t lately = 0;
    // As that of node_memory.hpp: the same heights.
    [[nodiscard, NVM_INLINE]] std::uint64_t random() noexcept {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      return random_;
    }

   private:
    friend volatile_memory;
    static constexpr std::size_t generation_nodes = 256;
    static constexpr std::uint64_t again = 1;  // in an offset: it waits for another generation
    struct generation {
      epochs::vector then;
      std::vector<std::uint64_t> nodes;
    };
    struct of_class {
      std::uint64_t free = 0;  // linked through the first word
      std::uint64_t next = 0;  // of the chunk: not handed out yet
      std::uint64_t end = 0;
    };
    [[gnu::noinline]] void tidy_up() noexcept {
      try {
        auto g = std::make_unique<generation>();
        closed_.reserve(closed_.size() + 1);
        g->nodes.reserve(2 * generation_nodes);
        g->nodes.swap(open_);
        in_.epochs_.take_vector(g->then);
        closed_.push_back(std::move(g));
      } catch (const std::bad_alloc&) {
        return;  // they wait for the next time
      }
      while (!closed_.empty() && in_.epochs_.passed(closed_.front()->then)) {
        for (std::uint64_t offset : closed_.front()->nodes) {
          if ((offset & again) != 0) {
            open_.push_back(offset & ~again);
          } else {
            in_.put(*this, offset);
          }
        }
        closed_.erase(closed_.begin());
      }
    }

    volatile_memory& in_;
    const unsigned number_;
    std::uint64_t random_ = (number_ + 1) * 0x9E37'79B9'7F4A'7C15ULL;
    unsigned depth_ = 0;
    std::array<of_class, classes> of_{};
    std::vector<std::uint64_t> open_;
    std::vector<std::unique_ptr<generation>> closed_;
  };

  explicit volatile_memory(std::uint64_t capacity_bytes) noexcept
      : memory_{round_up(capacity_bytes, chunk_bytes)},
        base_{static_cast<std::byte*>(memory_.data())},
        limit_{round_up(capacity_bytes, chunk_bytes)},
        class_of_chunk_{limit_ / chunk_bytes} {}
  [[nodiscard]] bool exists() const noexcept { return base_ != nullptr && class_of_chunk_.exists(); }

  // Whole chunks of zeros, for as long as the memory lives: roots and arrays.  errc::no_memory.
  [[nodiscard]] result<std::uint64_t> take_run(std::uint64_t bytes) noexcept {
    const std::uint64_t needs = round_up(bytes, chunk_bytes);
    std::uint64_t at = next_.load(std::memory_order_relaxed);
    do {
      if (at + needs > limit_) return fail(errc::no_memory, "volatile memory of %lu bytes is full", limit_);
    } while (!next_.compare_exchange_weak(at, at + needs, std::memory_order_relaxed));
    return at;
  }

  [[nodiscard, NVM_INLINE]] std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }
  template <class Start>
  [[nodiscard, NVM_INLINE]] std::byte* inside(std::uint64_t offset, std::uint64_t, Start&&) const noexcept {
    return base_ + offset;
  }
  [[nodiscard, NVM_INLINE]] std::byte* node_at(std::uint64_t offset) const noexcept { return base_ + offset; }
  [[nodiscard]] const std::byte* origin() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t offset_in_pool(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  }

  [[nodiscard, NVM_INLINE]] static bool change(session&, link& l, link_word expected, link_word desired,
                                               std::uint64_t) noexcept {
    return l.exchange(expected, desired);
  }
  [[nodiscard, NVM_INLINE]] static bool tidy(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  [[nodiscard, NVM_INLINE]] static bool begin(session&, link& l, link_word expected, link_word desired,
                                              std::uint64_t) noexcept {
    return l.exchange(expected, desired);
  }
  [[nodiscard, NVM_INLINE]] static bool begin_above(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  static void finish(session&, std::uint64_t) noexcept {}
  static void unmark(link&, link_word) noexcept {}
  [[nodiscard]] static constexpr bool may_lose_order() noexcept { return false; }
  [[nodiscard]] static bool tidy_behind(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  [[nodiscard, NVM_INLINE]] static bool swing(link& l, link_word expected, link_word desired) noexcept {
    return l.exchange(expected, desired);
  }
  static void write_back(const link&) noexcept {}
  static void fence_tidied() noexcept {}
  [[nodiscard, NVM_INLINE]] static link_word settled(session&, link&, link_word seen, std::uint64_t) noexcept {
    return seen;
  }
  [[NVM_INLINE]] static void depend(session&, std::uint64_t) noexcept {}
  static void store_word(session&, std::uint64_t* word, std::uint64_t value, std::uint64_t) noexcept {
    // relaxed: it orders nothing.
    std::atomic_ref<std::uint64_t>{*word}.store(value, std::memory_order_relaxed);
  }

  [[nodiscard]] static bool exchange_word(session&, std::uint64_t* word, std::uint64_t& expected, std::uint64_t value,
                                          std::uint64_t, bool) noexcept {
    return std::atomic_ref<std::uint64_t>{*word}.compare_exchange_strong(expected, value, std::memory_order_acq_rel,
                                                                         std::memory_order_acquire);
  }

  [[nodiscard, NVM_INLINE]] result<std::uint64_t> allocate(session& s, std::uint64_t bytes) noexcept {
    const unsigned c = class_of(bytes);
    if (c == classes) [[unlikely]]
      return take_run(bytes);
    session::of_class& own = s.of_[c];
    if (own.free != 0) [[likely]] {
      const std::uint64_t offset = own.free;
      own.free = *reinterpret_cast<std::uint64_t*>(base_ + offset);
      return offset;
    }
    if (own.next + class_bytes(c) > own.end) [[unlikely]] {
      const auto chunk = take_run(chunk_bytes);
      if (!chunk) return chunk.error();
      // relaxed: a thread that frees a node of it was led there by a link.
      class_of_chunk_[*chunk / chunk_bytes].store(static_cast<std::uint8_t>(c + 1), std::memory_order_relaxed);
      own.next = *chunk;
      own.end = *chunk + chunk_bytes;
    }
    const std::uint64_t offset = own.next;
    own.next += class_bytes(c);
    return offset;
  }
  [[NVM_INLINE]] static void contents(const void*, std::size_t) noexcept {}
  void discard(session& s, std::uint64_t offset) noexcept { put(s, offset); }
  [[nodiscard]] result<std::uint64_t> take_array(session&, std::uint64_t bytes) noexcept { return take_run(bytes); }
  void publish_run(const void*, std::size_t, std::uint64_t* word, std::uint64_t offset) noexcept {
    // release: a thread that finds the run finds its contents.
    std::atomic_ref<std::uint64_t>{*word}.store(seal_word(offset, word_seed(offset_in_pool(word))),
                                                std::memory_order_release);
  }
  [[nodiscard, NVM_INLINE]] static bool may_unlink(session&, std::uint64_t, std::uint64_t = 1) noexcept { return true; }
  [[nodiscard, NVM_INLINE]] static bool will_delete(session&, std::uint64_t) noexcept { return true; }
  [[nodiscard, NVM_INLINE]] static bool may_leave(session&, std::uint64_t, std::uint64_t) noexcept { return true; }
  template <class Also = int>
  [[nodiscard, NVM_INLINE]] static deletion change_to_delete(session&, link& l, link_word expected, link_word desired,
                                                             std::uint64_t, std::uint64_t, bool = false,
                                                             Also&& = {}) noexcept {
    return deleted_if(l.exchange(expected, desired));
  }
  static void retire(session& s, std::uint64_t offset) noexcept { s.open_.push_back(offset); }
  // As that of domain.hpp.
  static void retire_twice(session& s, std::uint64_t offset) noexcept { s.open_.push_back(offset | session::again); }

  [[nodiscard]] std::uint64_t nodes_max() const noexcept { return limit_ / sizeof(link); }
  [[nodiscard]] static bool holds(const void*, std::uint64_t) noexcept { return true; }
  static void report_damage(std::uint64_t) noexcept {}
  [[nodiscard]] static bool is_damaged() noexcept { return false; }
  [[nodiscard]] static std::uint64_t damaged_offset() noexcept { return 0; }

 private:
  // A run is never given back: its chunks have no class.
  void put(session& s, std::uint64_t offset) noexcept {
    const unsigned c = class_of_chunk_[offset / chunk_bytes].load(std::memory_order_relaxed);
    if (c == 0) return;
    session::of_class& own = s.of_[c - 1];
    *reinterpret_cast<std::uint64_t*>(base_ + offset) = own.free;
    own.free = offset;
  }

  platform::zeroed_memory memory_;
  std::byte* const base_;
  const std::uint64_t limit_;
  sparse_array<std::uint8_t> class_of_chunk_;     // + 1; 0: of a run
  std::atomic<std::uint64_t> next_{chunk_bytes};  // 0 leads nowhere
  epochs epochs_;
};
static_assert(memory<volatile_memory>);

}  // namespace nvm::lockfree
