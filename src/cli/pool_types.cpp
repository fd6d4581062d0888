#include "cli/pool_types.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>

#include "cli/hex.hpp"
#include "cli/units.hpp"
#include "kv/kv_layout.hpp"
#include "object/field_name.hpp"
#include "object/type_map_layout.hpp"
#include "store/names_layout.hpp"

namespace nvm::cli {
namespace {

// Type of objects that the library makes for itself.
struct own_type {
  std::uint32_t id;
  std::string_view name;
};
constexpr own_type own_types[] = {
    {layout::type_of_text, "char"},
    {layout::kv_type_header, "(store)"},
    {layout::kv_type_record, "(store: record)"},
    {layout::kv_type_segment, "(store: buckets)"},
    {layout::kv_type_segment_list, "(store: list of buckets)"},
    {layout::kv_type_overflow, "(store: overflow bucket)"},
    {layout::kv_type_leaf, "(store: leaf)"},
    {layout::kv_type_inner, "(store: inner node)"},
    {layout::kv_type_separator, "(store: separator)"},
    {layout::names_type_catalogue, "(names of stores)"},
    {layout::names_type_inner, "(names of stores: inner node)"},
    {layout::names_type_container, "(names of stores: container)"},
};

struct loading {
  std::map<std::uint32_t, pool_type>& types;
  std::exception_ptr thrown{};
};

int load(const nvm_type_info* t, void* to) {
  auto* l = static_cast<loading*>(to);
  try {
    pool_type& known = l->types[t->id];
    known.name = t->name;
    known.facts = *t;
    for (std::uint32_t i = 0; i < t->field_count; ++i) {
      known.fields.push_back({t->fields[i].name, t->fields[i].tag, t->fields[i]});
    }
    return 0;
  } catch (...) {
    l->thrown = std::current_exception();
    return 1;
  }
}

template <class T>
T load_as(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

json number_at(const std::byte* from, const nvm_field_info& f) {
  const bool is_signed = f.kind == NVM_FIELD_SIGNED;
  switch (f.kind == NVM_FIELD_BOOL ? 1 : f.bytes) {
    case 1:
      if (f.kind == NVM_FIELD_BOOL) return load_as<std::uint8_t>(from) != 0;
      return is_signed ? json(load_as<std::int8_t>(from)) : json(load_as<std::uint8_t>(from));
    case 2:
      return is_signed ? json(load_as<std::int16_t>(from)) : json(load_as<std::uint16_t>(from));
    case 4:
      return is_signed ? json(load_as<std::int32_t>(from)) : json(load_as<std::uint32_t>(from));
    case 8:
      return is_signed ? json(load_as<std::int64_t>(from)) : json(load_as<std::uint64_t>(from));
    default:
      return hex_text({from, f.bytes});
  }
}

// JSON has no infinities.
json real(long double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return static_cast<double>(value);
}
json real_at(const std::byte* from, std::uint64_t bytes) {
  if (bytes == 4) return real(load_as<float>(from));
  if (bytes == 8) return real(load_as<double>(from));
  if (bytes == sizeof(long double)) return real(load_as<long double>(from));
  return hex_text({from, bytes});
}

// Of bit-fields that share bytes, "flags:0+3|kind:3+5" by first bit and width: their values, unsigned.  Null: none.
json bits_at(const std::byte* from, std::uint64_t bytes, std::string_view name) {
  json values = json::object();
  while (!name.empty()) {
    const std::string_view one = name.substr(0, name.find('|'));
    name.remove_prefix(std::min(name.size(), one.size() + 1));
    const std::size_t colon = one.find(':');
    std::uint64_t first = 0;
    std::uint64_t width = 0;
    if (colon == one.npos) return nullptr;
    const char* const end = one.data() + one.size();
    const auto number = std::from_chars(one.data() + colon + 1, end, first);
    if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '+') return nullptr;
    const auto last = std::from_chars(number.ptr + 1, end, width);
    if (last.ec != std::errc{} || last.ptr != end || width > 64 || first > 8 * bytes || width > 8 * bytes - first) {
      return nullptr;
    }
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < width; ++i) {
      const std::uint64_t bit = first + i;
      value |= std::uint64_t{load_as<std::uint8_t>(from + bit / 8)} >> bit % 8 << 63 >> (63 - i);
    }
    values[std::string{one.substr(0, colon)}] = value;
  }
  return values;
}

json element_at(const std::byte* from, const nvm_field_info& f) {
  switch (f.kind) {
    case NVM_FIELD_FLOAT:
      return real_at(from, f.bytes);
    case NVM_FIELD_POINTER:
    case NVM_FIELD_VOLATILE_POINTER:
    case NVM_FIELD_WEAK_POINTER:
    case NVM_FIELD_STATIC_POINTER: {
      const auto address = load_as<std::uint64_t>(from);
      return address == 0 ? json(nullptr) : json(address_text(address));
    }
    case NVM_FIELD_CHAR:
      return std::string(1, static_cast<char>(*from));
    case NVM_FIELD_BYTES:
    case NVM_FIELD_RESET:
      return hex_text({from, f.bytes});
    default:
      return number_at(from, f);
  }
}

bool is_container(const nvm_field_info& f) noexcept {
  return f.kind == NVM_FIELD_STRUCTURE || f.kind == NVM_FIELD_BY_VISITOR || f.kind == NVM_FIELD_UNION;
}

class reader {
 public:
  explicit reader(const std::vector<pool_field>& fields) : fields_{fields} {}

  // Fields [begin, end) of the bytes in `room`; their names begin with `prefix`, which is left out.
  json read(std::size_t begin, std::size_t end, std::span<const std::byte> room, std::size_t prefix) const {
    json values = json::object();
    for (std::size_t i = begin; i < end; i += 1 + fields_[i].at.inner) {
      const nvm_field_info& f = fields_[i].at;
      // An object may be smaller than its type: it is as large as the program requested.
      if (f.offset > room.size()) continue;
      const std::uint64_t there = (room.size() - f.offset) / f.bytes;
      const std::uint64_t count = f.count == 0 ? there : std::min(f.count, there);
      if (count == 0 && f.count != 0) continue;
      if (f.kind == NVM_FIELD_BYTES && fields_[i].name.find(':') != std::string::npos) {
        const auto names = std::string_view{fields_[i].name}.substr(std::min(prefix, fields_[i].name.size()));
        const json bits = bits_at(room.data() + f.offset, f.bytes, names);
        if (!bits.is_null()) {
          values.update(bits);
          continue;
        }
      }
      values[fields_[i].name.substr(std::min(prefix, fields_[i].name.size()))] =
          field(i, room.subspan(f.offset), count);
    }
    return values;
  }

 private:
  json field(std::size_t i, std::span<const std::byte> from, std::uint64_t count) const {
    const nvm_field_info& f = fields_[i].at;
    if (f.kind == NVM_FIELD_CHAR && f.count != 1) {
      const auto* text = reinterpret_cast<const char*>(from.data());
      return std::string(text, ::strnlen(text, count));
    }
    const auto element = [&](std::uint64_t n) -> json {
      const auto room = from.subspan(n * f.bytes, f.bytes);
      if (f.kind == NVM_FIELD_BY_VISITOR && f.inner == 0) return hex_text(room);
      if (!is_container(f)) return element_at(room.data(), f);
      const std::size_t name = fields_[i].name.size();
      return read(i + 1, i + 1 + f.inner, room, name == 0 ? 0 : name + 1);
    };
    if (f.count == 1 && f.kind != NVM_FIELD_STRUCTURE) return element(0);
    json list = json::array();
    for (std::uint64_t n = 0; n < count; ++n) list.push_back(element(n));
    return list;
  }

  const std::vector<pool_field>& fields_;
};

}  // namespace

std::optional<pool_types> pool_types::of(NVM_POOL* pool) {
  pool_types types;
  loading l{types.types_};
  const int ended = nvm_pool_each_type(pool, load, &l);
  if (l.thrown) std::rethrow_exception(l.thrown);
  if (ended != 0) return std::nullopt;
  return types;
}

const pool_type* pool_types::find(std::uint32_t id) const noexcept {
  const auto found = types_.find(id);
  return found == types_.end() ? nullptr : &found->second;
}

std::string_view pool_types::known_name(std::uint32_t id) const noexcept {
  if (const pool_type* t = find(id)) return t->name;
  const auto own = std::find_if(std::begin(own_types), std::end(own_types), [&](const auto& t) { return t.id == id; });
  return own == std::end(own_types) ? std::string_view{} : own->name;
}

std::set<std::uint32_t> pool_types::named(std::string_view name) const {
  std::set<std::uint32_t> ids;
  for (const auto& [id, t] : types_) {
    if (t.name == name) ids.insert(id);
  }
  for (const own_type& t : own_types) {
    if (t.name == name) ids.insert(t.id);
  }
  return ids;
}

std::string pool_types::name_of(std::uint32_t id) const {
  const std::string_view known = known_name(id);
  return known.empty() ? fmt::format("0x{:08x}", id) : std::string{known};
}

std::string pool_types::field_at(std::uint32_t id, std::uint64_t offset) const {
  const pool_type* const type = find(id);
  const pool_type* const meant = type == nullptr ? nullptr : find(type->facts.canonical_id);
  if (meant == nullptr) return fmt::format("+{}", offset);
  std::vector<object::named_field> fields;
  fields.reserve(meant->fields.size());
  for (const pool_field& f : meant->fields) fields.push_back({f.name, f.at.offset, f.at.bytes, f.at.count, f.at.inner});
  return object::field_name_at(fields, meant->facts.size, offset);
}

std::string_view kind_name(std::uint32_t kind) noexcept {
  constexpr std::string_view names[] = {
      "?",     "signed",    "unsigned",     "bool",           "char",       "float", "pointer", "plain pointer",
      "bytes", "structure", "weak pointer", "static pointer", "by visitor", "union", "reset"};
  return kind < std::size(names) ? names[kind] : names[0];
}

std::string kind_text(const pool_field& field, const pool_types& types) {
  const nvm_field_info& f = field.at;
  std::string text{kind_name(f.kind)};
  if (f.kind == NVM_FIELD_SIGNED || f.kind == NVM_FIELD_UNSIGNED || f.kind == NVM_FIELD_FLOAT) {
    text += fmt::format(" {}", f.bytes * 8);
  } else if (f.kind == NVM_FIELD_BYTES || f.kind == NVM_FIELD_STRUCTURE || f.kind == NVM_FIELD_RESET) {
    text += fmt::format(" of {}", f.bytes);
  } else if (f.kind == NVM_FIELD_BY_VISITOR) {
    text += fmt::format(" of {}", types.name_of(f.target));
  } else if (f.kind == NVM_FIELD_UNION) {
    text += fmt::format(" of {} by ({})", f.bytes, field.tag);
  } else if (f.target != 0) {
    text += " to " + types.name_of(f.target);
  }
  if (f.count == 0) return "any number of " + text;
  return f.count == 1 ? text : fmt::format("{} x {}", f.count, text);
}

json values_of(const pool_type& type, std::span<const std::byte> object) {
  const reader r{type.fields};
  const bool flexible =
      std::any_of(type.fields.begin(), type.fields.end(), [](const pool_field& f) { return f.at.count == 0; });
  const std::uint64_t size = type.facts.size;
  if (flexible || object.size() < 2 * size) return r.read(0, type.fields.size(), object, 0);
  json list = json::array();
  for (std::uint64_t at = 0; object.size() - at >= size; at += size) {
    list.push_back(r.read(0, type.fields.size(), object.subspan(at, size), 0));
  }
  return list;
}

}  // namespace nvm::cli
