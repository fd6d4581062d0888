// The part of repair_image that mends the pool's anchors, and the objects that they name.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "care/regions.hpp"
#include "care/repair_image.hpp"
#include "care/words.hpp"
#include "kv/kv.hpp"
#include "kv/lewat.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "logheap/logheap_layout.hpp"
#include "object/object.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"
#include "store/store.hpp"
#include "tx/tx.hpp"

#include "care/references_in_image.hpp"

namespace nvm::care {
namespace {

const char* name_of_directory(anchor_word which) noexcept {
  if (which == anchor_word::catalogue) return "catalogue of object stores";
  return which == anchor_word::stores ? "directory of key-value stores" : "directory of lock-free structures";
}

}  // namespace

bool repair_image::can_name(anchor_word which, std::uint64_t place) const {
  if (place == 0) return true;
  if (!g_.in_data(place, 1)) return false;
  const std::uint64_t page = g_.page_of(place);
  const tx::pool_targets pages{base_, g_};
  const layout::page_entry e = pages.entry_of(page);
  const bool begins_a_run = e.kind == layout::page_kind::run && g_.page_offset(page) == place;
  const std::uint64_t run_bytes = std::uint64_t{e.length_pages} << g_.page_shift;
  switch (which) {
    case anchor_word::root: {
      bool found = false;
      (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t bytes, layout::object_layout) {
        found = place > at && place < at + bytes;
        return !found;
      });
      return found;
    }
    case anchor_word::stores: {
      bool found = false;
      each_store_header([&](std::uint64_t at) { found = found || at == place; });
      return found;
    }
    case anchor_word::types:
      return begins_a_run && layout::transactional(e) && e.layout != layout::object_layout::typed &&
             object::type_map::read(base_ + place, run_bytes, place);
    case anchor_word::references:
      return names_rings(base_, g_, place);
    case anchor_word::catalogue:
      return is_catalogue(place);
    case anchor_word::lockfree:
      return begins_a_run && e.store == lockfree::layout::directory_owner &&
             run_bytes >= sizeof(lockfree::layout::directory);
    case anchor_word::regions:
      return begins_a_run && e.store == region::layout::directory_owner &&
             word_at(base_, place) == region::layout::directory_magic;
    case anchor_word::log_heap:
      return begins_a_run && e.store == logheap::layout::owner && word_at(base_, place) == logheap::layout::root_magic;
  }
  return false;
}

bool repair_image::is_catalogue(std::uint64_t place) const {
  stores::names_reader m{{base_, g_.data_offset, g_.size_bytes()}};
  return bool{stores::read_catalogue(m, place)};
}

void repair_image::mend_anchors() {
  for (unsigned copy = 0; copy < 2; ++copy) {
    std::byte* reserved = base_ + g_.anchor_at(copy) + offsetof(layout::anchor, reserved);
    const std::size_t bytes = sizeof(layout::anchor) - offsetof(layout::anchor, reserved);
    if (std::all_of(reserved, reserved + bytes, [](std::byte b) { return b == std::byte{}; })) continue;
    std::memset(reserved, 0, bytes);
    note(mending::mended, g_.anchor_at(copy), "reserved bytes of an anchor");
  }
  for (unsigned i = 0; i < anchor_words; ++i) mend_anchor_word(static_cast<anchor_word>(i));
}

void repair_image::mend_anchor_word(anchor_word which) {
  std::vector<std::uint64_t> held;
  std::vector<std::uint64_t> corrected;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = anchor_word_at(g_, copy, which);
    const std::uint64_t word = word_at(base_, at);
    const std::uint8_t seed = word_seed(at);
    if (word_holds(word, seed)) {
      held.push_back(word & checked_mask);
    } else if (word_holds(word, word_seed(anchor_word_at(g_, 1 - copy, which)))) {
      corrected.push_back(word & checked_mask);  // that of the other copy
    } else if (const std::uint64_t other = corrected_word(word, seed); other != 0) {
      corrected.push_back(other & checked_mask);
    } else if (std::popcount(word) == 1) {
      corrected.push_back(0);
    }
  }
  if (which == anchor_word::lockfree) enter_directory_again(held, corrected);
  if (which == anchor_word::regions) {
    if (const std::uint64_t found = directory_of_regions(base_, g_); found != 0) held.push_back(found);
  }
  // Candidates that name the right kind of object, those that hold before corrected ones, each once.
  std::vector<std::uint64_t> places;
  for (const auto* from : {&held, &corrected}) {
    if (!places.empty()) break;
    for (const std::uint64_t place : *from) {
      if (can_name(which, place) && std::find(places.begin(), places.end(), place) == places.end())
        places.push_back(place);
    }
  }
  // A name that leads nowhere was a name once: the loss is reported.
  const bool names_one = std::any_of(held.begin(), held.end(), [](std::uint64_t place) { return place != 0; });
  if (names_one && places == std::vector<std::uint64_t>{0}) places.clear();
  const bool set_once = which != anchor_word::root && which != anchor_word::types && which != anchor_word::stores &&
                        which != anchor_word::references;
  // A word of zeros holds, and is left by a device that has lost the word.
  const bool one_is_zero = places.size() == 2 && std::find(places.begin(), places.end(), 0U) != places.end();
  if (one_is_zero) std::erase(places, std::uint64_t{0});
  if (one_is_zero && !set_once && which != anchor_word::stores) {
    note(mending::kept, places.front(),
         text_of("the %s: one copy of its place names it, the other none", name_of(which)));
  }
  if (places.empty() && which == anchor_word::types) {
    // No object depends on the type map.
    std::uint64_t map = 0;
    for (const std::uint64_t place : held) map = place;
    drop_type_map(map, last_message());
    places.push_back(0);
  }
  if (places.empty() && which == anchor_word::references) {
    // The next open that counts references makes rings, and counts.
    note(mending::mended, anchor_word_at(g_, 0, which),
         "rings of activation records: no copy of their place names any");
    places.push_back(0);
  }
  if (places.size() != 1 || places.front() == 0) look_for_directory(which, names_one, held.empty(), places);
  if (places.size() != 1) {
    refuse(text_of("the %s: %s", name_of(which),
                   places.empty() ? "no copy of its place names one" : "its two copies name different ones"));
    return;
  }
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = anchor_word_at(g_, copy, which);
    const std::uint64_t word = seal_word(places.front(), word_seed(at));
    const std::uint64_t found = word_at(base_, at);
    if (found == word) continue;
    std::memcpy(base_ + at, &word, sizeof word);
    note(mending::mended, at, text_of("place of the %s: found %lx, made %lx", name_of(which), found, word));
  }
}

// Calls visit(place) for each object with the header of a key-value store of the pool's own; object stores name those
// in them.
template <class Visit>
void repair_image::each_store_header(Visit&& visit) const {
  (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
    layout::object_header h;
    std::memcpy(&h, base_ + at, sizeof h);
    const bool is_header = l == layout::object_layout::typed && h.type == layout::kv_type_header &&
                           layout::object_size(h) >= sizeof(layout::kv_header);
    if (is_header && cluster_head(base_, g_, g_.page_of(at)) == no_cluster) visit(at + sizeof h);
    return true;
  });
}

set_mending repair_image::mending_of_sets() {
  std::vector<std::string> names;
  each_store_header([&](std::uint64_t place) {
    layout::kv_header header;
    keyed::store_facts facts;
    std::memcpy(&header, base_ + place, sizeof header);
    if (keyed::check_header(header, place, facts) && facts.index == layout::kv_index::regions) {
      names.push_back(keyed::lewat::set_name(facts.seed));
    }
  });
  return {base_,
          g_,
          sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean),
          !report_.notes.empty(),
          [this](mending how, std::uint64_t at, const std::string& what) { note(how, at, what); },
          [this](std::uint64_t page, const layout::page_entry& e) { return enter_pages(page, e); },
          std::move(names)};
}

chunk_mending repair_image::mending_of_chunks() {
  return {base_, g_, sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean),
          [this](mending how, std::uint64_t at, const std::string& what) { note(how, at, what); },
          [this](std::uint64_t page, const layout::page_entry& e) { return enter_pages(page, e); }};
}

// Enters the directory again: a zero entry of the page map holds, and says that nothing is there.
void repair_image::enter_directory_again(const std::vector<std::uint64_t>& held,
                                         const std::vector<std::uint64_t>& corrected) {
  constexpr std::uint64_t bytes = sizeof(lockfree::layout::directory);
  for (const auto* from : {&held, &corrected}) {
    for (const std::uint64_t place : *from) {
      if (place == 0 || !g_.in_data(place, bytes) || place % g_.page_bytes() != 0) continue;
      if (word_at(base_, place) != lockfree::layout::directory_magic) continue;
      const auto count = static_cast<std::uint32_t>(ceil_div(bytes, g_.page_bytes()));
      if (!range_inside(g_.page_of(place), count, g_.size_pages)) continue;
      const layout::page_entry e{count, lockfree::layout::directory_owner, layout::page_kind::run,
                                 layout::object_layout::raw, layout::slot_protocol::epoch};
      if (enter_pages(g_.page_of(place), e)) {
        note(mending::mended, place, "pages of the directory of lock-free structures: allocated again");
      }
    }
  }
}

// Looks for a directory that proves itself: a copy of its place has named one, or may have, or both are zero.
void repair_image::look_for_directory(anchor_word which, bool was_named, bool may_be,
                                      std::vector<std::uint64_t>& places) {
  const bool is_lost = was_named || may_be;
  std::vector<std::uint64_t> found;
  if (which == anchor_word::stores) {
    each_store_header([&](std::uint64_t place) {
      layout::kv_header header;
      keyed::store_facts facts;
      std::memcpy(&header, base_ + place, sizeof header);
      // Stores have seeds.
      if (keyed::check_header(header, place, facts) && facts.seed == 0) found.push_back(place);
    });
  } else if (which == anchor_word::catalogue) {
    // An object like any other, which proves itself.
    (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
      layout::object_header h;
      std::memcpy(&h, base_ + at, sizeof h);
      if (l == layout::object_layout::typed && h.type == layout::names_type_catalogue && is_catalogue(at + sizeof h))
        found.push_back(at + sizeof h);
      return true;
    });
  } else if (which == anchor_word::lockfree || which == anchor_word::log_heap) {
    const bool is_directory = which == anchor_word::lockfree;
    for (std::uint64_t page = 0; page < g_.size_pages; ++page) {
      layout::page_entry e;
      const std::uint64_t word = word_at(base_, g_.entry_offset(page));
      if (word == 0 || entry_fault(word, page, g_, g_.size_pages, e) != nullptr) continue;
      const std::uint64_t place = g_.page_offset(page);
      if (can_name(which, place) && (!is_directory || is_lost || has_entries(place))) found.push_back(place);
    }
  } else {
    return;
  }
  const bool names_nothing = std::all_of(places.begin(), places.end(), [](std::uint64_t place) { return place == 0; });
  if (found.size() == 1) {
    places = found;
  } else if (is_lost && found.empty() && names_nothing && which != anchor_word::log_heap) {
    places = {0};
    if (!was_named && !has_named(which)) return;
    // The object that it named is found without it, and named anew.  If an object is lost, others may be lost with it.
    const bool is_object = was_named && which == anchor_word::stores;
    note(mending::lost, anchor_word_at(g_, 0, which),
         std::string{name_of_directory(which)} +
             (is_object ? ": the object that its place names is lost" : nothing_of_it));
  }
}
// Whether there is anything that a directory has named.
bool repair_image::has_named(anchor_word which) const {
  bool found = false;
  if (which == anchor_word::stores) {
    each_store_header([&](std::uint64_t) { found = true; });
    return found;
  }
  if (which == anchor_word::catalogue) {
    (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
      layout::object_header h;
      std::memcpy(&h, base_ + at, sizeof h);
      found = l == layout::object_layout::typed && h.type >= layout::names_type_catalogue &&
              h.type <= layout::names_type_container;
      return !found;
    });
    return found;
  }
  for (std::uint64_t page = 0; page < g_.size_pages && !found; ++page) {
    layout::page_entry e;
    const std::uint64_t word = word_at(base_, g_.entry_offset(page));
    found = word != 0 && entry_fault(word, page, g_, g_.size_pages, e) == nullptr && !layout::transactional(e) &&
            e.store >= lockfree::layout::first_owner;
  }
  return found;
}
bool repair_image::has_entries(std::uint64_t place) const noexcept {
  for (unsigned i = 0; i < lockfree::layout::structures_max; ++i) {
    const std::uint64_t at =
        place + offsetof(lockfree::layout::directory, entries) + i * sizeof(lockfree::layout::entry);
    if (word_at(base_, at) != 0) return true;
  }
  return false;
}

void repair_image::drop_type_map(std::uint64_t place, const char* why) {
  note(mending::lost, place, text_of("the type map: %s; programs bring theirs when they open the pool", why));
  if (place == 0 || !g_.in_data(place, 1)) return;
  const std::uint64_t entry = g_.entry_offset(g_.page_of(place));
  const layout::page_entry e = layout::unpack(word_at(base_, entry) & checked_mask);
  if (e.kind == layout::page_kind::run && layout::transactional(e) && e.layout != layout::object_layout::typed &&
      g_.page_offset(g_.page_of(place)) == place) {
    std::memset(base_ + entry, 0, 8);
  }
}

}  // namespace nvm::care
