#include "care/region_sets.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

namespace on_media = region::layout;

// Entries of the page map that pages of regions have: visit(page, entry).
template <class Visit>
status each_of_regions(const platform::file& file, const geometry& g, Visit&& visit) {
  constexpr std::uint64_t at_once = 8192;
  std::vector<std::uint64_t> words(at_once);
  for (std::uint64_t page = 0; page < g.size_pages; page += at_once) {
    const std::uint64_t count = std::min(at_once, g.size_pages - page);
    if (status s = file.read(g.entry_offset(page), words.data(), count * 8); !s) return s;
    for (std::uint64_t i = 0; i < count; ++i) {
      layout::page_entry e;
      if (words[i] == 0 || entry_fault(words[i], page + i, g, g.size_pages, e) != nullptr) continue;
      if (e.protocol == layout::slot_protocol::region) visit(page + i, e);
    }
  }
  return {};
}

// The directory that an anchor names; nothing: there is none that holds.
result<std::unique_ptr<on_media::directory>> directory_in(const platform::file& file, const geometry& g,
                                                          std::uint64_t& at) {
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t word_at = anchor_word_at(g, copy, anchor_word::regions);
    std::uint64_t word = 0;
    if (status s = file.read(word_at, &word, sizeof word); !s) return s.error();
    at = word & checked_mask;
    if (word == 0 || !word_holds(word, word_seed(word_at)) || !g.in_data(at, sizeof(on_media::directory))) continue;
    auto d = std::make_unique<on_media::directory>();
    if (status s = file.read(at, d.get(), sizeof *d); !s) return s.error();
    if (d->magic == on_media::directory_magic && d->version == on_media::version &&
        d->crc == checksum(d.get(), offsetof(on_media::directory, crc), at)) {
      return d;
    }
  }
  return std::unique_ptr<on_media::directory>{};
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
  const auto file = platform::file::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return file.error();
  const auto facts = file->facts();
  if (!facts) return facts.error();
  if (!facts->regular) return fail(errc::not_a_pool, "%s: expected a regular file", path);
  alignas(8) std::array<std::byte, superblock_probe_bytes> header;
  const std::size_t available = std::min<std::uint64_t>(facts->bytes, header.size());
  if (status s = file->read(0, header.data(), available); !s) return s.error();
  const auto sb = pick_superblock(header.data(), available, facts->bytes);
  if (!sb) return sb.error();
  std::vector<region_set_on_file> all;
  if ((sb->features_incompat & layout::feature_regions) == 0) return all;
  const geometry g = geometry_of(*sb);
  std::uint64_t at = 0;
  const auto d = directory_in(*file, g, at);
  if (!d) return d.error();
  if (*d == nullptr) return all;
  std::array<std::uint64_t, on_media::sets_max> pages{};
  const status counted = each_of_regions(*file, g, [&](std::uint64_t, const layout::page_entry& e) {
    const unsigned i = e.store - on_media::first_owner;
    if (e.store >= on_media::first_owner && i < pages.size()) pages[i] += e.length_pages;
  });
  if (!counted) return counted.error();
  for (unsigned i = 0; i < on_media::sets_max; ++i) {
    if (auto name = name_of(**d, at, i)) all.push_back({std::move(*name), pages[i] << g.page_shift});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the names of sets of regions");
}

}  // namespace nvm::care
