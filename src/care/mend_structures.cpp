// Order.  The directory; each structure is read as it is, before recovery has freed nodes that it takes for never
// linked; damaged ones are copied to volatile memory, and their pages are freed; recovery of the others; the check of
// these, and damaged ones that it finds are copied, too; new structures with the copied entries.
#include "care/mend_structures.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "care/mend_catalogue.hpp"
#include "care/structure_reader.hpp"
#include "care/words.hpp"
#include "engine/structure_side.hpp"
#include "kv/readable.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

namespace lf = lockfree::layout;
using image_space = space<any_direct, log::nothing_logged>;
constexpr std::string_view nothing_leads_to_it = "node is allocated, and nothing leads to it";

struct damaged_structure {
  described_structure about;
  structure_contents contents;
  std::string fault{};
  std::uint64_t fault_place = 0;
};

class structure_mender {
 public:
  structure_mender(any_direct& medium, std::byte* base, structure_pages& places, bool closed,
                   const std::set<std::uint64_t>& guessed, const told_notes& tell)
      : base_{base}, medium_{medium}, places_{places}, closed_{closed}, guessed_{guessed}, tell_{tell} {}

  status run() {
    auto found = mend_catalogue(base_, places_, closed_, tell_);
    if (!found) return found.error();
    all_ = std::move(*found);
    all_.active.guessed = guessed_;
    if (all_.structures.empty()) return {};
    for (const described_structure& d : all_.structures) look_at(d);
    for (const damaged_structure& d : damaged_) {
      forget_entry(base_, d.about);
      give_pages_of(d.about.owner);
    }
    if (status s = look_at_the_others(); !s) return s;
    for (const damaged_structure& d : damaged_) {
      if (status s = make_anew(d); !s) return s;
      tell(d);
    }
    side_->come_to_rest(true);
    return {};
  }

 private:
  void look_at(const described_structure& d) {
    structure_reader reader{base_, places_, d, all_.active};
    reader.read();
    if (!reader.is_broken()) return;
    damaged_.push_back({d, reader.contents(), reader.fault(), reader.fault_place()});
  }

  void give_pages_of(std::uint16_t owner) {
    for (const owned_pages& p : pages_of(places_, owner)) places_.give(p.offset);
  }

  // Recovery, and the check, which finds damage that could not be seen before.
  status look_at_the_others() {
    std::string lost;
    const engines::structure_side::told tell_lost = [&](std::uint64_t at, const char* what) {
      if (lost.empty()) lost = "lock-free structures, offset " + std::to_string(at) + ": " + what;
    };
    auto side = engines::make_structure_side(medium_, base_, places_, &tell_lost);
    if (!side) return side.error();
    side_ = std::move(*side);
    if (!lost.empty()) return fail(errc::corrupt, "%s", lost.c_str());
    if (status s = side_->unlink_all_deleted(); !s) return s;
    struct finding {
      std::string name, what;
      std::uint64_t place;
    };
    std::vector<finding> findings;
    const auto add = [&](std::string_view name, std::uint64_t place, const char* what) {
      // A node that nothing leads to and no sum proves is freed later.
      if (std::string_view{what} == nothing_leads_to_it) return;
      if (findings.empty() || findings.back().name != name) findings.push_back({std::string{name}, what, place});
    };
    if (status s = side_->check_each(add); !s) return s;
    // Tables are empty, and nodes that were not linked are gone.
    all_.active = {.is_at_rest = true, .shift = all_.active.shift, .guessed = guessed_};
    for (const finding& f : findings) {
      const auto d = std::find_if(all_.structures.begin(), all_.structures.end(),
                                  [&](const described_structure& one) { return one.name == f.name; });
      if (d == all_.structures.end())
        return fail(errc::corrupt, "lock-free structure '%s': %s", f.name.c_str(), f.what.c_str());
      structure_reader reader{base_, places_, *d, all_.active};
      reader.read();
      damaged_.push_back({*d, reader.contents(), f.what, f.place});
      if (status s = side_->drop(f.name); !s) return s;
    }
    return {};
  }

  // ---- the new one ----

  status make_anew(const damaged_structure& d) {
    if (d.contents.is_unknown) return {};
    const described_structure& a = d.about;
    const bool of_bytes = a.has(lf::entry_bytes);
    const auto made = side_->create(a.name, a.kind, of_bytes, a.has(lf::entry_volatile_links), a.has(lf::entry_sums),
                                    d.contents.entries.size());
    if (!made) return made.error();
    const auto who = side_->join();
    if (!who) return who.error();
    status s;
    for (const std::size_t i : order_of(d)) {
      s = put(**made, *who, of_bytes, d.contents.entries[i]);
      if (!s) break;
    }
    side_->leave(*who);
    return s;
  }
  static status put(engines::open_structure& to, unsigned who, bool of_bytes, const structure_contents::entry& e) {
    const auto bytes = [](const std::string& s) { return std::as_bytes(std::span{s.data(), s.size()}); };
    const auto done =
        of_bytes ? to.write(who, bytes(e.key), bytes(e.value), e.mark, lockfree::write_rule::insert_only)
                 : to.write64(who, word_of_text(e.key), word_of_text(e.value), lockfree::write_rule::insert_only);
    if (!done) return done.error();
    if (*done == lockfree::written::inserted) return {};
    return fail(errc::corrupt, "a lock-free structure that is made anew has a key already");
  }
  // A list is walked from its beginning to where a key belongs, so the last comes first; a tree is as deep as the order
  // of its keys makes it, so the middle comes first.
  static std::vector<std::size_t> order_of(const damaged_structure& d) {
    const auto& entries = d.contents.entries;
    std::vector<std::size_t> sorted(entries.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
    if (!d.about.has(lf::entry_bytes)) {
      std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
        return word_of_text(entries[a].key) < word_of_text(entries[b].key);
      });
    }
    if (d.about.kind != lf::kind::tree) {
      std::reverse(sorted.begin(), sorted.end());
      return sorted;
    }
    std::vector<std::size_t> order;
    order.reserve(sorted.size());
    std::vector<std::pair<std::size_t, std::size_t>> ranges{{0, sorted.size()}};
    for (std::size_t next = 0; next < ranges.size(); ++next) {
      const auto [begin, end] = ranges[next];
      if (begin == end) continue;
      const std::size_t middle = begin + (end - begin) / 2;
      order.push_back(sorted[middle]);
      ranges.emplace_back(begin, middle);
      ranges.emplace_back(middle + 1, end);
    }
    return order;
  }

  // ---- what is said of it ----

  static std::string text_of(const std::string& key, bool of_bytes) {
    if (!of_bytes) return std::to_string(word_of_text(key));
    return std::string{"\""} + keyed::readable{key.data(), key.size()}.text + "\"";
  }
  void tell(const damaged_structure& d) {
    const notes_about note{tell_, "lock-free structure \"" + d.about.name + "\""};
    const std::uint64_t at = d.about.root != 0 ? d.about.root : d.about.place;
    const structure_contents& c = d.contents;
    if (c.is_unknown) return note(mending::lost, at, ": all of it, for nothing says what it was");
    note(mending::mended, at, ": made anew, with " + std::to_string(c.entries.size()) + " entries");
    note(mending::mended, d.fault_place, ": " + d.fault);
    if (c.unproved != 0) {
      note(mending::kept, at, ": nothing proves " + std::to_string(c.unproved) + " of its entries");
    }
    if (c.uncertain != 0) {
      note(mending::lost, at,
           ": what was in " + std::to_string(c.uncertain) + " places of which nothing says whether entries were there");
    }
    for (const structure_contents::fault& f : c.faults) {
      note(f.how, f.place, ": entry " + text_of(f.key, d.about.has(lf::entry_bytes)) + ": " + f.what);
    }
    if (c.unreadable != 0) {
      note(mending::lost, at, ": " + std::to_string(c.unreadable) + " entries whose keys cannot be read");
    }
  }

  std::byte* const base_;
  any_direct& medium_;
  structure_pages& places_;
  const bool closed_;
  const std::set<std::uint64_t>& guessed_;
  const told_notes& tell_;
  mended_catalogue all_;
  std::unique_ptr<engines::structure_side> side_;
  std::vector<damaged_structure> damaged_;
};

}  // namespace

status mend_lockfree_on(any_direct& medium, std::byte* base, structure_pages& pages, bool closed,
                        const std::set<std::uint64_t>& guessed, const told_notes& tell) {
  return structure_mender{medium, base, pages, closed, guessed, tell}.run();
}
status mend_lockfree(std::byte* base, const geometry& g, bool closed, const std::set<std::uint64_t>& guessed,
                     const told_notes& tell) {
  ordered_media nothing;
  any_direct medium{nothing};
  log::nothing_logged lanes;  // logs have been replayed
  image_space places{medium, lanes, base, g};
  if (status s = places.boot(0, 1); !s) return s;
  return mend_lockfree_on(medium, base, places, closed, guessed, tell);
}

// ---- what the check of mended ones finds ----

void mended_findings::operator()(std::uint64_t at, const char* what) {
  // A broken chain leads to nothing after the break.
  if (std::string_view{what} == nothing_leads_to_it) {
    leaked_.push_back(at);
  } else if (other_.empty()) {
    other_ = text_of("lock-free structures, offset %lu: %s", at, what);
  }
}
std::string mended_findings::settle() {
  if (!other_.empty()) return other_;
  for (const std::uint64_t at : leaked_) {
    if (!free_node(at)) return text_of("offset %lu: a node that nothing leads to", at);
    tell_(note_of(mending::mended, at, "node that nothing leads to: freed"));
  }
  return {};
}
bool mended_findings::free_node(std::uint64_t at) {
  const auto extent = pages_.owned_at(at);
  if (!extent || extent->kind != layout::page_kind::coarse || extent->protocol != layout::slot_protocol::epoch) {
    return false;
  }
  const layout::extent_shape shape = layout::shape_of(extent->kind, pages_.sizes().page_shift);
  const auto slot = static_cast<unsigned>((at - extent->offset) >> shape.slot_shift);
  const first_bit bit = first_bit_of(extent->offset, slot);
  const std::uint64_t word = word_at(base_, bit.word_offset) & checked_mask & ~(std::uint64_t{1} << bit.bit);
  const std::uint64_t sealed = seal_word(word, word_seed(bit.word_offset));
  std::memcpy(base_ + bit.word_offset, &sealed, sizeof sealed);
  return true;
}

}  // namespace nvm::care
