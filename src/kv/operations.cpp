#include "kv/operations.hpp"

#include <cstring>

#include "kv/readable.hpp"

namespace nvm::keyed {

const char* name_of(kv_index index) noexcept {
  switch (index) {
    case kv_index::list:
      return "list";
    case kv_index::hash:
      return "hash";
    case kv_index::btree:
      return "btree";
    case kv_index::rbtree:
      return "rbtree";
    case kv_index::regions:
      return "regions";
  }
  return nullptr;
}

status prepare_key(const store& s, const void* bytes, std::size_t count, key& out) noexcept {
  if (bytes == nullptr && count != 0) return fail(errc::invalid, "the key is NULL");
  if (count > layout::kv_key_bytes_max) {
    return fail(errc::too_large, "key-value store \"%s\": a key of %zu bytes: at most %lu", s.name.c_str(), count,
                layout::kv_key_bytes_max);
  }
  if (s.index == kv_index::rbtree && count != rbtree::key_bytes) {
    return fail(errc::invalid, "key-value store \"%s\": a key of %zu bytes: a red-black tree has keys of %u",
                s.name.c_str(), count, rbtree::key_bytes);
  }
  out.bytes = static_cast<const std::byte*>(bytes);
  out.count = static_cast<std::uint32_t>(count);
  if (s.index == kv_index::hash || s.index == kv_index::regions) out.take_hash(s.seed);
  return {};
}

status check_value(std::size_t count) noexcept {
  if (count <= layout::kv_value_bytes_max) return {};
  return fail(errc::too_large, "a value of %zu bytes: at most %lu", count, layout::kv_value_bytes_max);
}

status put(operation& op, const key& k, bytes_view value, unsigned flags) {
  if ((flags & (put_absent | put_present)) != 0) {
    record r;
    if (status s = find(op, k, r); !s) return s;
    if (r.place != 0 && (flags & put_absent) != 0) {
      return fail(errc::exists, "key-value store \"%s\" has an entry with this key", op.of.name.c_str());
    }
    if (r.place == 0 && (flags & put_present) != 0) {
      return fail(errc::not_found, "key-value store \"%s\" has no entry with this key", op.of.name.c_str());
    }
    if (r.place == 0) flags |= put_new;
  }
  switch (op.of.index) {
    case kv_index::list:
      return list::put(op, k, value, (flags & put_new) != 0 ? put_mode::known_absent : put_mode::any);
    case kv_index::hash:
      return hash::put(op, k, value);
    case kv_index::btree:
      return btree::put(op, k, value);
    case kv_index::rbtree:
      return rbtree::put(op, k, value);
    case kv_index::regions:
      break;  // no operation of a transaction
  }
  return access::damaged("header", op.of.header_place);
}

status find(operation& op, const key& k, record& out) {
  switch (op.of.index) {
    case kv_index::list: {
      list::found f;
      const status s = list::find(op, k, f);
      out = f.r;
      return s;
    }
    case kv_index::hash: {
      hash::found f;
      const status s = hash::find(op, k, f);
      out = f.r;
      return s;
    }
    case kv_index::btree:
      return btree::find(op, k, out);
    case kv_index::rbtree:
      return rbtree::find(op, k, out);
    case kv_index::regions:
      break;  // no operation of a transaction
  }
  return access::damaged("header", op.of.header_place);
}

status remove(operation& op, const key& k, bool& removed) {
  switch (op.of.index) {
    case kv_index::list:
      return list::remove(op, k, removed);
    case kv_index::hash:
      return hash::remove(op, k, removed);
    case kv_index::btree:
      return btree::remove(op, k, removed);
    case kv_index::rbtree:
      return rbtree::remove(op, k, removed);
    case kv_index::regions:
      break;  // no operation of a transaction
  }
  return access::damaged("header", op.of.header_place);
}

status fetch(operation& op, fetch_from& from, receiver& to, bool& ended) {
  switch (op.of.index) {
    case kv_index::list:
      return list::fetch(op, from, to, ended);
    case kv_index::hash:
      return hash::fetch(op, from, to, ended);
    case kv_index::btree:
      return btree::fetch(op, from, to, ended);
    case kv_index::rbtree:
      return rbtree::fetch(op, from, to, ended);
    case kv_index::regions:
      break;  // no operation of a transaction
  }
  return access::damaged("header", op.of.header_place);
}

namespace {

[[gnu::cold]] errc damaged_entry(const operation& op, const key& k, const record& r) noexcept {
  return fail(errc::corrupt, "key-value store \"%s\": entry \"%s\", record at offset %lu: it fails its checksum",
              op.of.name.c_str(), (readable{k.bytes, k.count}.text), r.place);
}

}  // namespace

status read_value(const operation& op, const key& k, const record& r, bool verify, std::byte* to) {
  const std::uint64_t bytes = verify ? value_room(op, r) : r.sizes.value;
  if (verify && op.sums.on) {
    // Only the sizes have been checked.
    const std::uint64_t inside = r.place % 16 + layout::record_bytes(r.sizes) + op.sums.bytes();
    if (op.at<std::byte>(round_down(r.place, 16), inside) == nullptr) return errc::corrupt;
  }
  if (bytes != 0) op.read(to, value_of(op, r), bytes);
  return !verify || !op.sums.on || op.sums.hold(k, r, to) ? status{} : status{damaged_entry(op, k, r)};
}

status read_whole(const operation& op, const record& r, key& k, bytes_view& value) {
  std::byte* copy = scratch::of_thread().take(r.sizes.key + value_room(op, r));
  if (copy == nullptr) return fail(errc::no_memory, "no volatile memory for an entry");
  if (r.sizes.key != 0) op.read(copy, key_of(op, r), r.sizes.key);
  k = {copy, static_cast<std::uint32_t>(r.sizes.key)};
  if (op.of.index == kv_index::hash) k.take_hash(op.of.seed);
  value = {copy + k.count, r.sizes.value};
  return read_value(op, k, r, true, copy + k.count);
}

status hash::look_at(const operation& op, std::uint64_t place) {
  if (!op.sums.on) return {};
  record r;
  key k;
  bytes_view value;
  if (status s = read_record(op, place, r); !s) return s;
  const auto mark = scratch::of_thread().here();
  const status held = read_whole(op, r, k, value);
  scratch::of_thread().rewind(mark);
  return held;
}

void fill_header(layout::kv_header& header, const store_facts& facts, std::uint64_t place) noexcept {
  std::memset(static_cast<void*>(&header), 0, sizeof header);
  header.magic = layout::kv_magic;
  header.version = facts.with_sums ? layout::kv_version : layout::kv_version_plain;
  header.index = static_cast<std::uint32_t>(facts.index);
  header.seed = facts.seed;
  if (facts.with_sums) header.check = checksum(&header, offsetof(layout::kv_header, check), place);
}

status create_header(nvm_stm* tx, pool_bytes& pool, const store_facts& facts, std::uint64_t& place) {
  const access a{tx, pool};
  auto* header = a.allocate<layout::kv_header>(layout::kv_type_header);
  if (header == nullptr) return access::out_of_room();
  place = a.place_of(header);
  fill_header(*header, facts, place);
  if (facts.index != kv_index::hash) return {};
  auto* first = a.allocate<layout::segment>(layout::kv_type_segment);
  if (first == nullptr) return access::out_of_room();
  std::memset(static_cast<void*>(first), 0, sizeof *first);
  for (layout::bucket& b : first->buckets) b.meta = layout::pack_place(0, layout::bucket_depth_min);
  header->segments[0] = a.place_of(first);
  header->level = layout::bucket_depth_min;
  return {};
}

status check_header(const layout::kv_header& header, std::uint64_t place, store_facts& out) noexcept {
  out = {static_cast<kv_index>(header.index), header.seed, header.version != layout::kv_version_plain};
  if (header.magic != layout::kv_magic) {
    return fail(errc::corrupt, "key-value store at offset %lu: magic: found %016lx, expected %016lx", place,
                header.magic, layout::kv_magic);
  }
  if (header.version == 0 || header.version > layout::kv_version) {
    return fail(errc::version, "key-value store at offset %lu: version: found %u, expected at most %u", place,
                header.version, layout::kv_version);
  }
  if (name_of(out.index) == nullptr) {
    return fail(errc::corrupt, "key-value store at offset %lu: index: found %u, expected 1 to 5", place, header.index);
  }
  const std::uint64_t check = out.with_sums ? checksum(&header, offsetof(layout::kv_header, check), place) : 0;
  if (header.check != check) {
    return fail(errc::corrupt, "key-value store at offset %lu: check: found %016lx, expected %016lx", place,
                header.check, check);
  }
  return {};
}

status read_header(const access& a, std::uint64_t place, store_facts& out) {
  auto* header = a.at<layout::kv_header>(place);
  if (header == nullptr) return errc::corrupt;
  layout::kv_header fixed;
  a.read(&fixed, header, offsetof(layout::kv_header, reserved));
  return check_header(fixed, place, out);
}

namespace {

// Copies of a few keys.
class key_copies final : public receiver {
 public:
  static constexpr unsigned most = 256;
  static constexpr unsigned wanted = 128;
  status add(const operation& a, const record& r, bool& more) override {
    if (count_ == most) {
      more = false;
      return {};
    }
    std::byte* copy = scratch_key(a, r);
    if (copy == nullptr) return fail(errc::no_memory, "no volatile memory for a key");
    keys_[count_++] = {copy, static_cast<std::uint32_t>(r.sizes.key)};
    more = count_ < wanted;
    return {};
  }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] key& operator[](unsigned i) noexcept { return keys_[i]; }

 private:
  key keys_[most];
  unsigned count_ = 0;
};

}  // namespace

status empty_some(operation& op, fetch_from& from, unsigned& removed, bool& ended) {
  key_copies keys;
  if (status s = fetch(op, from, keys, ended); !s) return s;
  for (unsigned i = 0; i < keys.count(); ++i) {
    bool found = false;
    if (op.of.index == kv_index::hash) keys[i].take_hash(op.of.seed);
    if (status s = remove(op, keys[i], found); !s) return s;
    if (!found) return access::damaged("store", op.of.header_place);
  }
  removed = keys.count();
  return {};
}

status dismantle(operation& op, bool& done) {
  done = true;
  if (op.of.index == kv_index::hash) {
    if (status s = hash::free_segments(op, 256, done); !s || !done) return s;
  }
  return op.release(op.of.header_place);
}

void learn(store& s, const lessons& learnt) noexcept {
  for (unsigned i = 0; i < learnt.count; ++i) s.segments.put(learnt.segments[i].number, learnt.segments[i].place);
}

}  // namespace nvm::keyed
