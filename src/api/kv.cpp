// Key-value stores of the C interface: the stores of a pool by their names, and each call as a transaction.
//
// Directory.  The pool's anchor names the header of a B+tree that maps names to the places of the headers of stores.  A
// name that begins with a zero byte is of a store that is being dropped; whoever opens the directory first in a process
// goes on with that.
//
// Threads.  A pool's registry of open stores has a lock, held by open, close, drop and rename alone; lock order: the
// registry, then whatever the transaction takes.
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "api/pool_object.hpp"
#include "kv/kv.hpp"
#include "nvm/kv.h"
#include "nvm/stm.h"

namespace keyed = nvm::keyed;
namespace layout = nvm::layout;

struct nvm_kv {
  nvm_kv(nvm::api::stores& of, std::uint64_t header, keyed::kv_index index, std::uint64_t seed, std::string name);
  nvm::api::stores& of;
  keyed::store store;
};

namespace nvm::api {

static_assert(NVM_KV_LIST == static_cast<int>(keyed::kv_index::list) &&
              NVM_KV_RBTREE == static_cast<int>(keyed::kv_index::rbtree));
static_assert(NVM_KV_KEY_MAX == layout::kv_key_bytes_max && NVM_KV_VALUE_MAX == layout::kv_value_bytes_max &&
              NVM_KV_NAME_MAX == layout::kv_name_bytes_max);
static_assert(NVM_KV_PUT_ABSENT == unsigned{keyed::put_absent} && NVM_KV_PUT_PRESENT == unsigned{keyed::put_present} &&
              NVM_KV_PUT_NEW == unsigned{keyed::put_new});

// The stores of one pool that are open in this process.
struct stores {
  explicit stores(NVM_POOL* p) noexcept : pool{p} {
    const geometry g = p->file->geometry();
    bytes.base = p->base();
    bytes.first = g.data_offset;
    bytes.limit.store(g.size_bytes(), std::memory_order_relaxed);
    bytes.limit_now = [](NVM_POOL* of) { return of->file->geometry().size_bytes(); };
    bytes.pool = p;
  }
  NVM_POOL* pool;
  keyed::pool_bytes bytes;
  std::mutex lock;
  std::map<std::string, std::unique_ptr<nvm_kv>, std::less<>> open;
  std::unique_ptr<nvm_kv> directory;  // null: not looked for, or there is none yet
};

namespace {

enum : int { left_by_us = 1 };

// Runs call(tx) -> status as a transaction, or as a level of the one that is open.
template <class Call>
status run(NVM_POOL* pool, Call&& call, bool* alone = nullptr) {
  struct closure {
    Call& call;
    errc code = errc::ok;
  } c{call};
  const bool outermost = nvm_stm_current() == nullptr;
  if (alone != nullptr) *alone = outermost;
  keyed::scratch::begin(outermost);
  const int ended = nvm_stm_run(
      pool,
      [](nvm_stm* tx, void* raw) -> int {
        auto* k = static_cast<closure*>(raw);
        keyed::scratch::of_thread().reset();
        const status s = k->call(tx);
        k->code = s.error();
        return s ? 0 : left_by_us;
      },
      &c);
  if (ended == 0) return {};
  if (ended == left_by_us) return c.code;
  return static_cast<errc>(nvm_errno());
}

// Runs call(operation&) -> status on a store.
template <class Call>
status run_on(nvm_kv& kv, Call&& call) {
  keyed::lessons learnt;
  bool alone = false;
  const status s = run(
      kv.of.pool,
      [&](nvm_stm* tx) -> status {
        keyed::operation op{tx, kv.store};
        const status done = call(op);
        learnt = op.learnt;
        return done;
      },
      &alone);
  if (s && alone) keyed::learn(kv.store, learnt);
  return s;
}

status usable(const nvm_kv* kv) noexcept {
  if (kv == nullptr) return fail(errc::invalid, "the key-value store is NULL");
  return kv->of.pool->file->usable();
}

status check_name(const char* name) noexcept {
  const std::size_t n = name == nullptr ? 0 : std::strlen(name);
  if (n != 0 && n <= NVM_KV_NAME_MAX) return {};
  return fail(errc::invalid, "the name of a key-value store has %zu bytes: expected 1 to %u", n, NVM_KV_NAME_MAX);
}

// ---- directory ----

keyed::key key_of(std::string_view name) noexcept {
  return {reinterpret_cast<const std::byte*>(name.data()), static_cast<std::uint32_t>(name.size()), 0};
}
std::string dropped_name(std::uint64_t place) {
  std::string name(1, '\0');
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016lx", place);
  return name + digits;
}

// Place that an entry of the directory names; 0: there is none of this name.
status look_up(keyed::operation& op, std::string_view name, std::uint64_t& place) {
  keyed::record r;
  place = 0;
  if (status s = keyed::find(op, key_of(name), r); !s || r.place == 0) return s;
  if (r.sizes.value != sizeof place) return keyed::access::damaged("directory of stores", r.place);
  op.read(&place, keyed::value_of(op, r), sizeof place);
  return {};
}
status enter(keyed::operation& op, std::string_view name, std::uint64_t place) {
  return keyed::put(op, key_of(name), {reinterpret_cast<const std::byte*>(&place), sizeof place}, 0);
}

// Frees a dropped store, one batch of entries after the other.
status finish_drop(stores& all, std::uint64_t place) {
  keyed::kv_index index{};
  std::uint64_t seed = 0;
  if (status s = run(all.pool, [&](nvm_stm* tx) { return keyed::read_header({tx, all.bytes}, place, index, seed); });
      !s) {
    return s;
  }
  nvm_kv doomed{all, place, index, seed, dropped_name(place)};
  for (bool found = true; found;) {
    found = false;
    keyed::fetch_from from;
    for (bool ended = false; !ended;) {
      keyed::fetch_from next;
      unsigned removed = 0;
      const status s = run_on(doomed, [&](keyed::operation& op) {
        // Of a hash table what comes behind the last bucket; of others what is first now.
        next = index == keyed::kv_index::hash ? from : keyed::fetch_from{};
        return keyed::empty_some(op, next, removed, ended);
      });
      if (!s) return s;
      found = found || removed != 0;
      from = next;
    }
  }
  for (bool done = false; !done;) {
    const status s = run(all.pool, [&](nvm_stm* tx) -> status {
      keyed::operation op{tx, doomed.store};
      if (status d = keyed::dismantle(op, done); !d || !done) return d;
      keyed::operation names{tx, all.directory->store};
      bool removed = false;
      return keyed::remove(names, key_of(doomed.store.name), removed);
    });
    if (!s) return s;
  }
  return {};
}

status finish_drops(stores& all) {
  for (;;) {
    std::uint64_t place = 0;
    class first_dropped final : public keyed::receiver {
     public:
      explicit first_dropped(std::uint64_t& place) noexcept : place_{place} {}
      status add(const keyed::access& a, const keyed::record& r, bool& more) override {
        more = false;
        std::byte first{1};
        if (r.sizes.key != 0) a.read(&first, keyed::key_of(a, r), 1);
        if (first != std::byte{0}) return {};
        if (r.sizes.value != sizeof place_) return keyed::access::damaged("directory of stores", r.place);
        a.read(&place_, keyed::value_of(a, r), sizeof place_);
        return {};
      }

     private:
      std::uint64_t& place_;
    };
    const status s = run_on(*all.directory, [&](keyed::operation& op) {
      place = 0;
      first_dropped first{place};
      keyed::fetch_from from;
      bool ended = false;
      return keyed::fetch(op, from, first, ended);
    });
    if (!s || place == 0) return s;
    if (status done = finish_drop(all, place); !done) return done;
  }
}

// With the registry's lock held.  `create`: makes the directory if there is none.
status open_directory(stores& all, bool create) {
  if (all.directory != nullptr) return {};
  std::uint64_t place = 0;
  keyed::kv_index index{};
  std::uint64_t seed = 0;
  const status s = run(all.pool, [&](nvm_stm* tx) -> status {
    const keyed::access a{tx, all.bytes};
    const void* found = anchor(tx, anchor_word::stores);
    place = found == nullptr ? 0 : a.place_of(found);
    if (place != 0) return keyed::read_header(a, place, index, seed);
    if (!create) return {};
    index = keyed::kv_index::btree;
    if (status made = keyed::create_header(tx, all.bytes, index, 0, place); !made) return made;
    if (set_anchor(tx, anchor_word::stores, all.bytes.base + place) != 0) return static_cast<errc>(nvm_errno());
    return {};
  });
  if (!s || place == 0) return s;
  if (index != keyed::kv_index::btree) return keyed::access::damaged("directory of stores", place);
  all.directory = std::make_unique<nvm_kv>(all, place, index, seed, std::string{});
  return all.pool->file->read_only() ? status{} : finish_drops(all);
}

result<stores*> stores_of(NVM_POOL* pool) {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s.error();
  if (nvm_stm_current() != nullptr || thread_transactions::mine().in(pool) != nullptr) {
    return fail(errc::tx_open, "%s: a transaction of this thread is open", pool->file->path());
  }
  const std::lock_guard guard{pool->stores_lock};
  if (pool->stores == nullptr) pool->stores = std::make_shared<stores>(pool);
  return pool->stores.get();
}

std::uint64_t new_seed() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

status open_store(stores& all, const char* name, const nvm_kv_options& o, nvm_kv*& out) {
  const std::lock_guard guard{all.lock};
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
    ++out->store.handles;
    return {};
  }
  if (status s = open_directory(all, o.mode != NVM_KV_OPEN_ONLY); !s) return s;
  std::uint64_t place = 0;
  keyed::kv_index index{};
  std::uint64_t seed = 0;
  const std::uint64_t fresh_seed = new_seed();
  if (all.directory != nullptr) {
    const status s = run(all.pool, [&](nvm_stm* tx) -> status {
      keyed::operation names{tx, all.directory->store};
      if (status found = look_up(names, name, place); !found) return found;
      if (place != 0) {
        if (o.mode == NVM_KV_CREATE_ONLY) return exists();
        if (status read = keyed::read_header(names, place, index, seed); !read) return read;
        return differs(index);
      }
      if (o.mode == NVM_KV_OPEN_ONLY) return {};
      index = o.index == NVM_KV_DETECT ? keyed::kv_index::btree : wanted;
      seed = fresh_seed;
      if (status made = keyed::create_header(tx, all.bytes, index, seed, place); !made) return made;
      return enter(names, name, place);
    });
    if (!s) return s;
  }
  if (place == 0) {
    return fail(errc::not_found, "%s: there is no key-value store \"%s\"", all.pool->file->path(), name);
  }
  auto opened = std::make_unique<nvm_kv>(all, place, index, seed, name);
  if (index == keyed::kv_index::hash) {
    const status s = run_on(*opened, [](keyed::operation& op) { return keyed::hash::find_hint(op); });
    if (!s) return s;
  }
  opened->store.handles = 1;
  out = all.open.emplace(name, std::move(opened)).first->second.get();
  return {};
}

status not_open(const stores& all, const char* name) {
  if (all.open.find(name) == all.open.end()) return {};
  return fail(errc::busy, "%s: key-value store \"%s\" is open", all.pool->file->path(), name);
}
errc none_of_name(const stores& all, const char* name) {
  return fail(errc::not_found, "%s: there is no key-value store \"%s\"", all.pool->file->path(), name);
}

status drop_store(stores& all, const char* name) {
  const std::lock_guard guard{all.lock};
  if (status s = not_open(all, name); !s) return s;
  if (status s = open_directory(all, false); !s) return s;
  if (all.directory == nullptr) return none_of_name(all, name);
  std::uint64_t place = 0;
  const status s = run_on(*all.directory, [&](keyed::operation& op) -> status {
    if (status found = look_up(op, name, place); !found) return found;
    if (place == 0) return none_of_name(all, name);
    bool removed = false;
    if (status gone = keyed::remove(op, key_of(name), removed); !gone) return gone;
    return enter(op, dropped_name(place), place);
  });
  return s ? finish_drop(all, place) : s;
}

status rename_store(stores& all, const char* name, const char* new_name) {
  const std::lock_guard guard{all.lock};
  if (status s = not_open(all, name); !s) return s;
  if (status s = not_open(all, new_name); !s) return s;
  if (status s = open_directory(all, false); !s) return s;
  if (all.directory == nullptr) return none_of_name(all, name);
  if (std::strcmp(name, new_name) == 0) return {};
  std::uint64_t replaced = 0;
  const status s = run_on(*all.directory, [&](keyed::operation& op) -> status {
    std::uint64_t place = 0;
    bool removed = false;
    if (status found = look_up(op, name, place); !found) return found;
    if (place == 0) return none_of_name(all, name);
    if (status found = look_up(op, new_name, replaced); !found) return found;
    if (status gone = keyed::remove(op, key_of(name), removed); !gone) return gone;
    if (replaced != 0) {
      if (status e = enter(op, dropped_name(replaced), replaced); !e) return e;
    }
    return enter(op, new_name, place);
  });
  return s && replaced != 0 ? finish_drop(all, replaced) : s;
}

// Calls `call` where what it does may run out of memory.
template <class Call>
status guarded(NVM_POOL* pool, Call&& call) noexcept try {
  auto all = stores_of(pool);
  if (!all) return all.error();
  return call(**all);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a key-value store");
}

// ---- entries ----

status check_put(const nvm_kv* kv, const void* key, std::size_t key_bytes, const void* value, std::size_t value_bytes,
                 unsigned flags, keyed::key& out) noexcept {
  if (status s = usable(kv); !s) return s;
  constexpr unsigned known = NVM_KV_PUT_ABSENT | NVM_KV_PUT_PRESENT | NVM_KV_PUT_NEW;
  if ((flags & ~known) != 0 || (flags & (flags - 1)) != 0) {
    return fail(errc::invalid, "flags %u are none of enum nvm_kv_put_flags", flags);
  }
  if (value == nullptr && value_bytes != 0) return fail(errc::invalid, "the value is NULL");
  if (status s = keyed::check_value(value_bytes); !s) return s;
  return keyed::prepare_key(kv->store, key, key_bytes, out);
}

// While a function of the caller runs, which may use stores.  A conflict of the transaction around leaves without an
// end; then a hook of that transaction goes back.
class outside {
 public:
  outside() : level_{keyed::scratch::level()} {
    nvm_stm* tx = nvm_stm_current();
    if (tx != nullptr &&
        nvm_stm_on(tx, NVM_TX_ON_ABORT, go_back, reinterpret_cast<void*>(std::uintptr_t{level_})) != 0) {
      return;
    }
    entered_ = keyed::scratch::enter();
  }
  ~outside() {
    if (entered_) keyed::scratch::return_to(level_);
  }
  outside(const outside&) = delete;
  outside& operator=(const outside&) = delete;
  explicit operator bool() const noexcept { return entered_; }

 private:
  static void go_back(NVM_POOL*, enum nvm_tx_event, void* level) {
    keyed::scratch::return_to(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(level)));
  }
  unsigned level_;
  bool entered_ = false;
};

// Writes those bytes of a value that an edit has changed.
void write_changes(keyed::operation& op, keyed::record& r, const std::byte* before, const std::byte* after) {
  std::uint64_t from = 0;
  std::uint64_t to = r.sizes.value;
  while (from < to && before[from] == after[from]) ++from;
  while (to > from && before[to - 1] == after[to - 1]) --to;
  if (from != to) op.write(keyed::value_of(op, r) + from, after + from, to - from);
}

struct edit_call {
  int (*edit)(void*, size_t*, size_t, void*);
  void* argument;
  std::size_t room_wanted;
};
status update(keyed::operation& op, const keyed::key& k, const edit_call& e, bool& found) {
  keyed::record r;
  if (status s = keyed::find(op, k, r); !s) return s;
  found = r.place != 0;
  if (!found) return {};
  const std::uint64_t room = std::max<std::uint64_t>(r.sizes.value, e.room_wanted);
  std::byte* before = keyed::scratch::of_thread().take(r.sizes.value);
  std::byte* after = keyed::scratch::of_thread().take(room);
  if (before == nullptr || after == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
  if (r.sizes.value != 0) {
    op.read(before, keyed::value_of(op, r), r.sizes.value);
    std::memcpy(after, before, r.sizes.value);
  }
  std::size_t bytes = r.sizes.value;
  if (!keyed::scratch::enter()) return fail(errc::invalid, "updates inside of updates are nested too deeply");
  const int left = e.edit(after, &bytes, room, e.argument);
  keyed::scratch::leave();
  if (left != 0) return {};
  if (bytes > room) return fail(errc::invalid, "the edit has made %zu bytes in room for %lu", bytes, room);
  if (bytes == r.sizes.value && bytes <= keyed::in_place_bytes_max) {
    write_changes(op, r, before, after);
    return {};
  }
  return keyed::put(op, k, {after, bytes}, 0);
}

}  // namespace
}  // namespace nvm::api

nvm_kv::nvm_kv(nvm::api::stores& all, std::uint64_t header, keyed::kv_index index, std::uint64_t seed, std::string name)
    : of{all}, store{all.bytes, header, index, seed, std::move(name)} {}

// Entries copied a few at a time; what is between two fetches is the last key, or a position.
struct nvm_kv_cursor final : keyed::receiver {
  explicit nvm_kv_cursor(nvm_kv& of) noexcept
      : kv{of}, ordered{of.store.index == keyed::kv_index::btree || of.store.index == keyed::kv_index::rbtree} {}
  ~nvm_kv_cursor() = default;

  nvm::status add(const keyed::access& a, const keyed::record& r, bool& more) override try {
    if (has_to && !before_end(a, r)) {
      reached_end = true;
      more = false;
      return {};
    }
    const std::size_t at = bytes.size();
    bytes.resize(at + r.sizes.key + r.sizes.value);
    if (r.sizes.key != 0) a.read(bytes.data() + at, keyed::key_of(a, r), r.sizes.key);
    if (ordered && !goes_on({reinterpret_cast<const char*>(bytes.data()) + at, r.sizes.key})) {
      return keyed::access::damaged("order of keys", r.place);
    }
    if (r.sizes.value != 0) a.read(bytes.data() + at + r.sizes.key, keyed::value_of(a, r), r.sizes.value);
    entries.push_back({at, r.sizes.key, r.sizes.value});
    more = entries.size() < wanted && bytes.size() < fetch_bytes;
    return {};
  } catch (const std::bad_alloc&) {
    return nvm::fail(nvm::errc::no_memory, "no volatile memory for entries");
  }
  [[nodiscard]] bool before_end(const keyed::access& a, const keyed::record& r) const {
    const std::size_t n = std::min<std::size_t>(r.sizes.key, to.size());
    int sign = n == 0 ? 0 : a.compare(keyed::key_of(a, r), to.data(), n);
    if (sign == 0) sign = r.sizes.key < to.size() ? -1 : r.sizes.key > to.size() ? 1 : 0;
    return from.backward ? sign > 0 : sign < 0;
  }
  // Whether the key comes behind the one before it: a cursor that finds its place by keys would else go in circles.
  [[nodiscard]] bool goes_on(std::string_view key) const noexcept {
    std::string_view before = last;
    if (!entries.empty()) {
      before = {reinterpret_cast<const char*>(bytes.data()) + entries.back().at, entries.back().key_bytes};
    } else if (!from.has_key) {
      return true;
    }
    const int sign = key.compare(before);
    const bool same = sign == 0 && from.inclusive && entries.empty();
    return same || (from.backward ? sign < 0 : sign > 0);
  }
  nvm::status refill();

  static constexpr std::size_t wanted_first = 16;
  static constexpr std::size_t wanted_max = 256;
  static constexpr std::size_t fetch_bytes = 64 << 10;
  struct place {
    std::size_t at, key_bytes, value_bytes;
  };
  nvm_kv& kv;
  const bool ordered;
  keyed::fetch_from from{};
  std::string last;  // key that `from` is at
  std::string to;
  bool has_to = false;
  std::uint64_t left = 0;  // entries that may still be given
  bool ended = false;      // nothing comes behind what is here
  bool reached_end = false;
  std::size_t wanted = wanted_first;
  std::size_t next = 0;
  std::vector<place> entries;
  std::vector<std::byte> bytes;
};

nvm::status nvm_kv_cursor::refill() {
  if (!entries.empty()) {
    const place& e = entries.back();
    last.assign(reinterpret_cast<const char*>(bytes.data() + e.at), e.key_bytes);
    from.has_key = true;
    from.inclusive = false;
  }
  if (from.has_key) from.at = nvm::api::key_of(last);
  const keyed::fetch_from start = from;
  bool no_more = false;
  const nvm::status s = nvm::api::run_on(kv, [&](keyed::operation& op) {
    entries.clear();
    bytes.clear();
    reached_end = false;
    from = start;
    return keyed::fetch(op, from, *this, no_more);
  });
  if (!s) return s;
  ended = no_more || reached_end;
  next = 0;
  wanted = std::min(wanted * 2, wanted_max);
  return {};
}

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

nvm_kv* nvm_kv_open(NVM_POOL* pool, const char* name, const nvm_kv_options* options) {
  constexpr nvm_kv_options none{};
  const nvm_kv_options& o = options == nullptr ? none : *options;
  if (nvm::status s = api::check_name(name); !s) return api::report_null<nvm_kv>(s.error());
  if (o.index > NVM_KV_RBTREE || o.mode > NVM_KV_CREATE_ONLY) {
    return api::report_null<nvm_kv>(
        fail(errc::invalid, "index %u or mode %u is none of nvm_kv_options", o.index, o.mode));
  }
  for (const std::uint64_t r : o.reserved) {
    if (r != 0) return api::report_null<nvm_kv>(fail(errc::invalid, "a reserved field of nvm_kv_options is not 0"));
  }
  nvm_kv* out = nullptr;
  const nvm::status s = api::guarded(pool, [&](api::stores& all) { return api::open_store(all, name, o, out); });
  return s ? out : api::report_null<nvm_kv>(s.error());
}

int nvm_kv_close(nvm_kv* kv) {
  if (kv == nullptr) return api::report(fail(errc::invalid, "the key-value store is NULL"));
  api::stores& all = kv->of;
  const std::lock_guard guard{all.lock};
  if (--kv->store.handles == 0) all.open.erase(all.open.find(kv->store.name));
  return 0;
}

NVM_POOL* nvm_kv_pool(const nvm_kv* kv) { return kv->of.pool; }
const char* nvm_kv_name(const nvm_kv* kv) { return kv->store.name.c_str(); }
enum nvm_kv_index nvm_kv_index_of(const nvm_kv* kv) { return static_cast<enum nvm_kv_index>(kv->store.index); }
const char* nvm_kv_index_name(int index) { return keyed::name_of(static_cast<keyed::kv_index>(index)); }

int nvm_kv_put_with(nvm_kv* kv, const void* key, size_t key_bytes, const void* value, size_t value_bytes,
                    unsigned flags) {
  keyed::key k;
  nvm::status s = api::check_put(kv, key, key_bytes, value, value_bytes, flags, k);
  if (s) {
    const keyed::bytes_view v{static_cast<const std::byte*>(value), value_bytes};
    s = api::run_on(*kv, [&](keyed::operation& op) { return keyed::put(op, k, v, flags); });
  }
  return api::answer(s);
}

int nvm_kv_put(nvm_kv* kv, const void* key, size_t key_bytes, const void* value, size_t value_bytes) {
  return nvm_kv_put_with(kv, key, key_bytes, value, value_bytes, 0);
}

int nvm_kv_get(nvm_kv* kv, const void* key, size_t key_bytes, void* value, size_t room, size_t* value_bytes) {
  keyed::key k;
  nvm::status s = api::usable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  if (s && value == nullptr && room != 0) s = fail(errc::invalid, "the value is NULL");
  keyed::record r;
  if (s) {
    s = api::run_on(*kv, [&](keyed::operation& op) -> nvm::status {
      if (nvm::status found = keyed::find(op, k, r); !found || r.place == 0) return found;
      const std::size_t n = std::min<std::uint64_t>(r.sizes.value, room);
      if (n != 0) op.read(value, keyed::value_of(op, r), n);
      return {};
    });
  }
  if (!s) return api::report(s.error());
  if (r.place == 0) return 0;
  if (value_bytes != nullptr) *value_bytes = r.sizes.value;
  return 1;
}

int nvm_kv_visit(nvm_kv* kv, const void* key, size_t key_bytes, void (*visit)(const void*, size_t, void*),
                 void* argument) {
  keyed::key k;
  nvm::status s = api::usable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  if (s && visit == nullptr) s = fail(errc::invalid, "the function is NULL");
  keyed::record r;
  std::byte* copy = nullptr;
  if (s) {
    s = api::run_on(*kv, [&](keyed::operation& op) -> nvm::status {
      if (nvm::status found = keyed::find(op, k, r); !found || r.place == 0) return found;
      copy = keyed::scratch::of_thread().take(r.sizes.value);
      if (copy == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
      if (r.sizes.value != 0) op.read(copy, keyed::value_of(op, r), r.sizes.value);
      return {};
    });
  }
  if (!s) return api::report(s.error());
  if (r.place == 0) return 0;
  const api::outside their_function;
  if (!their_function) return api::report(fail(errc::invalid, "visits inside of visits are nested too deeply"));
  visit(copy, r.sizes.value, argument);
  return 1;
}

int nvm_kv_remove(nvm_kv* kv, const void* key, size_t key_bytes) {
  keyed::key k;
  nvm::status s = api::usable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  bool removed = false;
  if (s) s = api::run_on(*kv, [&](keyed::operation& op) { return keyed::remove(op, k, removed); });
  return s ? static_cast<int>(removed) : api::report(s.error());
}

int nvm_kv_update(nvm_kv* kv, const void* key, size_t key_bytes, size_t room_wanted,
                  int (*edit)(void*, size_t*, size_t, void*), void* argument) {
  keyed::key k;
  nvm::status s = api::usable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  if (s && edit == nullptr) s = fail(errc::invalid, "the function is NULL");
  if (s) s = keyed::check_value(room_wanted);
  bool found = false;
  if (s) {
    const api::edit_call call{edit, argument, room_wanted};
    s = api::run_on(*kv, [&](keyed::operation& op) { return api::update(op, k, call, found); });
  }
  return s ? static_cast<int>(found) : api::report(s.error());
}

int nvm_kv_batch(NVM_POOL* pool, const nvm_kv_operation* operations, size_t count, size_t* failed) {
  if (pool == nullptr || (operations == nullptr && count != 0)) {
    return api::report(fail(errc::invalid, "the pool or the list of operations is NULL"));
  }
  std::size_t at = 0;
  nvm::status s;
  // Everything that can be refused is refused before anything is done.
  for (; s && at < count; ++at) {
    const nvm_kv_operation& o = operations[at];
    keyed::key k;
    if (o.kind != NVM_KV_PUT && o.kind != NVM_KV_REMOVE) {
      s = fail(errc::invalid, "operation %zu of a batch: kind %u is none of enum nvm_kv_operation_kind", at, o.kind);
    } else if (o.kv != nullptr && o.kv->of.pool != pool) {
      s = fail(errc::invalid, "operation %zu of a batch is on a store of another pool", at);
    } else {
      const bool puts = o.kind == NVM_KV_PUT;
      s = api::check_put(o.kv, o.key, o.key_bytes, puts ? o.value : nullptr, puts ? o.value_bytes : 0,
                         puts ? o.flags : 0, k);
    }
    if (!s) break;
  }
  if (s) {
    s = api::run(pool, [&](nvm_stm* tx) -> nvm::status {
      for (at = 0; at < count; ++at) {
        const nvm_kv_operation& o = operations[at];
        keyed::scratch::of_thread().reset();
        keyed::operation op{tx, o.kv->store};
        keyed::key k;
        bool removed = false;
        nvm::status done = keyed::prepare_key(o.kv->store, o.key, o.key_bytes, k);
        if (done && o.kind == NVM_KV_PUT) {
          done = keyed::put(op, k, {static_cast<const std::byte*>(o.value), o.value_bytes}, o.flags);
        } else if (done) {
          done = keyed::remove(op, k, removed);
        }
        if (!done) return done;
      }
      return {};
    });
  }
  if (s) return 0;
  if (failed != nullptr) *failed = at;
  return api::report(s.error());
}

nvm_kv_cursor* nvm_kv_cursor_open(nvm_kv* kv, const nvm_kv_range* range) try {
  if (nvm::status s = api::usable(kv); !s) return api::report_null<nvm_kv_cursor>(s.error());
  constexpr nvm_kv_range everything{};
  const nvm_kv_range& r = range == nullptr ? everything : *range;
  auto c = std::make_unique<nvm_kv_cursor>(*kv);
  if (!c->ordered && (r.from != nullptr || r.to != nullptr || r.backward != 0)) {
    return api::report_null<nvm_kv_cursor>(fail(
        errc::invalid, "key-value store \"%s\" has index %s, which is not in the order of keys: no range, no direction",
        kv->store.name.c_str(), keyed::name_of(kv->store.index)));
  }
  if (r.from_bytes > NVM_KV_KEY_MAX || r.to_bytes > NVM_KV_KEY_MAX) {
    return api::report_null<nvm_kv_cursor>(
        fail(errc::too_large, "a key of %zu bytes: at most %u", std::max(r.from_bytes, r.to_bytes), NVM_KV_KEY_MAX));
  }
  c->from.backward = r.backward != 0;
  c->from.has_key = r.from != nullptr;
  c->from.inclusive = r.exclusive == 0;
  if (r.from != nullptr) c->last.assign(static_cast<const char*>(r.from), r.from_bytes);
  c->has_to = r.to != nullptr;
  if (r.to != nullptr) c->to.assign(static_cast<const char*>(r.to), r.to_bytes);
  c->left = r.limit == 0 ? UINT64_MAX : r.limit;
  return c.release();
} catch (const std::bad_alloc&) {
  return api::report_null<nvm_kv_cursor>(fail(errc::no_memory, "no volatile memory for a cursor"));
}

int nvm_kv_cursor_next(nvm_kv_cursor* cursor, nvm_kv_entry* entry) try {
  if (cursor == nullptr || entry == nullptr) {
    return api::report(fail(errc::invalid, "the cursor or the entry is NULL"));
  }
  if (nvm::status s = api::usable(&cursor->kv); !s) return api::report(s.error());
  while (cursor->next == cursor->entries.size()) {
    if (cursor->ended || cursor->left == 0) return 0;
    cursor->wanted = std::min<std::uint64_t>(cursor->wanted, cursor->left);
    if (nvm::status s = cursor->refill(); !s) return api::report(s.error());
  }
  if (cursor->left == 0) return 0;
  --cursor->left;
  const nvm_kv_cursor::place& e = cursor->entries[cursor->next++];
  entry->key = cursor->bytes.data() + e.at;
  entry->key_bytes = e.key_bytes;
  entry->value = cursor->bytes.data() + e.at + e.key_bytes;
  entry->value_bytes = e.value_bytes;
  return 1;
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for a cursor"));
}

void nvm_kv_cursor_close(nvm_kv_cursor* cursor) { delete cursor; }

int nvm_kv_scan(nvm_kv* kv, const nvm_kv_range* range, int (*visit)(const nvm_kv_entry*, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  const api::outside their_function;
  if (!their_function) return api::report(fail(errc::invalid, "scans inside of scans are nested too deeply"));
  // The thread's, since a conflict of a transaction around may leave this frame without its end.
  thread_local std::unique_ptr<nvm_kv_cursor> cursors[keyed::scratch::levels_max];
  auto& cursor = cursors[keyed::scratch::level()];
  cursor.reset(nvm_kv_cursor_open(kv, range));
  if (cursor == nullptr) return -1;
  nvm_kv_entry entry;
  for (;;) {
    const int found = nvm_kv_cursor_next(cursor.get(), &entry);
    if (found <= 0) return found;
    if (const int stop = visit(&entry, argument); stop != 0) return stop;
  }
}

int64_t nvm_kv_size(nvm_kv* kv) {
  nvm::status s = api::usable(kv);
  std::uint64_t entries = 0;
  if (s) {
    s = api::run_on(*kv, [&](keyed::operation& op) {
      entries = op.count.sum(op).entries;
      return nvm::status{};
    });
  }
  return s ? static_cast<std::int64_t>(entries) : api::report(s.error());
}

int nvm_kv_get_statistics(nvm_kv* kv, nvm_kv_statistics* out) {
  nvm::status s = api::usable(kv);
  if (s && out == nullptr) s = fail(errc::invalid, "the result is NULL");
  keyed::figures f;
  if (s) {
    s = api::run_on(*kv, [&](keyed::operation& op) {
      f = {};
      return keyed::check(op, f);
    });
  }
  if (!s) return api::report(s.error());
  *out = {};
  out->index = static_cast<std::uint32_t>(kv->store.index);
  out->depth = f.depth;
  out->entries = f.sum.entries;
  out->key_bytes = f.sum.key_bytes;
  out->value_bytes = f.sum.value_bytes;
  out->buckets = f.table.buckets;
  out->overflow_buckets = f.table.overflow_buckets;
  out->longest_chain = f.table.longest_chain;
  out->leaves = f.tree.leaves;
  out->inner_nodes = f.tree.inner_nodes;
  const double slots = f.table.buckets != 0
                           ? static_cast<double>(f.table.buckets + f.table.overflow_buckets) * layout::bucket_slots
                           : static_cast<double>(f.tree.leaves) * layout::leaf_slots;
  out->load = slots == 0 ? 0 : static_cast<double>(f.sum.entries) / slots;
  return 0;
}

int nvm_kv_each(NVM_POOL* pool, int (*visit)(const char*, enum nvm_kv_index, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  std::vector<std::pair<std::string, enum nvm_kv_index>> found;
  const nvm::status s = api::guarded(pool, [&](api::stores& all) -> nvm::status {
    const std::lock_guard guard{all.lock};
    if (nvm::status opened = api::open_directory(all, false); !opened || all.directory == nullptr) return opened;
    nvm_kv_cursor cursor{*all.directory};
    cursor.left = UINT64_MAX;
    nvm_kv_entry e;
    int more = 0;
    while ((more = nvm_kv_cursor_next(&cursor, &e)) > 0) {
      const std::string name{static_cast<const char*>(e.key), e.key_bytes};
      std::uint64_t place = 0;
      if (name.empty() || name[0] == '\0') continue;
      if (e.value_bytes != sizeof place) return keyed::access::damaged("directory of stores", 0);
      std::memcpy(&place, e.value, sizeof place);
      keyed::kv_index index{};
      std::uint64_t seed = 0;
      const nvm::status read =
          api::run(pool, [&](nvm_stm* tx) { return keyed::read_header({tx, all.bytes}, place, index, seed); });
      if (!read) return read;
      found.emplace_back(name, static_cast<enum nvm_kv_index>(index));
    }
    return more == 0 ? nvm::status{} : nvm::status{static_cast<errc>(nvm_errno())};
  });
  if (!s) return api::report(s.error());
  for (const auto& [name, index] : found) {
    if (const int stop = visit(name.c_str(), index, argument); stop != 0) return stop;
  }
  return 0;
}

int nvm_kv_drop(NVM_POOL* pool, const char* name) {
  if (nvm::status s = api::check_name(name); !s) return api::report(s.error());
  return api::answer(api::guarded(pool, [&](api::stores& all) { return api::drop_store(all, name); }));
}

int nvm_kv_rename(NVM_POOL* pool, const char* name, const char* new_name) {
  if (nvm::status s = api::check_name(name); !s) return api::report(s.error());
  if (nvm::status s = api::check_name(new_name); !s) return api::report(s.error());
  return api::answer(api::guarded(pool, [&](api::stores& all) { return api::rename_store(all, name, new_name); }));
}

}  // extern "C"
