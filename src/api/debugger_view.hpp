// What debuggers read of the handles that a program holds (tools/gdb/holdfast.py): the first bytes of each, laid out
// for scripts that know no types, in processes and in core files.  A handle of another kind has another mark.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvm::api {

struct debugger_view {
  static constexpr std::uint64_t of_pool = 0x4C4F'4F50'4D56'4E48;          // "HNVMPOOL" in memory
  static constexpr std::uint64_t of_store = 0x4552'4F54'534D'564E;         // "NVMSTORE"
  static constexpr std::uint64_t of_structure = 0x4C46'5254'534D'564E;     // "NVMSTRFL"
  static constexpr std::uint64_t of_regions = 0x534E'4752'534D'564E;       // "NVMSRGNS"
  static constexpr std::uint64_t of_object_store = 0x524F'5453'4F4D'564E;  // "NVMOSTOR"

  std::uint64_t mark = 0;
  const char* name = nullptr;        // path of the pool, name of the store
  const void* pool = nullptr;        // of a pool: its address; of a store: the handle of its pool
  std::uint32_t kind = 0;            // enum nvm_engine; of a store enum nvm_kv_index or nvm_lf_kind
  std::uint32_t medium = 0;          // of a pool: enum nvm_medium
  const void* size_pages = nullptr;  // of a pool: where 8 bytes have its present size in pages
  std::uint64_t page_bytes = 0;      // of a pool
};
static_assert(sizeof(debugger_view) == 48 && offsetof(debugger_view, kind) == 24);

}  // namespace nvm::api
