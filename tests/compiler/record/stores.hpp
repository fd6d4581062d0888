// One function for each way of storing, compiled with the recording pass; the test compares the reports with the
// changes.  Each writes into `to`, which holds 0xAA before, bytes that are not 0xAA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nvm::record_test {

struct way {
  const char* name;
  void (*store)(std::byte* to);
  std::size_t bytes;     // that it stores
  unsigned reports_min;  // events at least
  const char* needs;     // processor feature, or nullptr
  std::uint32_t kind;    // enum nvm_rec_kind of each event, or any_kind
};
inline constexpr std::uint32_t any_kind = ~0U;

std::span<const way> ways();
// Not seen, and documented so: the store of inline assembly, and of a function that is excluded.
void store_by_assembly(std::byte* to);
void store_excluded(std::byte* to);
// Runs until another thread stops it; counts steps.
void loop_for_ever();

}  // namespace nvm::record_test
