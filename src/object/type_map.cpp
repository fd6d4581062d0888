#include "object/type_map.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "object/type_map_writer.hpp"
#include "object/union_tag.hpp"

namespace nvm::object {
namespace {

using layout::field_kind;
using layout::type_field;
using layout::type_map_header;
using layout::type_record;

// What is wrong, and at which place of the map.
struct fault {
  const char* what = nullptr;
  std::uint64_t at = 0;
  std::uint64_t found = 0;
};

class record_check {
 public:
  record_check(const std::byte* record, std::uint64_t at) noexcept
      : r_{*reinterpret_cast<const type_record*>(record)}, bytes_{reinterpret_cast<const char*>(record)}, at_{at} {}

  // `what` nullptr: nothing is wrong.  May throw std::bad_alloc.
  [[nodiscard]] fault find() const {
    const std::uint64_t texts = sizeof r_ + std::uint64_t{r_.fields} * sizeof(type_field);
    if (texts >= r_.bytes) return {"number of fields", at_ + offsetof(type_record, fields), r_.fields};
    if (!is_text(r_.name, texts)) return {"place of a name", at_ + offsetof(type_record, name), r_.name};
    if (r_.canonical != r_.id) {
      if (r_.fields != 0 || r_.fingerprint != 0 || r_.size != 0 || r_.align != 0) {
        return {"alias that has a layout", at_, r_.id};
      }
      return {};
    }
    if (r_.align == 0 || (r_.align & (r_.align - 1)) != 0) {
      return {"alignment of a type", at_ + offsetof(type_record, align), r_.align};
    }
    if (r_.size == 0 || r_.size > std::uint64_t{1} << 40) {
      return {"size of a type", at_ + offsetof(type_record, size), r_.size};
    }
    if (fault f = fields(0, r_.fields, r_.size, 0, {}); f.what != nullptr) return f;
    layout::type_fingerprint print;
    print.word(r_.size);
    print.word(r_.align);
    for (std::uint32_t i = 0; i < r_.fields; ++i) {
      print.field(field(i), bytes_ + field(i).name, tag_of(r_, field(i)));
    }
    if (print.value() != r_.fingerprint) {
      return {"fingerprint of a type", at_ + offsetof(type_record, fingerprint), r_.fingerprint};
    }
    return {};
  }

 private:
  [[nodiscard]] const type_field& field(std::uint32_t i) const noexcept { return fields_of(r_)[i]; }

  // Whether a text ends inside the record and has no character that a terminal would obey.
  [[nodiscard]] bool is_text(std::uint32_t place, std::uint64_t texts) const noexcept {
    if (place < texts || place >= r_.bytes) return false;
    const char* end = bytes_ + r_.bytes;
    const char* zero = std::find(bytes_ + place, end, '\0');
    return zero != end && std::none_of(bytes_ + place, zero,
                                       [](char c) { return (static_cast<unsigned char>(c) < 0x20) || c == 0x7F; });
  }

  // What fields lie in, at any depth.
  struct around {
    bool of_union = false;  // they are its members
    bool in_union = false;
  };
  // Checks fields [begin, end) of something of `room` bytes; the members of a union share these.
  [[nodiscard]] fault fields(std::uint32_t begin, std::uint32_t end, std::uint64_t room, unsigned depth,
                             around in) const {
    const std::uint64_t texts = sizeof r_ + std::uint64_t{r_.fields} * sizeof(type_field);
    std::uint64_t free_from = 0;
    for (std::uint32_t i = begin; i < end; i += 1 + field(i).inner) {
      const type_field& f = field(i);
      const std::uint64_t at = at_ + sizeof r_ + i * sizeof f;
      const auto kind = static_cast<std::uint32_t>(f.kind);
      if (kind == 0 || kind > layout::field_kind_last || (f.kind == field_kind::reset && in.in_union))
        return {"kind of a field", at + offsetof(type_field, kind), kind};
      if (!is_text(f.name, texts)) return {"place of a name", at + offsetof(type_field, name), f.name};
      if (f.offset < free_from || f.offset > room) {
        return {"offset of a field", at + offsetof(type_field, offset), f.offset};
      }
      if (f.element_bytes == 0 || (layout::is_pointer(f.kind) && f.element_bytes != sizeof(void*))) {
        return {"size of a field", at + offsetof(type_field, element_bytes), f.element_bytes};
      }
      if (!leads_well(f, texts, room)) return {"target of a field", at + offsetof(type_field, target), f.target};
      const bool container = layout::is_container(f.kind);
      const bool may_be_empty = !container || f.kind == field_kind::by_visitor;
      const bool fits = f.inner == 0 ? may_be_empty : container && f.inner <= end - i - 1;
      if (!fits || depth == layout::type_depth_max) {
        return {"number of inner fields", at + offsetof(type_field, inner), f.inner};
      }
      const auto bytes = checked_mul(f.element_bytes, f.count);
      const bool flexible = f.count == 0;
      if (!bytes || *bytes > room - f.offset || (flexible && (depth != 0 || i + 1 + f.inner != end))) {
        return {"number of elements", at + offsetof(type_field, count), f.count};
      }
      free_from = in.of_union ? 0 : f.offset + *bytes;
      const bool is_union = f.kind == field_kind::tagged_union;
      const around inside{is_union, is_union || in.in_union};
      if (fault inner = fields(i + 1, i + 1 + f.inner, f.element_bytes, depth + 1, inside); inner.what != nullptr) {
        return inner;
      }
    }
    return {};
  }
  [[nodiscard]] bool leads_well(const type_field& f, std::uint64_t texts, std::uint64_t room) const {
    if (f.kind == field_kind::by_visitor) return f.target != 0;
    if (f.kind == field_kind::tagged_union) {
      return is_text(f.target, texts) && union_tag::read(bytes_ + f.target, room).has_value();
    }
    return f.target == 0 || layout::is_pointer(f.kind);
  }

  const type_record& r_;
  const char* bytes_;
  std::uint64_t at_;
};

}  // namespace

result<type_map> type_map::read(const std::byte* bytes, std::uint64_t available, std::uint64_t place) noexcept try {
  const auto broken = [&](const char* what, std::uint64_t at, std::uint64_t found) {
    return fail(errc::corrupt, "type map: %s, at offset %" PRIu64 ": found %" PRIx64, what, place + at, found);
  };
  type_map_header h;
  if (available < sizeof h) return broken("room for its header", 0, available);
  std::memcpy(&h, bytes, sizeof h);
  if (h.magic != layout::type_map_magic) return broken("magic", 0, h.magic);
  if (h.bytes < sizeof h || h.bytes > available || h.bytes > layout::type_map_bytes_max || h.bytes % 8 != 0) {
    return broken("size", offsetof(type_map_header, bytes), h.bytes);
  }
  if (h.statics > available - h.bytes || h.statics % 8 != 0) {
    return broken("size of the table behind it", offsetof(type_map_header, statics), h.statics);
  }
  const std::uint64_t expected = type_map_checksum(bytes, h.bytes);
  if (h.checksum != expected) {
    return fail(errc::corrupt, "type map: checksum, at offset %" PRIu64 ": found %016" PRIx64 ", expected %016" PRIx64,
                place + offsetof(type_map_header, checksum), h.checksum, expected);
  }
  // The checksum holds, but a forger can make one for any bytes.
  type_map map;
  map.bytes_ = {bytes, h.bytes + h.statics};
  map.statics_ = map.bytes_.subspan(h.bytes);
  map.place_ = place;
  std::uint64_t at = sizeof h;
  while (at < h.bytes) {
    if (h.bytes - at < sizeof(type_record)) return broken("room for a record", at, h.bytes - at);
    const auto* r = reinterpret_cast<const type_record*>(bytes + at);
    if (r->bytes < sizeof *r || r->bytes > h.bytes - at || r->bytes % 8 != 0) {
      return broken("size of a record", at + offsetof(type_record, bytes), r->bytes);
    }
    if (!map.records_.empty() && map.records_.back()->id >= r->id) {
      return broken("order of the ids", at + offsetof(type_record, id), r->id);
    }
    if (const fault f = record_check{bytes + at, at}.find(); f.what != nullptr) return broken(f.what, f.at, f.found);
    map.records_.push_back(r);
    at += r->bytes;
  }
  if (map.records_.size() != h.types) return broken("number of types", offsetof(type_map_header, types), h.types);
  for (const type_record* r : map.records_) {
    if (r->canonical == r->id) continue;
    const type_record* to = map.find(r->canonical);
    if (to == nullptr || to->canonical != to->id) {
      const auto where = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&r->canonical) - bytes);
      return broken("type that an alias means", where, r->canonical);
    }
  }
  return map;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to read the type map");
}

const type_record* type_map::find(std::uint32_t id) const noexcept {
  const auto at = std::lower_bound(records_.begin(), records_.end(), id,
                                   [](const type_record* r, std::uint32_t wanted) { return r->id < wanted; });
  return at == records_.end() || (*at)->id != id ? nullptr : *at;
}

}  // namespace nvm::object
