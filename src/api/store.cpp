// The calls of nvm/store.h.
#include "nvm/store.h"

#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "api/carried_exception.hpp"
#include "api/object_stores.hpp"
#include "api/stm_pieces.hpp"
#include "base/given_options.hpp"
#include "nvm/stm.h"

namespace nvm::api {
namespace {

constexpr std::size_t names_of_a_part = 128;

status check_name(const char* name) noexcept {
  const std::size_t n = name == nullptr ? 0 : std::strlen(name);
  if (n != 0 && n <= layout::store_name_bytes_max) return {};
  return fail(errc::invalid, "the name of a store has %zu bytes: expected 1 to %u", n, NVM_STORE_NAME_MAX);
}

// call(stores) -> status.  `attaches`: a barrier transaction that begins anew would do it twice; `changes`: it uses a
// transaction of its own.
enum class effects : std::uint8_t { looks, attaches, changes };
template <class Call>
status on_stores(NVM_POOL* pool, const char* name, effects what, Call&& call) noexcept try {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (what != effects::looks) {
    if (status s = not_in_barriers(name, "it before the transaction or after it"); !s) return s;
  }
  if (what == effects::changes) {
    if (status s = not_in_transaction(pool, name); !s) return s;
  }
  const auto all = object_stores::of(pool);
  if (!all) return all.error();
  if (what == effects::changes) {
    if (pool->file->read_only()) return fail(errc::read_only, "%s is open read-only", pool->file->path());
  }
  // Not in the transaction that may be what keeps the store.
  if (what != effects::looks && thread_transactions::mine().in(pool) == nullptr) (*all)->detach_what_is_owed();
  return call(**all);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a store");
}
template <class Call>
int on_named(NVM_POOL* pool, const char* name, const char* of, effects what, Call&& call) noexcept {
  const platform::in_call here;
  if (status s = check_name(of); !s) return report(s.error());
  return answer(on_stores(pool, name, what, call));
}

status usable(const nvm_store* s) noexcept {
  if (s == nullptr) return fail(errc::invalid, "the store is NULL");
  if (status ok = s->pool->file->usable(); !ok) return ok;
  if (s->for_program.load(std::memory_order_acquire)) [[likely]]
    return {};
  return fail(errc::invalid, "store \"%s\" is not attached", s->name.c_str());
}
std::uint64_t offset_of(const nvm_store& s, const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(s.pool->base());
}

// Goes on with the store's local collection around an allocation in it.  `allocate` does not come back where it begins
// a barrier transaction anew: nothing is held meanwhile.
template <class Allocate>
auto collecting(nvm_store& s, Allocate&& allocate) {
  store_collector* const collector = s.collector->locally() ? s.collector : nullptr;
  if (collector == nullptr) return allocate();
  {
    const platform::in_call here;
    collector->before_allocation(s);
  }
  auto made = allocate();
  errc outcome = errc::ok;
  if constexpr (requires { made.error(); }) {
    if (!made) outcome = made.error();
  } else {
    if (made == nullptr) outcome = reported_code();
  }
  const platform::in_call here;
  collector->after_allocation(s, outcome);
  return made;
}

result<void*> allocate(nvm_store* s, std::uint32_t type, std::uint64_t bytes) noexcept {
  if (status ok = usable(s); !ok) return ok.error();
  entry* const e = thread_transactions::mine().in(s->pool);
  if (e == nullptr) {
    if (status ok = not_in_barriers("nvm_store_alloc()", "it before the transaction or after it"); !ok)
      return ok.error();
    return fail(errc::no_transaction, "%s: allocation in a store needs a transaction of this thread",
                s->pool->file->path());
  }
  open_transaction& t = *e->transaction;
  const auto payload = collecting(*s, [&] { return t.allocate_in(s->attached_as(), type, bytes); });
  if (status ok = nvm::api::if_intact(s->pool, payload ? status{} : status{payload.error()}); !ok) {
    t.doom(ok.error());
    return ok.error();
  }
  clear_new(*s->pool, type, s->pool->base() + *payload, bytes);
  return static_cast<void*>(s->pool->base() + *payload);
}
// The contents that the call has stored in a new object may be on a page that is lost.
template <class T>
T* stored(nvm_store* s, void* p) noexcept {
  const status whole = intact(s->pool);
  if (whole) return static_cast<T*>(p);
  thread_transactions::mine().in(s->pool)->transaction->doom(whole.error());
  return report_null<T>(whole.error());
}

// The caller sets errno for a change of rights that is not allowed.
status chmod_rights(stores::rights& r, const stores::identity& who, std::uint32_t mode, std::uint32_t) {
  if (!owns(r, who)) return errc::system;
  r.mode = mode;
  return {};
}
status chown_rights(stores::rights& r, const stores::identity& who, std::uint32_t owner, std::uint32_t group) {
  if (owner == UINT32_MAX) owner = r.owner;
  if (group == UINT32_MAX) group = r.group;
  if (!may_give(r, who, owner, group)) return errc::system;
  r.owner = owner;
  r.group = group;
  return {};
}

// Calls visit(name) for each name that begins with `prefix`, outside of the library's call.
template <class Visit>
int each_name(NVM_POOL* pool, const char* call, const char* prefix, Visit&& visit) {
  std::string after;
  for (;;) {
    std::vector<std::string> part;
    {
      const platform::in_call here;
      const status s = on_stores(pool, call, effects::looks, [&](object_stores& all) {
        return all.names(prefix == nullptr ? "" : prefix, after, names_of_a_part, part);
      });
      if (!s) return report(s.error());
    }
    for (const std::string& name : part) {
      if (const int stop = visit(name); stop != 0) return stop;
    }
    if (part.size() < names_of_a_part) return 0;
    after = part.back();
  }
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_store_create(NVM_POOL* pool, const char* name, const nvm_store_options* options) {
  const auto known = nvm::given_options<48>(options, "nvm_store_options");
  if (!known) return api::report(known.error());
  const nvm_store_options& o = *known;
  if (o.mode > nvm::stores::mode_bits)
    return api::report(fail(errc::invalid, "mode %o is more than permission bits", o.mode));
  return api::on_named(pool, "nvm_store_create()", name, api::effects::changes,
                       [&](api::object_stores& all) { return all.create(name, o); });
}
int nvm_store_delete(NVM_POOL* pool, const char* name) {
  return api::on_named(pool, "nvm_store_delete()", name, api::effects::changes,
                       [&](api::object_stores& all) { return all.drop(name); });
}
int nvm_store_rename(NVM_POOL* pool, const char* name, const char* new_name) {
  if (nvm::status s = api::check_name(new_name); !s) return api::report(s.error());
  return api::on_named(pool, "nvm_store_rename()", name, api::effects::changes,
                       [&](api::object_stores& all) { return all.rename(name, new_name); });
}

int nvm_store_names(NVM_POOL* pool, const char* prefix, int (*visit)(const char*, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  return api::each_name(pool, "nvm_store_names()", prefix,
                        [&](const std::string& name) { return visit(name.c_str(), argument); });
}
int nvm_store_list(NVM_POOL* pool, const char* prefix, int (*visit)(const nvm_store_info*, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  return api::each_name(pool, "nvm_store_list()", prefix, [&](const std::string& name) {
    nvm_store_info info;
    nvm::status s;
    {
      const nvm::platform::in_call here;
      s = api::on_stores(pool, "nvm_store_list()", api::effects::looks,
                         [&](api::object_stores& all) { return all.stat(name, info); });
    }
    if (s.error() == errc::not_found) return 0;  // gone meanwhile
    if (!s) return api::report(s.error());
    info.name = name.c_str();
    return visit(&info, argument);
  });
}
int nvm_store_stat(NVM_POOL* pool, const char* name, nvm_store_info* out) {
  if (out == nullptr) return api::report(fail(errc::invalid, "the result is NULL"));
  const int code = api::on_named(pool, "nvm_store_stat()", name, api::effects::looks,
                                 [&](api::object_stores& all) { return all.stat(name, *out); });
  if (code == 0) out->name = name;
  return code;
}

int nvm_store_chmod(NVM_POOL* pool, const char* name, uint32_t mode) {
  if (mode > nvm::stores::mode_bits)
    return api::report(fail(errc::invalid, "mode %o is more than permission bits", mode));
  return api::on_named(pool, "nvm_store_chmod()", name, api::effects::changes,
                       [&](api::object_stores& all) { return all.change_rights(name, api::chmod_rights, mode, 0); });
}
int nvm_store_chown(NVM_POOL* pool, const char* name, uint32_t owner, uint32_t group) {
  return api::on_named(pool, "nvm_store_chown()", name, api::effects::changes, [&](api::object_stores& all) {
    return all.change_rights(name, api::chown_rights, owner, group);
  });
}
int nvm_store_quota(NVM_POOL* pool, const char* name, uint64_t bytes) {
  return api::on_named(pool, "nvm_store_quota()", name, api::effects::changes,
                       [&](api::object_stores& all) { return all.set_quota(name, bytes); });
}

// ---- attached stores

nvm_store* nvm_store_attach(NVM_POOL* pool, const char* name, unsigned flags) {
  const nvm::platform::in_call here;
  if (nvm::status s = api::check_name(name); !s) return api::report_null<nvm_store>(s.error());
  constexpr unsigned known = NVM_STORE_READ_ONLY | NVM_STORE_CREATE;
  if ((flags & ~known) != 0)
    return api::report_null<nvm_store>(fail(errc::invalid, "flags %u are none of enum nvm_store_flags", flags));
  nvm_store* out = nullptr;
  const nvm::status s =
      api::on_stores(pool, "nvm_store_attach()", api::effects::attaches, [&](api::object_stores& all) -> nvm::status {
        if ((flags & NVM_STORE_CREATE) != 0) {
          if (nvm::status free = api::not_in_transaction(pool, "nvm_store_attach() with NVM_STORE_CREATE"); !free)
            return free;
        }
        const auto attached = all.attach(name, flags);
        if (!attached) return attached.error();
        out = *attached;
        return {};
      });
  return s ? out : api::report_null<nvm_store>(s.error());
}
int nvm_store_detach(nvm_store* store) {
  const nvm::platform::in_call here;
  if (nvm::status s = api::usable(store); !s) return api::report(s.error());
  // Objects that cannot be freed yet are left to the collector of the store.
  if (store->pool->late.any() && api::thread_transactions::mine().in(store->pool) == nullptr &&
      !api::in_barrier_transaction()) {
    api::free_some_late(store->pool);
  }
  return api::answer(api::on_stores(store->pool, "nvm_store_detach()", api::effects::attaches,
                                    [&](api::object_stores& all) { return all.detach(*store); }));
}

nvm_store* nvm_store_find(NVM_POOL* pool, const char* name) {
  const nvm::platform::in_call here;
  nvm_store* found = nullptr;
  if (!api::check_name(name)) return nullptr;
  (void)api::on_stores(pool, "nvm_store_find()", api::effects::looks, [&](api::object_stores& all) {
    found = all.by_name(name);
    return nvm::status{};
  });
  return found;
}
const char* nvm_store_name(const nvm_store* store) { return store == nullptr ? "" : store->name.c_str(); }
uint32_t nvm_store_number(const nvm_store* store) { return store == nullptr ? 0 : store->number; }
NVM_POOL* nvm_store_pool(const nvm_store* store) { return store == nullptr ? nullptr : store->pool; }
nvm_store* nvm_store_of(const void* p) {
  NVM_POOL* const pool = nvm_pool_of(p);
  if (pool == nullptr) return nullptr;
  const nvm::platform::in_call here;
  nvm_store* found = nullptr;
  (void)api::on_stores(pool, "nvm_store_of()", api::effects::looks, [&](api::object_stores& all) {
    found = all.holder(reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base()));
    return nvm::status{};
  });
  return found;
}

void* nvm_store_get_root(nvm_store* store) {
  const nvm::platform::in_call here;
  if (nvm::status s = api::usable(store); !s) return api::report_null<void>(s.error());
  void* root = nullptr;
  const nvm::status s = api::on_stores(store->pool, "nvm_store_get_root()", api::effects::looks,
                                       [&](api::object_stores& all) -> nvm::status {
                                         const auto payload = all.root_of(*store);
                                         if (nvm::status whole = api::intact(store->pool); !whole) return whole;
                                         if (!payload) return payload.error();
                                         if (*payload != 0) root = store->pool->base() + *payload;
                                         return {};
                                       });
  return s ? root : api::report_null<void>(s.error());
}
int nvm_store_set_root(nvm_store* store, void* object) {
  const nvm::platform::in_call here;
  if (nvm::status s = api::usable(store); !s) return api::report(s.error());
  const auto set = [&](api::object_stores& all) -> nvm::status {
    const std::uint64_t payload = object == nullptr ? 0 : api::offset_of(*store, object);
    if (object != nullptr) {
      const auto found = store->pool->engine->find(payload);
      if (!found || found->payload != payload || !all.holds(store->attachment, payload)) {
        return fail(errc::bad_pointer, "root %p is no object of store \"%s\"", object, store->name.c_str());
      }
    }
    if (api::entry* const e = api::thread_transactions::mine().in(store->pool); e != nullptr)
      return api::if_intact(store->pool, all.set_root(*store, *e->transaction, payload));
    return api::in_own_transaction(store->pool,
                                   [&](api::open_transaction& t) { return all.set_root(*store, t, payload); });
  };
  return api::answer(api::on_stores(store->pool, "nvm_store_set_root()", api::effects::attaches, set));
}

void* nvm_store_alloc(nvm_store* store, uint32_t type_id, size_t size) {
  const nvm::platform::in_call here;
  const auto p = api::allocate(store, type_id, size);
  return p ? *p : api::report_null<void>(p.error());
}
void* nvm_store_calloc(nvm_store* store, uint32_t type_id, size_t count, size_t size) {
  const nvm::platform::in_call here;
  const std::size_t bytes = nvm::checked_mul(count, size).value_or(SIZE_MAX);  // which is refused
  const auto p = api::allocate(store, type_id, bytes);
  if (!p) return api::report_null<void>(p.error());
  std::memset(*p, 0, bytes);
  return api::stored<void>(store, *p);
}
char* nvm_store_strdup(nvm_store* store, const char* text) {
  const nvm::platform::in_call here;
  if (text == nullptr) return api::report_null<char>(fail(errc::invalid, "the text is NULL"));
  const std::size_t bytes = std::strlen(text) + 1;
  const auto p = api::allocate(store, nvm::layout::type_of_text, bytes);
  if (!p) return api::report_null<char>(p.error());
  std::memcpy(*p, text, bytes);
  return api::stored<char>(store, *p);
}
void* nvm_stm_store_alloc(nvm_stm* tx, nvm_store* store, uint32_t type_id, size_t size) {
  if (nvm::status s = api::usable(store); !s) return api::allocate_in(tx, nullptr, {}, type_id, size, s.error());
  const auto make = [&] { return api::allocate_in(tx, store->pool, store->attached_as(), type_id, size); };
  return tx == nullptr || nvm_stm_pool(tx) != store->pool ? make() : api::collecting(*store, make);
}
int nvm_store_trim(nvm_store* store) {
  const nvm::platform::in_call here;
  if (nvm::status s = api::usable(store); !s) return api::report(s.error());
  bool any = false;
  const nvm::status s = api::on_stores(
      store->pool, "nvm_store_trim()", api::effects::changes, [&](api::object_stores& all) -> nvm::status {
        if (store->read_only) {
          return fail(errc::read_only, "store \"%s\" is attached read-only", store->name.c_str());
        }
        const auto trimmed = all.trim(*store);
        if (!trimmed) return trimmed.error();
        any = *trimmed;
        return api::intact(store->pool);
      });
  return s ? (any ? 1 : 0) : api::report(s.error());
}

// ---- references

nvm_store_ref nvm_store_ref_of(const void* object) {
  nvm_store* const s = nvm_store_of(object);
  if (s == nullptr) {
    (void)api::report(fail(errc::bad_pointer, "%p lies in no store that is attached", object));
    return {};
  }
  const nvm::platform::in_call here;
  const std::uint64_t payload = api::offset_of(*s, object);
  const auto found = s->pool->engine->find(payload);
  if (!found || found->payload != payload) {
    (void)api::report(fail(errc::bad_pointer, "%p is no object of store \"%s\"", object, s->name.c_str()));
    return {};
  }
  return {s->number, payload};
}
void* nvm_store_at(NVM_POOL* pool, nvm_store_ref ref) {
  if (ref.store == 0 && ref.place == 0) return nullptr;
  const nvm::platform::in_call here;
  void* found = nullptr;
  const nvm::status s =
      api::on_stores(pool, "nvm_store_at()", api::effects::looks, [&](api::object_stores& all) -> nvm::status {
        const std::uint64_t attachment = all.attachment_of(ref.store);
        if (attachment == 0)
          return fail(errc::not_found, "%s: store %lu is not attached", pool->file->path(), ref.store);
        if (!all.holds(attachment, ref.place))
          return fail(errc::bad_pointer, "store %lu has no object at offset %lu", ref.store, ref.place);
        const auto o = pool->engine->find(ref.place);
        if (!o) return o.error();
        if (o->payload != ref.place)
          return fail(errc::bad_pointer, "store %lu has no object at offset %lu", ref.store, ref.place);
        found = pool->base() + ref.place;
        return {};
      });
  return s ? found : api::report_null<void>(s.error());
}

// ---- all stores

int nvm_stores_configure(NVM_POOL* pool, const nvm_stores_options* options) {
  const nvm::platform::in_call here;
  if (options == nullptr) return api::report(fail(errc::invalid, "the options are NULL"));
  const auto o = nvm::given_options<56>(options, "nvm_stores_options");
  if (!o) return api::report(o.error());
  if (o->protection > NVM_STORES_UNPROTECTED) {
    return api::report(fail(errc::invalid, "protection %u is none of enum nvm_store_protection", o->protection));
  }
  const auto what = o->burst != 0 ? api::effects::changes : api::effects::attaches;
  return api::answer(
      api::on_stores(pool, "nvm_stores_configure()", what, [&](api::object_stores& all) { return all.configure(*o); }));
}
int nvm_store_gc(NVM_POOL* pool, const char* name, const nvm_store_gc_options* options, nvm_store_gc_report* report) {
  const auto known = nvm::given_options<32>(options, "nvm_store_gc_options");
  if (!known) return api::report(known.error());
  const nvm_store_gc_options& o = *known;
  if (o.dry_run > 1) return api::report(fail(errc::invalid, "dry_run: found %u, expected 0 or 1", o.dry_run));
  nvm_store_gc_report unread;
  nvm_store_gc_report& to = report == nullptr ? unread : *report;
  to = {};
  return api::on_named(pool, "nvm_store_gc()", name, api::effects::attaches, [&](api::object_stores& all) {
    const nvm::status free = api::not_in_transaction(pool, "nvm_store_gc()");
    return free ? all.collect(name, o.dry_run != 0, to) : free;
  });
}
int nvm_stores_get_collections(NVM_POOL* pool, nvm_collection_statistics* out) {
  const nvm::platform::in_call here;
  if (out == nullptr) return api::report(fail(errc::invalid, "the result is NULL"));
  return api::answer(
      api::on_stores(pool, "nvm_stores_get_collections()", api::effects::looks, [&](api::object_stores& all) {
        all.collector().statistics(*out);
        return nvm::status{};
      }));
}
int nvm_stores_get_statistics(NVM_POOL* pool, nvm_stores_statistics* out) {
  const nvm::platform::in_call here;
  if (out == nullptr) return api::report(fail(errc::invalid, "the result is NULL"));
  return api::answer(api::on_stores(pool, "nvm_stores_get_statistics()", api::effects::looks,
                                    [&](api::object_stores& all) { return all.statistics(*out); }));
}

}  // extern "C"
