// struct nvm_pool: what a NVM_POOL * points to, and the transactions that each thread has open.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "api/allowed_pages.hpp"
#include "api/attachments.hpp"
#include "api/barrier_side.hpp"
#include "api/commit_hooks.hpp"
#include "api/debugger_view.hpp"
#include "api/late_frees.hpp"
#include "api/references.hpp"
#include "api/report.hpp"
#include "api/tx_runs.hpp"
#include "engine/engine.hpp"
#include "object/holds.hpp"
#include "object/store_watch.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "store/own_links.hpp"

namespace nvm::tier {
class pool_tier;
}

namespace nvm::api {

using engines::engine;
using engines::object_facts;
using engines::open_structure;
using engines::structure_entry;
using engines::structure_side;
using lockfree::write_rule;
using lockfree::written;
using tx::open_transaction;

// What the layers above keep for a pool.
class attachment {
 public:
  virtual ~attachment() = default;
  // Whether the program has handles of it that it has not closed.
  [[nodiscard]] virtual bool in_use() noexcept = 0;
};
struct open_structures;
struct open_region_sets;
class object_stores;

// Where threads that outlive a pool, or end before it, give their lane back.
struct lane_owner {
  // In a forked child a thread of the parent may hold the lock for ever: its lanes are not the child's to give back.
  [[nodiscard]] bool of_this_process() const noexcept { return process == platform::process_id(); }

  const std::int64_t process = platform::process_id();
  std::mutex lock;
  engine* lanes = nullptr;  // nullptr: the pool is closed
};

}  // namespace nvm::api

struct nvm_pool {
  nvm_pool() noexcept : barriers{*this} {}

  nvm::api::debugger_view seen;  // first
  nvm::pool_file::pointer file;
  bool checked = false;  // NVM_CHECK is set: announced ranges are compared with the program's objects
  std::shared_ptr<nvm::tier::pool_tier> tier;  // of its cold pages; destroyed after the file
  std::unique_ptr<nvm::engines::engine> engine;
  std::shared_ptr<nvm::api::lane_owner> lanes;
  std::uint64_t open_ns = 0;            // duration of the open, recovery included
  nvm_relocation_report relocated{};    // by that open
  std::atomic<bool> relocating{false};  // by pages, in the background; it may have ended since
  std::uint64_t replayed_records = 0;   // of the ssd log, by that open
  unsigned number = 0;                  // tells pools at one address apart in time
  std::uint32_t types = 0;              // enum nvm_types
  bool untyped_are_bytes = false;       // what the program says, of this pool in this process
  std::mutex types_lock;                // held while the pool's type map is read or replaced
  std::atomic<unsigned> types_seen{0};  // generation of the program's types that the pool has
  // The program's types that the open has compared with the pool's, until fields are reset; types_lock.
  std::shared_ptr<const nvm::object::owned_type_map> compared;
  bool opened = false;             // its handle is known to the program
  bool statics_are_right = false;  // static pointers lead into this process, as far as types_seen; types_lock
  std::mutex stores_lock;
  std::shared_ptr<nvm::api::attachment> stores;  // key-value stores; null: none was asked for
  std::mutex structures_lock;
  std::shared_ptr<nvm::api::open_structures> structures;  // lock-free ones; null: none was asked for
  std::mutex regions_lock;
  std::shared_ptr<nvm::api::open_region_sets> regions;  // null: none was asked for
  bool stores_can_be_protected = false;  // no thread looks at pages of a store that is not attached, unless the program
                                         // asks for it
  // Tells the tier whether pages are of something in use (nvm_tier_refer()); nullptr: there is none.
  void (*refer_pages)(nvm_pool& pool, std::uint64_t offset, std::uint64_t bytes, bool referenced) noexcept = nullptr;
  nvm::api::allowed_pages accessible_pages;  // but those of stores that are not attached, where they are protected
  nvm::api::allowed_pages changeable_pages;  // but those of stores that programs have not attached for change
  nvm::stores::own_links own_links;
  nvm::api::attachments attachments;
  std::mutex object_stores_lock;
  std::shared_ptr<nvm::api::object_stores> object_stores;  // null: there are none, and none was asked for
  nvm::api::waiting_hooks waiting;
  nvm::api::late_frees late;
  nvm::api::barrier_side barriers;
  // Set when the process ends and the pool is being closed.  Dekker's handshake between the thread that ends the
  // process and those that begin transactions (its barrier is one in all threads; where there is none, the pool is not
  // closed):
  //   begin  S a lane is in use; compiler barrier; L ending
  //   exit   S ending; fence_all_threads(); L lanes in use
  // Either exit finds the transaction, and waits for it, or the transaction finds that it must not begin.
  std::atomic<bool> ending{false};
  // While it is set transactions of the program wait before they begin, with the same handshake as above.
  std::atomic<bool> paused{false};
  std::mutex pausing;                                     // held meanwhile
  nvm_pool* closed_after = nullptr;                       // in the list of closed pools: the one that was closed next
  nvm::object::holds held;                                // by volatile pointers (nvm_hold)
  std::unique_ptr<nvm::api::pool_references> references;  // null: they are not counted
  std::mutex collecting;                                  // held by the thread that collects garbage
  std::mutex watch_lock;
  // Inner levels that transactions have rolled back, of lanes of one remainder together.
  std::atomic<std::uint64_t> levels_aborted[64] = {};
  std::unique_ptr<nvm::object::store_watch> watch;  // of collections beside transactions; null: there was none

  [[nodiscard]] std::byte* base() const noexcept { return file->base(); }
};

namespace nvm::api {

// Whether objects of unknown type are bytes, by what the pool or the program says.
[[nodiscard]] inline bool untyped_are_bytes(const nvm_pool* pool) noexcept {
  return pool->untyped_are_bytes || pool->file->has_compatible_feature(layout::feature_untyped_bytes);
}

// Lost pages (platform/lost_pages.hpp).  A call is `in_call` from its begin to its end.  Before it answers, and before
// it hands on or acts on what it has read, it asks:
//
// errc::io: what the call has read may be zeros in place of pages of this pool, or of memory that it was given.
[[nodiscard]] status intact_slowly(const nvm_pool* pool) noexcept;
[[nodiscard]] inline status intact(const nvm_pool* pool) noexcept {
  if (!platform::any_lost()) [[likely]]
    return {};
  return intact_slowly(pool);
}
// The outcome `s` of an operation in the pool, or errc::io if that cannot be believed.
[[nodiscard]] inline status if_intact(const nvm_pool* pool, const status& s) noexcept {
  if (!platform::any_lost()) [[likely]]
    return s;
  const status whole = intact_slowly(pool);
  return whole ? s : whole;
}
// After the medium took a change.  errc::in_doubt: pages were lost.
[[nodiscard]] status change_is_intact_slowly(const nvm_pool* pool) noexcept;
[[nodiscard]] inline status change_is_intact(const nvm_pool* pool) noexcept {
  if (!platform::any_lost()) [[likely]]
    return {};
  return change_is_intact_slowly(pool);
}
// A medium that has failed gives no answers, and changes there are lost: errc::io after a write or a sync of the pool
// has failed, that of a growth included.  Cost: a load.
[[nodiscard]] inline status medium_is_whole(const nvm_pool* pool) noexcept { return pool->engine->wait(0); }
// errc::bad_pointer: a page of these bytes of the pool cannot be accessed, since the object store that has it is not
// attached.  Cost: two loads where no store was ever closed.
[[nodiscard]] errc closed_bytes(const nvm_pool& pool, const void* p, std::size_t n) noexcept;
[[nodiscard]] inline status accessible(nvm_pool& pool, const void* p, std::size_t n) noexcept {
  const std::uint64_t offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - pool.base());
  if (pool.accessible_pages.all_of(offset, n)) [[likely]]
    return {};
  return closed_bytes(pool, p, n);
}
// The same of an address that may be anything.
[[nodiscard]] status accessible_slowly(const void* p, std::size_t n) noexcept;
[[nodiscard]] inline status accessible(const void* p, std::size_t n) noexcept {
  if (!platform::in_window(p)) [[likely]]
    return {};
  return accessible_slowly(p, n);
}
// Asked before a call announces or changes bytes of a pool for the program.  errc::bad_pointer: they are in an object
// store that is not attached; read_only: in one that is attached read-only; whether pages are protected or not.  Cost:
// a load where no store was ever closed.
[[nodiscard]] errc refuse_change(nvm_pool& pool, std::uint64_t offset, std::uint64_t bytes) noexcept;
[[nodiscard]] inline status admits_change(nvm_pool& pool, std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (pool.changeable_pages.all_of(offset, bytes)) [[likely]]
    return {};
  return refuse_change(pool, offset, bytes);
}
// What programs may do with the page of a place; changes: also with one that is no store's.
[[nodiscard]] attachments::rights rights_at(nvm_pool& pool, std::uint64_t offset) noexcept;
// Checks that bytes of the program are there that a call is about to copy, and that may lie in a pool.
[[nodiscard]] status readable_slowly(const void* p, std::size_t n) noexcept;
[[nodiscard]] inline status readable(const void* p, std::size_t n) noexcept {
  if (!platform::in_window(p)) [[likely]]
    return {};
  return readable_slowly(p, n);
}

// A transaction that this thread has open.
struct entry {
  nvm_pool* pool = nullptr;
  open_transaction* transaction = nullptr;
  std::uintptr_t base = 0;
  std::uint64_t capacity = 0;  // bytes from base that belong to the pool
};

// This thread's transactions.  At the end of a thread those still open are rolled back.  They lie in allocated memory,
// since the memory of a thread itself is scarce (base/result.cpp); a thread that could not get any, or is ending, finds
// an object of no thread, which takes no transaction.
class thread_transactions {
 public:
  [[nodiscard]] static thread_transactions& mine() noexcept { return known_ != nullptr ? *known_ : make_mine(); }
  // The thread's transactions; null if it never had any.
  [[nodiscard]] static const thread_transactions* known() noexcept { return known_; }
  ~thread_transactions();

  [[nodiscard]] entry* in(const nvm_pool* pool) noexcept;
  [[nodiscard]] entry* around(const void* p) noexcept;
  // May throw std::bad_alloc.
  void add(const entry& e) { open_.push_back(e); }
  // Fails for the object of no thread.
  [[nodiscard]] status takes_transactions() const noexcept;
  void remove(const nvm_pool* pool) noexcept;
  [[nodiscard]] const std::vector<entry>& open() const noexcept { return open_; }
  // The pool from which nvm_malloc() takes memory; NULL: the ordinary heap.  Set only where takes_transactions().
  [[nodiscard]] nvm_pool* scope() const noexcept { return scope_; }
  void set_scope(nvm_pool* pool) noexcept { scope_ = pool; }
  // Its runs of nvm_tx_run().
  [[nodiscard]] tx_runs& runs() noexcept { return runs_; }
  // Transactions of this thread that have ended.
  [[nodiscard]] std::uint64_t ended() const noexcept { return ended_; }

  // The lane that this thread used last in a pool.
  struct known_lane {
    unsigned pool = 0;  // its number
    unsigned lane = 0;
    bool parked = false;  // the lane stays this thread's until it gives it back
    std::shared_ptr<lane_owner> owner;
  };
  // In a pool that the thread has not used yet: any lane, threads spread over them.  May throw std::bad_alloc.
  [[nodiscard]] known_lane& lane_in(const nvm_pool* pool);
  // Room for a list of ranges, until the next call.  May throw std::bad_alloc.
  [[nodiscard]] log::byte_range* room_for(std::size_t count);

 private:
  thread_transactions() noexcept = default;
  static thread_transactions of_no_thread;
  [[nodiscard]] static thread_transactions& make_mine() noexcept;
  known_lane& first_lane_in(const nvm_pool* pool);
  void end_all() noexcept;
  std::vector<entry> open_;
  std::uint64_t ended_ = 0;
  nvm_pool* scope_ = nullptr;
  tx_runs runs_;
  std::vector<known_lane> lanes_;
  std::vector<log::byte_range> ranges_;
  // Null before the object was made: a plain pointer is read without the check of a thread-local object.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit thread_transactions* known_;
};

// The program is about to drop what it held, or frees it without a transaction.
void tell_dropped(nvm_pool* pool, std::uint64_t payload) noexcept;
// Frees the object with this payload, as the program knows it, when the transaction commits.
[[nodiscard]] status let_go_at(const nvm_pool* pool, open_transaction& t, std::uint64_t payload) noexcept;
// Frees objects that threads without a transaction have left, in this transaction, which commits next.  Returns them:
// if the commit fails, they go back.
[[nodiscard]] std::vector<late_frees::object> take_late_frees(const entry& e) noexcept;
// The same in a transaction of its own, if one can be begun; this thread has none open.
void free_some_late(nvm_pool* pool) noexcept;
// No transaction is open in the pool, and none begins.
void free_all_late(nvm_pool* pool) noexcept;

// Begins the outermost transaction of this thread in a pool where it has none.
[[nodiscard]] status begin_transaction(nvm_pool* pool, thread_transactions& mine) noexcept;

// Begins the engine's transaction; refuses while the process ends.
[[nodiscard]] result<open_transaction*> begin_on_lane(nvm_pool* pool, unsigned& lane, bool& parked) noexcept;

// Compares types that the program has and the pool lacks, and writes them.
[[nodiscard]] status update_types(nvm_pool* pool) noexcept;
[[nodiscard]] inline bool has_types(const nvm_pool* pool) noexcept {
  // relaxed: a thread that loads a library has done so before it uses the library's types.
  return pool->types_seen.load(std::memory_order_relaxed) == object::type_registry::generation();
}
// Relocates a pool that was opened at an address that its stored pointers do not all assume, as `how`, an enum
// nvm_relocation, says; before any thread sees an object.
[[nodiscard]] status relocate_if_needed(nvm_pool* pool, std::uint32_t how) noexcept;
// Makes static pointers lead into this process, before any thread sees an object.
[[nodiscard]] status put_statics_right(nvm_pool* pool) noexcept;
// Adds names that the program has got since; types_lock is held.  errc::address: fields may lead elsewhere.  May throw
// std::bad_alloc.
[[nodiscard]] status add_statics(nvm_pool* pool);
// Zeroes the fields that are NVM_RESET, before any thread sees an object.  Nothing where no type has one.
[[nodiscard]] status reset_fields(nvm_pool* pool) noexcept;
// What the relocation has done so far; a lazy one goes on in the background.
[[nodiscard]] nvm_relocation_report relocation_of(nvm_pool* pool) noexcept;
// The plans of a pool's types, for callers that follow pointers; types_lock is held.  errc::type_mismatch: the program
// opened it with NVM_TYPES_IGNORE, and its layouts differ.  May throw std::bad_alloc.
[[nodiscard]] result<object::pointer_plans> plans_to_follow(nvm_pool* pool);
// errc::type_mismatch, with the pool, `why`, and some of these types with their numbers of objects.  May throw
// std::bad_alloc.
[[nodiscard]] status refuse_undescribed(const nvm_pool* pool, const char* why,
                                        const std::map<std::uint32_t, std::uint64_t>& types);

[[nodiscard]] inline status bring_types(nvm_pool* pool) noexcept {
  return has_types(pool) ? status{} : update_types(pool);
}

// What is done with ranges of pools in which this thread has no transaction.
enum class outside_of_transactions { refused, left_out };

// Translates ranges into offsets and hands them on, all ranges of one pool at once: one fence for them.
status announce(const nvm_range* ranges, std::size_t count, outside_of_transactions what) noexcept;

// Called before an object with more than natural alignment is made.
[[nodiscard]] status admit_alignment(nvm_pool* pool) noexcept;

// errc::busy if a thread is at work in a lock-free structure of the pool.
[[nodiscard]] status structures_at_rest(nvm_pool* pool) noexcept;
// As close_structures(), unless threads besides this one, which may be at work, have ever used one.
[[nodiscard]] bool close_structures_unless_shared(nvm_pool* pool) noexcept;
// The lock-free structures of a pool that is being closed come to rest.  Their handles stay with the pool's.
void close_structures(nvm_pool* pool) noexcept;

// The same three for regions: errc::busy if a transaction of regions is open.
[[nodiscard]] status regions_at_rest(nvm_pool* pool) noexcept;
[[nodiscard]] bool close_regions_unless_shared(nvm_pool* pool) noexcept;
void close_regions(nvm_pool* pool) noexcept;

// A call of announced stores where this thread has a barrier transaction open: it fails, and that transaction can only
// be rolled back.  `instead`: the call that belongs there.
[[nodiscard]] status not_in_barriers(const char* call, const char* instead) noexcept;
// A call that begins a barrier transaction where this thread has transactions of announced stores open, of any pool: it
// fails, and these can only be rolled back.
[[nodiscard]] status not_in_announced() noexcept;
// The same in either kind of transaction, for calls that take effect at once and that a rollback would not take back.
[[nodiscard]] status not_in_transaction(const NVM_POOL* pool, const char* call) noexcept;

// nvm_pool::refer_pages of pools with a second file.
void tell_tier(nvm_pool& pool, std::uint64_t offset, std::uint64_t bytes, bool referenced) noexcept;

// Rolls an inner level back, hooks included.
void abort_one_level(const entry& e) noexcept;
// Rolls back all levels that this thread has open in the pool, hooks included.
void abort_all_levels(const entry& e) noexcept;

// One transaction of the library, durable when this returns; this thread has none there.
template <class Body>
[[nodiscard]] status in_own_transaction(nvm_pool* pool, Body&& body) {
  thread_transactions& mine = thread_transactions::mine();
  if (status s = begin_transaction(pool, mine); !s) return s;
  const entry e = *mine.in(pool);
  if (status s = body(*e.transaction); !s) {
    abort_all_levels(e);
    return s;
  }
  std::vector<tx::hook> hooks;
  const auto lsn = e.transaction->commit(hooks);
  mine.remove(pool);
  if (!lsn) return lsn.error();
  return *lsn == 0 ? status{} : pool->engine->wait(*lsn);
}

}  // namespace nvm::api
