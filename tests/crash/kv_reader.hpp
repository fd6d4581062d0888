// What the key-value stores of a pool hold, read from its bytes as docs/format.md states them, by code of its own: none
// of src/kv.  Nothing that is read is believed.
//
// Every object of the pool must be named by the stores, once: an object that nothing names has leaked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "kv/kv_layout.hpp"

namespace nvm::tests {

struct kv_store_contents {
  layout::kv_index index{};
  std::map<std::string, std::string> entries;
};

struct kv_contents {
  std::map<std::string, kv_store_contents> stores;  // by name; those that are being dropped are looked at, not listed
  std::string fault;                                // the first one, or empty
};

[[nodiscard]] kv_contents read_stores(const std::byte* base, std::size_t available);

// Order-free, of a store and an entry in it.
[[nodiscard]] std::uint64_t hash_store(const std::string& name, layout::kv_index index);
[[nodiscard]] std::uint64_t hash_entry(const std::string& store, const std::string& key, const std::string& value);
[[nodiscard]] std::uint64_t digest_of(const std::map<std::string, kv_store_contents>& stores);

}  // namespace nvm::tests
