// Nodes of a lock-free structure in an image that may be damaged: where their parts are, and which of them hold.
// Offsets are not checked: the caller knows that a head and `room` bytes after it are in the pool.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "base/base.hpp"
#include "lockfree/hash_table.hpp"
#include "lockfree/sealed_nodes.hpp"
#include "lockfree/skip_list.hpp"
#include "lockfree/tree.hpp"

namespace nvm::care {

// A structure by its entry in the directory, or by the rest of that.
struct described_structure {
  std::string name;
  lockfree::layout::kind kind = lockfree::layout::kind::none;  // none: unknown
  std::uint16_t owner = 0;
  std::uint64_t root = 0;     // 0: unknown
  bool is_root_owned = true;  // false: the page map calls its pages free
  std::uint64_t flags = 0;
  std::uint64_t place = 0;             // of its entry
  std::optional<std::uint64_t> had{};  // entries when the pool was closed, if they were counted
  [[nodiscard]] bool has(std::uint64_t flag) const noexcept { return (flags & flag) != 0; }
};

// Keys as the reader has them: of words the eight bytes of the number.
[[nodiscard]] inline std::string text_of_word(std::uint64_t word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}
[[nodiscard]] inline std::uint64_t word_of_text(const std::string& text) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, text.data(), std::min(sizeof word, text.size()));
  return word;
}

// How nodes of one structure are laid out.
class node_format {
 public:
  static constexpr std::uint64_t line = 64;
  static constexpr std::uint64_t before_branch = 16;  // bytes of a branch of a tree before its head
  static constexpr std::uint64_t tall_head = lockfree::skip_levels * 8;
  static constexpr unsigned low_heights = 7;  // of a skip list: the head's place tells the height

  node_format(const std::byte* base, const described_structure& d) noexcept
      : kind{d.kind},
        of_bytes{d.has(lockfree::layout::entry_bytes)},
        with_sums{d.has(lockfree::layout::entry_sums)},
        is_sealed{d.has(lockfree::layout::entry_volatile_links)},
        base_{base} {}

  const lockfree::layout::kind kind;
  const bool of_bytes;
  const bool with_sums;
  const bool is_sealed;
  std::uint64_t seed = 0;      // of a hash, and of seals
  bool is_seed_known = false;  // something proves it
  bool is_seed_needed() const noexcept { return kind == lockfree::layout::kind::hash || is_sealed; }

  [[nodiscard]] std::uint64_t word(std::uint64_t at) const noexcept {
    std::uint64_t w;
    std::memcpy(&w, base_ + at, sizeof w);
    return w;
  }
  [[nodiscard]] std::uint64_t next(std::uint64_t head) const noexcept { return word(head); }
  [[nodiscard]] std::uint64_t order(std::uint64_t head) const noexcept { return word(head + 8); }
  [[nodiscard]] std::uint64_t seal(std::uint64_t head) const noexcept { return word(head + 16); }
  [[nodiscard]] bool has_skip_levels() const noexcept { return kind == lockfree::layout::kind::skip_list; }
  [[nodiscard]] bool is_tree() const noexcept { return kind == lockfree::layout::kind::tree; }

  // Head of the node in a place, by its own height; 0: it has none.
  [[nodiscard]] std::uint64_t head_in(std::uint64_t start) const noexcept {
    if (!has_skip_levels()) return start;
    const std::uint64_t height = word(start);
    if (height == 0 || height > lockfree::skip_levels) return 0;
    return start + (height <= low_heights ? height * 8 : tall_head);
  }
  // Where the place begins that a link to this head of a node (of a tree: of a leaf) leads to.
  [[nodiscard]] std::uint64_t start_of(std::uint64_t head) const noexcept {
    if (!has_skip_levels()) return head;
    return head % line != 0 ? head / line * line : head - tall_head;
  }
  [[nodiscard]] unsigned height_of(std::uint64_t head) const noexcept {
    if (head % line != 0) return static_cast<unsigned>(head % line / 8);
    return static_cast<unsigned>(
        std::clamp<std::uint64_t>(word(head - tall_head), low_heights + 1, lockfree::skip_levels));
  }

  [[nodiscard]] std::uint64_t node_bytes() const noexcept;
  // Whether the node, by its own sizes, fits its room.
  [[nodiscard]] bool fits(std::uint64_t head, std::uint64_t room) const noexcept;
  // The same without its sum.
  [[nodiscard]] bool fits_in(std::uint64_t head, std::uint64_t room) const noexcept;
  // Bytes from the head to the end of a node that fits.
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t head) const noexcept;
  // Whether the sum of a node that fits holds.
  [[nodiscard]] bool sum_holds(std::uint64_t head) const noexcept;
  [[nodiscard]] bool seal_holds(std::uint64_t head, std::uint64_t with_seed) const noexcept;
  // Whether the sum that a node of bytes has besides its seal holds.
  [[nodiscard]] bool own_sum_holds(std::uint64_t head, std::uint64_t room) const noexcept;
  // Whether the order is that of its key, as far as the seed is known.
  [[nodiscard]] bool order_holds(std::uint64_t head) const noexcept;
  [[nodiscard]] std::uint64_t order_of(const std::string& key) const noexcept;
  [[nodiscard]] std::string key(std::uint64_t head) const;
  [[nodiscard]] std::string value(std::uint64_t head) const;
  [[nodiscard]] std::uint64_t mark(std::uint64_t head) const noexcept;
  // < 0, 0, > 0: the node against a key of that order.
  [[nodiscard]] int compare(std::uint64_t head, std::uint64_t order, const std::string& key) const noexcept;

 private:
  struct sizes {
    std::uint64_t content;  // offset of key and value
    std::uint64_t key, value;
  };
  [[nodiscard]] sizes sizes_of(std::uint64_t head) const noexcept;
  // Bytes of a sum; words with volatile links have the seal instead.
  [[nodiscard]] std::uint64_t sum_bytes() const noexcept {
    return with_sums && (of_bytes || !is_sealed) ? lockfree::node_sum_bytes : 0;
  }

  const std::byte* const base_;
};

}  // namespace nvm::care
