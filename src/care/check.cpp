// Full check of a pool file that nobody has open: read into private memory, where an ssd pool's log is applied or the
// lanes of another are recovered, and walked by the same pure functions that recovery and tests use.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "api/pool_object.hpp"
#include "care/check_pointers.hpp"
#include "care/check_stores.hpp"
#include "care/check_structures.hpp"
#include "care/log_in_image.hpp"
#include "care/regions.hpp"
#include "engine/recover_image.hpp"
#include "engine/ssd.hpp"
#include "log/log.hpp"
#include "logheap/logheap_layout.hpp"
#include "nvm/nvm.h"
#include "object/object.hpp"
#include "space/space.hpp"
#include "tx/tx.hpp"

namespace nvm::care {
namespace {

class findings {
 public:
  findings(nvm_check_report report, void* argument, const pool_file& of) noexcept
      : report_{report}, argument_{argument}, file_{of} {}
  [[gnu::format(printf, 3, 4)]] void add(std::uint64_t offset, const char* format, ...) noexcept {
    if (file_.lost()) return;  // what is found in zeros is none of the file's
    ++count_;
    if (report_ == nullptr) return;
    char text[512];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const platform::out_of_call theirs;
    report_(offset, text, argument_);
  }
  // What was looked at and did not hold; anything but errc::corrupt says that it could not be looked at.
  void add(std::uint64_t offset, const status& s) noexcept {
    if (s.error() == errc::corrupt) return add(offset, "%s", last_message());
    if (unseen_) std::snprintf(why_, sizeof why_, "%s", last_message());
    if (unseen_) unseen_ = s;
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  // Whether all could be looked at.
  [[nodiscard]] status complete() const noexcept {
    if (unseen_) return {};
    return fail(unseen_.error(), "%s", why_);
  }

 private:
  status unseen_;
  char why_[256] = "";
  nvm_check_report report_;
  void* argument_;
  const pool_file& file_;
  std::int64_t count_ = 0;
};

// Both copies must hold: one of them is enough to open the pool, but its loss is damage.
void check_superblocks(const std::byte* base, const geometry& g, std::uint64_t file_bytes, findings& f) noexcept {
  for (unsigned copy = 0; copy < 2; ++copy) {
    layout::superblock sb;
    const std::uint64_t at = g.superblock_at(copy);
    std::memcpy(&sb, base + at, sizeof sb);
    if (sb.magic != layout::pool_magic || sb.crc != superblock_crc(sb)) {
      f.add(at + offsetof(layout::superblock, crc), "superblock copy %c: crc: found %016lx, expected %016lx",
            'A' + copy, sb.crc, superblock_crc(sb));
    } else if (status s = check_superblock(sb, file_bytes); !s) {
      f.add(at, "superblock copy %c: %s", 'A' + copy, last_message());
    }
    if (status s = check_anchor(base, g, copy); !s)
      f.add(g.anchor_at(copy), "anchor %c: %s", 'A' + copy, last_message());
  }
}

// Both copies must hold here too: a header is one sector, which no crash tears.
// A library that does not know of aligned objects is kept out by a bit.
void check_features(const pool_file& file, std::uint64_t aligned, findings& f) noexcept {
  if (aligned == 0 || file.has_feature(layout::feature_aligned)) return;
  f.add(file.geometry().superblock_at(0) + offsetof(layout::superblock, features_incompat),
        "features of the pool: found %08x, without the bit %x of the %lu aligned objects that it has",
        file.superblock().features_incompat, layout::feature_aligned, aligned);
}
void check_ring_headers(const std::byte* base, const layout::superblock& sb, findings& f) noexcept {
  const layout::ring_place place{sb.log_offset, sb.log_bytes};
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = place.header_offset(copy);
    layout::ring_header h;
    std::memcpy(&h, base + at, sizeof h);
    const std::uint64_t expected = checksum(&h, offsetof(layout::ring_header, checksum), layout::ring_magic);
    if (h.magic != layout::ring_magic || h.checksum != expected) {
      f.add(at + offsetof(layout::ring_header, checksum), "log header copy %u: checksum: found %016lx, expected %016lx",
            copy, h.checksum, expected);
    }
  }
}

// The lanes as recovery will find them.
std::uint64_t check_lanes(const std::byte* base, const layout::superblock& sb, bool clean, findings& f) noexcept {
  const geometry g = geometry_of(sb);
  const std::uint64_t key = tx::pool_key(sb.uuid);
  std::uint64_t pending = 0;
  const tx::pool_targets targets{base, g};
  for (unsigned i = 0; i < g.lane_count; ++i) {
    log::lane_reader lane{base, g, key, i, targets};
    if (status s = lane.validate(); !s) {
      f.add(g.log_offset + i * g.lane_bytes, s);
    } else {
      pending += lane.unfinished() ? 1 : 0;
      lane.each_damaged(clean,
                        [&](std::uint64_t at) { f.add(at, "lane %u: found a commit record that fails its check", i); });
    }
  }
  return pending;
}

// The rings of the redo engine, the same way.
std::uint64_t check_rings(const std::byte* base, const layout::superblock& sb, bool clean, findings& f) noexcept {
  const geometry g = geometry_of(sb);
  const tx::pool_targets targets{base, g};
  log::redo_reader reader{base, g, tx::pool_key(sb.uuid), static_cast<log::validation>(sb.validation), targets};
  if (status s = reader.validate(); !s) {
    f.add(g.log_offset, s);
    return 0;
  }
  if (clean && !reader.at_rest()) {
    f.add(g.log_offset, "the log has %lu records to replay, but the pool's state says that it was closed",
          reader.report().records);
  }
  return reader.report().records;
}

// The word logs of a mnemosyne engine, the same way.
std::uint64_t check_word_logs(const std::byte* base, const layout::superblock& sb, log::mnemosyne_kind kind, bool clean,
                              findings& f) noexcept {
  const geometry g = geometry_of(sb);
  const tx::pool_targets targets{base, g};
  const bool torn = log::has_torn_bits(static_cast<log::validation>(sb.validation));
  std::uint64_t pending = 0;
  for (unsigned i = 0; i < g.lane_count; ++i) {
    log::mnemosyne_reader lane{base, g, kind, torn, i, targets};
    if (status s = lane.validate(); !s) {
      f.add(g.log_offset + i * g.lane_bytes, s);
    } else {
      pending += lane.found_any() ? 1 : 0;
      if (clean && !lane.at_rest()) {
        f.add(g.log_offset + i * g.lane_bytes,
              "lane %u: found not at rest, but the pool's state says that it was closed", i);
      }
    }
  }
  return pending;
}

// The log area, whatever it holds; returns the transactions that the next open settles.
std::uint64_t check_logs(const std::byte* base, const layout::superblock& sb, bool clean, findings& f) noexcept {
  switch (log_of(sb)) {
    case log_kind::lanes:
      return check_lanes(base, sb, clean, f);
    case log_kind::rings:
      return check_rings(base, sb, clean, f);
    case log_kind::new_words:
      return check_word_logs(base, sb, log::mnemosyne_kind::redo, clean, f);
    case log_kind::old_words:
      return check_word_logs(base, sb, log::mnemosyne_kind::undo, clean, f);
    case log_kind::none:  // it is in the pages: check_log()
      break;
  }
  return 0;
}

// Whatever has no header is the type map, or lost.
struct untyped_objects {
  const std::byte* base;
  std::uint64_t type_map;  // its place, 0: there is none
  findings& told;
  bool found = type_map == 0;
  std::uint64_t count = 0;

  void look_at(std::uint64_t at, std::uint64_t bytes) {
    ++count;
    if (at != type_map) {
      told.add(at, "object without a type: found %lu bytes that nothing names", bytes);
      return;
    }
    found = true;
    if (const auto read = object::type_map::read(base + at, bytes, at); !read) told.add(at, status{read.error()});
  }
};

// What the anchors name besides.
struct named_objects {
  std::uint64_t root, stores;  // payloads; 0: none
  bool root_found, stores_found;

  void look_at(std::uint64_t at, std::uint64_t bytes) noexcept {
    root_found = root_found || (root > at && root < at + bytes);
    stores_found = stores_found || stores == at + sizeof(layout::object_header);
  }
};

// Pages that can be nobody's: runs of logs in a pool that was closed, and, where all objects are in a log, any but that
// log's.
void check_owners(const std::byte* base, const geometry& g, bool clean, bool is_log, findings& f) noexcept {
  for (std::uint64_t page = 0; page < g.size_pages;) {
    const std::uint64_t at = g.entry_offset(page);
    layout::page_entry e;
    if (entry_fault(load_word(base, at), page, g, g.size_pages, e) != nullptr || e.length_pages == 0) {
      ++page;
      continue;
    }
    if (clean && e.kind == layout::page_kind::log && layout::transactional(e)) {
      f.add(at, "run of a log: found %u pages, expected none in a pool that was closed", e.length_pages);
    } else if (is_log && e.store != logheap::layout::owner) {
      f.add(at, "pages in a log-structured pool: found %u of owner %u, expected the log's (%u)", e.length_pages,
            unsigned{e.store}, unsigned{logheap::layout::owner});
    }
    page += e.length_pages;
  }
}

// The key-value stores of a pool whose pages are sound.
status check_named_stores(pool_file& file, const geometry& g, std::uint64_t directory, findings& f) try {
  keyed::read_from_image bytes{file.base(), g};
  const auto say = [&f](std::uint64_t at, const char* finding) { f.add(at, "%s", finding); };
  object_room last;  // reads follow each other in one object
  const auto is_allocated = [&](std::uint64_t place, std::uint64_t n) {
    if (!last.holds(place, n)) last = object_in_image(file.base(), g, place);
    return last.holds(place, n);
  };
  const auto regions = [&](const keyed::store_facts& facts, const keyed::lewat::rest_report& report) {
    return read_entries_in_regions(file.base(), g, facts, report);
  };
  return check_stores(bytes, directory, say, is_allocated, regions);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the check of stores");
}

// What the pointers of a sound pool lead to; none of that is damage.
status note_pointers(const pool_file& file, std::uint64_t root, std::uint64_t types, const nvm_check_options& how,
                     nvm_check_summary& sum) noexcept {
  // Where a relocation is not finished, pointers assume other addresses as well.
  if (file.bases().count > 1) return {};
  pointer_summary found;
  std::function<void(std::uint64_t, const char*)> note;
  if (how.note != nullptr) {
    note = [&how](std::uint64_t at, const char* text) {
      const platform::out_of_call theirs;
      how.note(at, text, how.argument);
    };
  }
  const status s =
      check_pointers(file.base(), file.geometry(), file.superblock().base_address, root, types, note, found);
  sum.garbage_objects = found.garbage_objects;
  sum.stray_pointers = found.stray;
  sum.foreign_pointers = found.foreign;
  return s;
}

}  // namespace
}  // namespace nvm::care

namespace api = nvm::api;
namespace care = nvm::care;
namespace engines = nvm::engines;
namespace keyed = nvm::keyed;
using nvm::errc;
using nvm::fail;

extern "C" int64_t nvm_pool_check(const char* path, nvm_check_report report, void* argument,
                                  nvm_check_summary* summary) {
  nvm_check_options o{};
  o.report = report;
  o.argument = argument;
  return nvm_pool_check_with(path, &o, summary);
}

extern "C" int64_t nvm_pool_check_with(const char* path, const nvm_check_options* options, nvm_check_summary* summary) {
  const nvm_check_options how = options == nullptr ? nvm_check_options{} : *options;
  if (path == nullptr) return api::report(fail(errc::invalid, "the path is NULL"));
  for (const std::uint64_t r : how.reserved) {
    if (r != 0) return api::report(fail(errc::invalid, "a reserved field of nvm_check_options is %lu, expected 0", r));
  }
  nvm::pool_open_options o;
  o.read_only = true;
  o.accept_copy = how.accept_copy != 0;
  const nvm::platform::in_call here;
  auto opened = nvm::pool_file::open(path, o);
  if (!opened) return api::report(opened.error());
  nvm::pool_file& file = **opened;
  nvm_check_summary sum{};
  care::findings f{how.report, how.argument, file};
  const auto whole = [&](nvm::status s) noexcept { return file.lost() ? file.intact() : s; };
  // The walk over the pages is what takes long; the logs come first.
  const std::uint64_t walk_begin = 1;
  std::uint64_t total = walk_begin + file.geometry().size_pages;
  std::uint64_t told = 0;
  const auto tell = [&](std::uint64_t done) {
    told = std::max(told, done);
    const nvm::platform::out_of_call theirs;
    if (how.progress != nullptr) how.progress(told, total, how.argument);
  };
  tell(0);
  auto file_bytes = file.file().size();
  if (!file_bytes) return api::report(api::about(path, file_bytes.error()));
  // On ssd the pool is what the file says with the log's valid prefix applied; both happens in private memory.
  if (nvm::has_image(file.superblock())) {
    auto applied = engines::apply_log_in_memory(file);
    if (!applied) {
      f.add(file.superblock().log_offset, nvm::status{applied.error()});
    } else {
      sum.pending_transactions += *applied;
    }
    care::check_ring_headers(file.base(), file.superblock(), f);
  }
  const nvm::geometry g = file.geometry();
  const std::byte* base = file.base();
  const bool clean = file.superblock().state == static_cast<std::uint32_t>(nvm::layout::pool_state::clean);
  care::check_superblocks(base, g, *file_bytes, f);
  const auto found_before = f.count();
  const bool is_log = nvm::engine_of(file.superblock().engine).is_its_log();
  sum.pending_transactions += care::check_logs(base, file.superblock(), clean, f);
  // As the next open would: allocation words are written back late, so that those of a crashed pool say nothing before.
  // The logs have been found good.
  if (!clean && !is_log && f.count() == found_before) {
    if (nvm::status recovered = engines::recover_image(file); !recovered) f.add(g.log_offset, recovered);
  }
  // What the pool's own names lead to; copies that do not agree after recovery are refused by the next open.
  const auto named_by = [&](nvm::anchor_word which) {
    const auto place = nvm::read_anchor_word(base, g, which);
    if (!place) f.add(nvm::anchor_word_at(g, 0, which), nvm::status{place.error()});
    return place ? *place : 0;
  };
  // The root names an object's payload, not just any place in the data.
  const std::uint64_t root = named_by(nvm::anchor_word::root);
  // So does the directory of key-value stores, the header of one.
  const std::uint64_t stores = named_by(nvm::anchor_word::stores);
  care::named_objects named{root, stores, root == 0, stores == 0};
  care::untyped_objects untyped{base, named_by(nvm::anchor_word::types), f};
  nvm::space_check telling;
  telling.report = [&](const nvm::damage& d) {
    f.add(d.offset, "%s: found %lx, expected %lx", d.what, d.found, d.expected);
  };
  // One reference: std::function needs no memory for that.
  telling.object = [&named](std::uint64_t at, std::uint64_t bytes) { named.look_at(at, bytes); };
  telling.untyped = [&](std::uint64_t at, std::uint64_t bytes) { untyped.look_at(at, bytes); };
  total = std::max(total, walk_begin + g.size_pages);  // the log may have made the pool larger
  telling.progress = [&](std::uint64_t pages) { tell(walk_begin + pages); };
  nvm::space_summary space;
  (void)nvm::check_space(base, g, telling, space);
  care::check_features(file, space.aligned, f);
  if (!named.root_found) f.add(nvm::root_word_at(g, 0), "root: found offset %lu, expected one inside an object", root);
  if (!named.stores_found) {
    f.add(nvm::anchor_word_at(g, 0, nvm::anchor_word::stores),
          "directory of stores: found offset %lu, expected one of an object", stores);
  }
  if (!untyped.found) {
    f.add(nvm::anchor_word_at(g, 0, nvm::anchor_word::types), "type map: found offset %lu, expected one of an object",
          untyped.type_map);
  }
  care::check_owners(base, g, clean, is_log, f);
  // Where the pages are not sound, walking what is in them says nothing.
  const bool has_sound_pages = f.count() == 0;
  if (!is_log && stores != 0 && has_sound_pages) {
    if (nvm::status s = whole(care::check_named_stores(file, g, stores, f)); !s) {
      return api::report(api::about(path, s.error()));
    }
  }
  if (has_sound_pages && is_log) {
    care::log_summary log;
    const auto say = [&f](std::uint64_t at, const char* finding) { f.add(at, "%s", finding); };
    if (nvm::status s = whole(care::check_log(file, say, log)); !s) return api::report(api::about(path, s.error()));
    care::check_features(file, log.aligned, f);
    space.objects += log.objects;
    space.payload_bytes += log.object_bytes;
    sum.pending_transactions += log.dropped_blocks;
  } else if (has_sound_pages && (space.structure_pages | named_by(nvm::anchor_word::lockfree)) != 0) {
    // A directory that no page is said to be of is looked for, too.
    const auto say = [&f](std::uint64_t at, const char* finding) { f.add(at, "%s", finding); };
    if (nvm::status s = whole(care::check_structures(file.base(), g, say)); !s) {
      return api::report(api::about(path, s.error()));
    }
  }
  if (has_sound_pages && !is_log && f.count() == 0) {
    const nvm::status s = care::note_pointers(file, root, untyped.type_map, how, sum);
    if (nvm::status seen = whole(s); !seen) return api::report(api::about(path, seen.error()));
  }
  // Opening the structures in memory has freed what a crash had left with nobody.
  if (f.count() == 0 && space.structure_pages != 0) {
    nvm::space_summary after;
    (void)nvm::check_space(base, file.geometry(), nullptr, after);
    sum.reclaimed_pages = space.structure_pages - std::min(space.structure_pages, after.structure_pages);
  }
  if (nvm::status s = whole(f.complete()); !s) return api::report(api::about(path, s.error()));
  sum.pages = space.pages;
  sum.damaged_pages = space.damaged_pages;
  sum.free_pages = space.free_pages;
  sum.run_pages = space.run_pages;
  sum.extent_pages =
      space.fine_extents * nvm::layout::fine_extent_pages + space.coarse_extents * nvm::layout::coarse_extent_pages;
  // A structure's pages are the log's where everything is in the log.
  sum.log_pages = space.log_pages + (is_log ? space.structure_pages : 0);
  sum.structure_pages = is_log ? 0 : space.structure_pages;
  sum.structure_nodes = space.structure_nodes;
  sum.objects = space.objects - untyped.count;
  sum.object_bytes = space.payload_bytes;
  if (summary != nullptr) *summary = sum;
  tell(total);
  return f.count();
}
