// Handles of the named things of a pool: lock-free structures and sets of regions.  A name has one handle for each way
// to use it, such as with or without waiting.  A handle stays valid until the pool is closed, also after the drop.
//
// Handle: a struct of the C interface that begins with `seen, pool, of, all`, and goes on with the way to use it; `of`
//         is null once it was dropped.
// Side:   the engine's face; it has drop(name) and names(visitor, argument).
// All:    derives from named<Handle, Side>; the pool shares one with the threads that have used it.
// Threads: any; named::lock is held while handles are found, made and dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/carried_exception.hpp"
#include "api/pool_object.hpp"

namespace nvm::api {

template <class Handle, class Side, unsigned Ways = 2>
struct named {
  using handle_type = Handle;

  const std::int64_t process = platform::process_id();
  std::mutex lock;
  unsigned number = 0;          // of the pool
  std::unique_ptr<Side> side;   // null: the pool is closed
  bool closed_at_exit = false;  // the side is at rest, and stays for threads that read on
  std::map<std::string, std::unique_ptr<Handle>, std::less<>> handles[Ways];  // by name
  std::vector<std::unique_ptr<Handle>> dropped;

  // `lock` is held.
  [[nodiscard]] bool closed() const noexcept { return side == nullptr || closed_at_exit; }
};

// The effect of a call on durable data.
enum class effect : std::uint8_t {
  looks,    // answers what is durable
  changes,  // is durable on return
  begins    // becomes durable with a later call
};

// Called after a call: waits, by wait(), until it is durable.  For a handle that does not wait: checks that the medium
// has taken it.
template <effect What, class Handle, class Wait>
[[nodiscard]] status acknowledge(const Handle* handle, Wait&& wait) noexcept {
  if (handle->waits) return wait();
  const status taken = medium_is_whole(handle->pool);
  return What == effect::changes ? engines::of_what_is_done(taken) : taken;
}
// Called after that: checks that no page was lost meanwhile.
template <effect What>
[[nodiscard]] status no_page_was_lost(const NVM_POOL* pool) noexcept {
  return What == effect::looks ? intact(pool) : change_is_intact(pool);
}

// Nouns of messages.
struct words {
  const char* one;
  const char* all;
};

[[nodiscard]] inline status usable_pool(const NVM_POOL* pool) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  return pool->file->usable();
}
// errc::not_found: the thing that the handle named was dropped; another one, if the drop may not be durable.
template <class Handle>
[[nodiscard]] status usable_handle(const Handle* h, const words& w) noexcept {
  if (h == nullptr) return fail(errc::invalid, "the %s is NULL", w.one);
  if (status s = h->pool->file->usable(); !s) return s;
  if (h->of == nullptr) {
    if (status s = medium_is_whole(h->pool); !s) return s;
    return fail(errc::not_found, "the %s was dropped", w.one);
  }
  return h->pool->file->accepts_commits();
}

// The pool's `All`, kept in `place` under `lock`; made by open(all) -> result<unique_ptr<Side>> if there is none yet.
template <class All, class Open>
[[nodiscard]] result<All*> all_of(NVM_POOL* pool, std::mutex& lock, std::shared_ptr<All>& place, const words& w,
                                  Open&& open) noexcept try {
  const std::lock_guard guard{lock};
  if (pool->ending.load(std::memory_order_relaxed))
    return fail(errc::invalid, "pool %s was closed", pool->file->path());
  if (place == nullptr) {
    auto made = std::make_shared<All>();
    made->number = pool->number;
    auto side = open(*made);
    if (!side) return side.error();
    made->side = std::move(*side);
    place = std::move(made);
  }
  return place.get();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the %s of a pool", w.all);
}

// The handle of a name for one of the ways; `how`: its members about that way.  named::lock is held.
template <class All, class Of, class... How>
[[nodiscard]] auto handle_of(NVM_POOL* pool, All& all, std::string_view name, Of* of, unsigned way, std::uint64_t mark,
                             const words& w, How... how) noexcept -> result<typename All::handle_type*> try {
  using handle = typename All::handle_type;
  auto& known = all.handles[way];
  const auto at = known.find(name);
  if (at != known.end()) return at->second.get();
  auto made = std::make_unique<handle>(handle{{}, pool, of, &all, how...});
  const auto put = known.emplace(std::string{name}, std::move(made)).first;
  debugger_view& seen = put->second->seen;
  seen.mark = mark;
  seen.name = put->first.c_str();
  seen.pool = pool;
  return put->second.get();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a %s", w.one);
}

// at_rest(side), asked under the lock: whether the side may be closed.
template <class All, class AtRest>
[[nodiscard]] status drop_named(const NVM_POOL* pool, All& all, const char* name, const words& w,
                                AtRest&& at_rest) noexcept {
  const std::lock_guard guard{all.lock};
  if (all.closed()) return fail(errc::invalid, "the %s were closed", w.all);
  if (status s = at_rest(*all.side); !s) return s;
  try {
    all.dropped.reserve(all.dropped.size() + std::size(all.handles));
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to drop a %s", w.one);
  }
  // A drop that is in doubt has been done: what the handles led to is gone.
  const status done = all.side->drop(name);
  if (!done && done.error() != errc::in_doubt) return if_intact(pool, done);
  for (auto& known : all.handles) {
    const auto at = known.find(std::string_view{name});
    if (at == known.end()) continue;
    at->second->of = nullptr;
    all.dropped.push_back(std::move(at->second));
    known.erase(at);
  }
  return done ? change_is_intact(pool) : if_intact(pool, done);
}

// Calls visit(name, fact, argument) for each until it answers something else than 0, which is the result; -1: reported.
// `here`: the call, which ends before an exception of the visitor goes on.
template <class Fact, class All>
[[nodiscard]] int names_of(const NVM_POOL* pool, All& all, int (*visit)(const char*, Fact, void*), void* argument,
                           std::optional<platform::in_call>& here) {
  struct context {
    int (*visit)(const char*, Fact, void*);
    void* argument;
    carried_exception thrown;
  } c{visit, argument, {}};
  c.thrown.of(*pool->file);
  const auto answer = all.side->names(
      [](const char* name, Fact fact, void* raw) {
        auto& k = *static_cast<context*>(raw);
        return k.thrown.call([&] { return k.visit(name, fact, k.argument); }, 1);
      },
      &c);
  status whole = if_intact(pool, answer ? status{} : status{answer.error()});
  if (whole) whole = medium_is_whole(pool);
  here.reset();
  c.thrown.go_on();
  return whole ? *answer : report(whole.error());
}

}  // namespace nvm::api
