// The part of a domain that opens the directory and the sets on media, and makes and drops sets; included by
// domain.hpp.
//
// Recovery: records that count are replayed in the order of versions (log/redo_recovery.hpp).  Then headers tell which
// regions there are; a run that none names is free, as are pages of sets that do not exist.  Nothing else has to be
// repaired, so that a crash meanwhile leaves the same work.
//
// If a process was killed, and not the machine, recovery sees words that are only in caches.  Before it, or a thread
// that sees its results, acts on them, they are written back: both anchor words, the directory with its entries, the
// page map, zero words too: pages that were given back get another use.        | region/E9  by each part
// Owners of partners that are zero: the regions that they were of are changed by records.  | region/E19  by each part
#pragma once

#include <algorithm>

#include "region/domain.hpp"

namespace nvm::region {

// Places into which records may store.
class record_targets {
 public:
  explicit record_targets(const region_pages& pages) noexcept : pages_{pages} {}
  [[nodiscard]] bool range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return pages_.sizes().in_data(offset, bytes);
  }
  [[nodiscard]] static bool word(const log::intent&) noexcept { return false; }
  // Where the contents of a record may be that fits no ring.
  [[nodiscard]] bool log_run(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const auto run = pages_.owned_at(offset);
    return run && run->offset == offset && run->owner == layout::directory_owner &&
           run->protocol == nvm::layout::slot_protocol::region && bytes <= run->bytes;
  }
  [[nodiscard]] static bool segment(std::uint64_t, std::uint64_t) noexcept { return false; }

 private:
  const region_pages& pages_;
};

// The offset that the anchors name, 0: none; errc::corrupt: neither copy can be read, or it is no directory.
[[nodiscard]] inline result<std::uint64_t> find_directory(const std::byte* base, const geometry& g,
                                                          const region_pages& pages) noexcept {
  bool readable = false;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = anchor_word_at(g, copy, anchor_word::regions);
    const std::uint64_t word = load_word(base, at);
    if (!word_holds(word, word_seed(at))) continue;
    readable = true;
    if (word == 0) continue;
    const std::uint64_t place = word & checked_mask;
    const auto run = pages.owned_at(place);
    if (!run || run->offset != place || run->owner != layout::directory_owner ||
        run->protocol != nvm::layout::slot_protocol::region || run->bytes < sizeof(layout::directory)) {
      return fail(errc::corrupt, "directory of sets of regions: offset %lu is no run of it", place);
    }
    return place;
  }
  if (!readable) return fail(errc::corrupt, "directory of sets of regions: both words that name it fail their checks");
  return std::uint64_t{0};
}
[[nodiscard]] inline status check_directory(const std::byte* base, std::uint64_t at,
                                            const region_pages& pages) noexcept {
  const auto& d = *reinterpret_cast<const layout::directory*>(base + at);
  if (d.magic != layout::directory_magic || d.crc != checksum(&d, offsetof(layout::directory, crc), at)) {
    return fail(errc::corrupt, "directory of sets of regions at offset %lu fails its check", at);
  }
  if (d.version != layout::version) {
    return fail(errc::version, "directory of sets of regions at offset %lu: version %lu, this library knows %lu", at,
                d.version, layout::version);
  }
  if (d.rings == 0) return {};
  const auto run = pages.owned_at(d.rings);
  const bool good = run && run->offset == d.rings && run->owner == layout::directory_owner && d.ring_count != 0 &&
                    d.ring_count <= log::lanes_max && d.ring_bytes >= 4 * line_bytes &&
                    d.ring_bytes % line_bytes == 0 && d.ring_bytes <= run->bytes / d.ring_count;
  if (good) return {};
  return fail(errc::corrupt, "directory of sets of regions: its log at offset %lu is no run of it", d.rings);
}

template <media M>
status domain<M>::open() noexcept {
  const auto at = find_directory(base_, pages_.sizes(), pages_);
  if (!at) return at.error();
  if (*at == 0) return {};
  if (status s = check_directory(base_, *at, pages_); !s) return s;
  directory_ = *at;
  key_ = directory().key;
  copy_directory_line();
  // A crash may have come between the two.
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t word_at = anchor_word_at(pages_.sizes(), copy, anchor_word::regions);
    if ((load_word(base_, word_at) & checked_mask) != directory_) {
      name_directory();
      break;
    }
  }
  return open_log();
}

template <media M>
status domain<M>::open_log() noexcept try {
  std::uint64_t used = 0;
  if constexpr (record_log<M>::replays) {
    // The image of a pool on ssd, which is only looked at.
    if (place_of_rings().offset == 0) return {};
    const geometry g = geometry_with(pages_.sizes(), place_of_rings());
    const record_targets targets{pages_};
    log::redo_reader reader{base_, g, key_, log::validation::by_record, targets};
    if (status s = reader.validate(); !s) return s;
    report_.records = reader.report().records;
    used = reader.report().used;
    reader.replay(medium_, base_);
  }
  log_ = std::make_unique<record_log<M>>(medium_, base_, pages_, place_of_rings(), used);
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the log of regions");
}

// ---- sets ----------------------------------------------------------------------------------------------------------

// One thread's findings about the pages of all sets.
template <media M>
class domain<M>::finder {
 public:
  finder(domain& d, const told* tell) noexcept : domain_{d}, tell_{tell} {}

  void find(std::uint64_t first, std::uint64_t end) noexcept {
    if (tell_ == nullptr) domain_.write_back_pages(first, end);
    domain_.pages_.each_owned(first, end, this, [](void* raw, const owned_pages& p) {
      auto& self = *static_cast<finder*>(raw);
      if (p.protocol == nvm::layout::slot_protocol::region) self.see(p);
      return self.outcome.has_value();
    });
    if (was_free_) domain_.medium_.fence(edge{"region/E19"});
  }

  // Called when all finders are done; the caller fences the stores.
  void settle_partners() noexcept {
    for (const seen_partner& p : partners_seen) {
      if (outcome) settle_partner(p);
    }
  }

  struct seen_partner {
    set* in;
    std::uint64_t at;      // of its line
    std::uint64_t header;  // of its region
    unsigned in_class;
    layout::partner_kind kind;
  };
  std::vector<seen_partner> partners_seen;
  std::vector<std::uint64_t> unnamed;  // runs that may be free
  std::vector<std::uint64_t> named;    // runs that headers name
  std::uint64_t regions = 0;
  std::uint64_t put_back = 0;
  std::array<tally, layout::sets_max> seen{};  // of each set, damaged ones too
  status outcome;
  std::array<char, 256> why{};

 private:
  void see(const owned_pages& p) noexcept try {
    if (p.owner == layout::directory_owner) {
      if (p.offset != domain_.directory_ && (!domain_.exists() || p.offset != domain_.directory().rings)) {
        unnamed.push_back(p.offset);
      }
      return;
    }
    const unsigned index = p.owner - layout::first_owner;
    set* const s = p.owner >= layout::first_owner && index < layout::sets_max ? domain_.sets_[index].get() : nullptr;
    // The saved table of a set has all facts, except partners.
    const bool is_known = s != nullptr && s->regions.saved() != nullptr;
    const bool is_extent = p.layout == nvm::layout::object_layout::region;
    if (is_known && !(is_extent && s->where.has_partners_in(p.offset))) return;
    if (s == nullptr || !is_extent) {
      unnamed.push_back(p.offset);
      return;
    }
    const unsigned in_class = class_of_extent(domain_.base_, p.offset);
    if (in_class == layout::all_classes || p.bytes != s->where.extent_bytes()) {
      damaged(p.offset, "extent of regions fails its check");
      return;
    }
    if (layout::is_of_partners(in_class)) {
      s->where.note_partners(p.offset);
    } else if (is_known) {
      return;
    }
    for (std::uint64_t i = 0; i < layout::slots_in(p.bytes, in_class) && outcome; ++i) {
      const std::uint64_t at = p.offset + layout::slot_at(in_class, i);
      layout::is_of_partners(in_class) ? see_partner(*s, at, in_class) : see_slot(*s, at, in_class);
    }
  } catch (const std::bad_alloc&) {
    outcome = fail(errc::no_memory, "no volatile memory for the regions of a pool");
    keep_why();
  }
  void see_slot(set& s, std::uint64_t at, unsigned in_class) {
    layout::facts f;
    const char* const what = header_fault(domain_.base_, at, in_class, domain_.key_, f);
    if (what == nullptr && f.where == layout::state::free) {
      s.where.put_slot(in_class, at);
      return;
    }
    ++seen[s.index].regions;
    if (what != nullptr) {
      damaged(at, what);
      return;
    }
    auto made = std::make_unique<entry>();
    if (const char* fault = fill_entry(*made, f, at, in_class, domain_.pages_, s.where.owner())) {
      damaged(at, fault);
      return;
    }
    if (f.where == layout::state::run) named.push_back(made->place.load(std::memory_order_relaxed));
    if (status in = s.regions.insert(made.get()); !in) {
      if (in.error() != errc::exists) {
        outcome = in;
        keep_why();
        return;
      }
      damaged(at, "a region has the number of another");
      return;
    }
    (void)made.release();
    ++regions;
  }
  void see_partner(set& s, std::uint64_t at, unsigned in_class) {
    const std::uint64_t owner = partner_at(domain_.base_, at).owner;
    if (owner == 0) {
      // A process killed while giving the partner away may have left the owner in caches only.
      if (tell_ == nullptr && domain_.looks_at_caches()) {
        domain_.medium_.flush(domain_.base_ + owner_at(at), 8);
        was_free_ = true;
      }
      s.where.put_slot(in_class, at);
      return;
    }
    ++seen[s.index].partners;
    const std::uint64_t content = owner & checked_mask;
    const auto kind = static_cast<layout::partner_kind>(content >> layout::owner_bits);
    const std::uint64_t header = content & ((std::uint64_t{1} << layout::owner_bits) - 1);
    const bool known = word_holds(owner, word_seed(owner_at(at))) &&
                       (kind == layout::partner_kind::replica || kind == layout::partner_kind::copies);
    partners_seen.push_back({&s, at, header, in_class, known ? kind : layout::partner_kind::none});
  }
  void settle_partner(const seen_partner& seen) noexcept {
    entry* const e = seen.in->regions.find(partner_at(domain_.base_, seen.at).rid);
    const bool its = seen.kind != layout::partner_kind::none && e != nullptr && e->header == seen.header &&
                     has_room_for(seen, *e) && e->partner == 0;
    if (!its) {
      lost_partner(seen);
      return;
    }
    const std::uint32_t i = seen.in->partners_of.add(*e, seen.at, seen.in_class, seen.kind);
    if (i == 0) {
      outcome = fail(errc::no_memory, "no volatile memory for the partners of regions");
      keep_why();
      return;
    }
    e->partner = i;
    bool back = false;
    if (const char* what = domain_.stores().settle(seen.in->partners_of.at(i), *e, back)) {
      damaged(e->header, what);
      damaged(seen.at, "a partner of a region that is lost");
    }
    if (back) ++put_back;
  }
  [[nodiscard]] static bool has_room_for(const seen_partner& p, const entry& e) noexcept {
    return e.inside() && e.written.load(std::memory_order_relaxed) <= layout::room_in(p.in_class);
  }
  // Its region is lost as well, unless it has the partner's sum.
  void lost_partner(const seen_partner& p) noexcept {
    damaged(p.at, "a partner fails its check");
    const layout::partner& line = partner_at(domain_.base_, p.at);
    std::uint64_t rid = line.rid;
    if (p.kind != layout::partner_kind::none) {
      if (!domain_.pages_.sizes().in_data(p.header, sizeof(layout::header))) return;
      std::memcpy(&rid, domain_.base_ + p.header, sizeof rid);
    }
    const entry* const e = p.in->regions.find(rid);
    if (e == nullptr || !has_room_for(p, *e)) return;
    if (p.kind != layout::partner_kind::none && e->header != p.header) return;  // another one has the number
    if (domain_.stores().home_is_whole(line, *e)) return;
    damaged(e->header, "a region whose partner fails its check");
  }
  void damaged(std::uint64_t offset, const char* what) noexcept {
    if (tell_ != nullptr) {
      (*tell_)(offset, what);
      return;
    }
    outcome = fail(errc::corrupt, "%s, at offset %lu", what, offset);
    keep_why();
  }
  void keep_why() noexcept { std::snprintf(why.data(), why.size(), "%s", last_message()); }

  domain& domain_;
  bool was_free_ = false;
  const told* tell_;
};

template <media M>
status domain<M>::open_sets(unsigned parts, const told* tell) noexcept try {
  for (unsigned i = 0; exists() && i < layout::sets_max; ++i) {
    const std::uint64_t at = entry_at(i);
    const layout::set_entry& e = entry_of(i);
    const bool holds = word_holds(e.state, word_seed(at)) &&
                       (e.state == 0 || is_leaving(i) ||
                        (layout::is_set(e.state & checked_mask) && e.name[layout::name_max] == 0 &&
                         e.crc == checksum(e.name, sizeof e.name, at)));
    if (!holds) {
      const std::uint64_t state = e.state & checked_mask;
      if (word_holds(e.state, word_seed(at)) && state > layout::set_saved && state < layout::leaving) {
        return fail(errc::version, "entry of a set of regions at offset %lu: version %lu, this library knows %lu", at,
                    state, layout::set_saved);
      }
      if (tell == nullptr) return fail(errc::corrupt, "entry of a set of regions at offset %lu fails its check", at);
      (*tell)(at, "entry of a set of regions fails its check");
      continue;
    }
    if (e.state == 0 || is_leaving(i)) continue;
    sets_[i] = std::make_unique<set>(medium_, base_, pages_, i, e.state & checked_mask, options_.levelling);
    sets_[i]->is_counted.store(sets_[i]->counts_at_rest && has_tally(e), std::memory_order_relaxed);
    sets_[i]->partners_of.limit(options_.replicas);
    if (tell == nullptr && take_saved(*sets_[i], parts)) {
      ++report_.tables;
      report_.regions += sets_[i]->regions.count();
    }
  }
  // The first part, which is this thread's, fences it.
  if (tell == nullptr) write_back_names();
  const std::uint64_t pages = pages_.size_pages();
  std::vector<std::unique_ptr<finder>> all;
  all.reserve(parts);
  for (unsigned i = 0; i < parts; ++i) all.push_back(std::make_unique<finder>(*this, tell));
  platform::run_parts(parts, [&](unsigned i) noexcept { all[i]->find(pages * i / parts, pages * (i + 1) / parts); });
  std::vector<std::uint64_t> unnamed;
  std::vector<std::uint64_t> named;
  for (const auto& f : all) {
    if (!f->outcome) return fail(f->outcome.error(), "%s", f->why.data());
    unnamed.insert(unnamed.end(), f->unnamed.begin(), f->unnamed.end());
    named.insert(named.end(), f->named.begin(), f->named.end());
    report_.regions += f->regions;
  }
  if (status s = compare_tallies(all, tell); !s) return s;
  if (tell != nullptr) check_saved(parts, *tell, named);
  bool partners_there = false;
  for (const auto& f : all) {
    f->settle_partners();
    if (!f->outcome) return fail(f->outcome.error(), "%s", f->why.data());
    report_.put_back += f->put_back;
    partners_there = partners_there || !f->partners_seen.empty();
  }
  if (partners_there) medium_.fence(edge{"region/E15"});
  std::sort(named.begin(), named.end());
  if (const auto twice = std::adjacent_find(named.begin(), named.end()); twice != named.end()) {
    if (tell == nullptr) return fail(errc::corrupt, "two regions name the pages at offset %lu", *twice);
    (*tell)(*twice, "pages that two regions name");
  }
  std::erase_if(unnamed, [&](std::uint64_t r) { return std::binary_search(named.begin(), named.end(), r); });
  report_.runs_freed = unnamed.size();
  if (status s = look_for_sets(unnamed, tell); !s) return s;
  // To a check that tells, these runs belong to damaged headers.
  if (tell != nullptr) return {};
  pages_.give(unnamed);
  for (unsigned i = 0; exists() && i < layout::sets_max; ++i) {
    if (is_leaving(i)) store_word(entry_at(i), 0);
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the regions of a pool");
}

template <media M>
status domain<M>::compare_tallies(std::span<const std::unique_ptr<finder>> all, const told* tell) const noexcept {
  for (unsigned i = 0; i < layout::sets_max; ++i) {
    if (sets_[i] == nullptr || !sets_[i]->is_counted.load(std::memory_order_relaxed)) continue;
    tally found;
    for (const auto& f : all) {
      found.regions += f->seen[i].regions;
      found.partners += f->seen[i].partners;
    }
    // The numbers are those of the table; headers were not read.
    if (sets_[i]->regions.saved() != nullptr) found.regions = sets_[i]->regions.count();
    const auto compare = [&](std::uint64_t at, std::uint64_t there, const char* of) -> status {
      char what[192];
      const std::uint64_t word = load_word(base_, at);
      const auto had = counted_in(base_, at);
      if (had && *had == there) return {};
      if (had) {
        (void)std::snprintf(what, sizeof what,
                            "set of regions '%s': %lu %s are there, and %lu were when the pool was closed",
                            entry_of(i).name, there, of, *had);
      } else if (word_holds(word, word_seed(at))) {
        return {};
      } else {
        // Its content is lost.
        (void)std::snprintf(what, sizeof what, "set of regions '%s': the number of its %s fails its check",
                            entry_of(i).name, of);
        if (tell == nullptr) return {};
      }
      if (tell == nullptr) return fail(errc::corrupt, "%s", what);
      (*tell)(at, what);
      return {};
    };
    if (status s = compare(regions_word_at(entry_at(i)), found.regions, "regions"); !s) return s;
    if (status s = compare(partners_word_at(entry_at(i)), found.partners, "partners of regions"); !s) return s;
  }
  return {};
}

// Pages of a set have an entry that says so: a crash leaves none without.
template <media M>
status domain<M>::look_for_sets(const std::vector<std::uint64_t>& unnamed, const told* tell) const noexcept {
  std::array<bool, layout::sets_max> missed{};
  for (const std::uint64_t at : unnamed) {
    const auto run = pages_.owned_at(at);
    const unsigned i = run ? run->owner - layout::first_owner : layout::sets_max;
    if (!run || run->owner < layout::first_owner || i >= layout::sets_max) continue;
    if (!exists()) {
      if (tell == nullptr) return fail(errc::corrupt, "pages of a set of regions at offset %lu, and no directory", at);
      (*tell)(at, "pages of a set of regions, and no directory");
    } else if (entry_of(i).state == 0) {
      missed[i] = true;
    }
  }
  for (unsigned i = 0; i < layout::sets_max; ++i) {
    if (!missed[i]) continue;
    constexpr const char* what = "entry of a set of regions: its state is zero, and there are pages of it";
    if (tell == nullptr) return fail(errc::corrupt, "%s, at offset %lu", what, entry_at(i));
    (*tell)(entry_at(i), what);
  }
  return {};
}

// Flushed, unless it is there already.  A copy that a crash has torn is made again by the next open.
template <media M>
void domain<M>::copy_directory_line() noexcept {
  const std::uint64_t run_bytes = round_up(sizeof(layout::directory), pages_.sizes().page_bytes());
  std::byte* const copy = base_ + directory_ + layout::directory_copy_at(run_bytes);
  if (std::memcmp(copy, &directory(), layout::directory_line_bytes) == 0) return;
  std::memcpy(copy, &directory(), layout::directory_line_bytes);
  medium_.flush(copy, layout::directory_line_bytes);
}

// Whether words that recovery sees may be missing on the medium.
template <media M>
void domain<M>::write_back_names() noexcept {
  if (!exists() || !looks_at_caches()) return;
  for (unsigned copy = 0; copy < 2; ++copy) {
    medium_.flush(base_ + anchor_word_at(pages_.sizes(), copy, anchor_word::regions), 8);
  }
  medium_.flush(&directory(), sizeof(layout::directory));
}
template <media M>
void domain<M>::write_back_pages(std::uint64_t first, std::uint64_t end) noexcept {
  if (!looks_at_caches()) return;
  if (first < end) medium_.flush(base_ + pages_.sizes().entry_offset(first), (end - first) * 8);
  medium_.fence(edge{"region/E9"});
}

template <media M>
status domain<M>::make_directory() noexcept {
  const geometry& g = pages_.sizes();
  const auto take = [&](std::uint64_t bytes) {
    return pages_.take_run(0, nvm::layout::slot_protocol::region, layout::directory_owner, bytes);
  };
  const auto at = take(sizeof(layout::directory));
  if (!at) return at.error();
  layout::directory d{};
  d.magic = layout::directory_magic;
  d.version = layout::version;
  d.key = options_.key;
  if constexpr (record_log<M>::replays) {
    const std::uint64_t page = g.page_bytes();
    d.ring_count = options_.lanes;
    d.ring_bytes = options_.ring_bytes != 0
                       ? options_.ring_bytes
                       : std::clamp(round_up(g.capacity_bytes() / 4096, page), 2 * page, std::uint64_t{256} << 10);
    const auto rings_at = take(d.ring_bytes * d.ring_count);
    if (!rings_at) {
      pages_.give(*at);
      return rings_at.error();
    }
    d.rings = *rings_at;
    for (std::uint64_t i = 0; i < d.ring_count; ++i) {
      std::byte* const head = base_ + d.rings + i * d.ring_bytes;
      std::memset(head, 0, line_bytes);
      medium_.flush(head, line_bytes);
    }
  }
  d.crc = checksum(&d, offsetof(layout::directory, crc), *at);
  std::memcpy(base_ + *at, &d, sizeof d);
  directory_ = *at;
  copy_directory_line();
  medium_.flush(base_ + *at, sizeof d);
  medium_.fence(edge{"region/E4"});
  key_ = d.key;
  name_directory();
  return open_log();
}

template <media M>
auto domain<M>::create(std::string_view name) noexcept -> result<set*> try {
  if (name.empty() || name.size() > layout::name_max || name.find('\0') != std::string_view::npos) {
    return fail(errc::invalid, "the name of a set of regions has 1 to %u bytes and no zero byte", layout::name_max);
  }
  if (!exists()) {
    if (status s = make_directory(); !s) return s.error();
  } else if (!has_log()) {
    // There was no memory for it when the directory was made.
    if (status s = open_log(); !s) return s.error();
  }
  unsigned i = 0;
  while (i < layout::sets_max && sets_[i] != nullptr) ++i;
  if (i == layout::sets_max) return fail(errc::too_large, "the pool has %u sets of regions already", i);
  auto made = std::make_unique<set>(medium_, base_, pages_, i, layout::set_saved, options_.levelling);
  made->partners_of.limit(options_.replicas);
  const std::uint64_t at = entry_at(i);
  auto& e = *reinterpret_cast<layout::set_entry*>(base_ + at);
  std::memset(e.name, 0, sizeof e.name);
  std::memcpy(e.name, name.data(), name.size());
  e.crc = checksum(e.name, sizeof e.name, at);
  e.regions = e.partners = e.saved = e.saved_crc = 0;
  medium_.flush(e.name, sizeof e.name + sizeof e.crc + tally_bytes);
  medium_.fence(edge{"region/E6"});
  store_word(at, layout::set_saved);
  medium_.fence(edge{"region/E7"});
  const std::lock_guard guard{giving_};
  sets_[i] = std::move(made);
  return sets_[i].get();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a set of regions");
}

template <media M>
void domain<M>::drop(set& s) noexcept {
  const std::uint16_t owner = s.where.owner();
  const std::lock_guard guard{giving_};
  log_->truncate();  // no record leads into its pages
  limbo_.forget_places_of(owner);
  store_word(entry_at(s.index), layout::leaving);
  medium_.fence(edge{"region/E8"});
  struct job {
    region_pages& pages;
    std::uint16_t owner;
    std::array<std::uint64_t, 64> at;
    std::size_t n = 0;
  } gives{pages_, owner, {}};
  pages_.each_owned(0, pages_.size_pages(), &gives, [](void* raw, const owned_pages& p) {
    job& j = *static_cast<job*>(raw);
    if (p.owner != j.owner || p.protocol != nvm::layout::slot_protocol::region) return true;
    j.at[j.n++] = p.offset;
    if (j.n == j.at.size()) j.pages.give(std::span{j.at.data(), std::exchange(j.n, 0)});
    return true;
  });
  if (gives.n != 0) pages_.give(std::span{gives.at.data(), gives.n});
  store_word(entry_at(s.index), 0);
  forget_entries(s);
  sets_[s.index].reset();
}

}  // namespace nvm::region
