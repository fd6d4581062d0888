// Facts about a pool that several commands print, in text and in JSON.
#pragma once

#include <array>
#include <string>

#include "cli/console.hpp"
#include "nvm/nvm.h"
#include "pool/engines.hpp"

namespace nvm::cli {

// Names of enum nvm_medium without "detect", in order of their numbers.
inline constexpr std::string_view media_names[] = {"detect", "shm", "dax", "auto", "ssd"};
// Names of enum nvm_engine, and of enum nvm_validation.
inline constexpr auto engine_names = [] {
  std::array<std::string_view, engine_table.size() + 1> names{"detect"};
  for (const engine_row& e : engine_table) names[e.number] = e.name;
  return names;
}();
inline constexpr std::string_view validation_names[] = {"checksum", "commit-mark"};
inline constexpr std::string_view persist_names[] = {"detect",     "none", "fence", "clflush",
                                                     "clflushopt", "clwb", "best"};

[[nodiscard]] std::string_view medium_name(std::uint32_t medium) noexcept;
[[nodiscard]] std::string_view persist_name(std::uint32_t persist) noexcept;
// Place of `name` in one of the lists above; 0 when it is not there.
[[nodiscard]] std::uint32_t number_of(std::string_view name, std::span<const std::string_view> names) noexcept;

enum class pool_condition {
  clean,           // closed properly
  in_use,          // a process has it open
  needs_recovery,  // its last owner died; the next open recovers it
  copy,            // of a pool that was in use or whose owner had died
};
[[nodiscard]] pool_condition condition_of(const nvm_pool_info& info) noexcept;
// "needs recovery".
[[nodiscard]] std::string_view condition_name(pool_condition c) noexcept;

// The fields that `info` and `create` print, and their documentation.
[[nodiscard]] json document_of(const nvm_pool_info& info, const std::string& path);
[[nodiscard]] std::span<const json_field> info_fields() noexcept;
[[nodiscard]] std::span<const json_field> new_pool_fields() noexcept;  // without the fields of used pools
void print_info(const nvm_pool_info& info, const std::string& path, const console& out);

}  // namespace nvm::cli
