#include "kv/lewat_change.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "kv/operations.hpp"

namespace nvm::keyed::lewat {

using api::effect;
using bytes_span = std::span<const std::byte>;

namespace {

errc short_of_memory() noexcept { return fail(errc::no_memory, "no volatile memory for a change of a store"); }

// Slots of 256 bytes have room for that, beside the header of a region.
constexpr std::uint64_t bucket_room = 224;

}  // namespace

// ---- images ---------------------------------------------------------------------------------------------------------

// Twice the room, so that a batch of any length takes memory in proportion to it.
status change::grow() noexcept {
  const unsigned room = 2 * room_;
  auto* more = reinterpret_cast<image*>(scratch::of_thread().take(room * sizeof(image)));
  auto* slots = reinterpret_cast<std::uint32_t*>(scratch::of_thread().take(2 * room * sizeof(std::uint32_t)));
  if (more == nullptr || slots == nullptr) return short_of_memory();
  std::copy(images_, images_ + count_, more);
  std::fill_n(slots, 2 * room, 0U);
  images_ = more;
  slots_ = slots;
  room_ = room;
  for (unsigned i = 0; i < count_; ++i) note(i);
  return {};
}
void change::note(unsigned number) noexcept {
  const std::uint64_t mask = 2 * room_ - 1;
  std::uint64_t at = slot_of(images_[number].rid) & mask;
  while (slots_[at] != 0) at = (at + 1) & mask;
  slots_[at] = number + 1;
}
unsigned change::find_image(std::uint64_t rid) const noexcept {
  if (slots_ == nullptr) {
    unsigned i = 0;
    while (i < count_ && images_[i].rid != rid) ++i;
    return i;
  }
  const std::uint64_t mask = 2 * room_ - 1;
  for (std::uint64_t at = slot_of(rid) & mask; slots_[at] != 0; at = (at + 1) & mask) {
    if (images_[slots_[at] - 1].rid == rid) return slots_[at] - 1;
  }
  return count_;
}

status change::read_all(image& m, std::uint64_t room) {
  std::byte* to = scratch::of_thread().take(room);
  if (to == nullptr) return short_of_memory();
  m.before = m.after = to;
  if (status s = of_.read(m.rid, {to, room}, m.known, m.exists); !s) return s;
  m.length = m.after_bytes = m.known;
  m.after_room = 0;
  return {};
}

status change::load(std::uint64_t rid, unsigned& out) {
  out = find_image(rid);
  if (out != count_) return {};
  if (count_ == room_) {
    if (status s = grow(); !s) return s;
  }
  image m{};
  m.rid = rid;
  const std::uint64_t first = layout::is_own_region(rid) ? 4096 : 512;
  if (status s = read_all(m, first); !s) return s;
  if (m.known == first) {
    bool there = false;
    if (status s = of_.length(rid, m.length, there); !s) return s;
    if (m.length > known_max) {
      m.after_bytes = m.length;
    } else if (m.length > first) {
      if (status s = read_all(m, m.length); !s) return s;
    }
  }
  images_[count_++] = m;
  if (slots_ != nullptr) note(out);
  return {};
}

status change::look_in(unsigned number, const key& k, bool whole, place& out) {
  const auto search = [&](image& m) {
    const std::uint64_t count = m.after == m.before ? m.known : m.after_bytes;
    return find_item(m.after, count, k, of_.store_.sums, out.i);
  };
  image& m = images_[number];
  out.image = number;
  found f = search(m);
  if (m.after == m.before && m.known < m.length) {
    // The region is longer; most often what was read is the beginning of its only entry.  A region of other entries
    // must be read whole, since an image that changes is whole.
    item& i = out.i;
    const bool only = read_sizes(m.before, 0, i) && bytes_of(i) == m.length && i.value_at() <= m.known;
    if (only && !whole) {
      f = has_key(m.before, i, k) ? found::yes : found::no;
      if (f == found::no) whole = true;
    }
    if (!only || whole) {
      if (status s = read_all(m, m.length); !s) return s;
      f = search(m);
    }
  }
  if (f == found::damaged) return of_.damaged(m.rid);
  out.there = f == found::yes;
  // An entry that is damaged may be the one that is looked for.  relaxed: calls that run meanwhile may do either.
  const bool minds = layout::is_own_region(m.rid) || of_.store_.verify_reads.load(std::memory_order_relaxed);
  item damaged;
  if (!out.there && minds &&
      find_damaged(m.after, m.after == m.before ? m.known : m.after_bytes, of_.store_.sums, damaged)) {
    return of_.damaged_entry(m.rid, key_in(m.after, damaged), verdict::no_sum);
  }
  return {};
}

status change::locate(const key& k, place& out, bool whole) {
  const regions_index::segment& s = of_.of_hash(k.hash);
  const std::uint64_t bucket = of_.bucket_now(k.hash);
  const std::uint64_t own = layout::own_region(k.hash);
  bool looked[2] = {s.has_packed.load(std::memory_order_relaxed), s.has_own.load(std::memory_order_relaxed)};
  looked[0] = looked[0] || find_image(bucket) != count_;
  looked[1] = looked[1] || find_image(own) != count_;
  out.there = false;
  const auto look = [&](std::uint64_t rid) {
    unsigned number = 0;
    const status done = load(rid, number);
    return done ? look_in(number, k, whole, out) : done;
  };
  status packed;
  if (looked[0]) packed = look(bucket);
  if (out.there || !looked[1] || (!packed && packed.error() != errc::corrupt)) return packed;
  // A damaged bucket says nothing about an entry in a region of its own.
  const kept_message said{packed};
  const status done = look(own);
  return out.there || packed ? done : said.again();
}

status change::splice(unsigned number, std::uint64_t at, std::uint64_t bytes, const key* k, bytes_view value) {
  image& m = images_[number];
  const layout::record_sizes sizes{value.count, k == nullptr ? 0 : k->count, 0};
  const std::uint64_t added = k == nullptr ? 0 : lewat::bytes_of(sizes, of_.store_.sums);
  const std::uint64_t tail = m.after_bytes - at - bytes;
  const std::uint64_t wanted = at + added + tail;
  if (m.after_room == 0 || m.after_room < wanted) {
    // Twice what it had: entries that come one after the other move it a few times only.
    const std::uint64_t room = m.after_room == 0 ? wanted : 2 * wanted;
    std::byte* to = scratch::of_thread().take(room);
    if (to == nullptr) return short_of_memory();
    if (at != 0) std::memcpy(to, m.after, at);
    if (tail != 0) std::memcpy(to + at + added, m.after + at + bytes, tail);
    m.after = to;
    m.after_room = room;
  } else if (tail != 0 && added != bytes) {
    std::memmove(m.after + at + added, m.after + at + bytes, tail);
  }
  if (k != nullptr) write_item(m.after + at, *k, value, of_.store_.sums);
  m.after_bytes = wanted;
  m.changes = true;
  m.gained += (k == nullptr ? 0 : 1) - (bytes == 0 ? 0 : 1);
  return {};
}

// ---- operations -----------------------------------------------------------------------------------------------------

status change::find(const key& k, answer& out) {
  place at;
  out = {};
  if (status s = locate(k, at, true); !s || !at.there) return s;
  out = {true, {images_[at.image].after + at.i.value_at(), at.i.sizes.value}};
  return {};
}

status change::put(const key& k, bytes_view value, unsigned flags) {
  place was;
  if (status s = locate(k, was, false); !s) return s;
  if (was.there && (flags & put_absent) != 0) {
    return fail(errc::exists, "key-value store \"%s\" has an entry with this key", of_.store_.name.c_str());
  }
  if (!was.there && (flags & put_present) != 0) {
    return fail(errc::not_found, "key-value store \"%s\" has no entry with this key", of_.store_.name.c_str());
  }
  const bool packed = lewat::bytes_of({value.count, k.count, 0}, of_.store_.sums) <= layout::item_packed_max;
  const std::uint64_t rid = packed ? of_.bucket_now(k.hash) : layout::own_region(k.hash);
  if (was.there && images_[was.image].rid == rid) {
    return splice(was.image, was.i.at, bytes_of(was.i), &k, value);
  }
  if (was.there) {
    if (status s = splice(was.image, was.i.at, bytes_of(was.i), nullptr, {}); !s) return s;
  }
  unsigned number = 0;
  if (status s = load(rid, number); !s) return s;
  if (was.there) {
    // The entry moves: nothing may be damaged where it goes to.
    if (status s = look_in(number, k, true, was); !s) return s;
  }
  image& m = images_[number];
  if (m.after == m.before && m.known < m.length) {
    if (status s = read_all(m, m.length); !s) return s;
  }
  return splice(number, m.after_bytes, 0, &k, value);
}

status change::remove(const key& k, bool& removed) {
  place was;
  if (status s = locate(k, was, false); !s) return s;
  removed = was.there;
  return removed ? splice(was.image, was.i.at, bytes_of(was.i), nullptr, {}) : status{};
}

status change::split(std::uint64_t rid, std::uint64_t buckets) {
  const record_sums& sums = of_.store_.sums;
  unsigned old = 0;
  unsigned made = 0;
  if (status s = load(rid, old); !s) return s;
  const std::uint64_t fresh = layout::region_of_bucket(layout::segment_of_region(rid), buckets);
  if (status s = load(fresh, made); !s) return s;
  image& from = images_[old];
  image& to = images_[made];
  if (to.exists) return of_.damaged(to.rid);
  if (from.known < from.length) {
    if (status s = read_all(from, from.length); !s) return s;
  }
  std::byte* stays = scratch::of_thread().take(from.known);
  std::byte* goes = scratch::of_thread().take(from.known);
  if (stays == nullptr || goes == nullptr) return short_of_memory();
  from.after_bytes = to.after_bytes = 0;
  item i;
  found f = found::no;
  for (std::uint64_t at = 0; (f = read_item(from.before, from.known, at, sums, i)) == found::yes; at += bytes_of(i)) {
    key k = key_in(from.before, i);
    k.take_hash(of_.store_.seed);
    const bool moves = layout::bucket_region(k.hash, buckets + 1) == fresh;
    image& m = moves ? to : from;
    std::memcpy((moves ? goes : stays) + m.after_bytes, from.before + at, bytes_of(i));
    m.after_bytes += bytes_of(i);
  }
  if (f == found::damaged) return of_.damaged(rid);
  from.after = stays;
  to.after = goes;
  from.changes = to.changes = to.is_made = true;
  return {};
}

// ---- commit ---------------------------------------------------------------------------------------------------------

change::deed change::deed_of(const image& m) noexcept {
  if (!m.changes) return deed::none;
  if (!m.exists) return m.after_bytes != 0 || m.is_made ? deed::create : deed::none;
  if (m.after_bytes == 0 && layout::is_own_region(m.rid)) return deed::drop;
  const bool same = m.after_bytes == m.length && m.known == m.length && std::memcmp(m.before, m.after, m.length) == 0;
  return same ? deed::none : deed::edit;
}
std::uint64_t change::room_of(const image& m) noexcept {
  return layout::is_own_region(m.rid) ? m.after_bytes : std::max(m.after_bytes, bucket_room);
}

// The stretches that differ, among the bytes that the region has and keeps.
stretches change::differences(const image& m) noexcept {
  stretches all;
  const std::uint64_t both = std::min(m.length, m.after_bytes);
  const std::uint64_t known = std::min(m.known, both);
  compare_images(m.before, m.after, known, all);
  all.add(known, both);
  return all;
}

status change::edit_in(engines::open_regions_change& group, const image& m) noexcept {
  const stretches all = differences(m);
  if (m.after_bytes < m.length) {
    if (status s = group.truncate(m.rid, m.after_bytes); !s) return s;
  }
  for (unsigned i = 0; i < all.count; ++i) {
    const stretch& d = all.of[i];
    if (status s = group.write(m.rid, d.from, bytes_span{m.after + d.from, d.to - d.from}); !s) return s;
  }
  if (m.after_bytes <= m.length) return {};
  const auto at = group.append(m.rid, bytes_span{m.after + m.length, m.after_bytes - m.length});
  return at ? status{} : status{at.error()};
}

status change::edit_alone(const image& m, unsigned who) noexcept {
  engines::open_set& set = *of_.at_once_->of;
  const stretches all = differences(m);
  if (all.count == 1 && m.after_bytes == m.length) {
    const stretch& d = all.of[0];
    return set.write(who, m.rid, d.from, bytes_span{m.after + d.from, d.to - d.from});
  }
  if (all.count == 0 && m.after_bytes < m.length) return set.truncate(who, m.rid, m.after_bytes);
  if (all.count == 0) {
    const auto at = set.append(who, m.rid, bytes_span{m.after + m.length, m.after_bytes - m.length});
    return at ? status{} : status{at.error()};
  }
  const auto alone = set.begin(who);
  if (!alone) return alone.error();
  if (status s = (*alone)->join(m.rid, region::mode::adaptive); !s) return s;
  if (status s = edit_in(**alone, m); !s) return s;
  return (*alone)->commit();
}

status change::commit_one(const image& m, unsigned who) noexcept {
  engines::open_set& set = *of_.at_once_->of;
  switch (m.what) {
    case deed::none:
      return {};
    case deed::create:
      return set.create(who, m.rid, m.after_bytes, bytes_span{m.after, m.after_bytes}, room_of(m));
    case deed::drop:
      return set.drop(who, m.rid);
    case deed::edit:
      return edit_alone(m, who);
  }
  __builtin_unreachable();
}

status change::commit_group(unsigned who) noexcept {
  const auto group = of_.at_once_->of->begin(who);
  if (!group) return group.error();
  engines::open_regions_change& g = **group;
  // The segments' locks keep other callers away, but not what holds regions inside of the pool: for that a group waits
  // where the region's number is above those that it has.
  std::sort(images_, images_ + count_, [](const image& a, const image& b) { return a.rid < b.rid; });
  for (unsigned i = 0; i < count_; ++i) {
    const image& m = images_[i];
    const deed what = m.what;
    if (what == deed::none) continue;
    if (what == deed::create) {
      if (status s = g.create(m.rid, m.after_bytes, room_of(m)); !s) return s;
      if (status s = g.write(m.rid, 0, bytes_span{m.after, m.after_bytes}); !s) return s;
      continue;
    }
    if (status s = g.join(m.rid, region::mode::adaptive); !s) return s;
    if (status s = what == deed::drop ? g.drop(m.rid) : edit_in(g, m); !s) return s;
  }
  return g.commit();
}

// Called before regions change: tells readers where to look, whatever becomes of the change.
void change::announce() noexcept {
  unsigned deeds = 0;
  for (unsigned i = 0; i < count_; ++i) {
    const image& m = images_[i];
    const deed what = m.what;
    if (what == deed::none) continue;
    ++deeds;
    moving_.set(layout::segment_of_region(m.rid));
    if (what == deed::create && layout::is_own_region(m.rid) && of_.walks_.load(std::memory_order_relaxed) != 0) {
      try {
        segment_of(m).made.push_back(m.rid);
      } catch (const std::bad_alloc&) {
        segment_of(m).made_is_short = true;
      }
    }
    // release: pairs with the acquire in look(): a reader that finds no such entry looked before there was any.
    if (m.after_bytes != 0) {
      (layout::is_own_region(m.rid) ? segment_of(m).has_own : segment_of(m).has_packed)
          .store(true, std::memory_order_release);
    }
  }
  if (deeds < 2) moving_.clear();
  moving_.each([&](unsigned i) { of_.segments_[i].version.fetch_add(1, std::memory_order_acq_rel); });
}
void change::settle(bool done) noexcept {
  for (unsigned i = 0; done && i < count_; ++i) {
    const image& m = images_[i];
    if (!m.changes) continue;
    regions_index::segment& s = segment_of(m);
    s.entries.fetch_add(static_cast<std::uint64_t>(m.gained), std::memory_order_relaxed);
    if (layout::is_own_region(m.rid)) continue;
    if (s.packed_counted) s.packed_bytes += m.after_bytes - m.length;
    // release, with the version after it: a reader that sees the new bucket looks there.
    if (m.is_made) s.buckets.store(layout::bucket_of_region(m.rid) + 1, std::memory_order_release);
  }
  // release: pairs with the acquire in get().
  moving_.each([&](unsigned i) { of_.segments_[i].version.fetch_add(1, std::memory_order_release); });
}

status change::commit() {
  unsigned deeds = 0;
  const image* only = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    images_[i].what = deed_of(images_[i]);
    if (images_[i].what == deed::none) continue;
    ++deeds;
    only = &images_[i];
  }
  if (deeds == 0) return {};
  announce();
  const auto done = api::run<effect::begins>(of_.at_once_, [&](api::part_of_thread& p) -> result<int> {
    const status s = deeds == 1 ? commit_one(*only, p.number()) : commit_group(p.number());
    if (!s) return s.error();
    return 0;
  });
  settle(done || done.error() == errc::in_doubt);
  return done ? status{} : status{done.error()};
}

}  // namespace nvm::keyed::lewat
