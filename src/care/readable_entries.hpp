// The readable part of a pool file: the entries of its key-value stores, through the interface that programs use.  A
// repair compares it before and after, and leaves nothing less readable than it was.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace nvm::care {

// Of each store, by name: a sum of the value of each key.
using readable_entries = std::map<std::string, std::map<std::string, std::uint64_t>>;

// Opens the pool read-only; empty if it cannot be opened.  May throw std::bad_alloc.
[[nodiscard]] readable_entries readable_in(const std::string& path);

// The first entry of `before` that cannot be read in the pool, or (`values`) has another value there: "store: key".
[[nodiscard]] std::optional<std::string> first_lost(const readable_entries& before, const std::string& path,
                                                    bool values);

}  // namespace nvm::care
