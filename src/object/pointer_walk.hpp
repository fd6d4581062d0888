// Pointer words of objects: what relocation moves, what a collector follows, what reference counts are about.
//
// The fields of each type are compiled once into a plan, which a pass over a pool then follows for each object.  A plan
// holds copies: the map that it was made from may be unmapped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "object/type_map.hpp"

namespace nvm::object {

struct pointer_word {
  std::uint64_t at = 0;      // offset from the object's start; a multiple of 8 unless the type is packed
  std::uint32_t target = 0;  // id of the type pointed to, 0: any
  layout::field_kind kind{};
};

// The pointer words of one type.  An object larger than its type is an array of it, or ends in a flexible array.
class pointer_plan {
 public:
  // Of a record that was read (type_map::read).  May throw std::bad_alloc.
  [[nodiscard]] static pointer_plan of(const layout::type_record& r);

  // Whether objects of the type have no pointers: they are bytes.
  [[nodiscard]] bool none() const noexcept { return parts_.empty(); }
  // Whether each pointer word is at a multiple of 8 bytes, so that one store replaces it: not in packed types.
  [[nodiscard]] bool aligned() const noexcept;
  // Calls visit(const pointer_word&) for each pointer word of an object of `bytes` bytes, by ascending offset in each
  // field.
  template <class Visit>
  void each(std::uint64_t bytes, Visit&& visit) const {
    each_in(bytes, 0, bytes, visit);
  }
  // The same of the words that share a byte with [from, to).  Cost: of these words, not of the object.
  template <class Visit>
  void each_in(std::uint64_t bytes, std::uint64_t from, std::uint64_t to, Visit&& visit) const {
    if (none() || from >= to) return;
    if (flexible_) {
      list(0, static_cast<std::uint32_t>(parts_.size()), 0, bytes, from, to, visit);
      return;
    }
    const std::uint64_t last = std::min(bytes / size_, ceil_div(std::min(to, bytes), size_));
    for (std::uint64_t i = from / size_; i < last; ++i) {
      list(0, static_cast<std::uint32_t>(parts_.size()), i * size_, (i + 1) * size_, from, to, visit);
    }
  }

 private:
  // A field that is a pointer, or holds some: `parts` parts that follow are those of one element, all depths counted.
  struct part {
    std::uint64_t offset = 0;
    std::uint64_t element_bytes = 0;
    std::uint64_t count = 0;  // 0: as many as there is room for
    std::uint32_t target = 0;
    std::uint32_t parts = 0;
    layout::field_kind kind{};
  };
  static constexpr std::uint64_t pointer_bytes = 8;

  [[nodiscard]] static bool leads(layout::field_kind kind) noexcept { return kind == layout::field_kind::pointer; }
  void add(const layout::type_field* fields, std::uint32_t n);

  // Parts [first, last) of what begins at `start`; nothing is beyond `end`.
  template <class Visit>
  void list(std::uint32_t first, std::uint32_t last, std::uint64_t start, std::uint64_t end, std::uint64_t from,
            std::uint64_t to, Visit& visit) const {
    for (std::uint32_t i = first; i < last; i += 1 + parts_[i].parts) {
      const part& p = parts_[i];
      const std::uint64_t at = start + p.offset;
      if (at >= end || at >= to) continue;
      const std::uint64_t room = (end - at) / p.element_bytes;
      const std::uint64_t count = p.count == 0 ? room : std::min(p.count, room);
      const std::uint64_t begin = from > at ? (from - at) / p.element_bytes : 0;
      const std::uint64_t stop = std::min(count, ceil_div(to - at, p.element_bytes));
      for (std::uint64_t k = begin; k < stop; ++k) {
        const std::uint64_t element = at + k * p.element_bytes;
        if (p.parts == 0) {
          visit(pointer_word{element, p.target, p.kind});
        } else {
          list(i + 1, i + 1 + p.parts, element, element + p.element_bytes, from, to, visit);
        }
      }
    }
  }

  std::vector<part> parts_;
  std::uint64_t size_ = 1;
  bool flexible_ = false;
};

// The plans of a type map, by id and by alias.
class pointer_plans {
 public:
  pointer_plans() noexcept = default;
  // May throw std::bad_alloc.
  explicit pointer_plans(const type_map& types);
  // nullptr: nobody described the type.
  [[nodiscard]] const pointer_plan* find(std::uint32_t type) const noexcept;

 private:
  struct entry {
    std::uint32_t id;
    std::uint32_t plan;
  };
  std::vector<entry> ids_;  // ascending
  std::vector<pointer_plan> plans_;
};

}  // namespace nvm::object
