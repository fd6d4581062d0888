#include "region_reader.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "nvm/nvm.h"
#include "pool/pool.hpp"
#include "space/space.hpp"

namespace nvm::tests {
namespace {

namespace on_media = region::layout;

struct pages {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint16_t owner;
  layout::object_layout as;
};

class regions_reader {
 public:
  regions_reader(const std::byte* base, const geometry& g, bool image, bool alone = true)
      : base_{base}, g_{g}, image_{image}, alone_{alone} {}

  region_contents read() {
    find_allocated();
    std::uint64_t words[2];
    for (unsigned copy = 0; copy < 2; ++copy) words[copy] = content(anchor_word_at(g_, copy, anchor_word::regions));
    if (words[0] != words[1]) broken("the anchors do not say the same", words[0]);
    if (words[0] != 0 && out_.fault.empty()) read_directory(words[0]);
    for (const pages& p : allocated_) {
      if (out_.fault.empty() && !named_.contains(p.offset)) broken("pages of regions that nothing leads to", p.offset);
    }
    return std::move(out_);
  }
  // Of a pool whose directory is whole.
  [[nodiscard]] const on_media::directory* directory() const {
    const std::uint64_t word = load_word(base_, anchor_word_at(g_, 0, anchor_word::regions));
    return word == 0 ? nullptr : reinterpret_cast<const on_media::directory*>(base_ + (word & checked_mask));
  }

 private:
  void broken(const char* what, std::uint64_t at) {
    if (out_.fault.empty()) out_.fault = what + (" at offset " + std::to_string(at));
  }
  // Content of a checked word.
  std::uint64_t content(std::uint64_t at) {
    const std::uint64_t word = load_word(base_, at);
    if (!word_holds(word, word_seed(at))) broken("a word fails its check", at);
    return word & checked_mask;
  }

  void find_allocated() {
    space_summary summary;
    space_check tell;
    tell.report = [&](const damage& d) { broken(d.what, d.offset); };
    tell.of_structure = [&](std::uint16_t owner, std::uint64_t offset, std::uint64_t bytes) {
      const auto e = layout::unpack(load_word(base_, g_.entry_offset(g_.page_of(offset))) & checked_mask);
      if (e.protocol != layout::slot_protocol::region || e.kind != layout::page_kind::run) {
        broken("pages that are no regions'", offset);
      }
      allocated_.push_back({offset, bytes, owner, e.layout});
    };
    (void)check_space(base_, g_, tell, summary);
    if (alone_ && summary.objects != 0) broken("an object of transactions", summary.objects);
    if (summary.log_runs != 0) broken("a log run", summary.log_runs);
  }
  // The run of the owner that begins there; nullptr: there is none.
  const pages* run_at(std::uint64_t offset, std::uint16_t owner, layout::object_layout as) {
    for (const pages& p : allocated_) {
      if (p.offset == offset && p.owner == owner && p.as == as) return &p;
    }
    return nullptr;
  }
  // Somebody leads to these pages, and nobody has before.
  const pages* name(std::uint64_t offset, std::uint16_t owner, layout::object_layout as, std::uint64_t bytes) {
    const pages* const p = run_at(offset, owner, as);
    if (p == nullptr || p->bytes < bytes) {
      broken("something leads to pages that are not its own", offset);
      return nullptr;
    }
    if (!named_.insert(offset).second) broken("two lead to the same pages", offset);
    return p;
  }

  void read_directory(std::uint64_t at) {
    if (name(at, on_media::directory_owner, layout::object_layout::raw, sizeof(on_media::directory)) == nullptr) return;
    const auto& d = *reinterpret_cast<const on_media::directory*>(base_ + at);
    if (d.magic != on_media::directory_magic || d.version != 1 ||
        d.crc != checksum(&d, offsetof(on_media::directory, crc), at)) {
      return broken("no directory", at);
    }
    if ((d.rings == 0) != image_) return broken("a directory and its log", at);
    key_ = d.key;
    const std::uint64_t ring_bytes = d.ring_bytes * d.ring_count;
    if (d.rings != 0 && name(d.rings, on_media::directory_owner, layout::object_layout::raw, ring_bytes) == nullptr) {
      return;
    }
    for (unsigned i = 0; i < on_media::sets_max && out_.fault.empty(); ++i) {
      const std::uint64_t entry = at + offsetof(on_media::directory, entries) + i * sizeof(on_media::set_entry);
      const on_media::set_entry& e = d.entries[i];
      if (content(entry) == 0) continue;
      if (e.crc != checksum(e.name, sizeof e.name, entry)) return broken("an entry of a set", entry);
      out_.sets.push_back({e.name, {}});
      read_saved(static_cast<std::uint16_t>(on_media::first_owner + i), entry);
      read_set(static_cast<std::uint16_t>(on_media::first_owner + i), out_.sets.back());
    }
  }
  // The table that the last close has saved, if the set has not changed since.
  void read_saved(std::uint16_t owner, std::uint64_t entry) {
    const auto& e = *reinterpret_cast<const on_media::set_entry*>(base_ + entry);
    if (e.regions == 0 || e.partners == 0 || e.saved == 0) return;
    const std::uint64_t at = content(region::saved_word_at(entry));
    if (run_at(at, owner, layout::object_layout::raw) == nullptr) return;
    const auto& h = *reinterpret_cast<const on_media::saved_head*>(base_ + at);
    if (h.crc == e.saved_crc && h.crc == region::saved_crc(h, at, key_)) named_.insert(at);
  }
  void read_set(std::uint16_t owner, region_contents::one& set) {
    std::set<std::uint64_t> rids;
    std::vector<std::uint64_t> partners;
    for (const pages& p : allocated_) {
      if (p.owner != owner || p.as != layout::object_layout::region) continue;
      named_.insert(p.offset);
      const unsigned in_class = region::class_of_extent(base_, p.offset);
      if (in_class == on_media::all_classes) return broken("no extent of regions", p.offset);
      for (std::uint64_t i = 0; i < on_media::slots_in(p.bytes, in_class); ++i) {
        const std::uint64_t at = p.offset + on_media::slot_at(in_class, i);
        if (on_media::is_of_partners(in_class)) {
          if (region::partner_at(const_cast<std::byte*>(base_), at).owner != 0) partners.push_back(at);
          continue;
        }
        on_media::facts f;
        if (const char* what = region::header_fault(base_, at, in_class, key_, f)) return broken(what, at);
        if (f.where == on_media::state::free) continue;
        if (!rids.insert(f.rid).second) return broken("a region is there twice", at);
        read_region(f, at, owner, set);
        if (f.where == on_media::state::inside) inside_[at] = f;
      }
    }
    for (const std::uint64_t at : partners) read_partner(at, set);
    std::sort(set.items.begin(), set.items.end(), [](auto& a, auto& b) { return a.rid < b.rid; });
  }
  // After recovery a replica says what its region has, though it may lag; of two copies the newer one is the region's,
  // and none that fails its sum says that it is newer.
  void read_partner(std::uint64_t at, region_contents::one& set) {
    on_media::partner line;
    std::memcpy(&line, base_ + at, sizeof line);
    const std::uint64_t word = content(region::owner_at(at));
    const std::uint64_t header = word & ((std::uint64_t{1} << on_media::owner_bits) - 1);
    const auto its = inside_.find(header);
    if (its == inside_.end()) return broken("a partner of no region", at);
    const on_media::facts f = its->second;
    inside_.erase(its);
    if (line.rid != f.rid) return broken("a partner of another region", at);
    const std::byte* const places[2] = {base_ + header + sizeof(on_media::header), base_ + at + sizeof line};
    const auto holds = [&](unsigned i, std::uint64_t key) {
      return line.sum[i] == region::sum_of(places[i], f.written, header, key);
    };
    switch (static_cast<on_media::partner_kind>(word >> on_media::owner_bits)) {
      case on_media::partner_kind::replica:
        if (!holds(0, key_)) broken("a region is not what its replica says", at);
        return;
      case on_media::partner_kind::copies: {
        const unsigned newer = line.sequence[1] > line.sequence[0] ? 1 : 0;
        if (!holds(newer, mix_seed(key_, line.sequence[newer]))) return broken("the newer copy fails its sum", at);
        for (region_contents::item& i : set.items) {
          if (i.rid == f.rid) std::copy_n(places[newer], f.written, i.bytes.begin());
        }
        return;
      }
      default:
        broken("a partner of an unknown kind", at);
    }
  }
  void read_region(const on_media::facts& f, std::uint64_t at, std::uint16_t owner, region_contents::one& set) {
    std::uint64_t place = at + sizeof(on_media::header);
    if (f.where == on_media::state::run) {
      place = g_.page_offset(f.page);
      if (name(place, owner, layout::object_layout::raw, f.written) == nullptr) return;
    }
    if (f.length > 1'000'000) return broken("a region of many bytes", at);
    region_bytes bytes(f.length);
    std::copy_n(base_ + place, f.written, bytes.begin());
    set.items.push_back({f.rid, std::move(bytes)});
  }

  const std::byte* base_;
  const geometry g_;
  const bool image_;
  const bool alone_;
  std::uint64_t key_ = 0;
  region_contents out_;
  std::vector<pages> allocated_;
  std::map<std::uint64_t, on_media::facts> inside_;  // by header: regions without a partner
  std::set<std::uint64_t> named_;
};

}  // namespace

std::uint64_t set_code(std::string_view name) noexcept { return checksum(name.data(), name.size(), 17); }
std::uint64_t region_code(std::string_view name, std::uint64_t rid, const region_bytes& bytes) noexcept {
  return mix_seed(mix_seed(set_code(name), rid), checksum(bytes.data(), bytes.size(), bytes.size()));
}
std::uint64_t region_contents::digest() const {
  std::uint64_t d = 0;
  for (const one& s : sets) {
    d += set_code(s.name);
    for (const item& i : s.items) d += region_code(s.name, i.rid, i.bytes);
  }
  return d;
}

region_contents regions_in(const std::byte* base, std::size_t available, bool alone) {
  const auto sb = pick_superblock(base, available);
  if (!sb) {
    region_contents c;
    c.fault = last_message();
    return c;
  }
  return regions_reader{base, geometry_of(*sb), sb->medium == NVM_MEDIUM_SSD, alone}.read();
}

namespace {

// What records may name, as far as it can be said without a table of pages.
struct inside_pool {
  const geometry& g;
  [[nodiscard]] bool range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return g.in_data(offset, bytes);
  }
  [[nodiscard]] static bool word(const log::intent&) noexcept { return false; }
  [[nodiscard]] bool log_run(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return g.in_data(offset, bytes);
  }
  [[nodiscard]] static bool segment(std::uint64_t, std::uint64_t) noexcept { return false; }
};

}  // namespace

std::uint64_t records_waiting_in(const std::byte* base, std::size_t available) {
  const auto sb = pick_superblock(base, available);
  if (!sb) return ~std::uint64_t{0};
  const geometry g = geometry_of(*sb);
  const auto* const d = regions_reader{base, g, false}.directory();
  if (d == nullptr || d->rings == 0) return 0;
  const geometry of_log =
      region::geometry_with(g, {d->rings, d->ring_bytes, static_cast<std::uint32_t>(d->ring_count), d->key});
  const inside_pool targets{g};
  log::redo_reader found{base, of_log, d->key, log::validation::by_record, targets};
  return found.validate() ? found.report().records : ~std::uint64_t{0};
}

}  // namespace nvm::tests
