// Regions in a life of told_run.hpp: calls by themselves, transactions of one region, groups.
#pragma once

#include <cstdint>
#include <optional>

#include "told_stores.hpp"

namespace nvm::tests {

// `makes`: the regions that attempts find there are made; otherwise they must be there.
[[nodiscard]] bool open_regions(const told_case& c, told_stores& s, bool makes);
// As attempt_in_stores(), removes_entry(), entry_of() and has_left_one().
[[nodiscard]] int attempt_in_regions(const told_case& c, const told_stores& s, unsigned thread, unsigned n);
[[nodiscard]] bool removes_region(const told_case& c, unsigned n);
[[nodiscard]] std::optional<unsigned> region_entry_of(const told_case& c, const told_stores& s, unsigned thread);
[[nodiscard]] bool has_left_region(const told_case& c, const told_stores& s, unsigned thread, unsigned n);
// The n-th attempt as a commit that does not wait; -1: it failed.
[[nodiscard]] int commit_region_later(const told_case& c, const told_stores& s, unsigned thread, unsigned n,
                                      std::uint64_t* position);

}  // namespace nvm::tests
