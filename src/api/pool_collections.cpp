#include "api/pool_collections.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace nvm::api {

using collection_state = object::beside_collection::state;

std::byte* pool_collections::base() noexcept { return pool_->base(); }
nvm::geometry pool_collections::geometry() noexcept { return pool_->file->geometry(); }
unsigned pool_collections::lanes() noexcept { return pool_->engine->lanes(); }
std::uint64_t pool_collections::turns_of(unsigned lane) noexcept { return pool_->engine->turns_of(lane); }
void pool_collections::order_turns() noexcept { pool_->engine->order_turns(); }

isolation::visits pool_collections::barriers_inside() { return isolation::visits::now(&pool_->barriers); }

// What the program holds, and what it has freed without a transaction, which is to be freed once.
void pool_collections::each_held(const std::function<void(std::uint64_t)>& visit) {
  pool_->held.each(visit);
  pool_->late.each(visit);
}

result<tx::open_transaction*> pool_collections::begin() noexcept {
  if (!frees_.try_lock()) return errc::busy;
  auto t = begin_on_lane(pool_, lane_, parked_);
  if (!t) {
    parked_ = false;
    frees_.unlock();
  }
  return t;
}
// The lane is free for the program: it has not too many.
void pool_collections::ended() noexcept {
  if (std::exchange(parked_, false)) pool_->engine->give_back(lane_);
  frees_.unlock();
}

object::store_watch& watch_of(nvm_pool* pool) {
  const std::lock_guard guard{pool->watch_lock};
  if (pool->watch == nullptr) {
    pool->watch = std::make_unique<object::store_watch>(
        pool->base(), pool->file->geometry(), [pool](tx::change_watch* watch) { pool->engine->watch_changes(watch); });
  }
  return *pool->watch;
}
void tell_dropped(nvm_pool* pool, std::uint64_t payload) noexcept {
  const std::lock_guard guard{pool->watch_lock};
  if (pool->watch != nullptr) pool->watch->dropped(payload);
}

result<std::unique_ptr<object::beside_collection>> make_collection(nvm_pool* pool, object::collection_host& host,
                                                                   types_lock how, bool untyped) {
  std::unique_lock guard{pool->types_lock, std::defer_lock};
  if (how == types_lock::waited_for) {
    guard.lock();
  } else if (!guard.try_lock()) {
    return fail(errc::busy, "%s: its types are being looked at", pool->file->path());
  }
  auto plans = plans_to_follow(pool);
  if (!plans) return plans.error();
  plans->untyped_are_bytes(untyped || untyped_are_bytes(pool));
  return std::make_unique<object::beside_collection>(host, watch_of(pool), std::move(*plans));
}

status finish_collection(nvm_pool* pool, object::beside_collection& c, const char* what, unsigned frees_max,
                         const std::function<void()>& between) {
  status s;
  std::uint64_t waits_since = 0;
  collection_state now = collection_state::goes_on;
  while (now == collection_state::goes_on || now == collection_state::waits) {
    now = c.step({.ns_max = collection_slice_ns, .frees_max = frees_max});
    const std::uint64_t at = platform::monotonic_ns();
    if (now != collection_state::waits) {
      waits_since = 0;
      between();
    } else if (s = medium_is_whole(pool); !s) {
      break;
    } else if (waits_since == 0) {
      waits_since = at;
    } else if (at - waits_since > collection_patience_ns) {
      s = fail(errc::busy, "%s: found a transaction that did not end during a collection of %s", pool->file->path(),
               what);
      break;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }
  c.stop();
  if (now == collection_state::refused) {
    return refuse_undescribed(
        pool, "nobody has described the types of objects that can be reached, and what they point to is unknown",
        c.undescribed());
  }
  if (now == collection_state::failed && c.why() == errc::no_memory)
    return fail(errc::no_memory, "no volatile memory to collect %s, or too much changed meanwhile", what);
  if (now == collection_state::failed) return c.why();
  if (c.last_lsn() != 0) {
    if (status durable = pool->engine->wait(c.last_lsn()); !durable) return durable;
  }
  return s ? change_is_intact(pool) : s;
}

}  // namespace nvm::api
