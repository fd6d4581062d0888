// A hash map with an undo log, small enough to read in one go, with a switch for each of twelve bugs that real programs
// have had.  The explorer is tested with it: each bug must be found, and the map without them must pass.
//
//   S store, F flush, | fence
//   log a range   S entry {offset, bytes, old data}; F entry; | toy/E1  S count + 1; F count; | toy/E2
//   change        S in place
//   commit        F all changed ranges;                       | toy/E3  S count = 0; F count; | toy/E4
//   recovery      put entries back, newest first; F them;     | toy/R1  S count = 0; F count; | toy/R2
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::explore::toy {

enum class bug : unsigned {
  none,
  no_fence_before_count,      // 1: entry and count in one epoch
  changes_not_flushed,        // 2
  head_not_logged,            // 3
  commit_not_flushed,         // 4
  free_head_not_logged,       // 5
  undo_oldest_first,          // 6
  second_line_not_flushed,    // 7
  recovery_clears_log_first,  // 8
  node_not_flushed,           // 9
  free_count_not_logged,      // 10
  no_fence_before_truncate,   // 11
  last_block_not_logged,      // 12: taking the last free node goes another way
};
inline constexpr unsigned bugs = 12;

inline constexpr std::uint64_t buckets = 8;
inline constexpr std::uint64_t log_entries_max = 24;
inline constexpr std::uint64_t value_bytes = 104;

struct alignas(64) log_entry {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::byte data[112];
};
struct alignas(64) node {
  std::uint64_t key;
  std::uint64_t next;
  std::uint64_t version;
  std::byte value[value_bytes];
};
static_assert(sizeof(node) == 128);
struct layout {
  alignas(64) std::uint64_t log_count;
  log_entry log[log_entries_max];
  alignas(64) std::uint64_t heads[buckets];
  alignas(64) std::uint64_t free_head;
  alignas(64) std::uint64_t free_count;  // in a line of its own
  std::uint64_t node_count;
};
inline constexpr std::uint64_t nodes_at = (sizeof(layout) + 127) / 128 * 128;

inline std::vector<std::byte> formatted(std::uint64_t node_count) {
  std::vector<std::byte> image(nodes_at + node_count * sizeof(node));
  auto* l = reinterpret_cast<layout*>(image.data());
  l->node_count = node_count;
  l->free_count = node_count;
  for (std::uint64_t i = node_count; i-- > 0;) {
    const std::uint64_t at = nodes_at + i * sizeof(node);
    reinterpret_cast<node*>(image.data() + at)->next = l->free_head;
    l->free_head = at;
  }
  return image;
}

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  a = (a ^ (b + 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
  return a ^ a >> 32;
}
// Of one entry; the digest of a map is the sum, so that order does not matter.
inline std::uint64_t digest_of(std::uint64_t key, std::uint64_t version, const std::byte* value) noexcept {
  std::uint64_t h = mix(key, version);
  for (std::uint64_t i = 0; i < value_bytes; i += 8) {
    std::uint64_t w;
    std::memcpy(&w, value + i, 8);
    h = mix(h, w);
  }
  return h;
}

template <class M>
class map {
 public:
  map(M& m, std::byte* base, bug b) : m_{m}, base_{base}, l_{reinterpret_cast<layout*>(base)}, bug_{b} {}

  void put(std::uint64_t key, std::uint64_t version) {
    if (node* n = find(key)) {
      update(n, version);
    } else if (l_->free_head != 0) {
      insert(key, version);
    }
    commit();
  }

  void erase(std::uint64_t key) {
    std::uint64_t* link = &l_->heads[key % buckets];
    while (*link != 0 && at(*link)->key != key) link = &at(*link)->next;
    if (*link != 0) {
      node* n = at(*link);
      const std::uint64_t place = *link;
      log(link, 8);
      *link = n->next;
      log(&n->next, 8);
      n->next = l_->free_head;
      set_free(place, l_->free_count + 1, false);
    }
    commit();
  }

 private:
  node* at(std::uint64_t offset) { return reinterpret_cast<node*>(base_ + offset); }
  node* find(std::uint64_t key) {
    for (std::uint64_t o = l_->heads[key % buckets]; o != 0; o = at(o)->next) {
      if (at(o)->key == key) return at(o);
    }
    return nullptr;
  }
  static void fill(node* n, std::uint64_t version) {
    std::memset(n->value, static_cast<int>(version & 0xFF), value_bytes);
    std::memcpy(n->value + 48, &version, 8);
  }

  // In two steps, each with its own log entry: the order in which recovery undoes them matters.
  void update(node* n, std::uint64_t version) {
    log(&n->version, 8);
    n->version = version - 1;
    log(&n->version, 8 + value_bytes);
    n->version = version;
    fill(n, version);
  }

  void insert(std::uint64_t key, std::uint64_t version) {
    const std::uint64_t place = l_->free_head;
    node* n = at(place);
    const std::uint64_t rest = n->next;
    set_free(rest, l_->free_count - 1, rest == 0);
    log(&n->next, 8);  // the link of the free list: needed again if this is undone
    n->key = key;
    n->version = version;
    n->next = l_->heads[key % buckets];
    fill(n, version);
    if (bug_ != bug::node_not_flushed) changed(n, sizeof *n);
    if (bug_ != bug::head_not_logged) log(&l_->heads[key % buckets], 8);
    l_->heads[key % buckets] = place;
    changed(&l_->heads[key % buckets], 8);
  }

  void set_free(std::uint64_t head, std::uint64_t count, bool last) {
    const bool logged = !(bug_ == bug::free_head_not_logged || (bug_ == bug::last_block_not_logged && last));
    if (logged) log(&l_->free_head, 8);
    l_->free_head = head;
    changed(&l_->free_head, 8);
    if (bug_ != bug::free_count_not_logged) log(&l_->free_count, 8);
    l_->free_count = count;
    changed(&l_->free_count, 8);
  }

  void log(void* p, std::uint64_t bytes) {
    log_entry& e = l_->log[l_->log_count];
    e.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(p) - base_);
    e.bytes = bytes;
    std::memcpy(e.data, p, bytes);
    m_.flush(&e, 16 + bytes);
    if (bug_ != bug::no_fence_before_count) m_.fence(edge{"toy/E1"});
    l_->log_count = l_->log_count + 1;
    m_.flush(&l_->log_count, 8);
    m_.fence(edge{"toy/E2"});
    changed(p, bytes);
  }

  void changed(void* p, std::uint64_t bytes) { changed_[changes_++] = {p, bytes}; }

  void commit() {
    for (std::uint64_t i = 0; i < changes_ && bug_ != bug::changes_not_flushed; ++i) {
      m_.flush(changed_[i].p, bug_ == bug::second_line_not_flushed ? 1 : changed_[i].bytes);
    }
    changes_ = 0;
    if (l_->log_count == 0) return;
    if (bug_ != bug::no_fence_before_truncate) m_.fence(edge{"toy/E3"});
    l_->log_count = 0;
    if (bug_ != bug::commit_not_flushed) m_.flush(&l_->log_count, 8);
    m_.fence(edge{"toy/E4"});
  }

  struct range {
    void* p;
    std::uint64_t bytes;
  };
  M& m_;
  std::byte* base_;
  layout* l_;
  bug bug_;
  std::array<range, 64> changed_;
  std::uint64_t changes_ = 0;
};

template <class M>
std::optional<std::string> recover(M& m, std::byte* base, std::uint64_t size, bug b) {
  auto* l = reinterpret_cast<layout*>(base);
  const std::uint64_t count = l->log_count;
  if (count > log_entries_max) return "log count is " + std::to_string(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const log_entry& e = l->log[i];
    if (e.bytes > sizeof e.data || e.offset > size || e.bytes > size - e.offset) return "log entry out of range";
  }
  if (count == 0) return std::nullopt;
  if (b == bug::recovery_clears_log_first) {
    l->log_count = 0;
    m.flush(&l->log_count, 8);
    m.fence(edge{"toy/R2"});
  }
  for (std::uint64_t k = 0; k < count; ++k) {
    const log_entry& e = l->log[b == bug::undo_oldest_first ? k : count - 1 - k];
    std::memcpy(base + e.offset, e.data, e.bytes);
    m.flush(base + e.offset, e.bytes);
  }
  m.fence(edge{"toy/R1"});
  if (b == bug::recovery_clears_log_first) return std::nullopt;
  l->log_count = 0;
  m.flush(&l->log_count, 8);
  m.fence(edge{"toy/R2"});
  return std::nullopt;
}

// Every node is in the map or in the free list, once; the digest of the map, or what is wrong.
inline std::optional<std::string> walk(const std::byte* base, std::uint64_t* digest) {
  const auto* l = reinterpret_cast<const layout*>(base);
  const std::uint64_t end = nodes_at + l->node_count * sizeof(node);
  const auto valid = [&](std::uint64_t o) { return o >= nodes_at && o < end && (o - nodes_at) % sizeof(node) == 0; };
  std::uint64_t used = 0;
  std::uint64_t sum = 0;
  for (std::uint64_t b = 0; b < buckets; ++b) {
    for (std::uint64_t o = l->heads[b]; o != 0; o = reinterpret_cast<const node*>(base + o)->next) {
      if (!valid(o) || ++used > l->node_count) return "a bucket's chain leaves the nodes or has a loop";
      const auto* n = reinterpret_cast<const node*>(base + o);
      if (n->key % buckets != b) return "a key is in a foreign bucket";
      sum += digest_of(n->key, n->version, n->value);
    }
  }
  std::uint64_t free = 0;
  for (std::uint64_t o = l->free_head; o != 0; o = reinterpret_cast<const node*>(base + o)->next) {
    if (!valid(o) || ++free > l->node_count) return "the free list leaves the nodes or has a loop";
  }
  if (free != l->free_count) return "the free list has another length than its count says";
  if (used + free != l->node_count) return "nodes are lost or in two places";
  *digest = sum;
  return std::nullopt;
}

}  // namespace nvm::explore::toy
