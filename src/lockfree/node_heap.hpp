// Nodes of one structure: allocation bits in the extents that belong to it, and what is known about them in volatile
// memory.
//
// A node exists when its bit is set.  A thread works in one allocation word at a time (56 slots) and class of sizes: it
// owns the word, so that allocations of different threads do not meet.  Any thread may free a node of any word.
//
// How many bits a thread sets at once is a parameter.  With one, an allocation writes its word back, as in the paper.
// With all free bits of the word (the default) an allocation is a few instructions: the table of active areas finds
// nodes that are allocated and not yet linked anyway (active_areas.hpp), so nothing is lost, and the word is written
// back once for all of them.
//
/// S bit (CAS; its area is active); F it: durable with the first link to the node (lockfree/E1)
/// Free: when nothing leads to the node, durably: S bit 0 (CAS); F it; | lockfree/E7 before its area may be forgotten
//
// allocation_words.hpp knows which words have free places.  Words of extents that were there when the pool was opened
// are looked at when the stack of their class is empty, by one thread at a time.  Extents in which nothing is left go
// back to the pool (empty_extents.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>

#include "base/inlining.hpp"
#include "base/unsteady.hpp"
#include "lockfree/active_areas.hpp"
#include "lockfree/allocation_words.hpp"
#include "lockfree/empty_extents.hpp"
#include "lockfree/lines_written.hpp"
#include "lockfree/node_sizes.hpp"
#include "media/media.hpp"
#include "platform/platform.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree {

template <media M>
class node_heap {
 public:
  struct settings {
    std::uint16_t owner = 0;
    nvm::layout::slot_protocol protocol = nvm::layout::slot_protocol::epoch;
    unsigned area_shift = 12;
    bool all_at_once = true;
    std::uint64_t size_pages_at_open = 0;
    bool durable_words = true;   // false: nodes prove themselves; words are rebuilt, and no area is ever active
    bool gives_extents = false;  // extents in which nothing is left
  };
  node_heap(M& medium, std::byte* base, structure_pages& pages, word_table& words, const settings& s) noexcept
      : medium_{medium},
        base_{base},
        pages_{pages},
        words_{words},
        settings_{s},
        places_{&places_of_nodes(words.shape)} {
    for (unsigned c = 0; c < classes; ++c) stacks_[c].serve(s.owner, c);
  }
  node_heap(const node_heap&) = delete;
  node_heap& operator=(const node_heap&) = delete;

  [[nodiscard]] std::uint16_t owner() const noexcept { return settings_.owner; }
  [[nodiscard]] std::uint64_t area_of(std::uint64_t offset) const noexcept { return offset >> settings_.area_shift; }

  // Room for a node, allocated on media, durable with the first link to it.  errc::no_space, no_memory, too_large.
  [[nodiscard, NVM_INLINE]] result<std::uint64_t> allocate(node_cache& cache, active_areas<M>& areas, unsigned arena,
                                                           std::uint64_t operation, std::uint64_t bytes) noexcept {
    const unsigned c = class_of(bytes);
    if (c == classes) [[unlikely]]
      return allocate_run(areas, arena, operation, bytes);
    node_cache::of_class& own = cache.of[c];
    if (own.places == 0) [[unlikely]] {
      if (status s = refill(own, areas, arena, operation, c); !s) return s.error();
    }
    const auto bit = static_cast<unsigned>(std::countr_zero(own.places));
    own.places &= own.places - 1;
    if (!settings_.all_at_once) [[unlikely]] {
      (void)areas.allocates(area_of(own.first + bit * slot_bytes), owner(), operation, false);
      set_bits(own.word - 1, std::uint64_t{1} << bit);
    }
    return own.first + bit * slot_bytes;
  }

  // A node that nothing has ever led to.
  void discard(node_cache& cache, active_areas<M>& areas, std::uint64_t operation, std::uint64_t offset) noexcept {
    const where at = find(offset);
    if (at.is_run) {
      pages_.give(offset);
      return;
    }
    for (node_cache::of_class& own : cache.of) {
      if (own.word != at.word + 1) continue;
      if (!settings_.all_at_once) (void)clear_bit(at);
      own.places |= std::uint64_t{1} << at.bit;
      wipe(offset);
      return;
    }
    wipe(offset);
    if (settings_.durable_words) (void)areas.allocates(area_of(offset), owner(), operation, false);
    const std::uint64_t left = clear_bit(at);
    became_free(at.word);
    if (left == 0) look_at_extent_of(at.word);
  }

  // A node that nothing leads to, durably.  `written` collects the lines to be written back.  Returns the number of its
  // word + 1 if that has become empty: the caller calls look_at_extent_of() when the lines have been written back.
  template <class Lines>
  std::uint64_t free(std::uint64_t offset, Lines& written) noexcept {
    if (abandoned_.load(std::memory_order_seq_cst)) return 0;
    const where at = find(offset);
    if (at.is_run) {
      pages_.give(offset);
      return 0;
    }
    const std::uint64_t left = change_word(at.word, 0, std::uint64_t{1} << at.bit) & ~(std::uint64_t{1} << at.bit);
    if (settings_.durable_words) written.add(base_ + words_.word_offset(at.word));
    if (worth_taking(left)) became_free(at.word);
    return left == 0 && settings_.gives_extents ? at.word + 1 : 0;
  }

  // ---- extents in which nothing is left ----

  // Sets the extent of an empty word aside if all its words are empty.
  void look_at_extent_of(std::uint64_t word) noexcept {
    if (!settings_.gives_extents || abandoned_.load(std::memory_order_seq_cst)) return;
    const std::uint32_t state = words_.states[word].load(std::memory_order_acquire);
    if (word_table::owner_in(state) != owner()) return;
    word_stack& of = stacks_[word_table::class_in(state)];
    if (!of.filling.try_lock()) {
      // relaxed: a hint for a thread that is short of room.
      missed_.store(true, std::memory_order_relaxed);
      return;
    }
    const std::lock_guard guard{of.filling, std::adopt_lock};
    // The extent may have gone meanwhile, and have come back for another class.
    if (!of.serves(words_.states[word].load(std::memory_order_acquire))) return;
    (void)set_aside_if_empty(word - word % words_.shape.words, word_table::class_in(state));
  }
  // Finds empty extents that earlier looks have missed, also those of earlier processes.
  void find_empty_extents() noexcept {
    if (!settings_.gives_extents || !missed_.exchange(false, std::memory_order_relaxed)) return;
    pages_.each_owned(0, pages_.size_pages(), this, [](void* raw, const owned_pages& p) {
      auto& heap = *static_cast<node_heap*>(raw);
      if (p.owner != heap.owner() || p.kind != nvm::layout::page_kind::coarse) return true;
      const unsigned c = heap.class_of_extent(p.offset);
      if (c >= classes || !heap.stacks_[c].filling.try_lock()) return true;
      const std::lock_guard guard{heap.stacks_[c].filling, std::adopt_lock};
      bool found = false;
      heap.list_extent(p, c, found);
      return true;
    });
  }
  // empty_extents::give().
  template <class Domain>
  bool give_empty_extents(Domain& in, unsigned kept) noexcept {
    return empty_.give(in, kept);
  }

  // Zeroes a place that was never linked, so that recovery cannot take it for a node that was.
  void wipe(std::uint64_t offset) noexcept {
    if (!settings_.durable_words) return;
    auto* words = reinterpret_cast<std::uint64_t*>(base_ + offset);
    constexpr std::uint64_t count = line_bytes / sizeof *words;
    if (std::all_of(words, words + count, [](std::uint64_t w) { return w == 0; })) return;
    std::fill_n(words, count, 0U);
    medium_.flush(words, line_bytes);
  }

  // The structure was dropped: its waiting nodes are forgotten, for its pages get a new owner.  On return no thread
  // gives any of its pages back.
  void abandon() noexcept {
    abandoned_.store(true, std::memory_order_seq_cst);
    empty_.abandon();
  }
  // Resets what is known of the words of pages, before these get a new owner.
  void forget_words() noexcept {
    pages_.each_owned(0, pages_.size_pages(), this, [](void* raw, const owned_pages& p) {
      auto& heap = *static_cast<node_heap*>(raw);
      if (p.owner != heap.owner() || p.kind != nvm::layout::page_kind::coarse) return true;
      heap.set_states(heap.words_.first_word_of(p.offset), word_table::unknown);
      return true;
    });
  }
  void prefetch(std::uint64_t offset) const noexcept {
    const std::uint64_t inside = offset - words_.data_offset;
    const std::uint64_t word =
        inside / words_.shape.bytes * words_.shape.words + inside % words_.shape.bytes / slot_bytes / checked_bits;
    __builtin_prefetch(base_ + words_.word_offset(word), 1);
  }
  // The same, where `offset` may be anything.
  void prefetch_words(std::uint64_t offset) const noexcept {
    const std::uint64_t bytes = pages_.size_pages() << pages_.sizes().page_shift;
    if (offset - words_.data_offset < bytes) prefetch(offset);
  }
  // Gives the thread's words back.
  void release(node_cache& cache, active_areas<M>& areas, std::uint64_t operation) noexcept {
    for (unsigned c = 0; c < classes; ++c) let_go(cache.of[c], areas, operation);
  }

  // Calls visit(offset, bytes) for each node that is allocated, of those whose offsets are in [first, end), and for
  // each run.  For recovery and checks: no thread allocates meanwhile.
  template <class Visit>
  void each_allocated(std::uint64_t first, std::uint64_t end, Visit&& visit) const noexcept {
    struct closure {
      const node_heap& heap;
      std::uint64_t first, end;
      Visit& visit;
    } c{*this, first, end, visit};
    const geometry& g = pages_.sizes();
    if (end <= g.data_offset) return;
    const std::uint64_t from = first > g.data_offset ? round_down(g.page_of(first), 8) : 0;
    pages_.each_owned(from, ceil_div(end - g.data_offset, g.page_bytes()), &c, [](void* raw, const owned_pages& p) {
      auto& k = *static_cast<closure*>(raw);
      if (p.owner == k.heap.owner()) k.heap.visit_owned(p, k.first, k.end, k.visit);
      return true;
    });
  }

  // Calls visit(offset, bytes) for each place for a node in what may be an extent, of whichever owner.
  template <class Visit>
  void each_place_in(std::uint64_t extent_offset, Visit&& visit) const noexcept {
    if (load_word(base_, extent_offset) != extent_identity_word(extent_offset, nvm::layout::page_kind::coarse)) return;
    const unsigned c = class_at(extent_offset);
    if (c >= classes) return;
    const std::uint64_t first = words_.first_word_of(extent_offset);
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      for (std::uint64_t left = places_of(w, c); left != 0; left &= left - 1) {
        visit(words_.first_slot_offset(w) + static_cast<unsigned>(std::countr_zero(left)) * slot_bytes, class_bytes(c));
      }
    }
  }

  // Whether all pages of [first, end) are this heap's, or free; other threads may take and give pages meanwhile.
  [[nodiscard]] bool has_alone(std::uint64_t first, std::uint64_t end) const noexcept {
    const geometry& g = pages_.sizes();
    for (std::uint64_t page = first; page < end;) {
      const auto p = pages_.owned_at(g.page_offset(page));
      if (p && p->owner == owner()) {
        page = g.page_of(p->offset + p->bytes);
      } else if (pages_.is_free(page)) {
        ++page;
      } else {
        return false;
      }
    }
    return true;
  }
  // Calls visit(offset, bytes) for each place there in which this heap may have a node.
  template <class Visit>
  void each_place_near(std::uint64_t first, std::uint64_t end, Visit&& visit) const noexcept {
    const geometry& g = pages_.sizes();
    for (std::uint64_t page = first; page < end;) {
      const auto p = pages_.owned_at(g.page_offset(page));
      if (!p || p->owner != owner()) {
        ++page;
        continue;
      }
      page = g.page_of(p->offset + p->bytes);
      if (p->kind == nvm::layout::page_kind::run) {
        visit(p->offset, p->bytes);
        continue;
      }
      std::uint8_t length = 0;
      copy_unsteady(&length, base_ + p->offset + words_.shape.lengths_at + words_.shape.header_slots, sizeof length);
      const unsigned slots = nvm::layout::slots_of_length(length);
      const unsigned c = slots == 0 ? classes : class_of_slots(slots);
      if (c < classes) each_place_near_in(words_.first_word_of(p->offset), c, visit);
    }
  }

  // Begins the write-back of the allocation words of nodes whose offsets are in [first, end).
  void write_back_words(std::uint64_t first, std::uint64_t end) const noexcept {
    struct closure {
      const node_heap& heap;
      std::uint64_t first, end;
    } c{*this, first, end};
    const geometry& g = pages_.sizes();
    if (end <= g.data_offset) return;
    const std::uint64_t from = first > g.data_offset ? round_down(g.page_of(first), 8) : 0;
    pages_.each_owned(from, ceil_div(end - g.data_offset, g.page_bytes()), &c, [](void* raw, const owned_pages& p) {
      const auto& k = *static_cast<const closure*>(raw);
      if (p.owner != k.heap.owner() || p.kind != nvm::layout::page_kind::coarse) return true;
      const auto [begin, behind] = k.heap.words_between(p, k.first, k.end);
      if (begin < behind) k.heap.medium_.flush(k.heap.base_ + k.heap.words_.word_offset(begin), (behind - begin) * 8);
      return true;
    });
  }
  [[nodiscard]] bool has_durable_words() const noexcept { return settings_.durable_words; }
  // Makes the words of an extent of nodes that prove themselves, before any thread has used it: a node is allocated if
  // lives(offset, bytes) says so.  False: the extent does not say how large its nodes are.
  template <class Lives>
  [[nodiscard]] bool rebuild_words(const owned_pages& p, Lives&& lives) noexcept {
    const unsigned c = class_at(p.offset);
    if (c == classes || load_word(base_, p.offset) != extent_identity_word(p.offset, p.kind)) return false;
    const std::uint64_t first = words_.first_word_of(p.offset);
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      std::uint64_t nodes = 0;
      for (std::uint64_t left = places_of(w, c); left != 0; left &= left - 1) {
        const auto bit = static_cast<unsigned>(std::countr_zero(left));
        if (lives(words_.first_slot_offset(w) + bit * slot_bytes, class_bytes(c))) nodes |= std::uint64_t{1} << bit;
      }
      // relaxed: the threads that work with it come later.
      word_at(w).store(seal_word(nodes, word_seed(words_.word_offset(w))), std::memory_order_relaxed);
    }
    return true;
  }
  // Number of allocated nodes, under the rules of each_allocated().  By so many threads, if they are worth it.
  [[nodiscard]] std::uint64_t count_allocated(unsigned threads = 1) const noexcept {
    constexpr std::uint64_t pages_per_thread = 8192;
    const auto parts =
        static_cast<unsigned>(std::min<std::uint64_t>(threads, pages_.size_pages() / pages_per_thread + 1));
    std::atomic<std::uint64_t> all{0};
    platform::run_parts(parts, [&](unsigned part) noexcept {
      struct closure {
        const node_heap& heap;
        std::uint64_t n = 0;
      } c{*this};
      const std::uint64_t size = pages_.size_pages();
      pages_.each_owned(size * part / parts, size * (part + 1) / parts, &c, [](void* raw, const owned_pages& p) {
        auto& in = *static_cast<closure*>(raw);
        if (p.owner == in.heap.owner()) in.n += in.heap.count_in(p);
        return true;
      });
      all.fetch_add(c.n, std::memory_order_relaxed);
    });
    return all.load(std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned places_to_list = 12;

  // Whether a word with these nodes is worth taking: words with a place or two would wear out the table of active
  // areas. Where nodes are so large that a word has few, any place will do.
  [[nodiscard]] static bool worth_taking(std::uint64_t nodes) noexcept {
    return checked_bits - static_cast<unsigned>(std::popcount(nodes)) >= places_to_list;
  }

  struct where {
    std::uint64_t word = 0;
    unsigned bit = 0;
    bool is_run = false;
  };
  [[nodiscard]] where find(std::uint64_t offset) const noexcept {
    const std::uint64_t inside = offset - words_.data_offset;
    const std::uint64_t slot = inside % words_.shape.bytes / slot_bytes;
    const std::uint64_t extent = inside / words_.shape.bytes;
    // Only an offset at a page's start can be a run's; the page map tells.
    const std::uint64_t word = extent * words_.shape.words + slot / checked_bits;
    if (offset % pages_.sizes().page_bytes() == 0 && is_run_at(offset)) return {0, 0, true};
    return {word, static_cast<unsigned>(slot % checked_bits), false};
  }
  [[nodiscard, gnu::noinline]] bool is_run_at(std::uint64_t offset) const noexcept {
    const auto p = pages_.owned_at(offset);
    return p && p->kind == nvm::layout::page_kind::run && p->offset == offset;
  }

  // ---- bits ----

  [[nodiscard]] std::atomic_ref<std::uint64_t> word_at(std::uint64_t word) const noexcept {
    return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(base_ + words_.word_offset(word))};
  }
  // Returns the content before.
  std::uint64_t change_word(std::uint64_t word, std::uint64_t set, std::uint64_t clear) noexcept {
    const auto at = word_at(word);
    const std::uint8_t seed = word_seed(words_.word_offset(word));
    std::uint64_t now = at.load(std::memory_order_relaxed);
    // seq_cst: a thread that is given a place finds the node that was there out of use; and before the word's state is
    // read.
    while (!at.compare_exchange_weak(now, seal_word(((now & checked_mask) | set) & ~clear, seed),
                                     std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
    return now & checked_mask;
  }
  void set_bits(std::uint64_t word, std::uint64_t bits) noexcept {
    (void)change_word(word, bits, 0);
    medium_.flush(base_ + words_.word_offset(word), 8);
  }
  // Returns the nodes that are left in the word.
  std::uint64_t clear_bit(const where& at) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << at.bit;
    const std::uint64_t left = change_word(at.word, 0, bit) & ~bit;
    if (settings_.durable_words) medium_.flush(base_ + words_.word_offset(at.word), 8);
    return left;
  }
  [[nodiscard]] std::uint64_t places_of(std::uint64_t word, unsigned c) const noexcept {
    return (*places_)[c][word % words_.shape.words];
  }
  // Class of the nodes of an extent; `classes`: its length bytes name none.
  [[nodiscard]] unsigned class_at(std::uint64_t extent_offset) const noexcept {
    const std::byte length = base_[extent_offset + words_.shape.lengths_at + words_.shape.header_slots];
    const unsigned slots = nvm::layout::slots_of_length(static_cast<std::uint8_t>(length));
    return slots == 0 ? classes : class_of_slots(slots);
  }

  // ---- words ----

  [[nodiscard, gnu::noinline]] status refill(node_cache::of_class& own, active_areas<M>& areas, unsigned arena,
                                             std::uint64_t operation, unsigned c) noexcept {
    for (;;) {
      std::uint64_t word = 0;
      if (own.word != 0) {
        // Others may have freed nodes of it meanwhile.
        word = own.word - 1;
        const std::uint64_t nodes = word_at(word).load(std::memory_order_acquire) & checked_mask;
        if ((places_of(word, c) & ~nodes) == 0 || !worth_taking(nodes)) {
          let_go(own, areas, operation);
          continue;
        }
      } else {
        const auto found = take_word(c, arena);
        if (!found) return found.error();
        word = *found;
        own.word = word + 1;
        own.first = words_.first_slot_offset(word);
        const std::uint64_t places = places_of(word, c);
        own.areas[0] = area_of(own.first + static_cast<unsigned>(std::countr_zero(places)) * slot_bytes);
        own.areas[1] = area_of(own.first + (63U - static_cast<unsigned>(std::countl_zero(places))) * slot_bytes);
        status active = pin(areas, own, operation);
        if (!active) {
          own.word = 0;
          stacks_[c].put_back(words_, word);
          return active;
        }
      }
      const std::uint64_t wanted = places_of(word, c);
      if (settings_.all_at_once) {
        const std::uint64_t before = change_word(word, wanted, 0);
        own.places = wanted & ~before;
        if (own.places != 0 && settings_.durable_words) medium_.flush(base_ + words_.word_offset(word), 8);
      } else {
        own.places = wanted & ~word_at(word).load(std::memory_order_acquire);
      }
      if (own.places != 0) return {};
    }
  }
  [[nodiscard]] status pin(active_areas<M>& areas, const node_cache::of_class& own, std::uint64_t operation) noexcept {
    if (!settings_.durable_words) return {};
    if (status s = areas.allocates(own.areas[0], owner(), operation, true); !s) return s;
    for (std::uint64_t a = own.areas[0] + 1; a <= own.areas[1]; ++a) {
      status s = areas.allocates(a, owner(), operation, true);
      if (s) continue;
      while (a-- > own.areas[0]) areas.unpin(a, owner(), operation);
      return s;
    }
    return {};
  }
  void unpin(active_areas<M>& areas, const node_cache::of_class& own, std::uint64_t operation) noexcept {
    if (!settings_.durable_words) return;
    for (std::uint64_t a = own.areas[0]; a <= own.areas[1]; ++a) areas.unpin(a, owner(), operation);
  }
  void let_go(node_cache::of_class& own, active_areas<M>& areas, std::uint64_t operation) noexcept {
    if (own.word == 0) return;
    const std::uint64_t word = own.word - 1;
    if (abandoned_.load(std::memory_order_seq_cst)) {
      unpin(areas, own, operation);
      own = {};
      return;
    }
    if (settings_.all_at_once && own.places != 0) {
      (void)change_word(word, 0, own.places);
      if (settings_.durable_words) medium_.flush(base_ + words_.word_offset(word), 8);
    }
    unpin(areas, own, operation);
    own = {};
    const unsigned c = word_table::class_in(words_.states[word].load(std::memory_order_relaxed));
    stacks_[c].set_idle(words_, word);
    // A thread that freed a node while the word was ours has left it to us to list the word.
    const std::uint64_t nodes = word_at(word).load(std::memory_order_seq_cst) & checked_mask;
    if ((places_of(word, c) & ~nodes) != 0 && worth_taking(nodes)) became_free(word);
    if (nodes == 0) look_at_extent_of(word);
  }
  // The word has a free place.
  void became_free(std::uint64_t word) noexcept {
    const std::uint32_t state = words_.states[word].load(std::memory_order_seq_cst);
    // The state names another heap if the extent has gone since.
    if (word_table::owner_in(state) == owner()) (void)stacks_[word_table::class_in(state)].put_if_idle(words_, word);
  }
  [[nodiscard]] result<std::uint64_t> take_word(unsigned c, unsigned arena) noexcept {
    word_stack& from = stacks_[c];
    for (;;) {
      if (const std::uint64_t word = from.take(words_); word != 0) return word - 1;
      // One thread at a time: a new extent is visible before it is durable and before its words are listed, and no
      // other thread that looks for a place may find it then.
      const std::lock_guard guard{from.filling};
      if (!from.is_empty() || list_some_of_media(c) || use_one_set_aside(c)) continue;
      const auto extent = pages_.take_extent(arena, settings_.protocol, owner(), class_slots[c]);
      if (!extent) {
        if (extent.error() == errc::no_space && list_any_place(c)) continue;
        return extent.error();
      }
      const std::uint64_t first = words_.first_word_of(*extent);
      for (std::uint64_t w = words_.shape.words; w-- > 0;) {
        // The pages may have held nodes of another structure.
        for (std::uint64_t left = places_of(first + w, c); left != 0; left &= left - 1) {
          wipe(words_.first_slot_offset(first + w) + static_cast<unsigned>(std::countr_zero(left)) * slot_bytes);
        }
        make_known(first + w, c);
      }
    }
  }
  // The word is idle, and listed if it has places.
  void make_known(std::uint64_t word, unsigned c) noexcept {
    stacks_[c].set_idle(words_, word);
    if (places_of(word, c) != 0) (void)stacks_[c].put_if_idle(words_, word);
  }
  void set_states(std::uint64_t first, std::uint32_t state) noexcept {
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      words_.states[w].store(state, std::memory_order_relaxed);
    }
  }

  // ---- extents in which nothing is left: called by the thread that fills the class ----

  [[nodiscard]] bool has_no_node(std::uint64_t first, unsigned c) const noexcept {
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      const std::uint64_t word = word_at(w).load(std::memory_order_acquire);
      if ((word & places_of(w, c)) != 0 || !word_holds(word, word_seed(words_.word_offset(w)))) return false;
    }
    return true;
  }
  // Class of what was an extent of this heap when the page map was looked at; `classes`: it is gone.  The thread that
  // fills the class can rely on it.
  [[nodiscard]] unsigned class_of_extent(std::uint64_t offset) const noexcept {
    // acquire: pairs with set_idle().  The first word of an extent gets its state last.
    const std::uint32_t state = words_.states[words_.first_word_of(offset)].load(std::memory_order_acquire);
    // Without a state it is an extent from before the open: it has had no other use since, because only known ones are
    // given back.
    if (state == word_table::unknown) return class_at(offset);
    return word_table::owner_in(state) == owner() && word_table::phase_in(state) != word_table::set_aside
               ? word_table::class_in(state)
               : classes;
  }
  bool set_aside_if_empty(std::uint64_t first, unsigned c) noexcept {
    if (!has_no_node(first, c)) return false;
    const auto is_empty = [&](std::uint64_t w) noexcept {
      return (word_at(w).load(std::memory_order_acquire) & places_of(w, c)) == 0;
    };
    if (!stacks_[c].set_aside(words_, first, is_empty)) return false;
    empty_.keep(first, c);
    return true;
  }
  [[nodiscard]] bool use_one_set_aside(unsigned c) noexcept {
    const std::uint64_t first = empty_.take(c);
    if (first == 0) return false;
    for (std::uint64_t w = words_.shape.words; w-- > 0;) make_known(first - 1 + w, c);
    return true;
  }
  // Lists words of extents that were there when the pool was opened; false: nothing is left.
  [[nodiscard]] bool list_some_of_media(unsigned c) noexcept {
    constexpr std::uint64_t pages_at_once = 1024;
    struct closure {
      node_heap& heap;
      unsigned c;
      bool found;
    } k{*this, c, false};
    for (;;) {
      const std::uint64_t first = cursors_[c].fetch_add(pages_at_once, std::memory_order_relaxed);
      if (first >= settings_.size_pages_at_open) {
        cursors_[c].store(settings_.size_pages_at_open, std::memory_order_relaxed);
        return false;
      }
      pages_.each_owned(first, std::min(first + pages_at_once, settings_.size_pages_at_open), &k,
                        [](void* raw, const owned_pages& p) {
                          auto& in = *static_cast<closure*>(raw);
                          in.heap.list_extent(p, in.c, in.found);
                          return true;
                        });
      if (k.found) return true;
    }
  }
  // The pool is full: any place will do.
  [[nodiscard]] bool list_any_place(unsigned c) noexcept {
    struct closure {
      node_heap& heap;
      unsigned c;
      bool found;
    } k{*this, c, false};
    pages_.each_owned(0, pages_.size_pages(), &k, [](void* raw, const owned_pages& p) {
      auto& in = *static_cast<closure*>(raw);
      in.heap.list_extent(p, in.c, in.found);
      return !in.found;
    });
    return k.found;
  }
  void list_extent(const owned_pages& p, unsigned c, bool& found) noexcept {
    if (p.owner != owner() || p.kind != nvm::layout::page_kind::coarse || class_of_extent(p.offset) != c) return;
    // A word that fails its check is left alone.
    if (load_word(base_, p.offset) != extent_identity_word(p.offset, p.kind)) return;
    const std::uint64_t first = words_.first_word_of(p.offset);
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      const std::uint32_t state = words_.states[w].load(std::memory_order_relaxed);
      // First the state, then the bits: either we see a place that is freed meanwhile, or the thread that frees it sees
      // the state.
      if (word_table::owner_in(state) != owner()) stacks_[c].set_idle(words_, w);
      const std::uint64_t word = word_at(w).load(std::memory_order_seq_cst);
      if ((places_of(w, c) & ~word) == 0 || !word_holds(word, word_seed(words_.word_offset(w)))) continue;
      if (stacks_[c].put_if_idle(words_, w)) found = true;
    }
    if (settings_.gives_extents && set_aside_if_empty(first, c)) found = true;
  }
  template <class Visit>
  void each_place_near_in(std::uint64_t first, unsigned c, Visit& visit) const noexcept {
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      std::uint64_t word = 0;
      copy_unsteady(&word, base_ + words_.word_offset(w), sizeof word);
      for (std::uint64_t left = word & places_of(w, c); left != 0; left &= left - 1) {
        visit(words_.first_slot_offset(w) + static_cast<unsigned>(std::countr_zero(left)) * slot_bytes, class_bytes(c));
      }
    }
  }
  // The words of an extent for places in [first, end).
  struct word_range {
    std::uint64_t begin, behind;
  };
  [[nodiscard]] word_range words_between(const owned_pages& p, std::uint64_t first, std::uint64_t end) const noexcept {
    constexpr std::uint64_t bytes = checked_bits * slot_bytes;  // of places that share a word
    const std::uint64_t word = words_.first_word_of(p.offset);
    const std::uint64_t from = first > p.offset ? (first - p.offset) / bytes : 0;
    const std::uint64_t to = end > p.offset ? ceil_div(end - p.offset, bytes) : 0;
    return {word + from, word + std::min<std::uint64_t>(to, words_.shape.words)};
  }
  template <class Visit>
  void visit_owned(const owned_pages& p, std::uint64_t first, std::uint64_t end, Visit& visit) const noexcept {
    if (p.kind == nvm::layout::page_kind::run) {
      if (p.offset >= first && p.offset < end) visit(p.offset, p.bytes);
      return;
    }
    const unsigned c = class_at(p.offset);
    if (c >= classes) return;
    const auto [begin, behind] = words_between(p, first, end);
    for (std::uint64_t w = begin; w < behind; ++w) {
      const std::uint64_t word = word_at(w).load(std::memory_order_relaxed);
      if (!word_holds(word, word_seed(words_.word_offset(w)))) continue;
      for (std::uint64_t left = word & places_of(w, c); left != 0; left &= left - 1) {
        const std::uint64_t at =
            words_.first_slot_offset(w) + static_cast<unsigned>(std::countr_zero(left)) * slot_bytes;
        if (at >= first && at < end) visit(at, class_bytes(c));
      }
    }
  }

  [[nodiscard]] std::uint64_t count_in(const owned_pages& p) const noexcept {
    if (p.kind == nvm::layout::page_kind::run) return 1;
    const unsigned c = class_at(p.offset);
    if (c >= classes) return 0;
    const std::uint64_t begin = words_.first_word_of(p.offset);
    std::uint64_t n = 0;
    for (std::uint64_t w = begin; w < begin + words_.shape.words; ++w) {
      const std::uint64_t word = word_at(w).load(std::memory_order_relaxed);
      if (!word_holds(word, word_seed(words_.word_offset(w)))) continue;
      n += static_cast<std::uint64_t>(std::popcount(word & places_of(w, c)));
    }
    return n;
  }

  // ---- runs ----

  [[nodiscard, gnu::noinline]] result<std::uint64_t> allocate_run(active_areas<M>& areas, unsigned arena,
                                                                  std::uint64_t operation,
                                                                  std::uint64_t bytes) noexcept {
    struct closure {
      node_heap& heap;
      active_areas<M>& areas;
      std::uint64_t operation;
      status active;
    } k{*this, areas, operation, {}};
    const auto run = pages_.take_run(
        arena, settings_.protocol, owner(), bytes,
        [](void* raw, std::uint64_t offset) {
          auto& in = *static_cast<closure*>(raw);
          if (!in.heap.settings_.durable_words) return;
          in.active = in.areas.allocates(in.heap.area_of(offset), in.heap.owner(), in.operation, false);
          if (in.active) in.areas.fence();  // the next store is a plain one
        },
        &k);
    if (!run) return run.error();
    if (!k.active) {
      pages_.give(*run);
      return k.active.error();
    }
    return *run;
  }

  M& medium_;
  std::byte* const base_;
  structure_pages& pages_;
  word_table& words_;
  const settings settings_;
  const node_places* places_;
  std::atomic<bool> abandoned_{false};
  std::array<word_stack, classes> stacks_;
  empty_extents empty_{words_, pages_, stacks_};
  std::atomic<bool> missed_{true};                             // there may be empty ones that were not set aside
  std::array<std::atomic<std::uint64_t>, classes> cursors_{};  // next page to look at
};

}  // namespace nvm::lockfree
