// Frees of threads that have no transaction: taken over by the commits of others (late_frees.hpp).
#include "api/late_frees.hpp"

#include <algorithm>

#include "api/misuse.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"

namespace nvm::api {
namespace {

// So that a commit does not become long.
constexpr std::size_t late_frees_per_commit = 1024;
constexpr std::uint64_t log_bytes_of_free = 64;  // at most, with what it is rounded to

// Frees what other threads have left, as far as it may be freed, in this thread's transaction, whose commit comes next.
status free_these(const entry& e, std::vector<late_frees::object>& objects) noexcept {
  if (status s = e.transaction->begin(); !s) return s;
  const auto may = [&](const late_frees::object& o) { return attachment_at(e.pool, o.payload) == o.attachment; };
  // Such an object would be refused again at every commit, and all that wait with it.
  const auto refused = [](const status& s) { return s.error() == errc::bad_pointer || s.error() == errc::read_only; };
  for (const late_frees::object& o : objects) {
    if (!may(o)) continue;
    status s = let_go_at(e.pool, *e.transaction, o.payload);
    if (!may(o)) {
      if (!s && refused(s)) continue;
      // It was detached, and perhaps attached again: whose object was freed is not known.
      s = fail(errc::busy, "the store of an object was detached while the object was freed");
    }
    if (s) continue;
    if (refused(s)) {
      report(s.error());
      misused(s.error(), e.pool->base() + o.payload, nullptr);
      continue;
    }
    abort_one_level(e);
    return s;
  }
  return e.transaction->commit_level();
}

}  // namespace

status let_go_at(const NVM_POOL* pool, open_transaction& t, std::uint64_t payload) noexcept {
  // Nothing counts what refers to an object of an object store.
  const bool counted = !has_no_counts(*pool, payload);
  const auto let_go = [&](std::uint64_t at) { return counted ? t.let_go(at) : t.release(at); };
  const status freed = let_go(payload);
  if (freed || freed.error() != errc::bad_pointer) return freed;
  const std::uint64_t plain =
      tx::engines_payload(pool->base(), pool->file->geometry().objects_offset(), payload,
                          [&](std::uint64_t place) { return pool->barriers.may_be_aligned(place); });
  return plain == 0 ? freed : let_go(plain);
}

std::vector<late_frees::object> take_late_frees(const entry& e) noexcept {
  late_frees& late = e.pool->late;
  std::vector<late_frees::object> taken;
  // No more than the log has room for beside what the transaction has stored.
  std::size_t most = late_frees_per_commit;
  if (const tx::log_room r = e.transaction->room(); r.most != 0)
    most = std::min<std::size_t>(most, (r.most - std::min(r.used, r.most)) / log_bytes_of_free);
  if (most == 0) return {};
  try {
    taken = late.take(*e.pool->engine, e.transaction->lane(), most);
  } catch (const std::bad_alloc&) {
    return {};
  }
  if (taken.empty() || free_these(e, taken)) return taken;
  late.put_back(std::move(taken));
  return {};
}

// This thread has no transaction in the pool, and may begin one.
void free_some_late(NVM_POOL* pool) noexcept {
  thread_transactions& mine = thread_transactions::mine();
  if (!begin_transaction(pool, mine)) return;
  const entry e = *mine.in(pool);
  std::vector<late_frees::object> freed = take_late_frees(e);
  std::vector<tx::hook> none;
  const auto lsn = e.transaction->commit(none);
  mine.remove(pool);
  if (!lsn) pool->late.put_back(std::move(freed));
}

void free_all_late(NVM_POOL* pool) noexcept {
  for (std::size_t before = pool->late.waiting(); before != 0;) {
    free_some_late(pool);
    const std::size_t now = pool->late.waiting();
    if (now >= before) return;
    before = now;
  }
}

}  // namespace nvm::api
