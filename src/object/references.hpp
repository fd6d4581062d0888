// Reference counts (Breeze, section IV-F): phase 1, the activation record of each commit, and phase 2, in which records
// become counts, and objects that nothing refers to are freed.
//
/// S store, F flush, | fence.  Everything here is part of ordinary transactions, whose engines number the fences.
///   commit   1. S, F record at the ring's end           | with the transaction's own data (undo/E2, redo/E2, undo/E6,
///                                                       |                                  logheap/E1)
///            2. the ring's end becomes that of the record   with the commit point: in the lane's commit record, or as
///                                                           one more word of the transaction
///   apply    3. S counts, S heads of the rings           one transaction: no record is applied twice, none is lost
///   free     4. objects freed, S record of what they referred to   one transaction
/// A record that is torn, or of a transaction that did not commit, is after its ring's end: nobody reads it, and the
/// next commit writes over it.  Recovery of the pool has nothing to do for any of this; the next process reads from
/// `head` to `end`.
//
// When an object dies.  Its count has fallen to 0, or it is 0 and the program has let it go; every transaction that was
// open when that was found has ended; all records up to then are applied; the count is still 0; the program does not
// hold it.  A count may pass through 0 when the records of two lanes are applied in another order than they were
// committed in: when the object is looked at again, the transactions that were open then have ended and their records
// are applied.  A thread that found the object before it was unlinked is in a transaction that was open, or holds it:
// that is what programs promise (docs/gc.md).
//
// A `less` that finds a count of 0 is paid by a `more` of another lane, whose record is read later: it goes back into
// the ring of the lane that settles, in the transaction that applies the others, and its object stays until it is paid.
// One that is not paid while no transaction is open and all records are applied shows that the count has drifted.
//
// Object stores.  References to their objects are not counted: a store is collected by itself, from its own root
// (docs/stores.md).  Pointers of these objects to the pool's own are.  Deletion takes a store's objects at once, and
// pointers that led into it may be left: so an open makes counts anew in a pool that has had stores (counts_go_wrong),
// and until then objects at places that were a store's do not die.
//
// Weak pointers.  An object that has died while weak pointers lead to it stays as it is, a zombie: they may be
// followed, and a program may refer to it again, which counts like any reference.  Where no transaction is open all
// objects are looked at, and weak pointers to zombies become null, by transactions whose records say so; the object
// then has died a second time, and goes like any other.  So nothing has to know where the weak pointers to an object
// are, and one look serves all zombies that there are.
//
// While no transaction is open and no record waits, all counts are exact: then an object that falls to 0 because its
// last referrer is freed is freed in the same transaction.
//
// Threads: commits of any; apply() and settle() by one at a time, the others wait.  Lock order: the lock of settling,
// then whatever transactions take.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "object/reference_changes.hpp"
#include "object/reference_host.hpp"
#include "object/reference_rings.hpp"
#include "tx/face.hpp"

namespace nvm::object {

struct reference_sums {
  std::uint64_t records = 0;       // applied
  std::uint64_t entries = 0;       // of these
  std::uint64_t transactions = 0;  // transactions that applied records, and that freed objects
  std::uint64_t freed = 0;         // objects
  std::uint64_t waiting = 0;       // objects whose count is 0 and that are not freed yet
  std::uint64_t drifted = 0;       // counts that a record would have taken below 0
  std::uint64_t damaged = 0;       // records that failed their check
  std::uint64_t mended = 0;        // counts that recount() has found wrong
  std::uint64_t cleared = 0;       // weak pointers that have become null
  lsn_t last_lsn = 0;              // of these transactions
};

// Watcher of objects that programs free though something refers to them, or free twice (checked builds).  Calls about a
// lane come from the thread that commits, calls about objects that are gone from a thread that settles.
class free_watcher {
 public:
  virtual ~free_watcher() = default;
  // A commit is about to let the object go; `strong`: references to it that are left then.
  virtual void lets_go(unsigned lane, std::uint64_t payload, std::uint64_t strong) noexcept = 0;
  virtual void ended(unsigned lane, bool committed) noexcept = 0;
  virtual void gone(std::uint64_t payload) noexcept = 0;
};

class references final : public tx::reference_log {
 public:
  enum class how : std::uint8_t {
    counts,   // records become counts; nothing is freed
    running,  // also, objects that surely have died are freed; other threads go on
    paused,   // also, weak pointers to them become null, if no transaction is open; the caller lets none begin
              // meanwhile
    at_rest   // no thread has a transaction, nor a pointer that it does not hold
  };

  // `ends(ring)`: as reference_rings.  May throw std::bad_alloc.
  template <class Ends>
  references(reference_host& host, const ring_shape& shape, Ends&& ends)
      : host_{host},
        rings_{host.base(), shape, ends},
        changes_{new reference_changes[shape.rings]},
        short_of_memory_{new std::uint8_t[shape.rings]{}} {
    unsettled_ = ring_shape::get(host.base(), shape.unsettled_at());
  }

  // Sets the types that count from now on.  May throw std::bad_alloc.
  void use(pointer_plans plans);
  // Called, in a commit, where a ring is half full.
  void on_pressure(std::function<void()> call) { pressure_ = std::move(call); }
  // Commits that let objects go count all records first.
  void watch_frees(free_watcher* watcher) noexcept { watcher_ = watcher; }

  // ---- tx::reference_log ----
  void begin(unsigned lane) noexcept override;
  void was(unsigned lane, std::uint64_t offset, std::uint64_t bytes, const std::byte* old) noexcept override;
  void becomes(unsigned lane, std::uint64_t offset, std::uint64_t bytes, const std::byte* now) noexcept override;
  void born(unsigned lane, std::uint64_t header) noexcept override;
  void freed(unsigned lane, std::uint64_t header) noexcept override;
  void let_go(unsigned lane, std::uint64_t payload) noexcept override;
  result<tx::reference_attachment> finish(unsigned lane, tx::open_transaction& t) noexcept override;
  void ended(unsigned lane, bool committed) noexcept override;

  // Applies the records of all transactions that have committed when it is called, and frees as `what` says.
  [[nodiscard]] status settle(how what) noexcept;
  // One turn of settle(), for a thread that goes on and on.
  [[nodiscard]] status round(how what) noexcept;
  // Calls hold(object) for the object around place() if it lives after all commits up to now, before it can die.
  // errc::not_found: it has died, or there is none.
  [[nodiscard]] status hold_living(const std::function<std::uint64_t()>& place,
                                   const std::function<status(const counted_object&)>& hold) noexcept;
  // Whether a record waits, or an object for its death.
  [[nodiscard]] bool anything_to_do() noexcept;

  // Whether there are zombies: objects that have died, and to which weak pointers still lead.
  [[nodiscard]] bool any_zombies();
  // Whether a process has died before it had freed all dying objects.
  [[nodiscard]] bool unsettled() const noexcept { return unsettled_ != 0; }
  // Before the first commit: counts are made anew from the pointers themselves, or, unless they are in doubt, objects
  // that were dying are found.
  [[nodiscard]] status recount() noexcept;
  [[nodiscard]] status find_dying() noexcept;
  [[nodiscard]] bool in_doubt() const noexcept { return (unsettled_ & layout::counts_in_doubt) != 0; }
  // Whether the next open makes counts anew.
  [[nodiscard]] bool is_to_recount() const noexcept {
    return (unsettled_ & (layout::counts_in_doubt | layout::counts_go_wrong)) != 0;
  }
  // Before the first page comes to an object store.
  [[nodiscard]] status lose_counts() noexcept;
  // Whether objects of the type may have references; true where nobody has described it.
  [[nodiscard]] bool may_refer(std::uint32_t type) const noexcept;

  [[nodiscard]] layout::reference_count count_of(const counted_object& o) const noexcept;
  [[nodiscard]] reference_sums sums() noexcept;

 private:
  static constexpr std::uint64_t count_at = offsetof(layout::object_header, references);
  static constexpr std::size_t entries_at_once = 4096;
  static constexpr std::size_t objects_at_once = 256;
  static constexpr std::size_t stamps_max = 16;

  // The transactions that are open at some moment.
  struct stamp {
    std::uint64_t number;
    std::vector<std::uint64_t> turns;  // of each lane that is inside; 0: it has left
    isolation::visits barriers;        // barrier transactions that are inside
    bool over_now = false;             // all of them have left
  };
  struct change {
    std::uint64_t more = 0, less = 0, more_weak = 0, less_weak = 0;
    bool let_go = false;
  };
  struct batch {  // of records that are applied together
    std::vector<std::uint64_t> entries;
    std::vector<std::uint32_t> heads;
    std::vector<std::uint64_t> long_records;
    std::vector<std::uint64_t> fallen, risen;  // payloads
    std::vector<std::uint64_t> owed;           // entries that found nothing to take
    std::uint64_t records = 0;
    std::uint64_t drifted = 0;
    bool unpaid_drifts = false;  // nothing can pay what is owed
    // There is no other record; nothing was paid, so that nothing was applied.
    bool may_be_in_vain = false, in_vain = false;
    bool in_doubt = false;
  };
  class death;  // objects freed in one transaction
  // A record of what is owed: it waits as long as its ring's head is not after `place`.
  struct debt {
    unsigned lane;
    std::uint32_t place;
    std::vector<std::uint64_t> payloads;
  };

  template <class Tell>
  void note(unsigned lane, Tell&& tell) noexcept;
  [[nodiscard]] result<tx::reference_attachment> make_record(unsigned lane, tx::open_transaction& t);
  [[nodiscard]] bool make_room(unsigned lane, std::size_t words) noexcept;
  void tell_watcher(unsigned lane, std::span<const std::uint64_t> entries) noexcept;

  [[nodiscard]] status turn(how what);
  [[nodiscard]] status apply(std::span<const std::uint32_t> cut, bool unpaid_drifts);
  [[nodiscard]] bool collect(std::span<const std::uint32_t> cut, batch& b, std::size_t entries_max);
  [[nodiscard]] status apply_batch(batch& b);
  [[nodiscard]] status apply_in_parts(batch& b);
  void applied(const batch& b, std::uint64_t unsettled);
  [[nodiscard]] bool is_owed(std::uint64_t payload) const noexcept;
  [[nodiscard]] std::vector<std::uint32_t> ends() const;
  [[nodiscard]] std::unordered_set<std::uint64_t> places_left();
  void count_entries(batch& b, std::vector<tx::assigned_bytes>& words);
  void count_object(const counted_object& o, const change& c, batch& b, std::vector<tx::assigned_bytes>& words);
  [[nodiscard]] status in_transaction(const std::function<status(tx::open_transaction&)>& body);
  [[nodiscard]] status mark_unsettled(std::uint64_t bits);

  void see_who_has_left();
  void stamp_new_ones();
  [[nodiscard]] bool nobody_inside(how what) const;
  [[nodiscard]] status free_dead(how what);
  [[nodiscard]] status apply_all(how what);
  [[nodiscard]] status clear_weak(how what);
  [[nodiscard]] status clear_weak_of(const std::vector<counted_object>& dead, how what);
  // The zombies, ascending.
  [[nodiscard]] std::vector<counted_object> zombies() const;
  [[nodiscard]] status find_weak(const std::vector<counted_object>& dead, how what, std::vector<std::uint64_t>& words,
                                 bool& whole);
  [[nodiscard]] status free_some(std::vector<std::uint64_t>& ready, bool& whole_families, how what);
  [[nodiscard]] bool is_dead(std::uint64_t payload, counted_object& o, bool& waits) const noexcept;
  [[nodiscard]] status write_counts(std::span<const tx::assigned_bytes> words);

  reference_host& host_;
  reference_rings rings_;
  std::unique_ptr<reference_changes[]> changes_;
  std::unique_ptr<std::uint8_t[]> short_of_memory_;  // of each lane: the record of its commit lacks something
  std::atomic<const pointer_plans*> plans_{nullptr};
  std::vector<std::unique_ptr<const pointer_plans>> all_plans_;  // kept, since threads may be using old ones
  std::function<void()> pressure_;
  free_watcher* watcher_ = nullptr;

  std::mutex settling_;
  std::atomic<std::thread::id> settler_{};  // the thread that holds it
  std::uint64_t unsettled_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> dying_;  // payload -> number of its stamp
  std::vector<stamp> stamps_;                               // of those that wait
  std::uint64_t next_stamp_ = 1;
  bool new_ones_ = false;
  std::vector<debt> debts_;
  std::uint32_t settling_lane_ = 0;  // the last one
  std::uint64_t revision_ = 0;       // of dying_
  reference_sums sums_;
};

}  // namespace nvm::object
