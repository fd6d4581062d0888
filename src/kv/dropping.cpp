#include "kv/dropping.hpp"

namespace nvm::keyed {
namespace {

// Of one transaction: what it costs beside its frees is shared by so many.
constexpr unsigned objects_at_once = 512;

struct freed_objects {
  unsigned objects = 0;
  unsigned foreign = 0;  // records that were left
  totals sum;
};

// A link that is damaged may lead to another store's record, which its sum shows: that stays, and what the link led to
// before is lost room.  Of stores without sums, of large values, and where memory is short, only the object's type
// and size are asked.
[[nodiscard]] bool is_own(const operation& op, const record& r, std::uint64_t links) {
  if (!op.object_has(r.place - links, layout::kv_type_record, links + layout::record_bytes(r.sizes))) return false;
  constexpr std::uint64_t verified_bytes_max = std::uint64_t{1} << 20;
  if (!op.sums.on || r.sizes.value > verified_bytes_max) return true;
  const auto mark = scratch::of_thread().here();
  key k;
  bytes_view value;
  const status held = read_whole(op, r, k, value);
  scratch::of_thread().rewind(mark);
  return held.error() != errc::corrupt;
}
[[nodiscard]] status free_record(operation& op, std::uint64_t place, std::uint64_t links, freed_objects& f) {
  record r;
  if (status s = read_record(op, place, r); !s) return s;
  const bool own = is_own(op, r, links);
  ++f.objects;
  ++f.sum.entries;
  f.sum.key_bytes += r.sizes.key;
  f.sum.value_bytes += r.sizes.value;
  f.foreign += own ? 0 : 1;
  return own ? op.release(place - links) : status{};
}
[[nodiscard]] status free_node(operation& op, std::uint64_t place, std::uint32_t type, freed_objects& f) {
  if (!op.object_has(place, type, 1)) return access::damaged("node", place);
  ++f.objects;
  return op.release(place);
}
// Called after the records of a node: one of which none is the store's own is another's; of a single one the record may
// be damaged.
[[nodiscard]] status is_own_node(std::uint64_t place, const freed_objects& before, const freed_objects& f) {
  const unsigned records = static_cast<unsigned>(f.sum.entries - before.sum.entries);
  const bool own = records < 2 || f.foreign - before.foreign != records;
  return own ? status{} : status{access::damaged("node", place)};
}

[[nodiscard]] status free_list(operation& op, freed_objects& f, bool& ended) {
  std::uint64_t above = UINT64_MAX;
  std::uint64_t place = op.load(&op.header->root);
  while (place != 0 && f.objects < objects_at_once) {
    layout::list_links links;
    if (status s = list::read_links(op, place, above, links); !s) return s;
    if (status s = free_record(op, place + sizeof links, sizeof links, f); !s) return s;
    above = links.sequence;
    place = links.next;
  }
  op.store(&op.header->root, place);
  ended = place == 0;
  return {};
}

[[nodiscard]] status free_bucket(operation& op, const hash::home& b, freed_objects& f) {
  const unsigned before = f.objects;
  hash::chain c{b.at, b.image};
  for (bool more = true; more;) {
    const freed_objects before_bucket = f;
    for (const std::uint64_t word : c.image.slots) {
      if (word == 0) continue;
      if (status s = free_record(op, layout::place_of(word), 0, f); !s) return s;
    }
    const layout::bucket* const at = c.at;
    if (status own = is_own_node(op.place_of(at), before_bucket, f); !own) return own;
    status s;
    more = c.next(op, s);
    if (!s) return s;
    if (at == b.at) continue;
    if (status gone = free_node(op, op.place_of(at), layout::kv_type_overflow, f); !gone) return gone;
  }
  if (f.objects == before) return {};
  layout::bucket empty{};
  empty.meta = layout::pack_place(0, hash::depth_of(b.image));
  op.write(b.at, &empty, sizeof empty);
  return {};
}
[[nodiscard]] status free_buckets(operation& op, fetch_from& from, freed_objects& f, bool& ended) {
  // Buckets that are empty cost a look.
  constexpr unsigned buckets_at_once = 1024;
  for (unsigned i = 0; !ended && i < buckets_at_once && f.objects < objects_at_once; ++i) {
    hash::home b;
    if (status s = hash::find_home(op, hash::reversed(from.position), b); !s) return s;
    if (status s = free_bucket(op, b, f); !s) return s;
    const std::uint64_t width = std::uint64_t{1} << (64 - hash::depth_of(b.image));
    from.position = round_down(from.position, width) + width;
    ended = from.position == 0;
  }
  return {};
}

// The last leaf, and the nodes that have no other child.
[[nodiscard]] status free_last_leaf(operation& op, btree::path& p, freed_objects& f) {
  const freed_objects before = f;
  for (unsigned i = 0; i < btree::count_of(p.image.order); ++i) {
    const std::uint64_t word = p.image.slots[btree::slot_at(p.image.order, i)].record;
    if (status s = free_record(op, layout::place_of(word), 0, f); !s) return s;
  }
  if (status own = is_own_node(op.place_of(p.at), before, f); !own) return own;
  if (status s = free_node(op, op.place_of(p.at), layout::kv_type_leaf, f); !s) return s;
  for (unsigned d = p.depth; d-- != 0;) {
    btree::step& above = p.steps[d];
    if (above.m.count == 0) {
      if (status s = free_node(op, op.place_of(above.at), layout::kv_type_inner, f); !s) return s;
      continue;
    }
    const std::uint64_t object = layout::place_of(op.load(&above.at->separators[above.m.count - 1]));
    if (object != 0) {
      if (status s = free_node(op, object, layout::kv_type_separator, f); !s) return s;
    }
    --above.m.count;
    op.store(&above.at->meta, layout::pack(above.m));
    return {};
  }
  op.store(&op.header->root, 0);
  return {};
}
[[nodiscard]] status free_leaves(operation& op, freed_objects& f, bool& ended) {
  while (f.objects < objects_at_once) {
    btree::path p;
    if (status s = btree::descend(op, p, btree::side::last, {}); !s) return s;
    ended = p.at == nullptr;
    if (ended) return {};
    if (status s = free_last_leaf(op, p, f); !s) return s;
  }
  return {};
}

}  // namespace

status free_some(operation& op, fetch_from& from, unsigned& freed, bool& ended) {
  freed_objects f;
  status s;
  ended = false;
  switch (op.of.index) {
    case kv_index::list:
      s = free_list(op, f, ended);
      break;
    case kv_index::hash:
      s = free_buckets(op, from, f, ended);
      break;
    case kv_index::btree:
      s = free_leaves(op, f, ended);
      break;
    default:
      // From the first on: the tree stays one.
      from = {};
      return empty_some(op, from, freed, ended);
  }
  if (!s) return s;
  freed = static_cast<unsigned>(f.sum.entries);
  const std::uint64_t none = 0;
  if (f.sum.entries != 0) op.count.add(op, none - f.sum.entries, none - f.sum.key_bytes, none - f.sum.value_bytes);
  return {};
}

}  // namespace nvm::keyed
