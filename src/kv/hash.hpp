// A hash table that grows bucket by bucket.
//
// A bucket is one line: seven words of 24 bits of hash and the place of a record.  So a look-up reads that line and the
// record it wants; one in thousands reads another record.  Bucket b of depth d holds the keys with b in the low d bits
// of their hash; when it is full it is split into b and b + 2^d, and no other bucket changes.  The table's level
// bounds the depth of all buckets.  It rises when there are more than five entries a bucket, and then each insertion
// splits one more bucket in turn.  So no transaction reads a word that growth or counting changes all the time: level
// and position of the splitting are volatile hints, and every bucket says for itself what it holds.
//
// A split needs no record: the bits of the hash that it goes by are in the bucket.
#pragma once

#include <bit>
#include <cstring>

#include "kv/store.hpp"

namespace nvm::keyed::hash {

using layout::bucket;
using layout::bucket_slots;

inline constexpr std::uint64_t entries_per_bucket = 5;
inline constexpr unsigned moved_max = 64;  // entries of a bucket that is still split

struct hint {
  unsigned level = layout::bucket_depth_min;
  std::uint64_t split = 0;  // buckets of level - 1 below this are split
};
inline hint read_hint(const store& s) noexcept {
  // relaxed: hints.
  const std::uint64_t w = s.hint.load(std::memory_order_relaxed);
  const auto level = static_cast<unsigned>(w >> 40);
  return level < layout::bucket_depth_min ? hint{} : hint{level, w & ((std::uint64_t{1} << 40) - 1)};
}
inline void write_hint(store& s, hint h) noexcept {
  s.hint.store(std::uint64_t{h.level} << 40 | h.split, std::memory_order_relaxed);
}

constexpr std::uint64_t low_bits(std::uint64_t hash, unsigned bits) noexcept {
  return hash & ((std::uint64_t{1} << bits) - 1);
}

// Word that names segment `number`; nullptr: its list does not exist (then `*absent`) or is damaged.
[[nodiscard]] inline std::uint64_t* word_of_segment(const operation& op, std::uint64_t number, bool& absent) {
  const unsigned k = segment_cache::list_of(number);
  absent = false;
  if (k == 0) return &op.header->segments[0];
  const std::uint64_t list = op.load(&op.header->segments[k]);
  absent = list == 0;
  if (absent) return nullptr;
  auto* words = op.at<std::uint64_t>(list, segment_cache::first_of(k) * 8);
  return words == nullptr ? nullptr : words + (number - segment_cache::first_of(k));
}

// Bucket b; nullptr in `out`: it does not exist yet.
[[nodiscard]] inline status locate(operation& op, std::uint64_t b, bucket*& out) {
  const std::uint64_t number = b / layout::segment_buckets;
  std::uint64_t place = op.of.segments.find(number);
  if (place == 0) {
    bool absent = false;
    auto* word = word_of_segment(op, number, absent);
    if (word == nullptr && !absent) return errc::corrupt;
    place = absent ? 0 : op.load(word);
    out = nullptr;
    if (place == 0) return {};
    if (op.at<layout::segment>(place) == nullptr) return errc::corrupt;
    op.learnt.add(number, place);
  }
  out = &op.known<layout::segment>(place)->buckets[b % layout::segment_buckets];
  return {};
}

// Makes the segment of bucket b if it is not there.
[[nodiscard]] inline status locate_or_make(operation& op, std::uint64_t b, bucket*& out) {
  if (status s = locate(op, b, out); !s || out != nullptr) return s;
  const std::uint64_t number = b / layout::segment_buckets;
  bool absent = false;
  auto* word = word_of_segment(op, number, absent);
  if (absent) {
    const unsigned k = segment_cache::list_of(number);
    auto* list = op.allocate<std::uint64_t>(layout::kv_type_segment_list, segment_cache::first_of(k) * 8);
    if (list == nullptr) return access::out_of_room();
    std::memset(list, 0, segment_cache::first_of(k) * 8);
    op.store(&op.header->segments[k], op.place_of(list));
    word = list + (number - segment_cache::first_of(k));
  }
  if (word == nullptr) return errc::corrupt;
  auto* made = op.allocate<layout::segment>(layout::kv_type_segment);
  if (made == nullptr) return access::out_of_room();
  std::memset(static_cast<void*>(made), 0, sizeof *made);
  made->number = number;
  op.store(word, op.place_of(made));
  op.learnt.add(number, op.place_of(made));
  out = &made->buckets[b % layout::segment_buckets];
  return {};
}

constexpr unsigned depth_of(const bucket& b) noexcept { return static_cast<unsigned>(layout::more_of(b.meta)); }

// The bucket that has `hash` now.
struct home {
  std::uint64_t number = 0;
  bucket* at = nullptr;
  bucket image{};
};
[[nodiscard]] inline status find_home(operation& op, std::uint64_t hash, home& out) {
  const hint h = read_hint(op.of);
  unsigned level = h.level;
  if (level > layout::bucket_depth_min && low_bits(hash, level - 1) >= h.split) --level;
  const unsigned first = level;
  for (unsigned steps = 0; steps <= 2 * layout::bucket_depth_max; ++steps) {
    out.number = low_bits(hash, level);
    if (status s = locate(op, out.number, out.at); !s) return s;
    unsigned depth = 0;
    if (out.at != nullptr) {
      op.read(&out.image, out.at, sizeof out.image);
      depth = depth_of(out.image);
    }
    if (depth == 0 && level > layout::bucket_depth_min) {
      --level;
    } else if (depth > layout::bucket_depth_max || depth < layout::bucket_depth_min) {
      return access::damaged("bucket", op.of.header_place);
    } else if (depth > level) {
      ++level;
    } else {
      if (depth > first && depth > h.level) write_hint(op.of, {depth, 0});
      return {};
    }
  }
  return access::damaged("hash table", op.of.header_place);
}

// A chain of buckets, walked.
struct chain {
  bucket* at;
  bucket image;
  unsigned buckets = 1;
  static constexpr unsigned buckets_max = 1U << 16;

  // Goes on to the overflow bucket; false: there is none, or, with `s` set, it is damaged.
  [[nodiscard]] bool next(operation& op, status& s) {
    const std::uint64_t place = layout::place_of(image.meta);
    if (place == 0) return false;
    auto* b = op.at<bucket>(place);
    if (b == nullptr || ++buckets > buckets_max) {
      s = b == nullptr ? status{errc::corrupt} : status{access::damaged("chain of buckets", place)};
      return false;
    }
    at = b;
    op.read(&image, b, sizeof image);
    return true;
  }
};

// Tells whether a record is damaged that has the hash bits of the key and another key.
[[nodiscard, gnu::cold]] status look_at(const operation& op, std::uint64_t place);

struct found {
  home first;
  record r{};
  std::uint64_t* slot = nullptr;  // the word that names the record
  std::uint64_t* link = nullptr;  // word `meta` that names the overflow bucket of the slot; nullptr: it is the first
  bucket holder{};                // bucket of the slot
  bool is_last_entry = false;
  std::uint64_t* free_slot = nullptr;  // the first one
  bucket* last = nullptr;              // bucket at the end of the chain; when nothing was found
  std::uint64_t last_meta = 0;
};

[[nodiscard]] inline status find(operation& op, const key& k, found& out) {
  if (status s = find_home(op, k.hash, out.first); !s) return s;
  const std::uint64_t tag = layout::tag_of(k.hash);
  chain c{out.first.at, out.first.image};
  std::uint64_t* link = nullptr;
  for (;;) {
    for (unsigned i = 0; i < bucket_slots; ++i) {
      const std::uint64_t word = c.image.slots[i];
      if (word == 0) {
        if (out.free_slot == nullptr) out.free_slot = &c.at->slots[i];
        continue;
      }
      if (layout::more_of(word) != tag) continue;
      bool equal = false;
      if (status s = read_if_equal(op, layout::place_of(word), k, out.r, equal); !s) return s;
      if (!equal) {
        // The same 24 bits and another key: so it is once in millions of entries, or the record was this key's and is
        // damaged.
        if (status s = look_at(op, layout::place_of(word)); !s) return s;
        continue;
      }
      out.slot = &c.at->slots[i];
      out.link = link;
      out.holder = c.image;
      return {};
    }
    out.last = c.at;
    out.last_meta = c.image.meta;
    link = &c.at->meta;
    status s;
    if (!c.next(op, s)) {
      out.r.place = 0;
      return s;
    }
  }
}

// Splits bucket `b`, as just read, in two of one bit more.  More entries than `moved_max` stay together: `done` false.
[[nodiscard]] inline status split(operation& op, const home& b, bool& done) {
  done = false;
  std::uint64_t words[moved_max];
  unsigned n = 0;
  std::uint64_t overflow[moved_max];
  unsigned chained = 0;
  for (chain c{b.at, b.image};;) {
    for (const std::uint64_t word : c.image.slots) {
      if (word == 0) continue;
      if (n == moved_max) return {};
      words[n++] = word;
    }
    status s;
    if (!c.next(op, s)) {
      if (!s) return s;
      break;
    }
    if (chained == moved_max) return {};
    overflow[chained++] = op.place_of(c.at);
  }
  const unsigned depth = depth_of(b.image);
  bucket* other = nullptr;
  if (status s = locate_or_make(op, b.number | std::uint64_t{1} << depth, other); !s) return s;
  bucket halves[2] = {};
  bucket* homes[2] = {b.at, other};
  unsigned filled[2] = {};
  for (unsigned side = 0; side < 2; ++side) halves[side].meta = layout::pack_place(0, depth + 1);
  unsigned reused = 0;
  for (unsigned i = 0; i < n; ++i) {
    const unsigned side = layout::more_of(words[i]) >> (depth - layout::bucket_depth_min) & 1;
    bucket& half = halves[side];
    if (filled[side] == bucket_slots) {
      // The first bucket's entries make room in an overflow bucket: rare, since a split halves them.
      bucket more{};
      more.meta = layout::pack_place(layout::place_of(half.meta), 0);
      std::memcpy(more.slots, half.slots, sizeof more.slots);
      std::uint64_t place = 0;
      if (reused < chained) {
        place = overflow[reused++];
        op.write(op.known<bucket>(place), &more, sizeof more);
      } else {
        auto* made = op.allocate<bucket>(layout::kv_type_overflow);
        if (made == nullptr) return access::out_of_room();
        std::memcpy(made, &more, sizeof more);
        place = op.place_of(made);
      }
      half = {};
      half.meta = layout::pack_place(place, depth + 1);
      filled[side] = 0;
    }
    half.slots[filled[side]++] = words[i];
  }
  for (unsigned side = 0; side < 2; ++side) op.write(homes[side], &halves[side], sizeof halves[side]);
  while (reused < chained) {
    if (status s = op.release(overflow[reused++]); !s) return s;
  }
  done = true;
  return {};
}

// While the level's buckets are not all split, an insertion splits one in passing.
[[nodiscard]] inline status split_next(operation& op) {
  const hint h = read_hint(op.of);
  const std::uint64_t all = h.level <= layout::bucket_depth_min ? 0 : std::uint64_t{1} << (h.level - 1);
  if (h.split >= all) return {};
  // Two threads may choose the same one; the second finds it split.
  write_hint(op.of, {h.level, h.split + 1});
  if (op.load(&op.header->level) < h.level) return {};
  home b;
  b.number = h.split;
  if (status s = locate(op, b.number, b.at); !s || b.at == nullptr) return s;
  op.read(&b.image, b.at, sizeof b.image);
  if (depth_of(b.image) != h.level - 1) return {};
  bool done = false;
  return split(op, b, done);
}

// Room for one more entry of this hash, in a bucket that is full: split it, raise the level, or hang on an overflow
// bucket.  `again`: look for the key's bucket again.
[[nodiscard]] inline status extend(operation& op, const found& f, bool& again, std::uint64_t*& slot) {
  again = false;
  const unsigned depth = depth_of(f.first.image);
  std::uint64_t level = op.load(&op.header->level);
  if (level < layout::bucket_depth_min || level > layout::bucket_depth_max) {
    return access::damaged("hash table", op.of.header_place);
  }
  if (depth >= level && level < layout::bucket_depth_max && op.count.estimate(op) > entries_per_bucket << level) {
    op.store(&op.header->level, ++level);
    write_hint(op.of, {static_cast<unsigned>(level), 0});
  }
  if (depth < level) {
    if (status s = split(op, f.first, again); !s || again) return s;
  }
  auto* made = op.allocate<bucket>(layout::kv_type_overflow);
  if (made == nullptr) return access::out_of_room();
  std::memset(static_cast<void*>(made), 0, sizeof *made);
  op.store(&f.last->meta, layout::pack_place(op.place_of(made), layout::more_of(f.last_meta)));
  slot = &made->slots[0];
  return {};
}

[[nodiscard]] inline status put(operation& op, const key& k, bytes_view value) {
  found f;
  if (status s = find(op, k, f); !s) return s;
  if (f.r.place != 0 && fits(op, op.sums, 0, f.r, value.count)) {
    overwrite(op, op.count, op.sums, f.r, k, value);
    return {};
  }
  if (const std::uint64_t* known = f.r.place != 0 ? f.slot : f.free_slot; known != nullptr) {
    op.expect({{known, sizeof *known}, op.count.place()});
  }
  const std::uint64_t made = make_record(op, op.count, op.sums, 0, k, value);
  if (made == 0) return access::out_of_room();
  const std::uint64_t word = layout::pack_place(made, layout::tag_of(k.hash));
  if (f.r.place != 0) {
    op.store(f.slot, word);
    return drop_record(op, op.count, 0, f.r);
  }
  std::uint64_t* slot = f.free_slot;
  for (unsigned tries = 0; slot == nullptr; ++tries) {
    bool again = false;
    if (status s = extend(op, f, again, slot); !s) return s;
    if (!again) break;
    if (tries > layout::bucket_depth_max) return access::damaged("hash table", op.of.header_place);
    f = {};
    if (status s = find(op, k, f); !s) return s;
    slot = f.free_slot;
  }
  op.store(slot, word);
  return split_next(op);
}

[[nodiscard]] inline status remove(operation& op, const key& k, bool& removed) {
  found f;
  if (status s = find(op, k, f); !s) return s;
  removed = f.r.place != 0;
  if (!removed) return {};
  unsigned others = 0;
  for (const std::uint64_t word : f.holder.slots) others += word != 0;
  if (f.link != nullptr && others == 1) {
    // It was the last entry of an overflow bucket, which is freed with it.
    const std::uint64_t before = op.load(f.link);
    const std::uint64_t place = layout::place_of(before);
    op.store(f.link, layout::pack_place(layout::place_of(f.holder.meta), layout::more_of(before)));
    if (status s = op.release(place); !s) return s;
  } else {
    op.expect({{f.slot, sizeof *f.slot}, op.count.place()});
    op.store(f.slot, 0);
  }
  return drop_record(op, op.count, 0, f.r);
}

[[nodiscard]] constexpr std::uint64_t reversed(std::uint64_t w) noexcept {
  w = __builtin_bswap64(w);
  w = (w >> 4 & 0x0F0F0F0F0F0F0F0F) | (w & 0x0F0F0F0F0F0F0F0F) << 4;
  w = (w >> 2 & 0x3333333333333333) | (w & 0x3333333333333333) << 2;
  return (w >> 1 & 0x5555555555555555) | (w & 0x5555555555555555) << 1;
}

// One bucket after the other, in the order of the reversed hash: there a bucket is an interval, and a split only
// divides it.  So whatever grows meanwhile, an entry that is there from beginning to end is met exactly once.
[[nodiscard]] inline status fetch(operation& op, fetch_from& from, receiver& to, bool& ended) {
  bool more = true;
  ended = false;
  while (more && !ended) {
    home b;
    if (status s = find_home(op, reversed(from.position), b); !s) return s;
    chain c{b.at, b.image};
    for (;;) {
      for (const std::uint64_t word : c.image.slots) {
        if (word == 0) continue;
        record r;
        const status read = read_record(op, layout::place_of(word), r);
        if (status s = hand_over(to, op, read, r, more); !s) return s;
      }
      status s;
      if (!c.next(op, s)) {
        if (!s) return s;
        break;
      }
    }
    const std::uint64_t width = std::uint64_t{1} << (64 - depth_of(b.image));
    from.position = round_down(from.position, width) + width;
    ended = from.position == 0;
  }
  return {};
}

// The hint for a table that was just opened.  Buckets are split in turn, so that how far that has come is found by
// halving; a few buckets that were split out of turn do no harm.
[[nodiscard]] inline status find_hint(operation& op) {
  const std::uint64_t level = op.load(&op.header->level);
  if (level < layout::bucket_depth_min || level > layout::bucket_depth_max) {
    return access::damaged("hash table", op.of.header_place);
  }
  if (level == layout::bucket_depth_min) return {};
  std::uint64_t low = 0;
  std::uint64_t high = std::uint64_t{1} << (level - 1);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    bucket* b = nullptr;
    if (status s = locate(op, middle, b); !s) return s;
    bool is_split = false;
    if (b != nullptr) is_split = layout::more_of(op.load(&b->meta)) >= level;
    if (is_split) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  write_hint(op.of, {static_cast<unsigned>(level), low});
  return {};
}

// Frees segments of a table without entries, `most` at most; `done`: there are none left.
[[nodiscard]] inline status free_segments(operation& op, unsigned most, bool& done) {
  done = false;
  for (unsigned k = layout::segment_lists; k-- > 0;) {
    std::uint64_t* word = &op.header->segments[k];
    const std::uint64_t place = op.load(word);
    if (place == 0) continue;
    if (k != 0) {
      auto* list = op.at<std::uint64_t>(place, segment_cache::first_of(k) * 8);
      if (list == nullptr) return errc::corrupt;
      for (std::uint64_t i = 0; i < segment_cache::first_of(k); ++i) {
        const std::uint64_t segment = op.load(&list[i]);
        if (segment == 0) continue;
        if (most-- == 0) return {};
        op.store(&list[i], 0);
        if (!op.object_has(segment, layout::kv_type_segment, 1)) return access::damaged("segment", segment);
        if (status s = op.release(segment); !s) return s;
      }
    }
    op.store(word, 0);
    const std::uint32_t type = k != 0 ? layout::kv_type_segment_list : layout::kv_type_segment;
    if (!op.object_has(place, type, 1)) return access::damaged("segment", place);
    if (status s = op.release(place); !s) return s;
  }
  done = true;
  return {};
}

}  // namespace nvm::keyed::hash
