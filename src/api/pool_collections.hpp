// What collections beside transactions ask of an open pool (object/beside_collection.hpp), of its stores and of all of
// it; and who tells them what transactions change.
//
// Threads.  One at a time begins a transaction through one of these; all else: any.
#pragma once

#include <cstdint>
#include <mutex>

#include "api/pool_object.hpp"
#include "object/beside_collection.hpp"

namespace nvm::api {

class pool_collections : public object::collection_host {
 public:
  explicit pool_collections(nvm_pool* pool) noexcept : pool_{pool} {}

  std::byte* base() noexcept override;
  nvm::geometry geometry() noexcept override;
  result<tx::open_transaction*> begin() noexcept override;
  void ended() noexcept override;
  unsigned lanes() noexcept override;
  std::uint64_t turns_of(unsigned lane) noexcept override;
  isolation::visits barriers_inside() override;
  void order_turns() noexcept override;
  void each_held(const std::function<void(std::uint64_t payload)>& visit) override;
  std::uint64_t now_ns() noexcept override { return platform::monotonic_ns(); }

 protected:
  nvm_pool* const pool_;

 private:
  std::mutex frees_;  // of the thread that has the lane
  unsigned lane_ = 0;
  bool parked_ = false;
};

// The one of a pool, made when it is asked for.  May throw std::bad_alloc.
[[nodiscard]] object::store_watch& watch_of(nvm_pool* pool);

// A collection of the pool, or of a store, that has not begun.  A thread that waits for the lock of types holds none
// of those that collections of stores take.  errc::busy: it is held.  May throw std::bad_alloc.
enum class types_lock : std::uint8_t { waited_for, tried };
[[nodiscard]] result<std::unique_ptr<object::beside_collection>> make_collection(nvm_pool* pool,
                                                                                 object::collection_host& host,
                                                                                 types_lock how, bool untyped);

// How long a call waits for transactions of others to end.
inline constexpr std::uint64_t collection_patience_ns = 1'000'000'000;
// The longest that a call looks at once.
inline constexpr std::uint64_t collection_slice_ns = 200'000;

// Goes on with a collection that has begun until it is over, and stops it.  between() is called after each slice.
// errc::busy: a transaction of another thread has not ended for as long as calls wait; errc::type_mismatch, no_memory,
// or why it has failed.  What was freed is durable.  May throw std::bad_alloc.
[[nodiscard]] status finish_collection(nvm_pool* pool, object::beside_collection& c, const char* what,
                                       unsigned frees_max, const std::function<void()>& between);

}  // namespace nvm::api
