// Key-value stores on media, versions 1 and 2: header, records, and the nodes of each index.  docs/format.md states
// every byte.
//
// Every structure here is the payload of an object of the pool, and names others by their *places*: bytes from the
// pool's start, 0: none.  Payloads of more than 256 bytes begin 16 bytes after a line's start, where the object's own
// header lies; a structure that is padded to that says so.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/base.hpp"
#include "base/checksum.hpp"

namespace nvm::layout {

inline constexpr std::uint64_t kv_magic = 0x5641'4B44'4C4F'48'31;  // "1HOLDKAV" in file order
inline constexpr std::uint32_t kv_version = 2;                     // raise it with any change below
inline constexpr std::uint32_t kv_version_plain = 1;               // the same without check and sums

enum class kv_index : std::uint32_t { list = 1, hash = 2, btree = 3, rbtree = 4, regions = 5 };
inline constexpr kv_index kv_last_index = kv_index::regions;
// Entries come in the order of their keys, so that a walk can begin at any.
constexpr bool is_ordered(kv_index index) noexcept { return index == kv_index::btree || index == kv_index::rbtree; }

inline constexpr std::uint64_t kv_key_bytes_max = 65535;
inline constexpr std::uint64_t kv_value_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kv_name_bytes_max = 255;

// Type ids of our objects, beyond those that NVM_TYPE_ID() makes.
enum kv_type : std::uint32_t {
  kv_type_header = 0xF04B'5601,
  kv_type_record = 0xF04B'5602,
  kv_type_segment = 0xF04B'5603,
  kv_type_segment_list = 0xF04B'5604,
  kv_type_overflow = 0xF04B'5605,
  kv_type_leaf = 0xF04B'5606,
  kv_type_inner = 0xF04B'5607,
  kv_type_separator = 0xF04B'5608,
};

// Places fit 44 bits and are multiples of 16: 40 bits of a word, which leaves 24 for what saves a look at the object.
inline constexpr unsigned place_bits = 40;
inline constexpr std::uint64_t place_mask = (std::uint64_t{1} << place_bits) - 1;
constexpr std::uint64_t pack_place(std::uint64_t place, std::uint64_t more) noexcept {
  return place >> 4 | more << place_bits;
}
constexpr std::uint64_t place_of(std::uint64_t word) noexcept { return (word & place_mask) << 4; }
constexpr std::uint64_t more_of(std::uint64_t word) noexcept { return word >> place_bits; }

// ---- header -------------------------------------------------------------------------------------------------------
// Counters are kept in stripes, a line each: threads that insert at the same time do not meet in one word.  A stripe
// may be negative: the thread that removes need not be the one that inserted.
struct kv_stripe {
  std::uint64_t entries;
  std::uint64_t key_bytes;
  std::uint64_t value_bytes;
  std::uint64_t reserved[5];
};
static_assert(sizeof(kv_stripe) == line_bytes);
inline constexpr unsigned kv_stripes = 16;
inline constexpr unsigned segment_lists = 25;

struct kv_header {
  std::uint64_t magic;
  std::uint32_t version;  // greater than ours: refuse
  std::uint32_t index;    // enum kv_index
  std::uint64_t seed;     // of the hash and of the sums
  std::uint64_t check;    // from version 2 on: XXH3 of the words before, seeded with the header's place
  std::uint64_t reserved[2];
  // A line of its own: what every operation reads and few change.
  std::uint64_t root;      // list: first record; btree, rbtree: root; 0: empty
  std::uint64_t sequence;  // list: of the newest record
  std::uint64_t level;     // hash: buckets have at most this many bits
  std::uint64_t unused[5];
  kv_stripe stripes[kv_stripes];
  // hash: [0] segment 0; [k] the list of segments 2^(k-1) to 2^k - 1.
  std::uint64_t segments[segment_lists];
  std::uint64_t padding[7];
};
static_assert(sizeof(kv_header) == 1392 && offsetof(kv_header, root) == 48 && offsetof(kv_header, stripes) == 112);
static_assert(offsetof(kv_header, segments) == 1136);
static_assert(std::is_trivially_copyable_v<kv_header> && std::has_unique_object_representations_v<kv_header>);

// ---- record -------------------------------------------------------------------------------------------------------
// sizes (8) | key, padded to 8 | value | from version 2 on a sum (8).  In a list and a red-black tree the links come
// first in the same object. sizes: value bytes (32) | key bytes (16) | room for the value in units of 8 bytes, 65535:
// no more than it has (16)
struct record_sizes {
  std::uint64_t value = 0;
  std::uint64_t key = 0;
  std::uint64_t room_units = 0;
};
inline constexpr std::uint64_t record_room_units_max = 65534;
constexpr std::uint64_t pack(const record_sizes& s) noexcept { return s.value | s.key << 32 | s.room_units << 48; }
constexpr record_sizes unpack_sizes(std::uint64_t w) noexcept { return {w & 0xFFFF'FFFF, w >> 32 & 0xFFFF, w >> 48}; }
constexpr std::uint64_t record_value_at(std::uint64_t key_bytes) noexcept { return 8 + round_up(key_bytes, 8); }
constexpr std::uint64_t record_bytes(const record_sizes& s) noexcept { return record_value_at(s.key) + s.value; }
inline constexpr std::uint64_t record_sum_bytes = 8;
// What the sum after the value is: `key_hash` is XXH3 of the key, seeded with the store's seed; `sizes` is the packed
// word, `place` that of the record.  So a record at another place, or of another store, has another sum.
inline std::uint64_t record_sum(std::uint64_t key_hash, std::uint64_t place, std::uint64_t sizes, const void* value,
                                std::uint64_t value_bytes) noexcept {
  return checksum(value, value_bytes, mix_seed(mix_seed(key_hash, place), sizes));
}

struct list_links {
  std::uint64_t next;      // older record
  std::uint64_t sequence;  // falls along the list
};
struct rb_links {
  std::uint64_t left, right;
  std::uint64_t parent;  // bit 0: red
};
static_assert(sizeof(list_links) == 16 && sizeof(rb_links) == 24);

// ---- hash table ---------------------------------------------------------------------------------------------------
// Bucket b of depth d holds what has b in the low d bits of its hash.  Depth 0: the bucket is not in use yet, its
// entries are in the bucket with one bit less.  A full bucket is split as long as its depth is below the table's level;
// else it grows a chain of overflow buckets.
inline constexpr unsigned bucket_slots = 7;
inline constexpr unsigned bucket_depth_min = 6;
inline constexpr unsigned bucket_depth_max = 30;
struct bucket {
  std::uint64_t meta;                 // place of the overflow bucket | depth << place_bits (of a first bucket)
  std::uint64_t slots[bucket_slots];  // place of the record | hash bits 6 to 29 << place_bits; 0: free
};
static_assert(sizeof(bucket) == line_bytes);
constexpr std::uint64_t tag_of(std::uint64_t hash) noexcept { return hash >> bucket_depth_min & 0xFF'FFFF; }

inline constexpr unsigned segment_buckets = 1U << bucket_depth_min;
struct segment {
  std::uint64_t number;
  std::uint64_t padding[5];  // buckets begin at a line
  bucket buckets[segment_buckets];
};
static_assert(offsetof(segment, buckets) == 48 && sizeof(segment) == 4144);

// ---- B+tree -------------------------------------------------------------------------------------------------------
// All keys in the range of a node have their first `prefix` bytes in common.  `head` is the next eight bytes as a
// big-endian number, filled up with zero bytes: heads and lengths alone decide nearly every comparison.
// meta: kind (8) | level, 0 for leaves (8) | separators (16) | prefix (16) | 0 (16)
enum class node_kind : std::uint8_t { leaf = 1, inner = 2 };
struct node_meta {
  node_kind kind = node_kind::leaf;
  unsigned level = 0;
  unsigned count = 0;  // separators of an inner node
  unsigned prefix = 0;
};
constexpr std::uint64_t pack(const node_meta& m) noexcept {
  return std::uint64_t(m.kind) | std::uint64_t{m.level} << 8 | std::uint64_t{m.count} << 16 |
         std::uint64_t{m.prefix} << 32;
}
constexpr node_meta unpack_meta(std::uint64_t w) noexcept {
  return {static_cast<node_kind>(w & 0xFF), static_cast<unsigned>(w >> 8 & 0xFF),
          static_cast<unsigned>(w >> 16 & 0xFFFF), static_cast<unsigned>(w >> 32 & 0xFFFF)};
}

inline constexpr unsigned leaf_slots = 13;
struct leaf_slot {
  std::uint64_t head;
  std::uint64_t record;  // place | bytes of the key << place_bits
};
// Slots are filled in any order: `order` has the number of entries in its low four bits, then the slots of the entries
// in the order of their keys, four bits each, then the free slots.
struct leaf {
  std::uint64_t meta;
  std::uint64_t order;
  std::uint64_t next;  // leaf of the next larger keys
  std::uint64_t reserved;
  leaf_slot slots[leaf_slots];
};
static_assert(sizeof(leaf) == 240);  // four lines with the object's header

inline constexpr unsigned inner_separators = 28;
// Child i has the keys from separator i - 1 on and below separator i.  A separator whose bytes after the prefix do not
// fit its head has its whole key in an object.
struct inner {
  std::uint64_t meta;
  std::uint64_t reserved;
  std::uint64_t heads[inner_separators];       // to here: what a search reads, four lines with the object's header
  std::uint64_t separators[inner_separators];  // place of the key's object, 0: none | bytes of the key << place_bits
  std::uint64_t children[inner_separators + 1];
};
static_assert(sizeof(inner) == 696 && offsetof(inner, separators) == 240);

inline constexpr unsigned tree_levels_max = 16;

struct separator {
  std::uint64_t bytes;  // then the key
};

// ---- entries in regions -------------------------------------------------------------------------------------------
// A store of index regions has a header, whose counters and root are not used, and a set of regions, named after the
// header's seed.  A region is a sequence of entries: sizes (8; room 0) | key | value | from version 2 on a sum (8) of a
// record at place 0.
//
// Numbers of regions: item_own | the low 63 bits of the key's hash, of an entry of more than item_packed_max bytes;
// segment << item_bucket_bits | bucket, of the others.  A segment has the buckets 0 to n - 1; bucket 0 may be missing.
inline constexpr std::uint64_t item_sizes_bytes = 8;
inline constexpr std::uint64_t item_packed_max = 128;
inline constexpr unsigned item_segments = 256;  // by the low bits of the hash
inline constexpr unsigned item_segment_bits = 8;
inline constexpr unsigned item_bucket_bits = 48;
inline constexpr std::uint64_t item_own = std::uint64_t{1} << 63;
constexpr unsigned item_segment(std::uint64_t hash) noexcept { return static_cast<unsigned>(hash % item_segments); }
constexpr std::uint64_t own_region(std::uint64_t hash) noexcept { return hash | item_own; }
constexpr bool is_own_region(std::uint64_t rid) noexcept { return (rid & item_own) != 0; }
constexpr unsigned segment_of_region(std::uint64_t rid) noexcept {
  return is_own_region(rid) ? item_segment(rid) : static_cast<unsigned>(rid >> item_bucket_bits);
}
constexpr std::uint64_t bucket_of_region(std::uint64_t rid) noexcept {
  return rid & ((std::uint64_t{1} << item_bucket_bits) - 1);
}
constexpr std::uint64_t region_of_bucket(std::uint64_t segment, std::uint64_t bucket) noexcept {
  return segment << item_bucket_bits | bucket;
}
// Most buckets of a segment that has so many regions of buckets: a repair may have taken out some.
constexpr std::uint64_t buckets_max(std::uint64_t regions) noexcept { return 2 * regions + 64; }
// The bucket that is split next when there are `buckets`.
constexpr std::uint64_t next_to_split(std::uint64_t buckets) noexcept { return buckets - std::bit_floor(buckets); }
// Linear hashing: of `buckets`, the one with as many bits of the hash as there are.
constexpr std::uint64_t bucket_region(std::uint64_t hash, std::uint64_t buckets) noexcept {
  const std::uint64_t half = std::bit_floor(buckets);
  const std::uint64_t bits = hash % item_own >> item_segment_bits;
  const std::uint64_t wide = bits % (2 * half);
  return region_of_bucket(item_segment(hash), wide < buckets ? wide : bits % half);
}

}  // namespace nvm::layout
