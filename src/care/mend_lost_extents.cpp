// Extents and partners of regions that were lost to zeros: a zero entry of the page map says that nothing is there, a
// zero owner that the partner is free.
//
// Contents of free pages prove themselves, but not whether they were dropped.  The tallies of a closed pool do: if
// there is one way to make the numbers of all sets hold, it is that one.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "care/mend_sets.hpp"
#include "care/words.hpp"
#include "region/region.hpp"

namespace nvm::care {
namespace {

namespace on_media = region::layout;

class extent_finder {
 public:
  extent_finder(const set_mending& m, const on_media::directory& d, std::uint64_t place)
      : m_{m}, base_{m.base}, g_{m.g}, d_{d}, place_{place} {
    for (const pages_of_set& p : pages_of_sets(base_, g_)) {
      if (p.owner < on_media::first_owner || p.set() >= on_media::sets_max) continue;
      if (p.layout == layout::object_layout::region && p.bytes == extent_bytes()) there_[p.set()] += count_in(p.offset);
    }
    for (unsigned i = 0; i < on_media::sets_max; ++i) {
      const tally had = counted(i);
      if (had.regions > there_[i].regions || had.partners > there_[i].partners) short_.push_back(i);
    }
  }

  void run() {
    find_free();
    if (free_.empty()) return;
    if (!short_.empty() && assign()) return;
    if (!m_.damaged || (m_.closed && is_all_counted())) return;  // dropped, or told by the missing numbers
    for (const candidate& c : free_) {
      m_.note(mending::kept, c.at,
              "pages that are free hold an extent with " + std::to_string(c.has.regions) +
                  " regions: nothing says whether its set was dropped, or its pages are lost");
    }
  }

 private:
  struct tally {
    std::uint64_t regions = 0;
    std::uint64_t partners = 0;
    bool operator==(const tally&) const = default;
    tally& operator+=(const tally& o) noexcept {
      regions += o.regions;
      partners += o.partners;
      return *this;
    }
  };
  struct candidate {
    std::uint64_t at;
    tally has;
  };

  [[nodiscard]] std::uint64_t extent_bytes() const noexcept { return on_media::extent_pages << g_.page_shift; }
  [[nodiscard]] std::uint64_t entry(unsigned i) const noexcept {
    return place_ + offsetof(on_media::directory, entries) + i * sizeof(on_media::set_entry);
  }
  [[nodiscard]] bool is_counted(unsigned i) const noexcept {
    return region::counted_in(base_, region::regions_word_at(entry(i))).has_value();
  }
  [[nodiscard]] bool is_all_counted() const noexcept {
    for (unsigned i = 0; i < on_media::sets_max; ++i) {
      if (on_media::is_set(d_.entries[i].state & checked_mask) && !is_counted(i)) return false;
    }
    return true;
  }
  // The tally of a set; nullopt: it was not counted.
  [[nodiscard]] tally counted(unsigned i) const noexcept {
    tally t;
    if (!on_media::is_set(d_.entries[i].state & checked_mask)) return t;
    t.regions = region::counted_in(base_, region::regions_word_at(entry(i))).value_or(0);
    t.partners = region::counted_in(base_, region::partners_word_at(entry(i))).value_or(0);
    return t;
  }
  // Counts headers that hold, and owners of partners that hold, in an extent.
  [[nodiscard]] tally count_in(std::uint64_t at) const {
    tally t;
    const unsigned c = region::class_of_extent(base_, at);
    if (c == on_media::all_classes) return t;
    for (std::uint64_t i = 0; i < on_media::slots_in(extent_bytes(), c); ++i) {
      const std::uint64_t slot = at + on_media::slot_at(c, i);
      if (on_media::is_of_partners(c)) {
        const std::uint64_t owner = region::owner_at(slot);
        const std::uint64_t word = word_at(base_, owner);
        t.partners += word != 0 && word_holds(word, word_seed(owner)) ? 1 : 0;
        continue;
      }
      on_media::facts f;
      const bool holds = region::header_fault(base_, slot, c, d_.key, f) == nullptr;
      t.regions += holds && f.where != on_media::state::free ? 1 : 0;
    }
    return t;
  }
  [[nodiscard]] bool is_free(std::uint64_t page) const noexcept {
    for (std::uint64_t p = page; p < page + on_media::extent_pages; ++p) {
      if (word_at(base_, g_.entry_offset(p)) != 0) return false;
    }
    return true;
  }
  void find_free() {
    for (std::uint64_t page = 0; page + on_media::extent_pages <= g_.size_pages; ++page) {
      layout::page_entry e;
      const std::uint64_t word = word_at(base_, g_.entry_offset(page));
      if (word != 0 && entry_fault(word, page, g_, g_.size_pages, e) == nullptr && e.length_pages != 0) {
        page += e.length_pages - 1;
        continue;
      }
      const std::uint64_t at = g_.page_offset(page);
      if (region::class_of_extent(base_, at) == on_media::all_classes || !is_free(page)) continue;
      const tally has = count_in(at);
      if (has.regions + has.partners != 0) free_.push_back({at, has});
    }
  }

  // Whether there is one way, and no other, to make the numbers of all sets hold; then the extents are theirs.
  [[nodiscard]] bool assign() {
    constexpr std::uint64_t ways_max = 1 << 20;
    const std::uint64_t choices = short_.size() + 1;  // the last: it was dropped
    std::uint64_t ways = 1;
    for (std::size_t i = 0; i < free_.size(); ++i) {
      ways *= choices;
      if (ways > ways_max) return assign_all();
    }
    std::uint64_t found = ways;
    for (std::uint64_t way = 0; way < ways; ++way) {
      if (!holds(way, choices)) continue;
      if (found != ways) return false;
      found = way;
    }
    if (found == ways) return false;
    for (std::size_t i = 0; i < free_.size(); ++i, found /= choices) {
      if (found % choices != choices - 1) enter(free_[i], short_[found % choices]);
    }
    return true;
  }
  [[nodiscard]] bool holds(std::uint64_t way, std::uint64_t choices) const {
    std::vector<tally> sum(choices);
    for (std::size_t k = 0; k < short_.size(); ++k) sum[k] = there_[short_[k]];
    for (const candidate& c : free_) {
      sum[way % choices] += c.has;
      way /= choices;
    }
    for (std::size_t k = 0; k < short_.size(); ++k) {
      if (sum[k] != counted(short_[k])) return false;
    }
    return true;
  }
  // There are too many ways: all extents go to the one set that misses as many.
  [[nodiscard]] bool assign_all() {
    if (short_.size() != 1) return false;
    tally sum = there_[short_[0]];
    for (const candidate& c : free_) sum += c.has;
    if (sum != counted(short_[0])) return false;
    for (const candidate& c : free_) enter(c, short_[0]);
    return true;
  }
  void enter(const candidate& c, unsigned i) {
    const layout::page_entry e{static_cast<std::uint32_t>(on_media::extent_pages),
                               static_cast<std::uint16_t>(on_media::first_owner + i), layout::page_kind::run,
                               layout::object_layout::region, layout::slot_protocol::region};
    if (!m_.enter(g_.page_of(c.at), e)) return;
    m_.note(mending::mended, c.at,
            "an extent of the set of regions \"" + std::string{d_.entries[i].name} + "\", with " +
                std::to_string(c.has.regions + c.has.partners) + " regions or partners: allocated again");
  }

  const set_mending& m_;
  std::byte* const base_;
  const geometry& g_;
  const on_media::directory& d_;
  const std::uint64_t place_;
  std::array<tally, on_media::sets_max> there_{};
  std::vector<unsigned> short_;  // sets of which something is missing
  std::vector<candidate> free_;
};

// Finds partners of one set that misses some.
class partner_finder {
 public:
  partner_finder(const set_mending& m, std::uint64_t key, unsigned set, const char* name)
      : m_{m}, base_{m.base}, key_{key}, name_{name} {
    for (const pages_of_set& p : pages_of_sets(base_, m.g)) {
      const bool is_extent = p.owner == on_media::first_owner + set && p.layout == layout::object_layout::region &&
                             p.bytes == on_media::extent_pages << m.g.page_shift;
      if (!is_extent) continue;
      const unsigned c = region::class_of_extent(base_, p.offset);
      if (c == on_media::all_classes) continue;
      for (std::uint64_t i = 0; i < on_media::slots_in(p.bytes, c); ++i) see(p.offset + on_media::slot_at(c, i), c);
    }
  }
  // Names the owners of partners again, as when there were so many, if it is clear which these are.
  void name_again(std::uint64_t had) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    for (const auto& [line, in_class] : nobodys_) {
      if (const std::uint64_t owner = owner_of(line, in_class); owner != 0) found.push_back({line, owner});
    }
    if (found.empty() || named_.size() + found.size() != had) return;
    for (const auto& [line, owner] : found) {
      region::partner_at(base_, line).owner = owner;
      m_.note(mending::mended, line,
              "set of regions \"" + name_ + "\": the partner of region " +
                  std::to_string(region::partner_at(base_, line).rid) + ", which had no owner");
    }
  }

 private:
  void see(std::uint64_t at, unsigned in_class) {
    if (!on_media::is_of_partners(in_class)) {
      on_media::facts f;
      const bool holds = region::header_fault(base_, at, in_class, key_, f) == nullptr;
      if (holds && f.where == on_media::state::inside) inside_[f.rid] = {at, f.written};
      return;
    }
    const std::uint64_t word = word_at(base_, region::owner_at(at));
    if (word == 0) {
      nobodys_.push_back({at, in_class});
    } else {
      named_.insert(word & ((std::uint64_t{1} << on_media::owner_bits) - 1));
    }
  }
  // The owner's word, if the partner's sums prove the region's bytes, as a close has left them; else 0.
  [[nodiscard]] std::uint64_t owner_of(std::uint64_t at, unsigned in_class) const {
    on_media::partner line;
    std::memcpy(&line, base_ + at, sizeof line);
    const auto its = inside_.find(line.rid);
    if (its == inside_.end() || named_.contains(its->second.header)) return 0;
    const auto [header, n] = its->second;
    if (n > on_media::room_in(in_class)) return 0;
    const std::byte* const places[2] = {base_ + header + sizeof(on_media::header), base_ + at + sizeof line};
    const bool is_replica = line.sequence[0] == 0 && line.sequence[1] == 0;
    for (unsigned i = 0; i < 2; ++i) {
      if (!is_replica && line.sequence[i] == 0) continue;
      const std::uint64_t key = is_replica ? key_ : mix_seed(key_, line.sequence[i]);
      if (line.sum[i] != region::sum_of(places[i], n, header, key)) return 0;
    }
    return region::owner_word(at, header,
                              is_replica ? on_media::partner_kind::replica : on_media::partner_kind::copies);
  }

  struct place {
    std::uint64_t header;
    std::uint64_t written;
  };
  const set_mending& m_;
  std::byte* const base_;
  const std::uint64_t key_;
  const std::string name_;
  std::map<std::uint64_t, place> inside_;  // by number
  std::set<std::uint64_t> named_;          // headers
  std::vector<std::pair<std::uint64_t, unsigned>> nobodys_;
};

}  // namespace

void name_lost_partners(const set_mending& m, const region::layout::directory& d, std::uint64_t place) {
  for (unsigned i = 0; i < on_media::sets_max; ++i) {
    const on_media::set_entry& e = d.entries[i];
    const std::uint64_t at = place + offsetof(on_media::directory, entries) + i * sizeof e;
    const auto had = region::counted_in(m.base, region::partners_word_at(at));
    if (!on_media::is_set(e.state & checked_mask) || !had) continue;
    partner_finder{m, d.key, i, e.name}.name_again(*had);
  }
}

void enter_lost_extents(const set_mending& m, const region::layout::directory& d, std::uint64_t place) {
  extent_finder{m, d, place}.run();
}

}  // namespace nvm::care
