// Heads of extents of regions, pages of them that lie where others were, and headers of regions.
//
// The seal of a header proves its place, and so where a header or a page of them belongs: exchanged ones are exchanged
// again; under a copy the old bytes are lost.  One word of a header is found by trying values until its seal holds.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "care/mend_sets.hpp"
#include "care/words.hpp"
#include "region/region.hpp"

namespace nvm::care {
namespace {

namespace on_media = region::layout;

on_media::header header_at(const std::byte* base, std::uint64_t at) noexcept {
  on_media::header h;
  std::memcpy(&h, base + at, sizeof h);
  return h;
}
bool is_zero(const on_media::header& h) noexcept {
  return h.rid == 0 && h.length_state == 0 && h.place_written == 0 && h.seal == 0;
}
// Whether a header, sealed or not, can be one.
bool is_plausible(const on_media::header& h) noexcept {
  const on_media::facts f = on_media::unpack(h);
  if (f.written > f.length) return false;
  switch (f.where) {
    case on_media::state::nowhere:
      return f.written == 0;
    case on_media::state::inside:
      return f.written <= on_media::inside_max;
    case on_media::state::run:
      return true;
    default:
      return false;
  }
}
std::string number(std::uint64_t n) { return std::to_string(n); }

class region_header_mender {
 public:
  region_header_mender(const set_mending& m, std::uint64_t key) : m_{m}, base_{m.base}, g_{m.g}, key_{key} {
    for (const pages_of_set& p : pages_of_sets(base_, g_)) {
      const bool is_of_set = p.owner >= on_media::first_owner && p.set() < on_media::sets_max;
      if (is_of_set && p.layout == layout::object_layout::region && p.bytes == extent_bytes()) extents_.push_back(p);
      if (is_of_set && p.layout == layout::object_layout::raw) runs_.push_back(p);
    }
  }

  void run() {
    put_pages_back();
    for (const pages_of_set& e : extents_) mend_head(e);
    std::vector<slot> bad;
    for (const pages_of_set& e : extents_) collect(e, bad);
    put_headers_back(bad);
    constexpr std::size_t tried = 64;  // a good part of a second each
    for (std::size_t i = 0; i < std::min(bad.size(), tried); ++i) mend_words(bad[i]);
    for (const auto& [at, run] : named_runs()) enter_run(at, run);
  }

 private:
  struct slot {
    std::uint64_t at;
    unsigned in_class;
    std::uint16_t owner;
  };
  static constexpr std::uint64_t pages_tried = 1 << 16;  // compared with each other, as many as a repair may take time
                                                         // for

  [[nodiscard]] std::uint64_t extent_bytes() const noexcept { return on_media::extent_pages << g_.page_shift; }
  [[nodiscard]] bool holds(std::uint64_t at, unsigned in_class) const noexcept {
    on_media::facts f;
    return region::header_fault(base_, at, in_class, key_, f) == nullptr;
  }

  template <class Visit>  // visit(at, class), slots of regions in an extent
  void each_slot(const pages_of_set& e, unsigned in_class, Visit&& visit) const {
    if (in_class == on_media::all_classes || on_media::is_of_partners(in_class)) return;
    for (std::uint64_t i = 0; i < on_media::slots_in(e.bytes, in_class); ++i) {
      visit(e.offset + on_media::slot_at(in_class, i));
    }
  }

  // ---- pages ----

  // The page whose headers are in the page at `at`, or that has the same bytes; 0: its own, or none.
  [[nodiscard]] std::uint64_t origin_of(std::uint64_t at) const {
    std::map<std::uint64_t, unsigned> votes;
    unsigned own = 0;
    for (std::uint64_t off = 0; off + sizeof(on_media::header) <= g_.page_bytes(); off += 8) {
      const on_media::header h = header_at(base_, at + off);
      if (is_zero(h) || !is_plausible(h)) continue;
      if (is_header_of(base_ + at + off, at + off, key_)) {
        ++own;
        continue;
      }
      each_page([&](std::uint64_t page) {
        if (page != at && is_header_of(base_ + at + off, page + off, key_)) ++votes[page];
      });
    }
    if (own != 0) return 0;
    if (votes.empty()) return twin_of(at);
    const auto most =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most->first;
  }
  [[nodiscard]] std::uint64_t twin_of(std::uint64_t at) const {
    std::uint64_t found = 0;
    const std::vector<std::byte> zeros(g_.page_bytes());
    if (std::memcmp(base_ + at, zeros.data(), zeros.size()) == 0) return 0;
    each_page([&](std::uint64_t page) {
      if (page != at && std::memcmp(base_ + page, base_ + at, g_.page_bytes()) == 0) found = page;
    });
    return found;
  }
  [[nodiscard]] bool has_own(std::uint64_t page) const {
    for (std::uint64_t at = page; at < page + g_.page_bytes(); at += 8) {
      const on_media::header h = header_at(base_, at);
      if (!is_zero(h) && is_plausible(h) && is_header_of(base_ + at, at, key_)) return true;
    }
    return false;
  }
  template <class Visit>
  void each_page(Visit&& visit) const {
    for (const pages_of_set& e : extents_) {
      for (std::uint64_t page = e.offset; page < e.offset + e.bytes; page += g_.page_bytes()) visit(page);
    }
  }
  // Pages with a header that does not hold, or of an extent whose head does not.
  [[nodiscard]] std::set<std::uint64_t> suspicious() const {
    std::set<std::uint64_t> all;
    for (const pages_of_set& e : extents_) {
      const unsigned c = region::class_of_extent(base_, e.offset);
      bool any = false;
      each_slot(e, c, [&](std::uint64_t at) {
        any = any || (holds(at, c) && !is_zero(header_at(base_, at)));
        if (!holds(at, c)) all.insert(round_down(at, g_.page_bytes()));
      });
      if (c != on_media::all_classes && (any || on_media::is_of_partners(c))) continue;
      for (std::uint64_t page = e.offset; page < e.offset + e.bytes; page += g_.page_bytes()) all.insert(page);
    }
    return all;
  }
  void put_pages_back() {
    const auto pages = suspicious();
    if (pages.size() * extents_.size() * on_media::extent_pages > pages_tried) return;
    std::map<std::uint64_t, std::uint64_t> origins;
    for (const std::uint64_t page : pages) {
      if (const std::uint64_t from = origin_of(page); from != 0) origins[page] = from;
    }
    for (const auto& [page, from] : origins) {
      const bool is_twin = std::memcmp(base_ + page, base_ + from, g_.page_bytes()) == 0;
      if (is_twin || has_own(from)) {
        if (!has_own(page)) copies_.emplace(page, from);
        continue;
      }
      // If its headers are missing there, the page there is this one's.
      std::swap_ranges(base_ + page, base_ + page + g_.page_bytes(), base_ + from);
      m_.note(mending::mended, page, "page of regions: exchanged with that at offset " + number(from));
    }
  }

  // ---- heads ----

  // The class of slots that the most valid headers and the fewest invalid ones fit: slots of half the size begin where
  // larger ones do, too.
  [[nodiscard]] unsigned class_by_contents(const pages_of_set& e) const {
    unsigned best = on_media::all_classes;
    std::int64_t most = 0;
    for (unsigned c = 0; c < on_media::all_classes; ++c) {
      std::int64_t good = 0;
      std::int64_t bad = 0;
      for (std::uint64_t i = 0; i < on_media::slots_in(e.bytes, c); ++i) {
        const std::uint64_t at = e.offset + on_media::slot_at(c, i);
        const bool is_of_partners = on_media::is_of_partners(c);
        const bool is_free = is_of_partners ? word_at(base_, region::owner_at(at)) == 0 : is_zero(header_at(base_, at));
        if (is_free) continue;
        ++((is_of_partners ? is_partner(at) : holds(at, c)) ? good : bad);
      }
      if (good != 0 && (best == on_media::all_classes || good - bad > most)) {
        most = good - bad;
        best = c;
      }
    }
    return best;
  }
  // Whether there is a partner of a region that names it.
  [[nodiscard]] bool is_partner(std::uint64_t at) const {
    on_media::partner line;
    std::memcpy(&line, base_ + at, sizeof line);
    const std::uint64_t where = region::owner_at(at);
    const std::uint64_t header = line.owner & ((std::uint64_t{1} << on_media::owner_bits) - 1);
    return line.owner != 0 && word_holds(line.owner, word_seed(where)) &&
           g_.in_data(header, sizeof(on_media::header)) && header_at(base_, header).rid == line.rid &&
           is_header_of(base_ + header, header, key_);
  }
  void mend_head(const pages_of_set& e) {
    const unsigned found = region::class_of_extent(base_, e.offset);
    unsigned c = class_by_contents(e);
    if (c == on_media::all_classes || c == found) {
      if (found != on_media::all_classes) return;
      const std::uint64_t word = corrected_word(word_at(base_, e.offset), word_seed(e.offset));
      c = on_media::class_of_head(word & checked_mask);
    } else if (found != on_media::all_classes && has_any(e, found)) {
      return;
    }
    if (c == on_media::all_classes) {
      std::memset(base_ + g_.entry_offset(g_.page_of(e.offset)), 0, 8);
      m_.note(mending::lost, e.offset, "an extent of regions, of which nothing can be told: freed");
      return;
    }
    on_media::extent_head head{};
    head.magic_and_slot = seal_word(on_media::head_of_class(c), word_seed(e.offset));
    std::memcpy(base_ + e.offset, &head, sizeof head);
    m_.note(mending::mended, e.offset,
            "head of an extent of regions: slots of " + number(on_media::slot_bytes(c)) + " bytes");
  }
  // Whether anything that the class can have is there.
  [[nodiscard]] bool has_any(const pages_of_set& e, unsigned c) const {
    bool any = false;
    each_slot(e, c, [&](std::uint64_t at) { any = any || (!is_zero(header_at(base_, at)) && holds(at, c)); });
    for (std::uint64_t i = 0; on_media::is_of_partners(c) && i < on_media::slots_in(e.bytes, c); ++i) {
      any = any || is_partner(e.offset + on_media::slot_at(c, i));
    }
    return any;
  }

  // ---- headers ----

  void collect(const pages_of_set& e, std::vector<slot>& bad) {
    const unsigned c = region::class_of_extent(base_, e.offset);
    std::map<std::uint64_t, std::uint64_t> taken;
    each_slot(e, c, [&](std::uint64_t at) {
      const std::uint64_t page = round_down(at, g_.page_bytes());
      const bool is_free = is_zero(header_at(base_, at));
      taken[page] += is_free ? 1 : 0;
      if (is_free) return;
      if (holds(at, c)) {
        numbers_[e.owner].insert(header_at(base_, at).rid);
        tell_cut(at, c);
      } else if (copies_.contains(page)) {
        std::memset(base_ + at, 0, sizeof(on_media::header));
        ++taken[page];
      } else {
        bad.push_back({at, c, e.owner});
      }
    });
    for (const auto& [page, from] : copies_) {
      if (page < e.offset || page >= e.offset + e.bytes) continue;
      m_.note(mending::lost, page,
              "a page of regions is a copy of that at offset " + number(from) + ": what was in up to " +
                  number(std::max<std::uint64_t>(taken[page], 1)) + " places");
    }
  }
  // A region of which a page of another one has some bytes.
  void tell_cut(std::uint64_t at, unsigned c) const {
    const std::uint64_t next = round_up(at + 1, g_.page_bytes());
    const on_media::header h = header_at(base_, at);
    const on_media::facts f = on_media::unpack(h);
    if (f.where != on_media::state::inside || at + on_media::slot_bytes(c) <= next || !copies_.contains(next)) return;
    const std::uint64_t whole = next - at - sizeof(on_media::header);
    if (f.written <= whole || next < at + sizeof(on_media::header)) return;
    m_.note(mending::kept, at,
            "region " + number(f.rid) + ": its bytes from " + number(whole) + " on are another page's");
  }

  // Exchanges headers that are in each other's place.  A copy is no region.
  void put_headers_back(std::vector<slot>& bad) {
    constexpr std::size_t most = 256;
    if (bad.size() > most) return;
    std::set<std::uint64_t> done;
    for (const slot& s : bad) {
      if (done.contains(s.at)) continue;
      const std::uint64_t home = place_of(s);
      if (home == 0) continue;
      const on_media::header here = header_at(base_, s.at);
      const bool is_exchanged = is_header_of(base_ + home, s.at, key_);
      const on_media::header other = header_at(base_, home);
      if (is_exchanged) {
        std::memcpy(base_ + s.at, &other, sizeof other);
        std::memcpy(base_ + home, &here, sizeof here);
        numbers_[s.owner].insert({here.rid, other.rid});
        m_.note(mending::mended, s.at,
                "headers of regions " + number(other.rid) + " and " + number(here.rid) + ": exchanged again");
      } else if (is_header_of(base_ + home, home, key_)) {
        std::memset(base_ + s.at, 0, sizeof here);
        m_.note(mending::lost, s.at, "a region, whose header is a copy of that of region " + number(here.rid));
      } else {
        continue;
      }
      done.insert(s.at);
      done.insert(home);
    }
    std::erase_if(bad, [&](const slot& s) { return done.contains(s.at); });
  }
  // Where the header belongs; 0: unknown.
  [[nodiscard]] std::uint64_t place_of(const slot& s) const {
    std::uint64_t found = 0;
    if (!is_plausible(header_at(base_, s.at))) return 0;
    for (const pages_of_set& e : extents_) {
      if (found != 0) break;
      each_slot(e, region::class_of_extent(base_, e.offset), [&](std::uint64_t at) {
        if (at != s.at && is_header_of(base_ + s.at, at, key_)) found = at;
      });
    }
    return found;
  }

  // ---- words of headers ----

  void mend_words(const slot& s) {
    on_media::header h = header_at(base_, s.at);
    const on_media::header found = h;
    const auto proved = [&] { return region::seal_of(h, s.at, key_) == h.seal && fits(h, s); };
    if (try_bits(h, proved) || try_number(h, numbers_[s.owner], proved) || try_length(h, proved) ||
        try_place(h, s, proved)) {
      return put(s, h, mending::mended, "a word of its header was another one");
    }
    h = found;
    h.seal = region::seal_of(h, s.at, key_);
    if (!is_zero(found) && fits(h, s) && !numbers_[s.owner].contains(h.rid)) {
      put(s, h, mending::kept, "nothing proves its header");
    }
  }
  [[nodiscard]] bool fits(const on_media::header& h, const slot& s) const {
    const on_media::facts f = on_media::unpack(h);
    if (!is_plausible(h)) return false;
    if (f.where == on_media::state::inside) {
      return s.in_class != 0 && f.page == 0 &&
             f.written <= on_media::slot_bytes_of_class[s.in_class] - sizeof(on_media::header);
    }
    if (s.in_class != 0) return false;
    if (f.where == on_media::state::nowhere) return f.page == 0;
    return std::any_of(runs_.begin(), runs_.end(), [&](const pages_of_set& r) {
      return r.owner == s.owner && r.offset == g_.page_offset(f.page) && f.written <= r.bytes;
    });
  }
  void put(const slot& s, const on_media::header& h, mending how, const char* why) {
    std::memcpy(base_ + s.at, &h, sizeof h);
    numbers_[s.owner].insert(h.rid);
    m_.note(how, s.at, "region " + number(h.rid) + ": " + why);
  }
  template <class Proved>
  static bool try_bits(on_media::header& h, Proved&& proved) {
    for (std::uint64_t* const word : {&h.rid, &h.length_state, &h.place_written, &h.seal}) {
      for (unsigned bit = 0; bit < 64; ++bit) {
        *word ^= std::uint64_t{1} << bit;
        if (proved()) return true;
        *word ^= std::uint64_t{1} << bit;
      }
    }
    return false;
  }
  // Tries small numbers, and numbers near others.
  template <class Proved>
  static bool try_number(on_media::header& h, const std::set<std::uint64_t>& others, Proved&& proved) {
    constexpr std::uint64_t small = 1 << 20;
    constexpr std::uint64_t near = 16;
    const std::uint64_t was = h.rid;
    for (h.rid = 0; h.rid < small; ++h.rid) {
      if (proved()) return true;
    }
    for (const std::uint64_t other : others) {
      for (h.rid = other - near; h.rid != other + near; ++h.rid) {
        if (proved()) return true;
      }
    }
    h.rid = was;
    return false;
  }
  template <class Proved>
  static bool try_length(on_media::header& h, Proved&& proved) {
    constexpr std::uint64_t most = 1 << 20;
    const std::uint64_t was = h.length_state;
    for (const auto where : {on_media::state::inside, on_media::state::run, on_media::state::nowhere}) {
      for (std::uint64_t length = 0; length < most; ++length) {
        h.length_state = length | std::uint64_t(where) << on_media::length_bits;
        if (proved()) return true;
      }
    }
    h.length_state = was;
    return false;
  }
  template <class Proved>
  bool try_place(on_media::header& h, const slot& s, Proved&& proved) const {
    const std::uint64_t was = h.place_written;
    on_media::facts f = on_media::unpack(h);
    std::vector<std::uint32_t> pages{0};
    for (const pages_of_set& r : runs_) {
      if (f.where == on_media::state::run && r.owner == s.owner) {
        pages.push_back(static_cast<std::uint32_t>(g_.page_of(r.offset)));
      }
    }
    const std::uint64_t most = f.where == on_media::state::inside ? std::min(f.length, on_media::inside_max) : 0;
    for (const std::uint32_t page : pages) {
      f.page = page;
      for (unsigned level = 0; level <= on_media::levelling_max; ++level) {
        f.levelling = static_cast<std::uint16_t>(level);
        for (std::uint64_t written = 0; written <= most; ++written) {
          f.written = f.where == on_media::state::run ? f.length : written;
          h.place_written = on_media::pack(f).place_written;
          if (proved()) return true;
        }
      }
    }
    h.place_written = was;
    return false;
  }

  // ---- runs ----

  struct named_run {
    on_media::facts facts;
    std::uint16_t owner;
  };
  [[nodiscard]] std::vector<std::pair<std::uint64_t, named_run>> named_runs() const {
    std::vector<std::pair<std::uint64_t, named_run>> all;
    for (const pages_of_set& e : extents_) {
      const unsigned c = region::class_of_extent(base_, e.offset);
      each_slot(e, c, [&](std::uint64_t at) {
        on_media::facts f;
        if (region::header_fault(base_, at, c, key_, f) == nullptr && f.where == on_media::state::run) {
          all.push_back({at, {f, e.owner}});
        }
      });
    }
    return all;
  }
  // A zero entry of the page map holds, and says that nothing is there: enters the run that the region can have had.
  void enter_run(std::uint64_t at, const named_run& r) {
    const std::uint64_t first = r.facts.page;
    if (first >= g_.size_pages || word_at(base_, g_.entry_offset(first)) != 0) return;
    const auto pages_for = [&](std::uint64_t bytes) {
      return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, ceil_div(bytes, g_.page_bytes())));
    };
    for (const std::uint64_t bytes : {r.facts.length, r.facts.written}) {
      const layout::page_entry e{pages_for(bytes), r.owner, layout::page_kind::run, layout::object_layout::raw,
                                 layout::slot_protocol::region};
      if (!range_inside(first, e.length_pages, g_.size_pages) || !m_.enter(first, e)) continue;
      m_.note(mending::mended, at, "region " + number(r.facts.rid) + ": its pages are allocated again");
      return;
    }
  }

  const set_mending& m_;
  std::byte* const base_;
  const geometry& g_;
  const std::uint64_t key_;
  std::vector<pages_of_set> extents_;
  std::vector<pages_of_set> runs_;
  std::map<std::uint64_t, std::uint64_t> copies_;             // pages, and the pages of which they are a copy
  std::map<std::uint16_t, std::set<std::uint64_t>> numbers_;  // by owner, of regions whose headers hold
};

}  // namespace

bool is_header_of(const std::byte* from, std::uint64_t at, std::uint64_t key) noexcept {
  on_media::header h;
  std::memcpy(&h, from, sizeof h);
  return h.seal == region::seal_of(h, at, key);
}

bool proves_key(const std::byte* base, const geometry& g, std::uint64_t key) {
  const std::uint64_t bytes = on_media::extent_pages << g.page_shift;
  for (const pages_of_set& p : pages_of_sets(base, g)) {
    if (p.layout != layout::object_layout::region || p.bytes != bytes) continue;
    for (std::uint64_t at = p.offset; at + sizeof(on_media::header) <= p.offset + bytes; at += 8) {
      const on_media::header h = header_at(base, at);
      if (!is_zero(h) && is_plausible(h) && is_header_of(base + at, at, key)) return true;
    }
  }
  return false;
}

void mend_headers_of_regions(const set_mending& m, std::uint64_t key) { region_header_mender{m, key}.run(); }

}  // namespace nvm::care
