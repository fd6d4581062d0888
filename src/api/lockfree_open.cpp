// Lock-free structures of the C interface: how they are opened, named, closed and dropped, in the pool and inside of
// object stores.
//
// Threads.  The pool's lock is held while the pool's side is made, found and closed.  A store's side is made when it is
// first needed, and closed before the store is detached, under the lock of the record; that of object stores is taken
// before, and not held.
#include <algorithm>
#include <bit>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/lockfree_handle.hpp"
#include "api/object_stores.hpp"
#include "base/given_options.hpp"
#include "nvm/store_lockfree.h"
#include "platform/platform.hpp"

namespace nvm::api {
namespace {

// May throw std::bad_alloc.
std::shared_ptr<thread_places> places_for(const nvm_pool* pool) {
  return std::make_shared<thread_places>(has_image(pool->file->superblock()));
}

result<open_structures*> structures_of(NVM_POOL* pool, const engines::structure_settings& wanted = {}) noexcept {
  return all_of(pool, pool->structures_lock, pool->structures, structures, [&](open_structures& made) {
    made.number = open_structures::next_number();
    made.places = places_for(pool);
    return pool->engine->open_structures(wanted, nullptr);
  });
}

// Whether a handle was given that is not closed.
bool has_open_handle(const open_structures& all, const char*& name) noexcept {
  for (const auto& known : all.handles) {
    for (const auto& [of, handle] : known) {
      name = of.c_str();
      if (std::atomic_ref<std::uint32_t>{handle->opens}.load(std::memory_order_relaxed) != 0) return true;
    }
  }
  return false;
}

[[nodiscard]] errc was_closed(const open_structures& all) noexcept {
  if (all.home != nullptr) return fail(errc::invalid, "store \"%s\" is not attached", all.home->name.c_str());
  return fail(errc::invalid, "the pool was closed");
}
// May throw std::bad_alloc.
status list_names(open_structures& all, std::vector<std::pair<std::string, int>>& found) {
  const std::lock_guard guard{all.lock};
  if (all.closed()) return was_closed(all);
  const auto listed = all.side->names(
      [](const char* name, int kind, void* to) {
        try {
          static_cast<std::vector<std::pair<std::string, int>>*>(to)->emplace_back(name, kind);
          return 0;
        } catch (const std::bad_alloc&) {
          return 1;
        }
      },
      &found);
  if (!listed) return listed.error();
  return *listed == 0 ? status{}
                      : status{fail(errc::no_memory, "no volatile memory for the names of lock-free structures")};
}

// The structures inside of an attached store.
struct structures_of_store final : store_contents {
  explicit structures_of_store(nvm_store& home) : all{std::make_shared<open_structures>()} { all->home = &home; }
  bool in_use() noexcept override {
    const std::lock_guard guard{all->lock};
    const char* name = nullptr;
    // After the pool was closed its handles are refused.
    return all->side != nullptr && has_open_handle(*all, name);
  }
  bool at_work() noexcept override {
    const std::lock_guard guard{all->lock};
    return all->side != nullptr && all->side->at_work();
  }
  status shut() noexcept override {
    const std::lock_guard guard{all->lock};
    const char* name = nullptr;
    const char* const store = all->home->name.c_str();
    if (has_open_handle(*all, name)) {
      return fail(errc::busy, "store \"%s\": its lock-free structure '%s' is open", store, name);
    }
    if (all->side != nullptr && all->side->at_work()) {
      return fail(errc::busy, "store \"%s\": a thread is inside of a lock-free structure of it (nvm_lf_enter())",
                  store);
    }
    try {
      std::size_t count = all->dropped.size();
      for (const auto& known : all->handles) count += known.size();
      all->dropped.reserve(count);
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory to detach store \"%s\"", store);
    }
    close_side(false);
    // Structures that are opened again have new ones.
    for (auto& known : all->handles) {
      for (auto& [of, handle] : known) all->dropped.push_back(std::move(handle));
      known.clear();
    }
    is_shut = true;
    return {};
  }
  void reopen() noexcept override {
    const std::lock_guard guard{all->lock};
    is_shut = false;
  }
  bool close(bool exiting) noexcept override {
    const std::lock_guard guard{all->lock};
    if (all->closed()) return true;
    // The lock keeps threads from joining meanwhile.
    if (exiting && (all->side->at_work() || others_use(*all))) return false;
    close_side(exiting);
    return true;
  }
  // The side, recovered, which is opened where there is none.  `all->lock` is held.
  // May throw std::bad_alloc.
  [[nodiscard]] status need_side(const engines::structure_settings& wanted) {
    const nvm_store& home = *all->home;
    if (is_shut) return fail(errc::busy, "store \"%s\" is being detached", home.name.c_str());
    if (home.of == nullptr) return was_closed(*all);
    if (all->side != nullptr) return {};
    if (home.read_only) {
      return fail(errc::read_only, "store \"%s\" is attached read-only: its lock-free structures are out of reach",
                  home.name.c_str());
    }
    auto made = home.pool->engine->open_structures(wanted, home.of);
    if (!made) return made.error();
    all->places = places_for(home.pool);
    all->number = open_structures::next_number();
    all->side = std::move(*made);
    return {};
  }

  const std::shared_ptr<open_structures> all;
  bool is_shut = false;  // under all->lock: it is being detached, or is not attached any more

 private:
  void close_side(bool exiting) noexcept {
    if (all->closed()) return;
    if (!all->home->pool->file->lost()) all->side->come_to_rest(true);
    all->closed_at_exit = exiting;
    if (!exiting) all->side.reset();
    // A thread that has a number there is refused, and finds out under the lock.
    all->number = open_structures::next_number();
  }
};

// call(open_structures&) -> result, with the structures of a store open.  It takes their lock, and looks whether the
// store was detached meanwhile.
template <class Call>
auto in_structures_of(nvm_store* store, const engines::structure_settings& wanted, Call&& call) noexcept
    -> decltype(call(std::declval<open_structures&>())) try {
  if (store == nullptr) return fail(errc::invalid, "the store is NULL");
  if (status s = usable_by_structures(store->pool); !s) return s.error();
  const auto stores = object_stores::of(store->pool);
  if (!stores) return stores.error();
  const auto contents = (*stores)->contents(*store, contents_of::structures, [&](engines::store_side&) {
    return std::make_shared<structures_of_store>(*store);
  });
  if (!contents) return contents.error();
  auto& of = static_cast<structures_of_store&>(**contents);
  {
    const std::lock_guard guard{of.all->lock};
    if (status s = of.need_side(wanted); !s) return s.error();
  }
  return call(*of.all);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the lock-free structures of a store");
}

// The settings that options choose for all structures; a field of 0 chooses the default.
result<engines::structure_settings> settings_in(const nvm_lf_options& o) noexcept {
  const struct {
    std::uint32_t value, last;
    const char* name;
  } all[] = {{o.links, NVM_LF_LINK_CACHE, "links"},
             {o.allocation, NVM_LF_ONE_AT_A_TIME, "allocation"},
             {o.recovery, NVM_LF_TRAVERSAL, "recovery"}};
  for (const auto& [value, last, name] : all) {
    if (value > last) return fail(errc::invalid, "%s of nvm_lf_options is %u, at most %u", name, value, last);
  }
  const std::uint32_t area = o.area_bytes == 0 ? NVM_LF_AREA_MIN : o.area_bytes;
  if (!std::has_single_bit(area) || area < NVM_LF_AREA_MIN || area > NVM_LF_AREA_MAX) {
    return fail(errc::invalid, "area_bytes of nvm_lf_options is %u, expected a power of two from %u to %u", area,
                NVM_LF_AREA_MIN, NVM_LF_AREA_MAX);
  }
  engines::structure_settings wanted;
  wanted.link_cache = o.links == NVM_LF_LINK_CACHE;
  wanted.all_at_once = o.allocation != NVM_LF_ONE_AT_A_TIME;
  wanted.area_shift = static_cast<unsigned>(std::countr_zero(area));
  if (o.recovery == NVM_LF_SEARCH) wanted.recovery = lockfree::recovery_method::search;
  if (o.recovery == NVM_LF_TRAVERSAL) wanted.recovery = lockfree::recovery_method::traversal;
  return wanted;
}
// Structures that are open already are what was asked for.
status are_as_wanted(const nvm_lf_options& o, const engines::structure_settings& wanted,
                     const engines::structure_settings& found) noexcept {
  const auto others = [](const char* what) {
    return fail(errc::busy, "the lock-free structures of the pool are open with another choice of %s", what);
  };
  if (o.links != 0 && wanted.link_cache != found.link_cache) return others("links");
  if (o.allocation != 0 && wanted.all_at_once != found.all_at_once) return others("allocation");
  if (o.recovery != 0 && wanted.recovery != found.recovery) return others("recovery");
  if (o.area_bytes == 0 || wanted.area_shift == found.area_shift) return {};
  return fail(errc::exists, "the pool has areas of %u bytes, expected %u", 1U << found.area_shift, o.area_bytes);
}

// False: no handle was given, so they were listed or dropped at most.
bool is_in_use(const open_structures& all) noexcept {
  const auto has_any = [](const auto& known) { return !known.empty(); };
  return std::any_of(std::begin(all.handles), std::end(all.handles), has_any) || used_by_others(*all.places, false);
}
// With other settings; `all.lock` is held.
status open_again(NVM_POOL* pool, open_structures& all, const engines::structure_settings& wanted) noexcept try {
  auto places = places_for(pool);
  // Not as for a close: if there is no other side, changes go on here, without a recovery.
  all.side->come_to_rest(false);
  auto made = pool->engine->open_structures(wanted, all.home == nullptr ? nullptr : all.home->of);
  if (!made) return made.error();
  all.side = std::move(*made);
  all.places = std::move(places);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the threads of lock-free structures");
}

// errc::invalid.
result<engines::structure_settings> settings_for(const char* name, const nvm_lf_options& o) noexcept {
  constexpr std::uint32_t known_flags =
      NVM_LF_BYTES | NVM_LF_NO_WAIT | NVM_LF_VOLATILE_LINKS | NVM_LF_NO_CHECKSUMS | NVM_LF_VERIFY_READS;
  if (name == nullptr) return fail(errc::invalid, "the name of a lock-free structure is NULL");
  if (o.kind > static_cast<unsigned>(lockfree::layout::last_kind))
    return fail(errc::invalid, "kind %u is none of enum nvm_lf_kind", o.kind);
  if ((o.flags & ~known_flags) != 0) return fail(errc::invalid, "flags %u are none of enum nvm_lf_flags", o.flags);
  if (o.mode > 2) return fail(errc::invalid, "mode %u: expected 0, 1 or 2", o.mode);
  return settings_in(o);
}

result<nvm_lf*> open_one(NVM_POOL* pool, open_structures& all, const char* name, const nvm_lf_options& o,
                         const engines::structure_settings& wanted) noexcept {
  const std::lock_guard guard{all.lock};
  if (all.closed()) return was_closed(all);
  if (status s = are_as_wanted(o, wanted, all.side->settings()); !s) {
    if (s.error() != errc::busy || is_in_use(all)) return s.error();
    if (status again = open_again(pool, all, wanted); !again) return again.error();
  }
  structure_side& side = *all.side;
  const bool bytes = (o.flags & NVM_LF_BYTES) != 0;
  auto found = side.find(name);
  // The name may be there, or missing, by a change that is lost.
  if (status whole = medium_is_whole(pool); !whole) return whole.error();
  if (found && o.mode == 2) return fail(errc::exists, "there is a lock-free structure '%s' already", name);
  if (!found) {
    if (found.error() != errc::not_found || o.mode == 1) return found.error();
    if (status s = not_in_transaction(pool, "the making of a structure by nvm_lf_open()"); !s) return s.error();
    // Before the first word that older libraries do not know.
    if (all.home != nullptr) {
      if (status s = pool->engine->add_feature(layout::feature_store_structures); !s) return s.error();
    }
    const auto kind = o.kind == 0 ? lockfree::layout::kind::hash : static_cast<lockfree::layout::kind>(o.kind);
    found = side.create(name, kind, bytes, (o.flags & NVM_LF_VOLATILE_LINKS) != 0, (o.flags & NVM_LF_NO_CHECKSUMS) == 0,
                        o.expected);
    if (!found) return found.error();
  }
  const auto kind = static_cast<std::uint32_t>((*found)->kind());
  if (o.kind != 0 && o.kind != kind) {
    return fail(errc::type_mismatch, "lock-free structure '%s': kind: found %u, expected %u", name, kind, o.kind);
  }
  if ((*found)->of_bytes() != bytes) {
    return fail(errc::type_mismatch, "lock-free structure '%s': found %s, expected %s", name, bytes ? "words" : "bytes",
                bytes ? "bytes" : "words");
  }
  const bool waits = (o.flags & NVM_LF_NO_WAIT) == 0;
  const bool verifies = (o.flags & NVM_LF_VERIFY_READS) != 0;
  const unsigned way = (waits ? 0U : 1U) + (verifies ? 2U : 0U);
  auto made = handle_of(pool, all, name, *found, way, debugger_view::of_structure, structures, waits, verifies);
  if (!made) return made;
  (*made)->seen.kind = kind;
  std::atomic_ref<std::uint32_t>{(*made)->opens}.fetch_add(1, std::memory_order_relaxed);
  return made;
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;
using nvm::status;

extern "C" {

nvm_lf* nvm_lf_open(NVM_POOL* pool, const char* name, const nvm_lf_options* options) {
  const nvm::platform::in_call here;
  if (status s = api::usable_by_structures(pool); !s) return api::report_null<nvm_lf>(s.error());
  const auto o = nvm::given_options<48>(options, "nvm_lf_options");
  if (!o) return api::report_null<nvm_lf>(o.error());
  const auto wanted = api::settings_for(name, *o);
  if (!wanted) return api::report_null<nvm_lf>(wanted.error());
  const auto all = api::structures_of(pool, *wanted);
  const auto lf = all ? api::open_one(pool, **all, name, *o, *wanted) : nvm::result<nvm_lf*>{all.error()};
  if (status s = api::if_intact(pool, lf ? status{} : status{lf.error()}); !s) {
    return api::report_null<nvm_lf>(s.error());
  }
  return *lf;
}

nvm_lf* nvm_lf_open_in(nvm_store* store, const char* name, const nvm_lf_options* options) {
  const nvm::platform::in_call here;
  const auto o = nvm::given_options<48>(options, "nvm_lf_options");
  if (!o) return api::report_null<nvm_lf>(o.error());
  const auto wanted = api::settings_for(name, *o);
  if (!wanted) return api::report_null<nvm_lf>(wanted.error());
  const auto lf = api::in_structures_of(
      store, *wanted, [&](api::open_structures& all) { return api::open_one(store->pool, all, name, *o, *wanted); });
  if (!lf && store == nullptr) return api::report_null<nvm_lf>(lf.error());
  if (status s = api::if_intact(store->pool, lf ? status{} : status{lf.error()}); !s) {
    return api::report_null<nvm_lf>(s.error());
  }
  return *lf;
}

int nvm_lf_drop(NVM_POOL* pool, const char* name) {
  const nvm::platform::in_call here;
  if (status s = api::usable_by_structures(pool); !s) return api::report(s.error());
  if (name == nullptr) return api::report(fail(errc::invalid, "the name of a lock-free structure is NULL"));
  if (status s = api::not_in_transaction(pool, "nvm_lf_drop()"); !s) return api::report(s.error());
  const auto all = api::structures_of(pool);
  if (!all) return api::report(all.error());
  return api::answer(api::drop_named(pool, **all, name, api::structures,
                                     [](const api::structure_side&) noexcept -> status { return {}; }));
}

int nvm_lf_drop_in(nvm_store* store, const char* name) {
  const nvm::platform::in_call here;
  if (name == nullptr) return api::report(fail(errc::invalid, "the name of a lock-free structure is NULL"));
  if (store == nullptr) return api::report(fail(errc::invalid, "the store is NULL"));
  if (status s = api::not_in_transaction(store->pool, "nvm_lf_drop_in()"); !s) return api::report(s.error());
  return api::answer(api::in_structures_of(store, {}, [&](api::open_structures& all) {
    return api::drop_named(store->pool, all, name, api::structures,
                           [](const api::structure_side&) noexcept -> status { return {}; });
  }));
}

int nvm_lf_names_in(nvm_store* store, int (*visit)(const char*, int, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  std::vector<std::pair<std::string, int>> found;
  {
    const nvm::platform::in_call here;
    const status s = api::in_structures_of(store, {}, [&](api::open_structures& all) -> status {
      const status listed = api::list_names(all, found);
      return listed ? api::medium_is_whole(store->pool) : listed;
    });
    if (!s) return api::report(s.error());
  }
  for (const auto& [name, kind] : found) {
    if (const int stop = visit(name.c_str(), kind, argument); stop != 0) return stop;
  }
  return 0;
}

nvm_store* nvm_lf_store_of(const nvm_lf* lf) { return lf == nullptr ? nullptr : lf->all->home; }

int nvm_lf_names(NVM_POOL* pool, int (*visit)(const char*, int, void*), void* argument) {
  std::optional<nvm::platform::in_call> here{std::in_place};
  if (status s = api::usable_by_structures(pool); !s) return api::report(s.error());
  const auto all = api::structures_of(pool);
  if (!all) return api::report(all.error());
  return api::names_of(pool, **all, visit, argument, here);
}

int nvm_lf_close(nvm_lf* lf) {
  const nvm::platform::in_call here;
  if (lf == nullptr) return api::report(fail(errc::invalid, "the lock-free structure is NULL"));
  // In a forked child a thread of the parent may hold the lock for ever.
  if (lf->all->process != nvm::platform::process_id()) return api::report(lf->pool->file->ours().error());
  const std::lock_guard guard{lf->all->lock};
  std::atomic_ref<uint32_t> opens{lf->opens};
  if (opens.load(std::memory_order_relaxed) == 0) {
    return api::report(fail(errc::invalid, "the lock-free structure was closed"));
  }
  opens.fetch_sub(1, std::memory_order_relaxed);
  return 0;
}

NVM_POOL* nvm_lf_pool(const nvm_lf* lf) { return lf == nullptr ? nullptr : lf->pool; }

int nvm_lf_kind_of(const nvm_lf* lf) {
  const nvm::platform::in_call here;
  if (status s = api::usable(lf); !s) return api::report(s.error());
  return static_cast<int>(lf->of->kind());
}

int nvm_lf_holds_bytes(const nvm_lf* lf) {
  const nvm::platform::in_call here;
  if (status s = api::usable(lf); !s) return api::report(s.error());
  return lf->of->of_bytes() ? 1 : 0;
}

}  // extern "C"
