// The types that a pool knows, for commands that name them and show the contents of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "nvm/nvm.h"

namespace nvm::cli {

struct pool_field {
  std::string name;
  std::string tag;
  nvm_field_info at{};  // its `name` and `tag` are not to be used
};
struct pool_type {
  std::string name;
  nvm_type_info facts{};  // its `name` and `fields` are not to be used
  std::vector<pool_field> fields;
};

// By id.
class pool_types {
 public:
  // No value: nvm_errno() and nvm_errormsg() say why.
  [[nodiscard]] static std::optional<pool_types> of(NVM_POOL* pool);

  [[nodiscard]] const std::map<std::uint32_t, pool_type>& all() const noexcept { return types_; }
  // nullptr: the pool does not know it.
  [[nodiscard]] const pool_type* find(std::uint32_t id) const noexcept;
  // "node", also of the library's own types; empty: the name is unknown.
  [[nodiscard]] std::string_view known_name(std::uint32_t id) const noexcept;
  // The ids of that name: several, if types of that name have different layouts.
  [[nodiscard]] std::set<std::uint32_t> named(std::string_view name) const;
  // "node", or the id in hexadecimal.
  [[nodiscard]] std::string name_of(std::uint32_t id) const;
  // The field of objects of the type that has the byte at `offset`, "slots[2].first"; "+16": the type is unknown.
  [[nodiscard]] std::string field_at(std::uint32_t id, std::uint64_t offset) const;

 private:
  std::map<std::uint32_t, pool_type> types_;
};

// "4 x float of 8".
[[nodiscard]] std::string kind_text(const pool_field& field, const pool_types& types);
[[nodiscard]] std::string_view kind_name(std::uint32_t kind) noexcept;

// Values of an object's fields, by their names; for an array of objects a list of these.
[[nodiscard]] json values_of(const pool_type& type, std::span<const std::byte> object);

}  // namespace nvm::cli
