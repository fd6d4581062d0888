// Pointer words of objects: relocation moves them, a collector follows them, and reference counts count them.
//
// The fields of each type are compiled once into a plan, which a pass over a pool then follows for each object.  A plan
// holds copies: the map that it was made from may be unmapped.
//
// Where the pointers are follows from the size of an object alone, unless its type has unions whose tags say which
// member counts, or parts that only a function of the program knows (NVM_VISIT).  Then asks_object() holds, and the
// object's bytes are read: all of them must be there, at any address, in a copy as well.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "object/type_map.hpp"
#include "object/union_tag.hpp"
#include "object/visitors.hpp"

namespace nvm::object {

struct pointer_word {
  std::uint64_t at = 0;       // offset from the object's start; a multiple of 8 unless the type is packed
  std::uint32_t target = 0;   // id of the type pointed to, 0: any
  layout::field_kind kind{};  // pointer, weak_pointer or static_pointer
  bool guessed = false;       // a word of an object of unknown type, which may be anything
};

// The pointer words of one type.  An object larger than its type is an array of it, or ends in a flexible array.
class pointer_plan {
 public:
  // The plan of a record that was read (type_map::read).  May throw std::bad_alloc.
  [[nodiscard]] static pointer_plan of(const layout::type_record& r);
  // The plan of objects of unknown type: each of their words may be a pointer of that kind.  May throw std::bad_alloc.
  [[nodiscard]] static pointer_plan guesses(layout::field_kind kind);

  // Whether objects of the type have no pointers: they are bytes.
  [[nodiscard]] bool none() const noexcept { return parts_.empty(); }
  // Whether each pointer word that the map tells is at a multiple of 8 bytes, so that one store replaces it: not in
  // packed types.
  [[nodiscard]] bool aligned() const noexcept;
  // Whether the words are guessed: they may be anything.
  [[nodiscard]] bool guesses() const noexcept { return guesses_; }
  // Whether the bytes of an object say which of its words are pointers.
  [[nodiscard]] bool asks_object() const noexcept { return asks_object_; }
  // Whether some object of the type may have a weak pointer.
  [[nodiscard]] bool may_have_weak() const noexcept;
  // A type whose visitor this program lacks: its pointers are unknown, and each() passes them over.  0: none.
  [[nodiscard]] std::uint32_t lacks_visitor_of() const noexcept { return lacks_visitor_of_; }

  // Calls visit(const pointer_word&) for each pointer word of an object of `bytes` bytes that can be read at `object`,
  // by ascending offset in each field; those of visitors as these tell them.  visit may change the word.  nullptr as
  // `object`: unless asks_object().
  template <class Visit>
  void each(const std::byte* object, std::uint64_t bytes, Visit&& visit) const {
    each_in(object, bytes, 0, bytes, visit);
  }
  // The same for the words that share a byte with [from, to).  Cost: that of these words, and of whole structures with
  // visitors, not of the whole object.
  template <class Visit>
  void each_in(const std::byte* object, std::uint64_t bytes, std::uint64_t from, std::uint64_t to,
               Visit&& visit) const {
    NVM_ASSERT(object != nullptr || !asks_object_);
    if (none() || from >= to) return;
    const range all{object, from, to};
    if (flexible_) {
      list(all, 0, static_cast<std::uint32_t>(parts_.size()), 0, bytes, visit);
      return;
    }
    const std::uint64_t last = std::min(bytes / size_, ceil_div(std::min(to, bytes), size_));
    for (std::uint64_t i = from / size_; i < last; ++i) {
      list(all, 0, static_cast<std::uint32_t>(parts_.size()), i * size_, (i + 1) * size_, visit);
    }
  }
  // The same where the size alone tells the pointers.
  template <class Visit>
  void each(std::uint64_t bytes, Visit&& visit) const {
    each_in(nullptr, bytes, 0, bytes, visit);
  }
  template <class Visit>
  void each_in(std::uint64_t bytes, std::uint64_t from, std::uint64_t to, Visit&& visit) const {
    each_in(nullptr, bytes, from, to, visit);
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
    std::uint32_t member = 0;       // of the union that it is directly inside of
    std::uint32_t tag = 0;          // tagged_union: in tags_
    nvm_visitor visitor = nullptr;  // by_visitor
  };
  struct range {
    const std::byte* object;
    std::uint64_t from, to;
  };
  static constexpr std::uint64_t pointer_bytes = 8;

  [[nodiscard]] static bool leads(layout::field_kind kind) noexcept {
    return layout::is_pointer(kind) && kind != layout::field_kind::volatile_pointer;
  }
  // `room`: bytes of what the fields lie in.
  void add(const layout::type_record& r, const layout::type_field* fields, std::uint32_t n, std::uint64_t room);
  void add_one(const layout::type_record& r, const layout::type_field& f, std::uint64_t room);

  // Parts [first, last) of what begins at `start`; nothing is beyond `end`.
  template <class Visit>
  void list(const range& all, std::uint32_t first, std::uint32_t last, std::uint64_t start, std::uint64_t end,
            Visit& visit) const {
    for (std::uint32_t i = first; i < last; i += 1 + parts_[i].parts) one(all, i, start, end, visit);
  }

  template <class Visit>
  void one(const range& all, std::uint32_t i, std::uint64_t start, std::uint64_t end, Visit& visit) const {
    using enum layout::field_kind;
    const part& p = parts_[i];
    const std::uint64_t at = start + p.offset;
    if (at >= end || at >= all.to) return;
    const std::uint64_t room = (end - at) / p.element_bytes;
    const std::uint64_t count = p.count == 0 ? room : std::min(p.count, room);
    const std::uint64_t begin = all.from > at ? (all.from - at) / p.element_bytes : 0;
    const std::uint64_t stop = std::min(count, ceil_div(all.to - at, p.element_bytes));
    if (begin >= stop) return;
    std::int64_t member = -1;
    if (p.kind == tagged_union && tags_[p.tag].reach() <= end - start) {
      member = tags_[p.tag].member_of(all.object + start);
    }
    for (std::uint64_t k = begin; k < stop; ++k) {
      const std::uint64_t element = at + k * p.element_bytes;
      const std::uint64_t after = element + p.element_bytes;
      if (p.kind == tagged_union) {
        for (std::uint32_t m = i + 1; m <= i + p.parts; m += 1 + parts_[m].parts) {
          if (parts_[m].member == static_cast<std::uint64_t>(member)) one(all, m, element, after, visit);
        }
      } else if (p.kind == by_visitor) {
        ask(all, p, element, visit);
      } else if (p.kind == structure) {
        list(all, i + 1, i + 1 + p.parts, element, after, visit);
      } else {
        visit(pointer_word{element, p.target, p.kind, guesses_});
      }
    }
  }

  template <class Visit>
  static void ask(const range& all, const part& p, std::uint64_t element, Visit& visit) {
    if (p.visitor == nullptr) return;
    struct asking : nvm_visit {
      const range& all;
      const part& asked;
      std::uint64_t element;
      Visit& visit;
    } now{{[](nvm_visit* self, const void* field, std::uint32_t kind) {
            const asking& k = *static_cast<asking*>(self);
            // A field outside of the structure is the visitor's mistake: an address that is none of ours.
            const std::uint64_t at = static_cast<std::uint64_t>(static_cast<const std::byte*>(field) - k.all.object);
            const std::uint64_t inside = at - k.element;
            if (inside > k.asked.element_bytes || k.asked.element_bytes - inside < pointer_bytes) return;
            if (at >= k.all.to || at + pointer_bytes <= k.all.from || !leads(layout::field_kind{kind})) return;
            k.visit(pointer_word{at, 0, layout::field_kind{kind}});
          }},
          all,
          p,
          element,
          visit};
    p.visitor(all.object + element, &now);
  }

  std::vector<part> parts_;
  std::vector<union_tag> tags_;
  std::uint64_t size_ = 1;
  std::uint32_t lacks_visitor_of_ = 0;
  bool flexible_ = false;
  bool asks_object_ = false;
  bool guesses_ = false;
};

// The plans of a type map, by id and by alias.
class pointer_plans {
 public:
  pointer_plans() noexcept = default;
  // May throw std::bad_alloc.
  explicit pointer_plans(const type_map& types);
  // nullptr: no map describes the type.
  [[nodiscard]] const pointer_plan* find(std::uint32_t type) const noexcept;

  // Whether the pointers of some type are told by a visitor that this program lacks.
  [[nodiscard]] bool lack_visitors() const noexcept {
    return std::any_of(plans_.begin(), plans_.end(), [](const pointer_plan& p) { return p.lacks_visitor_of() != 0; });
  }
  // Whether some object may have a weak pointer.
  [[nodiscard]] bool may_have_weak() const noexcept {
    return std::any_of(plans_.begin(), plans_.end(), [](const pointer_plan& p) { return p.may_have_weak(); });
  }
  // Whether some pointer word may be at no multiple of 8 bytes: of a packed type, or told by a visitor.
  [[nodiscard]] bool some_packed() const noexcept {
    return std::any_of(plans_.begin(), plans_.end(),
                       [](const pointer_plan& p) { return !p.aligned() || p.asks_object(); });
  }
  // Whether no object's bytes have to be read to find its pointers: each type has a plan that follows from its size, of
  // words that one store replaces.
  [[nodiscard]] bool tell_all() const noexcept {
    return untyped_are_bytes_ && std::all_of(plans_.begin(), plans_.end(), [](const pointer_plan& p) {
             return p.aligned() && !p.asks_object() && p.lacks_visitor_of() == 0;
           });
  }

  // Objects of unknown type have no pointers.
  void untyped_are_bytes(bool yes) noexcept { untyped_are_bytes_ = yes; }
  // Objects of unknown type may have static pointers: for a static_mover.  May throw std::bad_alloc.
  void guess_static_pointers() { guesses_ = pointer_plan::guesses(layout::field_kind::static_pointer); }
  // Objects of unknown type may have pointers in any aligned word; `visited`: those whose visitor this program lacks,
  // too.  May throw std::bad_alloc.
  void guess_pointers(bool visited) {
    guesses_ = pointer_plan::guesses(layout::field_kind::pointer);
    guesses_visited_ = visited;
  }
  // The plan of a type, if it tells all pointers; nullptr: no map describes the type, or it has parts whose visitor
  // this program lacks.
  [[nodiscard]] const pointer_plan* known(std::uint32_t type) const noexcept {
    if (const pointer_plan* p = find(type); p != nullptr) {
      return p->lacks_visitor_of() == 0 ? p : guesses_visited_ ? &guesses_ : nullptr;
    }
    if (!guesses_.none() && !layout::is_without_pointers(type)) return &guesses_;
    return untyped_are_bytes_ || layout::is_without_pointers(type) ? &no_pointers_ : nullptr;
  }

 private:
  struct entry {
    std::uint32_t id;
    std::uint32_t plan;
  };
  std::vector<entry> ids_;  // ascending
  std::vector<pointer_plan> plans_;
  pointer_plan no_pointers_, guesses_;
  bool untyped_are_bytes_ = false;
  bool guesses_visited_ = false;
};

}  // namespace nvm::object
