// The shared part of all sets of regions of a pool: the directory, the log, the threads, and places that wait to be
// given back.
//
/// First set:  S directory, copy of its line, ring heads; F them; | region/E4  whole before anything names them
///             S both anchor words; F them;              | region/E5  the pool has regions
/// Set made:   S name, crc, no tally; F them;            | region/E6  before it exists
///             S state; F it;                            | region/E7  it exists
/// Counted:    at rest, and saved                        | region/E22 saving.hpp; neither before a change | region/E21
/// Dropped:    S state leaving; F it;                    | region/E8  its pages go; | space/E5  S state 0; F it
/// Opened:     F the words by which they are found;      | region/E9  a killed process left them in caches
#pragma once

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "region/costs.hpp"
#include "region/face.hpp"
#include "region/leases.hpp"
#include "region/limbo.hpp"
#include "region/member.hpp"
#include "region/partners.hpp"
#include "region/places.hpp"
#include "region/record_log.hpp"
#include "region/table.hpp"
#include "region/tally.hpp"
#include "region/turns.hpp"
#include "space/space.hpp"

namespace nvm::region {

struct options {
  std::uint64_t key = 0;         // of a new directory: random
  unsigned lanes = 8;            // of a new directory's log
  std::uint64_t ring_bytes = 0;  // the same; 0: as the pool's capacity suggests
  unsigned replicas = 256;       // of one set
  unsigned levelling = 100;      // changes in place after which a region moves (Lewat, section V); 0: it never does
  // Regions of a set from which on a close saves its table; 0: never.  Fewer are found as quickly, and each header is
  // looked at.
  std::uint64_t saved_from = 4096;
};

// One set, open.
template <media M>
struct set_state {
  set_state(M& medium, std::byte* base, region_pages& pages, unsigned in_directory, std::uint64_t state,
            unsigned level_after)
      : where{medium, base, pages, static_cast<std::uint16_t>(layout::first_owner + in_directory)},
        index{in_directory},
        counts_at_rest{state >= layout::set_counted},
        saves_at_rest{state >= layout::set_saved},
        levelling_{level_after} {}
  table regions;
  places<M> where;
  partners partners_of;
  unsigned index;  // in the directory
  const bool counts_at_rest;
  const bool saves_at_rest;
  // Whether it has a tally on media.
  std::atomic<bool> is_counted{false};
  // Beside the tally: the saved table, if it holds.  Used while no thread is at work.
  tally::table saved;
  // The run that `regions` and `where` may read, 0: none; guarded by domain::giving().
  std::uint64_t saved_run = 0;
  // On an image medium: version of the last transaction that has made a region or taken one away.
  std::atomic<std::uint64_t> newest{0};

  // How its changes are logged: by costs that domain::know_costs() has measured, or by the paper's thresholds.
  // release: pairs with decides_by_costs(): they are known.
  void decide_by_costs(bool yes) noexcept { decides_by_costs_.store(yes, std::memory_order_release); }
  [[nodiscard]] bool decides_by_costs() const noexcept { return decides_by_costs_.load(std::memory_order_acquire); }
  // Makes it count its readers, as in the paper; at any time.
  void count_readers(bool yes) noexcept { counts_readers_.store(yes, std::memory_order_relaxed); }
  [[nodiscard]] bool counts_readers() const noexcept { return counts_readers_.load(std::memory_order_relaxed); }
  // Sets after how many changes in place a region moves; 0: it never does.
  void level_after(unsigned changes) noexcept { levelling_.store(changes, std::memory_order_relaxed); }
  [[nodiscard]] bool is_to_level(unsigned changes) const noexcept {
    const unsigned most = levelling_.load(std::memory_order_relaxed);
    return most != 0 && changes >= most;
  }
  // Whether a region's header is to say so many changes in place: four times between two moves, so that a restart
  // forgets few of them.  A region that moves all the time need not know.
  [[nodiscard]] bool is_to_note(unsigned changes) const noexcept {
    constexpr unsigned notes = 4;
    constexpr unsigned few = 16;
    const unsigned most = levelling_.load(std::memory_order_relaxed);
    return most >= few && changes % (most / notes) == 0;
  }
  // Looks in vain after which a writer keeps new readers out; readers that register have lost often before.
  [[nodiscard]] unsigned patience() const noexcept { return counts_readers() ? 64 : 0; }

 private:
  std::atomic<bool> counts_readers_{false};
  std::atomic<bool> decides_by_costs_{false};
  std::atomic<unsigned> levelling_;
};

template <media M>
class transaction;

// A count that one thread adds to and any may read.
class counter {
 public:
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// State of a thread in a domain between its calls.  Threads: its own; it is in one call at a time.
template <media M>
struct thread_state {
  unsigned number = 0;
  unsigned nested = 0;  // in epochs
  log_user log;
  lsn_t position = 0;  // of all that it has done and seen
  std::vector<transaction<M>*> open;
  std::unique_ptr<transaction_room> room;  // of the transaction before, for the next
  std::array<counter, techniques> changes;
  std::array<counter, techniques> bytes;
  counter transactions;
  counter levelled;
  unsigned in_place = 0;
  counter replicas_made;
  counter replicas_given;
  counter straight;  // ranges
  counter bytes_straight;
  counter grown;         // in place
  counter moved;         // out of the way
  counter waits;         // for a region
  bool gathers = false;  // it moves regions now
};

template <media M>
class domain {
 public:
  using thread = thread_state<M>;
  using set = set_state<M>;

  domain(M& medium, std::byte* base, region_pages& pages, const options& o) noexcept
      : medium_{medium}, base_{base}, pages_{pages}, options_{o}, limbo_{epochs_, leases_} {}
  ~domain() {
    limbo_.forget([](entry* e) { delete e; });
    for (auto& s : sets_) {
      if (s != nullptr) forget_entries(*s);
    }
  }
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  // Reads the directory, if there is one, and brings its log home.  Sets are opened by open_sets(). errc::corrupt,
  // version, no_memory.
  [[nodiscard]] status open() noexcept;
  // Opens the sets, in `parts` threads.  errc::corrupt, no_memory.  With `tell`, nothing is freed, and damage is told,
  // by several threads, and passed over.
  using told = std::function<void(std::uint64_t offset, const char* what)>;
  [[nodiscard]] status open_sets(unsigned parts, const told* tell = nullptr) noexcept;

  [[nodiscard]] bool exists() const noexcept { return directory_ != 0; }
  [[nodiscard]] const recovery_report& recovered() const noexcept { return report_; }

  // errc::not_found.
  [[nodiscard]] result<set*> find(std::string_view name) const noexcept {
    for (unsigned i = 0; exists() && i < layout::sets_max; ++i) {
      if (sets_[i] != nullptr && name == entry_of(i).name) return sets_[i].get();
    }
    return fail(errc::not_found, "the pool has no set of regions '%.*s'", static_cast<int>(name.size()), name.data());
  }
  [[nodiscard]] const char* name_of(const set& s) const noexcept { return entry_of(s.index).name; }
  // The caller lets one thread at a time make and drop sets.  errc::invalid, too_large (there are sets_max), no_space,
  // no_memory.
  [[nodiscard]] result<set*> create(std::string_view name) noexcept;
  // Drops a set that no thread uses.
  void drop(set& s) noexcept;
  // While it is held no set comes or goes, and no place is given back.
  [[nodiscard]] std::mutex& giving() noexcept { return giving_; }
  [[nodiscard]] set* at(unsigned index) const noexcept { return sets_[index].get(); }

  // ---- threads ----

  // errc::no_lane: there are too many.  errc::no_memory.
  [[nodiscard]] result<thread*> join() noexcept try {
    const unsigned number = epochs_.join();
    if (number == epochs::threads_max) return fail(errc::no_lane, "%u threads use regions already", number);
    if (threads_[number] == nullptr) threads_[number] = std::make_unique<thread>();
    threads_[number]->number = number;
    threads_[number]->log.hint = number;
    return threads_[number].get();
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a thread of regions");
  }
  void leave(thread& t) noexcept { epochs_.leave_for_good(t.number); }

  // Between the two, which nest, entries and bytes that the thread has found stay.
  void enter(thread& t) noexcept {
    if (t.nested++ == 0) (void)epochs_.enter(t.number);
  }
  void exit(thread& t) noexcept {
    if (--t.nested == 0) epochs_.leave(t.number);
  }
  // Waits until all threads that are inside now have left.  By a thread that is not.
  void await_inside() noexcept {
    epochs::vector then;
    epochs_.take_vector(then);
    while (!epochs_.passed(then)) std::this_thread::yield();
  }
  // While one lives, its thread is between the two.
  class inside {
   public:
    inside(domain& d, thread& t) noexcept : domain_{d}, thread_{t} { d.enter(t); }
    ~inside() { domain_.exit(thread_); }
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;

   private:
    domain& domain_;
    thread& thread_;
  };

  // Leaves the thread's epoch for a scope: of the entries that it has found, only those that it holds stay valid.
  class outside {
   public:
    outside(domain& d, thread& t) noexcept : domain_{d}, thread_{t}, nested_{std::exchange(t.nested, 0)} {
      d.epochs_.leave(t.number);
    }
    ~outside() {
      thread_.nested = nested_;
      (void)domain_.epochs_.enter(thread_.number);
    }
    outside(const outside&) = delete;
    outside& operator=(const outside&) = delete;

   private:
    domain& domain_;
    thread& thread_;
    const unsigned nested_;
  };

  // On an image medium others see changes that are not durable yet: notes that the thread has seen the region, or
  // (nullptr) that there is none.
  static void has_seen(thread& t, const set& s, const entry* e) noexcept {
    if constexpr (M::atomic_batches) {
      // acquire: pairs with settle(): before the table shows it.
      const std::uint64_t version = (e != nullptr ? e->newest : s.newest).load(std::memory_order_acquire);
      t.position = std::max<lsn_t>(t.position, version);
    }
  }

  // ---- places that wait ----

  // Gives places back that no thread needs.  `force`: the log is emptied for that.  Called between calls of a thread.
  void collect(bool force) noexcept {
    // A set that is dropped gives its pages itself, once.
    const std::lock_guard guard{giving_};
    if (force && limbo_.newest() > log_->truncated() && !planted(plant::place_back_early)) log_->truncate();
    std::array<std::uint64_t, 64> runs;
    std::size_t n = 0;
    limbo_.collect(
        log_ == nullptr ? 0 : log_->truncated(),
        [&](const left_place& p) {
          if (p.in_class == left_place::tail) {
            pages_.release(p.offset, p.bytes >> pages_.sizes().page_shift);
            return;
          }
          set* const s = sets_[p.owner - layout::first_owner].get();
          if (p.in_class != left_place::run) {
            if (s != nullptr) s->where.put_slot(p.in_class, p.offset);
            return;
          }
          runs[n++] = p.offset;
          if (n < runs.size()) return;
          pages_.give(std::span{runs.data(), n});
          n = 0;
        },
        [](entry* e) { delete e; });
    if (n != 0) pages_.give(std::span{runs.data(), n});
  }
  // Called by a thread that is inside, and needs no entries but those that it holds.
  void reclaim(thread& t) noexcept {
    give_saved_tables();
    withdraw_tails();
    const outside here{*this, t};
    for (int i = 0; i < 2; ++i) collect(true);
  }
  // Bytes that may wait before a committer gives some back, which costs a truncation of the log and a barrier in all
  // threads: more in a large pool.
  [[nodiscard]] std::uint64_t waiting_max() const noexcept {
    constexpr std::uint64_t always = std::uint64_t{4} << 20;
    if (short_of_pages()) return always;
    return std::max(always, (pages_.sizes().capacity_pages << pages_.sizes().page_shift) / 32);
  }
  void collect_if_much_waits() noexcept {
    if (limbo_.unleased_bytes() > waiting_max()) collect(true);
  }

  // Called by committers now and then: there is something to catch up with.
  void on_behind(std::function<void()> wake) { behind_ = std::move(wake); }
  void tell_of_behind(thread& t) noexcept {
    constexpr unsigned often = 16;
    if (++t.in_place % often == 0 && behind_) behind_();
  }
  // Copies stores in place into the replicas, where no thread holds the region.
  void catch_up() noexcept { catch_up(layout::partner_kind::replica); }

  // ---- costs of this machine and medium ----

  // False: they cannot be told: a medium whose changes are batches, or no page is free.  Measures once.  A caller lets
  // one thread at a time ask.
  [[nodiscard]] bool know_costs() noexcept;
  [[nodiscard]] const write_costs& costs() const noexcept { return costs_; }
  void assume_costs(const write_costs& c) noexcept { costs_ = c; }

  // ---- pages that truncated regions do not need (tails.hpp) ----

  // Whether less than a tenth of the pool is free.
  [[nodiscard]] bool short_of_pages() const noexcept {
    return pages_.free_pages() < pages_.sizes().capacity_pages / 10;
  }
  // Called before a change of the number of regions or partners.  If several threads come at once, each clears.
  void about_to_change(set& s) noexcept {
    // acquire: pairs with the release below: the tally is gone, durably.
    if (!s.is_counted.load(std::memory_order_acquire)) return;
    clear_tally(medium_, base_, entry_at(s.index));
    s.is_counted.store(false, std::memory_order_release);
  }

  // By a thread that holds the region and is inside.  True: the region has a tail, which could not be withdrawn yet.
  bool withdraw_tail(set& s, entry& e) noexcept;
  // Withdraws the tails of all regions, if any was cut off since the last time, or was left then.  Called by a thread
  // that is inside.
  void withdraw_tails() noexcept;
  void note_cut() noexcept { cut_.store(true, std::memory_order_relaxed); }

  // Called when no thread is at work: afterwards nothing is left to recover.
  void come_to_rest() noexcept {
    if (!has_log()) return;
    catch_up(layout::partner_kind::replica);
    catch_up(layout::partner_kind::copies);
    log_->come_to_rest();
    // The second call is for generations that the first has closed.
    for (int i = 0; i < 2; ++i) collect(true);
    bool any = false;
    for (const auto& s : sets_) {
      if (s == nullptr || !s->counts_at_rest) continue;
      // The saved table of a set that has not changed is as good.
      const bool stands = s->is_counted.load(std::memory_order_relaxed) && s->saved.offset != 0;
      if (!stands) s->saved = save(*s);
      any = any || (!stands && s->saved.offset != 0);
      set_tally(medium_, base_, entry_at(s->index), {s->regions.count(), s->partners_of.count(), s->saved});
      s->is_counted.store(true, std::memory_order_relaxed);
    }
    if (any) medium_.fence(edge{"region/E22"});
  }

  void sum_up(statistics& out) const noexcept {
    for (const auto& s : sets_) out.regions += s == nullptr ? 0 : s->regions.count();
    for (const auto& t : threads_) {
      if (t == nullptr) continue;
      out.transactions += t->transactions.get();
      out.levelled += t->levelled.get();
      out.replicas_made += t->replicas_made.get();
      out.replicas_given += t->replicas_given.get();
      out.straight += t->straight.get();
      out.bytes_straight += t->bytes_straight.get();
      out.grown += t->grown.get();
      out.moved += t->moved.get();
      out.waits += t->waits.get();
      for (unsigned i = 0; i < techniques; ++i) {
        out.changes[i] += t->changes[i].get();
        out.bytes[i] += t->bytes[i].get();
      }
    }
    out.costs = {costs_.fence, costs_.line, costs_.copied_line, costs_.byte};
    out.waiting_bytes = limbo_.bytes();
    out.leases = leases_.count();
    out.waiting = turns_.count();
  }

  [[nodiscard]] M& medium() noexcept { return medium_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] region_pages& pages() noexcept { return pages_; }
  [[nodiscard]] record_log<M>& log() noexcept { return *log_; }
  // False: there is no set, or it is only looked at.
  [[nodiscard]] bool has_log() const noexcept { return log_ != nullptr; }
  [[nodiscard]] region::limbo& left() noexcept { return limbo_; }
  [[nodiscard]] region::leases& leased() noexcept { return leases_; }
  [[nodiscard]] const region::leases& leased() const noexcept { return leases_; }
  [[nodiscard]] region::turns& waiting() noexcept { return turns_; }
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] partner_stores<M> stores() noexcept { return {medium_, base_, key_}; }

 private:
  friend class outside;

  void catch_up(layout::partner_kind kind) noexcept {
    // No set comes or goes meanwhile.
    const std::lock_guard guard{giving_};
    for (const auto& s : sets_) {
      if (s == nullptr) continue;
      partners& all = s->partners_of;
      std::array<std::uint32_t, 16> some;
      for (std::uint32_t from = 1;;) {
        const std::size_t n = all.hold_behind(from, some, kind);
        if (n == 0) break;
        const std::span held{some.data(), n};
        for (const std::uint32_t i : held) stores().catch_up(all.at(i), *all.at(i).of.load(std::memory_order_relaxed));
        stores().have_caught_up();
        for (const std::uint32_t i : held) {
          partner_state& p = all.at(i);
          p.low = p.high = 0;
          p.behind.store(false, std::memory_order_relaxed);
          p.of.load(std::memory_order_relaxed)->lock.let_go();
        }
      }
    }
  }

  static void forget_entries(set& s) noexcept {
    for (unsigned i = 0; i < table::shards; ++i) {
      s.regions.for_each_of(i, [](entry* e) { delete e; });
    }
  }
  [[nodiscard]] const layout::directory& directory() const noexcept {
    return *reinterpret_cast<const layout::directory*>(base_ + directory_);
  }
  [[nodiscard]] const layout::set_entry& entry_of(unsigned i) const noexcept { return directory().entries[i]; }
  [[nodiscard]] std::uint64_t entry_at(unsigned i) const noexcept {
    return directory_ + offsetof(layout::directory, entries) + i * sizeof(layout::set_entry);
  }
  [[nodiscard]] bool is_leaving(unsigned i) const noexcept {
    return entry_of(i).state == seal_word(layout::leaving, word_seed(entry_at(i)));
  }
  void store_word(std::uint64_t at, std::uint64_t content) noexcept {
    auto* p = reinterpret_cast<std::uint64_t*>(base_ + at);
    *p = seal_word(content, word_seed(at));
    medium_.flush(p, 8);
  }
  void name_directory() noexcept {
    for (unsigned copy = 0; copy < 2; ++copy) {
      store_word(anchor_word_at(pages_.sizes(), copy, anchor_word::regions), directory_);
    }
    medium_.fence(edge{"region/E5"});
  }
  [[nodiscard]] rings place_of_rings() const noexcept {
    const layout::directory& d = directory();
    return {d.rings, d.ring_bytes, static_cast<std::uint32_t>(d.ring_count), d.key};
  }
  class finder;
  // ---- the table that a close saves (saving.hpp) ----
  [[nodiscard]] tally::table save(set& s) noexcept;
  [[nodiscard]] tally::table write_table(set& s) noexcept;
  // False: headers have to be read.  May throw std::bad_alloc.
  [[nodiscard]] bool take_saved(set& s, unsigned parts);
  // Checks that the tables have the regions that were found; tells if not.  Runs of tables that hold are named.
  void check_saved(unsigned parts, const told& tell, std::vector<std::uint64_t>& named) const;
  [[nodiscard]] const char* check_saved(const set& s, unsigned parts, std::vector<std::uint64_t>& named) const;
  // Afterwards their contents are in volatile memory, and their pages are free.
  void give_saved_tables() noexcept;
  void give_saved_table(set& s) noexcept;  // giving_ is held

  // Before anything is changed.  errc::corrupt, or told: the number differs from the tally.
  [[nodiscard]] status compare_tallies(std::span<const std::unique_ptr<finder>> all, const told* tell) const noexcept;
  [[nodiscard]] bool looks_at_caches() const noexcept { return !M::atomic_batches && !stores_survive(medium_); }
  // errc::corrupt, or told: pages belong to a set without an entry.
  [[nodiscard]] status look_for_sets(const std::vector<std::uint64_t>& unnamed, const told* tell) const noexcept;
  void copy_directory_line() noexcept;
  void write_back_names() noexcept;
  void write_back_pages(std::uint64_t first, std::uint64_t end) noexcept;
  [[nodiscard]] status make_directory() noexcept;
  [[nodiscard]] status open_log() noexcept;

  M& medium_;
  std::byte* base_;
  region_pages& pages_;
  const options options_;
  std::uint64_t directory_ = 0;  // offset
  std::uint64_t key_ = 0;
  epochs epochs_;
  region::turns turns_;
  region::leases leases_;
  region::limbo limbo_;
  std::unique_ptr<record_log<M>> log_;
  std::function<void()> behind_;
  std::mutex giving_;  // held while places are given back, and while a set comes or goes
  std::array<std::unique_ptr<set>, layout::sets_max> sets_;
  std::array<std::unique_ptr<thread>, epochs::threads_max> threads_;
  std::atomic<bool> cut_{true};  // a region may have pages that it does not need
  recovery_report report_;
  write_costs costs_;
};

template <media M>
bool domain<M>::know_costs() noexcept {
  if constexpr (M::atomic_batches) return false;
  if (costs_.fence != 0) return true;
  const geometry& g = pages_.sizes();
  // Free pages hold nothing, so they may be overwritten.
  for (std::uint64_t page = pages_.size_pages(); page-- > 0;) {
    const std::uint64_t at = g.page_offset(page);
    if (!pages_.is_free(page) || !pages_.take_free(at, 1)) continue;
    platform::memory_watch::accessible(base_ + at, cost_scratch_bytes);
    costs_ = measure_costs(medium_, base_ + at);
    pages_.release(at, 1);
    return true;
  }
  return false;
}

}  // namespace nvm::region

#include "region/domain_open.hpp"
#include "region/saving.hpp"
#include "region/tails.hpp"
