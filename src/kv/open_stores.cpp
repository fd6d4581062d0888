// Key-value stores of the C interface: the stores of a pool by their names.
//
// Stores of index regions.  Their regions are made and dropped outside of transactions: a new store is entered as one
// that is being dropped, then its regions are made, then it gets its name; of a store that is dropped the regions go
// first.
//
// Directory.  The pool's anchor names the header of a B+tree that maps names to the places of the headers of stores.  A
// name that begins with a zero byte is of a store that is being dropped; the first call of a process that opens the
// directory goes on with the drop, and so do later calls where something was left.
//
// Threads.  A pool's registry of open stores has a lock, held by open, close, drop and rename alone; lock order: the
// registry, then the locks of the transaction.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/given_options.hpp"
#include "kv/cursor.hpp"
#include "kv/dropping.hpp"

nvm_kv::nvm_kv(nvm::keyed::stores& all, std::uint64_t header, const keyed::store_facts& facts, std::string name)
    : of{all}, store{all.bytes, header, facts, std::move(name)} {
  seen.mark = nvm::api::debugger_view::of_store;
  seen.name = store.name.c_str();
  seen.pool = all.pool;
  seen.kind = static_cast<std::uint32_t>(facts.index);
}

namespace nvm::keyed {

status check_name(const char* name) noexcept {
  const std::size_t n = name == nullptr ? 0 : std::strlen(name);
  if (n != 0 && n <= NVM_KV_NAME_MAX) return {};
  return fail(errc::invalid, "the name of a key-value store has %zu bytes: expected 1 to %u", n, NVM_KV_NAME_MAX);
}
status check_options(const nvm_kv_options& o) noexcept {
  if (o.index > static_cast<std::uint32_t>(nvm::layout::kv_last_index) || o.mode > NVM_KV_CREATE_ONLY)
    return fail(errc::invalid, "index %u or mode %u is none of nvm_kv_options", o.index, o.mode);
  if ((o.flags & ~unsigned{NVM_KV_NO_CHECKSUMS | NVM_KV_VERIFY_READS}) != 0)
    return fail(errc::invalid, "flags %u are none of enum nvm_kv_open_flags", o.flags);
  return {};
}

std::string place_name(const stores& all) {
  return all.home == nullptr ? std::string{} : " of store " + std::to_string(all.home->number);
}

// ---- directory ----

constexpr store_facts facts_of_directories{kv_index::btree, 0, true};

result<std::uint64_t> directory_place(nvm_stm* tx, stores& all) {
  if (all.home != nullptr) return api::key_values_of(*all.home);
  const void* found = anchor(tx, anchor_word::stores);
  return found == nullptr ? 0 : access{tx, all.bytes}.place_of(found);
}

status make_directory(stores& all, std::uint64_t& place) {
  if (all.home != nullptr) {
    return api::make_key_values(*all.home, layout::kv_type_header, sizeof(layout::kv_header), [&](std::uint64_t at) {
      place = at;
      fill_header(*reinterpret_cast<layout::kv_header*>(all.bytes.base + at), facts_of_directories, at);
    });
  }
  return run(all.pool, [&](nvm_stm* tx) -> status {
    if (status made = create_header(tx, all.bytes, facts_of_directories, place); !made) return made;
    if (set_anchor(tx, anchor_word::stores, all.bytes.base + place) != 0) return static_cast<errc>(nvm_errno());
    return {};
  });
}

namespace {

constexpr std::size_t dropped_name_bytes = 17;
void write_dropped_name(std::uint64_t place, char (&to)[dropped_name_bytes + 1]) noexcept {
  to[0] = '\0';
  std::snprintf(to + 1, sizeof to - 1, "%016lx", place);
}
}  // namespace

std::string dropped_name(std::uint64_t place) {
  char name[dropped_name_bytes + 1];
  write_dropped_name(place, name);
  return {name, dropped_name_bytes};
}

namespace {

// Place that an entry of the directory names; 0: there is none of this name.
status look_up(keyed::operation& op, std::string_view name, std::uint64_t& place) {
  keyed::record r;
  place = 0;
  if (status s = keyed::find(op, key_of(name), r); !s || r.place == 0) return s;
  if (r.sizes.value != sizeof place) return keyed::access::damaged("directory of stores", r.place);
  std::byte value[sizeof place + layout::record_sum_bytes];
  if (status s = keyed::read_value(op, key_of(name), r, true, value); !s) return s;
  std::memcpy(&place, value, sizeof place);
  return {};
}
status enter(keyed::operation& op, std::string_view name, std::uint64_t place) {
  return keyed::put(op, key_of(name), {reinterpret_cast<const std::byte*>(&place), sizeof place}, 0);
}

// Names a store as one that is being dropped.  Its root changes, to what it is: a transaction that has read it before,
// while the store was open, does not commit, nor does it see what the drop does later (still_open()).
status enter_dropped(keyed::operation& op, std::uint64_t place) {
  if (auto* const header = op.at<layout::kv_header>(place)) op.store(&header->root, op.load(&header->root));
  return enter(op, dropped_name(place), place);
}

status free_entries(nvm_kv& doomed, const drop_progress& tell) {
  std::uint64_t all = 0;
  std::uint64_t done = 0;
  if (tell.call != nullptr) {
    const status s = run_on(doomed, [&](keyed::operation& op) -> status {
      all = op.count.sum(op).entries;
      return {};
    });
    if (!s) return s;
  }
  keyed::fetch_from from;
  for (bool ended = false; !ended;) {
    keyed::fetch_from next;
    unsigned freed = 0;
    const status s = run_on(doomed, [&](keyed::operation& op) {
      next = from;
      return keyed::free_some(op, next, freed, ended);
    });
    if (!s) return s;
    from = next;
    done += freed;
    if (tell.call != nullptr) tell.call(done, std::max(done, all), tell.argument);
  }
  return {};
}

// Frees a dropped store, one batch of entries after the other.
status finish_drop(stores& all, std::uint64_t place, const drop_progress& tell = {}) {
  keyed::store_facts facts;
  if (status s = run(all.pool, [&](nvm_stm* tx) { return keyed::read_header({tx, all.bytes}, place, facts); }); !s) {
    return s;
  }
  nvm_kv doomed{all, place, facts, dropped_name(place)};
  doomed.store.handles.store(1, std::memory_order_relaxed);
  // A name that could not be removed in the end would be the drop of whatever has the place then.
  std::uint64_t named = 0;
  const status found =
      run_on(*all.directory, [&](keyed::operation& op) { return look_up(op, doomed.store.name, named); });
  if (!found) return found;
  if (named != place) return keyed::access::damaged("directory of stores", place);
  if (facts.index == keyed::kv_index::regions) {
    if (status s = keyed::lewat::drop_set(all.pool, facts.seed); !s) return s;
  }
  if (facts.index != keyed::kv_index::regions) {
    if (status s = free_entries(doomed, tell); !s) return s;
  }
  for (bool done = false; !done;) {
    const status s = run(all.pool, [&](nvm_stm* tx) -> status {
      keyed::operation op{tx, doomed.store};
      if (status d = keyed::dismantle(op, done); !d || !done) return d;
      keyed::operation names{tx, all.directory->store};
      bool removed = false;
      if (status gone = keyed::remove(names, key_of(doomed.store.name), removed); !gone) return gone;
      return removed ? status{} : status{keyed::access::damaged("directory of stores", place)};
    });
    if (!s) return s;
  }
  return {};
}

// Pages of extents that are empty now are the pool's.
void give_pages_back(stores& all) noexcept {
  trim_wishes wishes;
  wishes.inside_only = true;
  wishes.indexes = false;
  trim_outcome out;
  (void)all.pool->engine->trim(wishes, out);  // what stays is room all the same
}

// Whether a later call may go on with a drop that has failed: unless the medium has. A set of regions cannot go while a
// transaction of regions is open somewhere; the rest of a damaged store is lost room, and the other stores can be used.
bool may_go_on(const status& failed) noexcept { return failed.error() != errc::in_doubt && failed.error() != errc::io; }

// Finishes the drop of a store whose name is gone for good: what of it fails is left for a later call, and is no
// failure of this one. True: all of it has gone.
bool finish_or_leave(stores& all, std::uint64_t place, const drop_progress& tell = {}) noexcept {
  status done;
  try {
    done = finish_drop(all, place, tell);
  } catch (const std::bad_alloc&) {
    done = errc::no_memory;
  }
  if (!done && may_go_on(done)) all.drops_left = true;
  return done.has_value();
}

// Finishes all drops, but for stores that cannot go yet.
status finish_drops(stores& all) {
  all.drops_left = true;  // until all have gone, whatever ends this
  bool some_stay = false;
  std::string passed;  // the name of the last one
  for (;;) {
    std::uint64_t place = 0;
    class first_dropped final : public keyed::receiver {
     public:
      explicit first_dropped(std::uint64_t& place) noexcept : place_{place} {}
      // One byte that is damaged may make any name look like one of these: all of it has to hold.
      status add(const keyed::operation& a, const keyed::record& r, bool& more) override {
        char name[dropped_name_bytes] = {1};
        more = false;
        if (r.sizes.key != 0) a.read(name, keyed::key_of(a, r), std::min<std::uint64_t>(r.sizes.key, sizeof name));
        if (name[0] != '\0') return {};
        more = true;
        std::uint64_t place = 0;
        if (r.sizes.key != sizeof name || r.sizes.value != sizeof place) return {};
        std::byte value[sizeof place + layout::record_sum_bytes];
        const keyed::key k{reinterpret_cast<const std::byte*>(name), sizeof name};
        if (status s = keyed::read_value(a, k, r, true, value); !s) return s.error() == errc::corrupt ? status{} : s;
        std::memcpy(&place, value, sizeof place);
        char right[dropped_name_bytes + 1];
        write_dropped_name(place, right);
        if (std::memcmp(name, right, sizeof name) != 0) return {};
        place_ = place;
        more = false;
        return {};
      }
      status skip(std::uint64_t) override { return {}; }

     private:
      std::uint64_t& place_;
    };
    const status s = run_on(*all.directory, [&](keyed::operation& op) {
      place = 0;
      first_dropped first{place};
      keyed::fetch_from from;
      if (!passed.empty()) from = {key_of(passed), true, false};
      bool ended = false;
      return keyed::fetch(op, from, first, ended);
    });
    if (s && place == 0) all.drops_left = some_stay;
    if (!s || place == 0) return s;
    const status done = finish_drop(all, place);
    if (!done) {
      if (!may_go_on(done)) return done;
      some_stay = true;
      std::string next = dropped_name(place);
      // Names come in their order, unless they are damaged.
      if (next <= passed) return keyed::access::damaged("directory of stores", place);
      passed = std::move(next);
    }
  }
}

errc not_attached(const stores& all) noexcept {
  return fail(errc::invalid, "store \"%s\" is not attached", all.home->name.c_str());
}
status for_change(const stores& all) noexcept {
  if (all.home == nullptr || !all.home->read_only) return {};
  return fail(errc::read_only, "store \"%s\" is attached read-only", all.home->name.c_str());
}

// With the registry's lock held.  `create`: makes the directory if there is none.
status open_directory(stores& all, bool create) {
  if (all.is_shut) return not_attached(all);
  if (all.directory != nullptr) {
    // A store that still cannot go is no failure of this call.
    if (all.drops_left && nvm_stm_current() == nullptr && !finish_drops(all)) all.drops_left = true;
    return {};
  }
  std::uint64_t place = 0;
  store_facts facts = facts_of_directories;
  const status s = run(all.pool, [&](nvm_stm* tx) -> status {
    const auto found = directory_place(tx, all);
    if (!found) return found.error();
    place = *found;
    return place == 0 ? status{} : read_header({tx, all.bytes}, place, facts);
  });
  if (!s) return s;
  if (place == 0 && create) {
    if (status made = make_directory(all, place); !made) return made;
  }
  if (place == 0) return {};
  if (facts.index != kv_index::btree) return access::damaged("directory of stores", place);
  all.directory = std::make_unique<nvm_kv>(all, place, facts, std::string{});
  all.directory->store.handles.store(1, std::memory_order_relaxed);
  return all.read_only() ? status{} : finish_drops(all);
}

result<stores*> stores_of(NVM_POOL* pool, const char* call) {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s.error();
  if (status s = not_in_barriers(call, "it before the transaction or after it"); !s) return s.error();
  if (status s = not_in_announced(); !s) return s.error();
  const std::lock_guard guard{pool->stores_lock};
  if (pool->stores == nullptr) pool->stores = std::make_shared<stores>(pool);
  return static_cast<stores*>(pool->stores.get());
}

result<std::uint64_t> new_seed() noexcept {
  std::uint64_t seed = 0;
  if (status s = platform::random_bytes(&seed, sizeof seed); !s) return s.error();
  return seed;
}

// The regions of a store that was entered as one that is being dropped, then its name.
status finish_regions(stores& all, const char* name, std::uint64_t place, std::uint64_t seed) {
  status s = keyed::lewat::make_set(all.pool, seed);
  if (s) {
    s = run_on(*all.directory, [&](keyed::operation& op) -> status {
      bool removed = false;
      if (status gone = keyed::remove(op, key_of(dropped_name(place)), removed); !gone) return gone;
      return enter(op, name, place);
    });
  }
  if (s || s.error() == errc::in_doubt) return s;
  const errc why = s.error();
  const std::string said = last_message();
  // What cannot be taken back now is taken back by a later call.
  (void)finish_or_leave(all, place);
  return fail(why, "%s", said.c_str());
}

// Makes a store ready that no other thread knows yet: its handle is open from here on.
status get_ready(nvm_kv& kv) {
  kv.store.handles.store(1, std::memory_order_relaxed);
  if (kv.store.index == kv_index::hash)
    return run_on(kv, [](keyed::operation& op) { return keyed::hash::find_hint(op); });
  if (kv.store.index != kv_index::regions) return {};
  kv.regions = std::make_shared<keyed::lewat::regions_index>(kv.store, kv.of.pool);
  return kv.regions->open();
}

}  // namespace

status open_named(stores& all, const char* name, const nvm_kv_options& o, nvm_kv*& out) {
  const std::lock_guard guard{all.lock};
  if (all.is_shut) return not_attached(all);
  const auto wanted = static_cast<keyed::kv_index>(o.index);
  const auto differs = [&](keyed::kv_index stored) {
    if (o.index == NVM_KV_DETECT || stored == wanted) return status{};
    return status{fail(errc::type_mismatch, "%s: key-value store \"%s\" has index %s, not %s", all.pool->file->path(),
                       name, keyed::name_of(stored), keyed::name_of(wanted))};
  };
  const auto exists = [&] {
    return fail(errc::exists, "%s: there is a key-value store \"%s\"", all.pool->file->path(), name);
  };
  if (const auto found = all.open.find(name); found != all.open.end()) {
    if (o.mode == NVM_KV_CREATE_ONLY) return exists();
    if (status s = differs(found->second->store.index); !s) return s;
    out = found->second.get();
    // relaxed: calls that run meanwhile may do either.
    const bool verify = (o.flags & NVM_KV_VERIFY_READS) != 0;
    const bool first = out->store.handles.fetch_add(1, std::memory_order_relaxed) == 0;
    if (verify || first) out->store.verify_reads.store(verify, std::memory_order_relaxed);
    return {};
  }
  if (all.home != nullptr && wanted == kv_index::regions) {
    return fail(errc::invalid, "key-value store \"%s\": regions have pages of their own, and none in an object store",
                name);
  }
  if (status s = open_directory(all, o.mode != NVM_KV_OPEN_ONLY && for_change(all)); !s) return s;
  // Before the transaction, which cannot make regions; if the store exists, its index is looked up first.
  const bool may_need_set = wanted == keyed::kv_index::regions && o.mode != NVM_KV_OPEN_ONLY;
  const keyed::lewat::kept_message refused{may_need_set ? keyed::lewat::can_have_sets(all.pool) : status{}};
  std::uint64_t place = 0;
  keyed::store_facts facts;
  bool is_new = false;
  const auto fresh_seed = new_seed();
  if (!fresh_seed) return fresh_seed.error();
  if (all.directory != nullptr) {
    const status s = run(all.pool, [&](nvm_stm* tx) -> status {
      keyed::operation names{tx, all.directory->store};
      if (status found = look_up(names, name, place); !found) return found;
      is_new = false;
      if (place != 0) {
        if (o.mode == NVM_KV_CREATE_ONLY) return exists();
        if (status read = keyed::read_header(names, place, facts); !read) return read;
        return differs(facts.index);
      }
      if (o.mode == NVM_KV_OPEN_ONLY) return {};
      if (status s = for_change(all); !s) return s;
      if (status s = refused.again(); !s) return s;
      facts = {o.index == NVM_KV_DETECT ? keyed::kv_index::btree : wanted, *fresh_seed,
               (o.flags & NVM_KV_NO_CHECKSUMS) == 0};
      if (status made = keyed::create_header(tx, all.bytes, facts, place); !made) return made;
      is_new = true;
      return enter(names, facts.index == keyed::kv_index::regions ? dropped_name(place) : name, place);
    });
    if (!s) return s;
  }
  if (place == 0) {
    if (status s = for_change(all); !s && o.mode != NVM_KV_OPEN_ONLY) return s;
    return fail(errc::not_found, "%s: there is no key-value store \"%s\"", all.pool->file->path(), name);
  }
  if (is_new && facts.index == keyed::kv_index::regions) {
    if (status s = finish_regions(all, name, place, facts.seed); !s) return s;
  }
  auto opened = std::make_unique<nvm_kv>(all, place, facts, name);
  if ((o.flags & NVM_KV_VERIFY_READS) != 0) opened->store.verify_reads.store(true, std::memory_order_relaxed);
  if (status s = get_ready(*opened); !s) return s;
  out = all.open.emplace(name, std::move(opened)).first->second.get();
  return {};
}

namespace {

status not_open(const stores& all, const char* name) {
  if (status s = for_change(all); !s) return s;
  const auto known = all.open.find(name);
  if (known == all.open.end()) return {};
  // acquire: pairs with nvm_kv_close().
  if (known->second->store.handles.load(std::memory_order_acquire) == 0) {
    if (known->second->regions != nullptr) known->second->regions->await_calls();
    return {};
  }
  return fail(errc::busy, "%s: key-value store \"%s\" is open", all.pool->file->path(), name);
}
// Makes forget() able to keep two stores more. May throw std::bad_alloc: before a change.
void expect_to_forget(stores& all) {
  if (all.gone.capacity() - all.gone.size() < 2) all.gone.reserve(2 * all.gone.size() + 16);
}
// Forgets the store of that name: from now on the name belongs to another store, or to none.
void forget(stores& all, const char* name) noexcept {
  const auto known = all.open.find(name);
  if (known == all.open.end()) return;
  all.gone.push_back(std::move(known->second));
  all.open.erase(known);
  if (all.gone.size() <= stores::whole_max) return;
  // Calls that began before it was closed keep the index, or have ended (not_open()).  What a hash table knows of its
  // segments stays: a transaction may look there until it is over.
  all.gone[all.gone.size() - stores::whole_max - 1]->regions.reset();
}
errc none_of_name(const stores& all, const char* name) {
  return fail(errc::not_found, "%s: there is no key-value store \"%s\"", all.pool->file->path(), name);
}

}  // namespace

// dropped: whether all of it has gone.
status drop_named_store(stores& all, const char* name, const drop_progress& tell, bool& dropped) {
  const std::lock_guard guard{all.lock};
  expect_to_forget(all);
  if (status s = not_open(all, name); !s) return s;
  if (status s = open_directory(all, false); !s) return s;
  if (all.directory == nullptr) return none_of_name(all, name);
  std::uint64_t place = 0;
  const status s = run_on(*all.directory, [&](keyed::operation& op) -> status {
    if (status found = look_up(op, name, place); !found) return found;
    if (place == 0) return none_of_name(all, name);
    bool removed = false;
    if (status gone = keyed::remove(op, key_of(name), removed); !gone) return gone;
    return enter_dropped(op, place);
  });
  if (!s) return s;
  forget(all, name);
  dropped = finish_or_leave(all, place, tell);
  return {};
}
// A trim waits for barrier transactions, which may wait for the registry.
status drop_store(stores& all, const char* name, const drop_progress& tell) {
  bool dropped = false;
  const status s = drop_named_store(all, name, tell, dropped);
  if (dropped) give_pages_back(all);
  return s;
}

status rename_store(stores& all, const char* name, const char* new_name) {
  const std::lock_guard guard{all.lock};
  expect_to_forget(all);
  if (status s = not_open(all, name); !s) return s;
  if (status s = not_open(all, new_name); !s) return s;
  if (status s = open_directory(all, false); !s) return s;
  if (all.directory == nullptr) return none_of_name(all, name);
  const bool stays = std::strcmp(name, new_name) == 0;
  std::uint64_t replaced = 0;
  const status s = run_on(*all.directory, [&](keyed::operation& op) -> status {
    std::uint64_t place = 0;
    bool removed = false;
    if (status found = look_up(op, name, place); !found) return found;
    if (place == 0) return none_of_name(all, name);
    if (stays) return {};
    if (status found = look_up(op, new_name, replaced); !found) return found;
    if (status gone = keyed::remove(op, key_of(name), removed); !gone) return gone;
    if (replaced != 0) {
      if (status e = enter_dropped(op, replaced); !e) return e;
    }
    return enter(op, new_name, place);
  });
  if (!s || stays) return s;
  forget(all, name);
  forget(all, new_name);
  if (replaced != 0) (void)finish_or_leave(all, replaced);
  return {};
}

// ---- an object store's own ----

stores::stores(nvm_store& in, engines::store_side& side) : stores{in.pool} {
  home = &in;
  bytes.home = std::make_unique<home_of_stores>(in.attached_as(), pool->file->geometry().page_shift);
  bytes.home->ask_by([](void* about, open_store& s, std::uint64_t place,
                        std::uint64_t n) { return static_cast<engines::store_side*>(about)->has(s, place, n); },
                     &side);
}

bool stores::in_use() noexcept {
  const std::lock_guard inside{lock};
  return std::any_of(open.begin(), open.end(),
                     [](const auto& of) { return of.second->store.handles.load(std::memory_order_relaxed) != 0; });
}

status stores::shut() noexcept {
  const std::lock_guard inside{lock};
  for (const auto& [name, of] : open) {
    if (of->store.handles.load(std::memory_order_relaxed) == 0) continue;
    return fail(errc::busy, "store \"%s\": its key-value store \"%s\" is open", home->name.c_str(), name.c_str());
  }
  is_shut = true;
  return {};
}
void stores::reopen() noexcept {
  const std::lock_guard inside{lock};
  is_shut = false;
}

status list_stores(stores& all, std::vector<named_index>& found) {
  const std::lock_guard guard{all.lock};
  if (status opened = open_directory(all, false); !opened || all.directory == nullptr) return opened;
  nvm_kv_cursor cursor{*all.directory};
  cursor.left = UINT64_MAX;
  nvm_kv_entry e;
  int more = 0;
  while ((more = nvm_kv_cursor_next(&cursor, &e)) > 0) {
    const std::string name{static_cast<const char*>(e.key), e.key_bytes};
    std::uint64_t place = 0;
    if (name.empty() || name[0] == '\0') continue;
    if (e.value_bytes != sizeof place) return access::damaged("directory of stores", 0);
    std::memcpy(&place, e.value, sizeof place);
    store_facts facts;
    const status read = run(all.pool, [&](nvm_stm* tx) { return read_header({tx, all.bytes}, place, facts); });
    if (!read) return read;
    found.emplace_back(name, static_cast<enum nvm_kv_index>(facts.index));
  }
  return more == 0 ? status{} : status{static_cast<errc>(nvm_errno())};
}

namespace {

// Calls `call`, of function `name`, where what it does may run out of memory; not inside of a transaction.
template <class Call>
status guarded(NVM_POOL* pool, const char* name, Call&& call) noexcept try {
  auto all = stores_of(pool, name);
  if (!all) return all.error();
  return answer_about_names(pool, call(**all));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a key-value store");
}

}  // namespace
}  // namespace nvm::keyed

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

nvm_kv* nvm_kv_open(NVM_POOL* pool, const char* name, const nvm_kv_options* options) {
  const nvm::platform::in_call here;
  const auto known = nvm::given_options<56>(options, "nvm_kv_options");
  if (!known) return api::report_null<nvm_kv>(known.error());
  const nvm_kv_options& o = *known;
  if (nvm::status s = keyed::check_name(name); !s) return api::report_null<nvm_kv>(s.error());
  if (nvm::status s = keyed::check_options(o); !s) return api::report_null<nvm_kv>(s.error());
  nvm_kv* out = nullptr;
  const nvm::status s =
      keyed::guarded(pool, "nvm_kv_open()", [&](keyed::stores& all) { return keyed::open_named(all, name, o, out); });
  return s ? out : api::report_null<nvm_kv>(s.error());
}

int nvm_kv_close(nvm_kv* kv) {
  const nvm::platform::in_call here;
  if (kv == nullptr) return api::report(fail(errc::invalid, "the key-value store is NULL"));
  // Without the registry's lock: a drop holds it while it waits for the transactions that are open, and this may be
  // inside of one.
  auto& handles = kv->store.handles;
  unsigned now = handles.load(std::memory_order_relaxed);
  // release: pairs with the acquire of a drop, which comes after what this thread did with the store.
  while (now != 0 &&
         !handles.compare_exchange_weak(now, now - 1, std::memory_order_release, std::memory_order_relaxed)) {
  }
  if (now != 0) return 0;
  return api::report(keyed::was_closed(kv->store));
}

int nvm_kv_has_checksums(const nvm_kv* kv) { return kv != nullptr && kv->store.sums.on ? 1 : 0; }
NVM_POOL* nvm_kv_pool(const nvm_kv* kv) { return kv == nullptr ? nullptr : kv->of.pool; }
const char* nvm_kv_name(const nvm_kv* kv) { return kv == nullptr ? "" : kv->store.name.c_str(); }
enum nvm_kv_index nvm_kv_index_of(const nvm_kv* kv) {
  return kv == nullptr ? NVM_KV_DETECT : static_cast<enum nvm_kv_index>(kv->store.index);
}
const char* nvm_kv_index_name(int index) { return keyed::name_of(static_cast<keyed::kv_index>(index)); }

int nvm_kv_each(NVM_POOL* pool, int (*visit)(const char*, enum nvm_kv_index, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  std::optional<nvm::platform::in_call> here{std::in_place};
  std::vector<keyed::named_index> found;
  const nvm::status s =
      keyed::guarded(pool, "nvm_kv_each()", [&](keyed::stores& all) { return keyed::list_stores(all, found); });
  if (!s) return api::report(s.error());
  here.reset();
  for (const auto& [name, index] : found) {
    if (const int stop = visit(name.c_str(), index, argument); stop != 0) return stop;
  }
  return 0;
}

int nvm_kv_drop(NVM_POOL* pool, const char* name) {
  const nvm::platform::in_call here;
  if (nvm::status s = keyed::check_name(name); !s) return api::report(s.error());
  return api::answer(
      keyed::guarded(pool, "nvm_kv_drop()", [&](keyed::stores& all) { return keyed::drop_store(all, name); }));
}

int nvm_kv_drop_with(NVM_POOL* pool, const char* name, const nvm_kv_drop_options* options) {
  const nvm::platform::in_call here;
  const auto known = nvm::given_options<48>(options, "nvm_kv_drop_options");
  if (!known) return api::report(known.error());
  const nvm_kv_drop_options& o = *known;
  if (nvm::status s = keyed::check_name(name); !s) return api::report(s.error());
  const keyed::drop_progress tell{o.progress, o.argument};
  return api::answer(keyed::guarded(pool, "nvm_kv_drop_with()",
                                    [&](keyed::stores& all) { return keyed::drop_store(all, name, tell); }));
}

int nvm_kv_rename(NVM_POOL* pool, const char* name, const char* new_name) {
  const nvm::platform::in_call here;
  if (nvm::status s = keyed::check_name(name); !s) return api::report(s.error());
  if (nvm::status s = keyed::check_name(new_name); !s) return api::report(s.error());
  return api::answer(keyed::guarded(pool, "nvm_kv_rename()",
                                    [&](keyed::stores& all) { return keyed::rename_store(all, name, new_name); }));
}

}  // extern "C"
