// Nodes that a thread has used lately (LSNVMM, sections 3.2 and 4.3): set-associative, by the high-order bits of the
// address, so that all addresses of a line of 64 bytes are looked for in one set; first in, first out.
//
// An entry is a line's number and a node that has bytes of it.  The node may have been freed and used again since.  Its
// home address is read before and after its log address (double check); that it is the same says that the log address
// belongs to it, for two reasons:
//   - a node serves one stretch of home space for ever, so that its 32 bits of address are the whole address;
//   - the reader is inside an epoch: a node that it finds freed may be used again once while it looks, but nodes that
//     are unlinked from then on wait for it, so the same address cannot come back over another one.
//
/// Pairing with the thread that makes a node (skip_list.hpp, fill()):
///   maker   S home; S where (release)              reader  L home (acquire); L where (acquire); L home
///   killer  S where = dead (release)               a node that is found dead is no hit
#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/inlining.hpp"
#include "logheap/mapping/skip_node.hpp"

namespace nvm::logheap {

class node_cache {
 public:
  static constexpr unsigned line_shift = 6;
  static constexpr unsigned ways = 4;
  static constexpr std::uint64_t entries_min = 2048;  // the rest of a line's number fits 32 bits

  // A power of two, at least entries_min, or 0: none.  Without memory there is none, too.
  explicit node_cache(std::uint64_t entries) noexcept {
    if (entries == 0) return;
    NVM_ASSERT(entries >= entries_min && (entries & (entries - 1)) == 0);
    sets_ = static_cast<set*>(std::calloc(entries / ways, sizeof(set)));
    set_bits_ = static_cast<unsigned>(__builtin_ctzll(entries / ways));
    bytes_ = sets_ == nullptr ? 0 : entries * sizeof(entry);
  }
  ~node_cache() { std::free(sets_); }
  node_cache(const node_cache&) = delete;
  node_cache& operator=(const node_cache&) = delete;

  struct hit {
    std::uint64_t where = 0;  // 0: none
    std::uint32_t home = 0;
  };
  [[nodiscard]] explicit operator bool() const noexcept { return sets_ != nullptr; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  // at(number): the node.
  template <class At>
  [[nodiscard, NVM_INLINE]] hit find(std::uint64_t address, At&& at) const noexcept {
    const std::uint64_t line = address >> line_shift;
    const auto tag = static_cast<std::uint32_t>(line >> set_bits_);
    for (const entry& e : set_of(line).entries) {
      if (e.tag != tag || e.node == 0) continue;
      skip_node& n = at(e.node);
      // acquire, acquire: see above.
      const std::uint32_t home = n.home.load(std::memory_order_acquire);
      const std::uint64_t where = n.where.load(std::memory_order_acquire);
      if (is_dead(where) || static_cast<std::uint32_t>(address) - home >= size_of(where)) continue;
      if (!planted(plant::node_checked_once) && n.home.load(std::memory_order_relaxed) != home) continue;
      return {where, home};
    }
    return {};
  }
  void add(std::uint64_t address, node_number node) noexcept {
    const std::uint64_t line = address >> line_shift;
    set& s = set_of(line);
    for (unsigned i = ways - 1; i > 0; --i) s.entries[i] = s.entries[i - 1];
    s.entries[0] = {static_cast<std::uint32_t>(line >> set_bits_), node};
  }

 private:
  struct entry {
    std::uint32_t tag;
    node_number node;
  };
  struct set {
    entry entries[ways];
  };
  [[nodiscard]] set& set_of(std::uint64_t line) const noexcept {
    return sets_[line & ((std::uint64_t{1} << set_bits_) - 1)];
  }
  set* sets_ = nullptr;
  unsigned set_bits_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace nvm::logheap
