#include "care/structure_names.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "care/header_on_file.hpp"

namespace nvm::care {
namespace {

namespace on_media = lockfree::layout;

std::optional<structure_on_file> structure_of(const on_media::directory& d, std::uint64_t directory_at, unsigned i) {
  const std::uint64_t at = directory_at + offsetof(on_media::directory, entries) + i * sizeof(on_media::entry);
  const on_media::entry& e = d.entries[i];
  if (e.state == 0 || e.state == on_media::leaving(static_cast<std::uint16_t>(on_media::first_owner + i)) ||
      !word_holds(e.state, word_seed(at)) || e.name[on_media::name_max] != '\0' ||
      !word_holds(e.flags, word_seed(at + offsetof(on_media::entry, flags))) ||
      e.crc != checksum(reinterpret_cast<const std::byte*>(&e) + 8, offsetof(on_media::entry, crc) - 8, at)) {
    return std::nullopt;
  }
  const auto kind = static_cast<on_media::kind>(e.state & 0xFF);
  if (kind == on_media::kind::none || kind > on_media::last_kind) return std::nullopt;
  return structure_on_file{e.name, kind, (e.flags & on_media::entry_bytes) != 0,
                           (e.flags & on_media::entry_volatile_links) != 0};
}

}  // namespace

result<std::vector<structure_on_file>> structures_in(const char* path) noexcept try {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  std::vector<structure_on_file> all;
  const auto d = std::make_unique<on_media::directory>();
  const status read = each_anchored(*h, anchor_word::lockfree, [&](std::uint64_t at) -> status {
    if (!h->sizes.in_data(at, sizeof *d)) return errc::not_found;
    if (status s = h->file.read(at, d.get(), sizeof *d); !s) return s;
    if (d->magic != on_media::directory_magic) return errc::not_found;
    for (unsigned i = 0; i < on_media::structures_max; ++i) {
      if (auto one = structure_of(*d, at, i)) all.push_back(std::move(*one));
    }
    return {};
  });
  if (!read) return read.error();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the names of lock-free structures");
}

}  // namespace nvm::care
