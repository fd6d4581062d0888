#include "care/regions.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/region_side.hpp"
#include "kv/lewat.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

using image_space = space<any_direct, log::nothing_logged>;

// Opens the regions of an image; damage is told.
class opened_regions {
 public:
  opened_regions(std::byte* base, const geometry& g) : base_{base}, space_{medium_, lanes_, base, g} {}
  // errc::corrupt, version: the directory, or the log; no_memory.
  [[nodiscard]] status open(const told_of_region& tell) {
    if (status s = space_.boot(0, 1); !s) return s;
    engines::region_wishes wishes;
    wishes.tell = &tell;
    auto side = engines::make_region_side(medium_, base_, space_, std::move(wishes));
    if (!side) return side.error();
    side_ = std::move(*side);
    return {};
  }
  [[nodiscard]] engines::region_side& side() noexcept { return *side_; }

 private:
  std::byte* base_;
  ordered_media nothing_;
  any_direct medium_{nothing_};
  log::nothing_logged lanes_;  // what is to be replayed has been
  image_space space_;
  std::unique_ptr<engines::region_side> side_;
};

struct finding {
  std::uint64_t offset;
  std::string what;
};

// In the order of their places: several threads look.
result<std::vector<finding>> findings_in(std::byte* base, const geometry& g) {
  std::vector<finding> all;
  std::mutex lock;
  const told_of_region note = [&](std::uint64_t offset, const char* what) {
    const std::lock_guard guard{lock};
    all.push_back({offset, what});
  };
  opened_regions regions{base, g};
  if (status s = regions.open(note); !s) return s.error();
  std::sort(all.begin(), all.end(), [](const finding& a, const finding& b) { return a.offset < b.offset; });
  return all;
}
// The number of a header's or partner's region, as far as that can be believed.
std::string named(const std::byte* base, const geometry& g, const finding& f) {
  if (!g.in_data(f.offset, sizeof(region::layout::header))) return f.what;
  std::uint64_t rid = 0;
  std::memcpy(&rid, base + f.offset, sizeof rid);
  char text[160];
  std::snprintf(text, sizeof text, "%s: region %lu, if its number is not damaged", f.what.c_str(), rid);
  return text;
}
// Both begin with the number of the region, and are zero where there is none.
bool is_of_region(const finding& f) {
  return f.what.find("header") == 0 || f.what.find("a region ") == 0 || f.what.find("a partner ") == 0;
}
// At the word of a tally, which the sentence names.
bool is_of_tally(const finding& f) { return f.what.find("set of regions '") == 0; }
// Takes all tallies out.
void forget_tallies(std::byte* base, const geometry& g) {
  const auto at = read_anchor_word(base, g, anchor_word::regions);
  if (!at || *at == 0) return;
  auto& d = *reinterpret_cast<region::layout::directory*>(base + *at);
  for (region::layout::set_entry& e : d.entries) e.regions = e.partners = e.saved = e.saved_crc = 0;
}
static_assert(offsetof(region::layout::partner, rid) == 0 &&
              offsetof(region::layout::partner, owner) < sizeof(region::layout::header));

// Opening makes the copy again.
void check_copy_of_directory(const std::byte* base, const geometry& g, const told_of_region& tell) {
  namespace on_media = region::layout;
  const auto place = read_anchor_word(base, g, anchor_word::regions);
  const std::uint64_t bytes = round_up(sizeof(on_media::directory), g.page_bytes());
  if (!place || *place == 0 || !g.in_data(*place, bytes)) return;
  const std::byte* const copy = base + *place + on_media::directory_copy_at(bytes);
  const bool is_there =
      std::any_of(copy, copy + on_media::directory_line_bytes, [](std::byte b) { return b != std::byte{0}; });
  const std::uint64_t at = *place + on_media::directory_copy_at(bytes);
  for (std::uint64_t i = 0; is_there && i < on_media::directory_line_bytes; i += 8) {
    const std::uint64_t found = load_word(base, at + i), expected = load_word(base, *place + i);
    if (found == expected) continue;
    char text[160];
    std::snprintf(
        text, sizeof text,
        "directory of sets of regions: copy of its first line: found %016lx, expected %016lx as at offset %lu", found,
        expected, *place + i);
    return tell(at + i, text);
  }
}

}  // namespace

status check_regions(std::byte* base, const geometry& g, const told_of_region& tell) try {
  check_copy_of_directory(base, g, tell);
  const auto all = findings_in(base, g);
  if (!all) {
    if (all.error() == errc::no_memory) return all.error();
    tell(anchor_word_at(g, 0, anchor_word::regions), last_message());
    return {};
  }
  for (const finding& f : *all) tell(f.offset, is_of_region(f) ? named(base, g, f).c_str() : f.what.c_str());
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the regions");
}

status mend_regions(std::byte* base, const geometry& g, const told_of_region& tell) try {
  const auto all = findings_in(base, g);
  if (!all) return all.error();
  for (const finding& f : *all) {
    if (is_of_region(f) || is_of_tally(f)) continue;
    return fail(errc::corrupt, "regions, offset %lu: %s", f.offset, f.what.c_str());
  }
  if (!all->empty()) forget_tallies(base, g);
  for (const finding& f : *all) {
    if (is_of_tally(f)) {
      tell(f.offset, f.what.c_str());
      continue;
    }
    const std::string what = named(base, g, f) + ": taken out";
    std::memset(base + f.offset, 0, sizeof(region::layout::header));
    tell(f.offset, what.c_str());
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to mend the regions");
}

status read_entries_in_regions(std::byte* base, const geometry& g, const keyed::store_facts& facts,
                               const keyed::lewat::rest_report& report) {
  opened_regions regions{base, g};
  const told_of_region nothing = [](std::uint64_t, const char*) {};  // told by check_regions()
  if (status s = regions.open(nothing); !s) return s;
  const auto set = regions.side().find(keyed::lewat::set_name(facts.seed));
  if (!set) return set.error();
  const auto who = regions.side().join();
  if (!who) return who.error();
  return keyed::lewat::read_at_rest(**set, *who, facts, report);
}

std::uint64_t directory_of_regions(const std::byte* base, const geometry& g) noexcept {
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t word = load_word(base, g.entry_offset(page));
    layout::page_entry e;
    if (word == 0 || entry_fault(word, page, g, g.size_pages, e) != nullptr) continue;
    const std::uint64_t at = g.page_offset(page);
    if (e.store != region::layout::directory_owner || e.protocol != layout::slot_protocol::region ||
        e.length_pages << g.page_shift < sizeof(region::layout::directory)) {
      continue;
    }
    const auto& d = *reinterpret_cast<const region::layout::directory*>(base + at);
    const bool holds = d.magic == region::layout::directory_magic &&
                       d.crc == checksum(&d, offsetof(region::layout::directory, crc), at);
    // A pool without sets needs no directory.
    const bool has_sets = std::any_of(std::begin(d.entries), std::end(d.entries),
                                      [](const region::layout::set_entry& s) { return s.state != 0; });
    if (holds && has_sets) return at;
  }
  return 0;
}

}  // namespace nvm::care
