#include "care/repair_image.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "care/check_stores.hpp"
#include "care/check_structures.hpp"
#include "care/log_in_image.hpp"
#include "care/mend_extents.hpp"
#include "care/mend_headers.hpp"
#include "care/mend_store_structures.hpp"
#include "care/mend_structures.hpp"
#include "care/notes.hpp"
#include "care/references_in_image.hpp"
#include "care/regions.hpp"
#include "care/words.hpp"
#include "engine/recover_image.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "logheap/logheap_layout.hpp"
#include "media/media.hpp"
#include "nvm/nvm.h"
#include "object/object.hpp"
#include "pool/log_table.hpp"
#include "region/region_layout.hpp"
#include "space/space.hpp"
#include "tx/tx.hpp"

namespace nvm::care {

status repair_image::run() {
  static constexpr std::array<step, 8> steps{{
      {&repair_image::settle_logs, in_pools::all},
      {&repair_image::mend_pages, in_pools::all},
      {&repair_image::settle_names_of_heap, in_pools::with_heap},
      {&repair_image::settle_root_of_log, in_pools::with_log},
      {&repair_image::mend_anchors, in_pools::all},
      {&repair_image::mend_log, in_pools::with_log},
      {&repair_image::mend_beside_objects, in_pools::with_heap},
      {&repair_image::mend_counts, in_pools::with_heap},
  }};
  before_ = intact_objects();
  const in_pools here = engine_of(sb_.engine).is_its_log() ? in_pools::with_log : in_pools::with_heap;
  for (const step& s : steps) {
    if (!report_.refusals.empty()) break;
    if (s.where == in_pools::all || s.where == here) (this->*s.take)();
  }
  if (here == in_pools::with_heap) count_aligned();
  compare_objects();
  if (report_.refusals.empty()) return {};
  return fail(errc::corrupt, "%s", report_.refusals.front().c_str());
}

void repair_image::settle_names_of_heap() {
  allocate_what_stores_reach();
  free_unnamed();
  mend_directory_of_sets(mending_of_sets());
}

void repair_image::settle_root_of_log() { mend_log_root(mending_of_chunks()); }

void repair_image::mend_log() {
  mend_chunks(mending_of_chunks());
  const auto add = [this](const repair_note& n) { report_.notes.push_back(n); };
  const bool closed = sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean);
  const std::uint64_t address = sb_.base_history_count > 1 ? 0 : sb_.base_address;
  const status s = looked_at(repair_log(base_, g_, closed, how_ == salvaging::all, address, add, report_.aligned));
  if (!s) refuse(last_message());
}

void repair_image::mend_beside_objects() {
  // Regions first: structures take pages that look free, and an entry that is lost looks so until its set is mended.
  mend_sets(mending_of_sets());
  mend_structures();
  mend_structures_of_stores();
  const auto tell = [this](std::uint64_t at, const char* what) { note(mending::lost, at, what); };
  if (!looked_at(mend_regions(base_, g_, tell))) refuse(last_message());
}

// Counts follow from pointers, once all that these lead to is in its place.
void repair_image::mend_counts() {
  const auto rings = read_anchor_word(base_, g_, anchor_word::references);
  const auto root = read_root(base_, g_);
  const auto types = read_anchor_word(base_, g_, anchor_word::types);
  if (!rings || *rings == 0 || !root || !types) return;
  counted_image image{base_, g_, sb_.base_address, *root, *types, *rings, {}};
  const tx::pool_targets targets{base_, g_};
  if (lanes_say_ends(sb_)) {
    image.end_of_lane = [&](unsigned i) {
      return log::lane_reader{base_, g_, tx::pool_key(sb_.uuid), i, targets}.attached();
    };
  }
  // Where pointers assume several addresses, or types are lost, the next open that counts does it.
  const bool later = sb_.base_history_count > 1 || *types == 0;
  const auto mended = later ? result<std::uint64_t>{count_later(image)} : mend_references(image);
  if (!mended) {
    (void)looked_at(status{mended.error()});
    make_rings_anew(image, g_.lane_count != 0 ? g_.lane_count : 1);
    note(mending::mended, *rings, "rings of activation records: made anew; the next open counts references");
  } else if (*mended != 0) {
    note(mending::mended, *rings, text_of("references: %lu counts were not what the pointers say", *mended));
  }
}

void repair_image::count_aligned() {
  space_summary space;
  std::uint64_t directories = 0;
  space_check tell;
  tell.of_store = [&](const cluster& c, std::uint64_t structure_pages) {
    const auto has = [&](std::size_t field) {
      return c.first && load_word(base_, cluster_word_at(g_, c.page, field)) != 0;
    };
    directories += has(offsetof(layout::cluster_header, key_values)) ? 1 : 0;
    report_.structures_in_stores +=
        structure_pages + (has(offsetof(layout::cluster_header, structures)) ? std::uint64_t{1} : 0);
  };
  (void)check_space(base_, g_, tell, space);
  report_.aligned = space.aligned;
  report_.clusters = space.clusters;
  report_.directories = directories;
}

void repair_image::compare_objects() {
  const objects after = intact_objects();
  report_.objects_intact = before_.size();
  report_.objects = after.size();
  for (const auto& [at, o] : before_) {
    const auto same = after.find(at);
    if (same != after.end() && same->second.bytes == o.bytes && same->second.type == o.type) continue;
    refuse(text_of("the object at offset %lu, which is intact, would be lost", at));
    break;
  }
}

void repair_image::note(mending how, std::uint64_t offset, std::string what) {
  report_.notes.push_back(note_of(how, offset, std::move(what)));
}

repair_image::objects repair_image::intact_objects() const {
  objects found;
  // Damaged entries and extents are passed over: their objects are not intact.
  (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
    layout::object_header h;
    std::memcpy(&h, base_ + at, sizeof h);
    if (l == layout::object_layout::typed && layout::object_header_holds(h, at)) {
      found.emplace(at, object_found{layout::object_size(h), h.type});
    }
    return true;
  });
  return found;
}

// ---- logs ----

void repair_image::settle_logs() {
  struct log_mending {
    log_kind kind;
    void (repair_image::*settle)(bool clean);  // null: there is no log area
  };
  static constexpr log_table<log_mending> mendings{{{
      {log_kind::lanes, &repair_image::settle_lanes},
      {log_kind::rings, &repair_image::settle_rings},
      {log_kind::new_words, &repair_image::settle_word_logs<log::mnemosyne_kind::redo>},
      {log_kind::old_words, &repair_image::settle_word_logs<log::mnemosyne_kind::undo>},
      {log_kind::none, nullptr},
  }}};
  const bool clean = sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean);
  if (sb_.medium == NVM_MEDIUM_SSD) return;
  const auto settle = mendings[log_of(sb_)].settle;
  if (settle == nullptr) return;
  (this->*settle)(clean);
  if (!report_.refusals.empty()) return;
  if (clean) {
    ordered_media nothing;
    tx::recovery_report r;
    tx::free_all_log_runs(nothing, base_, g_, r);
    if (r.freed_log_runs != 0) {
      note(mending::mended, g_.page_map_offset,
           text_of("%lu runs of logs that nothing leads to: freed", r.freed_log_runs));
    }
  }
  // Transactions of a dead owner are completed or rolled back as by the next open: objects that existed before the
  // replay need not exist after it.
  if (!clean) {
    replay(report_.rolled_back);
    before_ = intact_objects();
  }
}

void repair_image::replay(std::uint64_t& rolled_back) {
  tx::recovery_report r;
  const status s = engines::recover_image(base_, g_, sb_, r);
  rolled_back = r.rolled_back;
  if (!looked_at(s)) refuse(last_message());
}

// A word of noise can be corrected by one bit in a quarter of all cases: the result must fit the commit records, too.
void repair_image::correct_retired(unsigned index) {
  const std::uint64_t key = tx::pool_key(sb_.uuid);
  const std::uint64_t at = g_.log_offset + index * g_.lane_bytes;
  const std::uint64_t found = word_at(base_, at);
  if (log::retired_holds(found, at)) return;
  std::uint64_t newest = 0;
  for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
    const layout::commit_record* c = log::commit_at(base_, at, slot, key);
    if (c != nullptr) newest = std::max(newest, c->generation);
  }
  const std::uint64_t made = corrected_word(found, word_seed(at));
  const std::uint64_t generation = made & checked_mask;
  const bool blank = std::popcount(found) == 1;
  if (blank ? newest >= layout::commit_slots
            : made == 0 || generation > newest || newest - generation >= layout::commit_slots)
    return;
  const std::uint64_t word = blank ? 0 : made;
  std::memcpy(base_ + at, &word, sizeof word);
  note(mending::mended, at, text_of("log of lane %u: retired generation, one bit changed back", index));
}

void repair_image::settle_lanes(bool clean) {
  const tx::pool_targets targets{base_, g_};
  const std::uint64_t key = tx::pool_key(sb_.uuid);
  bool pages_tried = false;
  for (unsigned i = 0; i < g_.lane_count; ++i) {
    const std::uint64_t at = g_.log_offset + i * g_.lane_bytes;
    correct_retired(i);
    log::lane_reader lane{base_, g_, key, i, targets};
    status s = looked_at(lane.validate());
    if (s && !clean) {
      lane.each_damaged(false, [&](std::uint64_t record) {
        std::memset(base_ + record, 0, line_bytes);
        note(mending::mended, record, text_of("log of lane %u: a commit record that was not needed any more", i));
      });
      continue;
    }
    if (s && !lane.damaged(true) && !lane.unfinished()) continue;
    if (clean) {
      begin_anew(i);
      note(mending::mended, at,
           text_of("log of lane %u: begun anew; the pool had been closed, nothing in it counted", i));
      continue;
    }
    // Perhaps the page map is damaged, so that its targets are not found.
    if (!pages_tried) {
      pages_tried = true;
      mend_pages();
      log::lane_reader again{base_, g_, key, i, targets};
      s = looked_at(again.validate());
      if (s) continue;
    }
    salvage_lane(i, last_message());
  }
}

// Makes a lane that is at rest, with a generation that no record in an old segment can have.
void repair_image::begin_anew(unsigned index) {
  constexpr std::uint64_t beyond_all = std::uint64_t{1} << 48;
  const std::uint64_t key = tx::pool_key(sb_.uuid);
  const std::uint64_t at = g_.log_offset + index * g_.lane_bytes;
  const std::uint64_t retired = word_at(base_, at);
  std::uint64_t generation = log::retired_holds(retired, at) ? retired & checked_mask : 0;
  std::uint32_t attached = 0;
  std::uint64_t newest = 0;
  for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
    const layout::commit_record* c = log::commit_at(base_, at, slot, key);
    if (c == nullptr) continue;
    generation = std::max(generation, c->generation);
    if (c->generation >= newest) attached = c->attached;
    newest = std::max(newest, c->generation);
  }
  const bool is_believed = generation != 0 && generation < layout::generation_max - layout::generations_kept;
  generation = is_believed ? generation + 2 * layout::commit_slots : beyond_all;
  std::memset(base_ + at, 0, g_.lane_bytes);
  ordered_media nothing;
  log::lane_reader<tx::pool_targets>::write_commit(nothing, base_, at, generation, layout::outcome::rest, nullptr, 0,
                                                   attached, key);
  const std::uint64_t word = seal_word(generation, word_seed(at));
  std::memcpy(base_ + at, &word, sizeof word);
}

// For a lane that recovery refuses: applies commit records that hold, and puts records of a transaction that had not
// committed back as far as they hold.
void repair_image::salvage_lane(unsigned index, const std::string& fault) {
  const tx::pool_targets targets{base_, g_};
  const std::uint64_t key = tx::pool_key(sb_.uuid);
  const std::uint64_t at = g_.log_offset + index * g_.lane_bytes;
  std::array<const layout::commit_record*, layout::commit_slots> slots{};
  std::uint64_t newest = 0;
  for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
    slots[slot] = log::commit_at(base_, at, slot, key);
    if (slots[slot] != nullptr) newest = std::max(newest, slots[slot]->generation);
  }
  const std::uint64_t word = word_at(base_, at);
  const bool retired_known = log::retired_holds(word, at);
  const std::uint64_t retired = retired_known ? word & checked_mask : newest == 0 ? 0 : newest - 1;
  note(mending::lost, at, text_of("log of lane %u does not hold: %s", index, fault.c_str()));
  for (std::uint64_t generation = retired + 1; generation <= newest; ++generation) {
    const layout::commit_record* c = slots[generation % layout::commit_slots];
    bool made = c != nullptr && c->generation == generation && c->intent_words != layout::intents_elsewhere;
    const auto each = [&](auto&& visit) { return log::each_intent(c->intents, c->intent_words, visit); };
    made = made && each([&](const log::intent& i) { return targets.word(i); });
    if (made) {
      (void)each([&](const log::intent& i) {
        log::apply(base_, i);
        return true;
      });
    } else {
      note(mending::lost, at + layout::commit_slot_at(generation),
           text_of("lane %u, transaction %lu: committed; which objects it made and freed is not known", index,
                   generation));
    }
  }
  // Undo records, newest first.
  std::vector<const layout::record_header*> undo;
  const std::uint64_t open_generation = std::max(newest, retired_known ? retired : newest) + 1;
  (void)log::walk(
      base_, at + layout::lane_body_at, at + g_.lane_bytes, open_generation, log::body_key(key, index), g_.size_bytes(),
      [&](std::uint64_t o, std::uint64_t n) { return targets.segment(o, n); },
      [&](const layout::record_header* r, std::uint64_t place) -> status {
        const bool good =
            !log::is_undo(r) || log::each_range(base_, r, [&](std::uint64_t o, std::uint64_t n, const std::byte*) {
              return targets.range(o, n);
            });
        if (!good) return fail(errc::corrupt, "undo record at offset %lu has ranges outside the data", place);
        if (log::is_undo(r)) undo.push_back(r);
        return {};
      });
  for (auto r = undo.rbegin(); r != undo.rend(); ++r) {
    (void)log::each_range(base_, *r, [&](std::uint64_t o, std::uint64_t n, const std::byte* old) {
      std::memcpy(base_ + o, old, n);
      return true;
    });
  }
  if (!undo.empty()) {
    note(mending::kept, at,
         text_of("lane %u, transaction %lu: rolled back as far as its log holds (%zu records)", index, open_generation,
                 undo.size()));
  }
  begin_anew(index);
}

void repair_image::settle_rings(bool clean) {
  const tx::pool_targets targets{base_, g_};
  const auto valid = [&] {
    log::redo_reader reader{base_, g_, tx::pool_key(sb_.uuid), static_cast<log::validation>(sb_.validation), targets};
    const status s = looked_at(reader.validate());
    return s && !(clean && !reader.at_rest());
  };
  if (valid()) return;
  if (!clean) {
    mend_pages();
    if (valid()) return;
    return refuse(text_of("the log has records that count, and it does not hold: %s", last_message()));
  }
  std::memset(base_ + g_.log_offset, 0, g_.log_bytes);
  note(mending::mended, g_.log_offset, "the log: begun anew; the pool had been closed, nothing in it counted");
}

template <log::mnemosyne_kind Kind>
void repair_image::settle_word_logs(bool clean) {
  const tx::pool_targets targets{base_, g_};
  const bool torn = log::has_torn_bits(static_cast<log::validation>(sb_.validation));
  for (unsigned i = 0; i < g_.lane_count; ++i) {
    const std::uint64_t at = g_.log_offset + i * g_.lane_bytes;
    const auto valid = [&] {
      log::mnemosyne_reader lane{base_, g_, Kind, torn, i, targets};
      const status s = looked_at(lane.validate());
      return s && !(clean && !lane.at_rest());
    };
    if (valid()) continue;
    if (!clean) {
      refuse(text_of("the log of lane %u has records that count, and it does not hold: %s", i, last_message()));
      continue;
    }
    std::memset(base_ + at, 0, g_.lane_bytes);
    note(mending::mended, at,
         text_of("log of lane %u: begun anew; the pool had been closed, nothing in it counted", i));
  }
}

// ---- space ----

void repair_image::mend_extent_headers() {
  const auto header = [this](const mended_header& h) {
    if (h.other != 0) {
      return note(mending::mended, h.extent,
                  text_of("header of an extent: exchanged with that of the extent at offset %lu", h.other));
    }
    note(
        mending::mended, h.extent,
        h.has_all_places
            ? std::string{"header of an extent of nodes, which was that of another one: made anew, with all its places"}
            : text_of("header of an extent, which was that of another one: made anew, with %lu objects", h.objects));
    if (h.twin != 0) {
      note(mending::lost, h.extent,
           text_of("the first page of an extent is a copy of the page at offset %lu: what was in %lu places", h.twin,
                   h.places));
    }
    const layout::extent_shape shape = layout::shape_of(layout::page_kind::coarse, g_.page_shift);
    for (unsigned w = 0; h.has_all_places && w < shape.words; ++w) {
      guessed_words_.insert(h.extent + layout::first_words_at + w * 8);
    }
  };
  const auto object = [this](std::uint64_t at) {
    layout::object_header h;
    std::memcpy(&h, base_ + at, sizeof h);
    repair_note n;
    n.how = mending::kept;
    n.offset = n.object = at;
    n.what = "object, which may have been freed";
    n.bytes = layout::object_size(h);
    n.type = h.type;
    report_.notes.push_back(std::move(n));
  };
  mend_headers(base_, g_, header, object);
}

void repair_image::mend_pages() {
  if (!engine_of(sb_.engine).is_its_log()) {
    mend_extent_headers();
    mend_sizes_of_nodes(base_, g_, [this](std::uint64_t extent, unsigned slots) {
      note(mending::mended, extent, text_of("length bytes of an extent of nodes: made %u slots each", slots));
      const layout::extent_shape shape = layout::shape_of(layout::page_kind::coarse, g_.page_shift);
      for (unsigned w = 0; w < shape.words; ++w) guessed_words_.insert(extent + layout::first_words_at + w * 8);
    });
  }
  mend_space(base_, g_, [this](const mended_place& p) {
    repair_note n;
    n.how = p.how;
    n.offset = p.offset;
    n.what = text_of("%s: found %lx", p.what, p.found);
    if (p.how == mending::mended) n.what += text_of(", made %lx", p.made);
    n.object = p.object;
    n.bytes = p.bytes;
    n.type = p.type;
    if (p.what == all_places_of_nodes) guessed_words_.insert(p.offset);
    if (p.how == mending::cannot) refuse(text_of("offset %lu: %s (found %lx)", p.offset, p.what, p.found));
    report_.notes.push_back(std::move(n));
  });
}

// A zero word of an extent, or a zero entry of the page map, holds, and says that nothing is there.  Objects of
// key-value stores are known otherwise: links lead there, and their headers say that they are stores'.
void repair_image::allocate_what_stores_reach() {
  std::uint64_t directory = 0;
  std::uint64_t made = 0;
  const auto allocate = [&](std::uint64_t place) {
    if (object_in_image(base_, g_, place).bytes == 0) made += allocate_again(place) ? 1 : 0;
  };
  for (unsigned copy = 0; copy < 2; ++copy) {
    for (const anchor_word which : {anchor_word::stores, anchor_word::root}) {
      const std::uint64_t at = anchor_word_at(g_, copy, which);
      const std::uint64_t word = word_at(base_, at);
      const std::uint64_t place = word & checked_mask;
      if (!word_holds(word, word_seed(at)) || place == 0) continue;
      if (which == anchor_word::stores) directory = place;
      allocate(place);
    }
  }
  const auto tell = [&] {
    if (made == 0) return;
    note(mending::mended, g_.page_map_offset,
         text_of("what a name or a key-value store leads to: allocated again, in %lu places", made));
  };
  if (directory == 0) return tell();
  std::vector<std::uint64_t> missing;
  const auto is_allocated = [&](std::uint64_t place, std::uint64_t bytes) {
    if (object_in_image(base_, g_, place).holds(place, bytes)) return true;
    missing.push_back(place);
    return false;
  };
  keyed::read_from_image bytes{base_, g_};
  const status walked = check_stores(bytes, directory, [](std::uint64_t, const char*) {}, is_allocated);
  if (looked_at(walked)) {
    for (const std::uint64_t place : missing) allocate(place);
  }
  tell();
}

// The object whose header lies before `place`, and not before `first`; 0: none is known.
std::uint64_t repair_image::header_before(std::uint64_t place, std::uint64_t first) const {
  constexpr std::uint64_t step = layout::fine_slot_bytes;
  for (std::uint64_t at = round_down(place, step) - step; at >= first; at -= step) {
    layout::object_header h;
    std::memcpy(&h, base_ + at, sizeof h);
    const bool is_it = layout::object_header_holds(h, at) && h.type >= layout::kv_type_header &&
                       h.type <= layout::kv_type_separator && place < at + sizeof h + layout::object_size(h);
    if (is_it) return at;
    if (place - at > layout::coarse_object_max) break;
  }
  return 0;
}

// False: nothing tells of an object there, or something else is there.
bool repair_image::allocate_again(std::uint64_t place) {
  if (!g_.in_data(place, 1)) return false;
  constexpr auto typed = layout::object_layout::typed;
  const std::uint64_t page = g_.page_of(place);
  const tx::pool_targets pages{base_, g_};
  for (const auto kind : {layout::page_kind::fine, layout::page_kind::coarse}) {
    const std::uint64_t count =
        kind == layout::page_kind::fine ? layout::fine_extent_pages : layout::coarse_extent_pages;
    const std::uint64_t first = round_down(page, count);
    const std::uint64_t extent = g_.page_offset(first);
    if (!range_inside(first, count, g_.size_pages) || word_at(base_, extent) != extent_identity_word(extent, kind)) {
      continue;
    }
    const std::uint64_t at = header_before(place, extent);
    if (at == 0) continue;
    const layout::page_entry e = pages.entry_of(first);
    const bool is_there = e.kind == kind && layout::transactional(e) && e.layout == typed;
    if (!is_there && !enter_pages(first, {static_cast<std::uint32_t>(count), 0, kind, typed, {}})) continue;
    // Perhaps only the entry was missing.
    if (object_in_image(base_, g_, place).bytes != 0 || allocate_in_extent(extent, kind, at)) return true;
  }
  const std::uint64_t at = g_.page_offset(page);
  layout::object_header h;
  std::memcpy(&h, base_ + at, sizeof h);
  const std::uint64_t count = ceil_div(layout::object_size(h) + sizeof h, g_.page_bytes());
  if (!layout::object_header_holds(h, at) || place - at > sizeof h + sizeof(layout::rb_links) ||
      !range_inside(page, count, g_.size_pages)) {
    return false;
  }
  return enter_pages(page, {static_cast<std::uint32_t>(count), 0, layout::page_kind::run, typed, {}});
}
bool repair_image::allocate_in_extent(std::uint64_t extent, layout::page_kind kind, std::uint64_t at) {
  const layout::extent_shape s = layout::shape_of(kind, g_.page_shift);
  layout::object_header h;
  std::memcpy(&h, base_ + at, sizeof h);
  const auto slot = static_cast<unsigned>((at - extent) >> s.slot_shift);
  const std::uint64_t slots = ceil_div(layout::object_size(h) + sizeof h, s.slot_bytes);
  if ((at - extent) % s.slot_bytes != 0 || slot < s.header_slots || slots > s.slots - slot) return false;
  for (unsigned i = slot; i < slot + slots; ++i) {
    if (object_in_extent(base_, extent, s, i).bytes != 0) return false;
  }
  const first_bit bit = first_bit_of(extent, slot);
  const std::uint64_t word = word_at(base_, bit.word_offset);
  if (!word_holds(word, word_seed(bit.word_offset))) return false;
  const std::uint64_t sealed =
      seal_word((word & checked_mask) | std::uint64_t{1} << bit.bit, word_seed(bit.word_offset));
  std::memcpy(base_ + bit.word_offset, &sealed, sizeof sealed);
  base_[extent + s.lengths_at + slot] = std::byte{layout::length_byte(static_cast<unsigned>(slots))};
  return true;
}
// Enters pages that are free.
bool repair_image::enter_pages(std::uint64_t page, const layout::page_entry& e) {
  for (std::uint64_t p = page; p < page + e.length_pages; ++p) {
    if (word_at(base_, g_.entry_offset(p)) != 0) return false;
  }
  // A run that begins earlier may reach these pages.
  for (std::uint64_t p = page; p-- != 0;) {
    const std::uint64_t word = word_at(base_, g_.entry_offset(p));
    if (word == 0) continue;
    if (p + layout::unpack(word & checked_mask).length_pages > page) return false;
    break;
  }
  const std::uint64_t at = g_.entry_offset(page);
  const std::uint64_t word = seal_word(layout::pack(e), word_seed(at));
  std::memcpy(base_ + at, &word, sizeof word);
  return true;
}

// Objects without a type are type maps, of which one counts.
void repair_image::free_unnamed() {
  std::uint64_t named = 0;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = anchor_word_at(g_, copy, anchor_word::types);
    const std::uint64_t word = word_at(base_, at);
    if (word_holds(word, word_seed(at)) && word != 0) named = word & checked_mask;
  }
  std::vector<std::uint64_t> others;
  (void)for_each_object(base_, g_, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
    if (l != layout::object_layout::typed && at != named) others.push_back(at);
    return true;
  });
  // Perhaps the name is damaged: then the only map that exists is taken, if it is one.
  if (named == 0 && others.size() == 1 && can_name(anchor_word::types, others.front())) return;
  for (const std::uint64_t at : others) {
    const std::uint64_t entry = g_.entry_offset(g_.page_of(at));
    const layout::page_entry e = layout::unpack(word_at(base_, entry) & checked_mask);
    if (e.kind != layout::page_kind::run || g_.page_offset(g_.page_of(at)) != at) {
      refuse(text_of("offset %lu: an object without a type that nothing names", at));
      continue;
    }
    std::memset(base_ + entry, 0, 8);
    note(mending::mended, at, text_of("%u pages that nothing names: freed", e.length_pages));
  }
}

// ---- lock-free structures -------------------------------------------------------------------------------------------

void repair_image::mend_structures() {
  space_summary s;
  if (!check_space(base_, g_, nullptr, s) || s.structure_pages == 0) return;
  const bool closed = sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean);
  const told_notes add = [this](repair_note n) { report_.notes.push_back(std::move(n)); };
  if (!looked_at(mend_lockfree(base_, g_, closed, guessed_words_, add))) return refuse(last_message());
  ordered_media nothing;
  any_direct medium{nothing};
  log::nothing_logged lanes;
  space<any_direct, log::nothing_logged> pages{medium, lanes, base_, g_};
  if (!looked_at(pages.boot(0, 1))) return refuse(last_message());
  mended_findings findings{base_, pages, add};
  if (!looked_at(tidy_structures(base_, g_, std::ref(findings)))) return refuse(last_message());
  if (const std::string other = findings.settle(); !other.empty()) refuse(other);
}

void repair_image::mend_structures_of_stores() {
  std::map<std::uint32_t, std::uint64_t> stores;
  std::set<std::uint32_t> with_some;
  space_check tell;
  tell.of_store = [&](const cluster& c, std::uint64_t structure_pages) {
    const std::uint64_t at = cluster_word_at(g_, c.page, offsetof(layout::cluster_header, structures));
    if (structure_pages != 0 || (c.first && word_at(base_, at) != 0)) with_some.insert(c.number);
    if (c.first) stores[c.number] = g_.page_offset(c.page);
  };
  space_summary s;
  if (!check_space(base_, g_, tell, s) || with_some.empty()) return;
  std::erase_if(stores, [&](const auto& store) { return !with_some.contains(store.first); });
  const bool closed = sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean);
  const told_notes add = [this](repair_note n) { report_.notes.push_back(std::move(n)); };
  std::string left;
  const status mended = mend_lockfree_in_stores({base_, g_, closed, guessed_words_}, stores, add, left);
  if (!looked_at(mended)) return refuse(last_message());
  if (!left.empty()) refuse(left);
}

}  // namespace nvm::care
