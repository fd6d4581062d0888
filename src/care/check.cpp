// Full check of a pool file that no process has open: read into private memory, where an ssd pool's log is applied or
// the lanes of another are recovered, and walked by the same pure functions that recovery and tests use.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "api/pool_object.hpp"
#include "base/given_options.hpp"
#include "care/check_names.hpp"
#include "care/check_pointers.hpp"
#include "care/check_stores.hpp"
#include "care/check_structures.hpp"
#include "care/log_in_image.hpp"
#include "care/references_in_image.hpp"
#include "care/regions.hpp"
#include "engine/recover_image.hpp"
#include "engine/ssd.hpp"
#include "log/log.hpp"
#include "logheap/logheap_layout.hpp"
#include "nvm/nvm.h"
#include "object/object.hpp"
#include "pool/log_table.hpp"
#include "space/space.hpp"
#include "tier/tier.hpp"
#include "tx/tx.hpp"

namespace nvm::care {
namespace {

class findings {
 public:
  findings(nvm_check_report report, void* argument, const pool_file& of) noexcept
      : report_{report}, argument_{argument}, file_{of} {}
  [[gnu::format(printf, 3, 4)]] void add(std::uint64_t offset, const char* format, ...) noexcept {
    if (file_.lost()) return;  // a finding in zeros is not the file's
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
  // Adds a part that did not hold; an error other than errc::corrupt says that it could not be looked at.
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
// Numbers of a relocation by transactions, which the next one would believe.
void check_numbers(const pool_file& file, std::uint64_t numbered, findings& f) noexcept {
  if (numbered == 0 || file.has_feature(layout::feature_numbers)) return;
  f.add(0, "numbers of objects: found %lu objects that bear the number of a relocation, and none is under way",
        numbered);
}

// A bit keeps libraries out that do not know of aligned objects.
void check_features(const pool_file& file, std::uint64_t aligned, findings& f) noexcept {
  if (aligned == 0 || file.has_feature(layout::feature_aligned)) return;
  f.add(file.geometry().superblock_at(0) + offsetof(layout::superblock, features_incompat),
        "features of the pool: found %08x, without the bit %x of the %lu aligned objects that it has",
        file.superblock().features_incompat, layout::feature_aligned, aligned);
}
// The same for object stores.
void check_store_feature(const pool_file& file, std::uint64_t clusters, findings& f) noexcept {
  if (clusters == 0 || file.has_feature(layout::feature_stores)) return;
  f.add(file.geometry().superblock_at(0) + offsetof(layout::superblock, features_incompat),
        "features of the pool: found %08x, without the bit %x of the %lu clusters of object stores that it has",
        file.superblock().features_incompat, layout::feature_stores, clusters);
}
// And for lock-free structures in them.
void check_structures_feature(const pool_file& file, std::uint64_t stores, findings& f) noexcept {
  if (stores == 0 || file.has_feature(layout::feature_store_structures)) return;
  f.add(file.geometry().superblock_at(0) + offsetof(layout::superblock, features_incompat),
        "features of the pool: found %08x, without the bit %x of the lock-free structures that %lu object stores have",
        file.superblock().features_incompat, layout::feature_store_structures, stores);
}
// And for key-value stores in them.
void check_kv_feature(const pool_file& file, std::uint64_t directories, findings& f) noexcept {
  if (directories == 0 || file.has_feature(layout::feature_store_kv)) return;
  f.add(file.geometry().superblock_at(0) + offsetof(layout::superblock, features_incompat),
        "features of the pool: found %08x, without the bit %x of the key-value stores that %lu object stores have",
        file.superblock().features_incompat, layout::feature_store_kv, directories);
}
// And for fields that are zero after each open, in the type map.
void check_reset_feature(const pool_file& file, std::uint64_t types, findings& f) {
  if (types == 0 || file.has_feature(layout::feature_reset)) return;
  const auto map = object::type_map::read(file.base() + types, file.geometry().size_bytes() - types, types);
  if (!map || !object::have_reset_fields(*map)) return;
  f.add(file.geometry().superblock_at(0) + offsetof(layout::superblock, features_incompat),
        "features of the pool: found %08x, without the bit %x of the fields that are zero after each open",
        file.superblock().features_incompat, layout::feature_reset);
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
template <log::mnemosyne_kind Kind>
std::uint64_t check_word_logs(const std::byte* base, const layout::superblock& sb, bool clean, findings& f) noexcept {
  const geometry g = geometry_of(sb);
  const tx::pool_targets targets{base, g};
  const bool torn = log::has_torn_bits(static_cast<log::validation>(sb.validation));
  std::uint64_t pending = 0;
  for (unsigned i = 0; i < g.lane_count; ++i) {
    log::mnemosyne_reader lane{base, g, Kind, torn, i, targets};
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

// The log is in the pages: check_log().
std::uint64_t check_no_area(const std::byte*, const layout::superblock&, bool, findings&) noexcept { return 0; }

// The log area, whatever it holds; returns the transactions that the next open settles.
struct log_check {
  log_kind kind;
  std::uint64_t (*check)(const std::byte* base, const layout::superblock& sb, bool clean, findings& f) noexcept;
};
constexpr log_table<log_check> log_checks{{{
    {log_kind::lanes, check_lanes},
    {log_kind::rings, check_rings},
    {log_kind::new_words, check_word_logs<log::mnemosyne_kind::redo>},
    {log_kind::old_words, check_word_logs<log::mnemosyne_kind::undo>},
    {log_kind::none, check_no_area},
}}};

// Objects without a header: the type map, or lost ones.
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
    const auto read = object::type_map::read(base + at, bytes, at);
    if (!read) return told.add(at, status{read.error()});
    const std::uint64_t table = at + (read->bytes().size() - read->statics().size());
    if (read->statics().empty()) return;
    if (const auto t = object::static_table::read(read->statics(), table); !t) told.add(table, status{t.error()});
  }
};

// Other objects that the anchors name.
struct named_objects {
  std::uint64_t root, stores;  // payloads; 0: none
  bool root_found, stores_found;
  const std::byte* base;
  const geometry& shape;
  std::uint64_t store_header = 0;  // of any store; 0: there is none

  std::set<std::uint32_t> homes{};  // numbers of object stores with the header of a key-value store

  void look_at(std::uint64_t at, std::uint64_t bytes) {
    layout::object_header h;
    std::memcpy(&h, base + at, sizeof h);
    // Those in object stores have directories of their own.
    if (h.type == layout::kv_type_header && layout::object_header_holds(h, at)) note_header(at);
    root_found = root_found || (root > at && root < at + bytes);
    stores_found = stores_found || stores == at + sizeof(layout::object_header);
  }
  void note_header(std::uint64_t at) {
    const std::uint64_t head = cluster_head(base, shape, shape.page_of(at));
    if (head == no_cluster) {
      store_header = at;
      return;
    }
    const auto c = cluster_at(base, shape, head);
    if (c) homes.insert(c->number);
  }
};

// Words of zeros hold, and say that nothing is there: `heap_pages` of a log-structured heap without a root.
void check_unnamed(const geometry& g, const named_objects& named, std::uint64_t heap_pages, findings& f) noexcept {
  if (named.stores == 0 && named.store_header != 0) {
    f.add(anchor_word_at(g, 0, anchor_word::stores),
          "directory of key-value stores: found none, and the header of a store at offset %lu", named.store_header);
  }
  if (heap_pages == 0) return;
  f.add(anchor_word_at(g, 0, anchor_word::log_heap), "root of the log-structured heap: found none, and %lu pages of it",
        heap_pages);
}

// Pages that belong to nothing: runs of logs in a pool that was closed, and, where all objects are in a log, all but
// that log's.
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

// The key-value stores of a pool whose pages are sound, or of one object store of it: `number` is 0, or its.
status check_named_stores(pool_file& file, const geometry& g, std::uint64_t directory, std::uint32_t number,
                          findings& f) try {
  keyed::read_from_image bytes{file.base(), g};
  const auto say = [&f](std::uint64_t at, const char* finding) { f.add(at, "%s", finding); };
  object_room last;  // reads follow each other in one object
  const auto is_home = [&](std::uint64_t place) {
    if (!g.in_data(place, 1)) return false;
    const std::uint64_t head = cluster_head(file.base(), g, g.page_of(place));
    if (head == no_cluster) return number == 0;
    const auto c = cluster_at(file.base(), g, head);
    return c && c->number == number;
  };
  const auto is_allocated = [&](std::uint64_t place, std::uint64_t n) {
    if (last.holds(place, n)) return true;
    last = is_home(place) ? object_in_image(file.base(), g, place) : object_room{};
    return last.holds(place, n);
  };
  const auto regions = [&](const keyed::store_facts& facts, const keyed::lewat::rest_report& report) {
    return read_entries_in_regions(file.base(), g, facts, report);
  };
  return check_stores(bytes, directory, say, is_allocated, regions, number);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the check of stores");
}

// Notes where the pointers of a sound pool lead; none of that is damage.
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

// One check of one pool, step by step.
class pool_check {
 public:
  pool_check(pool_file& file, const nvm_check_options& how) noexcept
      : file_{file}, how_{how}, found_{how.report, how.argument, file}, pages_to_walk_{file.geometry().size_pages} {}

  // An error: something could not be looked at.
  [[nodiscard]] status run() {
    static constexpr std::array<status (pool_check::*)(), 5> steps{
        &pool_check::check_metadata,  &pool_check::check_pages,    &pool_check::check_contents,
        &pool_check::count_reclaimed, &pool_check::check_complete,
    };
    tell(0);
    for (const auto take : steps) {
      if (status done = (this->*take)(); !done) return done;
    }
    sum_up();
    tell(walk_begin + pages_to_walk_);
    return {};
  }
  [[nodiscard]] const nvm_check_summary& summary() const noexcept { return sum_; }
  [[nodiscard]] std::int64_t findings_count() const noexcept { return found_.count(); }

 private:
  // The walk over the pages takes longest; the logs come first.
  static constexpr std::uint64_t walk_begin = 1;

  [[nodiscard]] status whole(status s) const noexcept { return file_.lost() ? file_.intact() : s; }
  void tell(std::uint64_t done) {
    told_ = std::max(told_, done);
    const platform::out_of_call theirs;
    if (how_.progress != nullptr) how_.progress(told_, walk_begin + pages_to_walk_, how_.argument);
  }

  // Logs and superblocks.
  [[nodiscard]] status check_metadata() {
    const auto file_bytes = file_.file().size();
    if (!file_bytes) return file_bytes.error();
    // On ssd the pool is the file with the log's valid prefix applied, in private memory.
    if (has_image(file_.superblock())) {
      auto applied = engines::apply_log_in_memory(file_);
      if (!applied) {
        found_.add(file_.superblock().log_offset, status{applied.error()});
      } else {
        sum_.pending_transactions += *applied;
      }
      check_ring_headers(file_.base(), file_.superblock(), found_);
    }
    shape_ = file_.geometry();
    clean_ = file_.superblock().state == static_cast<std::uint32_t>(layout::pool_state::clean);
    is_log_ = engine_of(file_.superblock().engine).is_its_log();
    check_superblocks(file_.base(), shape_, *file_bytes, found_);
    const auto found_before = found_.count();
    const layout::superblock& sb = file_.superblock();
    sum_.pending_transactions += log_checks[log_of(sb)].check(file_.base(), sb, clean_, found_);
    // Recovers as the next open would, since allocation words are written back late, and mean nothing in a crashed pool
    // before that.  The logs have been found good.
    if (!clean_ && !is_log_ && found_.count() == found_before) {
      if (status recovered = engines::recover_image(file_); !recovered) found_.add(shape_.log_offset, recovered);
    }
    return {};
  }

  // The place that an anchor word names; copies that do not agree after recovery are refused by the next open.
  [[nodiscard]] std::uint64_t named_by(anchor_word which) {
    const auto place = read_anchor_word(file_.base(), shape_, which);
    if (!place) found_.add(anchor_word_at(shape_, 0, which), status{place.error()});
    return place ? *place : 0;
  }

  void note_structures(const cluster& c, std::uint64_t structure_pages) {
    const std::uint64_t at = cluster_word_at(shape_, c.page, offsetof(layout::cluster_header, structures));
    if (structure_pages != 0) with_structures_.insert(c.number);
    if (!c.first) return;
    if (load_word(file_.base(), at) != 0) with_structures_.insert(c.number);
    store_pages_[c.number] = shape_.page_offset(c.page);
  }
  void note_directory(const cluster& c) {
    const std::uint64_t at = cluster_word_at(shape_, c.page, offsetof(layout::cluster_header, key_values));
    const std::uint64_t word = c.first ? load_word(file_.base(), at) : 0;
    if (word != 0 && word_holds(word, word_seed(at))) directories_[c.number] = word & checked_mask;
  }

  // Page map, extents, objects, and what the anchors name of these.
  [[nodiscard]] status check_pages() {
    // The root names an object's payload, not just any place in the data.
    root_ = named_by(anchor_word::root);
    // So does the directory of key-value stores, the header of one.
    stores_ = named_by(anchor_word::stores);
    named_objects named{root_, stores_, root_ == 0, stores_ == 0, file_.base(), shape_};
    untyped_objects untyped{file_.base(), named_by(anchor_word::types), found_};
    space_check telling;
    telling.report = [this](const damage& d) {
      found_.add(d.offset, "%s: found %lx, expected %lx", d.what, d.found, d.expected);
    };
    // One reference: std::function needs no memory for that.
    telling.object = [&named](std::uint64_t at, std::uint64_t bytes) { named.look_at(at, bytes); };
    telling.untyped = [&untyped](std::uint64_t at, std::uint64_t bytes) { untyped.look_at(at, bytes); };
    pages_to_walk_ = std::max(pages_to_walk_, shape_.size_pages);  // the log may have made the pool larger
    telling.of_store = [this](const cluster& c, std::uint64_t structure_pages) {
      note_directory(c);
      note_structures(c, structure_pages);
    };
    telling.progress = [this](std::uint64_t pages) { tell(walk_begin + pages); };
    (void)check_space(file_.base(), shape_, telling, space_);
    check_features(file_, space_.aligned, found_);
    check_store_feature(file_, space_.clusters, found_);
    check_kv_feature(file_, directories_.size(), found_);
    check_structures_feature(file_, with_structures_.size(), found_);
    check_numbers(file_, space_.numbered, found_);
    headless_ = std::move(named.homes);
    for (const auto& [number, directory] : directories_) headless_.erase(number);
    if (!named.root_found)
      found_.add(root_word_at(shape_, 0), "root: found offset %lu, expected one inside an object", root_);
    if (!named.stores_found) {
      found_.add(anchor_word_at(shape_, 0, anchor_word::stores),
                 "directory of stores: found offset %lu, expected one of an object", stores_);
    }
    const bool has_no_heap = is_log_ && clean_ && named_by(anchor_word::log_heap) == 0;
    check_unnamed(shape_, named, has_no_heap ? space_.structure_pages : 0, found_);
    if (!untyped.found) {
      found_.add(anchor_word_at(shape_, 0, anchor_word::types), "type map: found offset %lu, expected one of an object",
                 untyped.type_map);
    } else {
      check_reset_feature(file_, untyped.type_map, found_);
    }
    type_map_ = untyped.type_map;
    untyped_ = untyped.count;
    check_owners(file_.base(), shape_, clean_, is_log_, found_);
    return {};
  }

  // Stores, structures, the log, pointers.  If the pages are not sound, a walk over their contents tells nothing.
  [[nodiscard]] status check_contents() {
    if (found_.count() != 0) return {};
    const auto say = [this](std::uint64_t at, const char* finding) { found_.add(at, "%s", finding); };
    if (!is_log_ && stores_ != 0) {
      if (status s = whole(check_named_stores(file_, shape_, stores_, 0, found_)); !s) return s;
    }
    for (const auto& [number, directory] : directories_) {
      if (status s = whole(check_named_stores(file_, shape_, directory, number, found_)); !s) return s;
    }
    if (is_log_) {
      log_summary log;
      if (status s = whole(check_log(file_, say, log)); !s) return s;
      check_features(file_, log.aligned, found_);
      space_.objects += log.objects;
      space_.payload_bytes += log.object_bytes;
      sum_.pending_transactions += log.dropped_blocks;
      return {};
    }
    if (file_.has_feature(layout::feature_stores)) {
      const std::uint64_t catalogue = named_by(anchor_word::catalogue);
      if (status s = whole(check_names(file_.base(), shape_, catalogue, headless_, say)); !s) return s;
    }
    // A directory is looked for even if no page belongs to one.
    const auto sets = read_anchor_word(file_.base(), shape_, anchor_word::regions);
    if (!sets || (space_.structure_pages | named_by(anchor_word::lockfree) | *sets) != 0) {
      if (status s = whole(check_structures(file_.base(), shape_, say)); !s) return s;
    }
    if (!with_structures_.empty()) {
      std::map<std::uint32_t, std::uint64_t> pages;
      for (const std::uint32_t number : with_structures_) {
        if (const auto at = store_pages_.find(number); at != store_pages_.end()) pages.insert(*at);
      }
      if (status s = whole(check_structures_of_stores(file_.base(), shape_, pages, say)); !s) return s;
    }
    if (found_.count() == 0) {
      if (status s = whole(check_counts()); !s) return s;
    }
    return found_.count() == 0 ? whole(note_pointers(file_, root_, type_map_, how_, sum_)) : status{};
  }
  // Where references are counted, the counts.
  [[nodiscard]] status check_counts() {
    const std::uint64_t rings = named_by(anchor_word::references);
    // While a relocation is not finished, pointers assume several addresses.
    if (rings == 0 || file_.bases().count > 1) return {};
    const layout::superblock& sb = file_.superblock();
    counted_image image{file_.base(), shape_, sb.base_address, root_, type_map_, rings, {}};
    const tx::pool_targets targets{file_.base(), shape_};
    if (lanes_say_ends(sb)) {
      image.end_of_lane = [&](unsigned i) {
        return log::lane_reader{file_.base(), shape_, tx::pool_key(sb.uuid), i, targets}.attached();
      };
    }
    return check_references(image, [this](std::uint64_t at, const char* finding) { found_.add(at, "%s", finding); });
  }

  // Opening the structures in memory has freed pages that a crash had left without owner.
  [[nodiscard]] status count_reclaimed() {
    const std::uint64_t before = space_.structure_pages + space_.store_structure_pages;
    if (found_.count() == 0 && before != 0) {
      space_summary then;
      (void)check_space(file_.base(), file_.geometry(), nullptr, then);
      sum_.reclaimed_pages = before - std::min(before, then.structure_pages + then.store_structure_pages);
    }
    return {};
  }

  [[nodiscard]] status check_complete() { return whole(found_.complete()); }

  void sum_up() noexcept {
    sum_.pages = space_.pages;
    sum_.damaged_pages = space_.damaged_pages;
    sum_.free_pages = space_.free_pages;
    // Those of object stores, too; pages of their clusters that hold no object go with the structures'.
    sum_.run_pages = space_.run_pages + space_.store_run_pages;
    sum_.extent_pages = space_.fine_extents * layout::fine_extent_pages +
                        space_.coarse_extents * layout::coarse_extent_pages + space_.store_extent_pages;
    const std::uint64_t of_clusters = space_.cluster_pages - space_.store_run_pages - space_.store_extent_pages;
    // A structure's pages are the log's where everything is in the log.
    sum_.log_pages = space_.log_pages + (is_log_ ? space_.structure_pages : 0);
    sum_.structure_pages = (is_log_ ? 0 : space_.structure_pages) + of_clusters;
    sum_.structure_nodes = space_.structure_nodes;
    sum_.objects = space_.objects - untyped_;
    sum_.object_bytes = space_.payload_bytes;
  }

  pool_file& file_;
  const nvm_check_options& how_;
  findings found_;
  std::uint64_t pages_to_walk_;
  std::uint64_t told_ = 0;
  nvm_check_summary sum_{};
  geometry shape_;
  bool clean_ = false;
  bool is_log_ = false;
  std::uint64_t root_ = 0, stores_ = 0, type_map_ = 0;  // offsets; 0: none
  std::map<std::uint32_t, std::uint64_t> directories_;  // of key-value stores in object stores, by their numbers
  std::map<std::uint32_t, std::uint64_t> store_pages_;  // offsets of the pages of object stores, by their numbers
  std::set<std::uint32_t> with_structures_;             // those with lock-free structures
  std::set<std::uint32_t> headless_;                    // those with key-value stores and no directory
  std::uint64_t untyped_ = 0;                           // objects
  space_summary space_;
};

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
  const auto known = nvm::given_options<64>(options, "nvm_check_options");
  if (!known) return api::report(known.error());
  const nvm_check_options& how = *known;
  if (path == nullptr) return api::report(fail(errc::invalid, "the path is NULL"));
  nvm::pool_open_options o;
  o.read_only = true;
  o.accept_copy = how.accept_copy != 0;
  const nvm::platform::in_call here;
  auto tier = nvm::tier::pool_tier::make(nullptr);
  if (!tier) return api::report(api::about(path, tier.error()));
  o.tier = (*tier)->step();
  auto opened = nvm::pool_file::open(path, o);
  if (!opened) return api::report(opened.error());
  care::pool_check check{**opened, how};
  if (nvm::status s = check.run(); !s) return api::report(api::about(path, s.error()));
  if (summary != nullptr) *summary = check.summary();
  return check.findings_count();
}
