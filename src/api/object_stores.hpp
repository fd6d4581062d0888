// The object stores of an open pool in the C interface: names, attached stores, protection, stores that are being
// dropped.
//
// Local namespace (HEAPO, section II-A): attached stores by name, in a hash table.  All other stores are in the
// catalogue in the pool.
//
// Threads.  One lock, held by every call about names and attached stores, also for its transaction, so that look-ups
// read the trie in place; not while a thread waits until a commit is durable, nor from one batch of a drop to the next.
//  Lock order: this lock, then those of the engine, then that of page_guard.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "api/pool_object.hpp"
#include "api/store_collector.hpp"
#include "engine/store_side.hpp"
#include "nvm/store.h"
#include "space/store_attachment.hpp"
#include "store/store.hpp"

namespace nvm::api {
// What layers above keep for an attached store.
class store_contents : public attachment {
 public:
  // The store is about to be detached: from here on nothing of it can be opened.  errc::busy: the program has something
  // open, and the message names it.
  [[nodiscard]] virtual status shut() noexcept = 0;
  // The store stays attached after all.
  virtual void reopen() noexcept = 0;
  // Whether a thread is inside of something of it, outside of transactions.
  [[nodiscard]] virtual bool at_work() noexcept { return false; }
  // The pool is being closed, and nothing of it is used any more.  `exiting`: other threads may go on; false: one is at
  // work, or may be.
  [[nodiscard]] virtual bool close(bool /*exiting*/) noexcept { return true; }
};
enum class contents_of : std::uint8_t { key_values, structures };
inline constexpr std::size_t kinds_of_contents = 2;
// By their kinds; null: none was asked for.
using contents_of_store = std::array<std::shared_ptr<store_contents>, kinds_of_contents>;
}  // namespace nvm::api

struct nvm_store {
  nvm::api::debugger_view seen;  // first
  NVM_POOL* pool = nullptr;
  nvm::open_store* of = nullptr;  // constant; after a detach the structure may serve another store
  std::uint64_t page = 0;
  std::uint32_t number = 0;
  bool read_only = false;
  unsigned times = 0;  // attached
  std::string name;
  std::mutex leaving;                      // held by the thread that detaches it; before the lock of object_stores
  nvm::api::contents_of_store contents{};  // under the lock of object_stores
  [[nodiscard]] nvm::api::store_contents* kept(nvm::api::contents_of kind) const noexcept {
    return contents[static_cast<std::size_t>(kind)].get();
  }
  nvm::api::store_collector* collector = nullptr;  // constant
  nvm::api::local_collection local;
  std::uint64_t attachment = 0;  // constant: store_side::attachment_of()
  [[nodiscard]] nvm::store_attachment attached_as() const noexcept { return {of, attachment}; }
  unsigned for_library = 0;  // so often of `times`
  unsigned owed = 0;         // so often the library is done with it, and could not detach it yet
  [[nodiscard]] unsigned for_programs() const noexcept { return times - for_library; }
  // Whether programs have it attached, asked without the lock.  Called under it after each change.
  std::atomic<bool> for_program{false};
  void note_programs() noexcept { for_program.store(for_programs() != 0, std::memory_order_release); }
};

namespace nvm::api {

// Tells page_guard what the engine is about to look at.
class pages_keeper final : public engines::store_keeper {
 public:
  struct range {
    std::uint64_t offset, bytes;
  };
  using ranges = std::vector<range>;

  void open(std::uint64_t offset, std::uint64_t bytes, bool writes) noexcept override;
  void close(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  void freed(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  bool is_closed(std::uint64_t offset) noexcept override { return known != nullptr && known->is_closed(offset); }
  void came(std::uint64_t offset, std::uint64_t bytes) noexcept override { refer(offset, bytes, true); }
  void left(std::uint64_t offset, std::uint64_t bytes) noexcept override { refer(offset, bytes, false); }
  // In a pool with a tier pages of attached stores leave memory last.
  void refer(std::uint64_t offset, std::uint64_t bytes, bool referenced) noexcept {
    if (pool_->refer_pages != nullptr) pool_->refer_pages(*pool_, offset, bytes, referenced);
  }
  explicit pages_keeper(NVM_POOL* pool) noexcept : pool_{pool} {}

  // What this thread opens while one of these lives, and does not close, is in `opened`.
  class recording {
   public:
    // May throw std::bad_alloc.
    explicit recording(pages_keeper& of);
    ~recording() { end(); }
    recording(const recording&) = delete;
    recording& operator=(const recording&) = delete;
    void end() noexcept;
    ranges opened;

   private:
    friend class pages_keeper;
    pages_keeper* of_;
    const std::thread::id thread_ = std::this_thread::get_id();
  };
  void close_all(const ranges& opened) noexcept {
    for (const range& r : opened) close(r.offset, r.bytes);
  }

  stores::page_guard* known = nullptr;  // constant from the start on
  stores::page_guard* guard = nullptr;  // nullptr: nothing is protected; changed while nothing is attached

 private:
  // The recording of the calling thread; nullptr: it records nothing.
  [[nodiscard]] recording* mine() noexcept;
  NVM_POOL* const pool_;
  std::mutex lock_;  // a leaf
  std::vector<recording*> recordings_;
};

// A lock that counts the program's threads which wait for it: a thread that holds it for work of the library gives it
// back.
class program_lock {
 public:
  void lock() noexcept {
    // relaxed: a hint.
    callers_.fetch_add(1, std::memory_order_relaxed);
    lock_.lock();
    callers_.fetch_sub(1, std::memory_order_relaxed);
  }
  void lock_for_library() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }
  [[nodiscard]] const std::atomic<unsigned>& callers() const noexcept { return callers_; }

 private:
  std::mutex lock_;
  std::atomic<unsigned> callers_{0};
};

class object_stores {
 public:
  using taking = std::unique_lock<program_lock>;

  // The object stores of a pool; made by the first call.
  [[nodiscard]] static result<object_stores*> of(NVM_POOL* pool) noexcept;
  // Called while the pool is opened: protects pages before the program has the pool.
  [[nodiscard]] static status begin(NVM_POOL* pool) noexcept;
  // Called while the pool is closed: afterwards pages are accessible, and handles are refused.  `exiting`: other
  // threads may go on.
  static void end(NVM_POOL* pool, bool exiting) noexcept;

  [[nodiscard]] status create(const char* name, const nvm_store_options& o);
  [[nodiscard]] status drop(const char* name);
  [[nodiscard]] status rename(const char* name, const char* new_name);
  static constexpr std::uint64_t leaving_patience_ns = 1'000'000'000;
  // An attachment by the library gives programs no right.
  enum class attached_for : std::uint8_t { programs, library };
  [[nodiscard]] result<nvm_store*> attach(const char* name, unsigned flags, attached_for who = attached_for::programs);
  [[nodiscard]] status detach(nvm_store& s, attached_for who = attached_for::programs,
                              std::uint64_t patience_ns = leaving_patience_ns);
  [[nodiscard]] status stat(std::string_view name, nvm_store_info& out);
  // Up to `most` names after `after` that begin with `prefix`.
  [[nodiscard]] status names(std::string_view prefix, const std::string& after, std::size_t most,
                             std::vector<std::string>& out);
  // what(rights, who) -> status decides and changes them.
  using rights_change = status (*)(stores::rights& r, const stores::identity& who, std::uint32_t a, std::uint32_t b);
  [[nodiscard]] status change_rights(const char* name, rights_change what, std::uint32_t a, std::uint32_t b);
  [[nodiscard]] status set_quota(const char* name, std::uint64_t bytes);
  [[nodiscard]] status configure(const nvm_stores_options& o);
  [[nodiscard]] status statistics(nvm_stores_statistics& out);

  // The handle of the attached store that holds the place; nullptr: none does.
  [[nodiscard]] nvm_store* holder(std::uint64_t offset);
  [[nodiscard]] std::uint64_t attachment_at(std::uint64_t offset) noexcept {
    const open_store* const of = open_holder(offset);
    return of == nullptr ? 0 : side_->attachment_of(*of);
  }
  [[nodiscard]] store_attachment attached_holder(std::uint64_t offset) noexcept {
    for (;;) {
      open_store* const of = open_holder(offset);
      if (of == nullptr) return {};
      const std::uint64_t attachment = side_->attachment_of(*of);
      // The object may have become another store's between.
      if (open_holder(offset) == of && side_->attachment_of(*of) == attachment) return {of, attachment};
    }
  }
  [[nodiscard]] open_store* open_holder(std::uint64_t offset) noexcept {
    return side_ == nullptr ? nullptr : side_->holder(offset);
  }
  // Asked in a transaction: the store, if programs may change it by this handle.  From then on until the transaction
  // ends its pages are accessible.  Without the lock.
  [[nodiscard]] result<open_store*> for_change(const nvm_store& s) noexcept;
  // 0: the store of that number is not attached.
  [[nodiscard]] std::uint64_t attachment_of(std::uint64_t number);
  [[nodiscard]] nvm_store* by_name(std::string_view name);
  [[nodiscard]] status set_root(nvm_store& s, open_transaction& t, std::uint64_t payload);
  [[nodiscard]] result<std::uint64_t> root_of(const nvm_store& s) const noexcept;
  // The same two for the directory of the store's own key-value stores.
  [[nodiscard]] status set_key_values(nvm_store& s, open_transaction& t, std::uint64_t payload);
  [[nodiscard]] result<std::uint64_t> key_values_of(const nvm_store& s) const noexcept;
  // What is kept for the store; made by make() -> shared_ptr where there is nothing yet.  errc::invalid: it is not
  // attached.
  template <class Make>
  [[nodiscard]] result<std::shared_ptr<store_contents>> contents(nvm_store& s, contents_of kind, Make&& make) {
    const taking taken{lock_};
    if (!is_here_for(s, attached_for::programs)) return not_here(s);
    auto& place = s.contents[static_cast<std::size_t>(kind)];
    if (place == nullptr) place = make(*side_);
    return place;
  }
  // store_contents::in_use(), at_work() and close(), of all attached stores.
  [[nodiscard]] static bool contents_in_use(NVM_POOL* pool) noexcept;
  [[nodiscard]] static bool contents_at_work(NVM_POOL* pool) noexcept;
  [[nodiscard]] static bool close_contents(NVM_POOL* pool, bool exiting) noexcept;
  [[nodiscard]] result<bool> trim(nvm_store& s) {
    const taking taken{lock_};
    return is_here_for(s, attached_for::programs) ? result<bool>{side_->trim(*s.of)} : not_here(s);
  }
  // Whether the place lies in it.  Another thread may detach it: a handle's attachment stays what it was.
  [[nodiscard]] bool holds(std::uint64_t attachment, std::uint64_t offset) noexcept {
    return attachment != 0 && attachment_at(offset) == attachment;
  }

  // Between these two all pages can be read and written: for walks over the pool.
  void open_pages() noexcept {
    if (guard_ != nullptr) guard_->open_all();
  }
  void close_pages() noexcept {
    if (guard_ != nullptr) guard_->close_all();
  }

  // ---- garbage (object_stores_garbage.cpp) ----

  [[nodiscard]] store_collector& collector() noexcept { return *collector_; }
  [[nodiscard]] status collect(const char* name, bool dry_run, nvm_store_gc_report& report);
  // Stores that the library could not detach when it was done with them.  Under no lock.
  void detach_what_is_owed();
  // The thread that collects ends.  Under no lock.
  static void stop_collecting(NVM_POOL* pool) noexcept;
  // A slice of work on detached stores; false: there is none.
  [[nodiscard]] bool collect_detached(const object::collection_slice& slice) noexcept;
  [[nodiscard]] const std::atomic<unsigned>* callers() const noexcept { return &lock_.callers(); }
  // Between these two no detached store is collected, and no transaction of such a collection is open.
  void rest() noexcept {
    resting_.fetch_add(1, std::memory_order_relaxed);
    const taking slice_is_over{lock_};
  }
  void go_on() noexcept { resting_.fetch_sub(1, std::memory_order_relaxed); }

  explicit object_stores(NVM_POOL* pool) noexcept : pool_{pool}, keeper_{pool} {}

 private:
  using names_change = stores::names_transaction<open_transaction>;
  // Pages that become inaccessible when the transactions that may still write there have ended.
  struct closing {
    std::uint64_t page = 0;
    engines::left_open left{};
    pages_keeper::ranges opened{};
    bool is_new = false;  // the store was made, and has this page alone unless it was attached since
  };
  enum class wanted_catalogue : std::uint8_t { as_it_is, made };

  [[nodiscard]] status start();
  [[nodiscard]] geometry shape() const noexcept { return pool_->file->geometry(); }
  [[nodiscard]] stores::pool_bytes bytes() const noexcept;
  [[nodiscard]] const char* path() const noexcept { return pool_->file->path(); }

  // Under the lock.  One transaction: f, then the words of names.  `after`: when the transaction can no longer touch
  // them, the pages that f opened are closed, and the page that `after` names is protected; nullptr: they stay open.
  using body = std::function<status(open_transaction& t, names_change& names)>;
  [[nodiscard]] status change(const body& f, lsn_t& lsn, closing* after = nullptr);
  // `made_at`: the LSN to wait for if the catalogue was made.
  [[nodiscard]] status find_catalogue(wanted_catalogue how, unsigned burst = layout::burst_names_default,
                                      lsn_t* made_at = nullptr);
  [[nodiscard]] result<std::uint64_t> page_of(std::string_view name);
  [[nodiscard]] result<stores::rights> rights_at(std::uint64_t page, pages_keeper::ranges& opened);
  [[nodiscard]] status must_own(std::string_view name, std::uint64_t page, const char* what);
  [[nodiscard]] nvm_store* attached(std::string_view name) noexcept;
  [[nodiscard]] status not_attached(std::string_view name);
  [[nodiscard]] errc none_of(std::string_view name) const noexcept;
  [[nodiscard]] status make(const char* name, const nvm_store_options& o, lsn_t& lsn);
  [[nodiscard]] result<std::uint64_t> word_of(const nvm_store& s, std::size_t at, const char* what) const noexcept;
  template <class Set>
  [[nodiscard]] status set_word(nvm_store& s, Set&& set);
  [[nodiscard]] result<nvm_store*> attach_page(std::string_view name, std::uint64_t page, bool read_only,
                                               attachments::rights may);
  enum class ended : std::uint8_t { gone, stays, again };
  [[nodiscard]] status detach_shut(nvm_store& s, attached_for who, const contents_of_store& shut, ended& what);
  [[nodiscard]] bool is_here_for(const nvm_store& s, attached_for who) const noexcept;
  [[nodiscard]] static bool is_last_of_programs(const nvm_store& s, attached_for who) noexcept;
  [[nodiscard]] static errc not_here(const nvm_store& s) noexcept;
  // The library alone has it attached from now on.
  void take_rights(nvm_store& s) noexcept;
  template <class Ask>
  [[nodiscard]] static bool any_contents(NVM_POOL* pool, Ask&& ask) noexcept;
  void forget_closing(std::uint64_t page);
  void refer(std::uint64_t page, bool referenced) noexcept;
  void close_what_has_ended();
  // Room for all lanes is reserved.
  void find_open(engines::left_open& left) noexcept;
  // Barriers ask about changes of this store's pages from now on.
  void ask_about(std::uint64_t page) noexcept;
  void protect(std::uint64_t page, platform::page_access to) noexcept;
  void close_page(std::uint64_t page) noexcept;
  // A thread that found a page to be nobody's may be about to read it (nvm_tier_pin()); others find from now on that
  // it is a store's.
  void wait_for_pins() noexcept;
  // Pages that are open as long as it lives.
  class open_for_a_while {
   public:
    open_for_a_while(stores::page_guard* guard, pages_keeper::ranges which, bool writes) noexcept
        : guard_{guard}, which_{std::move(which)} {
      for (const pages_keeper::range& r : which_) guard_->open(r.offset, r.bytes, writes);
    }
    ~open_for_a_while() {
      for (const pages_keeper::range& r : which_) guard_->close(r.offset, r.bytes);
    }
    open_for_a_while(const open_for_a_while&) = delete;
    open_for_a_while& operator=(const open_for_a_while&) = delete;

   private:
    stores::page_guard* const guard_;
    const pages_keeper::ranges which_;
  };
  // The pages that the store had when it was closed last, and has, neighbours as one: an attach, which is going to read
  // the list of clusters, opens these by one call.  Empty: they are not known.
  [[nodiscard]] pages_keeper::ranges take_where_it_lay(std::uint64_t page) noexcept;
  static void join_neighbours(pages_keeper::ranges& all) noexcept;
  void note_where_it_lay(std::uint64_t page, pages_keeper::ranges where) noexcept;
  void protect_all() noexcept;
  void unprotect() noexcept;

  // Without the lock.  A store that cannot be freed yet is left for a later call.
  [[nodiscard]] status finish_drop(std::uint64_t page, std::string_view name, bool& left);
  [[nodiscard]] bool lacks_places();
  [[nodiscard]] status drop_batch(std::uint64_t page, bool& done, lsn_t& lsn);
  void finish_or_leave(std::uint64_t page, std::string_view name) noexcept;
  [[nodiscard]] status finish_drops();
  template <class F>
  [[nodiscard]] status take_name(F&& f, std::uint64_t& dying);
  [[nodiscard]] status wait(lsn_t lsn) const noexcept;

  // The detached store that is being collected.
  struct detached_store {
    std::uint64_t page = 0;  // 0: there is none
    open_store* of = nullptr;
    std::unique_ptr<object::beside_collection> runs;  // null: it has ended
    bool wants_trim = false;                          // after that
  };
  struct named_page {
    std::string name;
    std::uint64_t page;
  };
  // Under the lock.
  [[nodiscard]] bool fill_waiting();
  [[nodiscard]] bool waits_for_transactions(std::uint64_t page) const noexcept;
  void begin_detached(const named_page& which);
  // errc::no_memory: the store stays attached for the library, and a later call detaches it.
  status end_detached() noexcept;
  // Ends the collection of a detached store that a thread asks for.
  [[nodiscard]] status interrupt_detached(std::uint64_t page) noexcept;
  void has_changed(std::uint64_t page) noexcept {
    unchanged_.erase(page);
    any_changed_ = true;
  }

  NVM_POOL* pool_;
  program_lock lock_;
  engines::store_side* side_ = nullptr;  // nullptr: the pool is closed
  pages_keeper keeper_;
  std::unique_ptr<stores::page_guard> guard_;  // null: protection is off, or impossible
  std::optional<stores::catalogue_place> catalogue_;
  std::unordered_map<std::string, std::unique_ptr<nvm_store>> attached_;
  std::unordered_map<std::uint32_t, nvm_store*> numbers_;  // of these
  std::deque<std::unique_ptr<nvm_store>> detached_;        // handles that are refused
  static constexpr std::size_t detached_max = 256;
  std::vector<closing> closing_;
  std::unordered_map<std::uint64_t, pages_keeper::ranges> lay_at_;  // pages of stores that were closed, by store page
  static constexpr std::size_t lay_at_max = 4096;                   // stores
  std::set<std::uint64_t> being_dropped_;                           // by some thread
  bool drops_left_ = true;                                          // there may be some that a process has left

  std::unique_ptr<store_collector> collector_;
  std::atomic<bool> owes_{false};  // some attached store has `owed`, or another thread sees to it
  std::atomic<unsigned> resting_{0};
  detached_store collected_;
  std::set<std::uint64_t> unchanged_;  // pages of stores that were not attached since their collection
  bool any_changed_ = true;            // since a round began; at first, for all that this process knows
  std::vector<named_page> waiting_;    // for this round
  std::string round_at_;               // the last name that was looked at; empty: no round is on
};

// errc::system with errno `cause`: the rights do not allow it.
[[nodiscard]] errc refused(int cause, const char* what, std::string_view name, const stores::rights& r) noexcept;

// The attachment that has this place; of no store: none has.
[[nodiscard]] store_attachment store_holding(NVM_POOL* pool, std::uint64_t offset) noexcept;
// Its attachment (store_side::attachment_of()); 0: none holds it.
[[nodiscard]] std::uint64_t attachment_at(NVM_POOL* pool, std::uint64_t offset) noexcept;

// The directory of a store's own key-value stores, 0: none; and a call that makes another one, an object of the store,
// which fill(payload) writes in the same transaction.  This thread has no transaction open.
[[nodiscard]] result<std::uint64_t> key_values_of(const nvm_store& s) noexcept;
[[nodiscard]] status make_key_values(nvm_store& s, std::uint32_t type, std::uint64_t bytes,
                                     const std::function<void(std::uint64_t payload)>& fill);

// While one of these lives no transaction of the thread that collects stores is open.
class no_detached_collection {
 public:
  explicit no_detached_collection(NVM_POOL* pool) noexcept;
  ~no_detached_collection();
  no_detached_collection(const no_detached_collection&) = delete;
  no_detached_collection& operator=(const no_detached_collection&) = delete;

 private:
  std::shared_ptr<object_stores> of_;
};

// For the length of a walk over all pages of a pool.
class all_pages_open {
 public:
  explicit all_pages_open(NVM_POOL* pool) noexcept;
  ~all_pages_open();
  all_pages_open(const all_pages_open&) = delete;
  all_pages_open& operator=(const all_pages_open&) = delete;

 private:
  const no_detached_collection rest_;
  std::shared_ptr<object_stores> of_;
};

}  // namespace nvm::api
