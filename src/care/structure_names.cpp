#include "care/structure_names.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "care/header_on_file.hpp"

namespace nvm::care {
namespace {

namespace names_layout = lockfree::layout;

std::optional<structure_on_file> structure_of(const names_layout::directory& d, std::uint64_t directory_at,
                                              unsigned i) {
  const std::uint64_t at = directory_at + offsetof(names_layout::directory, entries) + i * sizeof(names_layout::entry);
  const names_layout::entry& e = d.entries[i];
  if (e.state == 0 || e.state == names_layout::leaving(static_cast<std::uint16_t>(names_layout::first_owner + i)) ||
      !word_holds(e.state, word_seed(at)) || e.name[names_layout::name_max] != '\0' ||
      !word_holds(e.flags, word_seed(at + offsetof(names_layout::entry, flags))) ||
      e.crc != checksum(reinterpret_cast<const std::byte*>(&e) + 8, offsetof(names_layout::entry, crc) - 8, at)) {
    return std::nullopt;
  }
  const auto kind = static_cast<names_layout::kind>(e.state & 0xFF);
  if (kind == names_layout::kind::none || kind > names_layout::last_kind) return std::nullopt;
  return structure_on_file{e.name, kind, (e.flags & names_layout::entry_bytes) != 0,
                           (e.flags & names_layout::entry_volatile_links) != 0};
}

using structures_on_file = std::vector<structure_on_file>;

// Adds what the directory at `at` names.  errc::not_found: no directory is there.  May throw std::bad_alloc.
status read_directory(const header_on_file& h, std::uint64_t at, structures_on_file& all) {
  const auto d = std::make_unique<names_layout::directory>();
  if (!h.sizes.in_data(at, sizeof *d)) return errc::not_found;
  if (status s = h.file.read(at, d.get(), sizeof *d); !s) return s;
  if (d->magic != names_layout::directory_magic) return errc::not_found;
  for (unsigned i = 0; i < names_layout::structures_max; ++i) {
    if (auto one = structure_of(*d, at, i)) all.push_back(std::move(*one));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return {};
}
errc no_memory() noexcept { return fail(errc::no_memory, "no volatile memory for the names of lock-free structures"); }

}  // namespace

result<structures_on_file> structures_in(const char* path) noexcept try {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  structures_on_file all;
  const status read =
      each_anchored(*h, anchor_word::lockfree, [&](std::uint64_t at) { return read_directory(*h, at, all); });
  if (!read) return read.error();
  return all;
} catch (const std::bad_alloc&) {
  return no_memory();
}

result<structures_on_file> structures_at(const char* path, std::uint64_t directory) noexcept try {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  structures_on_file all;
  const status read = read_directory(*h, directory, all);
  if (!read) return read.error();
  return all;
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace nvm::care
