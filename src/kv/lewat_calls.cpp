// Calls that change a store over regions.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "kv/lewat_change.hpp"
#include "kv/open_stores.hpp"

namespace nvm::keyed::lewat {

namespace {

// Bytes of packed entries that a bucket has on average when one more is split: a bucket that was not split yet has up
// to twice as much as one that was.
constexpr std::uint64_t bucket_bytes_mean = 160;

segment_set one_segment(const key& k) noexcept {
  segment_set one;
  one.set(layout::item_segment(k.hash));
  return one;
}

struct private_bytes {
  std::unique_ptr<std::byte[]> memory;
  std::uint64_t count = 0;
};
status copy(bytes_view from, std::uint64_t room, private_bytes& to) noexcept {
  to.memory.reset(new (std::nothrow) std::byte[std::max<std::uint64_t>(room, 1)]);
  if (to.memory == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
  if (from.count != 0) std::memcpy(to.memory.get(), from.bytes, from.count);
  to.count = from.count;
  return {};
}
bool same(const private_bytes& a, bytes_view b) noexcept {
  return a.count == b.count && (a.count == 0 || std::memcmp(a.memory.get(), b.bytes, a.count) == 0);
}

}  // namespace

void regions_index::count_packed_bytes(unsigned number) {
  segment& s = segments_[number];
  s.packed_bytes = 0;
  const std::uint64_t buckets = s.buckets.load(std::memory_order_relaxed);
  for (std::uint64_t b = 0; b < buckets; ++b) {
    std::uint64_t bytes = 0;
    bool there = false;
    // A bucket whose header is damaged counts as empty here: a call that asks for it is told of the damage.
    if (length(layout::region_of_bucket(number, b), bytes, there)) s.packed_bytes += bytes;
  }
  s.packed_counted = true;
}
void regions_index::split_if_full(unsigned number) {
  segment& s = segments_[number];
  if (!s.packed_counted) count_packed_bytes(number);
  // A bucket that cannot be split now, for want of room or because it is damaged, serves as it is.
  while (s.packed_bytes > bucket_bytes_mean * s.buckets.load(std::memory_order_relaxed)) {
    if (!split(number)) return;
  }
}
status regions_index::split(unsigned number) {
  const std::uint64_t buckets = segments_[number].buckets.load(std::memory_order_relaxed);
  change one{*this};
  if (status s = one.split(layout::region_of_bucket(number, layout::next_to_split(buckets)), buckets); !s) return s;
  return one.commit();
}

// Called after the locks are let go.  Another thread may have made the entry, or removed it, a moment ago.
status regions_index::answer_of(const status& done) noexcept {
  if (!done && done.error() != errc::exists && done.error() != errc::not_found) return done;
  const status waited = wait();
  return waited ? done : waited;
}

status regions_index::put(const key& k, bytes_view value, unsigned flags) {
  if (status s = accepts_changes(); !s) return s;
  scratch::begin();
  status done;
  {
    const segment_locks here{*this, one_segment(k)};
    change one{*this};
    done = still_open();
    if (done) done = one.put(k, value, flags);
    if (done) done = one.commit();
    if (done) split_if_full(layout::item_segment(k.hash));
  }
  return answer_of(done);
}

status regions_index::remove(const key& k, bool& removed) {
  if (status s = accepts_changes(); !s) return s;
  scratch::begin();
  status done;
  {
    const segment_locks here{*this, one_segment(k)};
    change one{*this};
    done = still_open();
    if (done) done = one.remove(k, removed);
    if (done && removed) done = one.commit();
  }
  return answer_of(done);
}

status regions_index::update(const key& k, std::uint64_t room_wanted, edit_function edit, void* argument,
                             bool& was_there) {
  if (status s = accepts_changes(); !s) return s;
  for (;;) {
    answer now;
    if (status s = get(shared_from_this(), store_, pool_, k, {~std::uint64_t{0}, true}, now); !s) return s;
    was_there = now.there;
    if (!was_there) return {};
    const std::uint64_t room = std::max(now.value.count, room_wanted);
    private_bytes before;
    private_bytes after;
    if (status s = copy(now.value, now.value.count, before); !s) return s;
    if (status s = copy(now.value, room, after); !s) return s;
    std::size_t bytes = after.count;
    {
      const outside their_function;
      if (!their_function) return fail(errc::invalid, "updates inside of updates are nested too deeply");
      if (edit(after.memory.get(), &bytes, room, argument) != 0) return {};
    }
    if (bytes > room) return fail(errc::invalid, "the edit has made %zu bytes in room for %lu", bytes, room);
    if (status s = accepts_changes(); !s) return s;
    scratch::begin();
    status done;
    bool is_as_it_was = false;
    {
      const segment_locks here{*this, one_segment(k)};
      change one{*this};
      answer then;
      done = still_open();
      if (done) done = one.find(k, then);
      is_as_it_was = done && then.there && same(before, then.value);
      if (is_as_it_was) done = one.put(k, {after.memory.get(), bytes}, 0);
      if (is_as_it_was && done) done = one.commit();
      if (is_as_it_was && done) split_if_full(layout::item_segment(k.hash));
    }
    if (!done) return done;
    if (is_as_it_was) return wait();
  }
}

status regions_index::batch(const nvm_kv_operation* operations, std::size_t count, std::size_t& at) {
  if (status s = accepts_changes(); !s) return s;
  scratch::begin();
  segment_set all;
  const auto key_of = [&](const nvm_kv_operation& o) {
    key k{static_cast<const std::byte*>(o.key), static_cast<std::uint32_t>(o.key_bytes)};
    k.take_hash(store_.seed);
    return k;
  };
  for (at = 0; at < count; ++at) all.set(layout::item_segment(key_of(operations[at]).hash));
  status done;
  {
    const segment_locks here{*this, all};
    change together{*this};
    done = still_open();
    for (at = 0; at < count && done; ++at) {
      const nvm_kv_operation& o = operations[at];
      bool removed = false;
      done = o.kind == NVM_KV_PUT
                 ? together.put(key_of(o), {static_cast<const std::byte*>(o.value), o.value_bytes}, o.flags)
                 : together.remove(key_of(o), removed);
    }
    if (!done && at != 0) --at;
    if (done) done = together.commit();
    if (done) all.each([&](unsigned i) { split_if_full(i); });
  }
  return answer_of(done);
}

}  // namespace nvm::keyed::lewat
