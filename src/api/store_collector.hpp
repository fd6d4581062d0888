// Collections of the object stores of an open pool: of attached ones in the threads that allocate there (local), of
// detached ones in a thread of the library (separated), as in HEAPO, section II-D; and those that the program asks for.
//
// Threads.  Any.  Lock order: the lock of object_stores, then that of a store's local collection, then open_store's,
// then that of the watch, then those of the engine.  A thread that allocates tries locks and waits for none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "api/pool_collections.hpp"
#include "nvm/store.h"

struct nvm_store;

namespace nvm::api {

class object_stores;

// What an attached store keeps of its local collection.
struct local_collection {
  std::mutex lock;
  bool ended = false;                               // under the lock: the store is being detached, or was
  std::unique_ptr<object::beside_collection> runs;  // null: none does
  std::atomic<bool> active{false};                  // a hint
  std::atomic<std::uint64_t> pages_seen{0};
  std::atomic<std::uint64_t> bytes_left{0};  // after the last one, whole slots and pages; 0: there was none
  std::atomic<bool> refused{false};
};

class store_collector final : public pool_collections {
 public:
  // May throw std::bad_alloc.
  store_collector(nvm_pool* pool, object_stores& stores);
  ~store_collector() { stop(); }
  store_collector(const store_collector&) = delete;
  store_collector& operator=(const store_collector&) = delete;

  [[nodiscard]] status configure(const nvm_stores_options& o);
  // The thread ends, if there is one.  Under no lock.
  void stop() noexcept;
  void statistics(nvm_collection_statistics& out) noexcept;

  // ---- local ----

  [[nodiscard]] bool locally() const noexcept { return local_.load(std::memory_order_relaxed); }
  // An allocation in the store is about to be made, and has been.
  void before_allocation(nvm_store& s) noexcept;
  void after_allocation(nvm_store& s, errc outcome) noexcept;
  // Called when the store is being detached: none begins after that; and when it stays attached after all.
  void end_local(nvm_store& s) noexcept;
  void go_on_locally(nvm_store& s) noexcept;

  // ---- asked for ----

  // By one that make() made; `store` stays attached.  May throw std::bad_alloc.
  [[nodiscard]] status collect_now(object::beside_collection& c, open_store& store, bool dry_run,
                                   nvm_store_gc_report& report);

  // ---- detached ----

  // Whether stores may be collected that are not attached; constant while the lock of object_stores is held.
  [[nodiscard]] bool detached() const noexcept { return detached_.load(std::memory_order_relaxed); }
  // A slice of the collection of a store; `counts` of whom.
  [[nodiscard]] object::beside_collection::state slice(object::beside_collection& c, nvm_collection_counts& counts,
                                                       const object::collection_slice& s) noexcept;
  // As make_collection().
  [[nodiscard]] result<std::unique_ptr<object::beside_collection>> make(types_lock how) {
    return make_collection(pool_, *this, how, false);
  }
  // What one that has ended was worth.
  void account(const object::beside_collection& c, object::beside_collection::state end,
               nvm_collection_counts& counts) noexcept;
  [[nodiscard]] nvm_collection_counts& detached_counts() noexcept { return sums_.detached; }
  void count_begun() noexcept;
  void count_interrupted() noexcept;

 private:
  void begin_local(nvm_store& s, local_collection& l) noexcept;
  void run() noexcept;
  [[nodiscard]] bool machine_is_busy() const noexcept;
  [[nodiscard]] status start_thread() noexcept;
  [[nodiscard]] bool stopped_within(std::uint64_t ns);

  object_stores& stores_;
  std::atomic<bool> local_{false};
  std::atomic<bool> detached_{false};
  std::atomic<std::uint32_t> grown_percent_{50};
  std::atomic<std::uint32_t> period_ms_{5000};
  std::atomic<std::uint32_t> load_percent_{50};

  std::mutex counting_;  // a leaf
  nvm_collection_statistics sums_{};

  std::mutex lock_;
  std::condition_variable woken_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nvm::api
