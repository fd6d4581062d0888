// Inner nodes of a B+tree, changed: their separators are kept as short as they can be, and are spelled out whenever a
// node of another prefix gets them.
#pragma once

#include <algorithm>
#include <cstring>

#include "kv/btree_search.hpp"

namespace nvm::keyed::btree {

// ---- whole keys ----

// A key that begins like `like` and goes on, from `prefix` on, with a head.
[[nodiscard]] inline const std::byte* joined(const std::byte* like, unsigned prefix, std::uint64_t head,
                                             std::uint64_t count) noexcept {
  std::byte* out = scratch::of_thread().take(count + 8);
  if (out == nullptr) return nullptr;
  if (prefix != 0) std::memcpy(out, like, prefix);
  head = __builtin_bswap64(head);
  std::memcpy(out + prefix, &head, 8);
  return out;
}
// The text of separator i of a node; `like` is any key that has the node's prefix.
[[nodiscard]] inline status separator_text(const operation& op, inner* at, const node_meta& m, std::uint64_t head,
                                           unsigned i, const std::byte* like, text& out, std::uint64_t& object) {
  const std::uint64_t word = op.load(&at->separators[i]);
  const std::uint64_t count = length_of(word);
  object = layout::place_of(word);
  out.count = static_cast<std::uint32_t>(count);
  if (count < m.prefix || (object == 0 && count - m.prefix > 8)) {
    return access::damaged("separator", op.place_of(at));
  }
  if (object == 0) {
    out.bytes = joined(like, m.prefix, head, count);
    return out.bytes != nullptr ? status{} : status{no_scratch()};
  }
  const std::byte* from = separator_bytes(op, object, count);
  std::byte* copy = scratch::of_thread().take(count);
  if (from == nullptr) return errc::corrupt;
  if (copy == nullptr) return no_scratch();
  op.read(copy, from, count);
  out.bytes = copy;
  return {};
}
// The text of a slot of a leaf.
[[nodiscard]] inline status slot_text(const operation& op, const leaf_slot& s, unsigned prefix, const std::byte* like,
                                      text& out) {
  const std::uint64_t count = length_of(s.record);
  out.count = static_cast<std::uint32_t>(count);
  if (count < prefix) return access::damaged("leaf's entry", layout::place_of(s.record));
  if (count - prefix <= 8) {
    out.bytes = joined(like, prefix, s.head, count);
    return out.bytes != nullptr ? status{} : status{no_scratch()};
  }
  record r;
  if (status c = record_of(op, s.record, r); !c) return c;
  out.bytes = scratch_key(op, r);
  return out.bytes != nullptr ? status{} : status{no_scratch()};
}

struct fence {
  text key{};
  bool exists = false;
};
// Separator below or above child `index` of the node at step d, or of the nodes around it.
[[nodiscard]] inline status low_fence(const operation& op, const path& p, int d, unsigned index, const key& k,
                                      fence& out) {
  for (; d >= 0; --d) {
    const step& s = p.steps[d];
    if (index > 0) {
      std::uint64_t object = 0;
      out.exists = true;
      return separator_text(op, s.at, s.m, s.heads[index - 1], index - 1, k.bytes, out.key, object);
    }
    if (d > 0) index = p.steps[d - 1].index;
  }
  return {};
}
[[nodiscard]] inline status high_fence(const operation& op, const path& p, int d, unsigned index, const key& k,
                                       fence& out) {
  for (; d >= 0; --d) {
    const step& s = p.steps[d];
    if (index < s.m.count) {
      std::uint64_t object = 0;
      out.exists = true;
      return separator_text(op, s.at, s.m, s.heads[index], index, k.bytes, out.key, object);
    }
    if (d > 0) index = p.steps[d - 1].index;
  }
  return {};
}
inline unsigned common_bytes(const fence& low, const fence& high) noexcept {
  return low.exists && high.exists ? common_bytes(low.key, high.key) : 0;
}

// ---- inner nodes, changed ----

struct whole_separator {
  text key{};
  std::uint64_t object = 0;  // that holds the key already
};

// The separator in a node of this prefix; its object is made or freed as needed.
[[nodiscard]] inline status place_separator(const operation& op, const whole_separator& w, unsigned prefix,
                                            std::uint64_t& head, std::uint64_t& word) {
  std::uint64_t object = w.object;
  if (w.key.count < prefix) return access::damaged("separator", object);
  const bool needed = w.key.count - prefix > 8;
  if (needed && object == 0) {
    auto* made = op.allocate<layout::separator>(layout::kv_type_separator, sizeof(layout::separator) + w.key.count);
    if (made == nullptr) return access::out_of_room();
    made->bytes = w.key.count;
    std::memcpy(made + 1, w.key.bytes, w.key.count);
    object = op.place_of(made);
  } else if (!needed && object != 0) {
    if (status s = op.release(object); !s) return s;
    object = 0;
  }
  head = key::head_of(w.key.bytes + prefix, w.key.count - prefix);
  word = layout::pack_place(object, w.key.count);
  return {};
}

// A node with all its separators spelled out, and one to come in; big enough for two nodes that become one.
struct spelled {
  whole_separator separators[2 * inner_separators + 1];
  std::uint64_t children[2 * inner_separators + 2];
  unsigned count = 0;
};
[[nodiscard]] inline status spell(const operation& op, inner* at, const std::byte* like, spelled& out) {
  inner image;
  op.read(&image, at, sizeof image);
  const node_meta m = layout::unpack_meta(image.meta);
  if (m.kind != node_kind::inner || m.count > inner_separators) {
    return access::damaged("inner node", op.place_of(at));
  }
  for (unsigned i = 0; i <= m.count; ++i) {
    out.children[out.count + i] = image.children[i];
    if (i == m.count) break;
    whole_separator& w = out.separators[out.count + i];
    if (status s = separator_text(op, at, m, image.heads[i], i, like, w.key, w.object); !s) return s;
  }
  out.count += m.count;
  return {};
}
// Writes separators [first, first + count) of `from` and the children around them into a node.
[[nodiscard]] inline status write_inner(const operation& op, inner* at, bool fresh, unsigned level, unsigned prefix,
                                        const spelled& from, unsigned first, unsigned count) {
  inner image;
  std::memset(&image, 0, sizeof image);
  image.meta = layout::pack({node_kind::inner, level, count, prefix});
  for (unsigned i = 0; i < count; ++i) {
    if (status s = place_separator(op, from.separators[first + i], prefix, image.heads[i], image.separators[i]); !s) {
      return s;
    }
  }
  for (unsigned i = 0; i <= count; ++i) image.children[i] = from.children[first + i];
  if (fresh) {
    std::memcpy(at, &image, sizeof image);
  } else {
    op.write(at, &image, sizeof image);
  }
  return {};
}

[[nodiscard]] inline status new_root(const operation& op, unsigned level, const whole_separator& w, std::uint64_t left,
                                     std::uint64_t right) {
  auto* made = op.allocate<inner>(layout::kv_type_inner);
  if (made == nullptr) return access::out_of_room();
  spelled two;
  two.separators[0] = w;
  two.children[0] = left;
  two.children[1] = right;
  two.count = 1;
  if (status s = write_inner(op, made, true, level, 0, two, 0, 1); !s) return s;
  op.store(&op.header->root, op.place_of(made));
  return {};
}

// Puts a separator and the child above it after the child that step d leads to.
[[nodiscard]] inline status insert_separator(const operation& op, path& p, int d, const key& k, whole_separator w,
                                             std::uint64_t left, std::uint64_t right) {
  for (;; --d) {
    if (d < 0) {
      if (p.depth + 1 >= layout::tree_levels_max) return fail(errc::too_large, "key-value store: the tree is too deep");
      return new_root(op, p.depth + 1, w, left, right);
    }
    step& s = p.steps[d];
    const unsigned n = s.m.count;
    const unsigned i = s.index;
    if (n < inner_separators) {
      std::uint64_t words[inner_separators + 1];
      std::uint64_t head = 0;
      if (status c = place_separator(op, w, s.m.prefix, head, words[0]); !c) return c;
      op.read(words + 1, &s.at->separators[i], (n - i) * 8);
      op.write(&s.at->separators[i], words, (n - i + 1) * 8);
      op.read(words + 1, &s.at->children[i + 1], (n - i) * 8);
      words[0] = right;
      op.write(&s.at->children[i + 1], words, (n - i + 1) * 8);
      std::memmove(&s.heads[i + 1], &s.heads[i], (n - i) * 8);
      s.heads[i] = head;
      op.write(&s.at->heads[i], &s.heads[i], (n - i + 1) * 8);
      ++s.m.count;
      op.store(&s.at->meta, pack(s.m));
      return {};
    }
    spelled all;
    if (status c = spell(op, s.at, k.bytes, all); !c) return c;
    std::copy_backward(all.separators + i, all.separators + n, all.separators + n + 1);
    std::copy_backward(all.children + i + 1, all.children + n + 1, all.children + n + 2);
    all.separators[i] = w;
    all.children[i + 1] = right;
    all.count = n + 1;
    const unsigned above = d == 0 ? 0 : p.steps[d - 1].index;
    fence low;
    fence high;
    if (status c = low_fence(op, p, d - 1, above, k, low); !c) return c;
    if (status c = high_fence(op, p, d - 1, above, k, high); !c) return c;
    // What only grows at its end is left full.
    const unsigned m = i == n && !high.exists ? n - 1 : all.count / 2;
    const fence middle{all.separators[m].key, true};
    auto* made = op.allocate<inner>(layout::kv_type_inner);
    if (made == nullptr) return access::out_of_room();
    status c = write_inner(op, s.at, false, s.m.level, common_bytes(low, middle), all, 0, m);
    if (c) c = write_inner(op, made, true, s.m.level, common_bytes(middle, high), all, m + 1, all.count - m - 1);
    if (!c) return c;
    w = all.separators[m];
    left = op.place_of(s.at);
    right = op.place_of(made);
  }
}

}  // namespace nvm::keyed::btree
