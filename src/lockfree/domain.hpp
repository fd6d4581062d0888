// What the lock-free structures of a pool share: threads, their epochs, and the way of a node from unlinked to free
// (NV-epochs: log-free, section 5).
//
// A node that was unlinked waits in its thread's open generation.  A full generation is closed with the vector of all
// epochs; when all threads that were inside then have moved on, its nodes are freed:
//
///   flush the link cache;                      | lockfree/E9  no durable link leads to any of them
///   S their bits 0; F them                       (fenced before an area leaves the table: lockfree/E7)
//
// A node that operations under way may still link or unlink elsewhere (skip_list.hpp) waits for two generations.
//
// Unlinking is written back at once and not waited for; E9 waits, once for hundreds of nodes.  Nodes that prove
// themselves (sealed_memory.hpp) need not wait: no durable link ever leads to them.
//
// Threads.  A thread joins and is known by a number; an operation is between enter() and leave().  A number that is
// given back keeps its generations and its table of areas for the next thread that gets it.  So does one that is handed
// over between two operations, with the caches as well (api/thread_places.hpp).
//
// Shortage.  Generations belong to their threads, which close and free them between operations: nodes that an idle
// thread has unlinked would wait for ever.  A thread that finds no room therefore takes the generations of others:
//
/// enter()      S count odd; compiler barrier; L claimed     inside, unless it is claimed: then out again to wait
/// reclaim()    (own_ held) S claimed; fence_all_threads(); L count: if it is odd, S not claimed
///              fence_all_threads(): that thread's write-backs are durable, as by a fence of its own
///              closes and frees its generations (E9), and gives back what it has reserved; S not claimed
// This is epochs.hpp's handshake with the parts exchanged: the thread's load comes after the claim, or its count is
// seen odd.  A thread that is inside keeps its generations, and frees them itself.  Tidying up, between operations,
// holds own_.  So a thread waits for another only if that one is short of room.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/inlining.hpp"
#include "lockfree/node_heap.hpp"
#include "lockfree/persistence.hpp"

namespace nvm::lockfree {

struct domain_settings {
  bool with_link_cache = false;
  bool all_at_once = true;   // node_heap.hpp
  unsigned area_shift = 12;  // bytes of an active area: 2^12 .. 2^18
  unsigned generation_nodes = 128;
};

template <media M>
class domain {
 public:
  struct retired {
    std::uint64_t offset;  // with the tag `again`: waits for another generation
    node_heap<M>* heap;
  };
  struct generation {
    std::uint64_t number = 0;
    bool waits = false;  // for a fence: no durable link may be left to a node of it that was unlinked
    epochs::vector then;
    std::vector<retired> nodes;
  };

  class thread {
   public:
    thread(domain& d, unsigned number) noexcept
        : areas{d.medium_, d.base_, d.pages_, number, !d.links.defers(), tidy_due_}, number_{number}, in_{d} {}
    [[nodiscard]] unsigned number() const noexcept { return number_; }
    [[nodiscard]] std::uint64_t operation() const noexcept { return operation_; }
    [[nodiscard]] bool inside() const noexcept { return depth_ != 0; }

    // They nest.
    [[NVM_INLINE]] void enter() noexcept {
      if (depth_++ != 0) return;
      std::uint64_t now = in_.epochs_.enter(number_);
      // seq_cst: not before the count is stored; pairs with reclaim(), whose release of the claim it acquires.
      if (claimed_.load(std::memory_order_seq_cst)) [[unlikely]]
        now = enter_later();
      operation_ = now;
    }
    [[NVM_INLINE]] void leave() noexcept {
      if (--depth_ != 0) return;
      const bool tidies = tidy_due_;  // outside it may belong to others
      in_.epochs_.leave(number_);
      if (tidies) [[unlikely]]
        in_.tidy_up(*this);
    }
    // Lock that keeps others from its generations, reservations and areas, between operations.
    [[nodiscard]] spin_lock& own() noexcept { return own_; }

    persistence_client client;
    active_areas<M> areas;

   private:
    friend domain;
    [[nodiscard, gnu::noinline]] std::uint64_t enter_later() noexcept {
      std::uint64_t now = 0;
      do {
        in_.epochs_.leave(number_);
        while (claimed_.load(std::memory_order_acquire)) std::this_thread::yield();
        now = in_.epochs_.enter(number_);
      } while (claimed_.load(std::memory_order_seq_cst));
      return now;
    }

    const unsigned number_;
    domain& in_;
    std::atomic<bool> claimed_{false};  // stored by the thread that holds own_
    spin_lock own_;
    std::uint64_t operation_ = 0;
    unsigned depth_ = 0;
    bool tidy_due_ = false;
    std::atomic<std::uint32_t> frees_{0};  // odd: the thread is freeing a generation
    std::uint64_t newest_ = 1;             // number of the open generation
    std::uint64_t freed_ = 0;              // all generations up to here are free
    std::vector<retired> open_;
    bool open_waits_ = false;                          // generation::waits of it
    std::vector<std::unique_ptr<generation>> closed_;  // oldest first
    std::vector<std::unique_ptr<generation>> spare_;
  };

  // An operation, for a scope.
  class operation {
   public:
    explicit operation(thread& t) noexcept : t_{t} { t_.enter(); }
    ~operation() { t_.leave(); }
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;

   private:
    thread& t_;
  };

  domain(M& medium, std::byte* base, structure_pages& pages, const domain_settings& s)
      : links{medium, s.with_link_cache},
        medium_{medium},
        base_{base},
        pages_{pages},
        settings_{s},
        words_{pages.sizes()} {}
  ~domain() {
    for (auto& t : threads_) delete t.load(std::memory_order_relaxed);
  }
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  [[nodiscard]] status exists() const noexcept {
    if (words_.exists()) return {};
    return fail(errc::no_memory, "no volatile memory for the allocation words of lock-free structures");
  }

  // `table_word(number)`: offset of the durable word that leads to the thread's tables.  errc::no_lane if there are too
  // many threads, no_memory, no_space.
  template <class TableWord>
  [[nodiscard]] result<thread*> join(TableWord&& table_word) noexcept {
    const unsigned number = epochs_.join();
    if (number == epochs::threads_max) {
      return fail(errc::no_lane, "more than %u threads use lock-free structures", epochs::threads_max);
    }
    // relaxed: the number is handed over with acquire and release.
    thread* t = threads_[number].load(std::memory_order_relaxed);
    if (t == nullptr) {
      std::unique_ptr<thread> made{new (std::nothrow) thread{*this, number}};
      status s = made == nullptr
                     ? status{fail(errc::no_memory, "no volatile memory for a thread of lock-free structures")}
                     : made->areas.open(table_word(number));
      if (s && !reserve(*made)) s = fail(errc::no_memory, "no volatile memory for unlinked nodes");
      if (!s) {
        epochs_.leave_for_good(number);
        return s.error();
      }
      t = made.release();
      // release: pairs with the acquire in each_thread().
      threads_[number].store(t, std::memory_order_release);
    }
    return t;
  }
  // Called by the thread itself, when its caches have been given back (node_memory.hpp).
  void leave(thread& t) noexcept {
    hand_over(t);
    epochs_.leave_for_good(t.number());
  }
  // Called by the thread itself, between two operations: another one uses the number from now on, with what the caches
  // have.
  void hand_over(thread&) noexcept {
    // Its unlinking and freeing are durable before another thread frees or forgets more with the same number.
    medium_.fence(edge{"lockfree/E25"});
  }

  // Asks leave to unlink a node; on failure it must stay linked.  errc::no_memory, no_space, io.
  // `ordered`: a fence of the caller comes before that.
  // `count`: so many will be, and this is one of them.
  [[nodiscard, NVM_INLINE]] status may_unlink(thread& t, node_heap<M>& heap, std::uint64_t offset, bool ordered,
                                              std::size_t count = 1) noexcept {
    status s = has_room(t, count);
    if (s) [[likely]]
      s = t.areas.unlinks(heap.area_of(offset), heap.owner(), t.newest_, ordered);
    // Generations that may be freed by now give room, and areas.
    if (!s) [[unlikely]]
      t.tidy_due_ = true;
    return s;
  }
  // The same for nodes whose deletion is durable by itself; only memory is needed.
  [[nodiscard, NVM_INLINE]] status has_room(thread& t, std::size_t count = 1) noexcept {
    if (t.open_.capacity() - t.open_.size() >= count) [[likely]]
      return {};
    return make_room(t, count) ? status{} : fail(errc::no_memory, "no volatile memory for a node to be unlinked");
  }
  // The node was unlinked: CAS done, written back.
  void retire(thread& t, node_heap<M>& heap, std::uint64_t offset) noexcept {
    t.open_.push_back({offset, &heap});
    t.open_waits_ = t.open_waits_ || heap.has_durable_words();
    if (t.open_.size() >= settings_.generation_nodes) t.tidy_due_ = true;
  }

  // The same for a node that operations under way may link or unlink elsewhere until they end: it waits for these, and
  // then for operations that have begun meanwhile.
  void retire_twice(thread& t, node_heap<M>& heap, std::uint64_t offset) noexcept { retire(t, heap, offset | again); }

  // All threads are outside, and none will come in: frees all unlinked nodes; afterwards no area is active.
  void come_to_rest() noexcept {
    each_thread([&](thread& t) {
      // Twice, for nodes that wait twice.
      for (int round = 0; round < 2; ++round) {
        close_generation(t);
        while (!t.closed_.empty() && free_oldest(t)) {
        }
      }
      links.settle_all();
      t.areas.trim(t.freed_, ~std::uint64_t{0});
    });
    medium_.fence(edge{"lockfree/E10"});
    (void)give_empty_extents();
  }
  // Called between operations of t, which has found no room: frees nodes that threads which are outside have unlinked.
  // give_back(number) -> bool: gives back reservations of such a thread, if it has any.  False: there is nothing to
  // free, or threads stay inside.  Costs microseconds a round.
  template <class GiveBack>
  [[nodiscard]] bool reclaim(thread& t, GiveBack&& give_back) noexcept {
    constexpr unsigned rounds = 8;
    for (unsigned round = 0; round < rounds; ++round) {
      const auto had = reclaim_once(t, give_back);
      if (had != outcome::waits) return had == outcome::freed;
      std::this_thread::yield();
    }
    return false;
  }
  // Called after a heap was abandoned: on return no thread frees a node of it any more.
  void settle_freeing() noexcept {
    each_thread([](thread& t) {
      while (t.frees_.load(std::memory_order_seq_cst) % 2 != 0) std::this_thread::yield();
    });
  }
  // The threads that are inside, or freeing, now.  Costs a barrier in all threads.
  void take_passage(passage& out) noexcept {
    epochs_.take_vector(out.inside);
    for (unsigned i = 0; i < epochs::threads_max; ++i) {
      const thread* t = threads_[i].load(std::memory_order_acquire);
      out.frees[i] = t == nullptr ? 0 : t->frees_.load(std::memory_order_seq_cst);
    }
  }
  // Whether these threads have moved on.
  [[nodiscard]] bool passed(const passage& then) const noexcept {
    if (!epochs_.passed(then.inside)) return false;
    for (unsigned i = 0; i < epochs::threads_max; ++i) {
      if (then.frees[i] % 2 == 0) continue;
      // acquire: pairs with the release at the end of a free: its write-backs are done.
      if (threads_[i].load(std::memory_order_acquire)->frees_.load(std::memory_order_acquire) == then.frees[i])
        return false;
    }
    return true;
  }
  // Adds the heap of a structure that is open; heaps are kept by the numbers of structures.
  void add(node_heap<M>& heap) noexcept {
    const std::lock_guard guard{heaps_lock_};
    heaps_[heap.owner() % heaps_.size()] = &heap;
  }
  void remove(node_heap<M>& heap) noexcept {
    const std::lock_guard guard{heaps_lock_};
    node_heap<M>*& at = heaps_[heap.owner() % heaps_.size()];
    if (at == &heap) at = nullptr;
  }
  // Gives empty extents of all structures back.  Outside of operations.  False: none went since the call began.
  bool give_empty_extents() noexcept {
    const std::uint64_t before = gives_.load(std::memory_order_relaxed);
    const std::lock_guard guard{heaps_lock_};
    // relaxed: the lock orders it.
    bool given = gives_.load(std::memory_order_relaxed) != before;
    for (node_heap<M>* heap : heaps_) {
      if (heap == nullptr) continue;
      heap->find_empty_extents();
      given = heap->give_empty_extents(*this, 0) || given;
    }
    if (given) gives_.fetch_add(1, std::memory_order_relaxed);
    return given;
  }
  [[nodiscard]] bool any_inside() const noexcept { return epochs_.any_inside(); }
  [[nodiscard]] thread& thread_at(unsigned number) noexcept {
    return *threads_[number].load(std::memory_order_acquire);
  }
  template <class Visit>
  void each_thread(Visit&& visit) {
    for (auto& at : threads_) {
      thread* t = at.load(std::memory_order_acquire);
      if (t != nullptr) visit(*t);
    }
  }

  [[nodiscard]] M& medium() noexcept { return medium_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] structure_pages& pages() noexcept { return pages_; }
  [[nodiscard]] word_table& words() noexcept { return words_; }
  [[nodiscard]] const domain_settings& settings() const noexcept { return settings_; }

  persistence<M> links;

 private:
  enum class outcome : std::uint8_t { freed, nothing, waits };
  // waits: nothing yet, since threads are inside.
  template <class GiveBack>
  [[nodiscard]] outcome reclaim_once(thread& t, GiveBack&& give_back) noexcept {
    std::array<thread*, epochs::threads_max> claimed;
    std::size_t count = 0;
    // Where no thread can fence for others, write-backs of others become durable by their own fences only.
    const bool takes_others = epochs_.fences_others() || M::atomic_batches || links.plain();
    each_thread([&](thread& u) {
      if ((&u != &t && !takes_others) || !u.own_.try_lock()) return;
      // relaxed: take_vector() comes next.
      u.claimed_.store(true, std::memory_order_relaxed);
      claimed[count++] = &u;
    });
    epochs::vector then;
    epochs_.take_vector(then);
    const auto let_go = [](thread& u) {
      // release: pairs with enter().
      u.claimed_.store(false, std::memory_order_release);
      u.own_.unlock();
    };
    std::size_t outside = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_inside = then.counts[claimed[i]->number_] % 2 != 0;
      if (is_inside) {
        let_go(*claimed[i]);
      } else {
        claimed[outside++] = claimed[i];
      }
    }
    epochs_.fence_others();
    bool freed = false;
    bool waits = outside != count;
    for (std::size_t i = 0; i < outside; ++i) {
      thread& u = *claimed[i];
      close_generation(u, &then);
      while (!u.closed_.empty() && epochs_.passed(u.closed_.front()->then) && free_oldest(u)) freed = true;
      waits = waits || !u.closed_.empty() || !u.open_.empty();
      freed = give_back(u.number_) || freed;
      let_go(u);
    }
    return freed ? outcome::freed : waits ? outcome::waits : outcome::nothing;
  }

  static constexpr std::size_t ahead = 8;
  static constexpr std::uint64_t again = 1;  // no part of the offset of a node
  [[nodiscard]] bool reserve(thread& t) noexcept try {
    t.open_.reserve(4UL * settings_.generation_nodes);
    t.spare_.reserve(8);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  // An operation that contains many others unlinks more than a generation.
  [[nodiscard, gnu::noinline]] bool make_room(thread& t, std::size_t count) noexcept try {
    t.open_.reserve(2 * t.open_.capacity() + count);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  // Between operations of t.
  [[gnu::noinline]] void tidy_up(thread& t) noexcept {
    const std::lock_guard guard{t.own_};
    t.tidy_due_ = false;
    const std::uint64_t freed = t.freed_;
    if (t.open_.size() >= settings_.generation_nodes) close_generation(t);
    if (t.open_.empty()) close_generation(t);
    while (!t.closed_.empty() && epochs_.passed(t.closed_.front()->then) && free_oldest(t)) {
    }
    // Areas that have waited for the nodes which are free now may leave the table.
    if (t.freed_ != freed ? t.areas.size() > trim_first : t.areas.full()) {
      links.settle_all();
      t.areas.trim(t.freed_, t.operation_ + 1);
    } else {
      t.areas.forget_allocations(t.operation_ + 1);
    }
  }
  // `then`: all epochs, if they have been taken after the thread was seen outside.
  void close_generation(thread& t, const epochs::vector* then = nullptr) noexcept {
    if (t.open_.empty()) {
      // Areas noted for a node that another thread unlinked need not wait.
      if (t.closed_.empty()) t.freed_ = t.newest_++;
      return;
    }
    std::unique_ptr<generation> g;
    if (t.spare_.empty()) {
      g.reset(new (std::nothrow) generation);
      // Without memory the open generation waits for the next one that is freed.
      if (g == nullptr) return;
    } else {
      g = std::move(t.spare_.back());
      t.spare_.pop_back();
    }
    try {
      g->nodes.reserve(t.open_.capacity());
      t.closed_.push_back(nullptr);
    } catch (const std::bad_alloc&) {
      return;
    }
    g->number = t.newest_++;
    g->nodes.swap(t.open_);
    g->waits = std::exchange(t.open_waits_, false);
    if (then != nullptr) {
      g->then = *then;
    } else {
      epochs_.take_vector(g->then);
    }
    t.closed_.back() = std::move(g);
  }
  // Moves nodes that have to wait once more to the open generation.  False: no memory.
  [[nodiscard]] bool keep_for_another(thread& t, std::vector<retired>& nodes) noexcept {
    const auto first =
        std::partition(nodes.begin(), nodes.end(), [](const retired& r) { return (r.offset & again) == 0; });
    const auto count = static_cast<std::size_t>(nodes.end() - first);
    if (t.open_.capacity() - t.open_.size() < count && !make_room(t, count)) return false;
    for (auto r = first; r != nodes.end(); ++r) {
      const std::uint64_t offset = r->offset & ~again;
      // The area is in the table, and stays.
      if (r->heap->has_durable_words())
        (void)t.areas.unlinks(r->heap->area_of(offset), r->heap->owner(), t.newest_, true);
      t.open_.push_back({offset, r->heap});
      t.open_waits_ = t.open_waits_ || r->heap->has_durable_words();
    }
    nodes.erase(first, nodes.end());
    return true;
  }
  // False: no memory; it waits.
  [[nodiscard]] bool free_oldest(thread& t) noexcept {
    if (!keep_for_another(t, t.closed_.front()->nodes)) return false;
    std::unique_ptr<generation> g = std::move(t.closed_.front());
    t.closed_.erase(t.closed_.begin());
    if (g->waits) {
      links.settle_all();
      medium_.fence(edge{"lockfree/E9"});
    }
    free_all(t, g->nodes);
    t.freed_ = g->number;
    g->nodes.clear();
    if (t.spare_.size() < t.spare_.capacity()) t.spare_.push_back(std::move(g));
    return true;
  }

  void free_all(thread& t, std::vector<retired>& nodes) noexcept {
    const std::uint32_t frees = t.frees_.load(std::memory_order_relaxed);
    // seq_cst: pairs with settle_freeing(): either the other thread waits for us, or we see that a heap was abandoned.
    t.frees_.store(frees + 1, std::memory_order_seq_cst);
    const std::size_t count = nodes.size();
    std::size_t emptied = 0;
    {
      lines_written<M> lines{medium_};
      for (std::size_t i = 0; i < count; ++i) {
        if (i + ahead < count) nodes[i + ahead].heap->prefetch(nodes[i + ahead].offset);
        const std::uint64_t word = nodes[i].heap->free(nodes[i].offset, lines);
        if (word != 0) nodes[emptied++] = {word - 1, nodes[i].heap};
      }
    }
    for (std::size_t i = 0; i < emptied; ++i) nodes[i].heap->look_at_extent_of(nodes[i].offset);
    // release: the write-backs come before.
    t.frees_.store(frees + 2, std::memory_order_release);
    for (std::size_t i = 0; i < emptied; ++i) {
      if (i == 0 || nodes[i].heap != nodes[i - 1].heap)
        (void)nodes[i].heap->give_empty_extents(*this, empty_extents::kept);
    }
  }

  M& medium_;
  std::byte* const base_;
  structure_pages& pages_;
  const domain_settings settings_;
  word_table words_;
  spin_lock heaps_lock_;
  std::array<node_heap<M>*, 256> heaps_{};
  std::atomic<std::uint64_t> gives_{0};
  epochs epochs_;
  std::array<std::atomic<thread*>, epochs::threads_max> threads_{};
};

}  // namespace nvm::lockfree
