// Full check of the names of a pool's object stores.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "pool/pool.hpp"

namespace nvm::care {

// Walks the catalogue at that place (0: there is none) in a pool at rest whose pages are sound, and compares it with
// the stores that the page map has; calls tell(offset, finding) for each fault:
//   findings of the trie's own check; a node that is no object of its kind and size; one that nothing leads to
//   a name, or a place for a dying store, that leads to no store page; a store that has neither
//   a store whose number is not below the next one's
//   a name of one of the `headless`, numbers of stores that have key-value stores and no directory of them
// errc::no_memory: it could not.
[[nodiscard]] status check_names(const std::byte* base, const geometry& g, std::uint64_t catalogue,
                                 const std::set<std::uint32_t>& headless,
                                 const std::function<void(std::uint64_t offset, const char* finding)>& tell);

// Places of the store pages that are being dropped, as far as the catalogue can be read.  May throw std::bad_alloc.
[[nodiscard]] std::set<std::uint64_t> dying_stores(const std::byte* base, const geometry& g);

struct names_on_file {
  std::uint64_t names = 0;  // of stores
  std::uint32_t burst = 0;  // names that a container takes; 0: there is no catalogue
};
// Facts of the catalogue in the file, also while another process has the pool: takes no lock, changes nothing; on ssd
// names that are only in the log are not seen.  errc::system, not_a_pool, corrupt.
[[nodiscard]] result<names_on_file> names_in(const char* path) noexcept;

}  // namespace nvm::care
