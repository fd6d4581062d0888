// Check and repair of the regions of a pool.
#pragma once

#include <cstdint>
#include <functional>

#include "kv/kv.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

using told_of_region = std::function<void(std::uint64_t offset, const char* finding)>;

// On a private copy of a pool whose logs have been replayed and whose space is sound: brings the log of regions home,
// then calls tell(offset, finding) for each fault.  errc::no_memory: it could not.
[[nodiscard]] status check_regions(std::byte* base, const geometry& g, const told_of_region& tell);
// The same, and takes out damaged regions one by one: tell(offset, what was done).  errc::corrupt: the directory or the
// log is damaged, and nothing was taken out.
[[nodiscard]] status mend_regions(std::byte* base, const geometry& g, const told_of_region& tell);

// Reads the entries of a store of index regions, on a private copy as above.  errc::not_found: there is no set of it.
[[nodiscard]] status read_entries_in_regions(std::byte* base, const geometry& g, const keyed::store_facts& facts,
                                             const keyed::lewat::rest_report& report);

// The directory of a pool's sets of regions, whether an anchor names it or not; 0: there is none.
[[nodiscard]] std::uint64_t directory_of_regions(const std::byte* base, const geometry& g) noexcept;

}  // namespace nvm::care
