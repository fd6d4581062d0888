// The log-structured heap: the log is the only copy of the data (LSNVMM; docs/design/014-log-structured-heap.md).
//
/// Commit of a transaction.  S store, F flush, | fence.  Failure atomicity: one aligned 8-byte store; blocks prove
/// themselves by their checks.
///   0. entries are laid out; chunks, nodes of the mapping, volatile memory are taken: this may fail, and nothing has
///      changed then
///   1. version = next; S all blocks, each leading to the next, the last to the first; F;
///                                                       | logheap/E1  commit point: now the cycle is whole
///   2. mapping, slots of home space, live bytes of chunks: volatile, cannot fail
/// Recovery takes a transaction whose blocks are a whole cycle, or whose version is not above `through`.
//
// Isolation is the caller's: two transactions that are under way change and read disjoint bytes, or the caller's locks
// order them (a commit's version is taken while they are held).  Look-ups take no lock.
//
// Threads: one `thread` object each, by one thread at a time; read() and commit() of different ones at any time.
// Cleaners, in the background or in the thread that finds no free chunk: see cleaner.hpp.
// Durable on return of commit(), on direct media; on ssd when last_lsn() is.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "logheap/home_space.hpp"
#include "logheap/log_writer.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap {

struct heap_statistics {
  std::uint64_t chunks = 0;
  std::uint64_t free_chunks = 0;
  std::uint64_t live_bytes = 0;    // in chunks that are full or being filled
  std::uint64_t filled_bytes = 0;  // live bytes in them when they were written
  std::uint64_t cleaned = 0;       // chunks that were recycled
  std::uint64_t cleaned_fast = 0;  // of these, chunks without live bytes
  std::uint64_t moved_bytes = 0;
  std::uint64_t passes = 0;  // of cleaners, those without a victim, too
  std::uint64_t mapping_bytes = 0;
  std::uint64_t superblocks = 0;      // of home space that are known, large objects included
  std::uint64_t home_free_bytes = 0;  // addresses that no superblock has
  std::uint64_t seals = 0;            // times that an allocation has sealed all logs
  std::uint64_t through = 0;
  std::uint64_t version = 0;
};

struct damaged_block {
  std::uint64_t offset = 0;        // 0: not known, since its header is lost
  std::uint64_t end = 0;           // where the next block that holds can be
  bool kept = false;               // its entries are proved, and were taken: heap_settings::salvage
  std::uint64_t version = 0;       // 0: not known
  std::string homes;               // home addresses that it was about, as far as they can be read
  std::vector<home_range> ranges;  // the same
};
struct recovery_report {
  bool clean = false;        // the heap had been closed: its mapping was loaded
  std::uint64_t chunks = 0;  // read
  std::uint64_t blocks = 0;  // intact
  std::uint64_t entries = 0;
  std::uint64_t torn = 0;     // last blocks that were not whole
  std::uint64_t dropped = 0;  // intact blocks of transactions that had not committed
  std::vector<damaged_block> damaged;
  std::string saved_fault;  // why a mapping that a close has saved was not loaded
};

// An object of a heap whose log is written anew (rewrite.hpp).
struct kept_piece {
  home_t home = 0;
  std::vector<std::byte> bytes;
  bool operator==(const kept_piece&) const = default;
};
struct kept_object {
  home_t home = 0;
  std::uint64_t size = 0;
  std::vector<kept_piece> pieces;  // what was stored, in order
  bool operator==(const kept_object&) const = default;
};

template <media M, mapping Map>
class recovery;
template <media M, mapping Map>
class share_replay;
template <media M, mapping Map>
class cleaner;
template <media M, mapping Map>
class saved_mapping;

template <media M, mapping Map>
class heap {
 public:
  using chunks_type = chunk_store<M>;
  using purpose = typename chunks_type::purpose;

  struct store_range {
    home_t home = 0;
    const std::byte* from = nullptr;
    std::uint64_t size = 0;  // bytes
  };
  struct object {
    home_space::slot at;
    std::uint64_t size = 0;  // bytes asked for; from release(): bytes that it may use
  };
  // The changes of a transaction.
  struct changes {
    std::span<const store_range> stores;  // in order of home addresses, disjoint
    std::span<const object> allocated;    // by allocate()
    std::span<const object> released;     // by release()
  };

  class thread {
   public:
    thread(heap& h, unsigned number)
        : number_{number}, client_{*h.map_, number}, log_{h.medium_, h.base_, h.chunks_, h.settings_.separate_logs} {}

    // The thread's number in the epochs.
    [[nodiscard]] unsigned number() const noexcept { return number_; }

   private:
    friend class heap;
    friend class recovery<M, Map>;
    friend class share_replay<M, Map>;
    friend class cleaner<M, Map>;
    friend class saved_mapping<M, Map>;
    const unsigned number_;
    typename Map::client client_;
    // Held while the thread writes to its logs, until that is durable: others seal them in between (seal_logs()).
    biased_lock log_lock_;
    log_writer<M> log_;
    std::vector<piece> pieces_;
    std::vector<home_range> ranges_, erased_;
    std::vector<home_range> whole_;  // objects whose contents are in allocation entries of the open transaction
    // The thread's present and later commits have at least this version less one; 0: no commit is under way.
    std::atomic<std::uint64_t> committing_{0};
  };

  // `of_mapping`: arguments of the mapping besides mapping_settings.
  template <class... Extra>
  heap(M& medium, std::byte* base, structure_pages& pages, const heap_settings& settings, const Extra&... of_mapping)
      : medium_{medium},
        base_{base},
        pages_{pages},
        settings_{settings},
        chunks_{medium, base, pages, settings},
        make_map_{[of_mapping...](std::optional<Map>& to, epochs& e, const mapping_settings& s) {
          to.emplace(e, s, of_mapping...);
        }} {}
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;
  ~heap() { stop_cleaners(); }

  // Makes the heap of a pool that has none.  `key` differs from pool to pool.
  [[nodiscard]] status create(std::uint64_t key) noexcept { return chunks_.create_root(key); }
  // Recovers, or loads the mapping that a clean close has saved.  errc::not_found: there is no heap; corrupt, version,
  // no_memory.  Blocks that do not hold are no error: the report names them.
  [[nodiscard]] status open(recovery_report& report) noexcept;
  // Saves the mapping, so that the next open() need not read the log.  All threads have left.  On an error the next
  // open() recovers.
  [[nodiscard]] status close() noexcept;

  // ---- threads ----

  // errc::no_lane: there are too many; no_memory.
  [[nodiscard]] result<thread*> join() noexcept { return join_as(false); }
  // Leaves; the logs stay as they are, for the next thread of this number.
  void leave(thread& t) noexcept {
    give_buffer(t);
    epochs_.leave_for_good(t.number_);
  }

  // ---- transactions ----

  // Where the slot begins that holds the address; the address itself if none does.
  [[nodiscard]] home_t slot_start(thread& t, home_t home) noexcept {
    const inside in{*this, t};
    const home_space::slot s = homes_->find(home);
    return s.in == nullptr ? home : s.home;
  }
  // An object's addresses, for an open transaction.  Cleans where they are short: addresses of objects that were freed
  // come back when the log has no entry about them.  Where nothing is left that could come back, it fails at once.
  // errc::invalid, too_large, no_space, no_memory.
  [[nodiscard]] result<object> allocate(thread& t, std::uint64_t size) noexcept {
    result<home_space::slot> s = take_home(t, size);
    if (s.error() == errc::no_space) {
      make_addresses(size, [&] { return (s = take_home(t, size)).error() != errc::no_space; });
    }
    if (!s) return s.error();
    return object{*s, size};
  }
  // An open transaction frees the object that begins at `home`.  errc::bad_pointer: none does, or it is being freed.
  // Its size is that of its slot: nothing is read of the log, where its entry is cold.
  [[nodiscard]] result<object> release(thread& t, home_t home) noexcept {
    const inside in{*this, t};
    const home_space::slot s = homes_->find(home);
    if (s.in == nullptr || s.home != home) return fail(errc::bad_pointer, "no object begins at home %lx", home);
    std::uint64_t word = s.word().load(std::memory_order_acquire);
    for (;;) {
      const slot_word w{word};
      if (w.what() != slot_word::state::allocated) {
        return fail(errc::bad_pointer, "home %lx: no object, or one that is being freed", home);
      }
      const slot_word next{slot_word::state::freeing, w.entry(), w.count()};
      if (!s.word().compare_exchange_weak(word, next.code(), std::memory_order_acq_rel)) continue;
      return object{s, s.bytes};
    }
  }
  // Called when the transaction was aborted.
  void abandon(const changes& c) noexcept {
    for (const object& o : c.allocated) homes_->give(o.at);
    for (const object& o : c.released) {
      std::uint64_t word = o.at.word().load(std::memory_order_relaxed);
      while (!o.at.word().compare_exchange_weak(
          word, slot_word{slot_word::state::allocated, slot_word{word}.entry(), slot_word{word}.count()}.code(),
          std::memory_order_acq_rel)) {
      }
    }
  }
  // Bytes that the object may use that begins at `home`, one of an open transaction included.  errc::bad_pointer.
  [[nodiscard]] result<std::uint64_t> slot_bytes_at(thread& t, home_t home) noexcept {
    const inside in{*this, t};
    const home_space::slot s = homes_->find(home);
    if (s.in == nullptr || s.home != home ||
        !(slot_word{s.word().load(std::memory_order_acquire)}.exists() || homes_->is_taken(s))) {
      return fail(errc::bad_pointer, "no object begins at home %lx", home);
    }
    return s.bytes;
  }
  // The object that begins at `home`, or the slot that an open transaction has allocated: `size` is 0 then.
  // errc::bad_pointer, corrupt.
  struct room {
    std::uint64_t bytes = 0;  // that may be used
    std::uint64_t size = 0;   // asked for
  };
  [[nodiscard]] result<room> room_at(thread& t, home_t home) noexcept {
    const inside in{*this, t};
    const home_space::slot s = homes_->find(home);
    if (s.in == nullptr || s.home != home) return fail(errc::bad_pointer, "no object begins at home %lx", home);
    const slot_word w{s.word().load(std::memory_order_acquire)};
    if (w.exists()) {
      const auto size = size_in(s, w);
      if (!size) return size.error();
      return room{s.bytes, *size};
    }
    if (!homes_->is_taken(s)) return fail(errc::bad_pointer, "no object begins at home %lx", home);
    return room{s.bytes, 0};
  }

  // All or nothing.  On an error nothing has happened and the caller abandons it: errc::no_space (cleaning has not
  // helped), no_memory, bad_pointer (a store where no object is), too_large (no version is left).  Returns the
  // transaction's version.
  [[nodiscard]] result<std::uint64_t> commit(thread& t, const changes& c) noexcept {
    if (c.stores.empty() && c.allocated.empty() && c.released.empty()) return clock_.load(std::memory_order_relaxed);
    const std::uint64_t before = clock_.load(std::memory_order_relaxed);
    if (before >= layout::version_max - layout::versions_under_way) {
      return fail(errc::too_large, "version %lu: the log cannot count further", before);
    }
    for (;;) {
      t.log_lock_.lock(t.number_ + 1);
      const status s = prepare(t, c);
      if (s) break;
      t.log_.drop();
      t.log_lock_.unlock();
      map_->release(t.client_);
      const status made = s.error() == errc::no_space ? make_room(purpose_of(c)) : status{s.error()};
      if (made) continue;
      give_buffer(t);
      return made.error();
    }
    begin_version(t);
    const std::uint64_t version = clock_.fetch_add(1, std::memory_order_seq_cst) + 1;
    t.log_.seal_full();
    t.log_.write(version, 0, true,
                 [&](std::byte* to, home_t home, std::uint64_t size) noexcept { gather(c.stores, to, home, size); });
    t.log_.flush_written();
    medium_.fence(edge{"logheap/E1"});
    t.log_lock_.unlock();
    publish(t, c);
    // release: a thread that computes what has committed sees all of it done.
    t.committing_.store(0, std::memory_order_release);
    need_cleaning(t);
    return version;
  }

  // Copies [home, home + size) as it is; bytes that were never stored are zero.
  void read(thread& t, home_t home, void* to, std::uint64_t size) noexcept {
    auto* const out = static_cast<std::byte*>(to);
    home_t at = home;
    each_stored(t, home, size, [&](home_t first, const std::byte* bytes, std::uint64_t n) {
      std::memset(out + (at - home), 0, first - at);
      std::memcpy(out + (first - home), bytes, n);
      at = first + n;
    });
    std::memset(out + (at - home), 0, home + size - at);
  }
  // Calls f(home, bytes, n) for stored bytes of [home, home + size), in order.
  template <class F>
  void each_stored(thread& t, home_t home, std::uint64_t size, F&& f) noexcept {
    const inside in{*this, t};
    map_->for_each_piece(t.client_, home, size, [&](const piece& p) { f(p.home, base_ + p.log, p.size); });
  }

  // ---- cleaning: cleaner.hpp ----

  // Cleans up to `victims` chunks with less than settings.clean_below percent of live bytes (`whole`: any with a gain);
  // returns how many were recycled, now or earlier, and may be used again.
  std::size_t clean(unsigned victims, bool whole = false) noexcept;
  [[nodiscard]] status start_cleaners() noexcept;
  void stop_cleaners() noexcept;

  // ---- looking ----

  [[nodiscard]] heap_statistics statistics() noexcept;
  // Calls visit(home, size) for each object.  At rest; or by a thread, for the objects of each moment.
  template <class Visit>
  void for_each_object(thread& t, Visit&& visit) {
    const inside in{*this, t};
    for_each_object(visit);
  }
  template <class Visit>
  void for_each_object(Visit&& visit) {
    homes_->for_each([&](const home_space::slot& s, slot_word w) {
      if (w.exists()) visit(s.home, std::min(s.bytes, size_of_entry(w.entry())));
    });
  }
  // The same with the room that the object has, and the size in its entry, which may be anything.
  template <class Visit>
  void for_each_room(Visit&& visit) {
    homes_->for_each([&](const home_space::slot& s, slot_word w) {
      if (w.exists()) visit(s.home, s.bytes, size_of_entry(w.entry()));
    });
  }
  // Whether an object of that size has room of so many bytes.
  [[nodiscard]] bool has_room_of(std::uint64_t size, std::uint64_t bytes) const noexcept {
    return size != 0 && size <= bytes && homes_->room_of(size) == bytes;
  }
  // Writes the objects to the log of a heap that has none, at their addresses; the heap does not know them before it is
  // opened again.  errc::no_space, no_memory.
  [[nodiscard]] status restore(thread& t, std::span<const kept_object> objects) noexcept;
  // Full check of the volatile state against the log, at rest: empty, or what is wrong.
  [[nodiscard]] std::string check();
  [[nodiscard]] lsn_t last_lsn() noexcept { return medium_.last_lsn(); }
  [[nodiscard]] const heap_settings& settings() const noexcept { return settings_; }
  [[nodiscard]] chunks_type& chunks() noexcept { return chunks_; }
  [[nodiscard]] Map& map() noexcept { return *map_; }

 private:
  friend class recovery<M, Map>;
  friend class share_replay<M, Map>;
  friend class cleaner<M, Map>;
  friend class saved_mapping<M, Map>;

  class checking;
  // Keeps a thread inside its epoch while it reads at log addresses.
  class inside {
   public:
    inside(heap& h, thread& t) noexcept : epochs_{h.epochs_}, number_{t.number_}, nested_{epochs_.inside(number_)} {
      if (!nested_) epochs_.enter(number_);
    }
    ~inside() {
      if (!nested_) epochs_.leave(number_);
    }
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;

   private:
    epochs& epochs_;
    const unsigned number_;
    const bool nested_;
  };
  // Chunks that are free on media, and that threads which were inside then may still read.
  struct waiting_chunks {
    epochs::vector then;
    std::vector<std::uint32_t> chunks;
  };

  [[nodiscard]] status make_volatile_state() noexcept;
  [[nodiscard]] result<thread*> join_as(bool is_cleaner) noexcept {
    const unsigned n = epochs_.join();
    if (n == epochs::threads_max) return fail(errc::no_lane, "more than %u threads use the heap", n);
    if (threads_[n] == nullptr) {
      try {
        threads_[n] = std::make_unique<thread>(*this, n);
      } catch (...) {
        epochs_.leave_for_good(n);
        return fail(errc::no_memory, "no volatile memory for a thread");
      }
      // release: pairs with committed_through().
      thread_pointers_[n].store(threads_[n].get(), std::memory_order_release);
    }
    threads_[n]->log_.stamp = layout::stamp(chunks_.session(), n, is_cleaner);
    return threads_[n].get();
  }
  void end_cleaner(thread& t) noexcept;
  void give_buffer(thread& t) noexcept {
    while (!t.log_.buffer.empty()) {
      chunks_.give(t.log_.buffer.back());
      t.log_.buffer.pop_back();
    }
  }
  // A transaction that frees has to store a little, too: into the place that led to the object.
  static constexpr std::uint64_t stored_to_free_max = 4096;
  [[nodiscard]] static purpose purpose_of(const changes& c) noexcept {
    if (c.released.empty() || !c.allocated.empty()) return purpose::store;
    std::uint64_t bytes = 0;
    for (const store_range& s : c.stores) bytes += s.size;
    return bytes <= stored_to_free_max ? purpose::free : purpose::store;
  }
  // Size of the object in the slot.  It is looked up late, since a closed heap is opened without a look at its log.
  [[nodiscard]] result<std::uint64_t> size_in(const home_space::slot& s, slot_word w) const noexcept {
    const std::uint64_t size = size_of_entry(w.entry());
    if (size == 0 || size > s.bytes || homes_->room_of(size) != s.bytes) {
      return fail(errc::corrupt, "object at home %lx: its entry at offset %lu says %lu bytes, it has room for %lu",
                  s.home, w.entry(), size, s.bytes);
    }
    return size;
  }
  [[nodiscard]] std::uint64_t size_of_entry(log_t at) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, base_ + at, sizeof word);
    if (const std::uint64_t size = word >> layout::home_shift_size; size != 0) return size;
    // A saved mapping may lead to any bytes.
    if (chunks_.number_of(at + 8) == chunks_type::none) return 0;
    std::memcpy(&word, base_ + at + 8, sizeof word);
    return word & ((std::uint64_t{1} << 48) - 1);
  }

  // ---- commit, step 0 ----

  [[nodiscard]] status prepare(thread& t, const changes& c) noexcept;
  // Lays out objects with the bytes that were stored into them; objects with few such bytes without.
  [[nodiscard]] status lay_out_allocations(thread& t, const changes& c, purpose why);
  // Lays out stores to other places.  Group update (section 3.2): neighbours are one entry.
  [[nodiscard]] status lay_out_stores(thread& t, const changes& c, purpose why);
  // Calls visit(home, from, size) for bytes stored into [home, home + size), in order.
  template <class Visit>
  static void each_store(std::span<const store_range> stores, home_t home, std::uint64_t size, Visit&& visit) noexcept {
    auto s = std::upper_bound(stores.begin(), stores.end(), home,
                              [](home_t h, const store_range& r) { return h < r.home + r.size; });
    for (; s != stores.end() && s->home < home + size; ++s) {
      const home_t from = std::max(home, s->home);
      visit(from, s->from + (from - s->home), std::min(home + size, s->home + s->size) - from);
    }
  }
  static void gather(std::span<const store_range> stores, std::byte* to, home_t home, std::uint64_t size) noexcept {
    home_t at = home;
    each_store(stores, home, size, [&](home_t from, const std::byte* bytes, std::uint64_t n) {
      std::memset(to + (at - home), 0, from - at);
      std::memcpy(to + (from - home), bytes, n);
      at = from + n;
    });
    std::memset(to + (at - home), 0, home + size - at);
  }

  // ---- commit, steps 1 and 2 ----

  // A thread that sees a version which this one takes sees that it may not have committed.
  void begin_version(thread& t) noexcept {
    // seq_cst, both: the store comes before the version is taken, in the order in which committed_through() reads.
    t.committing_.store(clock_.load(std::memory_order_seq_cst) + 1, std::memory_order_seq_cst);
  }
  // Every transaction of a version up to this one is durable and published.
  [[nodiscard]] std::uint64_t committed_through() const noexcept {
    std::uint64_t version = clock_.load(std::memory_order_seq_cst);
    for (const auto& p : thread_pointers_) {
      const thread* t = p.load(std::memory_order_acquire);
      if (t == nullptr) continue;
      const std::uint64_t at = t->committing_.load(std::memory_order_seq_cst);
      if (at != 0) version = std::min(version, at - 1);
    }
    return version;
  }
  void no_longer_live(log_t at, std::uint64_t bytes) noexcept {
    chunks_.of(at).live.fetch_sub(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);
  }
  // Counts log bytes that died, one chunk at a time: what was written together is replaced together.  While one lives
  // its thread stays inside the epochs, so that the chunk is not refilled before they are counted.
  class dying_bytes {
   public:
    explicit dying_bytes(chunks_type& chunks) noexcept : chunks_{chunks}, chunk_bytes_{chunks.chunk_bytes()} {}
    ~dying_bytes() { account(); }
    dying_bytes(const dying_bytes&) = delete;
    dying_bytes& operator=(const dying_bytes&) = delete;
    void add(log_t at, std::uint64_t bytes) noexcept {
      if (of_ == nullptr || at - of_->offset >= chunk_bytes_) {
        account();
        of_ = &chunks_.of(at);
      }
      bytes_ += static_cast<std::uint32_t>(bytes);
    }

   private:
    void account() noexcept {
      if (bytes_ != 0) of_->live.fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
    }
    chunks_type& chunks_;
    const std::uint64_t chunk_bytes_;
    chunk* of_ = nullptr;
    std::uint32_t bytes_ = 0;
  };
  void publish(thread& t, const changes& c) noexcept;

  // ---- room ----

  // Frees the chunks in limbo that no thread can be reading.
  void drain_limbo() noexcept {
    for (;;) {
      waiting_chunks ready;
      {
        const std::lock_guard guard{limbo_lock_};
        if (limbo_.empty() || !epochs_.passed(limbo_.front().then)) return;
        ready = std::move(limbo_.front());
        limbo_.erase(limbo_.begin());
        busy_.fetch_add(1, std::memory_order_acq_rel);
      }
      for (const std::uint32_t number : ready.chunks) {
        // release: pairs with the thread that takes it.
        chunks_.at(number).state.store(chunk_state::free, std::memory_order_release);
        chunks_.give(number);
      }
      drained_.fetch_add(1, std::memory_order_acq_rel);
      busy_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
  [[nodiscard]] bool limbo_is_empty() noexcept {
    const std::lock_guard guard{limbo_lock_};
    return limbo_.empty();
  }
  [[nodiscard]] result<home_space::slot> take_home(thread& t, std::uint64_t size) noexcept {
    const inside in{*this, t};
    return homes_->take(t.number_, size);
  }
  // Cleans until has_come() finds an address for so many bytes, first what is sealed, then what threads are filling.
  template <class HasCome>
  void make_addresses(std::uint64_t size, HasCome&& has_come) noexcept {
    // relaxed: a seal before this is not needed again.
    const std::uint64_t seals = seals_.load(std::memory_order_relaxed);
    if (clean_for_addresses(size, has_come)) return;
    // Again: superblocks that threads had kept count neither as free nor as waiting until has_come() takes them back.
    if (!homes_->may_come(size) && (has_come() || !homes_->may_come(size))) return;
    // Another thread may have sealed after what this one has cleaned.
    if (seal_logs() || seals_.load(std::memory_order_relaxed) != seals) (void)clean_for_addresses(size, has_come);
  }
  // Later commits are not waited for, since other threads may go on for ever.  So a round that finds nothing to be
  // cleaned counts, whether the log is quiet or not.
  template <class HasCome>
  [[nodiscard]] bool clean_for_addresses(std::uint64_t size, HasCome&& has_come) noexcept {
    constexpr unsigned rounds_without_gain = 200;
    const std::uint64_t version = clock_.load(std::memory_order_seq_cst);
    const std::uint64_t most = recycled_.load(std::memory_order_acquire) + 2 * std::uint64_t{chunks_.count()};
    for (unsigned rounds = 0;;) {
      const bool all_committed = committed_through() >= version;
      drain_limbo();
      // Before has_come(): what has left by now is found.
      bool may_come = homes_->may_come(size);
      if (has_come()) return true;
      // Again: it has taken back what threads had kept, which counts neither as free nor as waiting before.
      may_come = may_come || homes_->may_come(size);
      if (!may_come || recycled_.load(std::memory_order_acquire) > most) return false;
      if (clean(pass_victims, true) != 0) continue;
      drain_limbo();
      if (has_come()) return true;
      const bool is_over = all_committed && limbo_is_empty() && busy_.load(std::memory_order_acquire) == 0;
      if (is_over || ++rounds == rounds_without_gain) return false;
      std::this_thread::yield();
    }
  }
  // Seals what threads and cleaners are filling; waits for commits and passes that are under way.  False: it would
  // bring nothing, for logs were sealed after the last superblock had begun to wait, and no cleaner has copied bytes of
  // gone objects since.
  bool seal_logs() noexcept {
    const std::lock_guard guard{sealing_};
    // relaxed: a pass that this does not see is waited for below, and sealed the next time again.
    const std::uint64_t reasons = homes_->begun_to_wait() + dead_copies_.load(std::memory_order_relaxed);
    if (std::exchange(sealed_for_, reasons) == reasons) return false;
    return seal_ends();
  }
  bool seal_dead_ends() noexcept {
    const std::lock_guard guard{sealing_};
    return chunks_.dead_in_ends() >= chunks_.chunk_bytes() && seal_ends();
  }
  bool seal_ends() noexcept {
    // relaxed: looked at by threads that find nothing afterwards; what they miss they do not find.
    seals_.fetch_add(1, std::memory_order_relaxed);
    for (const auto& p : thread_pointers_) {
      // acquire: pairs with join_as().  It stays as long as the heap.
      thread* const t = p.load(std::memory_order_acquire);
      if (t == nullptr) continue;
      const biased_lock::guard log{t->log_lock_, 0};
      t->log_.seal_all();
    }
    // No later fence of this thread need follow, and those of other threads are for their own flushes.
    medium_.fence(edge{"logheap/E10"});
    return true;
  }
  // Back-pressure: a thread that finds no free chunk cleans until there is one, or nothing to be cleaned.
  [[nodiscard]] status make_room(purpose why) noexcept {
    const auto is_there = [&] { return chunks_.has(why); };
    // The dead may lie in the ends of logs, which threads seal only when they are full.
    if (clean_until(is_there) || (seal_dead_ends() && clean_until(is_there))) return {};
    return fail(errc::no_space, "the log is full: %u chunks, and nothing in them that could be cleaned",
                chunks_.count());
  }
  // False: there is nothing to be cleaned.
  template <class Enough>
  [[nodiscard]] bool clean_until(Enough&& enough) noexcept {
    const auto progress = [this] {
      return recycled_.load(std::memory_order_acquire) + drained_.load(std::memory_order_acquire);
    };
    for (;;) {
      const std::uint64_t before = progress();
      // Chunks with a newer version than those that have committed are no victims yet.
      const std::uint64_t version = clock_.load(std::memory_order_seq_cst);
      const bool all_committed = committed_through() >= version;
      drain_limbo();
      if (enough()) return true;
      if (clean(pass_victims, true) != 0) continue;
      drain_limbo();
      if (enough()) return true;
      // Another thread may have taken a chunk that became free, or may be about to free one.
      const bool is_quiet = all_committed && clock_.load(std::memory_order_seq_cst) == version && limbo_is_empty() &&
                            busy_.load(std::memory_order_acquire) == 0 && progress() == before;
      if (is_quiet) return false;
      std::this_thread::yield();
    }
  }
  // Chunks that one pass of a cleaner recycles: its fences and its barrier are for all of them.
  static constexpr unsigned pass_victims = 8;
  // Chunks in use, in percent of the pool's pages.
  [[nodiscard]] std::uint64_t utilisation() noexcept {
    const std::uint64_t used =
        (chunks_.count() - std::min<std::uint64_t>(chunks_.count(), chunks_.free_chunks())) * chunks_.chunk_bytes();
    return used * 100 / std::max<std::uint64_t>(1, pages_.size_pages() * pages_.sizes().page_bytes());
  }
  // Whether so few are free that background cleaners take any with a gain, and not only cheap ones.
  [[nodiscard]] bool chunks_are_scarce() noexcept {
    const std::size_t kept = settings_.kept_for_cleaners + settings_.kept_for_freeing;
    return chunks_.space_is_used_up() &&
           chunks_.free_chunks() < kept + 4 * std::size_t{settings_.buffered_chunks} + chunks_.count() / 128;
  }
  void need_cleaning(const thread& t) noexcept {
    if (settings_.cleaners == 0 || t.log_.fresh_chunks() == 0) return;
    // relaxed: a hint.
    const std::uint64_t begun = begun_.fetch_add(t.log_.fresh_chunks(), std::memory_order_relaxed);
    if (utilisation() < settings_.clean_from) return;
    if (begun < rest_until_.load(std::memory_order_relaxed) && !chunks_are_scarce()) return;
    const std::lock_guard guard{wake_lock_};
    wanted_ = true;
    wake_.notify_all();
  }

  M& medium_;
  std::byte* base_;
  structure_pages& pages_;
  const heap_settings settings_;
  chunks_type chunks_;
  const std::function<void(std::optional<Map>&, epochs&, const mapping_settings&)> make_map_;
  epochs epochs_;
  std::optional<home_space> homes_;
  std::optional<Map> map_;
  std::atomic<std::uint64_t> clock_{0};  // the version taken last
  std::array<std::unique_ptr<thread>, epochs::threads_max> threads_;
  std::array<std::atomic<thread*>, epochs::threads_max> thread_pointers_{};

  spin_lock limbo_lock_;
  std::vector<waiting_chunks> limbo_;
  std::atomic<std::uint64_t> recycled_{0};
  std::atomic<std::uint64_t> recycled_fast_{0};
  std::atomic<std::uint64_t> moved_bytes_{0};
  std::atomic<std::uint64_t> passes_{0};
  std::atomic<std::uint64_t> drained_{0};  // times that chunks left limbo
  std::atomic<unsigned> busy_{0};          // passes under way, and chunks on their way from limbo
  std::atomic<std::uint32_t> hand_{0};     // where the next search for victims begins

  std::mutex sealing_;                            // one thread seals logs of others at a time; before all others
  std::uint64_t sealed_for_ = ~std::uint64_t{0};  // superblocks that had begun to wait then, and dead copies
  std::atomic<std::uint64_t> seals_{0};           // so often
  std::atomic<std::uint64_t> dead_copies_{0};     // with bytes that nothing led to
  std::mutex own_cleaner_lock_;                   // of the cleaner as which a thread works that needs room
  thread* own_cleaner_ = nullptr;
  std::mutex wake_lock_;
  std::condition_variable wake_;
  bool wanted_ = false;
  std::atomic<std::uint64_t> begun_{0};       // chunks that threads have begun to fill
  std::atomic<std::uint64_t> rest_until_{0};  // background cleaners rest until begun_ is this
  bool stop_ = false;
  std::vector<std::thread> cleaners_;
};

}  // namespace nvm::logheap

#include "logheap/cleaner.hpp"        // IWYU pragma: export
#include "logheap/heap_check.hpp"     // IWYU pragma: export
#include "logheap/heap_commit.hpp"    // IWYU pragma: export
#include "logheap/recovery.hpp"       // IWYU pragma: export
#include "logheap/saved_mapping.hpp"  // IWYU pragma: export
