#include "lockfree_reader.hpp"

#include <algorithm>
#include <cstring>

#include "nvm/nvm.h"
#include "pool/pool.hpp"
#include "space/space.hpp"

namespace nvm::tests {
namespace {

namespace media_layout = lockfree::layout;
using lockfree::link_word;
using lockfree::offset_of;

struct place {
  std::uint16_t owner;
  std::uint64_t offset;
  std::uint64_t bytes;
};

class reader {
 public:
  reader(const std::byte* base, const geometry& g, bool image)
      : base_{base}, g_{g}, end_{g.size_bytes()}, image_{image} {}

  lockfree_contents read(bool leaks) {
    leaks_ = leaks;
    find_allocated();
    std::uint64_t directory = 0;
    // That of the pool's only store.
    cluster home;
    const layout::page_entry of_first = layout::unpack(load(g_.entry_offset(0)) & checked_mask);
    if (of_first.kind == layout::page_kind::cluster &&
        cluster_fault(base_, g_, 0, of_first.length_pages, home).what == nullptr) {
      directory = content(cluster_word_at(g_, 0, offsetof(layout::cluster_header, structures)));
    }
    std::uint64_t words[2];
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = anchor_word_at(g_, copy, anchor_word::lockfree);
      words[copy] = load(at);
      if (words[copy] != 0 && !holds(at)) broken("anchor word of lock-free structures", at);
      if (words[copy] != 0 && directory == 0) directory = words[copy] & checked_mask;
    }
    if (leaks && ((words[0] ^ words[1]) & checked_mask) != 0) broken("the anchors do not say the same", words[0]);
    if (directory != 0 && out_.fault.empty()) read_directory(directory);
    if (leaks && out_.fault.empty()) compare();
    return std::move(out_);
  }

 private:
  void broken(const char* what, std::uint64_t at) {
    if (out_.fault.empty()) out_.fault = what + (" at offset " + std::to_string(at));
  }
  [[nodiscard]] std::uint64_t load(std::uint64_t at) const {
    std::uint64_t w = 0;
    std::memcpy(&w, base_ + at, sizeof w);
    return w;
  }
  [[nodiscard]] bool holds(std::uint64_t at) const { return word_holds(load(at), word_seed(at)); }
  // Content of a checked word, 0 if there is none.
  std::uint64_t content(std::uint64_t at) {
    if (load(at) == 0) return 0;
    if (!holds(at)) broken("a word fails its check", at);
    return load(at) & checked_mask;
  }
  [[nodiscard]] bool fits(std::uint64_t offset, std::uint64_t bytes) const {
    return offset >= g_.data_offset && offset < end_ && bytes <= end_ - offset;
  }

  void find_allocated() {
    space_summary summary;
    space_check tell;
    tell.report = [&](const damage& d) { broken(d.what, d.offset); };
    tell.of_structure = [&](std::uint16_t owner, std::uint64_t offset, std::uint64_t bytes) {
      allocated_.push_back({owner, offset, bytes});
    };
    (void)check_space(base_, g_, tell, summary);
    if (summary.objects != 0) broken("an object of transactions", summary.objects);
  }
  void link(std::uint16_t owner, std::uint64_t offset, std::uint64_t bytes) {
    linked_.push_back({owner, offset, bytes});
  }

  void read_directory(std::uint64_t at) {
    if (!fits(at, sizeof(media_layout::directory))) return broken("the directory lies nowhere", at);
    link(media_layout::directory_owner, at, sizeof(media_layout::directory));
    if (load(at) != media_layout::directory_magic) return broken("no directory", at);
    if (content(at + offsetof(media_layout::directory, version)) != 1) return broken("no version", at);
    for (unsigned t = 0; t < 256; ++t) read_tables(at + offsetof(media_layout::directory, tables) + 8 * t);
    for (unsigned i = 0; i < media_layout::structures_max && out_.fault.empty(); ++i) {
      read_entry(i, at + offsetof(media_layout::directory, entries) + i * sizeof(media_layout::entry));
    }
  }
  void read_tables(std::uint64_t at) {
    const std::uint64_t page = g_.page_bytes();
    for (unsigned n = 0; n < 100; ++n) {
      const std::uint64_t table = content(at);
      if (table == 0 || !out_.fault.empty()) return;
      if (!fits(table, page)) return broken("a table of active areas lies nowhere", at);
      link(media_layout::directory_owner, table, page);
      for (std::uint64_t word = table; word < table + page - 8; word += 8) out_.active_areas += content(word) != 0;
      at = table + page - 8;
    }
    broken("tables of active areas have no end", at);
  }
  void read_entry(unsigned i, std::uint64_t at) {
    media_layout::entry e;
    std::memcpy(&e, base_ + at, sizeof e);
    const std::uint64_t state = content(at);
    if (state == 0) return;
    if (checksum(base_ + at + 8, offsetof(media_layout::entry, crc) - 8, at) != e.crc) return broken("an entry", at);
    const auto owner = static_cast<std::uint16_t>(state >> 8);
    if (owner != media_layout::first_owner + i) return broken("an entry's number", at);
    const std::uint64_t root = content(at + offsetof(media_layout::entry, root));
    const bool bytes = (content(at + offsetof(media_layout::entry, flags)) & media_layout::entry_bytes) != 0;
    const auto kind = static_cast<media_layout::kind>(state & 0xFF);
    one_ = {};
    one_.name = e.name;
    owner_ = owner;
    if (kind == media_layout::kind::none || kind > media_layout::kind::tree) return broken("an entry's kind", at);
    one_.shape = shape_of(kind, bytes);
    if ((content(at + offsetof(media_layout::entry, flags)) & media_layout::entry_volatile_links) != 0) {
      read_sealed(root, at);
      std::sort(one_.items.begin(), one_.items.end(), [](auto& a, auto& b) { return a.key < b.key; });
      out_.structures.push_back(std::move(one_));
      return;
    }
    switch (kind) {
      case media_layout::kind::hash:
        read_hash(root, at);
        break;
      case media_layout::kind::skip_list:
        if (!has_root(root, sizeof(lockfree::skip_root), lockfree::skip_magic)) return;
        read_skip_list(root);
        break;
      case media_layout::kind::tree:
        if (!has_root(root, sizeof(lockfree::tree_root), lockfree::tree_magic)) return;
        read_tree(load(root + offsetof(lockfree::tree_root, top)));
        break;
      default:
        if (!has_root(root, sizeof(lockfree::list_root), lockfree::list_magic)) return;
        walk(root + offsetof(lockfree::list_root, first));
    }
    std::sort(one_.items.begin(), one_.items.end(), [](auto& a, auto& b) { return a.key < b.key; });
    out_.structures.push_back(std::move(one_));
  }

  // ---- nodes that prove themselves ----

  void read_sealed(std::uint64_t root, std::uint64_t at) {
    if (!fits(root, sizeof(lockfree::sealed_root))) return broken("a root lies nowhere", at);
    link(owner_, root, sizeof(lockfree::sealed_root));
    if (lockfree::sealed_root_fault(base_, root) != nullptr) return broken("no root of volatile links", root);
    seed_ = load(root + offsetof(lockfree::sealed_root, seed));
    std::erase_if(allocated_, [&](const place& p) { return image_ && p.owner == owner_ && p.offset != root; });
    const auto shape = layout::shape_of(layout::page_kind::coarse, g_.page_shift);
    for (std::uint64_t page = 0; page < (end_ - g_.data_offset) >> g_.page_shift && out_.fault.empty(); ++page) {
      const layout::page_entry e = layout::unpack(load(g_.entry_offset(page)) & checked_mask);
      const std::uint64_t first = g_.page_offset(page);
      if (e.store != owner_ || e.kind == layout::page_kind::free || first == root) continue;
      if (e.kind == layout::page_kind::run) {
        read_sealed_nodes(first, std::uint64_t{e.length_pages} << g_.page_shift);
        continue;
      }
      const auto length = static_cast<std::uint8_t>(base_[first + shape.lengths_at + shape.header_slots]);
      const unsigned each = layout::slots_of_length(length);
      if (each == 0) return broken("an extent's lengths", first);
      for (unsigned slot = shape.header_slots; slot + each <= shape.slots; slot += each) {
        read_sealed_nodes(first + slot * shape.slot_bytes, each * shape.slot_bytes);
      }
    }
    std::sort(one_.items.begin(), one_.items.end(), [](auto& a, auto& b) { return a.key < b.key; });
    for (std::size_t i = 1; leaks_ && i < one_.items.size(); ++i) {
      if (one_.items[i].key == one_.items[i - 1].key) return broken("a key is there twice", one_.items[i].key);
    }
  }

  // The head of a skip list's node lies as far inside as it is high.
  void read_sealed_nodes(std::uint64_t start, std::uint64_t bytes) {
    if (kind_of(one_.shape) != media_layout::kind::skip_list) return read_sealed_node(start, start);
    for (const std::uint64_t inside : {8, 16, 24, 32, 40, 48, 56, 128}) {
      if (inside + sizeof(lockfree::sealed_words::node) <= bytes) read_sealed_node(start + inside, start);
    }
  }
  void read_sealed_node(std::uint64_t at, std::uint64_t start) {
    const bool hash = is_hash(one_.shape);
    const std::uint64_t order = load(at + 8);
    const std::uint64_t seal = load(at + 16);
    const std::uint64_t content = load(at + (has_words(one_.shape) ? 24 : 32));
    if (lockfree::seal::state_of(seal) != lockfree::seal::live ||
        (seal & lockfree::seal::sum_mask) != lockfree::seal::sum_of(order, content, at, seed_)) {
      return;
    }
    lockfree_item item{};
    std::uint64_t bytes = sizeof(lockfree::sealed_words::node);
    if (has_words(one_.shape)) {
      item.key = hash ? lockfree::word_hash::key_of(order, seed_) : order;
      item.value = value_code(base_ + at + 24, 8);
    } else {
      lockfree::sealed_bytes::node n{};
      std::memcpy(static_cast<void*>(&n), base_ + at, sizeof n);
      bytes = sizeof n + n.key_bytes + n.value_bytes;
      if (n.key_bytes != sizeof(key_bytes) || !fits(at, bytes)) return broken("a node's sizes", at);
      const std::byte* key = base_ + at + sizeof n;
      item.key = key_of_bytes(key);
      item.value = value_code(key + n.key_bytes, n.value_bytes);
      const std::uint64_t expected = hash ? coarse_hash::of({key, n.key_bytes}, seed_) : item.key >> 8;
      if (order != expected) return broken("a node's order", at);
      if (!holds_sum(at + sizeof n, n.key_bytes, n.value_bytes, order)) return broken("a node's sum", at);
      bytes += 8;
    }
    // On ssd words of allocation never leave the process.
    if (!image_) link(owner_, start, at - start + bytes);
    one_.items.push_back(item);
  }

  bool has_root(std::uint64_t root, std::uint64_t bytes, std::uint64_t magic) {
    if (!fits(root, bytes)) {
      broken("a root lies nowhere", root);
      return false;
    }
    link(owner_, root, bytes);
    if (load(root) != magic) broken("another kind of root", root);
    return load(root) == magic;
  }

  // ---- hash table ----

  struct array {
    std::uint64_t offset, cells;
  };
  void read_hash(std::uint64_t root, std::uint64_t at) {
    if (!fits(root, sizeof(lockfree::hash_root))) return broken("a root lies nowhere", at);
    link(owner_, root, sizeof(lockfree::hash_root));
    if (load(root) != lockfree::hash_magic) return broken("no hash table", root);
    base_bits_ = static_cast<unsigned>(content(root + offsetof(lockfree::hash_root, bits)));
    seed_ = load(root + offsetof(lockfree::hash_root, seed));
    arrays_.clear();
    cells_.clear();
    for (unsigned g = 0; g <= lockfree::hash_growths_max; ++g) {
      const std::uint64_t offset = content(root + offsetof(lockfree::hash_root, arrays) + 8 * g);
      if (offset == 0) break;
      const std::uint64_t cells = std::uint64_t{1} << (base_bits_ + (g == 0 ? 0 : g - 1));
      if (!fits(offset, 8 * cells)) return broken("an array lies nowhere", root);
      arrays_.push_back({offset, cells});
      link(owner_, offset, 8 * cells);
    }
    if (arrays_.empty()) return broken("a hash table without cells", root);
    cells_.push_back(arrays_[0].offset);
    walk(arrays_[0].offset);
    std::sort(cells_.begin(), cells_.end());
    for (std::size_t g = 0; g < arrays_.size(); ++g) {
      for (std::uint64_t c = 0; c < arrays_[g].cells; ++c) {
        const std::uint64_t cell = arrays_[g].offset + 8 * c;
        const bool ready = g == 0 || (load(cell) != 0 && (load(cell) & lockfree::frozen) == 0);
        if (ready && !std::binary_search(cells_.begin(), cells_.end(), cell)) {
          broken("a cell that is used is not in the chain", cell);
        }
      }
    }
  }
  // Smallest hash after a cell.
  bool order_of_cell(std::uint64_t at, std::uint64_t& order) const {
    for (unsigned g = 0; g < arrays_.size(); ++g) {
      if (at < arrays_[g].offset || at >= arrays_[g].offset + 8 * arrays_[g].cells) continue;
      const std::uint64_t i = (at - arrays_[g].offset) / 8;
      order = g == 0 ? i << (64 - base_bits_) : (2 * i + 1) << (64 - base_bits_ - g);
      return true;
    }
    return false;
  }

  // ---- nodes ----

  // With the value or, of a branch, without one.
  bool read_node(std::uint64_t at, lockfree_item& item, std::uint64_t& bytes, bool is_branch = false) {
    const auto no = [&](const char* what) {
      broken(what, at);
      return false;
    };
    const bool hash = is_hash(one_.shape);
    bytes = sizeof(lockfree::word_nodes::node);
    if (!fits(at, bytes)) return no("a link leads nowhere");
    const std::uint64_t order = load(at + 8);
    if (has_words(one_.shape)) {
      item.key = hash ? lockfree::word_hash::key_of(order, seed_) : order;
      item.value = value_code(base_ + at + 16, 8);
      bytes += 8;
      if (!fits(at, bytes) || load(at + 24) != sum_of(order, load(at + 16))) return no("a node's sum");
      return true;
    }
    lockfree::byte_nodes::node n{};
    if (!fits(at, sizeof n)) return no("a link leads nowhere");
    std::memcpy(static_cast<void*>(&n), base_ + at, sizeof n);
    bytes = sizeof n + n.key_bytes + n.value_bytes;
    if (n.key_bytes != sizeof(key_bytes) || !fits(at, bytes)) return no("a node's sizes");
    if (is_branch && n.value_bytes != 0) return no("a branch with a value");
    const std::byte* key = base_ + at + sizeof n;
    item.key = key_of_bytes(key);
    item.value = value_code(key + n.key_bytes, n.value_bytes);
    const std::uint64_t expected = hash ? coarse_hash::of({key, n.key_bytes}, seed_) : item.key >> 8;
    if (order != expected) return no("a node's order");
    if (is_branch) return true;
    bytes += 8;
    return holds_sum(at + sizeof n, n.key_bytes, n.value_bytes, order) || no("a node's sum");
  }
  static std::uint64_t sum_of(std::uint64_t order, std::uint64_t content) {
    std::uint64_t h = mix_seed(0, order);
    h = mix_seed(h ^ h >> 32, content);
    h = mix_seed(h ^ h >> 29, 1);
    return h ^ h >> 32;
  }
  // Of key and value at that place, what follows them.
  [[nodiscard]] bool holds_sum(std::uint64_t at, std::uint64_t key_bytes, std::uint64_t value_bytes,
                               std::uint64_t order) const {
    const std::uint64_t both = key_bytes + value_bytes;
    return fits(at, both + 8) &&
           load(at + both) == sum_of(order, checksum(base_ + at, both, key_bytes | value_bytes << 32));
  }

  // ---- skip list ----

  // Place of the link of a level, of the node or root with this one of level 0.
  static std::uint64_t link_at(std::uint64_t bottom, unsigned level) { return bottom - 8 * std::uint64_t{level}; }
  // Of a node whose head is there; the height that it says itself, and its first byte.
  bool read_height(std::uint64_t head, std::uint64_t& start, std::uint64_t& height) {
    const std::uint64_t inside = head % line_bytes;
    start = inside != 0 ? head - inside : head - 8 * lockfree::skip_levels;
    if (head % 8 != 0 || head < g_.data_offset + 8 * lockfree::skip_levels || !fits(head, 16)) {
      broken("a link leads nowhere", head);
      return false;
    }
    height = load(start);
    const bool good = inside != 0 ? height == inside / 8 : height >= 8 && height <= lockfree::skip_levels;
    if (!good) broken("a node's height", head);
    return good;
  }
  void read_skip_list(std::uint64_t root) {
    const std::uint64_t first = root + offsetof(lockfree::skip_root, first);
    struct seen {
      std::uint64_t head, height, key;
      bool deleted;
    };
    std::vector<seen> bottom;
    for (link_word w = load(first); offset_of(w) != 0; w = load(offset_of(w))) {
      const std::uint64_t at = offset_of(w);
      std::uint64_t start = 0, height = 0, bytes = 0;
      lockfree_item item{};
      if (bottom.size() > end_ / 8) return broken("a list without an end", first);
      if (!read_height(at, start, height) || !read_node(at, item, bytes)) return;
      link(owner_, start, at - start + bytes);
      const bool deleted = (load(at) & lockfree::gone) != 0;
      bottom.push_back({at, height, item.key, deleted});
      if (deleted) {
        ++one_.deleted;
        continue;
      }
      if (!one_.items.empty() && item.key <= one_.items.back().key) return broken("a key is out of order", at);
      one_.items.push_back(item);
    }
    for (unsigned level = 1; level < lockfree::skip_levels; ++level) {
      std::uint64_t steps = 0;
      std::uint64_t last_key = 0;
      bool any = false;
      for (link_word w = load(link_at(first, level)); offset_of(w) != 0; w = load(link_at(offset_of(w), level))) {
        const std::uint64_t at = offset_of(w);
        const auto known = std::find_if(bottom.begin(), bottom.end(), [&](const seen& n) { return n.head == at; });
        if (known == bottom.end()) {
          // Recovery has not been there yet.
          std::uint64_t start = 0, height = 0;
          if (!read_height(at, start, height)) return;
          if (leaks_) return broken("a node is above and not at the bottom", at);
          if (height <= level) return broken("a node is linked above its height", at);
          if ((load(at) & lockfree::gone) == 0) return broken("a node lives above and not at the bottom", at);
        } else {
          if (known->height <= level) return broken("a node is linked above its height", at);
          if (!known->deleted && any && known->key <= last_key) return broken("a key is out of order above", at);
          if (!known->deleted) {
            last_key = known->key;
            any = true;
          }
        }
        if (++steps > end_ / 8) return broken("a level without an end", link_at(first, level));
      }
    }
  }

  // ---- tree ----

  void read_tree(link_word top) {
    struct step {
      link_word edge;
      std::uint64_t at_least, below;  // keys, of both ends; 0: none
      bool has_low, has_high;
    };
    std::vector<step> ahead;
    if (offset_of(top) != 0) ahead.push_back({top, 0, 0, false, false});
    for (std::uint64_t steps = 0; !ahead.empty(); ++steps) {
      const step s = ahead.back();
      ahead.pop_back();
      const std::uint64_t at = offset_of(s.edge);
      if (steps > end_ / 8) return broken("a tree without an end", at);
      if (at == 0) return broken("a branch has an edge that leads nowhere", at);
      const bool is_branch = (s.edge & lockfree::branch) != 0;
      if (at % 8 != 0 || at < g_.data_offset + 16) return broken("an edge leads nowhere", at);
      lockfree_item item{};
      std::uint64_t bytes = 0;
      if (!read_node(at, item, bytes, is_branch)) return;
      if (s.has_low && item.key < s.at_least) return broken("a key is less than its branch allows", at);
      if (s.has_high && item.key >= s.below) return broken("a key is greater than its branch allows", at);
      if (!is_branch) {
        link(owner_, at, bytes);
        if ((s.edge & lockfree::gone) != 0) {
          ++one_.deleted;
        } else {
          one_.items.push_back(item);
        }
        continue;
      }
      if ((s.edge & lockfree::gone) != 0) return broken("an edge to a branch is gone", at);
      link(owner_, at - 16, 16 + bytes);
      ahead.push_back({load(at - 16), item.key, s.below, true, s.has_high});
      ahead.push_back({load(at), s.at_least, item.key, s.has_low, true});
    }
  }

  // ---- a chain ----

  void walk(std::uint64_t first) {
    std::uint64_t at_least = 0;  // order of what comes next
    std::uint64_t last_key = 0;
    bool any = false;
    link_word w = load(first);
    for (std::uint64_t steps = 0; offset_of(w) != 0; ++steps) {
      const std::uint64_t at = offset_of(w);
      if (steps > end_ / 8) return broken("a chain without an end", first);
      if (!fits(at, sizeof(lockfree::node_head)) || at % 8 != 0) return broken("a link leads nowhere", at);
      const link_word next = load(at);
      if ((w & lockfree::cell) != 0) {
        std::uint64_t order = 0;
        if (!is_hash(one_.shape) || !order_of_cell(at, order)) return broken("a link leads to no cell", at);
        if (order < at_least || (any && order == at_least)) return broken("a cell is out of order", at);
        at_least = order;
        any = false;
        cells_.push_back(at);
        w = next;
        continue;
      }
      const std::uint64_t order = load(at + 8);
      lockfree_item item{};
      std::uint64_t bytes = 0;
      if (!read_node(at, item, bytes)) return;
      link(owner_, at, bytes);
      if ((next & lockfree::gone) != 0) {
        ++one_.deleted;
      } else {
        if (order < at_least || (any && order == at_least && item.key <= last_key)) {
          return broken("a key is out of order", at);
        }
        at_least = order;
        last_key = item.key;
        any = true;
        one_.items.push_back(item);
      }
      w = next;
    }
  }

  // ---- allocated and linked ----

  void compare() {
    const auto before = [](const place& a, const place& b) { return a.offset < b.offset; };
    std::sort(allocated_.begin(), allocated_.end(), before);
    std::sort(linked_.begin(), linked_.end(), before);
    auto a = allocated_.begin();
    for (const place& l : linked_) {
      if (a != allocated_.end() && a->offset < l.offset) return broken("allocated, and nothing leads there", a->offset);
      if (a == allocated_.end() || a->offset != l.offset) return broken("linked, and not allocated", l.offset);
      if (a->owner != l.owner) return broken("linked, and somebody else's", l.offset);
      if (a->bytes < l.bytes) return broken("larger than its place", l.offset);
      ++a;
    }
    if (a != allocated_.end()) broken("allocated, and nothing leads there", a->offset);
  }

  const std::byte* base_;
  const geometry g_;
  const std::uint64_t end_;
  const bool image_;
  lockfree_contents out_;
  bool leaks_ = false;
  lockfree_contents::one one_{};
  std::uint16_t owner_ = 0;
  unsigned base_bits_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<array> arrays_;
  std::vector<std::uint64_t> cells_;
  std::vector<place> allocated_;
  std::vector<place> linked_;
};

}  // namespace

std::uint64_t value_code(const std::byte* from, std::size_t bytes) noexcept { return checksum(from, bytes, 7); }
std::uint64_t structure_code(std::string_view name, shape_of_structure shape) noexcept {
  return checksum(name.data(), name.size(), static_cast<std::uint64_t>(shape));
}
std::uint64_t item_code(std::string_view name, const lockfree_item& i) noexcept {
  return mix_seed(mix_seed(checksum(name.data(), name.size(), 99), i.key), i.value);
}
std::uint64_t lockfree_contents::digest() const {
  std::uint64_t d = 0;
  for (const one& s : structures) {
    d += structure_code(s.name, s.shape);
    for (const lockfree_item& i : s.items) d += item_code(s.name, i);
  }
  return d;
}

lockfree_contents lockfree_in(const std::byte* base, std::size_t available, bool leaks) {
  const auto sb = pick_superblock(base, available);
  if (!sb) {
    lockfree_contents c;
    c.fault = last_message();
    return c;
  }
  return reader{base, geometry_of(*sb), sb->medium == NVM_MEDIUM_SSD}.read(leaks);
}

}  // namespace nvm::tests
