// Regions of the C interface: sets, and calls about one region.
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <new>
#include <optional>
#include <string>

#include "api/carried_exception.hpp"
#include "api/open_regions.hpp"
#include "base/given_options.hpp"
#include "nvm/stm.h"

namespace nvm::api {
namespace {

class parts_of_thread {
 public:
  ~parts_of_thread() {
    const platform::in_call here;
    for (part_of_thread& p : all_) {
      // In a forked child a thread of the parent may hold the lock for ever.
      if (p.of->process != platform::process_id()) {
        for (auto& g : p.groups) {
          (void)g->change.release();
          g->place.go_on();
        }
        continue;
      }
      const std::lock_guard guard{p.of->lock};
      for (auto& g : p.groups) {
        if (p.of->side == nullptr) (void)g->change.release();
        g->change.reset();
        g->place.go_on();
      }
      if (p.of->side != nullptr) leave_place(p.place, [&](unsigned number) { p.of->side->leave(number); });
    }
  }
  [[nodiscard]] result<part_of_thread*> in(const NVM_POOL* pool) noexcept try {
    for (part_of_thread& p : all_) {
      if (p.pool == pool->number) return &p;
    }
    // Closed pools are forgotten.
    all_.remove_if([](const part_of_thread& p) {
      if (has_open_group(p) || p.of->process != platform::process_id()) return false;
      const std::lock_guard guard{p.of->lock};
      return p.of->side == nullptr;
    });
    const std::lock_guard guard{pool->regions->lock};
    if (pool->regions->closed()) return fail(errc::invalid, "pool %s was closed", pool->file->path());
    all_.emplace_back(pool->regions);
    return &all_.back();
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a thread of regions");
  }
  [[nodiscard]] open_group* group_of(std::uint64_t ticket) const noexcept {
    for (const part_of_thread& p : all_) {
      for (const auto& g : p.groups) {
        if (g->change != nullptr && g->ticket == ticket) return g.get();
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool has(const NVM_POOL* pool) const noexcept {
    return std::any_of(all_.begin(), all_.end(), [&](const part_of_thread& p) { return p.pool == pool->number; });
  }

 private:
  std::list<part_of_thread> all_;  // a call keeps its part while a visitor makes calls about other pools
};

}  // namespace

namespace {

// No thread_local object: a library that is loaded late has little room for those.
struct key_of_threads {
  pthread_key_t key{};
  bool made = pthread_key_create(&key, [](void* parts) { delete static_cast<parts_of_thread*>(parts); }) == 0;
};
const key_of_threads& the_key() noexcept {
  static const key_of_threads of_threads;
  return of_threads;
}
const parts_of_thread* parts_of_this_thread() noexcept {
  const key_of_threads& of_threads = the_key();
  return of_threads.made ? static_cast<const parts_of_thread*>(pthread_getspecific(of_threads.key)) : nullptr;
}
bool this_thread_has_part(const NVM_POOL* pool) noexcept {
  const parts_of_thread* const mine = parts_of_this_thread();
  return mine != nullptr && mine->has(pool);
}

}  // namespace

namespace {
result<part_of_thread*> my_part(const NVM_POOL* pool) noexcept {
  const key_of_threads& of_threads = the_key();
  if (!of_threads.made) return fail(errc::system, "no key for what threads have: there are too many");
  auto* mine = static_cast<parts_of_thread*>(pthread_getspecific(of_threads.key));
  if (mine == nullptr) {
    mine = new (std::nothrow) parts_of_thread;
    if (mine == nullptr || pthread_setspecific(of_threads.key, mine) != 0) {
      delete mine;
      return fail(errc::no_memory, "no volatile memory for a thread of regions");
    }
  }
  return mine->in(pool);
}
}  // namespace

result<part_in_use> part_in(const NVM_POOL* pool) noexcept {
  const auto part = my_part(pool);
  if (!part) return part.error();
  if (status s = begin_use(*(*part)->of, (*part)->place); !s) return s.error();
  return part_in_use{**part};
}
status wait_for_all_done(const NVM_POOL* pool) noexcept {
  const auto part = my_part(pool);
  if (!part) return part.error();
  return engines::of_what_is_done(pool->engine->wait(position_of(*(*part)->of, (*part)->place)));
}

namespace {
constexpr words sets{"set of regions", "regions"};
}  // namespace

status usable(const nvm_regions* set) noexcept { return usable_handle(set, sets); }
status wait_for_position(const nvm_regions* set, unsigned who) noexcept {
  return engines::of_what_is_done(set->pool->engine->wait(set->all->side->position(who)));
}

result<open_group*> group_of(const nvm_region_group* handle) noexcept {
  if (handle == nullptr) return fail(errc::invalid, "the group of regions is NULL");
  const parts_of_thread* const mine = parts_of_this_thread();
  open_group* const g = mine == nullptr ? nullptr : mine->group_of(reinterpret_cast<std::uintptr_t>(handle));
  if (g != nullptr) return g;
  return fail(errc::invalid, "the group of regions is over, or belongs to another thread");
}
open_group* group_with(const part_of_thread& p, const nvm_regions* set, std::uint64_t rid) noexcept {
  for (const auto& g : p.groups) {
    if (g->change != nullptr && g->set->of == set->of && g->change->has(rid)) return g.get();
  }
  return nullptr;
}
namespace {

result<open_region_sets*> sets_of(NVM_POOL* pool) noexcept {
  return all_of(pool, pool->regions_lock, pool->regions, sets, [pool](open_region_sets& all) {
    all.places = std::make_shared<thread_places>(has_image(pool->file->superblock()));
    engines::region_wishes wishes;
    wishes.wake = [all = &all] { all->tidying.wake([all] { all->side->tidy(); }); };
    return pool->engine->open_regions(std::move(wishes));
  });
}

status admit_regions(NVM_POOL* pool) noexcept {
  // A pool on ssd that an older library has made.
  const std::uint32_t straight = has_image(pool->file->superblock()) ? layout::feature_straight : 0;
  const std::uint32_t bits = layout::feature_regions | straight;
  if (pool->file->has_feature(bits)) return {};
  return pool->engine->add_feature(bits);
}

result<nvm_regions*> open_one(NVM_POOL* pool, const char* name, const nvm_regions_options& o) noexcept {
  if (name == nullptr) return fail(errc::invalid, "the name of a set of regions is NULL");
  if ((o.flags & ~static_cast<std::uint32_t>(NVM_REGIONS_NO_WAIT)) != 0) {
    return fail(errc::invalid, "flags %u are none of enum nvm_regions_flags", o.flags);
  }
  if (o.mode > 2) return fail(errc::invalid, "mode %u: expected 0, 1 or 2", o.mode);
  if (o.readers > NVM_READERS_COUNTED) {
    return fail(errc::invalid, "readers %u are none of enum nvm_regions_readers", o.readers);
  }
  if (o.decide > NVM_REGION_DECIDE_MEASURED) {
    return fail(errc::invalid, "decide %u is none of enum nvm_regions_decide", o.decide);
  }
  if (o.levelling > region::levelling_max && o.levelling != NVM_LEVELLING_NEVER) {
    return fail(errc::invalid, "levelling %u: expected 0 to %u, or NVM_LEVELLING_NEVER", o.levelling,
                region::levelling_max);
  }
  const auto all = sets_of(pool);
  if (!all) return all.error();
  const std::lock_guard guard{(*all)->lock};
  if ((*all)->closed()) return fail(errc::invalid, "pool %s was closed", pool->file->path());
  region_side& side = *(*all)->side;
  auto found = side.find(name);
  // The name may be there, or missing, by a change that is lost.
  if (status whole = medium_is_whole(pool); !whole) return whole.error();
  if (found && o.mode == 2) return fail(errc::exists, "the pool has a set of regions '%s' already", name);
  if (!found) {
    if (found.error() != errc::not_found || o.mode == 1) return found.error();
    if (status s = accepts_changes(pool); !s) return s.error();
    if (status s = not_in_transaction(pool, "the making of a set by nvm_regions_open()"); !s) return s.error();
    if (status s = admit_regions(pool); !s) return s.error();
    found = side.create(name);
    if (!found) return found.error();
  }
  if (o.replicas != 0) (*found)->limit_replicas(o.replicas);
  if (o.levelling != 0) (*found)->level_after(o.levelling == NVM_LEVELLING_NEVER ? 0 : o.levelling);
  if (o.decide != NVM_REGION_DECIDE_AS_IT_IS) (*found)->decide_by_costs(o.decide == NVM_REGION_DECIDE_MEASURED);
  if (o.readers != NVM_READERS_AS_THEY_ARE) (*found)->count_readers(o.readers == NVM_READERS_COUNTED);
  const bool waits = (o.flags & NVM_REGIONS_NO_WAIT) == 0;
  return handle_of(pool, **all, name, *found, waits ? 0 : 1, debugger_view::of_regions, sets, waits);
}

status check_bytes(const void* p, std::size_t n) noexcept {
  if (p == nullptr && n != 0) return fail(errc::invalid, "the bytes are NULL");
  return readable(p, n);
}
std::span<const std::byte> bytes_of(const void* p, std::size_t n) noexcept {
  return {static_cast<const std::byte*>(p), n};
}
// Asks the thread's transaction that has the region; without one, makes a call of its own.
template <effect What, class InGroup, class Alone>
result<int> either(nvm_regions* set, std::uint64_t rid, InGroup&& in_group, Alone&& alone) noexcept {
  if (status s = usable(set); !s) return s.error();
  const auto part = part_in(set->pool);
  if (!part) return part.error();
  open_group* const g = group_with(**part, set, rid);
  const auto call = [&](part_of_thread& p) -> result<int> {
    const status s = g != nullptr ? in_group(*g->change) : alone(p.number());
    if (!s) return s.error();
    return 0;
  };
  return g != nullptr ? run<effect::begins>(set, *part, call) : run<What>(set, *part, call);
}
template <class T>
status taken(const result<T>& r, T& out) noexcept {
  if (!r) return r.error();
  out = *r;
  return {};
}

}  // namespace

static status nobody_uses(const region_side& side, const nvm_pool* pool) noexcept {
  if (side.at_work()) return fail(errc::busy, "%s: a transaction of regions is open", pool->file->path());
  if (const std::uint64_t n = side.leases(); n != 0) {
    return fail(errc::busy, "%s: %lu leases of regions are held", pool->file->path(), n);
  }
  return {};
}
status regions_at_rest(nvm_pool* pool) noexcept {
  const std::lock_guard guard{pool->regions_lock};
  return pool->regions == nullptr ? status{} : nobody_uses(*pool->regions->side, pool);
}

void close_regions(nvm_pool* pool) noexcept {
  const std::lock_guard guard{pool->regions_lock};
  if (pool->regions == nullptr) return;
  pool->regions->tidying.stop();
  const std::lock_guard inside{pool->regions->lock};
  if (!pool->file->lost() && !pool->file->read_only()) pool->regions->side->come_to_rest();
  pool->regions->side.reset();
}

bool close_regions_unless_shared(nvm_pool* pool) noexcept {
  const std::lock_guard guard{pool->regions_lock};
  if (pool->regions == nullptr) return true;
  // The lock keeps threads from joining meanwhile.
  const std::lock_guard inside{pool->regions->lock};
  region_side& side = *pool->regions->side;
  const bool others = used_by_others(*pool->regions->places, this_thread_has_part(pool));
  if (side.at_work() || side.leases() != 0 || others) return false;
  pool->regions->tidying.stop();
  if (!pool->file->read_only()) side.come_to_rest();
  pool->regions->closed_at_exit = true;
  return true;
}

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;
using nvm::result;
using nvm::status;
using nvm::api::effect;

extern "C" {

nvm_regions* nvm_regions_open(NVM_POOL* pool, const char* name, const nvm_regions_options* options) {
  const nvm::platform::in_call here;
  if (status s = api::usable_pool(pool); !s) return api::report_null<nvm_regions>(s.error());
  const auto o = nvm::given_options<32>(options, "nvm_regions_options");
  if (!o) return api::report_null<nvm_regions>(o.error());
  const auto set = api::open_one(pool, name, *o);
  if (status s = api::if_intact(pool, set ? status{} : status{set.error()}); !s) {
    return api::report_null<nvm_regions>(s.error());
  }
  return *set;
}

int nvm_regions_drop(NVM_POOL* pool, const char* name) {
  const nvm::platform::in_call here;
  if (status s = api::usable_pool(pool); !s) return api::report(s.error());
  if (status s = api::accepts_changes(pool); !s) return api::report(s.error());
  if (name == nullptr) return api::report(fail(errc::invalid, "the name of a set of regions is NULL"));
  if (status s = api::not_in_transaction(pool, "nvm_regions_drop()"); !s) return api::report(s.error());
  const auto all = api::sets_of(pool);
  if (!all) return api::report(all.error());
  return api::answer(api::drop_named(pool, **all, name, api::sets,
                                     [pool](const api::region_side& side) { return api::nobody_uses(side, pool); }));
}

int nvm_regions_names(NVM_POOL* pool, int (*visit)(const char*, uint64_t, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the visitor is NULL"));
  std::optional<nvm::platform::in_call> here{std::in_place};
  if (status s = api::usable_pool(pool); !s) return api::report(s.error());
  const auto all = api::sets_of(pool);
  if (!all) return api::report(all.error());
  return api::names_of(pool, **all, visit, argument, here);
}

int nvm_regions_wait(nvm_regions* set) {
  const nvm::platform::in_call here;
  // Changes that are done are waited for: a pool that refuses new ones leaves these in doubt.
  if (status s = nvm::engines::of_what_is_done(api::usable(set)); !s) return api::report(s.error());
  return api::answer(api::wait_for_all_done(set->pool));
}

int nvm_regions_count(nvm_regions* set, uint64_t* count) {
  if (count == nullptr) return api::report(fail(errc::invalid, "the place for the count is NULL"));
  const nvm::platform::in_call here;
  if (status s = api::usable(set); !s) return api::report(s.error());
  const uint64_t found = set->of->count();
  if (status s = api::medium_is_whole(set->pool); !s) return api::report(s.error());
  if (status s = api::intact(set->pool); !s) return api::report(s.error());
  *count = found;
  return 0;
}

int nvm_region_create(nvm_regions* set, uint64_t rid, uint64_t size) {
  const nvm::platform::in_call here;
  return api::told(api::either<effect::changes>(
      set, rid, [&](auto& change) { return change.create(rid, size, 0); },
      [&](unsigned who) { return set->of->create(who, rid, size, {}, 0); }));
}

int nvm_region_create_with(nvm_regions* set, uint64_t rid, const void* from, size_t bytes, uint64_t room) {
  const nvm::platform::in_call here;
  if (status s = api::check_bytes(from, bytes); !s) return api::report(s.error());
  return api::told(api::either<effect::changes>(
      set, rid,
      [&](auto& change) -> status {
        if (status s = change.create(rid, bytes, room); !s) return s;
        const status written = change.write(rid, 0, api::bytes_of(from, bytes));
        if (!written) (void)change.drop(rid);
        return written;
      },
      [&](unsigned who) { return set->of->create(who, rid, bytes, api::bytes_of(from, bytes), room); }));
}

int nvm_region_drop(nvm_regions* set, uint64_t rid) {
  const nvm::platform::in_call here;
  return api::told(api::either<effect::changes>(
      set, rid, [&](auto& change) { return change.drop(rid); }, [&](unsigned who) { return set->of->drop(who, rid); }));
}

int nvm_region_size(nvm_regions* set, uint64_t rid, uint64_t* size) {
  if (size == nullptr) return api::report(fail(errc::invalid, "the place for the size is NULL"));
  const nvm::platform::in_call here;
  return api::told(api::either<effect::looks>(
      set, rid, [&](auto& change) { return api::taken(change.length(rid), *size); },
      [&](unsigned who) { return api::taken(set->of->length(who, rid), *size); }));
}

int64_t nvm_region_read(nvm_regions* set, uint64_t rid, uint64_t offset, void* to, size_t bytes) {
  if (to == nullptr && bytes != 0) return api::report(fail(errc::invalid, "the bytes are NULL"));
  const nvm::platform::in_call here;
  const std::span<std::byte> room{static_cast<std::byte*>(to), bytes};
  std::uint64_t n = 0;
  const auto done = api::either<effect::looks>(
      set, rid, [&](auto& change) { return api::taken(change.read(rid, offset, room), n); },
      [&](unsigned who) { return api::taken(set->of->read(who, rid, offset, room), n); });
  return done ? static_cast<int64_t>(n) : api::report(done.error());
}

int nvm_region_write(nvm_regions* set, uint64_t rid, uint64_t offset, const void* from, size_t bytes) {
  const nvm::platform::in_call here;
  if (status s = api::check_bytes(from, bytes); !s) return api::report(s.error());
  return api::told(api::either<effect::changes>(
      set, rid, [&](auto& change) { return change.write(rid, offset, api::bytes_of(from, bytes)); },
      [&](unsigned who) { return set->of->write(who, rid, offset, api::bytes_of(from, bytes)); }));
}

int nvm_region_append(nvm_regions* set, uint64_t rid, const void* from, size_t bytes, uint64_t* where) {
  const nvm::platform::in_call here;
  if (status s = api::check_bytes(from, bytes); !s) return api::report(s.error());
  std::uint64_t at = 0;
  const int answer = api::told(api::either<effect::changes>(
      set, rid, [&](auto& change) { return api::taken(change.append(rid, api::bytes_of(from, bytes)), at); },
      [&](unsigned who) { return api::taken(set->of->append(who, rid, api::bytes_of(from, bytes)), at); }));
  if (answer == 0 && where != nullptr) *where = at;
  return answer;
}

int nvm_region_truncate(nvm_regions* set, uint64_t rid, uint64_t length) {
  const nvm::platform::in_call here;
  return api::told(api::either<effect::changes>(
      set, rid, [&](auto& change) { return change.truncate(rid, length); },
      [&](unsigned who) { return set->of->truncate(who, rid, length); }));
}

int nvm_region_each(nvm_regions* set, int (*visit)(uint64_t, uint64_t, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the visitor is NULL"));
  struct context {
    int (*visit)(uint64_t, uint64_t, void*);
    void* argument;
    api::carried_exception thrown;
  } c{visit, argument, {}};
  std::optional<nvm::platform::in_call> here{std::in_place};
  const int answer = api::told(api::run<effect::looks>(set, [&](api::part_of_thread& p) {
    c.thrown.of(*set->pool->file);
    return set->of->each(
        p.number(),
        [](std::uint64_t rid, std::uint64_t size, void* raw) {
          auto& k = *static_cast<context*>(raw);
          return k.thrown.call([&] { return k.visit(rid, size, k.argument); }, 1);
        },
        &c);
  }));
  here.reset();
  c.thrown.go_on();
  return answer;
}

int nvm_region_hold(nvm_regions* set, uint64_t rid, nvm_region_lease* out) {
  if (out == nullptr) return api::report(fail(errc::invalid, "the place for the lease is NULL"));
  *out = {};
  const nvm::platform::in_call here;
  std::optional<nvm::region::lease> held;
  const auto done = api::run<effect::looks>(set, [&](api::part_of_thread& p) -> result<int> {
    const auto l = set->of->hold(p.number(), rid);
    if (!l) return l.error();
    held = *l;
    return 0;
  });
  if (!done) {
    if (held) (void)set->all->side->let_go(*held);
    return api::report(done.error());
  }
  *out = {held->bytes, held->length, set, {held->slot, held->ticket}};
  return 0;
}

int nvm_region_let_go(nvm_region_lease* lease) {
  if (lease == nullptr) return api::report(fail(errc::invalid, "the lease is NULL"));
  if (lease->set == nullptr) return api::report(fail(errc::invalid, "the lease was let go, or never was one"));
  const nvm::platform::in_call here;
  // Also if the pool's medium has failed.
  api::open_region_sets& all = *lease->set->all;
  if (all.side == nullptr) return api::report(fail(errc::invalid, "the pool of the lease was closed"));
  const nvm::region::lease its{static_cast<const std::byte*>(lease->bytes), lease->length, lease->reserved[0],
                               lease->reserved[1]};
  if (status s = all.side->let_go(its); !s) return api::report(s.error());
  *lease = {};
  return 0;
}

int nvm_region_get_statistics(nvm_regions* set, nvm_region_statistics* out) {
  using nvm::region::technique;
  if (out == nullptr) return api::report(fail(errc::invalid, "the place for the statistics is NULL"));
  const nvm::platform::in_call here;
  if (status s = api::usable(set); !s) return api::report(s.error());
  const nvm::region::statistics s = set->all->side->statistics();
  const auto changes = [&](technique t) { return s.changes[static_cast<unsigned>(t)]; };
  const auto bytes = [&](technique t) { return s.bytes[static_cast<unsigned>(t)]; };
  *out = {};
  out->regions = s.regions;
  out->transactions = s.transactions;
  out->checked = changes(technique::record);
  out->marked = changes(technique::marked);
  out->direct = changes(technique::direct);
  out->copied = changes(technique::copy);
  out->headers = changes(technique::header);
  out->in_place = changes(technique::replica);
  out->bytes_checked = bytes(technique::record);
  out->bytes_marked = bytes(technique::marked);
  out->bytes_direct = bytes(technique::direct);
  out->bytes_copied = bytes(technique::copy);
  out->bytes_in_place = bytes(technique::replica);
  out->alternated = changes(technique::alternate);
  out->bytes_alternated = bytes(technique::alternate);
  out->replicas_made = s.replicas_made;
  out->replicas_given = s.replicas_given;
  out->straight = s.straight;
  out->bytes_straight = s.bytes_straight;
  out->levelled = s.levelled;
  out->waiting_bytes = s.waiting_bytes;
  out->leases = s.leases;
  out->moved = s.moved;
  out->waits = s.waits;
  out->waiting = s.waiting;
  out->fence_ps = s.costs[0];
  out->line_ps = s.costs[1];
  out->copied_line_ps = s.costs[2];
  out->byte_ps = s.costs[3];
  return 0;
}

}  // extern "C"
