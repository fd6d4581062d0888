// Makes the bytes of a type map.  Used by the library, where it may throw std::bad_alloc, and by the compiler plugin,
// which is built without exceptions; so there is nothing here but the standard library.
#pragma once

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "object/type_map_layout.hpp"

namespace nvm::object {

inline std::uint64_t type_map_checksum(const void* map, std::uint64_t bytes) noexcept {
  return XXH3_64bits_withSeed(static_cast<const char*>(map) + layout::type_map_checked_at,
                              bytes - layout::type_map_checked_at, layout::type_map_magic);
}

// A type as a program describes it; its fields in the order of their offsets, those inside of a structure after it.
struct type_description {
  struct field {
    layout::type_field place{};  // its `name` is filled in, and `target` of a tagged_union
    std::string name;
    std::string tag{};  // of a tagged_union
  };
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t align = 1;
  std::vector<field> fields;

  [[nodiscard]] std::uint64_t fingerprint() const noexcept {
    layout::type_fingerprint f;
    f.word(size);
    f.word(align);
    for (const field& each : fields) f.field(each.place, each.name.c_str(), each.tag.c_str());
    return f.value();
  }
};

// The records of a map while it grows, by id; the bytes of each are those on media.
class type_map_writer {
 public:
  using words = std::vector<std::uint64_t>;

  // False: there is already another record with this id, which stays.
  bool add(const type_description& type) {
    layout::type_record r{};
    r.id = r.canonical = layout::type_id_of(type.name.c_str());
    r.fingerprint = type.fingerprint();
    r.size = type.size;
    r.align = type.align;
    return put(r, type.name, type.fields);
  }
  bool add_alias(const std::string& name, std::uint32_t canonical) {
    layout::type_record r{};
    r.id = layout::type_id_of(name.c_str());
    r.canonical = canonical;
    return put(r, name, {});
  }
  // Copies a record of another map; it replaces the one with its id.
  void copy(const layout::type_record& r) {
    words w(r.bytes / 8);
    std::memcpy(w.data(), &r, r.bytes);
    records_[r.id] = std::move(w);
  }
  void remove(std::uint32_t id) { records_.erase(id); }
  // nullptr: none with this id.  Valid until the record is replaced.
  [[nodiscard]] const layout::type_record* find(std::uint32_t id) const {
    const auto found = records_.find(id);
    return found == records_.end() ? nullptr : reinterpret_cast<const layout::type_record*>(found->second.data());
  }
  // Removes aliases that lead to no canonical record.
  void drop_loose_aliases() {
    for (auto i = records_.begin(); i != records_.end();) {
      const auto* canonical = find(record_of(i->second).canonical);
      const bool loose = canonical == nullptr || canonical->id != canonical->canonical;
      i = loose ? records_.erase(i) : std::next(i);
    }
  }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }

  // The whole map.
  [[nodiscard]] words finish() const {
    words all(sizeof(layout::type_map_header) / 8);
    for (const auto& [id, w] : records_) all.insert(all.end(), w.begin(), w.end());
    layout::type_map_header h{};
    h.magic = layout::type_map_magic;
    h.bytes = all.size() * 8;
    h.types = static_cast<std::uint32_t>(records_.size());
    std::memcpy(all.data(), &h, sizeof h);
    h.checksum = type_map_checksum(all.data(), h.bytes);
    std::memcpy(all.data(), &h, sizeof h);
    return all;
  }

 private:
  static const layout::type_record& record_of(const words& w) noexcept {
    return *reinterpret_cast<const layout::type_record*>(w.data());
  }
  bool put(layout::type_record r, const std::string& name, const std::vector<type_description::field>& fields) {
    r.fields = static_cast<std::uint32_t>(fields.size());
    std::string texts;
    const auto text = [&](const std::string& t) {
      const std::size_t at = sizeof r + fields.size() * sizeof(layout::type_field) + texts.size();
      texts.append(t.c_str(), t.size() + 1);
      return static_cast<std::uint32_t>(at);
    };
    r.name = text(name);
    std::vector<layout::type_field> places;
    for (const auto& f : fields) {
      places.push_back(f.place);
      places.back().name = text(f.name);
      if (f.place.kind == layout::field_kind::tagged_union) places.back().target = text(f.tag);
    }
    const std::size_t bytes = sizeof r + places.size() * sizeof(layout::type_field) + texts.size();
    words w((bytes + 7) / 8);
    r.bytes = static_cast<std::uint32_t>(w.size() * 8);
    auto* to = reinterpret_cast<char*>(w.data());
    std::memcpy(to, &r, sizeof r);
    if (!places.empty()) std::memcpy(to + sizeof r, places.data(), places.size() * sizeof(layout::type_field));
    std::copy(texts.begin(), texts.end(), to + sizeof r + places.size() * sizeof(layout::type_field));
    const auto [where, fresh] = records_.emplace(r.id, std::move(w));
    return fresh || equal_to(where->second, r, name);
  }
  // Aliases may be announced again and again.
  static bool equal_to(const words& there, const layout::type_record& r, const std::string& name) {
    const layout::type_record& t = record_of(there);
    return t.canonical == r.canonical && t.fingerprint == r.fingerprint && t.fields == r.fields &&
           name == reinterpret_cast<const char*>(there.data()) + t.name;
  }

  std::map<std::uint32_t, words> records_;
};

}  // namespace nvm::object
