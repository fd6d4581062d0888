// Order.  Lock; private image; superblock; log of ssd; repair_image; the image to a new file beside the output
// (platform/pending_name.hpp), synced; the full check of that; damaged key-value stores made anew in it, and the check
// again; its name.  A crash before the name leaves the pool as it was, and the next repair clears the new file away.
#include "care/repair.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "api/pool_object.hpp"
#include "care/mend_stores.hpp"
#include "care/notes.hpp"
#include "care/readable_entries.hpp"
#include "care/repair_image.hpp"
#include "media/media.hpp"
#include "nvm/nvm.h"
#include "object/object.hpp"
#include "platform/private_image.hpp"
#include "tx/tx.hpp"

namespace nvm::care {
namespace {

// Beginning of findings about key-value stores.
constexpr const char* in_a_store = "key-value store \"";
constexpr const char* in_their_directory = "directory of key-value stores";
constexpr std::uint64_t file_page = std::uint64_t{1} << layout::page_shift_default;

// Part of an image as the device that a log lies on.
class image_device final : public block_device {
 public:
  image_device(std::byte* base, std::uint64_t bytes) noexcept : base_{base}, bytes_{bytes} {}
  ~image_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t n, site) noexcept override {
    if (!range_inside(offset, n, bytes_)) return fail(errc::corrupt, "a write after the pool's end");
    std::memcpy(base_ + offset, from, n);
    return {};
  }
  status read(std::uint64_t offset, void* to, std::size_t n) noexcept override {
    if (!range_inside(offset, n, bytes_)) return fail(errc::corrupt, "a read after the pool's end");
    std::memcpy(to, base_ + offset, n);
    return {};
  }
  status sync(edge) noexcept override { return {}; }
  result<std::uint64_t> size() noexcept override { return bytes_; }

 private:
  std::byte* base_;
  std::uint64_t bytes_;
};

class repairer {
 public:
  repairer(const repair_request& request, repair_report& report) noexcept : request_{request}, report_{report} {}

  status run() {
    const platform::in_call here;
    // Before the lock: this opens the pool to read it.
    const readable_entries before = readable_in(request_.path);
    if (status s = open(); !s) return s;
    status done = attempt(salvaging::all, before);
    // Proved entries of a damaged log may hide values that were readable before: then recovery's answer is the better
    // one.
    if (!done && is_worse_ && engine_of(sb_.engine).is_its_log()) done = attempt(salvaging::none, before);
    return done;
  }

 private:
  status attempt(salvaging how, const readable_entries& before) {
    report_ = {};
    is_worse_ = false;
    if (status s = pick(); !s) return s;
    auto image = platform::private_image::of(file_.descriptor(), request_.path.c_str(), facts_.bytes,
                                             geometry_of(sb_).capacity_bytes());
    if (!image) return image.error();
    base_ = image->base();
    if (are_exchanged_) exchange_copies(base_);
    if (status s = apply_ring(); !s) {
      if (status whole = image->intact(); !whole) {
        report_ = {};
        return fail(errc::io, "%s: %s", request_.path.c_str(), last_message());
      }
      return s;
    }
    repair_image steps{base_, sb_, report_, how};
    status outcome = steps.run();
    name_types();
    if (status s = image->intact(); !s) {
      report_ = {};
      return fail(s.error(), "%s: %s", request_.path.c_str(), last_message());
    }
    if (!outcome) return outcome;
    write_superblocks();
    return publish(before);
  }

  void note(mending how, std::uint64_t offset, std::string what) {
    report_.notes.push_back(note_of(how, offset, std::move(what)));
  }

  status open() {
    const char* path = request_.path.c_str();
    auto opened = platform::file::open(path, (request_.in_place ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_NOCTTY);
    if (!opened) return opened.error();
    file_ = std::move(*opened);
    const auto facts = file_.facts();
    if (!facts) return facts.error();
    facts_ = *facts;
    if (!facts_.regular) return fail(errc::not_a_pool, "%s: expected a regular file", path);
    if (status s = request_.in_place ? file_.lock_exclusive() : file_.lock_shared(); !s) {
      if (s.error() == errc::busy) return fail(errc::busy, "%s: a process has it open", path);
      return s;
    }
    if (!request_.in_place && ::access(request_.out.c_str(), F_OK) == 0) {
      return fail(errc::exists, "%s: the file exists", request_.out.c_str());
    }
    return {};
  }

  // The superblock that counts; where none holds, one that does with a single byte changed back.
  status pick() {
    std::array<std::byte, 2 * file_page> header{};
    const std::size_t there = std::min<std::uint64_t>(facts_.bytes, header.size());
    if (status s = file_.read(0, header.data(), there); !s) return s;
    auto picked = pick_superblock(header.data(), there, facts_.bytes);
    if (!picked && picked.error() == errc::corrupt) {
      exchange_copies(header.data());
      picked = pick_superblock(header.data(), there, facts_.bytes);
      are_exchanged_ = static_cast<bool>(picked);
      if (are_exchanged_) note(mending::mended, 0, "superblock: its two copies were exchanged");
      if (!picked) exchange_copies(header.data());
    }
    if (!picked && picked.error() == errc::corrupt) {
      for (unsigned copy = 0; copy < 2; ++copy) correct_superblock(header.data() + copy * file_page, copy);
      picked = pick_superblock(header.data(), there, facts_.bytes);
      if (!picked) report_.refusals.emplace_back(last_message());
    }
    if (!picked) return picked.error();
    if (!request_.accept_copy) {
      layout::owner_record owner;
      std::memcpy(&owner, header.data() + layout::owner_sector, sizeof owner);
      if (status s = check_not_a_copy(owner, file_); !s) return s;
    }
    sb_ = *picked;
    if (sb_.page_shift != layout::page_shift_default || must_be_read_only(sb_)) {
      return fail(errc::version, "%s: of a format that this library must not change", request_.path.c_str());
    }
    if ((sb_.features_incompat & layout::feature_tier) != 0) {
      return fail(errc::version, "%s: some of its pages are in a second file, which repair does not read: salvage does",
                  request_.path.c_str());
    }
    for (unsigned copy = 0; copy < 2; ++copy) {
      layout::superblock other;
      std::memcpy(&other, header.data() + copy * file_page, sizeof other);
      const bool holds = other.magic == layout::pool_magic && other.crc == superblock_crc(other) &&
                         superblock_copy_of(other.sequence) == copy && check_superblock(other, facts_.bytes);
      if (!holds) note(mending::mended, copy * file_page, copy == 0 ? "superblock copy A" : "superblock copy B");
    }
    return {};
  }
  static void exchange_copies(std::byte* header) { std::swap_ranges(header, header + file_page, header + file_page); }
  void correct_superblock(std::byte* at, unsigned copy) {
    layout::superblock sb;
    for (std::size_t i = 0; i < sizeof sb; ++i) {
      for (unsigned value = 0; value < 256; ++value) {
        std::memcpy(&sb, at, sizeof sb);
        reinterpret_cast<unsigned char*>(&sb)[i] = static_cast<unsigned char>(value);
        if (sb.magic != layout::pool_magic || superblock_copy_of(sb.sequence) != copy) continue;
        if (sb.crc != superblock_crc(sb)) continue;
        std::memcpy(at, &sb, sizeof sb);
        note(mending::mended, copy * file_page + i, "superblock: one byte changed back");
        return;
      }
    }
  }

  // On ssd: the log's records into the image, and an empty log.
  status apply_ring() {
    if (!has_image(sb_)) return {};
    ring_identity ring;
    ring.place = {sb_.log_offset, sb_.log_bytes};
    std::memcpy(ring.uuid, sb_.uuid, sizeof ring.uuid);
    const std::uint64_t bytes = geometry_of(sb_).capacity_bytes();
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = ring.place.header_offset(copy);
      layout::ring_header h;
      std::memcpy(&h, base_ + at, sizeof h);
      if (h.magic == layout::ring_magic &&
          h.checksum == checksum(&h, offsetof(layout::ring_header, checksum), layout::ring_magic)) {
        continue;
      }
      note(mending::mended, at, "header of the log");
    }
    image_device device{base_, bytes};
    auto run = read_log(device, ring, bytes);
    const bool clean = sb_.state == static_cast<std::uint32_t>(layout::pool_state::clean);
    if (!run && !clean) {
      report_.refusals.push_back(std::string{"the log may have transactions in it, and does not hold: "} +
                                 last_message());
      return run.error();
    }
    if (run && !run->empty()) {
      apply_run(*run, ring, base_);
      report_.rolled_back = 0;
      const auto now = pick_superblock(base_, 2 * file_page, bytes);
      if (!now) return now.error();
      sb_ = *now;
    }
    if (auto state = format_ring(device, ring); !state) return state.error();
    return {};
  }

  // The pool's types, or none.
  [[nodiscard]] result<object::type_map> types_there() const {
    const geometry g = geometry_of(sb_);
    const auto place = read_anchor_word(base_, g, anchor_word::types);
    if (!place || *place == 0) return object::type_map{};
    return object::type_map::read(base_ + *place, g.size_bytes() - *place, *place);
  }
  // Adds the names of objects' types, for people.
  void name_types() {
    const auto types = types_there();
    if (!types) return;
    for (repair_note& n : report_.notes) {
      const auto* record = n.object == 0 ? nullptr : types->find(n.type);
      if (record != nullptr) n.type_name = object::name_of(*record);
    }
  }

  // Libraries that do not know the pool's contents must not open it.
  void add_missing_features() {
    const auto add = [this](std::uint64_t have, std::uint32_t bit, const char* what) {
      if (have == 0 || (sb_.features_incompat & bit) != 0) return;
      sb_.features_incompat |= bit;
      note(mending::mended, offsetof(layout::superblock, features_incompat), what);
    };
    add(report_.aligned, layout::feature_aligned, "features: the bit of aligned objects");
    add(report_.clusters, layout::feature_stores, "features: the bit of object stores");
    add(report_.directories, layout::feature_store_kv, "features: the bit of key-value stores in object stores");
    const auto types = types_there();
    add(types && object::have_reset_fields(*types) ? 1 : 0, layout::feature_reset,
        "features: the bit of fields that are zero after each open");
    add(report_.structures_in_stores, layout::feature_store_structures,
        "features: the bit of lock-free structures in object stores");
  }
  void write_superblocks() {
    ordered_media nothing;
    add_missing_features();
    write_superblock(nothing, base_, sb_);
    std::memset(base_ + layout::owner_sector, 0, sizeof(layout::owner_record));
  }

  // Writes the image to a file under a name that no program looks for; zeros are left out.
  status write_copy(const std::string& name, platform::file& copy) const {
    constexpr std::uint64_t step = 1 << 20;
    const std::uint64_t end = geometry_of(sb_).size_bytes();
    static const std::array<std::byte, file_page> zeros{};
    if (status s = copy.truncate(end); !s) return s;
    for (std::uint64_t at = 0; at < end; at += step) {
      const std::uint64_t bytes = std::min(step, end - at);
      // Parts of a step that are not zero, each with one call.
      std::uint64_t from = at;
      for (std::uint64_t page = at; page < at + bytes; page += file_page) {
        if (std::memcmp(base_ + page, zeros.data(), file_page) != 0) continue;
        if (page > from) {
          if (status s = copy.write(from, base_ + from, page - from); !s) return s;
        }
        from = page + file_page;
      }
      if (at + bytes > from) {
        if (status s = copy.write(from, base_ + from, at + bytes - from); !s) return s;
      }
    }
    if (::fchmod(copy.descriptor(), facts_.mode) != 0) {
      return fail(errc::system, "%s: mode %o: %s", name.c_str(), facts_.mode, std::strerror(errno));
    }
    // The new file gets owner and mode of the old one.
    struct ::stat was{};
    if (request_.in_place && ::fstat(file_.descriptor(), &was) == 0 &&
        (was.st_uid != ::geteuid() || was.st_gid != ::getegid()) &&
        ::fchown(copy.descriptor(), was.st_uid, was.st_gid) != 0) {
      return fail(errc::system, "%s: owner: %s", name.c_str(), std::strerror(errno));
    }
    return copy.sync_all();
  }

  // Checks that all that could be read before can be read in the copy.
  status compare(const std::string& name, const readable_entries& before) {
    if (report_.notes.empty()) return {};
    // A damaged log may hide the newest value of an entry, and its proved entries may bring that back.
    const auto lost = first_lost(before, name, !engine_of(sb_.engine).is_its_log());
    if (!lost) return {};
    is_worse_ = true;
    report_.refusals.push_back("an entry that can be read would be lost: " + *lost);
    return fail(errc::corrupt, "%s", report_.refusals.back().c_str());
  }

  // The name of a copy that does not become the pool.
  struct dropped {
    platform::pending_name& name;
    const platform::file& copy;
    ~dropped() { name.drop(copy); }
  };

  status publish(const readable_entries& before) {
    const std::string& to = request_.in_place ? request_.path : request_.out;
    platform::pending_name name;
    auto copy = name.begin(to.c_str(), 0600, platform::pending_name::kind::named);
    if (!copy) return copy.error();
    const dropped at_the_end{name, *copy};
    if (status s = write_copy(name.temporary(), *copy); !s) return s;
    // The check reads it, and the lock tells others that it is in use.
    if (status s = copy->lock_shared(); !s) return s;
    if (status s = check(name.temporary()); !s) return s;
    if (status s = mend_stores_of(name.temporary(), *copy, before); !s) return s;
    if (status s = compare(name.temporary(), before); !s) return s;
    if (request_.dry_run) return {};
    const status named = request_.in_place ? name.replace(*copy) : name.give(*copy);
    report_.written = named || (request_.in_place && copy->has_name(name.path().c_str()));
    return named;
  }

  static bool is_of_directory(const repair_note& n) { return n.what.starts_with(in_their_directory); }
  static bool is_lost_directory(const repair_note& n) { return is_of_directory(n) && n.what.ends_with(nothing_of_it); }
  static bool is_of_store(const repair_note& n) { return n.what.starts_with(in_a_store) || is_of_directory(n); }
  // Makes damaged stores of the copy anew.  Where that cannot be done, or would lose something, they stay as they are.
  status mend_stores_of(const std::string& name, platform::file& copy, const readable_entries& before) {
    if (std::none_of(report_.notes.begin(), report_.notes.end(), is_of_store)) return {};
    const repair_report as_kept = report_;
    std::erase_if(report_.notes, [](const repair_note& n) { return is_of_store(n) && n.how == mending::kept; });
    copy.unlock();
    bool has_names = false;
    status mended = mend_stores(name, [&](repair_note n) {
      has_names = has_names || (is_of_directory(n) && n.how == mending::mended);
      report_.notes.push_back(std::move(n));
    });
    // A directory that could not be found by its place has been found by its names.
    if (has_names) std::erase_if(report_.notes, is_lost_directory);
    if (status s = copy.lock_shared(); !s) return s;
    if (mended) mended = copy.sync_all();
    const std::size_t notes = report_.notes.size();
    if (mended) mended = check(name, true);
    if (mended && report_.notes.size() == notes) mended = compare(name, before);
    if (mended.error() == errc::no_memory) throw std::bad_alloc{};
    if (mended && report_.notes.size() == notes) return {};
    const std::string why = last_message();
    report_ = as_kept;
    is_worse_ = false;
    const auto names = std::find_if(report_.notes.begin(), report_.notes.end(), is_of_directory);
    if (names != report_.notes.end()) {
      report_.refusals = {names->what, why};
      return fail(errc::corrupt, "%s", names->what.c_str());
    }
    if (status s = copy.truncate(0); !s) return s;
    return write_copy(name, copy);
  }

  // Damage in a key-value store is told by store and key.
  status check(const std::string& name, bool anew = false) {
    const auto add = [](std::uint64_t at, const char* finding, void* to) {
      constexpr std::size_t most = 20;
      auto& report = *static_cast<repair_report*>(to);
      const std::string_view what = finding;
      if (what.starts_with(in_a_store) || what.starts_with(in_their_directory)) {
        report.notes.push_back(note_of(mending::kept, at, finding));
      } else if (report.refusals.size() < most) {
        report.refusals.push_back("offset " + std::to_string(at) + ": " + finding);
      }
    };
    nvm_check_summary summary{};
    const std::int64_t found = nvm_pool_check(name.c_str(), add, &report_, &summary);
    if (found < 0) return fail(last_code(), "the check of the repaired copy: %s", last_message());
    if (!report_.refusals.empty()) return fail(errc::corrupt, "what is left: %s", report_.refusals.front().c_str());
    // Objects of a log, and of stores that were made anew, are those that the check counts.
    if (engine_of(sb_.engine).is_its_log() || anew) report_.objects_intact = report_.objects = summary.objects;
    return {};
  }

  const repair_request& request_;
  repair_report& report_;
  platform::file file_;
  platform::file_facts facts_;
  layout::superblock sb_{};
  std::byte* base_ = nullptr;
  bool are_exchanged_ = false;  // the copies of the superblock, with their anchors
  bool is_worse_ = false;       // the last attempt would have left less readable
};

}  // namespace

status repair_pool(const repair_request& request, repair_report& report) try {
  const status done = repairer{request, report}.run();
  return done ? done : status{api::about(request.path.c_str(), done.error())};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to repair %s", request.path.c_str());
}

}  // namespace nvm::care
