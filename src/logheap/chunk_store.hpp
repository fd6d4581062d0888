// Chunks: taken from the pool's page runs, handed to logs, recycled (LSNVMM, section 3.3); and the heap's root.
//
/// S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store.
///   New heap:   S root, copy of its first line; F them;         | logheap/E4  whole before the pool names it
///               S the word that names it; F;                    open() fences (logheap/E7)
///   New chunks: (a page run) S headers, linked; F;              | logheap/E5  whole before the list leads there
///               S previous of the old head; S root.first_chunk; F;     | logheap/E6  in the list before any log uses
///               one
///   Into a log: S header.use, owner; F; no fence: the first block's commit fences (logheap/E1)
///   Recycled:   S root.through, and copies of live bytes; F;    | logheap/E2  before the chunk loses anything
///               S header.end of all chunks with copies; F;      | logheap/E9  an original goes after that
///               S header.use = free; F;                         | logheap/E3  no recovery reads it any more, before it
///                   is filled again and before a tombstone is let go that hides what was in it
// A crash between the page run and E6 leaves runs that are in no list; open() gives them back.
//
// A chunk is free, then in a log and being filled by one thread, then sealed; a cleaner takes a sealed one, and it is
// in limbo until no reader can hold a log address in it.  Its volatile facts are in its `chunk`.  A log address leads
// to its chunk by a table over the pool's pages.
//
// Free chunks are in one pool, and some with each thread.  The last `kept_for_cleaners` of the pool go to cleaners
// only, those before to threads that free objects: cleaning and freeing work when nothing else does.
//
// Threads: any.  Lock order: growing_, (the space's), pool_lock_.
#pragma once

#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/brought_first.hpp"
#include "logheap/block.hpp"
#include "media/media.hpp"
#include "space/space.hpp"

namespace nvm::logheap {

struct heap_settings {
  std::uint64_t root_word = 0;                              // offset of the checked word that names the root
  std::uint64_t root_word_copy = 0;                         // and of its copy
  std::uint64_t chunk_bytes = layout::chunk_bytes_default;  // of a new heap, as the next three
  home_t home_first = std::uint64_t{1} << 40;
  std::uint64_t home_bytes = std::uint64_t{1} << 36;
  std::uint64_t superblock_bytes = 65536;
  std::uint64_t partition_bytes = 4096;
  unsigned chunks_per_run = 8;     // taken from the space at a time
  unsigned buffered_chunks = 4;    // free ones with each thread, at most
  unsigned kept_for_cleaners = 4;  // free chunks
  unsigned kept_for_freeing = 2;
  bool separate_logs = true;  // for stores, allocations and tombstones; false: one log a thread
  bool group_update = true;   // neighbouring stores of a transaction are one entry
  unsigned clean_below = 20;  // percent of a sealed chunk that lives: below it is worth cleaning (section 3.4)
  unsigned clean_from = 80;   // percent of the pool's pages in use: from there background cleaners work
  unsigned cleaners = 0;      // background threads
  unsigned recovery_threads = 1;
  bool refuse_damage = false;  // open() fails where blocks do not hold, and leaves them as they are
  bool salvage = false;   // open() takes the entries of blocks whose contents do not hold, as far as they are proved
  bool use_saved = true;  // false: the log is read even if a clean close has saved its mapping
};

enum class chunk_state : std::uint8_t {
  free,      // in the pool or with a thread
  filling,   // the end of a log
  sealed,    // full, and everything in it was fenced
  cleaning,  // a cleaner has it
  limbo,     // free on media, but a thread may be reading it
  damaged,   // has blocks that do not hold: left alone
};

struct chunk {
  std::uint64_t offset = 0;
  std::uint64_t generation = 0;
  std::atomic<std::uint32_t> used{0};  // bytes, by blocks and the header
  std::atomic<chunk_state> state{chunk_state::free};
  layout::chunk_use use = layout::chunk_use::free;
  bool by_cleaner = false;
  std::atomic<std::uint32_t> live{0};    // bytes: contents that are mapped, entries that a slot's word leads to
  std::atomic<std::uint32_t> filled{0};  // `live` when all of it had just been written
  std::atomic<std::uint64_t> newest{0};  // version in it
  bool listed = false;                   // recovery: the list leads here
  chunk* added_before = nullptr;

  // About how many bytes a copy of the live ones would take.
  [[nodiscard]] std::uint64_t bytes_of_copy() const noexcept {
    // acquire: pairs with the release of the thread that counted bytes off.
    const std::uint64_t alive = live.load(std::memory_order_acquire);
    const std::uint64_t most = std::max<std::uint64_t>(1, filled.load(std::memory_order_relaxed));
    const std::uint64_t bytes = used.load(std::memory_order_relaxed);
    return std::min(bytes, bytes * alive / most);
  }
  void reset_counts() noexcept {
    live.store(0, std::memory_order_relaxed);
    filled.store(0, std::memory_order_relaxed);
  }
};
// Bytes that a needed allocation or tombstone counts for among a chunk's live bytes.
inline constexpr std::uint32_t entry_live_bytes = 8;

template <media M>
class chunk_store {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  chunk_store(M& medium, std::byte* base, structure_pages& pages, const heap_settings& settings)
      : medium_{medium},
        base_{base},
        pages_{pages},
        settings_{settings},
        chunk_of_page_{pages.sizes().capacity_pages},
        chunks_{pages.sizes().capacity_pages * pages.sizes().page_bytes() / layout::chunk_bytes_min} {}
  chunk_store(const chunk_store&) = delete;
  chunk_store& operator=(const chunk_store&) = delete;
  ~chunk_store() { delete_newer_than(nullptr); }

  // ---- the root ----

  [[nodiscard]] bool has_root() const noexcept { return root_offset_ != 0; }
  [[nodiscard]] const layout::root& root() const noexcept {
    return *reinterpret_cast<const layout::root*>(base_ + root_offset_);
  }
  // The key as read when the root was opened or made: its page may be lost since.
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }

  // errc::not_found: the pool has no log-structured heap; version, corrupt.
  [[nodiscard]] status open_root() noexcept {
    if (!chunk_of_page_.exists() || !chunks_.exists()) return fail(errc::no_memory, "no memory for tables of chunks");
    std::uint64_t at = 0;
    bool any = false;
    for (const std::uint64_t word_at : {settings_.root_word, settings_.root_word_copy}) {
      const std::uint64_t word = load(word_at);
      if (!word_holds(word, word_seed(word_at))) continue;
      any = true;
      // A crash may have come between the two.
      if (at == 0) at = word & checked_mask;
    }
    if (!any) {
      return fail(errc::corrupt, "log-structured heap: the word at offset %lu: found %016lx, which fails its check",
                  settings_.root_word, load(settings_.root_word));
    }
    if (at == 0) return errc::not_found;
    const auto run = pages_.owned_at(at);
    static_assert(sizeof(layout::root) <= std::uint64_t{1} << nvm::layout::page_shift_min);  // and a run has pages
    if (!run || run->offset != at || run->owner != layout::owner) {
      return fail(errc::corrupt, "log-structured heap: offset %lu, named as its root, is no run of it", at);
    }
    root_offset_ = at;
    if (status s = check_root(); !s) {
      root_offset_ = 0;
      return s;
    }
    remember(root());
    if (!std::has_single_bit(chunk_bytes_)) return fail(errc::corrupt, "log-structured heap: its root is lost");
    copy_root_line(run->bytes);
    name_root();
    return {};
  }
  // Makes the root of a new heap, durable when it has been opened; `key` differs from pool to pool.
  [[nodiscard]] status create_root(std::uint64_t key) noexcept {
    const heap_settings& w = settings_;
    if (!sizes_hold(w)) return fail(errc::invalid, "log-structured heap: impossible sizes");
    if (status s = give_back_unlisted(); !s) return s;  // left by a crash while a root was made
    const auto run =
        pages_.take_run(0, nvm::layout::slot_protocol::self_validating, layout::owner, sizeof(layout::root));
    if (!run) return run.error();
    layout::root r{};
    r.magic = layout::root_magic;
    r.version = layout::root_version;
    r.chunk_bytes = w.chunk_bytes;
    r.home_first = w.home_first;
    r.home_bytes = w.home_bytes;
    r.superblock_bytes = w.superblock_bytes;
    r.key = key;
    r.check = check_of(r, *run);
    std::memcpy(base_ + *run, &r, sizeof r);
    root_offset_ = *run;
    copy_root_line(round_up(sizeof r, pages_.sizes().page_bytes()));
    medium_.flush(base_ + *run, sizeof r);
    medium_.fence(edge{"logheap/E4"});
    remember(r);
    name_root();
    return {};
  }

  // Words of the root: their contents.
  [[nodiscard]] std::uint64_t through() const noexcept { return word_of_root(offsetof(layout::root, through)); }
  [[nodiscard]] std::uint64_t session() const noexcept { return word_of_root(offsetof(layout::root, session)); }
  [[nodiscard]] std::uint64_t saved() const noexcept { return word_of_root(offsetof(layout::root, saved)); }
  // Flushed; a caller that needs it durable fences.
  void set_session(std::uint64_t n) noexcept { set_word_of_root(offsetof(layout::root, session), n); }
  void set_saved(std::uint64_t n) noexcept { set_word_of_root(offsetof(layout::root, saved), n); }
  // Every version up to this has committed, durably.  Flushed; the caller fences.
  void raise_through(std::uint64_t version) noexcept {
    const std::lock_guard guard{through_lock_};
    if (through() < version) store(root_offset_ + offsetof(layout::root, through), version);
    // Flushed even if another thread has stored it: that one may not have fenced yet.
    medium_.flush(base_ + root_offset_ + offsetof(layout::root, through), 8);
  }

  // ---- chunks ----

  [[nodiscard]] std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  [[nodiscard]] chunk& at(std::uint32_t number) const noexcept { return *chunk_pointer(number); }
  // About how many dead bytes lie in the ends of logs, where no cleaner takes them.
  [[nodiscard]] std::uint64_t dead_in_ends() const noexcept {
    std::uint64_t dead = 0;
    for (std::uint32_t i = 0, n = count(); i < n; ++i) {
      const chunk& c = at(i);
      // relaxed: an estimate.
      if (c.state.load(std::memory_order_relaxed) != chunk_state::filling) continue;
      const std::uint64_t copied = c.bytes_of_copy();
      dead += std::max<std::uint64_t>(copied, c.used.load(std::memory_order_relaxed)) - copied;
    }
    return dead;
  }
  // The chunk that holds a log address; none: no chunk does.
  [[nodiscard]] std::uint32_t number_of(log_t address) const noexcept {
    const geometry& g = pages_.sizes();
    if (address < g.data_offset || address - g.data_offset >= g.capacity_pages << g.page_shift) return none;
    const std::uint64_t first = chunk_of_page_[g.page_of(address)].load(std::memory_order_acquire);
    if (first == 0) return none;
    // Number of the first chunk in that page.
    const std::uint64_t number =
        first - 1 + (address - at(static_cast<std::uint32_t>(first - 1)).offset) / chunk_bytes();
    return number < count() ? static_cast<std::uint32_t>(number) : none;
  }
  [[nodiscard]] chunk& of(log_t address) const noexcept { return at(number_of(address)); }
  [[nodiscard]] block_place place(const chunk& c, std::uint64_t at) const noexcept {
    return {c.offset, at, c.generation, key()};
  }

  // Free chunks that a thread has taken from the pool beforehand.
  using buffer = std::vector<std::uint32_t>;
  enum class purpose : std::uint8_t { store, free, clean };
  // A free chunk.  errc::no_space: there is none for this purpose, and the space has no pages.
  [[nodiscard]] result<std::uint32_t> take(buffer& mine, purpose why) noexcept {
    for (;;) {
      if (!mine.empty()) {
        const std::uint32_t c = mine.back();
        mine.pop_back();
        return c;
      }
      {
        const std::lock_guard guard{pool_lock_};
        const std::size_t keep = kept_from(why);
        if (pool_.size() > keep) {
          const std::uint32_t c = pool_.back();
          pool_.pop_back();
          // Some more, as long as there are plenty.
          while (why == purpose::store &&
                 mine.size() < std::min<std::size_t>(settings_.buffered_chunks, mine.capacity()) &&
                 pool_.size() > keep + 4 * settings_.buffered_chunks) {
            mine.push_back(pool_.back());
            pool_.pop_back();
          }
          return c;
        }
      }
      if (status s = grow(); !s) return s.error();
    }
  }
  // Whether take() would find one in the pool.
  [[nodiscard]] bool has(purpose why) noexcept {
    const std::lock_guard guard{pool_lock_};
    return pool_.size() > kept_from(why);
  }
  // The space had no pages for more chunks when they were last wanted.
  [[nodiscard]] bool space_is_used_up() const noexcept { return used_up_.load(std::memory_order_relaxed); }
  void give(std::uint32_t number) noexcept {
    NVM_ASSERT(at(number).state.load(std::memory_order_relaxed) == chunk_state::free);
    const std::lock_guard guard{pool_lock_};
    pool_.push_back(number);
  }
  [[nodiscard]] std::size_t free_chunks() noexcept {
    const std::lock_guard guard{pool_lock_};
    return pool_.size();
  }

  // A free chunk becomes the end of a log.  Flushed.
  void begin(std::uint32_t number, layout::chunk_use use, std::uint32_t stamp) noexcept {
    chunk& c = at(number);
    c.generation = layout::next_generation(c.generation, session());
    c.use = use;
    c.used.store(sizeof(layout::chunk_header), std::memory_order_relaxed);
    c.newest.store(0, std::memory_order_relaxed);
    c.live.store(0, std::memory_order_relaxed);
    c.filled.store(0, std::memory_order_relaxed);
    c.by_cleaner = (stamp & layout::stamp_cleaner) != 0;
    c.state.store(chunk_state::filling, std::memory_order_release);
    store(c.offset + offsetof(layout::chunk_header, use), layout::pack_use(use, c.generation, c.by_cleaner));
    store(c.offset + offsetof(layout::chunk_header, owner), layout::pack_bound(stamp, c.generation));
    medium_.flush(base_ + c.offset, sizeof(layout::chunk_header));
  }
  // All blocks so far are durable.  Flushed.
  void mark_end(chunk& c, std::uint32_t end) noexcept {
    const std::uint64_t at = c.offset + offsetof(layout::chunk_header, end);
    store(at, layout::pack_bound(end, c.generation));
    medium_.flush(base_ + at, 8);
  }
  // No recovery reads it any more once the caller has fenced (logheap/E3).  Flushed.
  void retire(chunk& c) noexcept {
    const std::uint64_t at = c.offset + offsetof(layout::chunk_header, use);
    store(at, layout::pack_use(layout::chunk_use::free, c.generation, false));
    medium_.flush(base_ + at, 8);
  }

  // ---- recovery ----

  // Walks the list of chunks, and gives back runs that are not in it.  errc::corrupt names what is wrong with the list.
  // A crash during its repairs does no harm: the next process makes them again.
  [[nodiscard]] status read_list() noexcept {
    std::uint64_t offset = word_of_root(offsetof(layout::root, first_chunk));  // open_root() has checked it
    std::uint64_t before = 0;
    while (offset != 0) {
      if (status s = read_chunk(offset, before); !s) return s;
      before = offset;
      offset = load(offset + offsetof(layout::chunk_header, next)) & checked_mask;
    }
    for (std::uint32_t i = 0; i < count(); ++i) {
      if (!at(i).listed) {
        return fail(errc::corrupt, "list of chunks: the one at %lu is not in it, its neighbours are", at(i).offset);
      }
    }
    return give_back_unlisted();
  }
  // After recovery: chunks that are free go into the pool.
  [[nodiscard]] status fill_pool() noexcept {
    try {
      pool_.reserve(count());
    } catch (...) {
      return fail(errc::no_memory, "no volatile memory for chunks");
    }
    for (std::uint32_t i = 0; i < count(); ++i) {
      if (at(i).state.load(std::memory_order_relaxed) == chunk_state::free) pool_.push_back(i);
    }
    return {};
  }

  [[nodiscard]] std::uint64_t load(std::uint64_t offset) const noexcept {
    // acquire: pairs with store().
    return std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(base_ + offset)}.load(
        std::memory_order_acquire);
  }
  [[nodiscard]] bool holds(std::uint64_t offset) const noexcept { return word_holds(load(offset), word_seed(offset)); }

 private:
  void remember(const layout::root& r) noexcept {
    key_ = r.key;
    chunk_bytes_ = r.chunk_bytes;
  }
  // Both words say where the root is.  Flushed; open() fences (logheap/E7).
  void name_root() noexcept {
    for (const std::uint64_t word_at : {settings_.root_word, settings_.root_word_copy}) {
      if (load(word_at) == seal_word(root_offset_, word_seed(word_at))) continue;
      store(word_at, root_offset_);
      medium_.flush(base_ + word_at, 8);
    }
  }
  // Flushed, unless it is there already.  A copy that a crash has torn is made again by the next open.
  void copy_root_line(std::uint64_t run_bytes) noexcept {
    std::byte* const copy = base_ + root_offset_ + layout::root_copy_at(run_bytes);
    if (std::memcmp(copy, base_ + root_offset_, layout::root_line_bytes) == 0) return;
    std::memcpy(copy, base_ + root_offset_, layout::root_line_bytes);
    medium_.flush(copy, layout::root_line_bytes);
  }
  [[nodiscard]] std::size_t kept_from(purpose why) const noexcept {
    if (why == purpose::clean) return 0;
    return settings_.kept_for_cleaners + (why == purpose::free ? 0 : settings_.kept_for_freeing);
  }
  [[nodiscard]] static std::uint64_t check_of(const layout::root& r, std::uint64_t offset) noexcept {
    return checksum(&r, offsetof(layout::root, check), mix_seed(layout::root_magic, offset));
  }
  // Of settings or of a root.
  template <class Sizes>
  [[nodiscard]] bool sizes_hold(const Sizes& s) const noexcept {
    return std::has_single_bit(s.chunk_bytes) && s.chunk_bytes >= layout::chunk_bytes_min &&
           s.chunk_bytes <= layout::chunk_bytes_max && s.chunk_bytes % pages_.sizes().page_bytes() == 0 &&
           std::has_single_bit(s.superblock_bytes) && s.superblock_bytes >= layout::superblock_bytes_min &&
           s.superblock_bytes <= layout::superblock_bytes_max && s.home_bytes % s.superblock_bytes == 0 &&
           s.home_bytes != 0 && s.home_first % s.superblock_bytes == 0 &&
           range_inside(s.home_first, s.home_bytes, home_end);
  }
  [[nodiscard]] status check_root() const noexcept {
    const layout::root& r = root();
    if (r.magic != layout::root_magic) {
      return fail(errc::corrupt, "log-structured heap: mark of its root at offset %lu: found %016lx, expected %016lx",
                  root_offset_, r.magic, layout::root_magic);
    }
    if (r.check != check_of(r, root_offset_)) {
      return fail(errc::corrupt, "log-structured heap: check of its root at offset %lu: found %016lx, expected %016lx",
                  root_offset_, r.check, check_of(r, root_offset_));
    }
    if (r.version > layout::root_version) {
      return fail(errc::version, "log-structured heap: version %lu, this library knows %lu", r.version,
                  layout::root_version);
    }
    if (!sizes_hold(r)) return fail(errc::corrupt, "log-structured heap: its root has impossible sizes");
    for (const std::size_t at : {offsetof(layout::root, through), offsetof(layout::root, session),
                                 offsetof(layout::root, saved), offsetof(layout::root, first_chunk)}) {
      if (!holds(root_offset_ + at)) {
        return fail(errc::corrupt,
                    "log-structured heap: the root's word at offset %lu: found %016lx, which fails its check",
                    root_offset_ + at, load(root_offset_ + at));
      }
    }
    // Numbers counted up from them have to fit the words, too.
    for (const std::size_t at : {offsetof(layout::root, through), offsetof(layout::root, session)}) {
      if (word_of_root(at) > layout::version_max) {
        return fail(errc::corrupt,
                    "log-structured heap: the root's word at offset %lu: found %lu, expected at most %lu",
                    root_offset_ + at, word_of_root(at), layout::version_max);
      }
    }
    for (const std::uint64_t word : r.reserved) {
      if (word != 0) {
        return fail(errc::corrupt,
                    "log-structured heap: reserved word of its root at offset %lu: found %016lx, expected 0",
                    root_offset_, word);
      }
    }
    return {};
  }
  void store(std::uint64_t offset, std::uint64_t content) noexcept {
    auto* const word = reinterpret_cast<std::uint64_t*>(base_ + offset);
    bring_first(word);
    // release: a thread that reads the word sees the bytes that it refers to.
    std::atomic_ref<std::uint64_t>{*word}.store(seal_word(content, word_seed(offset)), std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t word_of_root(std::uint64_t at) const noexcept {
    return load(root_offset_ + at) & checked_mask;
  }
  void set_word_of_root(std::uint64_t at, std::uint64_t content) noexcept {
    store(root_offset_ + at, content);
    medium_.flush(base_ + root_offset_ + at, 8);
  }
  [[nodiscard]] chunk* chunk_pointer(std::uint32_t number) const noexcept {
    return reinterpret_cast<chunk*>(chunks_[number].load(std::memory_order_acquire));
  }
  void delete_newer_than(const chunk* last) noexcept {
    while (newest_ != last) delete std::exchange(newest_, newest_->added_before);
  }
  // Chunks of one run have consecutive numbers, in order of their offsets.
  [[nodiscard]] bool add_run(std::uint64_t offset, unsigned chunks) noexcept {
    const std::uint32_t first = count();
    const chunk* const before = newest_;
    for (unsigned i = 0; i < chunks; ++i) {
      auto* c = new (std::nothrow) chunk;
      if (c == nullptr) {
        delete_newer_than(before);
        return false;
      }
      c->offset = offset + i * chunk_bytes();
      c->added_before = newest_;
      newest_ = c;
      chunks_[first + i].store(reinterpret_cast<std::uintptr_t>(c), std::memory_order_release);
    }
    const geometry& g = pages_.sizes();
    const std::uint64_t end = offset + chunks * chunk_bytes();
    for (std::uint64_t page = g.page_of(offset); page <= g.page_of(end - 1); ++page) {
      const std::uint64_t inside = std::max(g.page_offset(page), offset) - offset;
      chunk_of_page_[page].store(static_cast<std::uint32_t>(first + 1 + inside / chunk_bytes()),
                                 std::memory_order_release);
    }
    // release: pairs with count().
    count_.store(first + chunks, std::memory_order_release);
    return true;
  }

  // Another run of chunks from the space; fewer if that has no more.
  [[nodiscard]] status grow() noexcept {
    const std::lock_guard guard{growing_};
    {
      const std::lock_guard pool{pool_lock_};
      if (pool_.size() > settings_.kept_for_cleaners + settings_.kept_for_freeing) return {};  // another was here
    }
    status last;
    for (unsigned chunks = std::max(1U, settings_.chunks_per_run); chunks != 0; chunks /= 2) {
      const auto run =
          pages_.take_run(0, nvm::layout::slot_protocol::self_validating, layout::owner, chunks * chunk_bytes());
      if (!run) {
        last = run.error();
        continue;
      }
      const std::uint32_t first = count();
      if (!add_run(*run, chunks)) {
        pages_.give(*run);
        return fail(errc::no_memory, "no volatile memory for chunks");
      }
      try {
        const std::lock_guard pool{pool_lock_};
        pool_.reserve(count());
      } catch (...) {
        return fail(errc::no_memory, "no volatile memory for chunks");  // the run is found unlisted by the next open
      }
      used_up_.store(false, std::memory_order_relaxed);
      link_run(*run, chunks);
      const std::lock_guard pool{pool_lock_};
      for (unsigned i = chunks; i-- != 0;) pool_.push_back(first + i);
      return {};
    }
    used_up_.store(true, std::memory_order_relaxed);
    return last.error();
  }
  void link_run(std::uint64_t run, unsigned chunks) noexcept {
    const std::uint64_t head = word_of_root(offsetof(layout::root, first_chunk));
    for (unsigned i = 0; i < chunks; ++i) {
      const std::uint64_t offset = run + i * chunk_bytes();
      std::memset(base_ + offset, 0, sizeof(layout::chunk_header));
      store(offset + offsetof(layout::chunk_header, identity), layout::chunk_magic);
      store(offset + offsetof(layout::chunk_header, next), i + 1 < chunks ? offset + chunk_bytes() : head);
      store(offset + offsetof(layout::chunk_header, previous), i != 0 ? offset - chunk_bytes() : 0);
      const std::uint64_t start = layout::next_generation(0, session());
      store(offset + offsetof(layout::chunk_header, use), layout::pack_use(layout::chunk_use::free, start, false));
      of(offset).generation = start;
      medium_.flush(base_ + offset, sizeof(layout::chunk_header));
    }
    medium_.fence(edge{"logheap/E5"});
    // Not flushed: reading the list puts it right.
    if (head != 0) {
      store(head + offsetof(layout::chunk_header, previous), run + (chunks - 1) * chunk_bytes());
    }
    set_word_of_root(offsetof(layout::root, first_chunk), run);
    medium_.fence(edge{"logheap/E6"});
  }

  [[nodiscard]] status read_chunk(std::uint64_t offset, std::uint64_t before) noexcept {
    const auto run = pages_.owned_at(offset);
    // owned_at() finds the run that begins at the page; inside of one the table knows what was met already.
    std::uint32_t number = number_of(offset);
    if (number == none) {
      const bool is_start = run && run->owner == layout::owner && run->offset == offset && offset != root_offset_ &&
                            run->bytes >= chunk_bytes();
      if (!is_start) {
        return fail(errc::corrupt, "list of chunks: offset %lu (after the chunk at %lu) is no chunk's", offset, before);
      }
      if (!add_run(offset, static_cast<unsigned>(run->bytes / chunk_bytes()))) {
        return fail(errc::no_memory, "no volatile memory for chunks");
      }
      number = number_of(offset);
    }
    chunk& c = at(number);
    if (c.offset != offset) {
      return fail(errc::corrupt, "list of chunks: offset %lu (after the chunk at %lu) lies in the chunk at %lu", offset,
                  before, c.offset);
    }
    if (c.listed) {
      return fail(errc::corrupt, "list of chunks: the one at %lu leads back to the one at %lu: a cycle", before,
                  offset);
    }
    c.listed = true;
    const auto word = [&](std::size_t field) { return load(offset + field) & checked_mask; };
    for (const std::size_t field : {offsetof(layout::chunk_header, identity), offsetof(layout::chunk_header, next)}) {
      if (!holds(offset + field)) {
        return fail(errc::corrupt, "chunk at %lu: the word at offset %lu: found %016lx, which fails its check", offset,
                    offset + field, load(offset + field));
      }
    }
    if (word(offsetof(layout::chunk_header, identity)) != layout::chunk_magic) {
      return fail(errc::corrupt, "chunk at %lu: mark: found %lx, expected %lx", offset,
                  word(offsetof(layout::chunk_header, identity)), layout::chunk_magic);
    }
    // A crash before E6 may leave 0 here, or in the first one the offset of a run in no list.
    const std::uint64_t previous_at = offset + offsetof(layout::chunk_header, previous);
    const std::uint64_t previous = word(offsetof(layout::chunk_header, previous));
    if (!holds(previous_at) || (before != 0 && previous != 0 && previous != before)) {
      return fail(errc::corrupt, "chunk at %lu: its predecessor: found %016lx, expected one at %lu", offset,
                  load(previous_at), before);
    }
    // Until it is durable every process finds it so again.
    if (previous != before) store(previous_at, before);
    const std::uint64_t use = word(offsetof(layout::chunk_header, use));
    // A use of generation 0 is none: a word that is zero.
    if (!holds(offset + offsetof(layout::chunk_header, use)) || layout::generation_of(use) == 0 ||
        std::uint64_t(layout::use_of(use)) >= layout::chunk_uses) {
      return fail(errc::corrupt, "chunk at %lu: the word at offset %lu, its use: found %016lx, which is none", offset,
                  offset + offsetof(layout::chunk_header, use), load(offset + offsetof(layout::chunk_header, use)));
    }
    c.generation = layout::generation_of(use);
    // The session is durable before any chunk is used in it (logheap/E7).
    if (const std::uint64_t of_use = c.generation >> layout::uses_bits; of_use > session()) {
      return fail(errc::corrupt, "log-structured heap: session: found %lu, and the chunk at %lu was used in %lu",
                  session(), offset, of_use);
    }
    c.use = layout::use_of(use);
    c.by_cleaner = layout::by_cleaner(use);
    c.state.store(c.use == layout::chunk_use::free ? chunk_state::free : chunk_state::sealed,
                  std::memory_order_relaxed);
    return {};
  }
  // Whether a log has used one of the chunks of a run, so that its use has a block.  Runs are in the list before that
  // (E6).
  [[nodiscard]] bool was_used(const owned_pages& run) const noexcept {
    if (chunk_bytes() == 0) return false;  // no root is known yet: a crash has cut short the making of one
    for (std::uint64_t at = run.offset; run.offset + run.bytes - at >= chunk_bytes(); at += chunk_bytes()) {
      const std::uint64_t use_at = at + offsetof(layout::chunk_header, use);
      const std::uint64_t use = load(use_at) & checked_mask;
      if (!holds(use_at) || layout::use_of(use) == layout::chunk_use::free) continue;
      layout::block_header h;
      const block_place first{at, sizeof(layout::chunk_header), layout::generation_of(use), key_};
      if (inspect_block(base_, first, chunk_bytes(), h) != block_fault::no_header) return true;
    }
    return false;
  }
  // errc::corrupt, and nothing is given back: a run is not in the list, and was.
  [[nodiscard]] status give_back_unlisted() noexcept {
    struct context {
      chunk_store& self;
      std::vector<std::uint64_t> runs;
      std::uint64_t used = 0;
    } found{*this, {}};
    pages_.each_owned(0, pages_.size_pages(), &found, [](void* raw, const owned_pages& p) {
      auto& f = *static_cast<context*>(raw);
      if (p.owner != layout::owner || p.offset == f.self.root_offset_ || f.self.number_of(p.offset) != none)
        return true;
      if (f.self.was_used(p)) {
        f.used = p.offset;
        return false;
      }
      try {
        f.runs.push_back(p.offset);
      } catch (...) {
        return false;  // the next open finds it
      }
      return true;
    });
    if (found.used != 0) {
      return fail(errc::corrupt, "list of chunks: the run at %lu is not in it, and logs have used it", found.used);
    }
    for (const std::uint64_t offset : found.runs) pages_.give(offset);
    return {};
  }

  M& medium_;
  std::byte* base_;
  structure_pages& pages_;
  const heap_settings settings_;
  std::uint64_t root_offset_ = 0;
  std::uint64_t key_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  sparse_array<std::uint32_t> chunk_of_page_;  // number + 1 of the first chunk that has bytes in the page
  sparse_array<std::uint64_t> chunks_;
  // All of them in a list, for tools that look for leaks, which do not search the array.
  chunk* newest_ = nullptr;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<bool> used_up_{false};
  std::mutex growing_;
  spin_lock through_lock_;
  spin_lock pool_lock_;
  std::vector<std::uint32_t> pool_;
};

}  // namespace nvm::logheap
