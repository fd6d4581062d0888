// The log-based twins of the lock-free structures (log-free, section 6.2), for measuring: tests and benchmarks make
// pools of them for themselves, so their bytes, unlike those of the others, are trusted.
//
//   redo_log.hpp    records, commit, replay          lazy_list.hpp   list; hash table of such lists
//   lazy_skip_list.hpp                               ticket_tree.hpp external tree (bst-tk)
#pragma once

#include <string_view>

#include "lockfree/catalogue.hpp"
#include "lockfree/logged/lazy_list.hpp"
#include "lockfree/logged/lazy_skip_list.hpp"
#include "lockfree/logged/redo_log.hpp"
#include "lockfree/logged/ticket_tree.hpp"
#include "lockfree/node_memory.hpp"

namespace nvm::lockfree::logged {

template <class Memory>
using list_twin = lazy_list<Memory>;
template <class Memory>
using hash_twin = lazy_hash<Memory>;
template <class Memory>
using skip_list_twin = lazy_skip_list<Memory>;
template <class Memory>
using tree_twin = ticket_tree<Memory>;

// Makes a structure of this shape; `bits`: 2^bits buckets of a hash table.
template <template <class> class Shape, media M>
[[nodiscard]] auto make(catalogue<M>& names, structure_pages& pages, M& medium, std::byte* base, std::string_view name,
                        lockfree::layout::kind kind, rule r, unsigned bits) {
  using shape = Shape<node_memory<M>>;
  return names.create(name, kind, bits, 0, [&](std::uint16_t owner) -> result<std::uint64_t> {
    const std::uint64_t bytes = shape::root_bytes_of(bits);
    const auto root = pages.take_run(0, nvm::layout::slot_protocol::epoch, owner, bytes);
    if (!root) return root.error();
    const auto log = pages.take_run(0, nvm::layout::slot_protocol::epoch, owner, layout::log_bytes);
    if (!log) return log.error();
    shape::make_root(base + *root, *root, r, base + *log, *log, bits);
    medium.flush(base + *root, bytes);
    medium.flush(base + *log, layout::log_bytes);
    return *root;
  });
}

}  // namespace nvm::lockfree::logged
