// Lock-free structures of the C interface: how an operation finds its structure and its thread's part of it.
//
// Threads.  A thread has a place in a pool, or in an object store, from its first call there to its end
// (thread_places.hpp).  The pool's lock is held while the side is closed; threads that end take the lock of the record
// that they share with the pool, which says whether the side is open, and which one it is.
#include "nvm/lockfree.h"

#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "api/carried_exception.hpp"
#include "api/lockfree_handle.hpp"
#include "api/object_stores.hpp"
#include "nvm/stm.h"

namespace nvm::api {
namespace {

// Of a place that is found without a search: the one used last.
struct found_place {
  unsigned side;  // open_structures::number, from 1 on
};
// The thread has given its places back: a destructor of it that runs later gets none.
constinit found_place of_ended_thread{~0U};
thread_local constinit found_place* last_used = nullptr;
[[nodiscard]] inline bool was_used_last(const open_structures& all) noexcept {
  return last_used != nullptr && last_used->side == all.number;
}

// This thread's places, in each side.
class places_of_thread {
 public:
  ~places_of_thread() {
    const platform::in_call here;
    last_used = &of_ended_thread;
    if (all_ == nullptr) return;
    for (one& o : *all_) {
      // In a forked child a thread of the parent may hold the lock for ever.
      if (o.of->process != platform::process_id()) continue;
      const std::lock_guard guard{o.of->lock};
      if (is_closed(o)) continue;
      leave_place(o.place, [&](unsigned number) {
        // A thread that ends between nvm_lf_enter() and nvm_lf_leave() holds nothing up.
        while (o.of->side->leave_operation(number)) {
        }
        o.of->side->leave(number);
      });
    }
  }
  struct one : found_place {
    explicit one(open_structures& all) : found_place{all.number}, of{all.shared_from_this()}, place{all.places} {}
    std::shared_ptr<open_structures> of;
    thread_place place;
  };
  [[nodiscard]] result<found_place*> in(open_structures& side) noexcept try {
    if (all_ == nullptr) all_ = std::make_unique<std::list<one>>();
    for (one& o : *all_) {
      if (o.side == side.number) return &o;
    }
    // Places in sides that were closed are forgotten, maybe the one used last.
    last_used = nullptr;
    all_->remove_if([](const one& o) {
      if (o.place.uses != 0) return false;  // a visitor's caller goes on with it
      if (o.of->process != platform::process_id()) return true;
      const std::lock_guard guard{o.of->lock};
      return is_closed(o);
    });
    const std::lock_guard guard{side.lock};
    if (side.closed()) return fail(errc::invalid, "what the lock-free structure lies in was closed");
    all_->emplace_back(side);
    return &all_->back();
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a thread of lock-free structures");
  }

 private:
  // Its lock is held.
  [[nodiscard]] static bool is_closed(const one& o) noexcept { return o.of->closed() || o.of->number != o.side; }
  // A list: a call keeps its place while a visitor makes calls elsewhere.  Apart, since a library that is loaded late
  // has little room for what threads have.
  std::unique_ptr<std::list<one>> all_;
};

[[gnu::noinline]] status find_last_used(const nvm_lf& lf) noexcept {
  if (last_used == &of_ended_thread) return fail(errc::no_lane, "the thread has ended");
  thread_local places_of_thread mine;
  const auto found = mine.in(*lf.all);
  if (!found) return found.error();
  last_used = *found;
  return {};
}
// After find_last_used().
[[nodiscard]] inline thread_place& last_place() noexcept {
  return static_cast<places_of_thread::one*>(last_used)->place;
}
using place_of_call = place_in_use<open_structures>;
// The calling thread's place, in use.
[[nodiscard]] inline result<place_of_call> place_in(const nvm_lf& lf) noexcept {
  if (!was_used_last(*lf.all)) [[unlikely]] {
    if (status s = find_last_used(lf); !s) return s.error();
  }
  thread_place& place = last_place();
  if (status s = begin_use(*lf.all, place); !s) return s.error();
  return place_of_call{*lf.all, place};
}

// The same, without a number that waits for others.
[[nodiscard]] result<std::uint64_t> position_in(const nvm_lf& lf) noexcept {
  if (!was_used_last(*lf.all)) [[unlikely]] {
    if (status s = find_last_used(lf); !s) return s.error();
  }
  return position_of(*lf.all, last_place());
}

// Until what the thread has done and seen is durable.  errc::in_doubt: the sync failed that it needed.  0 is a position
// like any other: a pool that has failed captures nothing, so that a thread which has done something there stays at it.
status wait_for_position(const nvm_lf* lf, unsigned who) noexcept {
  return engines::of_what_is_done(lf->pool->engine->wait(lf->all->side->position(who)));
}

// Runs call(who) -> result<int> on a structure, for a C caller.
template <effect What, class Call>
int run(nvm_lf* lf, Call&& call) noexcept {
  const platform::in_call here;
  if (status s = usable(lf); !s) return report(s.error());
  const auto place = place_in(*lf);
  if (!place) return report(place.error());
  const unsigned who = place->number();
  // A failed pool refuses at once: the outcome could not be known.
  if (status s = medium_is_whole(lf->pool); !s) return report(s.error());
  const result<int> answer = call(who);
  if (!answer) return report(if_intact(lf->pool, answer.error()).error());
  if constexpr (What == effect::changes) {
    if (lf->waits) lf->all->side->settle();
  }
  const auto wait = [&] { return wait_for_position(lf, who); };
  if (status s = acknowledge<What>(lf, wait); !s) return report(s.error());
  if (status s = no_page_was_lost<What>(lf->pool); !s) return report(s.error());
  return *answer;
}

result<write_rule> rule_of(unsigned flags) noexcept {
  switch (flags) {
    case 0:
      return write_rule::either;
    case NVM_LF_PUT_ABSENT:
      return write_rule::insert_only;
    case NVM_LF_PUT_PRESENT:
      return write_rule::replace_only;
    default:
      return fail(errc::invalid, "flags %u are none of enum nvm_lf_put_flags", flags);
  }
}
result<int> told(const result<written>& w) noexcept {
  if (!w) return w.error();
  return *w == written::inserted ? 1 : *w == written::replaced ? 2 : 0;
}
result<int> told(const result<bool>& r) noexcept {
  if (!r) return r.error();
  return *r ? 1 : 0;
}
status check_key(const void* key, std::size_t bytes) noexcept {
  if (key == nullptr && bytes != 0) return fail(errc::invalid, "the key is NULL");
  if (bytes > NVM_LF_KEY_MAX) return fail(errc::too_large, "a key of %zu bytes: at most %u", bytes, NVM_LF_KEY_MAX);
  return {};
}
status check_value(const void* value, std::size_t bytes) noexcept {
  if (value == nullptr && bytes != 0) return fail(errc::invalid, "the value is NULL");
  if (bytes > NVM_LF_VALUE_MAX) {
    return fail(errc::too_large, "a value of %zu bytes: at most %u", bytes, NVM_LF_VALUE_MAX);
  }
  return {};
}
status check_scan(bool has_cursor, std::size_t entries_max, bool has_visitor) noexcept {
  if (has_cursor && has_visitor && entries_max != 0) return {};
  return fail(errc::invalid, "the cursor or the visitor is NULL, or no entries are wanted");
}
status check_from(unsigned flags) noexcept {
  if ((flags & ~static_cast<unsigned>(NVM_LF_AFTER)) == 0) return {};
  return fail(errc::invalid, "flags %u are none of enum nvm_lf_from_flags", flags);
}
std::span<const std::byte> bytes_of(const void* p, std::size_t n) noexcept {
  return {static_cast<const std::byte*>(p == nullptr ? "" : p), n};  // an empty key has a place
}
// errc::corrupt: the handle verifies, and the entry fails its checksum.  Called inside of the operation.
status verified(const nvm_lf* lf, const structure_entry& e) noexcept {
  if (!lf->verifies) return {};
  const auto holds = lf->of->holds_sum(e.offset);
  if (!holds) return holds.error();
  if (*holds) return {};
  return fail(errc::corrupt, "the entry at offset %lu, with a key of %zu bytes, fails its checksum", e.offset,
              e.key.size());
}
nvm_lf_entry entry_for_c(const structure_entry& e) noexcept {
  return {e.key.data(), e.key.size(), e.value.data(), e.value.size(), e.mark, e.offset};
}

// The same, which shows words.
template <class All>
int walk_words(nvm_lf* lf, int (*visit)(std::uint64_t, std::uint64_t, void*), void* argument, All&& all) {
  struct context {
    int (*visit)(std::uint64_t, std::uint64_t, void*);
    void* argument;
    carried_exception thrown;
  } c{visit, argument, {}};
  constexpr auto each = [](std::uint64_t key, std::uint64_t value, void* raw) {
    auto& k = *static_cast<context*>(raw);
    return k.thrown.call([&] { return k.visit(key, value, k.argument); }, 1);
  };
  const int answer = run<effect::looks>(lf, [&](unsigned who) {
    c.thrown.of(*lf->pool->file);
    return all(who, static_cast<int (*)(std::uint64_t, std::uint64_t, void*)>(each), &c);
  });
  c.thrown.go_on();
  return answer;
}
// A call of `all`, which shows entries to a visitor of the program.  Its exceptions leave when the walk has ended.
template <class All>
int walk(nvm_lf* lf, int (*visit)(const nvm_lf_entry*, void*), void* argument, All&& all) {
  struct context {
    int (*visit)(const nvm_lf_entry*, void*);
    void* argument;
    carried_exception thrown;
  } c{visit, argument, {}};
  constexpr auto each = [](void* raw, const structure_entry& e) {
    auto& k = *static_cast<context*>(raw);
    const nvm_lf_entry entry = entry_for_c(e);
    return k.thrown.call([&] { return k.visit(&entry, k.argument); }, 1);
  };
  const int answer = run<effect::looks>(lf, [&](unsigned who) {
    c.thrown.of(*lf->pool->file);
    return all(who, static_cast<int (*)(void*, const structure_entry&)>(each), &c);
  });
  c.thrown.go_on();
  return answer;
}

}  // namespace

unsigned open_structures::next_number() noexcept {
  static std::atomic<unsigned> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool others_use(const open_structures& all) noexcept { return used_by_others(*all.places, was_used_last(all)); }

status structures_at_rest(nvm_pool* pool) noexcept {
  bool at_work = object_stores::contents_at_work(pool);
  {
    const std::lock_guard guard{pool->structures_lock};
    at_work = at_work || (pool->structures != nullptr && pool->structures->side->at_work());
  }
  if (!at_work) return {};
  return fail(errc::busy, "%s: a thread is inside of a lock-free structure (nvm_lf_enter(), or a call under way)",
              pool->file->path());
}

void close_structures(nvm_pool* pool) noexcept {
  const std::lock_guard guard{pool->structures_lock};
  if (pool->structures == nullptr) return;
  const std::lock_guard inside{pool->structures->lock};
  if (!pool->file->lost()) pool->structures->side->come_to_rest(true);
  pool->structures->side.reset();
}

bool close_structures_unless_shared(nvm_pool* pool) noexcept {
  const std::lock_guard guard{pool->structures_lock};
  if (pool->structures == nullptr) return true;
  // The lock keeps threads from joining meanwhile.
  const std::lock_guard inside{pool->structures->lock};
  structure_side& side = *pool->structures->side;
  if (side.at_work() || others_use(*pool->structures)) return false;
  side.come_to_rest(true);
  pool->structures->closed_at_exit = true;
  return true;
}

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;
using nvm::result;
using nvm::status;
using nvm::api::effect::changes;
using nvm::api::effect::looks;

extern "C" {

int nvm_lf_get_count(nvm_lf* lf, uint64_t* count) {
  if (count == nullptr) return api::report(fail(errc::invalid, "the place for the count is NULL"));
  const nvm::platform::in_call here;
  if (status s = api::usable(lf); !s) return api::report(s.error());
  const uint64_t found = lf->of->count();
  if (status s = api::medium_is_whole(lf->pool); !s) return api::report(s.error());
  if (status s = api::intact(lf->pool); !s) return api::report(s.error());
  *count = found;
  return 0;
}

uint64_t nvm_lf_count(nvm_lf* lf) {
  uint64_t count = 0;
  (void)nvm_lf_get_count(lf, &count);
  return count;
}

int nvm_lf_put64(nvm_lf* lf, uint64_t key, uint64_t value, unsigned flags) {
  const auto rule = api::rule_of(flags);
  if (!rule) return api::report(rule.error());
  return api::run<changes>(lf, [&](unsigned who) { return api::told(lf->of->write64(who, key, value, *rule)); });
}

int nvm_lf_get64(nvm_lf* lf, uint64_t key, uint64_t* value) {
  return api::run<looks>(lf, [&](unsigned who) {
    std::uint64_t found = 0;
    auto r = api::told(lf->of->find64(who, key, found, lf->verifies));
    if (r && *r == 1 && value != nullptr) *value = found;
    return r;
  });
}

int nvm_lf_remove64(nvm_lf* lf, uint64_t key) {
  return api::run<changes>(lf, [&](unsigned who) { return api::told(lf->of->remove64(who, key)); });
}

int nvm_lf_each64(nvm_lf* lf, int (*visit)(uint64_t, uint64_t, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the visitor is NULL"));
  return api::walk_words(lf, visit, argument,
                         [&](unsigned who, auto* each, void* context) { return lf->of->each64(who, each, context); });
}

int nvm_lf_scan64(nvm_lf* lf, uint64_t* cursor, size_t entries_max, int (*visit)(uint64_t, uint64_t, void*),
                  void* argument) {
  if (status s = api::check_scan(cursor != nullptr, entries_max, visit != nullptr); !s) return api::report(s.error());
  return api::walk_words(lf, visit, argument, [&](unsigned who, auto* each, void* context) {
    return lf->of->scan64(who, *cursor, entries_max, each, context);
  });
}

int nvm_lf_scan_from64(nvm_lf* lf, uint64_t key, unsigned flags, size_t entries_max,
                       int (*visit)(uint64_t, uint64_t, void*), void* argument) {
  if (status s = api::check_scan(true, entries_max, visit != nullptr); !s) return api::report(s.error());
  if (status s = api::check_from(flags); !s) return api::report(s.error());
  return api::walk_words(lf, visit, argument, [&](unsigned who, auto* each, void* context) {
    return lf->of->scan_from64(who, key, (flags & NVM_LF_AFTER) != 0, entries_max, each, context);
  });
}

int nvm_lf_put(nvm_lf* lf, const void* key, size_t key_bytes, const void* value, size_t value_bytes, uint64_t mark,
               unsigned flags) {
  const auto rule = api::rule_of(flags);
  if (!rule) return api::report(rule.error());
  if (status s = api::check_key(key, key_bytes); !s) return api::report(s.error());
  if (status s = api::check_value(value, value_bytes); !s) return api::report(s.error());
  return api::run<changes>(lf, [&](unsigned who) -> result<int> {
    if (status s = api::readable(key, key_bytes); !s) return s.error();
    if (status s = api::readable(value, value_bytes); !s) return s.error();
    return api::told(lf->of->write(who, api::bytes_of(key, key_bytes), api::bytes_of(value, value_bytes), mark, *rule));
  });
}

int nvm_lf_get(nvm_lf* lf, const void* key, size_t key_bytes, void* value, size_t room, size_t* value_bytes) {
  if (status s = api::check_key(key, key_bytes); !s) return api::report(s.error());
  if (value == nullptr && room != 0) return api::report(fail(errc::invalid, "the value is NULL"));
  struct copy {
    const nvm_lf* lf;
    void* to;
    size_t room;
    size_t bytes;
    status read;
  } c{lf, value, room, 0, {}};
  const int answer = api::run<looks>(lf, [&](unsigned who) -> result<int> {
    const auto found = lf->of->find(
        who, api::bytes_of(key, key_bytes),
        [](void* raw, const api::structure_entry& e) {
          auto& k = *static_cast<copy*>(raw);
          k.read = api::verified(k.lf, e);
          k.bytes = e.value.size();
          const size_t n = k.bytes < k.room ? k.bytes : k.room;
          if (k.read && n != 0) std::memcpy(k.to, e.value.data(), n);
        },
        &c);
    return c.read ? api::told(found) : result<int>{c.read.error()};
  });
  if (answer == 1 && value_bytes != nullptr) *value_bytes = c.bytes;
  return answer;
}

int nvm_lf_remove(nvm_lf* lf, const void* key, size_t key_bytes) {
  if (status s = api::check_key(key, key_bytes); !s) return api::report(s.error());
  return api::run<changes>(lf,
                           [&](unsigned who) { return api::told(lf->of->remove(who, api::bytes_of(key, key_bytes))); });
}

int nvm_lf_enter(nvm_lf* lf) {
  const nvm::platform::in_call here;
  if (status s = api::usable(lf); !s) return api::report(s.error());
  auto place = api::place_in(*lf);
  if (!place) return api::report(place.error());
  lf->all->side->enter(place->number());
  ++api::last_place().entered;
  place->go_on();  // to nvm_lf_leave()
  return 0;
}

int nvm_lf_leave(nvm_lf* lf) {
  const nvm::platform::in_call here;
  // Leaves also a structure that was dropped meanwhile.
  if (lf == nullptr) return api::report(fail(errc::invalid, "the lock-free structure is NULL"));
  if (status s = lf->pool->file->ours(); !s) return api::report(s.error());
  const auto place = api::place_in(*lf);
  if (!place) return api::report(place.error());
  unsigned& entered = api::last_place().entered;
  if (entered == 0 || !lf->all->side->leave_operation(place->number()))
    return api::report(fail(errc::invalid, "nvm_lf_leave() without nvm_lf_enter()"));
  --entered;
  api::end_use(*lf->all, api::last_place());  // the one that nvm_lf_enter() has begun
  return 0;
}

int nvm_lf_find(nvm_lf* lf, const void* key, size_t key_bytes, nvm_lf_entry* out) {
  if (status s = api::check_key(key, key_bytes); !s) return api::report(s.error());
  if (out == nullptr) return api::report(fail(errc::invalid, "the place for the entry is NULL"));
  struct place {
    const nvm_lf* lf;
    nvm_lf_entry* out;
    status read;
  } p{lf, out, {}};
  return api::run<looks>(lf, [&](unsigned who) -> result<int> {
    const auto found = lf->of->find(
        who, api::bytes_of(key, key_bytes),
        [](void* raw, const api::structure_entry& e) {
          auto& to = *static_cast<place*>(raw);
          to.read = api::verified(to.lf, e);
          if (to.read) *to.out = api::entry_for_c(e);
        },
        &p);
    return p.read ? api::told(found) : result<int>{p.read.error()};
  });
}

int nvm_lf_verify(nvm_lf* lf, const nvm_lf_entry* entry) {
  if (entry == nullptr) return api::report(fail(errc::invalid, "the entry is NULL"));
  const nvm::platform::in_call here;
  if (status s = api::usable(lf); !s) return api::report(s.error());
  const auto holds = lf->of->holds_sum(entry->place);
  if (status s = api::if_intact(lf->pool, holds ? status{} : status{holds.error()}); !s) return api::report(s.error());
  return *holds ? 1 : 0;
}

int nvm_lf_set_mark(nvm_lf* lf, const nvm_lf_entry* entry, uint64_t mark) {
  if (entry == nullptr) return api::report(fail(errc::invalid, "the entry is NULL"));
  return api::run<changes>(lf, [&](unsigned who) -> result<int> {
    if (!lf->of->of_bytes()) return fail(errc::type_mismatch, "entries of words have no mark");
    if (status s = lf->of->set_mark(who, entry->place, mark); !s) return s.error();
    return 0;
  });
}

int nvm_lf_change_mark(nvm_lf* lf, const nvm_lf_entry* entry, uint64_t* expected, uint64_t mark, unsigned flags) {
  if (entry == nullptr || expected == nullptr) {
    return api::report(fail(errc::invalid, "the entry or what its mark is expected to be is NULL"));
  }
  if ((flags & ~static_cast<unsigned>(NVM_LF_MARK_LAZY)) != 0) {
    return api::report(fail(errc::invalid, "flags %u are none of enum nvm_lf_mark_flags", flags));
  }
  return api::run<changes>(lf, [&](unsigned who) -> result<int> {
    if (!lf->of->of_bytes()) return fail(errc::type_mismatch, "entries of words have no mark");
    return api::told(lf->of->change_mark(who, entry->place, *expected, mark, (flags & NVM_LF_MARK_LAZY) == 0));
  });
}

int nvm_lf_update(nvm_lf* lf, const void* key, size_t key_bytes,
                  enum nvm_lf_decision (*decide)(const nvm_lf_entry*, nvm_lf_change*, void*), void* argument) {
  if (status s = api::check_key(key, key_bytes); !s) return api::report(s.error());
  if (decide == nullptr) return api::report(fail(errc::invalid, "the decision is NULL"));
  struct context {
    enum nvm_lf_decision (*decide)(const nvm_lf_entry*, nvm_lf_change*, void*);
    void* argument;
    nvm_lf_change change;
    bool too_large;
    api::carried_exception thrown;
    const nvm_lf* lf;
    status read;
  } c{decide, argument, {}, false, {}, lf, {}};
  const int answer = api::run<changes>(lf, [&](unsigned who) -> result<int> {
    c.thrown.of(*lf->pool->file);
    const auto r = lf->of->update(
        who, api::bytes_of(key, key_bytes),
        [](void* raw, const api::structure_entry* old) -> std::uint64_t {
          auto& k = *static_cast<context*>(raw);
          nvm_lf_entry e{};
          if (old != nullptr) e = api::entry_for_c(*old);
          k.read = old == nullptr ? status{} : api::verified(k.lf, *old);
          if (!k.read) return api::open_structure::keep;
          k.change = {};
          switch (k.thrown.call([&] { return k.decide(old == nullptr ? nullptr : &e, &k.change, k.argument); },
                                NVM_LF_KEEP)) {
            case NVM_LF_REPLACE:
              k.too_large = k.change.value_bytes > NVM_LF_VALUE_MAX;
              return k.too_large ? api::open_structure::keep : k.change.value_bytes;
            case NVM_LF_REMOVE:
              return api::open_structure::take_away;
            default:
              return api::open_structure::keep;
          }
        },
        [](void* raw, std::span<std::byte> value, const api::structure_entry* old) -> std::uint64_t {
          auto& k = *static_cast<context*>(raw);
          nvm_lf_entry e{};
          if (old != nullptr) e = api::entry_for_c(*old);
          if (k.change.fill != nullptr) {
            api::call_without_exceptions("fill() of nvm_lf_update()", [&] {
              k.change.fill(value.data(), value.size(), old == nullptr ? nullptr : &e, k.argument);
            });
          }
          return k.change.mark;
        },
        &c);
    if (!r) return r.error();
    if (!c.read) return c.read.error();
    if (c.too_large) {
      return fail(errc::too_large, "a value of %zu bytes: at most %u", c.change.value_bytes, NVM_LF_VALUE_MAX);
    }
    return static_cast<int>(*r);
  });
  c.thrown.go_on();
  return answer;
}

int nvm_lf_scan(nvm_lf* lf, uint64_t* cursor, size_t entries_max, int (*visit)(const nvm_lf_entry*, void*),
                void* argument) {
  if (status s = api::check_scan(cursor != nullptr, entries_max, visit != nullptr); !s) return api::report(s.error());
  return api::walk(lf, visit, argument, [&](unsigned who, auto* each, void* context) {
    return lf->of->scan(who, *cursor, entries_max, each, context);
  });
}

int nvm_lf_scan_from(nvm_lf* lf, const void* key, size_t key_bytes, unsigned flags, size_t entries_max,
                     int (*visit)(const nvm_lf_entry*, void*), void* argument) {
  if (status s = api::check_scan(true, entries_max, visit != nullptr); !s) return api::report(s.error());
  if (status s = api::check_from(flags); !s) return api::report(s.error());
  if (status s = api::check_key(key, key_bytes); !s) return api::report(s.error());
  return api::walk(lf, visit, argument, [&](unsigned who, auto* each, void* context) -> result<int> {
    if (status s = api::readable(key, key_bytes); !s) return s.error();
    return lf->of->scan_from(who, api::bytes_of(key, key_bytes), (flags & NVM_LF_AFTER) != 0, entries_max, each,
                             context);
  });
}

int nvm_lf_each_beside(nvm_lf* lf, const nvm_lf_entry* entry, uint64_t bytes, int (*visit)(const nvm_lf_entry*, void*),
                       void* argument) {
  if (entry == nullptr || visit == nullptr) return api::report(fail(errc::invalid, "the entry or the visitor is NULL"));
  return api::walk(lf, visit, argument, [&](unsigned who, auto* each, void* context) {
    return lf->of->each_beside(who, entry->place, bytes, each, context);
  });
}

uint64_t nvm_lf_entry_bytes(const nvm_lf* lf, size_t key_bytes, size_t value_bytes) {
  const nvm::platform::in_call here;
  status s = api::usable(lf);
  if (s && key_bytes > NVM_LF_KEY_MAX)
    s = fail(errc::too_large, "a key of %zu bytes: at most %u", key_bytes, NVM_LF_KEY_MAX);
  if (s && value_bytes > NVM_LF_VALUE_MAX) {
    s = fail(errc::too_large, "a value of %zu bytes: at most %u", value_bytes, NVM_LF_VALUE_MAX);
  }
  if (s) return lf->of->entry_bytes(key_bytes, value_bytes);
  (void)api::report(s.error());
  return 0;
}

int nvm_lf_get_position(nvm_lf* lf, uint64_t* position) {
  if (position == nullptr) return api::report(fail(errc::invalid, "the place for the position is NULL"));
  const nvm::platform::in_call here;
  if (status s = api::usable(lf); !s) return api::report(s.error());
  lf->all->side->settle();
  // The medium is asked after that: stores in a medium that has failed get no position.
  const auto reached = api::position_in(*lf);
  if (!reached) return api::report(reached.error());
  if (status s = api::medium_is_whole(lf->pool); !s) return api::report(s.error());
  *position = *reached;
  return 0;
}

uint64_t nvm_lf_position(nvm_lf* lf) {
  uint64_t position = 0;
  return nvm_lf_get_position(lf, &position) == 0 ? position : UINT64_MAX;
}

int nvm_lf_wait(nvm_lf* lf) {
  const nvm::platform::in_call here;
  // Changes that are done are waited for: a pool that refuses new ones leaves these in doubt.
  if (status s = nvm::engines::of_what_is_done(api::usable(lf)); !s) return api::report(s.error());
  lf->all->side->settle();
  const auto reached = api::position_in(*lf);
  if (!reached) return api::report(reached.error());
  return api::answer(nvm::engines::of_what_is_done(lf->pool->engine->wait(*reached)));
}

}  // extern "C"
