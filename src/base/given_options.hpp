// Options that a program gives to a call: structs that grow from release to release.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/result.hpp"

namespace nvm {

constexpr std::size_t options_bytes_max = 4096;

// The options as this library knows them; NULL: all zero.  `given` may be shorter or longer: its struct_bytes says how
// long it is, 0: First bytes, as it was when it first came with a release.  errc::invalid: a field is set that this
// library does not know, or a reserved one.
template <std::size_t First, class Options>
[[nodiscard]] result<Options> given_options(const Options* given, const char* name) noexcept {
  static_assert(First <= sizeof(Options) && sizeof(Options) <= options_bytes_max);
  static_assert(std::is_trivially_copyable_v<Options>);
  static_assert(offsetof(Options, struct_bytes) < First);
  Options known{};
  if (given == nullptr) return known;
  const std::size_t bytes = given->struct_bytes == 0 ? First : given->struct_bytes;
  if (bytes < First || bytes > options_bytes_max) {
    return fail(errc::invalid, "%s: struct_bytes: found %zu, expected 0, or %zu to %zu", name, bytes, First,
                options_bytes_max);
  }
  const auto* const from = reinterpret_cast<const std::byte*>(given);
  const auto* const end = from + bytes;
  const auto* const set =
      std::find_if(from + std::min(bytes, sizeof known), end, [](std::byte b) { return b != std::byte{}; });
  if (set != end) {
    return fail(errc::invalid, "%s: a field at byte %td of %zu is set; this library knows %zu bytes", name, set - from,
                bytes, sizeof known);
  }
  std::memcpy(&known, from, std::min(bytes, sizeof known));
  known.struct_bytes = sizeof known;
  for (const std::uint64_t r : known.reserved) {
    if (r != 0) return fail(errc::invalid, "a reserved field of %s is %" PRIu64 ", expected 0", name, r);
  }
  return known;
}

}  // namespace nvm
