// A transaction of a log-structured heap on one thread: announced stores and barriers' lines, objects that it allocates
// and frees, levels.
//
/// Commit, materialised.  P pin, U unpin.
///   1. barriers' lines stay in the write set; announced ranges, fresh objects: P, then S in place
///   2. heap.commit()                                                       | logheap/E1  commit point
///      a thread that waits for the LSN learns whether that fence has made it durable
///   3. lines into the home pages that are there; U
/// Abort: old bytes into announced ranges; U.
//
// Threads: one at a time, but for open() and the counters.  The heap has numbers for 256 threads.  A thread comes back
// to its transaction by a ticket; between two transactions a thread that finds no number may take it over.
///   owner_      ticket << 1 | whether it is in use
///   the thread  ticket, 0 > ticket, 1 .. ticket, 1 > ticket, 0
///   another     ticket, 0 > ticket + 1, 1
// acquire and release at these changes hand on everything else, the heap's state of the number too. A number changes
// hands after the fence of its last commit, as when a thread ends and the next one gets its number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "isolation/isolation.hpp"
#include "log/log.hpp"
#include "logheap/commit_set.hpp"
#include "logheap/heap.hpp"
#include "logheap/home_memory.hpp"
#include "logheap/in_place_changes.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "space/space_layout.hpp"
#include "tx/tx.hpp"

namespace nvm::logheap {

// What a transaction asks of the pool besides its heap.
class transaction_host {
 public:
  // Content of an anchor in the first object of home space; 0: unset.
  [[nodiscard]] virtual result<std::uint64_t> read_anchor(anchor_word which) noexcept = 0;
  // Whether the medium has kept its promise so far.
  [[nodiscard]] virtual status still_durable() noexcept = 0;
  // Whether references to objects of this type are counted.
  [[nodiscard]] virtual bool is_counted(std::uint32_t type) const noexcept = 0;

  // Between two transactions of number `n`, which stays in use: whether another thread has it now.
  [[nodiscard]] virtual bool hand_on(unsigned n) noexcept = 0;

  tx::reference_log* references = nullptr;  // is told of commits; nullptr: references are not counted

 protected:
  ~transaction_host() = default;
};

// Where a level began: so many of each.
struct log_mark {
  std::size_t fresh, released, assigned;
};

template <class Heap>
class open_transaction final : public tx::open_transaction, public tx::home_reader, private tx::level_stack<log_mark> {
  using levels = tx::level_stack<log_mark>;
  using thread = typename Heap::thread;

 public:
  // The referenced objects live longer; `memory`: at the virtual addresses of `file`.
  open_transaction(transaction_host& host, Heap& heap, home_memory& memory, const pool_file& file,
                   const geometry& shape)
      : host_{host},
        heap_{heap},
        memory_{memory},
        base_{file.base()},
        path_{file.path()},
        shape_{shape},
        read_{[this](std::uint64_t home, std::byte* to, std::uint64_t n) { heap_.read(*who_, home, to, n); }},
        changes_{base_} {}
  // By the thread that has it, or at rest.
  [[nodiscard]] bool joined() const noexcept { return who_ != nullptr; }
  // In use by a thread that joined the heap; its ticket.
  [[nodiscard]] std::uint32_t join(thread& who) noexcept {
    who_ = &who;
    number_ = who.number();
    return adopt();
  }
  // In use, and another thread's from now on; its ticket.
  [[nodiscard]] std::uint32_t adopt() noexcept {
    const std::uint32_t ticket = next_ticket(owner_.load(std::memory_order_relaxed));
    owner_.store(ticket << 1 | 1, std::memory_order_relaxed);
    keeps_ = false;
    return ticket;
  }
  // It stays in use until it is joined again: nobody takes it over.
  void leave_heap() noexcept { heap_.leave(*std::exchange(who_, nullptr)); }
  // The thread with this ticket uses it again.  False: another thread has taken it over.
  [[nodiscard]] bool resume(std::uint32_t ticket) noexcept {
    std::uint32_t now = ticket << 1;
    if (owner_.compare_exchange_strong(now, now | 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    return now == (ticket << 1 | 1) && keeps_;
  }
  // Nobody takes it over from now on.
  void keep() noexcept { keeps_ = true; }
  // Another thread uses it from now on, if it is idle; its ticket.
  [[nodiscard]] std::optional<std::uint32_t> take_over() noexcept {
    std::uint32_t now = owner_.load(std::memory_order_relaxed);
    const std::uint32_t ticket = next_ticket(now);
    if ((now & 1) != 0 ||
        !owner_.compare_exchange_strong(now, ticket << 1 | 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      return {};
    }
    return ticket;
  }
  // The thread's use ends.  The process may be at its end, and the number given up by then.
  void let_go() noexcept {
    if (keeps_ || host_.hand_on(number_)) return;
    owner_.store(owner_.load(std::memory_order_relaxed) & ~1U, std::memory_order_release);
  }
  static constexpr unsigned ticket_bits = 24;
  // acquire: pairs with the release in leave(): what the transaction did is done.
  [[nodiscard]] bool open() const noexcept { return (turns() & 1) != 0; }
  // Begins and ends: odd while the transaction is open.
  [[nodiscard]] std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_acquire); }
  using levels::aborts;
  using levels::commits;
  using levels::logged_bytes;

  void read(std::uint64_t offset, void* to, std::size_t n) noexcept override {
    const geometry& g = shape_;
    if (offset >= g.home_offset() && range_inside(offset, n, g.address_bytes())) {
      heap_.read(*who_, offset, to, n);
    } else {
      std::memset(to, 0, n);  // for a transaction that will learn that it was too late
    }
  }

  unsigned depth() const noexcept override { return levels::depth(); }
  errc failure() const noexcept override { return levels::failure(); }
  status begin() noexcept override try {
    levels_.reserve(levels_.size() + 1);
    changes_.begin_level();
    levels::begin_level({fresh_.size(), released_.size(), assigned_.size()});
    // relaxed: for counters only.
    if (levels_.size() == 1) take_turn(std::memory_order_relaxed);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }
  status announce(const log::byte_range* ranges, std::size_t count) noexcept override try {
    for (std::size_t i = 0; i < count; ++i) {
      if (ranges[i].bytes == 0 || is_of_level(ranges[i])) continue;
      if (memory_.is_materialised()) {
        changes_.keep(ranges[i], [this](const log::byte_range& r) { memory_.pin(r.offset, r.bytes, read_); });
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
    if (bytes > nvm::layout::object_bytes_max) {
      return doom(fail(errc::too_large, "an object of %lu bytes: at most %lu", bytes, nvm::layout::object_bytes_max));
    }
    auto home = allocate_plain(bytes + header_bytes);
    if (!home) return home.error();
    const nvm::layout::object_header header = nvm::layout::make_object_header(bytes, type, *home);
    std::memcpy(base_ + *home, &header, sizeof header);
    return *home + header_bytes;
  }
  // An object without a header.
  result<std::uint64_t> allocate_plain(std::uint64_t bytes) noexcept try {
    if (failed_) return levels::refuse().error();
    fresh_.reserve(fresh_.size() + 1);
    by_home_.reserve(fresh_.size() + 1);
    auto o = heap_.allocate(*who_, bytes);
    if (!o) return doom(o.error());
    memory_.pin(o->at.home, o->at.bytes, read_);
    platform::memory_watch::object(base_ + o->at.home, bytes, o->at.bytes);
    // Mostly at the end: home space is handed out upwards.
    by_home_.insert(behind(o->at.home), {o->at.home, fresh_.size()});
    fresh_.push_back({*o, 0});
    return o->at.home;
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for an allocation of %lu bytes", bytes));
  }
  status release(std::uint64_t payload) noexcept override {
    if (payload < header_bytes || payload - header_bytes == shape_.home_offset()) {
      return fail(errc::bad_pointer, "offset %lx is no object", payload);
    }
    return release_plain(payload - header_bytes);
  }
  status release_plain(std::uint64_t home) noexcept try {
    if (failed_) return levels::refuse();
    if (fresh* f = around(home); f != nullptr && f->what.at.home == home) {
      if (f->freed_in != 0) return fail(errc::bad_pointer, "home %lx: freed already", home);
      f->freed_in = depth();
      return {};
    }
    released_.reserve(released_.size() + 1);
    auto o = heap_.release(*who_, home);
    if (!o) return o.error();
    released_.push_back(*o);
    return {};
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for a free"));
  }
  result<std::uint64_t> room_of(std::uint64_t payload) noexcept override {
    if (payload < header_bytes) return fail(errc::bad_pointer, "offset %lx is no object", payload);
    auto bytes = heap_.slot_bytes_at(*who_, payload - header_bytes);
    if (!bytes) return bytes.error();
    return *bytes - header_bytes;
  }
  status set_root(std::uint64_t payload) noexcept override { return set_anchor(anchor_word::root, payload); }
  status set_reference_rings(std::uint64_t payload) noexcept override {
    return set_anchor(anchor_word::references, payload);
  }
  status let_go(std::uint64_t payload) noexcept override {
    const std::uint64_t at = payload - header_bytes;
    if (host_.references == nullptr || around(at) != nullptr) return release(payload);
    if (auto room = room_of(payload); !room) return room.error();
    nvm::layout::object_header h;
    // Another thread's commit may store the count in it.
    isolation::copy_out(&h, base_ + at, sizeof h);
    const auto a = nvm::layout::alignment_of(h, at);
    if (!nvm::layout::object_header_holds(h, at) || !a || !host_.is_counted(h.type)) return release(payload);
    return levels::add_let_go(at + a->gap);
  }
  status assign_all(std::span<const tx::assigned_bytes> words) noexcept override try {
    for (const tx::assigned_bytes& w : words) {
      std::uint64_t whole = w.value;
      const std::uint64_t at = round_down(w.offset, 8);
      if (w.bytes != sizeof whole) {
        std::memcpy(&whole, base_ + at, sizeof whole);
        std::memcpy(reinterpret_cast<std::byte*>(&whole) + (w.offset - at), &w.value, w.bytes);
      }
      assigned_.push_back({at, whole});
    }
    return {};
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for %zu words", words.size()));
  }
  unsigned lane() const noexcept override { return number_; }
  status publish_types(const void* map, std::uint64_t bytes) noexcept override {
    auto old = host_.read_anchor(anchor_word::types);
    if (!old) return old.error();
    auto home = allocate_plain(bytes);
    if (!home) return home.error();
    std::memcpy(base_ + *home, map, bytes);
    if (status s = set_anchor(anchor_word::types, *home); !s) return s;
    return *old == 0 ? status{} : release_plain(*old);
  }
  status on(int event, void (*call)(), void* argument) noexcept override { return levels::on(event, call, argument); }

  errc doom(errc why) noexcept override { return levels::doom(why); }
  status commit_level() noexcept override {
    status s = levels::commit_level_by([this] { return join_level(); }, [this] { abort_level(); });
    if (!s) return s;
    for (fresh& f : fresh_) f.freed_in = std::min(f.freed_in, depth());
    return s;
  }
  void abort_level(std::vector<tx::hook>& hooks) noexcept override {
    levels::abort_level_by([this] { abort_level(); }, hooks);
  }
  result<lsn_t> commit(std::vector<tx::hook>& hooks) noexcept override { return commit_lines({}, 0, hooks); }
  void abort(std::vector<tx::hook>& hooks) noexcept override {
    while (!levels_.empty()) {
      put_back_changes();
      take_back(levels_.back().mark);
      levels_.pop_back();
    }
    forget_changes();
    levels::all_aborted();
    references_ended(false);
    leave(hooks);
  }

  bool writes_back() const noexcept override { return true; }
  status enter_commit(std::span<const isolation::written_line>) noexcept override {
    return failed_ ? levels::refuse() : status{};
  }
  result<lsn_t> commit_lines(std::span<const isolation::written_line> lines, std::uint64_t /*version*/,
                             std::vector<tx::hook>& hooks) noexcept override {
    status s = failed_ ? levels::refuse() : attach_references(lines);
    if (s) s = make_durable(lines);
    if (!s) {
      abort(hooks);
      return s.error();
    }
    levels::count(commits_, 1);
    references_ended(true);
    leave(hooks);
    return heap_.last_lsn();
  }

 private:
  using levels::commits_;
  using levels::failed_;
  using levels::levels_;
  using levels::logged_bytes_;
  using heap_object = typename Heap::object;
  using store_range = typename Heap::store_range;
  static constexpr std::uint64_t header_bytes = sizeof(nvm::layout::object_header);

  struct fresh {
    heap_object what;
    unsigned freed_in;  // level that frees it again; 0: none
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
  // Whether the innermost level has allocated the object.
  [[nodiscard]] bool is_of_level(const log::byte_range& r) noexcept {
    const fresh* f = around(r.offset);
    return f != nullptr && static_cast<std::size_t>(f - fresh_.data()) >= levels_.back().mark.fresh &&
           range_inside(r.offset - f->what.at.home, r.bytes, f->what.size);
  }

  status set_anchor(anchor_word which, std::uint64_t value) noexcept try {
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(shape_, copy, which);
      assigned_.push_back({at, seal_word(value, word_seed(at))});
    }
    return {};
  } catch (const std::bad_alloc&) {
    return doom(fail(errc::no_memory, "no volatile memory for a word"));
  }

  [[nodiscard]] status join_level() noexcept try {
    changes_.join_level();
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }
  void abort_level() noexcept {
    // Before its objects are freed: later the old bytes could be put into memory of another transaction.
    put_back_changes();
    take_back(levels_.back().mark);
    for (fresh& f : fresh_) f.freed_in = f.freed_in == depth() ? 0 : f.freed_in;
    levels::level_aborted();
  }
  // Puts back the innermost level's changes; and forgets those of all levels, which are durable or were put back.
  void put_back_changes() noexcept {
    changes_.put_back_level([this](const log::byte_range& r) { memory_.unpin(r.offset, r.bytes); });
  }
  void forget_changes() noexcept {
    changes_.finish([this](const log::byte_range& r) { memory_.unpin(r.offset, r.bytes); });
  }
  // Takes back everything else since `l` began.
  void take_back(const log_mark& l) noexcept {
    while (fresh_.size() > l.fresh) {
      const heap_object o = fresh_.back().what;
      by_home_.erase(std::prev(behind(o.at.home)));
      fresh_.pop_back();
      give_up(o);
    }
    heap_.abandon({{}, {}, std::span{released_}.subspan(l.released)});
    released_.resize(l.released);
    assigned_.resize(l.assigned);
  }
  // Tells memory debuggers which bytes no longer belong to an object; headers are the engine's.
  void watch_freed(const heap_object& o, bool freed) noexcept {
    const std::byte* const p = base_ + o.at.home + header_bytes;
    if (o.at.bytes <= header_bytes) return;
    if (freed) {
      platform::memory_watch::inaccessible(p, o.at.bytes - header_bytes);
    } else {
      platform::memory_watch::accessible(p, o.at.bytes - header_bytes);
    }
  }
  void give_up(const heap_object& o) noexcept {
    watch_freed(o, true);
    memory_.unpin(o.at.home, o.at.bytes);
    heap_.abandon({{}, std::span{&o, 1}, {}});
  }

  [[nodiscard]] status make_durable(std::span<const isolation::written_line> lines) noexcept {
    if (status s = host_.still_durable(); !s) return s;
    try {
      collect(lines);
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for a commit");
    }
    // Called before others can get the addresses.
    for (const heap_object& o : released_) watch_freed(o, true);
    auto version = heap_.commit(*who_, {stores_.all(), allocated_, released_});
    if (!version) {
      for (const heap_object& o : released_) watch_freed(o, false);
    }
    if (!version) return fail(version.error(), "pool %s: %s", path_, last_message());
    bring_home();
    for (const fresh& f : fresh_) {
      if (f.freed_in != 0) {
        give_up(f.what);
      } else {
        memory_.unpin(f.what.at.home, f.what.at.bytes);
      }
    }
    forget_changes();
    return {};
  }
  // Stores bytes that are not in place yet, where there are home pages; none of objects that were freed, since their
  // addresses may have another use by now.
  void bring_home() noexcept {
    if (memory_.is_materialised()) {
      for (const store_range& s : stores_.all()) {
        if (s.from != base_ + s.home) memory_.store(s.home, s.from, s.size);
      }
    }
    for (const heap_object& o : released_) memory_.drop(o.at.home, o.at.bytes);
  }
  // Collects all stores of the transaction, except those to objects that it frees.  Throws std::bad_alloc.
  void collect(std::span<const isolation::written_line> lines) {
    stores_.clear();
    allocated_.clear();
    for (const fresh& f : fresh_) {
      if (f.freed_in != 0) {
        stores_.leave_out({f.what.at.home, f.what.at.bytes});
        continue;
      }
      allocated_.push_back(f.what);
      stores_.in_place({f.what.at.home, f.what.size});
    }
    for (const heap_object& o : released_) stores_.leave_out({o.at.home, o.at.bytes});
    changes_.each_changed([&](const log::byte_range& r) { stores_.in_place(r); });
    stores_.finish(base_, assigned_, lines);
    levels::count(logged_bytes_, stores_.logged_bytes());
  }

  // One writer, the thread that has the lane.
  void take_turn(std::memory_order order) noexcept { turns_.store(turns_.load(std::memory_order_relaxed) + 1, order); }

  // Attaches the commit's changes of references to it.
  [[nodiscard]] status attach_references(std::span<const isolation::written_line> lines) noexcept {
    if (host_.references == nullptr) [[likely]]
      return {};
    tx::reference_log& to = *host_.references;
    const unsigned n = lane();
    to.begin(n);
    attached_ = true;
    changes_.each_old([&](std::uint64_t o, std::uint64_t b, const std::byte* old) { to.was(n, o, b, old); });
    for (const assigned_home& w : assigned_) {
      to.becomes(n, w.home, sizeof w.value, reinterpret_cast<const std::byte*>(&w.value));
    }
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(base_) / line_bytes;
    for (const auto& w : lines) {
      isolation::each_run(w.mask, [&](unsigned from, std::size_t b) {
        to.becomes(n, (w.line - first) * line_bytes + from, b, w.bytes + from);
      });
    }
    for (const fresh& f : fresh_) {
      if (f.freed_in == 0) to.born(n, f.what.at.home);
    }
    for (const heap_object& o : released_) to.freed(n, o.at.home);
    for (const std::uint64_t payload : levels::let_go()) to.let_go(n, payload);
    const auto what = to.finish(n, *this);
    if (!what) return what.error();
    if (what->words.empty()) return {};
    try {
      for (const tx::assigned_word& w : what->words) assigned_.push_back({w.offset, w.value});
      assigned_.push_back({what->end_at, seal_word(what->end, word_seed(what->end_at))});
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for an activation record");
    }
    return {};
  }
  void references_ended(bool committed) noexcept {
    if (!attached_) [[likely]]
      return;
    attached_ = false;
    host_.references->ended(lane(), committed);
  }

  void leave(std::vector<tx::hook>& hooks) noexcept {
    fresh_.clear();
    by_home_.clear();
    released_.clear();
    assigned_.clear();
    levels::forget_levels();
    if (levels::has_hooks()) hooks = levels::take_hooks();
    // release: pairs with the acquire in open().
    take_turn(std::memory_order_release);
    let_go();
  }
  [[nodiscard]] static std::uint32_t next_ticket(std::uint32_t owner) noexcept {
    return ((owner >> 1) + 1) & ((1U << ticket_bits) - 1);
  }

  std::atomic<std::uint32_t> owner_{1};
  unsigned number_ = 0;  // in the heap, of the thread that joined
  bool keeps_ = false;   // nobody takes it over; of the thread that has it
  transaction_host& host_;
  Heap& heap_;
  home_memory& memory_;
  std::byte* const base_;
  const char* const path_;
  const geometry& shape_;
  const home_read read_;
  in_place_changes changes_;
  thread* who_ = nullptr;
  std::atomic<std::uint64_t> turns_{0};
  bool attached_ = false;  // references of the commit under way are attached
  std::vector<fresh> fresh_;
  std::vector<place_of_fresh> by_home_;  // the same, in order of addresses
  std::vector<heap_object> released_;
  std::vector<assigned_home> assigned_;
  commit_set<store_range> stores_;
  std::vector<heap_object> allocated_;
};

}  // namespace nvm::logheap
