#include "care/region_sets.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "care/header_on_file.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

namespace on_media = region::layout;

// The directory that an anchor names, and where it is; nullptr: there is none that holds.
struct found_directory {
  std::unique_ptr<on_media::directory> d;
  std::uint64_t at = 0;
};
result<found_directory> directory_in(const header_on_file& h) {
  found_directory found{std::make_unique<on_media::directory>()};
  bool holds = false;
  const status read = each_anchored(h, anchor_word::regions, [&](std::uint64_t at) -> status {
    on_media::directory& d = *found.d;
    if (!h.sizes.in_data(at, sizeof d)) return errc::not_found;
    if (status s = h.file.read(at, &d, sizeof d); !s) return s;
    holds = d.magic == on_media::directory_magic && d.version == on_media::version &&
            d.crc == checksum(&d, offsetof(on_media::directory, crc), at);
    found.at = at;
    return holds ? status{} : status{errc::not_found};
  });
  if (!read) return read.error();
  if (!holds) found.d.reset();
  return found;
}

std::optional<std::string> name_of(const on_media::directory& d, std::uint64_t directory_at, unsigned i) {
  const std::uint64_t at = directory_at + offsetof(on_media::directory, entries) + i * sizeof(on_media::set_entry);
  const on_media::set_entry& e = d.entries[i];
  const bool holds = e.state != 0 && word_holds(e.state, word_seed(at)) && (e.state & checked_mask) != 0 &&
                     e.crc == checksum(e.name, sizeof e.name, at) && e.name[on_media::name_max] == '\0';
  return holds ? std::optional<std::string>{e.name} : std::nullopt;
}

}  // namespace

result<std::vector<region_set_on_file>> region_sets_in(const char* path) noexcept try {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  std::vector<region_set_on_file> all;
  if ((h->superblock.features_incompat & layout::feature_regions) == 0) return all;
  const geometry& g = h->sizes;
  const auto d = directory_in(*h);
  if (!d) return d.error();
  if (d->d == nullptr) return all;
  std::array<std::uint64_t, on_media::sets_max> pages{};
  const status counted = each_entry_on_file(*h, [&](std::uint64_t, const layout::page_entry& e) -> status {
    const unsigned i = e.store - on_media::first_owner;
    const bool of_set = e.protocol == layout::slot_protocol::region && e.store >= on_media::first_owner;
    if (of_set && i < pages.size()) pages[i] += e.length_pages;
    return {};
  });
  if (!counted) return counted.error();
  for (unsigned i = 0; i < on_media::sets_max; ++i) {
    if (auto name = name_of(*d->d, d->at, i)) all.push_back({std::move(*name), pages[i] << g.page_shift});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the names of sets of regions");
}

}  // namespace nvm::care
