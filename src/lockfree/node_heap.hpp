// Nodes of one structure: allocation bits in the extents that belong to it, and what is known about them in volatile
// memory.
//
// A node exists when its bit is set.  A thread works in one allocation word at a time (56 slots) and class of sizes: it
// owns the word, so that allocations of different threads do not meet.  Anybody may free a node of any word.
//
// How many bits a thread sets at once is a parameter.  One, and an allocation writes its word back, as in the paper.
// All that are free in the word (the default), and an allocation is a few instructions: nodes that are allocated and
// not yet linked are what the table of active areas is about anyway (active_areas.hpp), so nothing is lost, and the
// word is written back once for all of them.
//
/// S bit (CAS; its area is active); F it: durable with the first link to the node (lockfree/E1)
/// Free: when nothing leads to the node, durably: S bit 0 (CAS); F it; | lockfree/E7 before its area may be forgotten
//
// Words are idle (full, or nobody has looked), listed (has free places, on the stack of its class) or owned.  Words of
// extents that were there when the pool was opened are looked at when the stack is empty, by one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>

#include "base/inlining.hpp"
#include "lockfree/active_areas.hpp"
#include "lockfree/node_sizes.hpp"
#include "media/media.hpp"
#include "platform/platform.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::lockfree {

// Lines to be written back, each once if they come in clusters.
template <media M>
class lines_written {
 public:
  explicit lines_written(M& m) noexcept : medium_{m} {}
  ~lines_written() {
    for (void* p : recent_) {
      if (p != nullptr) medium_.flush(p, 8);
    }
  }
  void add(void* p) noexcept {
    void*& slot = recent_[reinterpret_cast<std::uintptr_t>(p) / line_bytes * 0x9E37'79B9U >> 8 & (recent_.size() - 1)];
    if (slot != nullptr && !same(slot, p)) medium_.flush(slot, 8);
    slot = p;
  }

 private:
  // On an image medium exactly the word is captured.
  static bool same(void* a, void* b) noexcept {
    constexpr std::uintptr_t unit = M::atomic_batches ? 8 : line_bytes;
    return reinterpret_cast<std::uintptr_t>(a) / unit == reinterpret_cast<std::uintptr_t>(b) / unit;
  }
  M& medium_;
  std::array<void*, 64> recent_{};
};

// Of all allocation words of a pool, by number; volatile.
struct word_table {
  explicit word_table(const geometry& g) noexcept
      : shape{nvm::layout::shape_of(nvm::layout::page_kind::coarse, g.page_shift)},
        extents{ceil_div(g.capacity_pages, nvm::layout::coarse_extent_pages)},
        data_offset{g.data_offset},
        states{extents * shape.words},
        next{extents * shape.words} {}
  [[nodiscard]] bool exists() const noexcept { return states.exists() && next.exists(); }
  [[nodiscard]] std::uint64_t extent_offset(std::uint64_t word) const noexcept {
    return data_offset + word / shape.words * shape.bytes;
  }
  [[nodiscard]] std::uint64_t word_offset(std::uint64_t word) const noexcept {
    return extent_offset(word) + nvm::layout::first_words_at + word % shape.words * 8;
  }
  [[nodiscard]] std::uint64_t first_word_of(std::uint64_t extent_offset) const noexcept {
    return (extent_offset - data_offset) / shape.bytes * shape.words;
  }
  // Of the slot that bit 0 of the word stands for.
  [[nodiscard]] std::uint64_t first_slot_offset(std::uint64_t word) const noexcept {
    return extent_offset(word) + word % shape.words * checked_bits * slot_bytes;
  }

  static constexpr std::uint8_t idle = 0, listed = 1, owned = 2;
  const nvm::layout::extent_shape shape;
  const std::uint64_t extents;
  const std::uint64_t data_offset;
  sparse_array<std::uint8_t> states;
  sparse_array<std::uint64_t> next;  // in its stack, + 1
};

// What a thread holds of a structure: a word for each class.
struct node_cache {
  struct of_class {
    std::uint64_t first = 0;      // offset of the slot of bit 0
    std::uint64_t places = 0;     // free ones: set on media already if `all_at_once`
    std::uint64_t word = 0;       // + 1; 0: none
    std::uint64_t areas[2] = {};  // pinned, of the first and the last node
  };
  std::array<of_class, classes> of{};
  [[nodiscard]] bool has_any() const noexcept {
    return std::any_of(of.begin(), of.end(), [](const of_class& c) { return c.word != 0; });
  }
};

template <media M>
class node_heap {
 public:
  struct settings {
    std::uint16_t owner = 0;
    nvm::layout::slot_protocol protocol = nvm::layout::slot_protocol::epoch;
    unsigned area_shift = 12;
    bool all_at_once = true;
    std::uint64_t size_pages_at_open = 0;
    bool durable_words = true;  // false: nodes prove themselves; words are rebuilt, and no area is ever active
  };
  node_heap(M& medium, std::byte* base, structure_pages& pages, word_table& words, const settings& s) noexcept
      : medium_{medium},
        base_{base},
        pages_{pages},
        words_{words},
        settings_{s},
        places_{&places_of_nodes(words.shape)} {}
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
      if (!settings_.all_at_once) clear_bit(at);
      own.places |= std::uint64_t{1} << at.bit;
      wipe(offset);
      return;
    }
    wipe(offset);
    if (settings_.durable_words) (void)areas.allocates(area_of(offset), owner(), operation, false);
    clear_bit(at);
    became_free(at.word);
  }

  // A node that nothing leads to, durably.  `written` collects the lines to be written back.
  template <class Lines>
  void free(std::uint64_t offset, Lines& written) noexcept {
    if (abandoned_.load(std::memory_order_seq_cst)) return;
    const where at = find(offset);
    if (at.is_run) {
      pages_.give(offset);
      return;
    }
    const std::uint64_t before = change_word(at.word, 0, std::uint64_t{1} << at.bit);
    if (settings_.durable_words) written.add(base_ + words_.word_offset(at.word));
    if (worth_taking(before & ~(std::uint64_t{1} << at.bit))) became_free(at.word);
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

  // The structure was dropped: its waiting nodes are forgotten, for its pages get a new owner.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_seq_cst); }
  // Resets what is known of the words of pages, before these get a new owner.
  void forget_words() noexcept {
    pages_.each_owned(0, pages_.size_pages(), this, [](void* raw, const owned_pages& p) {
      auto& heap = *static_cast<node_heap*>(raw);
      if (p.owner != heap.owner() || p.kind != nvm::layout::page_kind::coarse) return true;
      const std::uint64_t first = heap.words_.first_word_of(p.offset);
      for (std::uint64_t w = first; w < first + heap.words_.shape.words; ++w) {
        heap.words_.states[w].store(word_table::idle, std::memory_order_relaxed);
      }
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
  // The thread gives its words back.
  void release(node_cache& cache, active_areas<M>& areas, std::uint64_t operation) noexcept {
    for (unsigned c = 0; c < classes; ++c) let_go(cache.of[c], areas, operation);
  }

  // Calls visit(offset, bytes) for each node that is allocated, of those whose offsets are in [first, end), and for
  // each run.  For recovery and checks: nobody allocates meanwhile.
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

  // Calls visit(offset, bytes) for each place for a node of what may be an extent, whoever has it.
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
  // Words of an extent of nodes that prove themselves, when nobody has used it yet: a node is allocated if
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
  // Nodes that are allocated, in all; as for each_allocated().  By so many threads, if they are worth it.
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

  // Of a word with these nodes: taking words for a place or two would wear out the table of active areas.  Where nodes
  // are so large that there are few in a word, any place will do.
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
  // The content before.
  std::uint64_t change_word(std::uint64_t word, std::uint64_t set, std::uint64_t clear) noexcept {
    const auto at = word_at(word);
    const std::uint8_t seed = word_seed(words_.word_offset(word));
    std::uint64_t now = at.load(std::memory_order_relaxed);
    // acq_rel: whoever is given a place finds the node that was there out of use.
    while (!at.compare_exchange_weak(now, seal_word(((now & checked_mask) | set) & ~clear, seed),
                                     std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    return now & checked_mask;
  }
  void set_bits(std::uint64_t word, std::uint64_t bits) noexcept {
    (void)change_word(word, bits, 0);
    medium_.flush(base_ + words_.word_offset(word), 8);
  }
  void clear_bit(const where& at) noexcept {
    (void)change_word(at.word, 0, std::uint64_t{1} << at.bit);
    if (settings_.durable_words) medium_.flush(base_ + words_.word_offset(at.word), 8);
  }
  [[nodiscard]] std::uint64_t places_of(std::uint64_t word, unsigned c) const noexcept {
    return (*places_)[c][word % words_.shape.words];
  }
  // Class of the nodes of an extent; `classes`: its length bytes say nothing that we know.
  [[nodiscard]] unsigned class_at(std::uint64_t extent_offset) const noexcept {
    const std::byte length = base_[extent_offset + words_.shape.lengths_at + words_.shape.header_slots];
    const unsigned slots = nvm::layout::slots_of_length(static_cast<std::uint8_t>(length));
    return slots == 0 ? classes : class_of_slots(slots);
  }

  // ---- words ----

  struct alignas(line_bytes) stack {
    spin_lock lock;
    std::uint64_t top = 0;  // word + 1
    spin_lock filling;      // by who looks for words that are not listed; `lock` may be taken inside
  };

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
          put_word(word, c);
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
    const unsigned c = class_at(words_.extent_offset(word));
    // seq_cst: whoever frees a node of it either finds it idle, or we find the node free below.
    (void)words_.states[word].exchange(word_table::idle, std::memory_order_seq_cst);
    // A thread that freed a node while the word was ours has left listing it to us.
    const std::uint64_t nodes = word_at(word).load(std::memory_order_acquire) & checked_mask;
    if ((places_of(word, c) & ~nodes) != 0 && worth_taking(nodes)) became_free(word);
  }
  // The word has a free place.
  void became_free(std::uint64_t word) noexcept {
    std::uint8_t state = word_table::idle;
    const auto s = words_.states[word];
    if (s.load(std::memory_order_acquire) != word_table::idle ||
        !s.compare_exchange_strong(state, word_table::listed, std::memory_order_acq_rel)) {
      return;
    }
    push(word, class_at(words_.extent_offset(word)));
  }
  void push(std::uint64_t word, unsigned c) noexcept {
    if (c >= classes) return;
    stack& on = stacks_[c];
    const std::lock_guard guard{on.lock};
    words_.next[word].store(on.top, std::memory_order_relaxed);
    on.top = word + 1;
  }
  // A word + 1, which is ours then; 0: the stack is empty.
  [[nodiscard]] std::uint64_t pop(stack& from) noexcept {
    const std::lock_guard guard{from.lock};
    const std::uint64_t top = from.top;
    if (top != 0) {
      from.top = words_.next[top - 1].load(std::memory_order_relaxed);
      words_.states[top - 1].store(word_table::owned, std::memory_order_relaxed);
    }
    return top;
  }
  [[nodiscard]] static bool is_empty(stack& s) noexcept {
    const std::lock_guard guard{s.lock};
    return s.top == 0;
  }
  // A word that take_word() gave, unused.
  void put_word(std::uint64_t word, unsigned c) noexcept {
    words_.states[word].store(word_table::listed, std::memory_order_release);
    push(word, c);
  }
  [[nodiscard]] result<std::uint64_t> take_word(unsigned c, unsigned arena) noexcept {
    stack& from = stacks_[c];
    for (;;) {
      if (const std::uint64_t word = pop(from); word != 0) return word - 1;
      // One thread at a time: a new extent is visible before it is durable and before its words are listed, and no
      // other thread that looks for a place may find it then.
      const std::lock_guard guard{from.filling};
      if (!is_empty(from) || list_some_of_media(c)) continue;
      const auto extent = pages_.take_extent(arena, settings_.protocol, owner(), class_slots[c]);
      if (!extent) {
        if (extent.error() == errc::no_space && list_any_place(c)) continue;
        return extent.error();
      }
      const std::uint64_t first = words_.first_word_of(*extent);
      for (std::uint64_t w = words_.shape.words; w-- > 0;) {
        // The pages may have been those of another structure's nodes.
        for (std::uint64_t left = places_of(first + w, c); left != 0; left &= left - 1) {
          wipe(words_.first_slot_offset(first + w) + static_cast<unsigned>(std::countr_zero(left)) * slot_bytes);
        }
        // A structure that was dropped may have left the word listed, or owned.
        words_.states[first + w].store(word_table::idle, std::memory_order_relaxed);
        if (places_of(first + w, c) != 0) became_free(first + w);
      }
    }
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
    if (p.owner != owner() || p.kind != nvm::layout::page_kind::coarse || class_at(p.offset) != c) return;
    // What fails its check is left alone.
    if (load_word(base_, p.offset) != extent_identity_word(p.offset, p.kind)) return;
    const std::uint64_t first = words_.first_word_of(p.offset);
    for (std::uint64_t w = first; w < first + words_.shape.words; ++w) {
      const std::uint64_t word = word_at(w).load(std::memory_order_acquire);
      if ((places_of(w, c) & ~word) == 0 || !word_holds(word, word_seed(words_.word_offset(w)))) continue;
      if (words_.states[w].load(std::memory_order_relaxed) != word_table::idle) continue;
      became_free(w);
      found = true;
    }
  }
  // Of an extent, those of places in [first, end).
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
  std::array<stack, classes> stacks_;
  std::array<std::atomic<std::uint64_t>, classes> cursors_{};  // next page to look at
};

}  // namespace nvm::lockfree
