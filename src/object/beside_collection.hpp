// Collection beside transactions (HEAPO, section II-D): of one attached store from its own root, as the local
// collection is (a detached store is collected by the same, with nobody beside it); or of a whole pool.  Which of
// them says its collected_ground.
//
// It runs in small steps, by any thread, one at a time.  Garbage is freed by the collection's own transactions, on
// lanes of their own; marks are volatile, so the collection itself has nothing to do with crashes.
//
// Contract.  A volatile pointer is good until the transaction ends in which it was read, or while the object is held.
// What leads into a store from elsewhere keeps nothing.  Stores to objects are announced.
//
/// The order of things:
///   1. watch      from here on each transaction that ends tells what it has changed and what it was, which objects it
///                 allocated and freed (tx/change_watch.hpp)
///   2. wait       until all that were open have ended: all others tell.  What they have told so far is forgotten; and
///                 until all that are open now have ended: one that has told may not have done it yet
///   3. survey     allocation words are copied: these objects may become garbage.  What is freed from here on is told,
///                 and taken out; what those hold that came later is told
///   4. mark       from the roots, held objects, and all that is told
///   5. wait       until all that were open after the last mark have ended.  Told something new: 4
///   6. free       what has no mark, while nobody can tell.  Told something new: 4
///
/// Nothing that somebody can reach is freed.  Let H be what is there at the end of 3, without the changes of open
/// transactions.
///   - What H's roots lead to gets a mark.  A word that is read in 4 says what it says in H, or somebody has changed it
///     since; the first who did tells what it was in H, and has ended before 6.
///   - What H's roots do not lead to, but a transaction knew that was open then, is reached by others only if it
///     stores a pointer, which it tells; and by itself only until it ends, before 6.
///   - What was not in the survey told everything that it ever held, and is not freed.
///   - A transaction that begins later learns of objects from what it reads, which is one of these.
//
// Weak pointers keep objects here.  Objects of the library's types (key-value stores) are never garbage, and are
// followed nowhere: what they hold are places and bytes.
//
// Threads: one at a time; a store stays attached.  step() holds the ground while it looks at pages, so that none leaves
// it, and comes back at once if somebody else holds it.  It waits for nobody.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "isolation/face.hpp"
#include "object/collected_ground.hpp"
#include "object/pointer_walk.hpp"
#include "object/store_watch.hpp"
#include "object/surveyed_objects.hpp"
#include "tx/face.hpp"

namespace nvm::object {

// Pages that an attached store has.
[[nodiscard]] std::uint64_t pages_of(const open_store& store) noexcept;

// What a collection asks of its pool.
class collection_host {
 public:
  [[nodiscard]] virtual std::byte* base() noexcept = 0;
  [[nodiscard]] virtual nvm::geometry geometry() noexcept = 0;
  // Begins a transaction beside any that the thread has open; ended() is called after its end.
  [[nodiscard]] virtual result<tx::open_transaction*> begin() noexcept = 0;
  virtual void ended() noexcept {}
  // engine::turns_of(), of each lane; and the barrier transactions that are inside, which need not have one.
  // barriers_inside() may throw std::bad_alloc.
  [[nodiscard]] virtual unsigned lanes() noexcept = 0;
  [[nodiscard]] virtual std::uint64_t turns_of(unsigned lane) noexcept = 0;
  [[nodiscard]] virtual isolation::visits barriers_inside() = 0;
  virtual void order_turns() noexcept = 0;
  // Calls visit(payload) for each object that the program holds, or that others are about to free.
  virtual void each_held(const std::function<void(std::uint64_t payload)>& visit) = 0;
  [[nodiscard]] virtual std::uint64_t now_ns() noexcept = 0;

 protected:
  ~collection_host() = default;
};

// How much of a collection is done at once.
struct collection_slice {
  std::uint64_t ns_max = ~std::uint64_t{0};
  unsigned objects_max = ~0U;                          // looked at
  unsigned frees_max = 256;                            // of one transaction
  const std::atomic<unsigned>* wanted_back = nullptr;  // not 0: a thread waits
};

struct collection_sums {
  std::uint64_t objects = 0;  // of the survey
  std::uint64_t reachable_objects = 0, reachable_bytes = 0;
  std::uint64_t reachable_room = 0;  // whole slots and pages, those of the library's objects too
  std::uint64_t garbage_objects = 0, garbage_bytes = 0;
  std::uint64_t freed_objects = 0, freed_bytes = 0;
  std::uint64_t transactions = 0;
  std::uint64_t pointers = 0;          // followed, without null
  std::uint64_t stray_pointers = 0;    // of these: into what is collected, to no object of the survey
  std::uint64_t foreign_pointers = 0;  // of these: out of the pool
  std::uint64_t held_objects = 0;
  std::uint64_t damaged = 0;      // garbage whose header fails its check: left alone
  std::uint64_t pause_ns = 0;     // the longest time that the end of a transaction may have waited for the collection
  std::uint64_t marks_again = 0;  // times that it was told of more when it was about to free
};

// Garbage of one type.
struct garbage_of_type {
  std::uint64_t objects = 0, bytes = 0;
};

class beside_collection {
 public:
  enum class state : std::uint8_t {
    goes_on,  // there is more to do
    waits,    // for transactions of others to end, or for a lock
    done,
    refused,  // an object of unknown type can be reached: undescribed()
    failed    // something that was told is lost, or why() has the reason
  };
  enum class with : std::uint8_t { transactions, nobody };

  beside_collection(collection_host& host, store_watch& watch, pointer_plans plans) noexcept
      : host_{host},
        watch_{watch},
        plans_{std::move(plans)},
        base_{host.base()},
        address_bytes_{host.geometry().address_bytes()},
        objects_{base_, host.geometry()},
        types_{types_now()} {}
  ~beside_collection() { stop(); }
  beside_collection(const beside_collection&) = delete;
  beside_collection& operator=(const beside_collection&) = delete;

  // Step 1.  With nobody: no transaction is open that could know what is collected, and none learns of it before
  // stop().  `look_only`: nothing is freed.  errc::corrupt, no_memory, busy: somebody changes which pages it has.
  [[nodiscard]] status begin(std::unique_ptr<collected_ground> of, with who, bool look_only = false) noexcept;
  // Of a store.
  [[nodiscard]] status begin(open_store& store, with who, bool look_only = false) noexcept;
  // After done, refused or failed it has no effect.
  [[nodiscard]] state step(const collection_slice& slice) noexcept;
  // Its marks mean nothing from here on: a program attaches the store that it had alone, or the collection is given up.
  void stop() noexcept;

  [[nodiscard]] const collection_sums& sums() const noexcept { return sums_; }
  // It has marked all that it knows of, and looks for what has no mark.
  [[nodiscard]] bool frees() const noexcept { return phase_ == phase::free; }
  // Types and numbers of objects.
  [[nodiscard]] const std::map<std::uint32_t, std::uint64_t>& undescribed() const noexcept { return undescribed_; }
  [[nodiscard]] errc why() const noexcept { return why_; }
  // Garbage that was found, by type.
  [[nodiscard]] const std::map<std::uint32_t, garbage_of_type>& garbage() const noexcept { return garbage_types_; }
  // Newest commit of its own; 0: none.
  [[nodiscard]] lsn_t last_lsn() const noexcept { return last_lsn_; }

 private:
  enum class phase : std::uint8_t { idle, beginning, survey, mark, ending, free, over };
  static constexpr std::size_t stack_max = std::size_t{1} << 16;
  static constexpr std::uint64_t segment_bytes = 16384;  // of an object that are followed at once
  static constexpr unsigned turns_between = 16;          // looks at the clock
  static constexpr std::size_t put_off_some = std::size_t{1} << 18;
  struct grey {
    found_object object;
    std::uint64_t from;
  };
  class budget;

  [[nodiscard]] state advance(budget& left);
  [[nodiscard]] state survey(budget& left);
  [[nodiscard]] state mark(budget& left);
  [[nodiscard]] state end_marking();
  [[nodiscard]] state free_some(const collection_slice& slice);
  [[nodiscard]] state end_by(state s) noexcept;
  [[nodiscard]] state fail_by(errc why) noexcept;

  void see_who_is_open();
  [[nodiscard]] bool all_have_left() noexcept;
  [[nodiscard]] bool mark_told();
  void see_told(const told_places::place& p);
  void see_all_told();
  [[nodiscard]] std::array<std::uint64_t, 2> types_now() const noexcept;
  void put_off(const std::vector<told_places::place>& all);
  void mark_roots();
  void reach(std::uint64_t offset);
  void push(const found_object& o);
  [[nodiscard]] bool take_up_left_over();
  void follow(const grey& g);
  void value(std::uint64_t v);
  struct contents {
    std::uint64_t at, bytes;
    std::uint32_t type;
  };
  [[nodiscard]] bool contents_of(const found_object& o, contents& out) const noexcept;
  struct condemned {
    found_object object;
    std::uint64_t bytes;
    std::uint32_t type;
  };
  void condemn(const std::vector<found_object>& all);
  enum class outcome : std::uint8_t { freed, told_more, nobody_knows };
  [[nodiscard]] outcome release_all(tx::open_transaction& t);
  [[nodiscard]] state free_condemned(errc& why);

  collection_host& host_;
  store_watch& watch_;
  const pointer_plans plans_;
  const std::byte* const base_;
  const std::uint64_t address_bytes_;
  surveyed_objects objects_;
  const std::array<std::uint64_t, 2> types_;  // as they were when the plans were made
  std::unique_ptr<collected_ground> of_;
  with who_ = with::transactions;
  bool look_only_ = false;
  bool roots_told_ = false;  // transactions tell of changes of the roots of stores
  phase phase_ = phase::idle;
  state end_ = state::done;
  std::vector<std::uint64_t> root_words_;
  told_places told_;
  std::vector<told_places::place> taken_;
  std::vector<std::uint64_t> put_off_;  // told before the survey is over: offset << 1, and whether it was freed
  std::size_t put_off_once_ = 0;        // of these, from the first on: in order, each once
  std::vector<std::uint64_t> turns_;    // of lanes that are waited for; 0: not
  isolation::visits barriers_;          // waited for
  std::vector<grey> stack_;
  std::vector<std::uint64_t> left_over_;  // bits as of marks; empty: none
  std::uint64_t sweep_ = 0;               // word
  std::vector<found_object> unmarked_;
  std::vector<condemned> garbage_;
  std::map<std::uint32_t, garbage_of_type> garbage_types_;
  std::map<std::uint32_t, std::uint64_t> undescribed_;
  collection_sums sums_;
  errc why_ = errc::ok;
  lsn_t last_lsn_ = 0;
};

}  // namespace nvm::object
