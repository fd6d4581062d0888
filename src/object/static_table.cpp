#include "object/static_table.hpp"

#include "object/static_images.hpp"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <tuple>
#include <utility>

namespace nvm::object {
namespace {

using layout::static_kind;
using layout::static_row;
using layout::static_table_header;

std::uint64_t checksum_of(const std::byte* table, std::uint64_t bytes) noexcept {
  return XXH3_64bits_withSeed(table + layout::static_table_checked_at, bytes - layout::static_table_checked_at,
                              layout::static_table_magic);
}

// An image is sorted by its build, whether it is announced or not.
auto sort_key(const static_object& o) noexcept {
  return std::tuple{is_image(o.kind) ? static_kind::image : o.kind, image_key_of(o)};
}

// Nothing that a terminal would obey.
bool is_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= layout::static_name_max && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
}

// What is wrong with a row of a file; nullptr: nothing.
const char* fault_of(const static_object& o) noexcept {
  if (o.kind == static_kind::vacant) {
    return o.address == 0 && o.size == 0 && o.name.empty() ? nullptr : "vacant row with something in it";
  }
  if (!is_name(o.name)) return "name";
  if (o.size == 0 || o.size > layout::static_size_max) return "size of an object";
  if (o.address == 0 && is_image(o.kind)) return "address of an image";
  return o.address >= layout::static_address_end - o.size ? "address of an object" : nullptr;
}

}  // namespace

static_table::static_table(std::vector<static_object> rows, layout::static_state state, std::uint32_t mark)
    : rows_{std::move(rows)}, mark_{mark}, state_{state} {
  if (mark != 0) {
    starts_.reserve(rows_.size() + 1);
    starts_.push_back(0);
    // The end of an object is a place as well.
    for (const static_object& o : rows_) starts_.push_back(starts_.back() + o.size + 1);
  }
  for (std::uint32_t i = 0; i < rows_.size(); ++i) {
    const static_object& o = rows_[i];
    if (o.kind == static_kind::vacant) continue;
    by_key_.push_back(i);
    if (is_image(o.kind)) {
      images_.push_back(i);
    } else if (o.address != 0) {
      by_address_.push_back(i);
    }
  }
  // Rows of one key, and of one address, by number.
  std::sort(by_key_.begin(), by_key_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple{sort_key(rows_[a]), a} < std::tuple{sort_key(rows_[b]), b};
  });
  std::sort(by_address_.begin(), by_address_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair{rows_[a].address, a} < std::pair{rows_[b].address, b};
  });
}

result<static_table> static_table::read(std::span<const std::byte> bytes, std::uint64_t place) noexcept try {
  const auto broken = [&](const char* what, std::uint64_t at, std::uint64_t found) {
    return fail(errc::corrupt, "table of static pointers: %s, at offset %" PRIu64 ": found %" PRIx64, what, place + at,
                found);
  };
  static_table_header h;
  if (bytes.size() < sizeof h) return broken("room for its header", 0, bytes.size());
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != layout::static_table_magic) return broken("magic", 0, h.magic);
  if (h.bytes != bytes.size() || h.bytes % 8 != 0) return broken("size", offsetof(static_table_header, bytes), h.bytes);
  if (const std::uint64_t expected = checksum_of(bytes.data(), h.bytes); h.checksum != expected) {
    return fail(errc::corrupt,
                "table of static pointers: checksum, at offset %" PRIu64 ": found %016" PRIx64 ", expected %016" PRIx64,
                place + offsetof(static_table_header, checksum), h.checksum, expected);
  }
  // A program would have written no such thing from here on, but a forger can make a checksum for any bytes.
  if (h.state != layout::static_state::at_rest && h.state != layout::static_state::passing) {
    return broken("state", offsetof(static_table_header, state), static_cast<std::uint32_t>(h.state));
  }
  const bool marked = h.mark != 0;
  if (marked && (h.state != layout::static_state::passing || !layout::is_static_mark(h.mark))) {
    return broken("mark", offsetof(static_table_header, mark), h.mark);
  }
  if (h.rows > layout::static_rows_max) return broken("number of rows", offsetof(static_table_header, rows), h.rows);
  std::vector<static_object> rows;
  std::uint64_t at = sizeof h;
  while (at < h.bytes) {
    static_row r;
    if (h.bytes - at < sizeof r) return broken("room for a row", at, h.bytes - at);
    std::memcpy(&r, bytes.data() + at, sizeof r);
    if (r.bytes <= sizeof r || r.bytes > h.bytes - at || r.bytes % 8 != 0) return broken("size of a row", at, r.bytes);
    if (r.kind > announced_image) {
      return broken("kind of a row", at + offsetof(static_row, kind), static_cast<std::uint32_t>(r.kind));
    }
    const auto* const name = reinterpret_cast<const char*>(bytes.data() + at + sizeof r);
    const std::size_t length = ::strnlen(name, r.bytes - sizeof r);
    if (length == r.bytes - sizeof r) return broken("name without an end", at + sizeof r, length);
    static_object o{r.kind, r.address, r.size, std::string{name, length}};
    if (const char* wrong = fault_of(o); wrong != nullptr) return broken(wrong, at, r.address);
    rows.push_back(std::move(o));
    at += r.bytes;
  }
  if (rows.size() != h.rows) return broken("number of rows", offsetof(static_table_header, rows), h.rows);
  static_table all{std::move(rows), h.state, h.mark};
  if (marked && !all.fits_mark()) return broken("places of all rows", offsetof(static_table_header, mark), h.mark);
  return all;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to read the table of static pointers");
}

std::vector<std::uint64_t> static_table::bytes() const {
  std::vector<std::uint64_t> all(sizeof(static_table_header) / 8);
  for (const static_object& o : rows_) {
    static_row r{};
    const std::size_t words = (sizeof r + o.name.size() + 1 + 7) / 8;
    r.bytes = static_cast<std::uint32_t>(words * 8);
    r.kind = o.kind;
    r.address = o.address;
    r.size = o.size;
    const std::size_t at = all.size();
    all.resize(at + words);
    auto* to = reinterpret_cast<std::byte*>(all.data() + at);
    std::memcpy(to, &r, sizeof r);
    std::memcpy(to + sizeof r, o.name.data(), o.name.size());
  }
  static_table_header h{};
  h.magic = layout::static_table_magic;
  h.bytes = static_cast<std::uint32_t>(all.size() * 8);
  h.rows = static_cast<std::uint32_t>(rows_.size());
  h.state = state_;
  h.mark = mark_;
  std::memcpy(all.data(), &h, sizeof h);
  h.checksum = checksum_of(reinterpret_cast<const std::byte*>(all.data()), h.bytes);
  std::memcpy(all.data(), &h, sizeof h);
  return all;
}

std::span<const std::uint32_t> static_table::rows_of(const static_object& o) const noexcept {
  const auto key = sort_key(o);
  const auto from = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                     [&](std::uint32_t row, const auto& k) { return sort_key(rows_[row]) < k; });
  const auto to = std::upper_bound(from, by_key_.end(), key,
                                   [&](const auto& k, std::uint32_t row) { return k < sort_key(rows_[row]); });
  return {from, to};
}

std::optional<std::uint32_t> static_table::find(const static_object& o) const noexcept {
  const auto all = rows_of(o);
  return all.empty() ? std::nullopt : std::optional{all.front()};
}

bool static_table::says_all_of(const static_table& other) const noexcept {
  return std::all_of(other.by_key_.begin(), other.by_key_.end(), [&](std::uint32_t i) {
    const auto all = rows_of(other.rows_[i]);
    return std::any_of(all.begin(), all.end(), [&](std::uint32_t row) { return rows_[row] == other.rows_[i]; });
  });
}

static_table::around static_table::find_around(std::uint64_t address) const noexcept {
  around found;
  // The row that begins last at or before the address; an object's end belongs to it where nothing else begins there.
  const auto next = std::upper_bound(by_address_.begin(), by_address_.end(), address,
                                     [&](std::uint64_t a, std::uint32_t row) { return a < rows_[row].address; });
  if (next != by_address_.begin()) {
    const std::uint64_t begin = rows_[*std::prev(next)].address;
    // The first row of several that begin there.
    const auto first = std::lower_bound(by_address_.begin(), next, begin,
                                        [&](std::uint32_t row, std::uint64_t a) { return rows_[row].address < a; });
    for (auto i = first; i != next && !found.object; ++i) {
      if (address - begin <= rows_[*i].size) found.object = layout::static_place{*i, address - begin};
    }
  }
  for (const std::uint32_t i : images_) {
    const static_object& o = rows_[i];
    if (address >= o.address && address - o.address < o.size)
      found.image = layout::static_place{i, address - o.address};
  }
  return found;
}

std::uint64_t static_table::token_of(const layout::static_place& p) const noexcept {
  if (mark_ == 0) return layout::token_of(p);
  return std::uint64_t{mark_} << 32 | (starts_[p.row] + p.offset);
}

std::optional<layout::static_place> static_table::place_of_token(std::uint64_t value) const noexcept {
  std::optional<layout::static_place> p;
  if (mark_ == 0) {
    p = layout::place_of_token(value);
  } else if (value >> 32 == mark_ && (value & 0xFFFF'FFFF) < starts_.back()) {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), value & 0xFFFF'FFFF);
    const auto row = static_cast<std::uint32_t>(next - starts_.begin() - 1);
    p = layout::static_place{row, (value & 0xFFFF'FFFF) - starts_[row]};
  }
  const bool is_there =
      p && p->row < rows_.size() && rows_[p->row].kind != static_kind::vacant && p->offset <= rows_[p->row].size;
  return is_there ? p : std::nullopt;
}

bool static_table::fits_mark() const noexcept {
  std::uint64_t places = 0;
  for (const static_object& o : rows_) {
    places += o.size + 1;
    if (places > std::uint64_t{1} << 32) return false;
  }
  return true;
}

type_map_writer::words with_statics(type_map_writer::words map, std::span<const std::byte> table) {
  layout::type_map_header h{};
  const std::uint64_t bytes = map.size() * 8;
  NVM_ASSERT(bytes >= sizeof h && table.size() % 8 == 0);
  std::memcpy(&h, map.data(), sizeof h);
  h.statics = static_cast<std::uint32_t>(table.size());
  std::memcpy(map.data(), &h, sizeof h);
  h.checksum = type_map_checksum(map.data(), bytes);
  std::memcpy(map.data(), &h, sizeof h);
  map.resize((bytes + table.size()) / 8);
  if (!table.empty()) std::memcpy(reinterpret_cast<std::byte*>(map.data()) + bytes, table.data(), table.size());
  return map;
}

}  // namespace nvm::object
