#include "tier/pool_tier.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "base/given_options.hpp"
#include "tier/extents.hpp"

namespace nvm::tier {
namespace {

constexpr std::size_t path_bytes_max = sizeof(nvm_tier_statistics{}.path) - 1;

// Found from any folder.
result<std::string> absolute(const char* path) {
  std::string all;
  if (path[0] != '/') {
    std::array<char, PATH_MAX> folder;
    if (::getcwd(folder.data(), folder.size()) == nullptr) {
      return fail(errc::system, "path of this folder: %s", std::strerror(errno));
    }
    all = std::string{folder.data()} + '/';
  }
  all += path;
  if (all.size() > path_bytes_max) {
    return fail(errc::invalid, "path of the second file: found %zu bytes, expected at most %zu", all.size(),
                path_bytes_max);
  }
  return all;
}

// Of a file in memory: whether it may have huge pages.  A page that leaves could then become zeros (swapper_settings).
result<bool> may_have_huge_pages(const platform::file& file) noexcept {
  const auto facts = file.facts();
  if (!facts) return facts.error();
  return facts->block_bytes > swapper::page_bytes;
}

// Whether pages that could not leave fill half of the limit.
result<bool> huge_pages_fill(const platform::file& file, const geometry& g, std::uint64_t fast_bytes) noexcept {
  auto huge = may_have_huge_pages(file);
  if (!huge || !*huge) return huge;
  std::uint64_t bytes = 0;
  const auto add = [&](std::uint64_t from, std::uint64_t to, bool in_file) noexcept {
    bytes += in_file ? to - from : 0;
    return status{};
  };
  if (status s = each_extent(file, g.page_offset(0), g.capacity_bytes(), add); !s) return s.error();
  return bytes > fast_bytes / 2;
}

result<std::uint32_t> choose_compression(std::uint32_t asked) noexcept {
  if (asked != NVM_TIER_COMPRESSION_DETECT) return asked;
  const auto lz4 = make_codec(layout::page_coding::lz4);
  if (lz4) return std::uint32_t{NVM_TIER_LZ4};
  if (lz4.error() == errc::no_memory) return lz4.error();
  return std::uint32_t{NVM_TIER_PLAIN};
}

layout::page_coding coding_of(std::uint32_t compression) noexcept {
  return compression == NVM_TIER_LZ4    ? layout::page_coding::lz4
         : compression == NVM_TIER_ZSTD ? layout::page_coding::zstd
                                        : layout::page_coding::plain;
}

page_file_identity identity_of(const layout::superblock& sb, const layout::tier_record& record) noexcept {
  page_file_identity who;
  std::memcpy(who.pool_uuid, sb.uuid, sizeof who.pool_uuid);
  std::memcpy(who.uuid, record.uuid, sizeof who.uuid);
  who.pages = sb.capacity_pages;
  return who;
}

status check_wish(const nvm_tier_options& o) noexcept {
  if (o.policy > NVM_TIER_FIFO) return fail(errc::invalid, "policy %u is none of enum nvm_tier_policy", o.policy);
  if (o.compression > NVM_TIER_ZSTD) {
    return fail(errc::invalid, "compression %u is none of enum nvm_tier_compression", o.compression);
  }
  if (o.fast_bytes != 0 && o.fast_bytes < swapper::fast_pages_least * swapper::page_bytes) {
    return fail(errc::invalid, "fast_bytes: found %" PRIu64 ", expected at least %" PRIu64, o.fast_bytes,
                swapper::fast_pages_least * swapper::page_bytes);
  }
  return {};
}

// A process may have 65530 mappings (vm.max_map_count): that many extents at most stay mapped.
constexpr std::uint64_t extents_max = 2048;

// From which length on data of this part of the file stays mapped; shorter data is read into private memory.
result<std::uint64_t> mapped_from(const platform::file& file, std::uint64_t from, std::uint64_t to) noexcept {
  std::array<std::uint64_t, 65> extents{};  // by the bit width of their lengths
  const status s = each_extent(file, from, to, [&](std::uint64_t begin, std::uint64_t end, bool in_file) noexcept {
    if (in_file) ++extents[static_cast<std::size_t>(std::bit_width(end - begin))];
    return status{};
  });
  if (!s) return s.error();
  std::uint64_t all = 0;
  for (std::size_t width = extents.size() - 1; width != 0; --width) {
    all += extents[width];
    if (all > extents_max) return width == 64 ? ~std::uint64_t{0} : std::uint64_t{1} << width;
  }
  return std::uint64_t{0};
}

// Puts private memory over a part of a private mapping of the file: zeros for holes, and the data.
status copy_extents(const platform::file& file, std::byte* base, std::uint64_t from, std::uint64_t to) noexcept {
  const std::uint64_t bytes = to - from;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  void* const got = ::mmap(base + from, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (got == MAP_FAILED || ::madvise(got, bytes, MADV_DONTFORK) != 0) {
    return fail(errc::system, "cannot map %" PRIu64 " bytes of zeros over the hole at offset %" PRIu64 ": %s", bytes,
                from, std::strerror(errno));
  }
  const auto read = [&](std::uint64_t begin, std::uint64_t end, bool in_file) noexcept {
    return in_file ? file.read(begin, base + begin, end - begin) : status{};
  };
  if (status s = each_extent(file, from, to, read); !s) return s;
  // Inaccessible, as what is around it, until all is in place.
  if (::mprotect(got, bytes, PROT_NONE) == 0) return {};
  return fail(errc::system, "cannot hide %" PRIu64 " bytes at offset %" PRIu64 ": %s", bytes, from,
              std::strerror(errno));
}

}  // namespace

result<std::unique_ptr<pool_tier>> pool_tier::make(const nvm_tier_options* wish) noexcept try {
  std::unique_ptr<pool_tier> made{new pool_tier};
  if (wish != nullptr) {
    auto known = given_options<56>(wish, "nvm_tier_options");
    if (!known) return known.error();
    if (status s = check_wish(*known); !s) return s.error();
    made->wished_ = true;
    made->wish_ = *known;
    if (known->path != nullptr) {
      auto path = absolute(known->path);
      if (!path) return path.error();
      made->wish_path_ = std::move(*path);
    }
  }
  return made;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a tier");
}

pool_tier::~pool_tier() {
  stop();
  swapper_.reset();
  // Unlocked here, since a forked child has the descriptor, too, and would keep the lock.
  if (slow_ && platform::process_id() == process_) slow_.unlock();
}

status pool_tier::bring(pool_file& pool) noexcept try {
  const auto named = [this](const status& s) -> status {
    if (s || path_.empty()) return s;
    return fail(s.error(), "second file %s: %s", path_.c_str(), last_message());
  };
  if (pool.has_tier()) return named(find(pool));
  if (!wished_) return {};
  if (has_image(pool.superblock())) return keep_image(pool);
  return named(join(pool));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a tier");
}

void pool_tier::do_without(const char* why) { why_ = why; }

status pool_tier::open_slow(int flags, bool shared_lock) noexcept {
  auto opened = platform::file::open(path_.c_str(), flags, 0600);
  if (!opened) {
    if (opened.error() == errc::not_found) return fail(errc::not_found, "there is none of this name");
    if (opened.error() == errc::exists) return fail(errc::exists, "the file exists; a new one is wanted");
    return fail(opened.error(), "open: %s", std::strerror(errno));
  }
  slow_ = std::move(*opened);
  const auto facts = slow_.facts();
  if (!facts) return facts.error();
  if (!facts->regular) return fail(errc::not_a_pool, "expected a regular file");
  if ((facts->mode & 0002) != 0) {
    return fail(errc::system, "any user may write to it (mode %04o): refused; chmod o-w first", facts->mode);
  }
  const status locked = shared_lock ? slow_.lock_shared() : slow_.lock_exclusive();
  if (!locked && locked.error() == errc::busy) return fail(errc::busy, "another process has it open");
  if (!locked) return locked;
  device_.emplace(slow_);
  return {};
}

// Wishes of the program override the pool's record.
status pool_tier::take_wishes(layout::tier_record& record) noexcept {
  const std::string& path = wish_path_.empty() ? path_ : wish_path_;
  std::memset(record.path, 0, sizeof record.path);
  std::memcpy(record.path, path.data(), path.size());
  record.path_bytes = static_cast<std::uint32_t>(path.size());
  if (wish_.fast_bytes != 0) record.fast_bytes_max = wish_.fast_bytes;
  if (wish_.policy != 0) record.policy = wish_.policy;
  if (wish_.compression != 0 || record.compression == 0) {
    const auto compression = choose_compression(wish_.compression);
    if (!compression) return compression.error();
    record.compression = *compression;
  }
  if (record.policy == 0) record.policy = NVM_TIER_STEADY;
  return {};
}

// A second file for a pool that has none.
status pool_tier::join(pool_file& pool) {
  if (pool.medium() != NVM_MEDIUM_SHM) {
    do_without("it is for pools on shared memory (medium shm) and on ssd but for engine log; others keep all pages");
    return {};
  }
  if (pool.read_only()) return fail(errc::invalid, "a pool that is opened read-only cannot get a second file");
  if (wish_path_.empty()) return fail(errc::invalid, "nvm_tier_options: a pool without a second file needs a path");
  if (wish_.fast_bytes == 0) {
    return fail(errc::invalid, "nvm_tier_options: fast_bytes: found 0; a pool without a second file needs a limit");
  }
  const auto stays = huge_pages_fill(pool.file(), pool.geometry(), wish_.fast_bytes);
  if (!stays) return stays.error();
  if (*stays) {
    do_without(
        "the pool's own file may have huge pages, and parts of these cannot leave: mount its folder with huge=never");
    return {};
  }
  path_ = wish_path_;
  layout::tier_record record{};
  if (status s = take_wishes(record); !s) return s;
  if (status s = platform::random_bytes(record.uuid, sizeof record.uuid); !s) return s;
  if (status s = open_slow(O_RDWR | O_CREAT | O_EXCL | O_NOCTTY, false); !s) return s;
  made_file_ = true;
  const auto give_up = [this](const status& s) -> status {
    const errc why = s.error();
    const int number = errno;
    remove_new_file();
    errno = number;
    return why;
  };
  const page_file_identity who = identity_of(pool.superblock(), record);
  status s = page_file::format(*device_, who, platform::unix_s());
  if (s) s = platform::sync_directory_of(path_.c_str());
  pages_found found;
  if (s) s = open_pages(pool, record, found);
  if (!s && s.error() == errc::system) {
    // No page is only in the second file: the pool works as well without.
    do_without(last_message());
    remove_new_file();
    return {};
  }
  if (!s) return give_up(s);
  if (s = write_tier_record(pool.file(), record, false); !s) return give_up(s);
  pool.join_tier();
  return {};
}

// Opens the second file: at the path that the program wishes, otherwise at the one that the pool names.
status pool_tier::find(pool_file& pool) {
  auto record = read_tier_record(pool.file());
  if (!record) return record.error();
  path_ = wish_path_.empty() ? record->path : wish_path_;
  if (path_.size() > path_bytes_max) {
    return fail(errc::corrupt, "its path has %zu bytes, expected at most %zu", path_.size(), path_bytes_max);
  }
  const layout::tier_record before = *record;
  if (status s = take_wishes(*record); !s) return s;
  const bool read_only = pool.read_only();
  if (status s = open_slow((read_only ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOCTTY, read_only); !s) return s;
  pool.join_tier();
  pages_found found;
  const status opened = open_pages(pool, *record, found);
  // That no page is in the second file is known only if the pool's own was looked at.
  if (!opened && (opened.error() != errc::system || found.slow != 0)) return opened;
  if (!opened) do_without(last_message());
  if (status s = check_holes(pool, *record, found.present); !s) return s;
  // From here on pages come and go that the number does not count, until a close counts them again.
  if (!read_only) say_at_rest(0);
  if (read_only) return opened ? status{} : keep_holes(pool);
  if (std::memcmp(&before, &*record, offsetof(layout::tier_record, check)) == 0) return {};
  return write_tier_record(pool.file(), *record, true);
}

// Without user faults a load from a hole would make a page in the file, which the pool's owner knows nothing of. The
// mapping is this process's own: zeros take the places of holes. Of many extents those that lie between holes and are
// short are copied.
status pool_tier::keep_holes(pool_file& pool) noexcept {
  const geometry g = pool.geometry();
  const std::uint64_t begin = g.page_offset(0), end = g.capacity_bytes();
  const auto stays_from = mapped_from(pool.file(), begin, end);
  if (!stays_from) return stays_from.error();
  std::uint64_t first = 0, last = 0;  // to be copied
  const auto copy = [&]() noexcept {
    const std::uint64_t from = std::exchange(first, 0), to = std::exchange(last, 0);
    return from == to ? status{} : copy_extents(pool.file(), pool.base(), from, to);
  };
  const auto take = [&](std::uint64_t from, std::uint64_t to, bool in_file) noexcept {
    if (in_file && to - from >= *stays_from) return copy();
    if (first == last) first = from;
    last = to;
    return status{};
  };
  if (status s = each_extent(pool.file(), begin, end, take); !s) return s;
  return copy();
}

status pool_tier::check_holes(const pool_file& pool, const layout::tier_record& record,
                              std::uint64_t present) noexcept {
  const bool clean = pool.superblock().state == static_cast<std::uint32_t>(layout::pool_state::clean);
  if (!clean || record.fast_pages == 0 || record.fast_pages - 1 == present) return {};
  return fail(errc::copy,
              "the pool's own file has %" PRIu64 " data pages, expected %" PRIu64
              ": it was copied by a program that does not keep holes, and is no pool any more",
              present, record.fast_pages - 1);
}

status pool_tier::open_pages(pool_file& pool, const layout::tier_record& record, pages_found& found) {
  record_ = reinterpret_cast<layout::tier_record*>(pool.base() + layout::tier_sector);
  fast_bytes_max_ = record.fast_bytes_max;
  policy_ = record.policy;
  compression_ = record.compression;
  if (record.policy > NVM_TIER_FIFO || record.compression > NVM_TIER_ZSTD || record.compression == 0) {
    return fail(errc::corrupt, "the pool's record of it: policy %u, compression %u: expected at most %u and %u",
                record.policy, record.compression, unsigned{NVM_TIER_FIFO}, unsigned{NVM_TIER_ZSTD});
  }
  auto slow = page_file::open(*device_, identity_of(pool.superblock(), record), record.sequence);
  if (!slow) return slow.error();
  if (status s = (*slow)->compress_by(coding_of(record.compression)); !s) {
    // A missing codec: pages written now may be larger.
    if (s.error() == errc::no_memory) return s;
    if (wish_.compression != 0) return fail(errc::invalid, "%s", last_message());
    if (s = (*slow)->compress_by(layout::page_coding::plain); !s) return s;
  }
  // Pages come as long as threads read, also after the pool has given up its file.
  if (pool.read_only()) {
    auto again = platform::file::open(pool.path(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!again) return fail(again.error(), "the pool's own file: %s", std::strerror(errno));
    fast_ = std::move(*again);
  } else {
    auto again = pool.file().open_again(pool.path());
    if (!again) return again.error();
    fast_ = std::move(*again);
  }
  swapper_settings settings;
  const auto huge = may_have_huge_pages(fast_);
  if (!huge) return huge.error();
  settings.shared = !pool.read_only();
  settings.keep_found = *huge;
  settings.found = &found;
  settings.sequence = &record_->sequence;
  return make_swapper(pool, settings, std::move(*slow));
}

status pool_tier::make_swapper(pool_file& pool, swapper_settings& settings, std::unique_ptr<slow_pages> slow) {
  const geometry g = pool.geometry();
  base_ = pool.base();
  data_offset_ = g.page_offset(0);
  settings.base = base_ + data_offset_;
  settings.fast = &fast_;
  settings.offset = data_offset_;
  settings.pages = g.capacity_pages;
  settings.fast_pages_max = std::max(fast_bytes_max_ / swapper::page_bytes, std::uint64_t{swapper::fast_pages_least});
  settings.policy = policy_;
  settings.lost = [](void* context, std::uint64_t page, const char* why) noexcept {
    auto* const p = static_cast<pool_file*>(context);
    p->lose(p->geometry().page_offset(page), why);
  };
  settings.context = &pool;
  // Pages that come are not made huge ones. A kernel that knows no huge pages refuses.
  if (settings.shared) (void)::madvise(settings.base, settings.pages * swapper::page_bytes, MADV_NOHUGEPAGE);
  auto made = swapper::open(settings, std::move(slow));
  if (!made) return made.error();
  swapper_ = std::move(*made);
  pool.on_fork({[](void* context, pool_file&) noexcept {
                  auto* const t = static_cast<pool_tier*>(context);
                  t->swapper_->forget_in_child();
                  t->slow_.close();
                  t->fast_.close();
                  return status{};
                },
                this});
  return {};
}

status pool_tier::start() noexcept { return swapper_ == nullptr ? status{} : swapper_->start_leaving(); }

void pool_tier::stop() noexcept {
  if (swapper_ != nullptr && platform::process_id() == process_) swapper_->stop_leaving();
}

void pool_tier::rest() noexcept {
  if (swapper_ == nullptr || record_ == nullptr || !swapper_->is_shared()) return;
  if (const auto present = swapper_->present_at_rest()) say_at_rest(*present + 1);
}

void pool_tier::say_at_rest(std::uint64_t fast_pages) noexcept {
  // relaxed: the state that makes it count is written after it, by a system call.
  std::atomic_ref<std::uint64_t>{record_->fast_pages}.store(fast_pages, std::memory_order_relaxed);
}

void pool_tier::remove_new_file() noexcept {
  if (!made_file_) return;
  made_file_ = false;
  slow_.remove_name(path_.c_str());
}

void pool_tier::remove_unnamed_file(const char* pool) noexcept {
  if (!made_file_) return;
  const int number = errno;
  char why[512];
  const errc code = last_code();
  std::snprintf(why, sizeof why, "%s", last_message());
  const auto file = platform::file::open(pool, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  // A pool that cannot be read may have the feature.
  if (file) {
    const auto header = read_header(*file);
    if (header && (header->superblock.features_incompat & layout::feature_tier) == 0) remove_new_file();
  }
  fail(code, "%s", why);
  errno = number;
}

void pool_tier::statistics(nvm_tier_statistics& out) {
  out = {};
  out.fast_bytes_max = fast_bytes_max_;
  out.policy = policy_;
  out.compression = compression_;
  std::snprintf(out.path, sizeof out.path, "%s", path_.c_str());
  std::snprintf(out.why, sizeof out.why, "%s", why_.c_str());
  if (swapper_ == nullptr) return;
  const swapper_statistics s = swapper_->statistics();
  const slow_pages::figures slow = swapper_->slow().now();
  out.active = 1;
  out.fast_bytes = s.present * swapper::page_bytes;
  out.slow_bytes = s.slow * swapper::page_bytes;
  out.file_bytes = slow.bytes;
  out.dirty_bytes = s.dirty * swapper::page_bytes;
  out.faults = s.faults;
  out.store_faults = s.store_faults;
  out.pages_in = s.in;
  out.pages_ahead = s.ahead;
  out.pages_new = s.zeros_in;
  out.pages_out = s.out;
  out.pages_dropped = s.dropped;
  out.pages_kept = s.kept;
  out.bytes_written = slow.bytes_written;
  out.bytes_read = slow.bytes_read;
  out.syncs = slow.syncs;
  out.fault_ns_p50 = s.fault_ns_p50;
  out.fault_ns_p99 = s.fault_ns_p99;
  std::snprintf(out.why, sizeof out.why, "%s", swapper_->why().c_str());
}

namespace {

status count_bytes(const platform::file& file, const geometry& g, nvm_tier_info& out) noexcept {
  return each_extent(file, g.page_offset(0), g.page_offset(g.size_pages),
                     [&](std::uint64_t from, std::uint64_t to, bool in_file) noexcept -> status {
                       out.fast_bytes += in_file ? to - from : 0;
                       return {};
                     });
}

// Of holes: words of other pages may be stale.
status count_slow_bytes(const platform::file& file, block_device& slow, const geometry& g,
                        nvm_tier_info& out) noexcept {
  constexpr std::uint64_t page_bytes = swapper::page_bytes;
  const std::uint64_t start = g.page_offset(0);
  return each_extent(file, start, g.page_offset(g.size_pages),
                     [&](std::uint64_t from, std::uint64_t to, bool in_file) noexcept -> status {
                       if (in_file) return {};
                       const auto pages =
                           page_file::count_not_zeros(slow, (from - start) / page_bytes, (to - from) / page_bytes);
                       if (!pages) return pages.error();
                       out.slow_bytes += *pages * page_bytes;
                       return {};
                     });
}

status look_at_files(const char* path, nvm_tier_info& out) noexcept {
  const auto file = platform::file::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) {
    if (file.error() == errc::not_found) return fail(errc::not_found, "no such file");
    return fail(file.error(), "open: %s", std::strerror(errno));
  }
  const auto header = read_header(*file);
  if (!header) return header.error();
  const auto* const sb = &header->superblock;
  if ((sb->features_incompat & layout::feature_tier) == 0) return fail(errc::invalid, "it has no second file");
  const auto record = read_tier_record(*file);
  if (!record) return record.error();
  out.fast_bytes_max = record->fast_bytes_max;
  out.sequence = record->sequence;
  out.policy = record->policy;
  out.compression = record->compression;
  if (record->path_bytes > path_bytes_max) {
    return fail(errc::corrupt, "the path of its second file has %u bytes, expected at most %zu", record->path_bytes,
                path_bytes_max);
  }
  std::memcpy(out.path, record->path, record->path_bytes);
  if (auto s = count_bytes(*file, geometry_of(*sb), out); !s) return s;
  auto slow = platform::file::open(record->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!slow) return fail(slow.error(), "second file %s: %s", record->path, std::strerror(errno));
  const auto length = slow->size();
  if (!length) return length.error();
  out.file_bytes = *length;
  file_device device{*slow};
  // A living owner may be some batches further than its record was when it was read.
  const auto opened = page_file::facts_of(device, identity_of(*sb, *record));
  if (!opened) return fail(opened.error(), "second file %s: %s", record->path, last_message());
  out.file_sequence = *opened;
  return count_slow_bytes(*file, device, geometry_of(*sb), out);
}

}  // namespace

status inspect_tier(const char* pool, nvm_tier_info& out) noexcept {
  out = {};
  const status s = look_at_files(pool, out);
  return s ? s : status{fail(s.error(), "pool %s: %s", pool, last_message())};
}

}  // namespace nvm::tier
