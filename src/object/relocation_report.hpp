// What a relocation has done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nvm::object {

// A pointer that leads into no base of its pool.
struct foreign_pointer {
  std::uint64_t object = 0;  // offset of the payload in the pool
  std::uint64_t at = 0;      // of the pointer in the object
  std::uint64_t value = 0;
  std::uint32_t type = 0;
};

// How pointers that were moved already are told from others: by their value (object/relocation.hpp), or by the number
// of their object (object/numbered_relocation.hpp).
// by_page: by value, each page before a thread sees it (object/page_relocation.hpp).
enum class relocation_way : std::uint8_t { by_value, by_number, by_page };

struct relocation_report {
  static constexpr std::size_t shown_max = 8;

  void found_foreign(const foreign_pointer& f) noexcept {
    if (foreign < shown_max) first[foreign] = f;
    ++foreign;
  }
  // Adds what was found in the objects that follow.
  void add(const relocation_report& r) noexcept {
    objects += r.objects;
    pointers += r.pointers;
    moved += r.moved;
    for (std::uint64_t i = 0; i < r.foreign; ++i) found_foreign(i < shown_max ? r.first[i] : foreign_pointer{});
  }

  std::uint64_t objects = 0;
  std::uint64_t pointers = 0;  // that are not null
  std::uint64_t moved = 0;
  std::uint64_t foreign = 0;
  std::array<foreign_pointer, shown_max> first{};  // of these, by address
};

}  // namespace nvm::object
