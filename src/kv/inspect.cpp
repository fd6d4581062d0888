#include "kv/inspect.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "kv/readable.hpp"

namespace nvm::keyed {

namespace {

constexpr std::uint64_t object_bytes_min = 32;  // with its header
constexpr std::uint64_t chunk_bytes = 64 << 10;

std::string_view view_of(const std::vector<std::byte>& bytes, std::uint64_t from, std::uint64_t count) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()) + from, count};
}
key key_of(std::string_view k) noexcept {
  return {reinterpret_cast<const std::byte*>(k.data()), static_cast<std::uint32_t>(k.size()), 0};
}

}  // namespace

std::uint64_t objects_max(const geometry& g) noexcept { return (g.size_pages << g.page_shift) / object_bytes_min + 1; }

bool read_by_transaction::read(std::uint64_t place, void* to, std::uint64_t bytes) {
  if (op_.at<std::byte>(round_down(place, 16), place % 16 + bytes) == nullptr) return false;
  op_.read(to, op_.known<std::byte>(place), bytes);
  return true;
}

bool read_from_image::read(std::uint64_t place, void* to, std::uint64_t bytes) {
  if (!shape_.in_objects(place, bytes)) return false;
  std::memcpy(to, base_ + place, bytes);
  return true;
}

void inspection::stop_at_first(const std::string& name) {
  tell = [name](const fault& f) {
    const readable key{f.key.data(), f.key.size()};
    (void)fail(errc::corrupt, "key-value store \"%s\": %s%s%s%s, at offset %lu", name.c_str(),
               f.has_key ? "entry \"" : "", f.has_key ? key.text : "", f.has_key ? "\": " : "", f.what, f.place);
    return false;
  };
}

bool inspection::found_fault(const char* what, std::uint64_t place, bool with_key) {
  if (ended_) return false;
  const fault f{what, place, with_key, with_key ? std::string_view{key_} : std::string_view{}};
  if (tell && !tell(f)) {
    ended_ = true;
    outcome_ = errc::corrupt;
  }
  return false;
}

bool inspection::step(std::uint64_t place) {
  if (ended_) return false;
  if (steps_left_-- != 0) return true;
  found_fault("more links than the pool has objects: they go round", place);
  ended_ = true;
  return false;
}

template <class T>
bool inspection::read(std::uint64_t place, T& to, const char* what) {
  return (place % 8 == 0 && from_->read(place, &to, sizeof to)) || found_fault(what, place);
}

void inspection::begin(byte_source& from, const store_facts& facts) {
  from_ = &from;
  facts_ = facts;
  found_ = {};
  ended_ = false;
  outcome_ = {};
  steps_left_ = from.objects_max();
  fences_.clear();
  has_before_ = false;
  next_leaf_ = 0;
  first_leaf_ = true;
  header_holds_ = false;
}

status inspection::run(byte_source& from, std::uint64_t header_place) try {
  begin(from, {});
  header_place_ = header_place;
  if (!read(header_place, header_, "the header is not in the pool")) return outcome_;
  header_holds_ = static_cast<bool>(check_header(header_, header_place, facts_));
  if (!header_holds_) {
    found_fault("the header fails its check", header_place);
    if (taken_for_ != kv_index{}) facts_.index = taken_for_;
    if (name_of(facts_.index) == nullptr) return outcome_;
  }
  switch (facts_.index) {
    case kv_index::list:
      walk_list();
      break;
    case kv_index::hash:
      walk_hash();
      break;
    case kv_index::btree:
      walk_tree();
      break;
    case kv_index::rbtree:
      (void)walk_red_black(header_.root, 0, true, 0);
      break;
    case kv_index::regions:
      break;  // all of it is in regions
  }
  if (!ended_) compare_counters();
  return outcome_;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to look at a key-value store");
}

void inspection::compare_counters() {
  totals counted;
  for (const layout::kv_stripe& s : header_.stripes) {
    counted.entries += s.entries;
    counted.key_bytes += s.key_bytes;
    counted.value_bytes += s.value_bytes;
  }
  if (counted.entries != found_.sum.entries) {
    found_fault("the number of entries is not what is counted", header_place_);
  } else if (counted.key_bytes != found_.sum.key_bytes || counted.value_bytes != found_.sum.value_bytes) {
    found_fault("the bytes of keys or values are not what is counted", header_place_);
  }
}

// ---- records ----

bool inspection::read_record(std::uint64_t place, const text* known, std::uint64_t room) {
  std::uint64_t word = 0;
  if (!read(place, word, "a record is not in the pool")) return false;
  const layout::record_sizes sizes = layout::unpack_sizes(word);
  sizes_ = sizes;
  const bool with_value = facts_.with_sums || wants_values;
  const std::uint64_t value_at = layout::record_value_at(sizes.key);
  const std::uint64_t sum_bytes = facts_.with_sums ? layout::record_sum_bytes : 0;
  const std::uint64_t bytes = with_value ? layout::record_bytes(sizes) + sum_bytes : 8 + sizes.key;
  // Sizes that cannot be are not worth the memory: the last bytes are looked for before all are read.
  std::byte last{};
  const std::uint64_t bytes_max = std::min(room, from_->objects_max() * object_bytes_min);  // of the pool's objects
  if (sizes.value > layout::kv_value_bytes_max || bytes > bytes_max || !from_->read(place + bytes - 1, &last, 1)) {
    return found_fault("the sizes of a record cannot be", place);
  }
  buffer_.resize(bytes);
  for (std::uint64_t at = 0; at < bytes; at += chunk_bytes) {
    if (!from_->read(place + at, buffer_.data() + at, std::min(chunk_bytes, bytes - at))) {
      return found_fault("the sizes of a record cannot be", place);
    }
  }
  key_ = view_of(buffer_, 8, sizes.key);
  value_ = with_value ? view_of(buffer_, value_at, sizes.value) : std::string_view{};
  if (!facts_.with_sums || believes_) return true;
  const record_sums sums{true, facts_.seed};
  const auto holds_as = [&](const text& k) {
    return sums.hold(key_of(std::string_view{k}), {place, sizes}, buffer_.data() + value_at);
  };
  if (holds_as(key_)) return true;
  if (known == nullptr || known->size() != sizes.key || !holds_as(*known)) {
    return found_fault("an entry fails its checksum", place, true);
  }
  key_ = *known;
  found_fault("the key in an entry's record is damaged", place, true);
  return true;
}

bool inspection::look_at(std::uint64_t place, const text* known) {
  ++found_.sum.entries;
  sizes_ = {};
  const bool holds = read_record(place, known);
  found_.sum.key_bytes += sizes_.key;
  found_.sum.value_bytes += sizes_.value;
  if (!holds) return false;
  if (meet) meet({key_, value_, place});
  return true;
}

// ---- list ----

void inspection::walk_list() {
  std::uint64_t above = header_.sequence + 1;
  for (std::uint64_t place = header_.root; place != 0;) {
    layout::list_links links;
    if (!step(place) || !read(place, links, "a link of the list leads out of the pool")) return;
    if (links.sequence == 0 || links.sequence >= above) {
      found_fault("a record of the list is out of its order", place);
      return;
    }
    above = links.sequence;
    (void)look_at(place + sizeof links);
    place = links.next;
  }
}

// ---- hash table ----

std::uint64_t inspection::bucket_place(std::uint64_t number) {
  const std::uint64_t segment = number / layout::segment_buckets;
  const unsigned k = segment_cache::list_of(segment);
  std::uint64_t place = k < layout::segment_lists ? header_.segments[k] : 0;
  if (k != 0 && place != 0) {
    const std::uint64_t word = place + 8 * (segment - segment_cache::first_of(k));
    if (!read(word, place, "a list of segments is not in the pool")) return 0;
  }
  if (place == 0) return 0;
  return place + offsetof(layout::segment, buckets) + number % layout::segment_buckets * sizeof(layout::bucket);
}

void inspection::walk_hash() {
  const std::uint64_t level = header_.level;
  found_.depth = static_cast<unsigned>(level);
  if (level < layout::bucket_depth_min || level > layout::bucket_depth_max) {
    found_fault("the level of the table cannot be", header_place_);
    return;
  }
  std::uint64_t position = 0;
  do {
    const std::uint64_t hash = hash::reversed(position);
    layout::bucket image{};
    std::uint64_t place = 0;
    for (auto bits = static_cast<unsigned>(level);; --bits) {
      place = bucket_place(hash::low_bits(hash, bits));
      if (over()) return;
      image = {};
      if (place != 0 && !read(place, image, "a bucket is not in the pool")) place = 0;
      if (hash::depth_of(image) != 0 || bits == layout::bucket_depth_min) break;
    }
    if (!step(place)) return;
    unsigned depth = hash::depth_of(image);
    const bool can_be = depth >= layout::bucket_depth_min && depth <= level;
    // The interval of a bucket begins with its number.
    if (can_be && hash >> depth == 0) {
      walk_chain(place, image, hash, depth);
    } else {
      found_fault("the bits of a bucket cannot be", place);
    }
    if (!can_be) depth = static_cast<unsigned>(level);
    const std::uint64_t width = std::uint64_t{1} << (64 - depth);
    position = round_down(position, width) + width;
  } while (position != 0 && !over());
}

void inspection::walk_chain(std::uint64_t place, layout::bucket image, std::uint64_t number, unsigned depth) {
  ++found_.buckets;
  for (std::uint64_t length = 1;; ++length) {
    found_.longest_chain = std::max(found_.longest_chain, length);
    for (const std::uint64_t word : image.slots) {
      if (word == 0) continue;
      if (over()) return;
      const std::uint64_t record = layout::place_of(word);
      if (!look_at(record)) continue;
      const std::uint64_t h = checksum(key_.data(), key_.size(), facts_.seed);
      if (hash::low_bits(h, depth) != number || layout::tag_of(h) != layout::more_of(word)) {
        found_fault("an entry is in another one's bucket", record, true);
      }
    }
    place = layout::place_of(image.meta);
    if (place == 0) return;
    if (!step(place) || !read(place, image, "a bucket leads out of the pool")) return;
    ++found_.overflow_buckets;
  }
}

// ---- B+tree ----

unsigned inspection::common_bytes(range bounds) const noexcept {
  if (bounds.low < 0 || bounds.high < 0) return 0;
  const text& a = fences_[static_cast<std::size_t>(bounds.low)];
  const text& b = fences_[static_cast<std::size_t>(bounds.high)];
  const auto [end, other] =
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<unsigned>(end - a.begin());
}

void inspection::walk_tree() {
  if (header_.root == 0) return;
  std::uint64_t word = 0;
  if (!read(header_.root, word, "the root leads out of the pool")) return;
  const unsigned level = layout::unpack_meta(word).level;
  if (level >= layout::tree_levels_max) {
    found_fault("the root of the tree is none", header_.root);
    return;
  }
  found_.depth = level + 1;
  walk_node(header_.root, level, {}, true);
  if (!over() && next_leaf_ != 0) found_fault("the last leaf leads to another", next_leaf_);
}

void inspection::walk_node(std::uint64_t place, unsigned level, range bounds, bool is_root) {
  if (!step(place)) return;
  if (level == 0) return walk_leaf(place, bounds);
  walk_inner(place, level, bounds, is_root);
}

// Puts separator i of a node onto the stack of fences.
bool inspection::read_separator(std::uint64_t place, const layout::inner& image, unsigned i, range bounds) {
  const unsigned prefix = layout::unpack_meta(image.meta).prefix;
  const std::uint64_t word = image.separators[i];
  const std::uint64_t count = btree::length_of(word);
  const std::uint64_t object = layout::place_of(word);
  if (count < prefix || (object == 0 && count - prefix > 8)) {
    return found_fault("the length of a separator cannot be", place);
  }
  text t;
  if (object == 0) {
    if (prefix != 0) t = fences_[static_cast<std::size_t>(bounds.low)].substr(0, prefix);
    const std::uint64_t head = __builtin_bswap64(image.heads[i]);
    t.append(reinterpret_cast<const char*>(&head), count - prefix);
  } else {
    std::uint64_t length = 0;
    if (!read(object, length, "a separator leads out of the pool")) return false;
    buffer_.resize(count);
    if (length != count || !from_->read(object + sizeof length, buffer_.data(), count)) {
      return found_fault("a separator fails its check", object);
    }
    t = view_of(buffer_, 0, count);
    if (key_of(std::string_view{t}).head(prefix) != image.heads[i]) {
      return found_fault("a separator fails its check", object);
    }
  }
  fences_.push_back(std::move(t));
  return true;
}

void inspection::walk_inner(std::uint64_t place, unsigned level, range bounds, bool is_root) {
  layout::inner image;
  if (!read(place, image, "a link of the tree leads out of the pool")) return;
  const layout::node_meta m = layout::unpack_meta(image.meta);
  if (m.kind != layout::node_kind::inner || m.level != level || m.count > layout::inner_separators ||
      (is_root && m.count == 0) || m.prefix > common_bytes(bounds)) {
    found_fault("a node of the tree fails its check", place);
    return;
  }
  ++found_.inner_nodes;
  const std::size_t mark = fences_.size();
  range below{bounds.low, bounds.high};
  for (unsigned i = 0; i <= m.count && !over(); ++i) {
    below.high = bounds.high;
    if (i < m.count) {
      if (!read_separator(place, image, i, bounds)) break;
      below.high = static_cast<int>(fences_.size() - 1);
      const text& own = fences_.back();
      if ((below.low >= 0 && fences_[static_cast<std::size_t>(below.low)] >= own) ||
          (bounds.high >= 0 && own >= fences_[static_cast<std::size_t>(bounds.high)])) {
        found_fault("a separator is out of its order", place);
        break;
      }
    }
    walk_node(image.children[i], level - 1, below, false);
    below.low = below.high;
  }
  fences_.resize(mark);
}

// Empty: the slot does not have all of its key.
std::string inspection::key_in(const layout::leaf_slot& slot, unsigned prefix, range bounds) const {
  const std::uint64_t count = btree::length_of(slot.record);
  if (count < prefix || count - prefix > sizeof slot.head) return {};
  text k;
  if (prefix != 0) k = fences_[static_cast<std::size_t>(bounds.low)].substr(0, prefix);
  const std::uint64_t head = __builtin_bswap64(slot.head);
  return k.append(reinterpret_cast<const char*>(&head), count - prefix);
}

void inspection::walk_leaf(std::uint64_t place, range bounds) {
  layout::leaf image;
  if (!read(place, image, "a link of the tree leads out of the pool")) return;
  const layout::node_meta m = layout::unpack_meta(image.meta);
  if (m.kind != layout::node_kind::leaf || m.level != 0 || !btree::order_holds(image.order) ||
      m.prefix > common_bytes(bounds)) {
    found_fault("a leaf of the tree fails its check", place);
    return;
  }
  if (!first_leaf_ && next_leaf_ != place) found_fault("the leaf before leads to another", place);
  first_leaf_ = false;
  next_leaf_ = image.next;
  ++found_.leaves;
  for (unsigned i = 0; i < btree::count_of(image.order) && !over(); ++i) {
    const layout::leaf_slot& slot = image.slots[btree::slot_at(image.order, i)];
    const std::uint64_t record = layout::place_of(slot.record);
    const text known = key_in(slot, m.prefix, bounds);
    if (!look_at(record, &known)) continue;
    if (key_.size() != btree::length_of(slot.record) || key_.size() < m.prefix ||
        slot.head != key_of(std::string_view{key_}).head(m.prefix)) {
      found_fault("a leaf has another key for an entry", record, true);
    }
    const bool in_bounds = (bounds.low < 0 || fences_[static_cast<std::size_t>(bounds.low)] <= key_) &&
                           (bounds.high < 0 || key_ < fences_[static_cast<std::size_t>(bounds.high)]);
    if (!in_bounds || (has_before_ && before_ >= key_)) found_fault("an entry is out of its order", record, true);
    before_ = key_;
    has_before_ = true;
  }
}

// ---- red-black tree ----

// Black nodes on each way down.
unsigned inspection::walk_red_black(std::uint64_t place, std::uint64_t parent, bool parent_red, unsigned depth) {
  if (place == 0 || !step(place)) return 0;
  layout::rb_links links;
  if (depth == rbtree::depth_max) {
    found_fault("the tree is too deep", place);
    return 0;
  }
  if (!read(place, links, "a link of the tree leads out of the pool")) return 0;
  const bool red = (links.parent & 1) != 0;
  if ((links.parent & ~std::uint64_t{1}) != parent) {
    // A node with another parent may be met from that one, too.
    found_fault("a node of the tree has another parent", place);
    return 0;
  }
  if (red && parent_red) found_fault("a red node of the tree has a red parent", place);
  found_.depth = std::max(found_.depth, depth + 1);
  const unsigned left = walk_red_black(links.left, place, red, depth + 1);
  if (over()) return 0;
  const std::uint64_t record = place + sizeof links;
  if (look_at(record)) {
    if (key_.size() != rbtree::key_bytes) found_fault("the key of a node has not 8 bytes", record, true);
    if (has_before_ && before_ >= key_) found_fault("an entry is out of its order", record, true);
    before_ = key_;
    has_before_ = true;
  }
  const unsigned right = walk_red_black(links.right, place, red, depth + 1);
  if (!over() && left != right) found_fault("the tree is not balanced", place);
  return left + (red ? 0 : 1);
}

}  // namespace nvm::keyed
