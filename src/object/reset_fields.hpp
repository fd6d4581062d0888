// Fields that are zero after each open (NVM_RESET): where they are in objects.  reset_pass.hpp zeroes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "object/type_map.hpp"

namespace nvm::object {

// The fields of one type.
class reset_plan {
 public:
  // May throw std::bad_alloc.
  [[nodiscard]] static reset_plan of(const layout::type_record& r);

  [[nodiscard]] bool none() const noexcept { return parts_.empty(); }
  // Smaller objects have none of the fields.
  [[nodiscard]] std::uint64_t first_byte() const noexcept { return first_byte_; }

  // Calls visit(offset, bytes) for each range of an object of `bytes` bytes, by ascending offset in each field.  An
  // object that ends inside of a field has the part that is there.  A multiple of the type's size is an array; what
  // follows one structure in an object of another size is none of the type's fields (`char text[1]`).
  template <class Visit>
  void each(std::uint64_t bytes, Visit&& visit) const {
    if (none()) return;
    const auto all = static_cast<std::uint32_t>(parts_.size());
    if (flexible_) return list(0, all, 0, bytes, visit);
    const std::uint64_t elements = bytes % size_ == 0 ? bytes / size_ : 1;
    for (std::uint64_t i = 0; i < elements; ++i) list(0, all, i * size_, std::min(bytes, (i + 1) * size_), visit);
  }

 private:
  // A field that is one, or holds some: the `parts` that follow are those of one element, all depths counted.
  struct part {
    std::uint64_t offset = 0;
    std::uint64_t element_bytes = 0;
    std::uint64_t count = 0;  // 0: as many as there is room for
    std::uint32_t parts = 0;  // 0: the field itself
  };

  void add(const layout::type_field* fields, std::uint32_t n);

  template <class Visit>
  void list(std::uint32_t first, std::uint32_t last, std::uint64_t start, std::uint64_t end, Visit& visit) const {
    for (std::uint32_t i = first; i < last; i += 1 + parts_[i].parts) {
      const part& p = parts_[i];
      const std::uint64_t at = start + p.offset;
      if (at >= end) continue;
      if (p.parts == 0) {
        visit(at, p.count == 0 ? end - at : std::min(p.element_bytes * p.count, end - at));
        continue;
      }
      // After the last whole element of a flexible array comes something else.
      const std::uint64_t count =
          p.count == 0 ? (end - at) / p.element_bytes : std::min(p.count, ceil_div(end - at, p.element_bytes));
      for (std::uint64_t k = 0; k < count; ++k) {
        const std::uint64_t element = at + k * p.element_bytes;
        list(i + 1, i + 1 + p.parts, element, std::min(end, element + p.element_bytes), visit);
      }
    }
  }

  std::vector<part> parts_;
  std::uint64_t size_ = 1;
  std::uint64_t first_byte_ = 0;
  bool flexible_ = false;
};

// Whether the type has such a field.
[[nodiscard]] bool has_reset_fields(const layout::type_record& r) noexcept;
// Whether some type has one.
[[nodiscard]] bool have_reset_fields(const type_map& types) noexcept;

// The types of maps, by id and by alias.
class reset_plans {
 public:
  reset_plans() noexcept = default;
  // May throw std::bad_alloc.
  explicit reset_plans(const type_map& types) { add(types); }
  // Adds the types that are not known yet; those of `without`, which ascends, count as types without such fields.  May
  // throw std::bad_alloc.
  void add(const type_map& types, const std::vector<std::uint32_t>& without = {});

  // Whether no type has such a field.
  [[nodiscard]] bool none() const noexcept { return smallest_ == ~std::uint64_t{0}; }
  // nullptr: the type has none.
  [[nodiscard]] const reset_plan* find(std::uint32_t type) const noexcept {
    const auto at =
        std::lower_bound(ids_.begin(), ids_.end(), type, [](const entry& e, std::uint32_t id) { return e.id < id; });
    if (at == ids_.end() || at->id != type) return nullptr;
    const reset_plan& p = plans_[at->plan];
    return p.none() ? nullptr : &p;
  }
  // Payloads of fewer bytes have no such field, whatever their type.
  [[nodiscard]] std::uint64_t smallest() const noexcept { return smallest_; }
  // Name of a type that has one.
  [[nodiscard]] const std::string& example() const noexcept { return example_; }

 private:
  struct entry {
    std::uint32_t id;
    std::uint32_t plan;
  };
  std::vector<entry> ids_;  // ascending
  std::vector<reset_plan> plans_;
  std::uint64_t smallest_ = ~std::uint64_t{0};
  std::string example_;
};

// What a pass has done.
struct reset_report {
  std::uint64_t objects = 0;  // with such fields
  std::uint64_t bytes = 0;    // in words that were not zero, these words whole
};

// Makes the bytes zero, whole words by one store each.  Bytes that are zero already are not stored to, so that their
// page stays as the medium has it.  Returns the bytes stored.
std::uint64_t make_zero(std::byte* from, std::uint64_t bytes) noexcept;

}  // namespace nvm::object
