// Full check of the key-value stores of a pool.
#pragma once

#include <cstdint>
#include <functional>

#include "kv/kv.hpp"

namespace nvm::care {

using regions_reader = std::function<status(const keyed::store_facts& facts, const keyed::lewat::rest_report& report)>;

// Walks the directory of stores, whose header is at that place, and every store that it names, in a pool at rest; calls
// tell(offset, finding) for each fault.  errc::no_memory: it could not.
//
// is_allocated(place, n): whether an object is allocated where a link leads; the walk goes on where none is.  Empty:
// the source reads allocated objects only.
// `regions`: reads the entries of a store of index regions.  Empty: they are not looked at.
// `number`: that of the object store in which they lie, which findings name; 0: they are the pool's own.
[[nodiscard]] status check_stores(keyed::byte_source& from, std::uint64_t directory,
                                  const std::function<void(std::uint64_t offset, const char* finding)>& tell,
                                  const std::function<bool(std::uint64_t place, std::uint64_t n)>& is_allocated = {},
                                  const regions_reader& regions = {}, std::uint32_t number = 0);

}  // namespace nvm::care
