// The log-structured engine of the C interface (LSNVMM; docs/design/017-log-engine.md): logheap::heap behind
// api::engine.
//
// Objects have virtual addresses behind the pool's data: an offset in home space is a home address.  What is committed
// is in the log alone.  Home pages are built of it when they are touched (logheap/home_pages.hpp), and loads are loads;
// or, by choice, reads are translated: stm/ asks the mapping for each, and only objects that an open transaction has
// allocated are memory (logheap/home_scratch.hpp).  Stores into these are made in place either way, so that code
// without barriers can make them; announced stores to others need home pages.
//
/// Commit, materialised.  P pin, U unpin.
///   1. barriers' lines stay in the write set; announced ranges, fresh objects: P, then S in place
///   2. heap.commit()                                                       | logheap/E1  commit point
///      whoever waits for the LSN learns whether that fence has done it
///   3. lines into the home pages that are there; U
/// Abort: old bytes into announced ranges; U.
//
// The first object of home space is the engine's own: the words that other pools have in their anchors, twice.
//
// Lanes are numbers of threads in the heap: each thread keeps one until it ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "api/engine.hpp"
#include "api/home_memory.hpp"
#include "api/in_place_changes.hpp"
#include "api/log.hpp"
#include "logheap/logheap.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"

namespace nvm::api {

template <class Holder, logheap::mapping Map>
class log_engine final : public engine {
 public:
  using medium_type = std::remove_reference_t<decltype(std::declval<Holder&>().top())>;
  using space_type = space<medium_type, log::nothing_logged>;
  using heap_type = logheap::heap<medium_type, Map>;
  using thread_type = typename heap_type::thread;

  // `holder` has its medium ready; `file` stays open longer than the engine.  `of_mapping`: what Map takes besides.
  template <class... Extra>
  log_engine(std::unique_ptr<Holder> holder, pool_file& file, const logheap::heap_settings& settings,
             const Extra&... of_mapping)
      : holder_{std::move(holder)},
        file_{file},
        shape_{file.geometry()},
        places_{holder_->top(), lanes_, file.base(), shape_, [this](std::uint64_t pages) { return grow(pages); }},
        heap_{holder_->top(), file.base(), places_, settings, of_mapping...} {}
  ~log_engine() override {
    for (auto& f : faces_) delete f.load(std::memory_order_relaxed);
  }
  log_engine(const log_engine&) = delete;
  log_engine& operator=(const log_engine&) = delete;

  [[nodiscard]] status boot(const log_choice& how) {
    const unsigned parts = file_.size_pages() < pages_per_thread ? 1 : platform::processors();
    std::atomic<errc> failed{errc::ok};
    platform::run_parts(parts, [&](unsigned part) noexcept {
      if (status booted = places_.boot(part, parts); !booted) failed = booted.error();
    });
    if (failed != errc::ok) return failed.load();
    logheap::recovery_report found;
    status s = heap_.open(found);
    if (!s && s.error() == errc::not_found) {
      // Of a new pool, or of one whose creator died.
      if (status made = heap_.create(tx::pool_key(file_.superblock().uuid)); !made) {
        return made;
      }
      s = heap_.open(found);
    }
    if (!s) return s;
    report_.rolled_back = found.dropped + found.torn;
    auto own = heap_.join();
    if (!own) return own.error();
    own_ = *own;
    if (status made = make_anchors(); !made) return made;
    if (status made = make_memory(how); !made) return made;
    if (status made = still_durable(); !made) return made;
    return file_.read_only() ? status{} : heap_.start_cleaners();
  }

  result<open_transaction*> begin(unsigned& lane, bool& parked) noexcept override {
    auto f = face_of(lane, parked);
    if (!f) return f.error();
    if (status s = (*f)->begin(); !s) return s.error();
    return *f;
  }
  result<stm::home_reader*> reader(unsigned& lane, bool& parked) noexcept override {
    auto f = face_of(lane, parked);
    if (!f) return f.error();
    return *f;
  }
  bool translates() const noexcept override { return !memory_->is_materialised(); }
  void give_back(unsigned lane) noexcept override { faces_[lane].load(std::memory_order_relaxed)->leave_heap(); }
  unsigned open_transactions() const noexcept override {
    unsigned n = 0;
    for (const auto& f : faces_) {
      // acquire: pairs with the release in face_of().
      const face* t = f.load(std::memory_order_acquire);
      n += t != nullptr && t->open() ? 1 : 0;
    }
    return n;
  }
  status wait(lsn_t lsn) noexcept override { return wait_for(holder_->top(), lsn); }
  bool is_durable(lsn_t lsn) noexcept override { return nvm::is_durable(holder_->top(), lsn); }

  result<std::uint64_t> root() noexcept override { return read_anchor(anchor_word::root); }
  result<object::type_map> types() noexcept override try {
    auto at = read_anchor(anchor_word::types);
    if (!at) return at.error();
    if (*at == 0) return object::type_map{};
    const std::lock_guard guard{own_lock_};
    auto room = heap_.room_at(*own_, *at);
    if (!room || room->size == 0) return fail(errc::corrupt, "type map at home %lx: %s", *at, last_message());
    types_.resize(ceil_div(room->size, 8));
    auto* const bytes = reinterpret_cast<std::byte*>(types_.data());
    heap_.read(*own_, *at, bytes, room->size);
    return object::type_map::read(bytes, room->size, *at);
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the type map");
  }

  result<object_facts> find(std::uint64_t payload) noexcept override {
    const std::lock_guard guard{own_lock_};
    return facts_of(*own_, payload, memory_->is_materialised());
  }
  result<object_facts> find_around(std::uint64_t at) noexcept override {
    const std::lock_guard guard{own_lock_};
    auto facts = facts_of(*own_, heap_.slot_start(at) + header_bytes, memory_->is_materialised());
    if (facts && at - facts->payload >= facts->bytes) return fail(errc::bad_pointer, "offset %lx is in no object", at);
    return facts;
  }
  result<int> each(int (*visit)(void*, const object_facts&), void* argument) noexcept override try {
    // Collected first: visit() may do what it likes.
    std::vector<std::uint64_t> homes;
    {
      const std::lock_guard guard{own_lock_};
      heap_.for_each_object(*own_, [&](logheap::home_t home, std::uint64_t) { homes.push_back(home); });
    }
    std::sort(homes.begin(), homes.end());
    const auto type_map = read_anchor(anchor_word::types);
    std::uint64_t damaged = 0;
    for (const std::uint64_t home : homes) {
      const auto facts = [&] {
        const std::lock_guard guard{own_lock_};
        return facts_of(*own_, home + sizeof(layout::object_header), false);
      }();
      if (!facts && home != shape_.home_offset() && (!type_map || home != *type_map) && is_still_there(home)) {
        damaged = home;
      }
      // The anchors, the type map, and what was freed meanwhile.
      if (!facts || facts->reserved) continue;
      if (const int answer = visit(argument, *facts); answer != 0) return answer;
    }
    if (damaged != 0) {
      return fail(errc::corrupt, "object at home %lx: found a header that fails its check, expected one that holds",
                  damaged);
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a list of objects");
  }
  status build_index(unsigned) noexcept override { return {}; }
  std::uint64_t used_pages() noexcept override { return places_.used_pages(); }
  void statistics(nvm_statistics& out) noexcept override {
    for (const auto& f : faces_) {
      const face* t = f.load(std::memory_order_acquire);
      if (t == nullptr) continue;
      out.commits += t->commits();
      out.aborts += t->aborts();
      out.logged_bytes += t->logged_bytes();
    }
    out.grown_bytes = grown_bytes_.load(std::memory_order_relaxed);
    const auto h = heap_.statistics();
    out.cleaned_chunks = h.cleaned;
    out.moved_bytes = h.moved_bytes;
    out.live_bytes = h.live_bytes;
    out.mapping_bytes = h.mapping_bytes;
    holder_->statistics(out);
  }
  unsigned lanes() const noexcept override { return epochs::threads_max; }
  std::uint32_t persist() const noexcept override { return holder_->persist(); }
  const tx::recovery_report& recovered() const noexcept override { return report_; }

  status come_to_rest(bool exiting) noexcept override {
    for (auto& f : faces_) {
      face* t = f.load(std::memory_order_acquire);
      if (t != nullptr && t->joined()) t->leave_heap();
    }
    if (!exiting) {
      memory_.reset();
      heap_.leave(*own_);
      for (thread_type* t : readers_) heap_.leave(*t);
    }
    // What could not be saved is recovered: the log has everything.
    if (!file_.read_only()) (void)heap_.close();
    return holder_->close();
  }

 private:
  using heap_object = typename heap_type::object;
  using store_range = typename heap_type::store_range;
  static constexpr std::uint64_t pages_per_thread = std::uint64_t{1} << 18;  // 1 GiB of 4 KiB pages
  static constexpr unsigned fault_threads = 1;
  static constexpr std::uint64_t header_bytes = sizeof(layout::object_header);

  // ---- transactions ----

  class face final : public open_transaction, public stm::home_reader {
   public:
    explicit face(log_engine& engine)
        : engine_{engine},
          read_{[this](std::uint64_t home, std::byte* to, std::uint64_t n) { engine_.heap_.read(*who_, home, to, n); }},
          changes_{engine.file_.base()} {}
    // By the thread that has the lane, or at rest.
    [[nodiscard]] bool joined() const noexcept { return who_ != nullptr; }
    void join(thread_type& who) noexcept { who_ = &who; }
    void leave_heap() noexcept { engine_.heap_.leave(*std::exchange(who_, nullptr)); }
    // acquire: pairs with the release in leave(): what the transaction did is done.
    [[nodiscard]] bool open() const noexcept { return open_.load(std::memory_order_acquire); }
    [[nodiscard]] std::uint64_t commits() const noexcept { return commits_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t logged_bytes() const noexcept { return logged_bytes_.load(std::memory_order_relaxed); }

    void read(std::uint64_t offset, void* to, std::size_t n) noexcept override {
      const geometry& g = engine_.shape_;
      if (offset >= g.home_offset() && range_inside(offset, n, g.address_bytes())) {
        engine_.heap_.read(*who_, offset, to, n);
      } else {
        std::memset(to, 0, n);  // of a transaction that will learn that it was too late
      }
    }

    unsigned depth() const noexcept override { return static_cast<unsigned>(levels_.size()); }
    errc failure() const noexcept override { return failed_.code(); }
    status begin() noexcept override try {
      levels_.reserve(levels_.size() + 1);
      changes_.begin_level();
      levels_.push_back({fresh_.size(), released_.size(), assigned_.size(), hooks_.size()});
      // relaxed: for those who count.
      open_.store(true, std::memory_order_relaxed);
      return {};
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for a transaction");
    }
    status announce(const log::byte_range* ranges, std::size_t count) noexcept override try {
      for (std::size_t i = 0; i < count; ++i) {
        if (ranges[i].bytes == 0 || is_of_level(ranges[i])) continue;
        if (engine_.memory_->is_materialised()) {
          changes_.keep(ranges[i],
                        [this](const log::byte_range& r) { engine_.memory_->pin(r.offset, r.bytes, read_); });
          continue;
        }
        return doom(
            fail(errc::engine,
                 "bytes at offset %lu: the pool was opened with translated reads, which takes stores by nvm/stm.h, "
                 "not in place",
                 ranges[i].offset));
      }
      return {};
    } catch (const std::bad_alloc&) {
      return doom(fail(errc::no_memory, "no volatile memory for %zu announced ranges", count));
    }
    bool covers(const log::byte_range& r) noexcept override { return is_of_level(r) || changes_.covers(r); }

    result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept override {
      if (bytes == 0) return doom(fail(errc::invalid, "an object of 0 bytes"));
      if (bytes > layout::object_bytes_max) {
        return doom(fail(errc::too_large, "an object of %lu bytes: at most %lu", bytes, layout::object_bytes_max));
      }
      auto home = allocate_plain(bytes + header_bytes);
      if (!home) return home.error();
      const layout::object_header header = layout::make_object_header(bytes, type, *home);
      std::memcpy(engine_.file_.base() + *home, &header, sizeof header);
      return *home + header_bytes;
    }
    // An object without a header.
    result<std::uint64_t> allocate_plain(std::uint64_t bytes) noexcept try {
      if (failed_) return refuse().error();
      fresh_.reserve(fresh_.size() + 1);
      by_home_.reserve(fresh_.size() + 1);
      auto o = engine_.heap_.allocate(*who_, bytes);
      if (!o) return doom(o.error());
      engine_.memory_->pin(o->at.home, o->at.bytes, read_);
      platform::memory_watch::object(engine_.file_.base() + o->at.home, bytes, o->at.bytes);
      // Mostly at the end: home space is handed out upwards.
      by_home_.insert(behind(o->at.home), {o->at.home, fresh_.size()});
      fresh_.push_back({*o, 0});
      return o->at.home;
    } catch (const std::bad_alloc&) {
      return doom(fail(errc::no_memory, "no volatile memory for an allocation of %lu bytes", bytes));
    }
    status release(std::uint64_t payload) noexcept override {
      if (payload < header_bytes || payload - header_bytes == engine_.shape_.home_offset()) {
        return fail(errc::bad_pointer, "offset %lx is no object", payload);
      }
      return release_plain(payload - header_bytes);
    }
    status release_plain(std::uint64_t home) noexcept try {
      if (failed_) return refuse();
      if (fresh* f = around(home); f != nullptr && f->what.at.home == home) {
        if (f->freed_in != 0) return fail(errc::bad_pointer, "home %lx: freed already", home);
        f->freed_in = depth();
        return {};
      }
      released_.reserve(released_.size() + 1);
      auto o = engine_.heap_.release(*who_, home);
      if (!o) return o.error();
      released_.push_back(*o);
      return {};
    } catch (const std::bad_alloc&) {
      return doom(fail(errc::no_memory, "no volatile memory for a free"));
    }
    result<std::uint64_t> room_of(std::uint64_t payload) noexcept override {
      if (payload < header_bytes) return fail(errc::bad_pointer, "offset %lx is no object", payload);
      auto bytes = engine_.heap_.slot_bytes_at(payload - header_bytes);
      if (!bytes) return bytes.error();
      return *bytes - header_bytes;
    }
    status set_root(std::uint64_t payload) noexcept override { return set_anchor(anchor_word::root, payload); }
    status publish_types(const void* map, std::uint64_t bytes) noexcept override {
      auto old = engine_.read_anchor(anchor_word::types);
      if (!old) return old.error();
      auto home = allocate_plain(bytes);
      if (!home) return home.error();
      std::memcpy(engine_.file_.base() + *home, map, bytes);
      if (status s = set_anchor(anchor_word::types, *home); !s) return s;
      return *old == 0 ? status{} : release_plain(*old);
    }
    status on(int event, void (*call)(), void* argument) noexcept override try {
      hooks_.push_back({call, event, argument, false});
      return {};
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for a hook");
    }

    errc doom(errc why) noexcept override { return failed_.note(why, depth()); }
    status commit_level() noexcept override {
      if (failed_) {
        const tx::first_failure why = failed_;
        std::vector<tx::hook> none;
        abort_level(none);
        failed_ = why;  // an unread failure of the inner level must not become half an outer one
        failed_.concerns(depth());
        return refuse();
      }
      try {
        changes_.join_level();
      } catch (const std::bad_alloc&) {
        std::vector<tx::hook> none;
        abort_level(none);
        return doom(fail(errc::no_memory, "no volatile memory for a transaction"));
      }
      levels_.pop_back();
      for (fresh& f : fresh_) f.freed_in = std::min(f.freed_in, depth());
      return {};
    }
    void abort_level(std::vector<tx::hook>& hooks) noexcept override {
      const level l = levels_.back();
      // Before its objects go: what is put back into one of them would be somebody else's memory.
      put_back_changes();
      take_back(l);
      for (fresh& f : fresh_) f.freed_in = f.freed_in == depth() ? 0 : f.freed_in;
      failed_.levels_left(depth() - 1);
      try {
        const auto first = hooks_.begin() + static_cast<std::ptrdiff_t>(l.hooks);
        hooks.assign(first, hooks_.end());
        hooks_.erase(first, hooks_.end());
        for (tx::hook& h : hooks) h.aborted = true;
      } catch (const std::bad_alloc&) {
        for (std::size_t i = l.hooks; i < hooks_.size(); ++i) hooks_[i].aborted = true;
        // They run at the end, and nothing but that may come before.
        failed_.note(fail(errc::no_memory, "no volatile memory for the hooks of a level"), depth() - 1);
      }
      levels_.pop_back();
    }
    result<lsn_t> commit(std::vector<tx::hook>& hooks) noexcept override { return commit_lines({}, 0, hooks); }
    void abort(std::vector<tx::hook>& hooks) noexcept override {
      for (tx::hook& h : hooks_) h.aborted = true;
      while (!levels_.empty()) {
        put_back_changes();
        take_back(levels_.back());
        levels_.pop_back();
      }
      forget_changes();
      count(aborts_, 1);
      leave(hooks);
    }

    bool writes_back() const noexcept override { return true; }
    status enter_commit(std::span<const isolation::written_line>) noexcept override {
      return failed_ ? refuse() : status{};
    }
    result<lsn_t> commit_lines(std::span<const isolation::written_line> lines, std::uint64_t /*version*/,
                               std::vector<tx::hook>& hooks) noexcept override {
      status s = failed_ ? refuse() : make_durable(lines);
      if (!s) {
        abort(hooks);
        return s.error();
      }
      count(commits_, 1);
      leave(hooks);
      return engine_.heap_.last_lsn();
    }

   private:
    struct level {
      std::size_t fresh, released, assigned, hooks;
    };
    struct fresh {
      heap_object what;
      unsigned freed_in;  // level that frees it again; 0: none
    };
    struct assigned_word {
      std::uint64_t home, value;
    };
    struct place_of_fresh {
      std::uint64_t home;
      std::size_t index;
    };

    // The object of this transaction around an address; nullptr: none.
    [[nodiscard]] auto behind(std::uint64_t home) noexcept {
      return std::upper_bound(by_home_.begin(), by_home_.end(), home,
                              [](std::uint64_t h, const place_of_fresh& p) { return h < p.home; });
    }
    [[nodiscard]] fresh* around(std::uint64_t home) noexcept {
      if (fresh_.empty()) return nullptr;
      const auto next = behind(home);
      if (next == by_home_.begin()) return nullptr;
      fresh& f = fresh_[std::prev(next)->index];
      return home - f.what.at.home < f.what.size ? &f : nullptr;
    }
    // Of an object that the innermost level has allocated.
    [[nodiscard]] bool is_of_level(const log::byte_range& r) noexcept {
      const fresh* f = around(r.offset);
      return f != nullptr && static_cast<std::size_t>(f - fresh_.data()) >= levels_.back().fresh &&
             range_inside(r.offset - f->what.at.home, r.bytes, f->what.size);
    }

    // One writer: no locked instruction.
    static void count(std::atomic<std::uint64_t>& counter, std::uint64_t more) noexcept {
      counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    [[nodiscard]] status refuse() const noexcept { return failed_.refuse(); }
    status set_anchor(anchor_word which, std::uint64_t value) noexcept try {
      for (unsigned copy = 0; copy < 2; ++copy) {
        const std::uint64_t at = object_word_at(engine_.shape_, copy, which);
        assigned_.push_back({at, seal_word(value, word_seed(at))});
      }
      return {};
    } catch (const std::bad_alloc&) {
      return doom(fail(errc::no_memory, "no volatile memory for a word"));
    }

    // Of the innermost level; of all, which are durable or were put back.
    void put_back_changes() noexcept {
      changes_.put_back_level([this](const log::byte_range& r) { engine_.memory_->unpin(r.offset, r.bytes); });
    }
    void forget_changes() noexcept {
      changes_.finish([this](const log::byte_range& r) { engine_.memory_->unpin(r.offset, r.bytes); });
    }
    // Everything else since `l` began.
    void take_back(const level& l) noexcept {
      while (fresh_.size() > l.fresh) {
        const heap_object o = fresh_.back().what;
        by_home_.erase(std::prev(behind(o.at.home)));
        fresh_.pop_back();
        give_up(o);
      }
      engine_.heap_.abandon({{}, {}, std::span{released_}.subspan(l.released)});
      released_.resize(l.released);
      assigned_.resize(l.assigned);
    }
    // Debuggers of memory are told which bytes belong to no object any more; headers are the engine's.
    void watch_freed(const heap_object& o, bool freed) noexcept {
      const std::byte* const p = engine_.file_.base() + o.at.home + header_bytes;
      if (o.at.bytes <= header_bytes) return;
      if (freed) {
        platform::memory_watch::inaccessible(p, o.at.bytes - header_bytes);
      } else {
        platform::memory_watch::accessible(p, o.at.bytes - header_bytes);
      }
    }
    void give_up(const heap_object& o) noexcept {
      watch_freed(o, true);
      engine_.memory_->unpin(o.at.home, o.at.bytes);
      engine_.heap_.abandon({{}, std::span{&o, 1}, {}});
    }

    [[nodiscard]] status make_durable(std::span<const isolation::written_line> lines) noexcept {
      if (status s = engine_.still_durable(); !s) return s;
      try {
        stores_.clear();
        allocated_.clear();
        collect(lines);
      } catch (const std::bad_alloc&) {
        return fail(errc::no_memory, "no volatile memory for a commit");
      }
      // Before others can get the addresses.
      for (const heap_object& o : released_) watch_freed(o, true);
      auto version = engine_.heap_.commit(*who_, {stores_, allocated_, released_});
      if (!version) {
        for (const heap_object& o : released_) watch_freed(o, false);
      }
      if (!version) return fail(version.error(), "pool %s: %s", engine_.file_.path(), last_message());
      bring_home();
      for (const fresh& f : fresh_) {
        if (f.freed_in != 0) {
          give_up(f.what);
        } else {
          engine_.memory_->unpin(f.what.at.home, f.what.at.bytes);
        }
      }
      forget_changes();
      return {};
    }
    // What is not in place yet, where there are home pages; nothing of objects that are no more: their addresses may be
    // somebody else's by now.
    void bring_home() noexcept {
      home_memory& memory = *engine_.memory_;
      if (memory.is_materialised()) {
        for (const store_range& s : stores_) {
          if (s.from != engine_.file_.base() + s.home) memory.store(s.home, s.from, s.size);
        }
      }
      for (const heap_object& o : released_) memory.drop(o.at.home, o.at.bytes);
    }
    // All that the transaction stored, in order of addresses and disjoint, but for what it frees.  Throws
    // std::bad_alloc.
    void collect(std::span<const isolation::written_line> lines) {
      std::byte* const base = engine_.file_.base();
      in_place_.clear();
      gone_.clear();
      for (const fresh& f : fresh_) {
        if (f.freed_in != 0) {
          gone_.push_back({f.what.at.home, f.what.at.bytes});
          continue;
        }
        allocated_.push_back(f.what);
        in_place_.push_back({f.what.at.home, f.what.size});
      }
      for (const heap_object& o : released_) gone_.push_back({o.at.home, o.at.bytes});
      changes_.each_changed([&](const log::byte_range& r) { in_place_.push_back(r); });
      each_union(in_place_, [&](const log::byte_range& r) { stores_.push_back({r.offset, base + r.offset, r.bytes}); });
      for (std::size_t i = 0; i < assigned_.size(); ++i) {
        const auto again = [&](const assigned_word& w) { return w.home == assigned_[i].home; };
        if (std::any_of(assigned_.begin() + static_cast<std::ptrdiff_t>(i) + 1, assigned_.end(), again)) continue;
        stores_.push_back({assigned_[i].home, reinterpret_cast<const std::byte*>(&assigned_[i].value), 8});
      }
      const std::uint64_t first_line = reinterpret_cast<std::uintptr_t>(base) / line_bytes;
      for (const isolation::written_line& w : lines) {
        const std::uint64_t line = (w.line - first_line) * line_bytes;
        isolation::each_run(w.mask,
                            [&](unsigned from, std::size_t n) { stores_.push_back({line + from, w.bytes + from, n}); });
      }
      std::sort(stores_.begin(), stores_.end(), [](const auto& a, const auto& b) { return a.home < b.home; });
      if (!gone_.empty()) leave_out_gone();
      std::uint64_t bytes = 0;
      for (const store_range& s : stores_) bytes += s.size + sizeof(std::uint64_t);
      count(logged_bytes_, bytes + sizeof(logheap::layout::block_header));
    }
    // Sorts them, and calls visit(range) for what they are together.
    template <class Visit>
    static void each_union(std::vector<log::byte_range>& ranges, Visit&& visit) {
      std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
      log::byte_range run{0, 0};
      for (const log::byte_range& r : ranges) {
        if (run.bytes != 0 && r.offset <= run.offset + run.bytes) {
          run.bytes = std::max(run.offset + run.bytes, r.offset + r.bytes) - run.offset;
          continue;
        }
        if (run.bytes != 0) visit(run);
        run = r;
      }
      if (run.bytes != 0) visit(run);
    }
    void leave_out_gone() {
      kept_.clear();
      std::sort(gone_.begin(), gone_.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
      auto gone = gone_.begin();
      for (store_range s : stores_) {
        while (gone != gone_.end() && gone->offset + gone->bytes <= s.home) ++gone;
        for (auto g = gone; s.size != 0 && g != gone_.end() && g->offset < s.home + s.size; ++g) {
          if (g->offset > s.home) kept_.push_back({s.home, s.from, g->offset - s.home});
          const std::uint64_t end = std::min(s.home + s.size, g->offset + g->bytes);
          s.from += end - s.home;
          s.size -= end - s.home;
          s.home = end;
        }
        if (s.size != 0) kept_.push_back(s);
      }
      stores_.swap(kept_);
    }

    void leave(std::vector<tx::hook>& hooks) noexcept {
      levels_.clear();
      fresh_.clear();
      by_home_.clear();
      released_.clear();
      assigned_.clear();
      failed_.clear();
      if (!hooks_.empty()) hooks = std::move(hooks_);
      hooks_.clear();
      open_.store(false, std::memory_order_release);
    }

    log_engine& engine_;
    const logheap::home_read read_;
    in_place_changes changes_;
    thread_type* who_ = nullptr;
    std::atomic<bool> open_{false};
    tx::first_failure failed_;
    std::vector<level> levels_;
    std::vector<fresh> fresh_;
    std::vector<place_of_fresh> by_home_;  // the same, in order of addresses
    std::vector<heap_object> released_;
    std::vector<assigned_word> assigned_;
    std::vector<tx::hook> hooks_;
    std::vector<store_range> stores_, kept_;
    std::vector<log::byte_range> in_place_, gone_;
    std::vector<heap_object> allocated_;
    // One writer.
    std::atomic<std::uint64_t> commits_{0}, aborts_{0}, logged_bytes_{0};
  };

  // The face of this thread, which gets a number if it has none (`parked`: it has).
  [[nodiscard]] result<face*> face_of(unsigned& lane, bool& parked) noexcept {
    // relaxed: a thread's own.
    if (parked) return faces_[lane].load(std::memory_order_relaxed);
    auto joined = heap_.join();
    if (!joined) return joined.error();
    const unsigned number = (*joined)->number();
    face* f = faces_[number].load(std::memory_order_relaxed);
    if (f == nullptr) {
      try {
        f = new face{*this};
      } catch (const std::bad_alloc&) {
        heap_.leave(**joined);
        return fail(errc::no_memory, "%s: no volatile memory for a transaction", file_.path());
      }
      // release: pairs with the acquire in open_transactions().
      faces_[number].store(f, std::memory_order_release);
    }
    f->join(**joined);
    lane = number;
    parked = true;
    return f;
  }

  // Whether the medium has kept its promise so far; one that can break it has LSNs.
  [[nodiscard]] status still_durable() noexcept {
    if (status s = file_.accepts_commits(); !s) return s;
    const lsn_t last = heap_.last_lsn();
    return last == 0 ? status{} : holder_->top().durable(last);
  }

  // ---- anchors ----

  [[nodiscard]] status make_anchors() noexcept {
    const std::uint64_t home = shape_.home_offset();
    const auto room = heap_.room_at(*own_, home);
    if (room && room->size == object_words_bytes) return {};
    bool empty = true;
    heap_.for_each_object([&](logheap::home_t, std::uint64_t) { empty = false; });
    if (!empty || file_.read_only()) {
      return fail(errc::corrupt, "%s: found no first object of home space, which has the root", file_.path());
    }
    logheap::transaction<heap_type> t{heap_, *own_};
    try {
      auto made = t.allocate(object_words_bytes);
      if (!made) return made.error();
      if (*made != home) {
        return fail(errc::corrupt, "%s: the first object is at home %lx, expected %lx", file_.path(), *made, home);
      }
      for (unsigned copy = 0; copy < 2; ++copy) {
        for (unsigned i = 0; i < anchor_words; ++i) {
          const std::uint64_t at = object_word_at(shape_, copy, static_cast<anchor_word>(i));
          const std::uint64_t word = seal_word(0, word_seed(at));
          t.store(at, &word, sizeof word);
        }
      }
      auto version = t.commit();
      return version ? status{} : status{version.error()};
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for the first object");
    }
  }
  [[nodiscard]] result<std::uint64_t> read_anchor(anchor_word which) noexcept {
    const std::lock_guard guard{own_lock_};
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(shape_, copy, which);
      std::uint64_t word = 0;
      heap_.read(*own_, at, &word, sizeof word);
      const std::uint64_t place = word & checked_mask;
      if (word_holds(word, word_seed(at)) && (place == 0 || shape_.in_objects(place, 1))) return place;
    }
    return fail(errc::corrupt, "neither copy names %s by a word that passes its check", name_of(which));
  }

  // What loads find at home addresses.
  [[nodiscard]] status make_memory(const log_choice& how) noexcept try {
    std::byte* const at = file_.base() + shape_.home_offset();
    if (how.translated) {
      auto made = std::make_unique<scratch_memory>(at, shape_.home_offset(), shape_.home_bytes);
      if (status s = made->open(); !s) return s;
      memory_ = std::move(made);
      return {};
    }
    std::vector<logheap::home_read> readers;
    for (unsigned i = 0; i < fault_threads; ++i) {
      auto joined = heap_.join();
      if (!joined) return joined.error();
      thread_type* const t = *joined;
      readers_.push_back(t);
      readers.push_back([this, t](std::uint64_t home, std::byte* to, std::uint64_t n) { heap_.read(*t, home, to, n); });
    }
    auto pages = logheap::home_pages::open({at, shape_.home_offset(), shape_.home_bytes, how.home_bytes_max},
                                           std::move(readers));
    if (!pages) return pages.error();
    memory_ = std::make_unique<materialised_memory>(std::move(*pages));
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for home pages");
  }

  // ---- objects ----

  // As the log says, or as the caller's own transaction has changed it (`in_memory`).
  [[nodiscard]] result<object_facts> facts_of(thread_type& t, std::uint64_t payload, bool in_memory) noexcept {
    const std::uint64_t home = payload - header_bytes;
    if (payload < header_bytes || !shape_.in_objects(home, header_bytes)) {
      return fail(errc::bad_pointer, "offset %lx is no object", payload);
    }
    auto room = heap_.room_at(t, home);
    if (!room) return room.error();
    const bool reserved = room->size == 0;
    layout::object_header header;
    if (reserved || in_memory) {
      std::memcpy(&header, file_.base() + home, sizeof header);
    } else if (room->size > header_bytes) {
      heap_.read(t, home, &header, sizeof header);
    } else {
      return fail(errc::bad_pointer, "offset %lx is no object of a program", payload);
    }
    if (!layout::object_header_holds(header, home) || layout::object_size(header) > room->bytes - header_bytes) {
      return fail(errc::bad_pointer, "offset %lx is no object of a program", payload);
    }
    return facts_from(header, home, room->bytes, reserved);
  }
  [[nodiscard]] bool is_still_there(std::uint64_t home) noexcept {
    const std::lock_guard guard{own_lock_};
    const auto room = heap_.room_at(*own_, home);
    return (room && room->size != 0) || (!room && room.error() == errc::corrupt);
  }
  [[nodiscard]] status add_feature(std::uint32_t bits) noexcept override {
    return file_.add_feature(holder_->top(), bits);
  }
  [[nodiscard]] result<std::uint64_t> grow(std::uint64_t pages) noexcept {
    const std::uint64_t before = file_.size_pages();
    auto grown = file_.grow(holder_->top(), pages);
    if (grown) grown_bytes_.fetch_add((*grown - before) << shape_.page_shift, std::memory_order_relaxed);
    return grown;
  }

  std::unique_ptr<Holder> holder_;
  pool_file& file_;
  const geometry shape_;  // as opened
  log::nothing_logged lanes_;
  space_type places_;
  heap_type heap_;
  std::vector<thread_type*> readers_;  // of the threads that build home pages
  std::unique_ptr<home_memory> memory_;
  std::array<std::atomic<face*>, epochs::threads_max> faces_{};
  std::mutex own_lock_;  // of own_ and types_
  thread_type* own_ = nullptr;
  std::vector<std::uint64_t> types_;
  tx::recovery_report report_;
  std::atomic<std::uint64_t> grown_bytes_{0};
};

// An engine on this stack of media, recovered and ready.  May throw std::bad_alloc.
template <class Holder, logheap::mapping Map, class... Extra>
[[nodiscard]] result<std::unique_ptr<engine>> start_log_engine(std::unique_ptr<Holder> holder, pool_file& file,
                                                               const log_choice& how, const Extra&... of_mapping) {
  auto e =
      std::make_unique<log_engine<Holder, Map>>(std::move(holder), file, heap_settings_of(file, how), of_mapping...);
  if (status s = e->boot(how); !s) return s.error();
  return std::unique_ptr<engine>{std::move(e)};
}

}  // namespace nvm::api
