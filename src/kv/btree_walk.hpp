// A B+tree, walked in the order of keys.
#pragma once

#include <algorithm>

#include "kv/btree_inner.hpp"

namespace nvm::keyed::btree {

[[nodiscard]] inline status fetch(operation& op, fetch_from& from, receiver& to, bool& ended) {
  path p;
  ended = false;
  const side begin = from.has_key ? side::by_key : from.backward ? side::last : side::first;
  if (status s = descend(op, p, begin, from.at); !s) return s;
  unsigned position = 0;
  if (p.at != nullptr) {
    position = from.backward ? count_of(p.image.order) : 0;
    if (from.has_key) {
      spot at;
      if (status s = search_leaf(op, p, from.at, at); !s) return s;
      // Forward the position is of the next entry, backward it is after it.
      position = at.position + (at.equal && from.inclusive == from.backward ? 1 : 0);
    }
  }
  std::uint64_t leaves_left = op.of.pool.objects_max(op.of.pool.pool);
  for (bool more = true; p.at != nullptr;) {
    const unsigned n = count_of(p.image.order);
    while (more && (from.backward ? position > 0 : position < n)) {
      const unsigned i = from.backward ? --position : position++;
      record r;
      const status read = record_of(op, p.image.slots[slot_at(p.image.order, i)].record, r);
      if (status s = hand_over(to, op, read, r, more); !s) return s;
    }
    if (!more) return {};
    if (leaves_left-- == 0) return access::damaged("chain of leaves", op.place_of(p.at));
    if (from.backward) {
      if (status s = step_back(op, p); !s) return s;
      if (p.at != nullptr) position = count_of(p.image.order);
    } else {
      const std::uint64_t next = p.image.next;
      if (next == 0) break;
      if (status s = read_leaf(op, next, p.at, p.image, p.m); !s) return s;
      position = 0;
    }
  }
  ended = true;
  return {};
}

}  // namespace nvm::keyed::btree
