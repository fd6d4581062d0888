// Reference counts of the C interface: the rings of a pool, the background thread, and the calls.
#include "api/references.hpp"

#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <system_error>

#include "api/misuse.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "nvm/gc.h"
#include "nvm/stm.h"
#include "object/garbage.hpp"
#include "object/undescribed.hpp"
#include "space/object_in_image.hpp"

namespace nvm::api {
namespace {

using object::counted_object;
using object::references;
using object::ring_shape;

constexpr auto between_turns = std::chrono::milliseconds{20};
constexpr auto patience_in_pause = std::chrono::milliseconds{5};
constexpr auto between_looks = std::chrono::microseconds{50};

counted_object counted(const object_facts& o) noexcept { return {o.header(), o.payload, o.bytes, o.type}; }

// Words of a ring: all rings together take one in 64 bytes of the pool.
std::uint32_t words_for(std::uint64_t pool_bytes, std::uint32_t rings) noexcept {
  const std::uint64_t words = std::bit_floor(std::max<std::uint64_t>(pool_bytes / 64 / rings / 8, 1));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(words, layout::ring_words_min, layout::ring_words_max));
}

}  // namespace

// ---- what counting asks of the pool ---------------------------------------------------------------------------------

std::byte* pool_references::base() noexcept { return pool_->base(); }
nvm::geometry pool_references::geometry() noexcept { return pool_->file->geometry(); }
counted_object pool_references::around(std::uint64_t place) noexcept {
  const nvm::geometry g = geometry();
  if (!g.in_objects(place, 1)) return {};
  const auto o = pool_->engine->find_around(place);
  return o && !o->reserved && place >= o->payload ? counted(*o) : counted_object{};
}
bool pool_references::is_counted(std::uint64_t place) noexcept { return !has_no_counts(*pool_, place); }
bool pool_references::has_stores() noexcept { return pool_->own_links.may_lead_anywhere(); }
// Without the locks of space/, whose bias the thread's lane may have.
counted_object pool_references::around_own(std::uint64_t place) noexcept {
  const nvm::geometry g = geometry();
  object_room room;
  if (g.home_bytes == 0) {
    room = object_in_image(base(), g, place);
  } else if (g.in_objects(place, 1)) {
    // Its size and type are those that the transaction has given it.
    if (const auto o = pool_->engine->find_around(place); o && !o->reserved)
      room = {o->header(), sizeof(layout::object_header) + o->aligned.gap + o->usable};
  }
  if (room.bytes == 0) return {};
  const auto p = object::payload_of(base(), room.offset, room.bytes);
  return p ? counted_object{room.offset, p->at, p->bytes, p->type} : counted_object{};
}
status pool_references::each(const std::function<bool(const counted_object&)>& visit) noexcept {
  const auto done = pool_->engine->each(
      [](void* v, const object_facts& o) {
        const auto& tell = *static_cast<const std::function<bool(const counted_object&)>*>(v);
        return tell(counted(o)) ? 0 : 1;
      },
      const_cast<std::function<bool(const counted_object&)>*>(&visit));
  return done ? status{} : status{done.error()};
}
result<std::uint64_t> pool_references::root() noexcept { return pool_->engine->root(); }
// Threads that settle wait for each other, and share one lane.  Others wait for them, with lanes of their own, so it is
// there from the start, and no thread takes it over.
result<tx::open_transaction*> pool_references::begin() noexcept {
  if (!parked_) lane_ = engines::kept_lane;
  return pool_->engine->begin(lane_, parked_);
}
status pool_references::keep_lane() noexcept {
  const auto t = begin();
  if (!t) return t.error();
  std::vector<tx::hook> none;
  (*t)->abort(none);
  return {};
}
unsigned pool_references::lanes() noexcept { return pool_->engine->lanes(); }
std::uint64_t pool_references::turns_of(unsigned lane) noexcept { return pool_->engine->turns_of(lane); }
isolation::visits pool_references::barriers_inside() { return isolation::visits::now(&pool_->barriers); }
bool pool_references::can_order_all() noexcept { return platform::can_fence_all_threads(); }
void pool_references::order_all() noexcept {
  if (platform::can_fence_all_threads()) platform::fence_all_threads();
}
bool pool_references::held(std::uint64_t payload) noexcept { return pool_->held.any(payload); }

// ---- life -----------------------------------------------------------------------------------------------------------

result<ring_shape> pool_references::make_rings(std::uint64_t old) {
  engine& e = *pool_->engine;
  const std::uint32_t rings = e.lanes();
  const std::uint32_t words = words_for(geometry().size_bytes(), rings);
  if (status s = e.add_feature(layout::feature_references); !s) return s.error();
  std::uint64_t payload = 0;
  const status made = in_own_transaction(pool_, [&](tx::open_transaction& t) -> status {
    auto place = t.allocate(layout::type_of_reference_rings, layout::reference_rings_bytes(rings, words));
    if (!place) return place.error();
    payload = *place;
    ring_shape::make(base(), payload, rings, words, [&](unsigned i) { return e.attached_end(i).value_or(0); });
    const ring_shape s{ring_shape::header_at(payload), rings, words};
    // In force until the first count: if this process dies before, the next one counts.
    ring_shape::put(base(), s.unsettled_at(), layout::counts_in_doubt);
    if (status named = t.set_reference_rings(payload); !named) return named;
    return old == 0 ? status{} : t.release(old);
  });
  if (!made) return made.error();
  return ring_shape{ring_shape::header_at(payload), rings, words};
}

// An object whose pointers cannot be told would keep nothing, and objects that it refers to would die.
// `counted_before`: every object that was there then, or was made since, is of a type that the pool has a layout of.
status pool_references::expect_described(bool counted_before) {
  const std::lock_guard guard{pool_->types_lock};
  const auto plans = plans_to_follow(pool_);
  if (!plans) return plans.error();
  if (counted_before && !plans->lack_visitors()) return {};
  const auto found = object::description_of_all(*pool_->engine, *plans, untyped_are_bytes(pool_));
  if (!found) return found.error();
  if (found->empty()) return {};
  std::map<std::uint32_t, std::uint64_t> types;
  for (const auto& [type, t] : *found) types[type] = t.objects;
  return refuse_undescribed(pool_, "references cannot be counted where nobody describes the types of objects", types);
}

status pool_references::start(bool background) {
  engine& e = *pool_->engine;
  if (e.lanes() < 2)
    return fail(errc::invalid, "%s has one lane: references are counted with two and more", pool_->file->path());
  auto place = e.reference_rings();
  if (!place) return place.error();
  result<ring_shape> shape{errc::not_found};
  if (*place != 0) {
    const auto o = e.find(*place);
    if (!o || o->type != layout::type_of_reference_rings) {
      return fail(errc::corrupt, "%s: rings of activation records: found no such object at offset %lu",
                  pool_->file->path(), *place);
    }
    shape = ring_shape::read(base(), *place, o->bytes);
    if (!shape) return shape.error();
  }
  const bool counted_before = shape && (ring_shape::get(base(), shape->unsettled_at()) & layout::counts_in_doubt) == 0;
  if (status s = expect_described(counted_before); !s) return s;
  // The number of lanes may differ: on ssd the program chooses it.
  if (!shape || shape->rings < e.lanes()) shape = make_rings(*place);
  if (!shape) return shape.error();
  counts_ = std::make_unique<references>(*this, *shape, [&](std::uint32_t i) {
    const auto end = i < e.lanes() ? e.attached_end(i) : std::nullopt;
    return end.value_or(static_cast<std::uint32_t>(ring_shape::get(base(), shape->end_at(i))));
  });
  if (status s = learn_types(); !s) return s;
  if (status s = keep_lane(); !s) return s;
  if (counts_->is_to_recount()) {
    if (status s = counts_->recount(); !s) return s;
  } else if (counts_->unsettled()) {
    if (status s = counts_->find_dying(); !s) return s;
  }
  if (has_stores()) {
    if (status s = counts_->lose_counts(); !s) return s;
  }
  if (pool_->checked) counts_->watch_frees(&frees_);
  e.count_references(counts_.get());
  // No thread has a pointer yet.
  if (status s = counts_->settle(references::how::at_rest); !s) return s;
  if (background && !start_thread())
    return fail(errc::system, "%s: no thread to count references", pool_->file->path());
  return {};
}

status pool_references::learn_types() {
  auto stored = pool_->engine->types();
  if (!stored) return stored.error();
  object::pointer_plans plans{*stored};
  plans.untyped_are_bytes(untyped_are_bytes(pool_));
  counts_->use(std::move(plans));
  return {};
}

bool pool_references::start_thread() noexcept try {
  counts_->on_pressure([this] {
    {
      const std::lock_guard guard{lock_};
      wanted_ = true;
    }
    woken_.notify_one();
  });
  thread_ = std::thread{[this] { run(); }};
  return true;
} catch (const std::system_error&) {
  return false;
} catch (const std::bad_alloc&) {
  return false;
}

void pool_references::run() noexcept {
  std::unique_lock guard{lock_};
  while (!stopping_) {
    woken_.wait_for(guard, between_turns, [this] { return stopping_ || wanted_; });
    wanted_ = false;
    if (stopping_) return;
    guard.unlock();
    {
      const platform::in_call here;
      const std::lock_guard turn{gate_};
      // A pool that has failed takes no commits; the calls of the program say so.
      if (counts_->anything_to_do() && medium_is_whole(pool_)) (void)counts_->round(references::how::running);
    }
    guard.lock();
  }
}

void pool_references::stop() noexcept {
  {
    const std::lock_guard guard{lock_};
    stopping_ = true;
  }
  woken_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void pool_references::finish() noexcept {
  stop();
  if (counts_ == nullptr) return;
  (void)counts_->settle(references::how::at_rest);
  if (parked_) pool_->engine->give_back(lane_);
  parked_ = false;
}

namespace {

// Payloads of the objects that have records which rings had no room for.
result<std::vector<std::uint64_t>> long_records(engine& e) {
  struct context {
    std::vector<std::uint64_t> all;
    bool short_of_memory = false;
  } c;
  const auto walked = e.each(
      [](void* raw, const object_facts& o) noexcept {
        auto& found = *static_cast<context*>(raw);
        try {
          if (o.type == layout::type_of_long_record) found.all.push_back(o.payload);
        } catch (const std::bad_alloc&) {
          found.short_of_memory = true;
        }
        return found.short_of_memory ? 1 : 0;
      },
      &c);
  if (c.short_of_memory) throw std::bad_alloc{};
  if (!walked) return walked.error();
  return std::move(c.all);
}
// Commits without records make counts wrong: rings whose records go are in doubt until they are gone.
status give_rings_up(nvm_pool* pool, std::uint64_t place) {
  auto records = long_records(*pool->engine);
  if (!records) return records.error();
  const auto o = pool->engine->find(place);
  const auto shape = o ? ring_shape::read(pool->base(), place, o->bytes) : result<ring_shape>{errc::not_found};
  if (shape && !records->empty()) {
    const std::uint64_t at = shape->unsettled_at();
    const std::uint64_t bits = ring_shape::get(pool->base(), at) | layout::counts_in_doubt;
    const tx::assigned_bytes word{at, seal_word(bits, word_seed(at)), 8};
    const status noted = in_own_transaction(pool, [&](tx::open_transaction& t) { return t.assign_all({&word, 1}); });
    if (!noted) return noted;
  }
  for (const std::uint64_t payload : *records) {
    const status gone = in_own_transaction(pool, [&](tx::open_transaction& t) { return t.release(payload); });
    if (!gone) return gone;
  }
  return in_own_transaction(pool, [&](tx::open_transaction& t) -> status {
    if (status s = t.set_reference_rings(0); !s) return s;
    return t.release(place);
  });
}

}  // namespace

status start_references(nvm_pool* pool, std::uint32_t collect) noexcept try {
  if (pool->file->read_only()) return {};
  if (collect == NVM_COLLECT_OFF) {
    // Commits without records make counts wrong: the next open that wants counts makes them anew.
    auto place = pool->engine->reference_rings();
    if (!place) return place.error();
    return *place == 0 ? status{} : give_rings_up(pool, *place);
  }
  if (pool->engine->translates())
    return fail(errc::engine, "%s is open with translated reads: its references cannot be counted", pool->file->path());
  pool->references = std::make_unique<pool_references>(pool);
  status s = pool->references->start(collect == NVM_COLLECT_BACKGROUND);
  if (!s) pool->engine->count_references(nullptr);
  if (!s) pool->references.reset();
  return s;
} catch (const std::bad_alloc&) {
  pool->engine->count_references(nullptr);
  pool->references.reset();
  return fail(errc::no_memory, "%s: no volatile memory to count references", pool->file->path());
}

bool has_no_counts(const nvm_pool& pool, std::uint64_t place) noexcept {
  return pool.references == nullptr || pool.own_links.may_lead_into_store(place, 1);
}
void clear_new(const nvm_pool& pool, std::uint32_t type, void* p, std::size_t bytes) noexcept {
  if (pool.references != nullptr && pool.references->counts().may_refer(type)) std::memset(p, 0, bytes);
}
status lose_counts(const nvm_pool& pool) noexcept {
  return pool.references == nullptr ? status{} : pool.references->counts().lose_counts();
}

void freeing(nvm_pool* pool, const void* object, const void* caller) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(pool->base());
  pool->references->frees().called(at, caller);
}
void tell_wrong_frees(nvm_pool* pool) {
  for (const auto& f : pool->references->frees().take()) {
    const void* const object = pool->base() + f.payload;
    const errc code =
        f.twice ? fail(errc::bad_pointer, "the object at %p was freed twice", object)
                : fail(errc::bad_pointer, "the object at %p was freed: found %lu references to it, expected none",
                       object, f.strong);
    (void)report(code);
    misused(code, object, f.caller);
  }
}

unsigned open_transactions(nvm_pool* pool) noexcept {
  std::unique_lock<std::mutex> held;
  if (pool->references != nullptr) held = pool->references->hold_thread();
  const no_detached_collection meanwhile{pool};
  return pool->engine->open_transactions();
}

namespace {

// All other transactions of the pool wait before they begin.
class pause {
 public:
  explicit pause(nvm_pool* pool) noexcept : pool_{pool} {
    pool_->pausing.lock();
    // seq_cst: ordered with the turns of lanes, which are read next, by the barrier in all threads.
    pool_->paused.store(true, std::memory_order_seq_cst);
  }
  ~pause() {
    // release: pairs with the acquire in begin_on_lane().
    pool_->paused.store(false, std::memory_order_release);
    pool_->pausing.unlock();
  }
  pause(const pause&) = delete;
  pause& operator=(const pause&) = delete;

 private:
  nvm_pool* pool_;
};

// A transaction that was open when the pause began ends soon, and a thread that meets the pause takes a lane for a
// moment: a single look would find one of them wherever threads are busy.  Not without a limit, since a transaction may
// wait for a thread that waits for the end of the pause: false, and the pause was in vain.
//
// One barrier in all threads is enough: a transaction that turns_of() does not show after it sees the pause.
bool wait_for_those_inside(nvm_pool* pool) {
  if (!platform::can_fence_all_threads()) return false;
  const engine& e = *pool->engine;
  platform::fence_all_threads();
  const auto any_inside = [&e] {
    for (unsigned lane = 0; lane < e.lanes(); ++lane) {
      if ((e.turns_of(lane) & 1) != 0) return true;
    }
    return false;
  };
  const auto end = std::chrono::steady_clock::now() + patience_in_pause;
  while (any_inside()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

// Barrier transactions first: they end before this one runs alone, since they may wait for a thread that waits for the
// end of the pause.
status settle_in_pause(nvm_pool* pool) noexcept {
  struct context {
    nvm_pool* pool;
    status done;
  } c{pool, {}};
  const auto alone = [](nvm_stm* tx, void* raw) {
    nvm_stm_become_irrevocable(tx);
    auto& k = *static_cast<context*>(raw);
    const platform::in_call here;
    const pause nobody_begins{k.pool};
    if (wait_for_those_inside(k.pool)) k.done = k.pool->references->counts().settle(references::how::paused);
    return 0;
  };
  const platform::out_of_call there;
  if (nvm_stm_run(nullptr, alone, &c) != 0) return fail(reported_code(), "%s", last_message());
  return c.done;
}

status settle(nvm_pool* pool, nvm_settle_report& to) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s;
  if (pool->file->read_only()) return fail(errc::read_only, "%s is open read-only", pool->file->path());
  if (pool->references == nullptr) {
    return fail(errc::invalid, "%s is open without nvm_pool_options.collect: its references are not counted",
                pool->file->path());
  }
  if (status s = not_in_transaction(pool, "nvm_settle()"); !s) return s;
  if (status s = medium_is_whole(pool); !s) return s;
  references& counts = pool->references->counts();
  const auto before = counts.sums();
  const bool background = pool->references->in_background();
  status s = counts.settle(background ? references::how::running : references::how::at_rest);
  // Only a look at all objects tells which weak pointers are to become null.
  if (s && background && counts.any_zombies() && !in_barrier_transaction()) s = settle_in_pause(pool);
  const auto after = counts.sums();
  to.records = after.records - before.records;
  to.entries = after.entries - before.entries;
  to.transactions = after.transactions - before.transactions;
  to.freed_objects = after.freed - before.freed;
  to.waiting_objects = after.waiting;
  to.drifted_counts = after.drifted;
  to.damaged_records = after.damaged;
  to.cleared_pointers = after.cleared - before.cleared;
  if (s) s = pool->engine->wait(after.last_lsn);
  return if_intact(pool, s);
}

status counts_of(nvm_pool* pool, const void* object, nvm_reference_counts& to) noexcept {
  if (pool == nullptr) return fail(errc::bad_pointer, "%p is inside no open pool", object);
  if (status s = pool->file->usable(); !s) return s;
  if (pool->references == nullptr) return fail(errc::invalid, "%s: its references are not counted", pool->file->path());
  const auto at = reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(pool->base());
  const counted_object o = pool->references->around(at);
  if (status s = intact(pool); !s) return s;
  if (o.bytes == 0) return fail(errc::bad_pointer, "%p is inside no object of %s", object, pool->file->path());
  if (has_no_counts(*pool, o.payload)) {
    return fail(errc::bad_pointer, "%p is in pages that an object store of %s has, or has had: it is not counted",
                object, pool->file->path());
  }
  const layout::reference_count c = pool->references->counts().count_of(o);
  to.strong = c.strong;
  to.weak = c.weak;
  to.saturated = c.strong == layout::strong_max || c.weak == layout::weak_max ? 1 : 0;
  to.dying = c.dying ? 1 : 0;
  return {};
}

// Holds the object that a weak pointer leads to; `value`: reads the pointer.  errc::not_found: it has died.
status hold_by_weak(nvm_pool* pool, const std::function<std::uint64_t()>& value) noexcept try {
  if (status s = pool->file->usable(); !s) return s;
  const auto place = [&] { return value() - reinterpret_cast<std::uintptr_t>(pool->base()); };
  const auto hold = [&](const counted_object& o) { return pool->held.add(o.payload); };
  if (pool->references != nullptr && !has_no_counts(*pool, place()))
    return pool->references->counts().hold_living(place, hold);
  // Again where the pointer changed meanwhile: a collection beside transactions may have ended in between, without
  // having seen the hold.
  for (;;) {
    const std::uint64_t at = place();
    if (!pool->file->geometry().in_objects(at, 1))
      return fail(errc::not_found, "offset %lu of %s is in no object", at, pool->file->path());
    const auto facts = pool->engine->find_around(at);
    if (!facts) return errc::not_found;
    const counted_object o = counted(*facts);
    if (status s = hold(o); !s) return s;
    if (place() == at) return {};
    (void)pool->held.take(o.payload);
  }
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to hold an object");
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;

extern "C" {

int nvm_settle(NVM_POOL* pool, nvm_settle_report* report) {
  const nvm::platform::in_call here;
  nvm_settle_report unread;
  nvm_settle_report& to = report != nullptr ? *report : unread;
  to = {};
  return api::answer(api::settle(pool, to));
}

void* nvm_weak_get(const void* field) {
  const auto value = [field] {
    std::uintptr_t v;
    std::memcpy(&v, field, sizeof v);
    return v;
  };
  // First of all: a barrier may leave this function, and nothing must have to be undone then.
  const bool by_barrier = nvm_stm_of_thread != nullptr;
  if (!by_barrier) {
    if (const nvm::status s = api::accessible(field, sizeof(std::uintptr_t)); !s)
      return api::report_null<void>(s.error());
  }
  auto v = by_barrier ? reinterpret_cast<std::uintptr_t>(nvm_stm_load_pointer(nvm_stm_of_thread, field)) : value();
  if (v == 0) return nullptr;
  const nvm::platform::in_call here;
  nvm_pool* const pool = nvm_pool_of(reinterpret_cast<const void*>(v));
  if (pool == nullptr) {
    return api::report_null<void>(nvm::fail(nvm::errc::bad_pointer,
                                            "a weak pointer: found %p, which is inside no open pool",
                                            reinterpret_cast<const void*>(v)));
  }
  // Read again where no thread frees its object or makes it null.
  const nvm::status held = api::hold_by_weak(pool, [&] { return by_barrier ? v : v = value(); });
  if (v == 0) return nullptr;
  return held ? reinterpret_cast<void*>(v) : api::report_null<void>(api::if_intact(pool, held).error());
}

int nvm_references(const void* object, nvm_reference_counts* counts) {
  const nvm::platform::in_call here;
  if (counts == nullptr) return api::report(nvm::fail(nvm::errc::invalid, "the place for the counts is NULL"));
  *counts = {};
  return api::answer(api::counts_of(nvm_pool_of(object), object, *counts));
}

}  // extern "C"
