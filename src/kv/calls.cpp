// Key-value stores of the C interface: one entry, batches, figures; each call is a transaction.
#include <algorithm>
#include <cstring>

#include "kv/open_stores.hpp"

namespace nvm::keyed {

static_assert(NVM_KV_LIST == static_cast<int>(keyed::kv_index::list) &&
              NVM_KV_RBTREE == static_cast<int>(keyed::kv_index::rbtree) &&
              NVM_KV_REGIONS == static_cast<int>(keyed::kv_index::regions));
static_assert(NVM_KV_KEY_MAX == layout::kv_key_bytes_max && NVM_KV_VALUE_MAX == layout::kv_value_bytes_max &&
              NVM_KV_NAME_MAX == layout::kv_name_bytes_max);
static_assert(NVM_KV_PUT_ABSENT == unsigned{keyed::put_absent} && NVM_KV_PUT_PRESENT == unsigned{keyed::put_present} &&
              NVM_KV_PUT_NEW == unsigned{keyed::put_new});

namespace {

status check_put(const nvm_kv* kv, const void* key, std::size_t key_bytes, const void* value, std::size_t value_bytes,
                 unsigned flags, keyed::key& out) noexcept {
  if (status s = changeable(kv); !s) return s;
  constexpr unsigned known = NVM_KV_PUT_ABSENT | NVM_KV_PUT_PRESENT | NVM_KV_PUT_NEW;
  if ((flags & ~known) != 0 || (flags & (flags - 1)) != 0) {
    return fail(errc::invalid, "flags %u are none of enum nvm_kv_put_flags", flags);
  }
  if (value == nullptr && value_bytes != 0) return fail(errc::invalid, "the value is NULL");
  if (status s = keyed::check_value(value_bytes); !s) return s;
  return keyed::prepare_key(kv->store, key, key_bytes, out);
}

// Writes those bytes of a value that an edit has changed, and its sum, which follows the value.
void write_changes(keyed::operation& op, const keyed::key& k, keyed::record& r, std::byte* before, std::byte* after) {
  std::uint64_t from = 0;
  std::uint64_t to = r.sizes.value;
  while (from < to && before[from] == after[from]) ++from;
  while (to > from && before[to - 1] == after[to - 1]) --to;
  if (from == to) return;
  std::byte* value = keyed::value_of(op, r);
  if (!op.sums.on) {
    op.write(value + from, after + from, to - from);
    return;
  }
  const std::uint64_t sum = op.sums.of(k, r, after);
  std::byte* sum_at = value + r.sizes.value;
  if (r.sizes.value - to <= line_bytes) {
    std::memcpy(after + r.sizes.value, &sum, sizeof sum);
    op.write(value + from, after + from, r.sizes.value - from + sizeof sum);
    return;
  }
  op.expect({{value + from, to - from}, {sum_at, sizeof sum}});
  op.write(value + from, after + from, to - from);
  op.write(sum_at, &sum, sizeof sum);
}

// The first `count` bytes of a value, all of which is looked at.
status get_verified(keyed::operation& op, const keyed::key& k, const keyed::record& r, void* to, std::size_t count) {
  std::byte* copy = keyed::scratch::of_thread().take(keyed::value_room(op, r));
  if (copy == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
  if (status s = keyed::read_value(op, k, r, true, copy); !s) return s;
  if (count != 0) std::memcpy(to, copy, count);
  return {};
}

struct edit_call {
  int (*edit)(void*, size_t*, size_t, void*);
  void* argument;
  std::size_t room_wanted;
};
status update(keyed::operation& op, keyed::key k, const edit_call& e, bool& found) {
  keyed::record r;
  if (status s = keyed::find(op, k, r); !s) return s;
  found = r.place != 0;
  if (!found) return {};
  if (op.sums.on) k.take_hash(op.of.seed);  // for the sum that is looked at, and for the new one
  const std::uint64_t room = std::max<std::uint64_t>(r.sizes.value, e.room_wanted);
  std::byte* before = keyed::scratch::of_thread().take(keyed::value_room(op, r));
  std::byte* after = keyed::scratch::of_thread().take(room + op.sums.bytes());
  if (before == nullptr || after == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
  // A value that is made from a damaged one would get a sum that holds.
  if (status s = keyed::read_value(op, k, r, true, before); !s) return s;
  if (r.sizes.value != 0) std::memcpy(after, before, r.sizes.value);
  std::size_t bytes = r.sizes.value;
  {
    const outside their_function;
    if (!their_function) return fail(errc::invalid, "updates inside of updates are nested too deeply");
    if (e.edit(after, &bytes, room, e.argument) != 0) return {};
  }
  if (bytes > room) return fail(errc::invalid, "the edit has made %zu bytes in room for %lu", bytes, room);
  if (bytes == r.sizes.value && bytes <= keyed::in_place_bytes_max) {
    write_changes(op, k, r, before, after);
    return {};
  }
  return keyed::put(op, k, {after, bytes}, 0);
}

// ---- stores over regions ----

// Runs call(index) -> status.
template <class Call>
status on_index(const nvm_kv& kv, Call&& call) {
  const auto index = index_of(kv);
  return index ? call(**index) : status{index.error()};
}

status get_of_index(const nvm_kv& kv, const keyed::key& k, const lewat::wish& w, lewat::answer& out) {
  return lewat::regions_index::get(kv.regions, kv.store, kv.of.pool, k, w, out);
}

int get_of_regions(nvm_kv& kv, const keyed::key& k, void* value, std::size_t room, std::size_t* value_bytes) {
  lewat::answer found;
  const bool verified = kv.store.verify_reads.load(std::memory_order_relaxed);
  if (status s = get_of_index(kv, k, {room, verified}, found); !s) return api::report(s.error());
  if (!found.there) return 0;
  const std::size_t n = std::min<std::uint64_t>(found.value.count, room);
  if (n != 0) std::memcpy(value, found.value.bytes, n);
  if (value_bytes != nullptr) *value_bytes = found.value.count;
  return 1;
}

int visit_in_regions(nvm_kv& kv, const keyed::key& k, void (*visit)(const void*, std::size_t, void*), void* argument) {
  lewat::answer found;
  const bool verified = kv.store.verify_reads.load(std::memory_order_relaxed);
  if (status s = get_of_index(kv, k, {~std::uint64_t{0}, verified}, found); !s) return api::report(s.error());
  if (!found.there) return 0;
  const outside their_function;
  if (!their_function) return api::report(fail(errc::invalid, "visits inside of visits are nested too deeply"));
  visit(found.value.bytes, found.value.count, argument);
  return 1;
}

status statistics_of_regions(nvm_kv& kv, nvm_kv_statistics& out) {
  if (status s = lewat::outside_of_transactions(); !s) return s;
  auto index = index_of(kv);
  if (!index) return index.error();
  lewat::walk walk{std::move(*index)};
  lewat::walk::entry_view e;
  totals sum;
  for (;;) {
    const auto step = walk.next(e);
    if (!step) return step.error();
    if (*step == lewat::walk::step::damage) return errc::corrupt;
    if (*step == lewat::walk::step::end) break;
    ++sum.entries;
    sum.key_bytes += e.key.size();
    sum.value_bytes += e.value.size();
  }
  if (status s = walk.wait(); !s) return s;
  const lewat::walk::shape& seen = walk.seen();
  out = {};
  out.index = static_cast<std::uint32_t>(kv.store.index);
  out.depth = static_cast<std::uint32_t>(seen.depth);
  out.entries = sum.entries;
  out.key_bytes = sum.key_bytes;
  out.value_bytes = sum.value_bytes;
  out.buckets = seen.buckets;
  out.own_regions = seen.own;
  out.checksums = kv.store.sums.on ? 1 : 0;
  const auto regions = static_cast<double>(seen.buckets + seen.own);
  out.load = static_cast<double>(sum.entries) / regions;
  return {};
}

}  // namespace
}  // namespace nvm::keyed

namespace api = nvm::api;
namespace layout = nvm::layout;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_kv_put_with(nvm_kv* kv, const void* key, size_t key_bytes, const void* value, size_t value_bytes,
                    unsigned flags) {
  const nvm::platform::in_call here;
  keyed::key k;
  nvm::status s = keyed::check_put(kv, key, key_bytes, value, value_bytes, flags, k);
  if (s) {
    const keyed::bytes_view v{static_cast<const std::byte*>(value), value_bytes};
    s = keyed::over_regions(*kv)
            ? keyed::on_index(*kv, [&](auto& index) { return index.put(k, v, flags); })
            : keyed::run_on(*kv, [&](keyed::operation& op) { return keyed::put(op, k, v, flags); });
  }
  return api::answer(s);
}

int nvm_kv_put(nvm_kv* kv, const void* key, size_t key_bytes, const void* value, size_t value_bytes) {
  return nvm_kv_put_with(kv, key, key_bytes, value, value_bytes, 0);
}

int nvm_kv_get(nvm_kv* kv, const void* key, size_t key_bytes, void* value, size_t room, size_t* value_bytes) {
  const nvm::platform::in_call here;
  keyed::key k;
  nvm::status s = keyed::usable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  if (s && value == nullptr && room != 0) s = fail(errc::invalid, "the value is NULL");
  if (s && keyed::over_regions(*kv)) return keyed::get_of_regions(*kv, k, value, room, value_bytes);
  keyed::record r;
  if (s) {
    s = keyed::run_on(*kv, [&](keyed::operation& op) -> nvm::status {
      if (nvm::status found = keyed::find(op, k, r); !found || r.place == 0) return found;
      const std::size_t n = std::min<std::uint64_t>(r.sizes.value, room);
      if (op.of.verify_reads.load(std::memory_order_relaxed)) return keyed::get_verified(op, k, r, value, n);
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
  const nvm::platform::in_call here;
  keyed::key k;
  nvm::status s = keyed::usable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  if (s && visit == nullptr) s = fail(errc::invalid, "the function is NULL");
  if (s && keyed::over_regions(*kv)) return keyed::visit_in_regions(*kv, k, visit, argument);
  keyed::record r;
  std::byte* copy = nullptr;
  if (s) {
    s = keyed::run_on(*kv, [&](keyed::operation& op) -> nvm::status {
      if (nvm::status found = keyed::find(op, k, r); !found || r.place == 0) return found;
      copy = keyed::scratch::of_thread().take(keyed::value_room(op, r));
      if (copy == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
      return keyed::read_value(op, k, r, op.of.verify_reads.load(std::memory_order_relaxed), copy);
    });
  }
  if (!s) return api::report(s.error());
  if (r.place == 0) return 0;
  const keyed::outside their_function;
  if (!their_function) return api::report(fail(errc::invalid, "visits inside of visits are nested too deeply"));
  visit(copy, r.sizes.value, argument);
  return 1;
}

int nvm_kv_remove(nvm_kv* kv, const void* key, size_t key_bytes) {
  const nvm::platform::in_call here;
  keyed::key k;
  nvm::status s = keyed::changeable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  bool removed = false;
  if (s) {
    s = keyed::over_regions(*kv)
            ? keyed::on_index(*kv, [&](auto& index) { return index.remove(k, removed); })
            : keyed::run_on(*kv, [&](keyed::operation& op) { return keyed::remove(op, k, removed); });
  }
  return s ? static_cast<int>(removed) : api::report(s.error());
}

int nvm_kv_update(nvm_kv* kv, const void* key, size_t key_bytes, size_t room_wanted,
                  int (*edit)(void*, size_t*, size_t, void*), void* argument) {
  const nvm::platform::in_call here;
  keyed::key k;
  nvm::status s = keyed::changeable(kv);
  if (s) s = keyed::prepare_key(kv->store, key, key_bytes, k);
  if (s && edit == nullptr) s = fail(errc::invalid, "the function is NULL");
  if (s) s = keyed::check_value(room_wanted);
  bool found = false;
  if (s && keyed::over_regions(*kv)) {
    // While edit() runs others may close the store, drop it, and forget it.
    s = keyed::on_index(*kv, [&](auto& index) { return index.update(k, room_wanted, edit, argument, found); });
  } else if (s) {
    const keyed::edit_call call{edit, argument, room_wanted};
    s = keyed::run_on(*kv, [&](keyed::operation& op) { return keyed::update(op, k, call, found); });
  }
  return s ? static_cast<int>(found) : api::report(s.error());
}

int nvm_kv_batch(NVM_POOL* pool, const nvm_kv_operation* operations, size_t count, size_t* failed) {
  const nvm::platform::in_call here;
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
    } else if (o.kv != nullptr && o.kv != operations[0].kv &&
               (keyed::over_regions(*o.kv) || keyed::over_regions(*operations[0].kv))) {
      s = fail(
          errc::invalid,
          "operation %zu of a batch is on another store than the first: a batch with a store of index regions is on "
          "that store alone",
          at);
    } else {
      const bool puts = o.kind == NVM_KV_PUT;
      s = keyed::check_put(o.kv, o.key, o.key_bytes, puts ? o.value : nullptr, puts ? o.value_bytes : 0,
                           puts ? o.flags : 0, k);
    }
    if (!s) break;
  }
  if (s) at = 0;
  if (s && count != 0 && keyed::over_regions(*operations[0].kv)) {
    s = keyed::on_index(*operations[0].kv, [&](auto& index) { return index.batch(operations, count, at); });
  } else if (s) {
    s = keyed::run(pool, [&](nvm_stm* tx) -> nvm::status {
      for (at = 0; at < count; ++at) {
        const nvm_kv_operation& o = operations[at];
        keyed::scratch::of_thread().reset();
        keyed::operation op{tx, o.kv->store};
        keyed::key k;
        bool removed = false;
        nvm::status done = keyed::still_open(*o.kv, op);
        if (done) done = keyed::prepare_key(o.kv->store, o.key, o.key_bytes, k);
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

int64_t nvm_kv_size(nvm_kv* kv) {
  const nvm::platform::in_call here;
  nvm::status s = keyed::usable(kv);
  std::uint64_t entries = 0;
  if (s && keyed::over_regions(*kv)) {
    s = keyed::on_index(*kv, [&](auto& index) { return index.size(entries); });
  } else if (s) {
    s = keyed::run_on(*kv, [&](keyed::operation& op) {
      entries = op.count.sum(op).entries;
      return nvm::status{};
    });
  }
  return s ? static_cast<std::int64_t>(entries) : api::report(s.error());
}

int nvm_kv_get_statistics(nvm_kv* kv, nvm_kv_statistics* out) try {
  const nvm::platform::in_call here;
  nvm::status s = keyed::usable(kv);
  if (s && out == nullptr) s = fail(errc::invalid, "the result is NULL");
  if (s && keyed::over_regions(*kv)) return nvm::api::answer(keyed::statistics_of_regions(*kv, *out));
  // Outside of the transaction: a conflict leaves that without running destructors.
  keyed::inspection walk;
  if (s) {
    s = keyed::run_on(*kv, [&](keyed::operation& op) {
      keyed::read_by_transaction bytes{op};
      walk.stop_at_first(op.of.name);
      return walk.run(bytes, op.of.header_place);
    });
  }
  if (!s) return api::report(s.error());
  const keyed::figures& f = walk.found();
  *out = {};
  out->index = static_cast<std::uint32_t>(kv->store.index);
  out->depth = f.depth;
  out->entries = f.sum.entries;
  out->key_bytes = f.sum.key_bytes;
  out->value_bytes = f.sum.value_bytes;
  out->buckets = f.buckets;
  out->overflow_buckets = f.overflow_buckets;
  out->longest_chain = f.longest_chain;
  out->leaves = f.leaves;
  out->inner_nodes = f.inner_nodes;
  out->checksums = kv->store.sums.on ? 1 : 0;
  const double slots = f.buckets != 0 ? static_cast<double>(f.buckets + f.overflow_buckets) * layout::bucket_slots
                                      : static_cast<double>(f.leaves) * layout::leaf_slots;
  out->load = slots == 0 ? 0 : static_cast<double>(f.sum.entries) / slots;
  return 0;
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for a look at a store"));
}

}  // extern "C"
