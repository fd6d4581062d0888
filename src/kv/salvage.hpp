// Everything that can be read of a store in a damaged pool: links are followed as far as they are sound, and then all
// records of the pool are looked through for those whose sum is one of the store.
//
// What names a store may be damaged, too: the directory's records are looked through for its name; where its header
// fails its check, each index is tried, and where no sum holds then the entries are given without proof.
#pragma once

#include <functional>
#include <string_view>

#include "kv/inspect.hpp"
#include "kv/lewat_rest.hpp"

namespace nvm::keyed {

enum class proof {
  led_to = 1,  // links lead there, and the sum holds
  swept = 2,   // nothing sound leads there; the sum holds
  none = 3,    // links lead there; there is no sum, or nothing to compare it with
};
struct salvaged {
  std::string_view key;
  std::string_view value;
  std::uint64_t place;
  proof how;
};

// The objects of a pool: each() calls visit(place of the payload, type, bytes that it has at most) for all whose
// headers hold.
struct object_source {
  using visitor = std::function<void(std::uint64_t place, std::uint32_t type, std::uint64_t bytes)>;
  byte_source& bytes;
  std::function<void(const visitor& visit)> each;
  // Reads the entries of a store of index regions.  Empty: they are left out.
  std::function<status(const store_facts& facts, const lewat::rest_report& report)> regions{};
};

struct salvage_report {
  std::function<void(const salvaged&)> give;
  std::function<void(const fault&)> lost;        // something that is missing, or not certain
  std::function<void(const store_facts&)> of{};  // what the store is, as far as its header or its entries say
};

// `directory`: place of its header, 0: not known.  errc::not_found: there is no store of that name that could be read;
// no_memory.
[[nodiscard]] status salvage(const object_source& from, std::uint64_t directory, std::string_view name,
                             const salvage_report& report);

}  // namespace nvm::keyed
