// Reference counts of an open pool: its rings, the thread in which records become counts, and what other calls ask.
//
// Lock order: the gate of the thread, or being the one barrier transaction that runs and then the pool's pause; then
// the lock of settling (object/references.hpp).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "api/checked_frees.hpp"
#include "object/references.hpp"

struct nvm_pool;

namespace nvm::api {

class pool_references final : public object::reference_host {
 public:
  explicit pool_references(nvm_pool* pool) noexcept : pool_{pool} {}
  ~pool_references() override { stop(); }
  pool_references(const pool_references&) = delete;
  pool_references& operator=(const pool_references&) = delete;

  // Begins counting, in a pool that no thread uses yet.  May throw std::bad_alloc.
  [[nodiscard]] status start(bool background);
  // The pool's types have changed.  May throw std::bad_alloc.
  [[nodiscard]] status learn_types();
  // The thread ends, if there is one.
  void stop() noexcept;
  // The pool is being closed: dead objects are freed, and the lane is given back.
  void finish() noexcept;

  [[nodiscard]] object::references& counts() noexcept { return *counts_; }
  // While it is held, the thread has no transaction open.
  [[nodiscard]] std::unique_lock<std::mutex> hold_thread() noexcept { return std::unique_lock{gate_}; }
  // Checked builds: the wrong frees.
  [[nodiscard]] checked_frees& frees() noexcept { return frees_; }
  [[nodiscard]] bool in_background() const noexcept { return thread_.joinable(); }

  // ---- object::reference_host ----
  std::byte* base() noexcept override;
  nvm::geometry geometry() noexcept override;
  object::counted_object around_own(std::uint64_t place) noexcept override;
  bool is_counted(std::uint64_t place) noexcept override;
  bool has_stores() noexcept override;
  object::counted_object around(std::uint64_t place) noexcept override;
  status each(const std::function<bool(const object::counted_object&)>& visit) noexcept override;
  result<std::uint64_t> root() noexcept override;
  result<tx::open_transaction*> begin() noexcept override;
  unsigned lanes() noexcept override;
  std::uint64_t turns_of(unsigned lane) noexcept override;
  isolation::visits barriers_inside() override;
  bool can_order_all() noexcept override;
  void order_all() noexcept override;
  bool held(std::uint64_t payload) noexcept override;

 private:
  [[nodiscard]] result<object::ring_shape> make_rings(std::uint64_t old);
  [[nodiscard]] status expect_described(bool counted_before);
  [[nodiscard]] status keep_lane() noexcept;
  [[nodiscard]] bool start_thread() noexcept;
  void run() noexcept;

  nvm_pool* pool_;
  std::unique_ptr<object::references> counts_;
  checked_frees frees_;
  unsigned lane_ = 0;  // of the threads that settle
  bool parked_ = false;
  std::mutex gate_;
  std::mutex lock_;
  std::condition_variable woken_;
  bool stopping_ = false;
  bool wanted_ = false;
  std::thread thread_;
};

// Begins counting in a pool that was opened with this nvm_pool_options.collect.
[[nodiscard]] status start_references(nvm_pool* pool, std::uint32_t collect) noexcept;
// The object around a place has no counts: an object store has its page, or had it in this process, or nothing is
// counted.
[[nodiscard]] bool has_no_counts(const nvm_pool& pool, std::uint64_t place) noexcept;
// Zeroes new memory whose words a commit would take for references before the program has stored there.
void clear_new(const nvm_pool& pool, std::uint32_t type, void* p, std::size_t bytes) noexcept;
// Before a page comes to an object store: what stores have had is not counted rightly until an open makes counts anew.
[[nodiscard]] status lose_counts(const nvm_pool& pool) noexcept;
// For a pool whose references are counted in a checked build: notes that the program frees the object by this call, if
// its transaction commits; outside of transactions it reports the mistakes of those that have committed.  May throw
// what a handler throws.
void freeing(nvm_pool* pool, const void* object, const void* caller) noexcept;
void tell_wrong_frees(nvm_pool* pool);
// Transactions that the program has open.
[[nodiscard]] unsigned open_transactions(nvm_pool* pool) noexcept;

}  // namespace nvm::api
