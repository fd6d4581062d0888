#include "kv_reader.hpp"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "region_reader.hpp"
#include "space/cluster_image.hpp"
#include "space/space.hpp"
#include "store/store.hpp"

namespace nvm::tests {
namespace {

using layout::kv_index;

// Set of places of objects: a bit for each there may be.
class places_in_data {
 public:
  explicit places_in_data(const geometry& g) : bits_(g.size_bytes() / bytes_of_bit / 64 + 1) {}
  // False: it is there already.
  bool insert(std::uint64_t place) {
    std::uint64_t& word = bits_[place / bytes_of_bit / 64];
    const std::uint64_t bit = std::uint64_t{1} << place / bytes_of_bit % 64;
    return (std::exchange(word, word | bit) & bit) == 0;
  }
  [[nodiscard]] std::optional<std::uint64_t> first_not_in(const places_in_data& others) const {
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      const std::uint64_t alone = bits_[i] & ~others.bits_[i];
      if (alone != 0) return (i * 64 + static_cast<unsigned>(std::countr_zero(alone))) * bytes_of_bit;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint64_t bytes_of_bit = 16;  // what all places are multiples of
  std::vector<std::uint64_t> bits_;
};

class reader {
 public:
  reader(const std::byte* base, const geometry& g, const region_contents& regions, kv_contents& out)
      : base_{base}, shape_{g}, regions_{regions}, out_{out}, met_{g} {}

  void read_directory() {
    const auto place = read_anchor_word(base_, shape_, anchor_word::stores);
    if (!place) return wrong(last_message());
    read_directory_at(*place);
  }
  // The directories in object stores that have a name; what names these is met, and what dying ones have left.
  void read_homes() {
    const auto place = read_anchor_word(base_, shape_, anchor_word::catalogue);
    if (!place) return wrong(last_message());
    if (*place == 0) return;
    stores::names_reader m{{const_cast<std::byte*>(base_), shape_.data_offset, shape_.size_bytes()}};
    stores::trie_check how;
    how.tell = [&](std::uint64_t at, const char* what) { wrong(std::string{what} + " at " + std::to_string(at)); };
    how.meet = [&](std::uint64_t at, std::uint64_t, std::uint32_t) { bad(!met_.insert(at), "a node met twice", at); };
    const auto sum = check_catalogue(m, *place, how);
    if (!sum) return wrong(last_message());
    for (const std::uint64_t page : sum->named) {
      const std::uint64_t at = page + offsetof(layout::cluster_header, key_values);
      if (bad(!word_holds(word(at), word_seed(at)), "the word of a directory", at)) return;
      read_directory_at(word(at) & checked_mask);
    }
    for (const std::uint64_t page : sum->dying) {
      const auto c = cluster_at(base_, shape_, shape_.page_of(page));
      if (bad(!c, "a dying store without its page", page)) return;
      (void)for_each_object(base_, shape_, [&](std::uint64_t offset, std::uint64_t, layout::object_layout) {
        const std::uint64_t head = cluster_head(base_, shape_, shape_.page_of(offset));
        const auto of = head == no_cluster ? result<cluster>{errc::not_found} : cluster_at(base_, shape_, head);
        if (of && of->number == c->number) (void)met_.insert(offset + sizeof(layout::object_header));
        return true;
      });
    }
  }

  void read_directory_at(std::uint64_t place) {
    if (place == 0) return;
    kv_store_contents names;
    read_store(place, names);
    for (const auto& [name, value] : names.entries) {
      std::uint64_t at = 0;
      if (value.size() != sizeof at) return wrong("an entry of the directory has " + std::to_string(value.size()));
      std::memcpy(&at, value.data(), sizeof at);
      kv_store_contents store;
      being_dropped_ = name.front() == '\0';
      read_store(at, store);
      // A store that is being dropped holds less and less.
      if (name.front() != '\0') out_.stores.emplace(name, std::move(store));
    }
  }

  void look_for_leaks() {
    for (const auto& s : regions_.sets) bad(!sets_met_.contains(s.name), "a set of regions of no store", 0);
    places_in_data objects{shape_};
    const status walked =
        for_each_object(base_, shape_, [&](std::uint64_t offset, std::uint64_t, layout::object_layout l) {
          if (l == layout::object_layout::typed) objects.insert(offset + sizeof(layout::object_header));
          return true;
        });
    if (!walked) return wrong(last_message());
    if (const auto o = objects.first_not_in(met_)) return wrong("leaked: the object at " + std::to_string(*o));
    if (const auto o = met_.first_not_in(objects)) return wrong("named, and no object: " + std::to_string(*o));
  }

 private:
  void wrong(const std::string& what) {
    if (out_.fault.empty()) out_.fault = "key-value store: " + what;
  }
  bool bad(bool is, const char* what, std::uint64_t place) {
    if (is) wrong(std::string{what} + " at " + std::to_string(place));
    return is;
  }
  // A structure, which belongs to one place only.
  template <class T>
  bool take(std::uint64_t place, T& into, std::uint64_t bytes = sizeof(T)) {
    if (bad(place % 16 != 0 || !shape_.in_data(place, bytes), "a place that is none", place)) return false;
    if (bad(!met_.insert(place), "an object with two names", place)) return false;
    std::memcpy(static_cast<void*>(&into), base_ + place, sizeof into);
    return true;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t at) const {
    std::uint64_t w = 0;
    std::memcpy(&w, base_ + at, sizeof w);
    return w;
  }

  // The record whose links have been read; false: it is damaged.
  bool read_record(std::uint64_t at, std::string& key, std::string& value) {
    if (bad(!shape_.in_data(at, 8), "a record that is none", at)) return false;
    const layout::record_sizes s = layout::unpack_sizes(word(at));
    if (bad(!shape_.in_data(at, layout::record_bytes(s)), "a record's sizes", at)) return false;
    const char* bytes = reinterpret_cast<const char*>(base_ + at);
    key.assign(bytes + 8, s.key);
    value.assign(bytes + layout::record_value_at(s.key), s.value);
    if (!with_sums_) return true;
    const std::uint64_t sum_at = at + layout::record_bytes(s);
    if (bad(!shape_.in_data(sum_at, 8), "a record's sum", at)) return false;
    const std::uint64_t of_key = checksum(key.data(), key.size(), seed_);
    const std::uint64_t sum = checksum(value.data(), value.size(), mix_seed(mix_seed(of_key, at), word(at)));
    return !bad(word(sum_at) != sum, "a record fails its sum", at);
  }
  void add(kv_store_contents& to, const std::string& key, std::string value, std::uint64_t at) {
    keys_ += key.size();
    values_ += value.size();
    bad(!to.entries.emplace(key, std::move(value)).second, "a key that is there twice", at);
  }

  void read_store(std::uint64_t place, kv_store_contents& out) {
    layout::kv_header h;
    if (!take(place, h)) return;
    if (bad(h.magic != layout::kv_magic || h.version == 0 || h.version > 2, "a header", place)) return;
    with_sums_ = h.version == 2;
    seed_ = h.seed;
    bad(with_sums_ && h.check != checksum(&h, 24, place), "a header's check", place);
    out.index = static_cast<kv_index>(h.index);
    keys_ = values_ = 0;
    switch (out.index) {
      case kv_index::list:
        read_list(h, out);
        break;
      case kv_index::hash:
        read_hash(h, place, out);
        break;
      case kv_index::btree:
        leaf_expected_ = 0;
        first_leaf_ = true;
        last_key_.reset();
        if (h.root != 0) read_node(h.root, layout::tree_levels_max, out);
        bad(!first_leaf_ && leaf_expected_ != 0, "the last leaf has one behind it", place);
        break;
      case kv_index::rbtree:
        last_key_.reset();
        if (h.root != 0) (void)read_red_black(h.root, 0, true, 0, out);
        break;
      case kv_index::regions:
        // Its counters are not used.
        bad(h.root != 0, "the root of a store of regions", place);
        return read_regions(h, place, out);
      default:
        bad(true, "an index that is none", place);
    }
    std::uint64_t counted[3] = {};
    for (const layout::kv_stripe& s : h.stripes) {
      counted[0] += s.entries;
      counted[1] += s.key_bytes;
      counted[2] += s.value_bytes;
    }
    bad(counted[0] != out.entries.size() || counted[1] != keys_ || counted[2] != values_, "counters", place);
  }

  void read_list(const layout::kv_header& h, kv_store_contents& out) {
    std::uint64_t above = h.sequence + 1;
    std::string key, value;
    for (std::uint64_t place = h.root; place != 0;) {
      layout::list_links l;
      if (!take(place, l, sizeof l + 8) || !read_record(place + sizeof l, key, value)) return;
      if (bad(l.sequence == 0 || l.sequence >= above, "a record out of its order", place)) return;
      above = l.sequence;
      add(out, key, value, place);
      place = l.next;
    }
  }

  // Buckets in use divide the hashes among themselves: their shares add up to all of them.
  void read_hash(const layout::kv_header& h, std::uint64_t place, kv_store_contents& out) {
    std::uint64_t shares = 0;
    constexpr std::uint64_t whole = std::uint64_t{1} << 40;
    const auto read_segment = [&](std::uint64_t at, std::uint64_t number) {
      layout::segment s;
      if (!take(at, s) || bad(s.number != number, "the number of a segment", at)) return;
      for (unsigned i = 0; i < layout::segment_buckets; ++i) {
        const std::uint64_t b = number * layout::segment_buckets + i;
        const std::uint64_t depth = layout::more_of(s.buckets[i].meta);
        if (depth == 0) {
          for (const std::uint64_t w : s.buckets[i].slots) bad(w != 0, "an entry of a bucket that is not in use", at);
          continue;
        }
        if (bad(depth < layout::bucket_depth_min || depth > h.level || b >> depth != 0, "a bucket's bits", at)) return;
        shares += whole >> depth;
        read_chain(s.buckets[i], b, static_cast<unsigned>(depth), h.seed, at, out);
      }
    };
    bool any = false;
    for (unsigned k = 0; k < layout::segment_lists; ++k) {
      const std::uint64_t at = h.segments[k];
      if (at == 0) continue;
      if (k == 0) {
        any = true;
        read_segment(at, 0);
        continue;
      }
      const std::uint64_t first = std::uint64_t{1} << (k - 1);
      std::uint64_t head = 0;
      if (!take(at, head, first * 8)) return;
      for (std::uint64_t i = 0; i < first; ++i) {
        const std::uint64_t segment = word(at + 8 * i);
        if (segment != 0) read_segment(segment, first + i);
      }
    }
    // One that is being taken apart has no entries, and fewer segments from step to step.
    bad(any && shares != whole && !out.entries.empty(), "buckets that leave hashes out", place);
  }
  void read_chain(layout::bucket b, std::uint64_t number, unsigned depth, std::uint64_t seed, std::uint64_t at,
                  kv_store_contents& out) {
    std::string key, value;
    for (;;) {
      for (const std::uint64_t slot : b.slots) {
        if (slot == 0) continue;
        const std::uint64_t place = layout::place_of(slot);
        std::uint64_t sizes = 0;
        if (!take(place, sizes) || !read_record(place, key, value)) return;
        const std::uint64_t hash = checksum(key.data(), key.size(), seed);
        bad((hash & ((std::uint64_t{1} << depth) - 1)) != number || layout::tag_of(hash) != layout::more_of(slot),
            "an entry in another's bucket", place);
        add(out, key, value, place);
      }
      const std::uint64_t next = layout::place_of(b.meta);
      if (next == 0) return;
      at = next;
      if (!take(at, b)) return;
    }
  }

  void read_node(std::uint64_t place, unsigned level, kv_store_contents& out) {
    if (bad(!shape_.in_data(place, 8), "a place that is none", place)) return;
    const layout::node_meta m = layout::unpack_meta(word(place));
    if (bad(level != layout::tree_levels_max ? m.level != level : m.level >= level, "a node's level", place)) return;
    if (m.level == 0) return read_leaf(place, m, out);
    layout::inner n;
    if (!take(place, n)) return;
    if (bad(m.kind != layout::node_kind::inner || m.count > layout::inner_separators, "an inner node", place)) return;
    for (unsigned i = 0; i <= m.count && out_.fault.empty(); ++i) {
      read_node(n.children[i], m.level - 1, out);
      if (i == m.count) return;
      // What lies above the child: more than all its keys, and no more than the next one's.
      const std::uint64_t at = layout::place_of(n.separators[i]);
      const std::uint64_t bytes = layout::more_of(n.separators[i]) & 0xFFFF;
      if (at != 0) {
        layout::separator s;
        if (!take(at, s, sizeof s + bytes)) return;
        bad(s.bytes != bytes, "a separator's length", at);
        const std::string text(reinterpret_cast<const char*>(base_ + at + sizeof s), bytes);
        bad(last_key_ && *last_key_ >= text, "a separator below a key before it", at);
        least_ = text;
      }
    }
  }
  void read_leaf(std::uint64_t place, const layout::node_meta& m, kv_store_contents& out) {
    layout::leaf n;
    if (!take(place, n)) return;
    if (bad(m.kind != layout::node_kind::leaf, "a leaf", place)) return;
    if (bad(!first_leaf_ && leaf_expected_ != place, "the chain of leaves", place)) return;
    first_leaf_ = false;
    leaf_expected_ = n.next;
    std::string key, value;
    for (unsigned i = 0; i < (n.order & 15); ++i) {
      const unsigned slot = n.order >> (4 + 4 * i) & 15;
      if (bad(slot >= layout::leaf_slots, "a leaf's order", place)) return;
      const std::uint64_t at = layout::place_of(n.slots[slot].record);
      std::uint64_t sizes = 0;
      if (!take(at, sizes) || !read_record(at, key, value)) return;
      if (bad(key.size() < m.prefix || (layout::more_of(n.slots[slot].record) & 0xFFFF) != key.size(), "a slot", at)) {
        return;
      }
      std::uint64_t head = 0;
      for (unsigned b = 0; b < 8; ++b) {
        const bool there = m.prefix + b < key.size();
        head = head << 8 | (there ? static_cast<unsigned char>(key[m.prefix + b]) : 0U);
      }
      bad(head != n.slots[slot].head, "the head of a slot", at);
      bad((last_key_ && *last_key_ >= key) || (least_ && key < *least_), "a key out of its order", at);
      least_.reset();
      last_key_ = key;
      add(out, key, value, at);
    }
  }

  // Entries one after the other in the regions of the store's set.
  void read_regions(const layout::kv_header& h, std::uint64_t place, kv_store_contents& out) {
    char name[24];
    (void)std::snprintf(name, sizeof name, "kv-%016lx", static_cast<unsigned long>(h.seed));
    const region_contents::one* set = nullptr;
    for (const auto& s : regions_.sets) set = s.name == name ? &s : set;
    // A store that is being made or dropped may have none.
    if (set == nullptr) return (void)bad(!being_dropped_, "a store without its regions", place);
    sets_met_.insert(name);
    std::array<std::uint64_t, 256> buckets{};
    buckets.fill(1);
    constexpr std::uint64_t own = std::uint64_t{1} << 63;
    for (const auto& r : set->items) {
      if (r.rid >= own) continue;
      if (bad(r.rid >> 48 >= buckets.size(), "the number of a region", r.rid)) return;
      std::uint64_t& n = buckets[r.rid >> 48];
      n = std::max(n, (r.rid & 0xFFFF'FFFF'FFFF) + 1);
    }
    for (const auto& r : set->items) {
      for (std::size_t at = 0; at < r.bytes.size();) {
        const std::size_t left = r.bytes.size() - at;
        std::uint64_t sizes = 0;
        if (bad(left < 8, "the end of a region", r.rid)) return;
        std::memcpy(&sizes, &r.bytes[at], sizeof sizes);
        const std::uint64_t value_bytes = sizes & 0xFFFF'FFFF;
        const std::uint64_t key_bytes = sizes >> 32 & 0xFFFF;
        const std::uint64_t all = 8 + key_bytes + value_bytes + (with_sums_ ? 8 : 0);
        if (bad(sizes >> 48 != 0 || all > left, "the sizes of an entry in a region", r.rid)) return;
        const char* const bytes = reinterpret_cast<const char*>(r.bytes.data()) + at;
        const std::string key(bytes + 8, key_bytes);
        std::string value(bytes + 8 + key_bytes, value_bytes);
        const std::uint64_t hash = checksum(key.data(), key.size(), h.seed);
        std::uint64_t sum = 0;
        if (with_sums_) std::memcpy(&sum, bytes + all - 8, sizeof sum);
        bad(with_sums_ && sum != checksum(value.data(), value.size(), mix_seed(mix_seed(hash, 0), sizes)),
            "an entry in a region fails its sum", r.rid);
        const std::uint64_t n = buckets[hash % 256];
        const std::uint64_t half = std::bit_floor(n);
        const std::uint64_t bits = (hash & ~own) >> 8;
        const std::uint64_t bucket = bits % (2 * half) < n ? bits % (2 * half) : bits % half;
        bad(r.rid != (all > 128 ? hash | own : hash % 256 << 48 | bucket), "an entry in another's region", r.rid);
        add(out, key, std::move(value), r.rid);
        at += all;
      }
    }
  }

  // Black nodes on the way down, the same everywhere.
  unsigned read_red_black(std::uint64_t place, std::uint64_t parent, bool below_red, unsigned depth,
                          kv_store_contents& out) {
    layout::rb_links l;
    std::string key, value;
    if (bad(depth > 64, "a tree that is too deep", place)) return 0;
    if (!take(place, l, sizeof l + 8) || !read_record(place + sizeof l, key, value)) return 0;
    const bool red = (l.parent & 1) != 0;
    bad((l.parent & ~std::uint64_t{1}) != parent || (red && below_red), "a node's parent or colour", place);
    const unsigned left = l.left == 0 ? 0 : read_red_black(l.left, place, red, depth + 1, out);
    bad(last_key_ && *last_key_ >= key, "a key out of its order", place);
    last_key_ = key;
    add(out, key, value, place);
    const unsigned right = l.right == 0 ? 0 : read_red_black(l.right, place, red, depth + 1, out);
    bad(left != right, "a tree that is not balanced", place);
    return left + (red ? 0 : 1);
  }

  const std::byte* base_;
  const geometry& shape_;
  const region_contents& regions_;
  kv_contents& out_;
  std::set<std::string> sets_met_;
  bool being_dropped_ = false;  // the store that is being read
  places_in_data met_;
  bool with_sums_ = false;  // of the store that is being read
  std::uint64_t seed_ = 0;
  std::uint64_t keys_ = 0, values_ = 0;
  std::uint64_t leaf_expected_ = 0;
  bool first_leaf_ = true;
  std::optional<std::string> last_key_;
  std::optional<std::string> least_;  // of the leaf to come, where that is spelled out
};

}  // namespace

kv_contents read_stores(const std::byte* base, std::size_t available) {
  kv_contents out;
  const auto sb = pick_superblock(base, available);
  if (!sb) return {{}, last_message()};
  const geometry g = geometry_of(*sb);
  space_summary summary;
  const std::function<void(const damage&)> report = [&](const damage& d) {
    if (out.fault.empty()) out.fault = "offset " + std::to_string(d.offset) + ": " + d.what;
  };
  space_check tell;
  tell.report = report;
  tell.of_structure = [](std::uint16_t, std::uint64_t, std::uint64_t) {};  // region_reader.hpp
  (void)check_space(base, g, tell, summary);
  if (out.fault.empty() && summary.log_pages != 0) out.fault = "a log run is left after recovery";
  const region_contents regions = regions_in(base, available, false);
  if (out.fault.empty()) out.fault = regions.fault;
  reader r{base, g, regions, out};
  r.read_directory();
  r.read_homes();
  if (out.fault.empty()) r.look_for_leaks();
  return out;
}

std::uint64_t hash_store(const std::string& name, kv_index index) {
  return checksum(name.data(), name.size(), mix_seed(0x73746F72, static_cast<std::uint64_t>(index)));
}
std::uint64_t hash_entry(const std::string& store, const std::string& key, const std::string& value) {
  const std::uint64_t of_key = checksum(key.data(), key.size(), checksum(store.data(), store.size(), key.size()));
  return checksum(value.data(), value.size(), mix_seed(of_key, value.size()));
}
std::uint64_t digest_of(const std::map<std::string, kv_store_contents>& stores) {
  std::uint64_t d = 0x6B76;
  for (const auto& [name, s] : stores) {
    d += hash_store(name, s.index);
    for (const auto& [key, value] : s.entries) d += hash_entry(name, key, value);
  }
  return d;
}

}  // namespace nvm::tests
