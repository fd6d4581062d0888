#include "kv/lewat.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <new>

#include "kv/readable.hpp"

namespace nvm::keyed::lewat {

using api::effect;

std::string set_name(std::uint64_t seed) {
  char name[24];
  std::snprintf(name, sizeof name, "kv-%016" PRIx64, seed);
  return name;
}
status make_set(NVM_POOL* pool, std::uint64_t seed) {
  nvm_regions_options o{};
  o.mode = 2;
  if (nvm_regions_open(pool, set_name(seed).c_str(), &o) != nullptr) return {};
  return static_cast<errc>(nvm_errno());
}
status drop_set(NVM_POOL* pool, std::uint64_t seed) {
  if (nvm_regions_drop(pool, set_name(seed).c_str()) == 0) return {};
  const int why = nvm_errno();
  if (why == NVM_E_NOT_FOUND || why == NVM_E_ENGINE) return {};
  return static_cast<errc>(why);
}
status can_have_sets(NVM_POOL* pool) {
  if (nvm_regions_names(pool, [](const char*, std::uint64_t, void*) { return 1; }, nullptr) >= 0) return {};
  return static_cast<errc>(nvm_errno());
}
status outside_of_transactions() noexcept {
  if (status s =
          api::not_in_barriers("a call on a key-value store of index regions, which takes part in no transaction,",
                               "it before the transaction or after it");
      !s) {
    return s;
  }
  return api::not_in_announced();
}

// ---- locks ----------------------------------------------------------------------------------------------------------

segment_locks::segment_locks(regions_index& of, const segment_set& which) noexcept : of_{of}, which_{which} {
  which_.each([&](unsigned i) { of_.segments_[i].lock.lock(); });
}
segment_locks::~segment_locks() {
  which_.each([&](unsigned i) { of_.segments_[i].lock.unlock(); });
}

// ---- regions --------------------------------------------------------------------------------------------------------

regions_index::regions_index(const store& s, NVM_POOL* pool)
    : store_{s}, pool_{pool}, segments_{new segment[layout::item_segments]} {}

// A set that a program has dropped under the store has no regions that could be absent.
status regions_index::absent(errc why) const noexcept {
  return why == errc::not_found && at_once_->of != nullptr ? errc::ok : why;
}

status regions_index::read(std::uint64_t rid, std::span<std::byte> to, std::uint64_t& count, bool& there) noexcept {
  count = 0;
  there = false;
  const auto n = api::run<effect::looks>(
      at_once_, [&](api::part_of_thread& p) { return at_once_->of->read(p.number(), rid, 0, to); });
  if (!n) return absent(n.error());
  count = *n;
  there = true;
  return {};
}

status regions_index::length(std::uint64_t rid, std::uint64_t& bytes, bool& there) noexcept {
  bytes = 0;
  there = false;
  const auto n =
      api::run<effect::looks>(at_once_, [&](api::part_of_thread& p) { return at_once_->of->length(p.number(), rid); });
  if (!n) return absent(n.error());
  bytes = *n;
  there = true;
  return {};
}

status regions_index::each_region(const std::function<void(std::uint64_t rid, std::uint64_t bytes)>& visit) noexcept {
  const auto done = api::run<effect::looks>(at_once_, [&](api::part_of_thread& p) {
    return at_once_->of->each(
        p.number(),
        [](std::uint64_t rid, std::uint64_t bytes, void* raw) {
          (*static_cast<const std::function<void(std::uint64_t, std::uint64_t)>*>(raw))(rid, bytes);
          return 0;
        },
        const_cast<void*>(static_cast<const void*>(&visit)));
  });
  return done ? status{} : status{done.error()};
}

status regions_index::open() {
  const std::string name = set_name(store_.seed);
  nvm_regions_options o{};
  o.mode = 1;
  o.flags = NVM_REGIONS_NO_WAIT;
  at_once_ = nvm_regions_open(pool_, name.c_str(), &o);
  if (at_once_ == nullptr) return static_cast<errc>(nvm_errno());
  // No other thread uses the store yet.  Numbers of regions say all that readers need; reading a million headers would
  // take longer than all the rest of an open.
  std::uint64_t regions[layout::item_segments] = {};
  const status seen = each_number([&](std::uint64_t rid) {
    const unsigned number = layout::segment_of_region(rid);
    if (number >= layout::item_segments) return;
    segment& s = segments_[number];
    if (layout::is_own_region(rid)) {
      s.has_own.store(true, std::memory_order_relaxed);
      return;
    }
    ++regions[number];
    const std::uint64_t buckets = layout::bucket_of_region(rid) + 1;
    if (buckets > s.buckets.load(std::memory_order_relaxed)) s.buckets.store(buckets, std::memory_order_relaxed);
    s.has_packed.store(true, std::memory_order_relaxed);
  });
  if (!seen) return seen;
  for (unsigned i = 0; i < layout::item_segments; ++i) {
    const std::uint64_t buckets = segments_[i].buckets.load(std::memory_order_relaxed);
    if (buckets <= layout::buckets_max(regions[i])) continue;
    return fail(errc::corrupt,
                "key-value store \"%s\": region %016lx of set %s is bucket %lu of a segment of %lu regions",
                store_.name.c_str(), layout::region_of_bucket(i, buckets - 1), name.c_str(), buckets - 1, regions[i]);
  }
  return {};
}

status regions_index::wait() noexcept { return api::wait_for_all_done(pool_); }
status regions_index::accepts_changes() const noexcept {
  // A function of the program, which has run since the call began, may have closed the pool.
  if (status s = pool_->file->usable(); !s) return s;
  if (status s = outside_of_transactions(); !s) return s;
  if (pool_->file->read_only()) return fail(errc::read_only, "%s is opened read-only", pool_->file->path());
  return pool_->engine->wait(0);
}

status regions_index::still_open() const noexcept {
  // relaxed: the lock of a segment orders it.
  if (store_.handles.load(std::memory_order_relaxed) != 0) [[likely]]
    return {};
  return was_closed(store_);
}

errc regions_index::damaged(std::uint64_t rid) const noexcept {
  return fail(errc::corrupt,
              "key-value store \"%s\": region %016lx of set kv-%016lx fails its check: sizes of an entry",
              store_.name.c_str(), rid, store_.seed);
}
errc regions_index::damaged_entry(std::uint64_t rid, const key& k, verdict what) const noexcept {
  return fail(errc::corrupt, "key-value store \"%s\": entry \"%s\", in region %016lx of set kv-%016lx: %s",
              store_.name.c_str(), (readable{k.bytes, k.count}.text), rid, store_.seed, sentence(what));
}

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

// What a first look takes of a region.
constexpr std::uint64_t bytes_of_bucket = 1024;
constexpr std::uint64_t bytes_of_own = 4096;
constexpr unsigned tries_max = 4;

}  // namespace

status regions_index::take_found(std::uint64_t rid, const std::byte* image, const item& i, const key& k, const wish& w,
                                 answer& out) const {
  if (w.verified && !sum_holds(image, i, k, store_.sums)) return damaged_entry(rid, k, verdict::no_sum);
  out = {true, {image + i.value_at(), i.sizes.value}};
  return {};
}

status regions_index::look_in(std::uint64_t rid, const key& k, const wish& w, answer& out) {
  std::uint64_t room = layout::is_own_region(rid) ? bytes_of_own : bytes_of_bucket;
  for (;;) {
    std::byte* image = scratch::of_thread().take(room);
    if (image == nullptr) return fail(errc::no_memory, "no volatile memory for a value");
    std::uint64_t count = 0;
    bool there = false;
    if (status s = read(rid, {image, room}, count, there); !s || !there) return s;
    item i;
    found f = found::no;
    std::uint64_t at = 0;
    for (; (f = read_item(image, count, at, store_.sums, i)) == found::yes; at += bytes_of(i.sizes, store_.sums)) {
      if (has_key(image, i, k)) return take_found(rid, image, i, k, w, out);
    }
    if (count < room) {
      if (f == found::damaged) return damaged(rid);
      // An entry that is damaged may be the one that is looked for.
      const bool minds = w.verified || layout::is_own_region(rid);
      if (minds && find_damaged(image, count, store_.sums, i)) {
        return damaged_entry(rid, key_in(image, i), verdict::no_sum);
      }
      return {};
    }
    // The region is longer than what was read.
    const bool has_sizes = room - at >= layout::item_sizes_bytes;
    if (has_sizes && !read_sizes(image, at, i)) return damaged(rid);
    const std::uint64_t wanted = has_sizes ? i.value_at() + std::min(w.bytes, i.sizes.value) : room;
    if (has_sizes && !w.verified && wanted <= room && has_key(image, i, k)) return take_found(rid, image, i, k, w, out);
    std::uint64_t bytes = 0;
    if (status s = length(rid, bytes, there); !s || !there) return s;
    room = has_sizes ? std::min(bytes, at + bytes_of(i.sizes, store_.sums)) : room + bytes_of_own;
    room = std::max(room, count) + 1;  // one byte more: if it is not there, the region has ended
  }
}

status regions_index::look(const key& k, const wish& w, answer& out) {
  segment& s = of_hash(k.hash);
  out = {};
  status packed;
  // acquire: pairs with the release in change::commit(): no such entry was made before this.
  if (s.has_packed.load(std::memory_order_acquire)) {
    packed = look_in(bucket_now(k.hash), k, w, out);
    if (out.there || (!packed && packed.error() != errc::corrupt)) return packed;
  }
  if (!s.has_own.load(std::memory_order_acquire)) return packed;
  // A damaged bucket says nothing about an entry in a region of its own.
  const kept_message said{packed};
  const status own = look_in(layout::own_region(k.hash), k, w, out);
  return out.there || packed ? own : said.again();
}

status regions_index::look_freely(const key& k, const wish& w, answer& out, bool& settled) {
  segment& s = of_hash(k.hash);
  settled = true;
  for (unsigned i = 0; i < tries_max; ++i) {
    scratch::of_thread().reset();
    // acquire: pairs with the release at the end of a change: what it moved is where it is looked for.
    const std::uint64_t before = s.version.load(std::memory_order_acquire);
    if (status done = look(k, w, out); !done || out.there) return done;
    // acquire, and the loads before it acquire: the version was the same while they ran.
    if (before % 2 == 0 && s.version.load(std::memory_order_acquire) == before) return {};
  }
  settled = false;
  return {};
}

status regions_index::look_alone(const key& k, const wish& w, answer& out) {
  scratch::of_thread().reset();
  segment_set mine;
  mine.set(layout::item_segment(k.hash));
  const segment_locks here{*this, mine};
  if (status s = still_open(); !s) return s;
  return look(k, w, out);
}

status regions_index::get(const std::shared_ptr<regions_index>& from, const store& of, NVM_POOL* pool, const key& k,
                          const wish& w, answer& out) {
  if (status s = outside_of_transactions(); !s) return s;
  scratch::begin();
  std::shared_ptr<regions_index> kept;  // only where it looks again, under the lock
  {
    const reading here{pool, of};
    if (status begun = here.begun(); !begun) return begun;
    bool settled = false;
    if (status done = from->look_freely(k, w, out, settled); !done) return done;
    if (!settled) kept = from;
  }
  if (kept != nullptr) {
    if (status done = kept->look_alone(k, w, out); !done) return done;
  }
  return api::wait_for_all_done(pool);
}

// ---- number of entries ----------------------------------------------------------------------------------------------

status regions_index::count_packed(unsigned number, std::vector<std::byte>& image) {
  segment& s = segments_[number];
  const std::uint64_t buckets = s.buckets.load(std::memory_order_relaxed);
  std::uint64_t entries = 0;
  for (std::uint64_t b = 0; b < buckets; ++b) {
    const std::uint64_t rid = layout::region_of_bucket(number, b);
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    bool there = false;
    if (status got = length(rid, bytes, there); !got) return got;
    image.resize(bytes);
    if (status got = read(rid, image, count, there); !got) return got;
    item i;
    for (std::uint64_t at = 0; read_item(image.data(), count, at, store_.sums, i) == found::yes; ++entries) {
      at += bytes_of(i.sizes, store_.sums);
    }
  }
  // relaxed: under the lock; readers of the sum ask about no moment.
  s.entries.fetch_add(entries, std::memory_order_relaxed);
  return {};
}

status regions_index::count_all() {
  const segment_locks all{*this, segment_set::everything()};
  if (status s = still_open(); !s) return s;
  if (counted_.load(std::memory_order_relaxed)) return {};
  for (unsigned i = 0; i < layout::item_segments; ++i) segments_[i].entries.store(0, std::memory_order_relaxed);
  status unread;
  const status seen = each_region([&](std::uint64_t rid, std::uint64_t bytes) {
    if (!layout::is_own_region(rid) || !unread) return;
    // The sizes of each entry in turn: there is one, unless hashes are equal.
    std::uint64_t entries = 0;
    for (std::uint64_t at = 0; at < bytes; ++entries) {
      std::byte word[layout::item_sizes_bytes];
      const auto n = api::run<effect::looks>(
          at_once_, [&](api::part_of_thread& p) { return at_once_->of->read(p.number(), rid, at, word); });
      if (!n) unread = n.error();
      item i;
      if (!n || *n < sizeof word || !read_sizes(word, 0, i)) break;
      at += bytes_of(i.sizes, store_.sums);
    }
    segments_[layout::segment_of_region(rid)].entries.fetch_add(entries, std::memory_order_relaxed);
  });
  if (!seen) return seen;
  if (!unread) return unread;
  std::vector<std::byte> image;
  for (unsigned i = 0; i < layout::item_segments; ++i) {
    if (status s = count_packed(i, image); !s) return s;
  }
  counted_.store(true, std::memory_order_relaxed);
  return {};
}

status regions_index::size(std::uint64_t& entries) try {
  if (status s = outside_of_transactions(); !s) return s;
  if (!counted_.load(std::memory_order_relaxed)) {
    if (status s = count_all(); !s) return s;
  }
  entries = 0;
  for (unsigned i = 0; i < layout::item_segments; ++i) {
    entries += segments_[i].entries.load(std::memory_order_relaxed);
  }
  return wait();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to count entries");
}

}  // namespace nvm::keyed::lewat
