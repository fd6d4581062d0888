#include "pool/pool_file.hpp"

#include <errno.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

#include "pool/place.hpp"
#include "pool/pool_options.hpp"

namespace nvm {
namespace {

using layout::pool_state;

constexpr std::uint64_t owner_at = layout::owner_sector;
constexpr std::uint64_t header_bytes = 2 * file_page_bytes;
constexpr unsigned uuid_attempts_max = 64;  // new uuids when the preferred addresses are taken

// The current failure, with the file it is about in front.
errc of_pool(const char* path, errc code) noexcept { return fail(code, "pool %s: %s", path, last_message()); }

// The path stands in front already.
errc without_path(errc code) noexcept {
  const int number = errno;
  fail(code, "open: %s", std::strerror(number));
  errno = number;
  return code;
}

// Keeps errno during the clean-up after a failure.
class errno_kept {
 public:
  errno_kept() noexcept : value_{errno} {}
  ~errno_kept() { errno = value_; }
  errno_kept(const errno_kept&) = delete;

 private:
  int value_;
};

// Keeps the sentence and the code of the failure as well.
class failure_kept {
 public:
  failure_kept() noexcept : code_{last_code()} { std::snprintf(message_, sizeof message_, "%s", last_message()); }
  ~failure_kept() { fail(code_, "%s", message_); }
  failure_kept(const failure_kept&) = delete;

 private:
  errno_kept errno_;
  errc code_;
  char message_[512];
};

// A file that all users may change could change under our mapping.  The system checks which user and group may open it;
// its content is checked in any case.
status check_permissions(const platform::file_facts& f) noexcept {
  if ((f.mode & 0002) == 0) return {};
  errno = EPERM;
  return fail(errc::system, "any user may write to it (mode %04o): refused; chmod o-w first", f.mode);
}

status check_file_superblock(const layout::superblock& sb) noexcept {
  if (sb.page_shift != layout::page_shift_default) {
    return fail(errc::version, "page size: found %" PRIu64 " bytes, files have pages of %" PRIu64,
                std::uint64_t{1} << sb.page_shift, file_page_bytes);
  }
  if (sb.size_pages % layout::pages_per_chunk != 0 || sb.capacity_pages % layout::pages_per_chunk != 0) {
    return fail(errc::corrupt,
                "size and capacity: found %" PRIu64 " and %" PRIu64 " pages, expected whole chunks of %" PRIu64,
                sb.size_pages, sb.capacity_pages, layout::pages_per_chunk);
  }
  return {};
}

}  // namespace

// ---- life of the object ---------------------------------------------------------------------------------------------

result<pool_file::pointer> pool_file::make(const char* path) noexcept {
  if (path == nullptr || *path == 0) return fail(errc::invalid, "a pool needs a path");
  if (auto s = open_pools::start(); !s) return s.error();
  pointer pool{new (std::nothrow) pool_file};
  if (!pool) return fail(errc::no_memory, "no memory for a pool");
  try {
    pool->path_ = path;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no memory for a pool's path");
  }
  const std::lock_guard lock{open_pools::guard()};
  open_pools::list(*pool);
  pool->listed_ = true;
  return pool;
}

result<pool_file::pointer> pool_file::create(const char* path, const pool_create_options& options) noexcept {
  auto pool = make(path);
  if (!pool) return pool.error();
  if (auto s = (*pool)->create_file(options); !s) {
    const errno_kept kept;
    const errc code = of_pool(path, s.error());
    pool->reset();
    return code;
  }
  return pool;
}

result<pool_file::pointer> pool_file::open(const char* path, const pool_open_options& options) noexcept {
  auto pool = make(path);
  if (!pool) return pool.error();
  if (auto s = (*pool)->open_file(options); !s) {
    const errno_kept kept;
    const errc code = of_pool(path, s.error());
    pool->reset();
    return code;
  }
  return pool;
}

result<pool_file::pointer> pool_file::in_memory(std::byte* base, const layout::superblock& sb,
                                                const file_hooks& hooks) noexcept {
  pointer pool{new (std::nothrow) pool_file};
  if (!pool) return fail(errc::no_memory, "no memory for a pool");
  pool->hooks_ = hooks;
  pool->path_ = "in memory";  // short enough to need none
  pool->base_ = base;
  pool->medium_ = sb.medium;
  pool->take_superblock(sb);
  return pool;
}

pool_file::~pool_file() { release(); }

status pool_file::mark_clean() noexcept {
  if (read_only_ || forked() || !file_) return {};
  status closed = accepts_commits();
  if (closed && !to_mark_open_) closed = set_state(pool_state::clean);
  if (!closed && !failed_.load(std::memory_order_relaxed) && !lost()) of_pool(path(), closed.error());
  return closed;
}

void pool_file::close_at_exit() noexcept {
  // Calls are refused from now on; a thread that gets past this test goes on reading.
  closed_.store(true, std::memory_order_relaxed);
  (void)mark_clean();  // a destructor cannot report a failure; durable data stay durable
  clear_owner();
}

status pool_file::close() noexcept {
  status closed = mark_clean();
  const errno_kept kept;
  release();
  return closed;
}

void pool_file::release() noexcept {
  closed_.store(true, std::memory_order_relaxed);
  if (published_) open_pools::withdraw(*this);
  published_ = false;
  memory_.stop();
  // To debuggers of memory the next mapping at these addresses is accessible.
  if (slot_.base() != nullptr) platform::memory_watch::accessible(slot_.base(), geometry().size_bytes());
  if (!forked()) clear_owner();
  slot_.give_back();
  const std::lock_guard lock{open_pools::guard()};
  if (file_ && !forked()) {
    name_.drop(file_);  // under the lock
    file_.unlock();
  }
  file_.close();
  if (listed_) open_pools::unlist(*this);
  listed_ = false;
}

void pool_file::poison_in_child() noexcept {
  forked_.store(true, std::memory_order_relaxed);
  memory_.forget_in_child();
  if (in_child_.run != nullptr) (void)in_child_.run(in_child_.context, *this);
  file_.close();  // no unlock: the lock belongs to the parent's descriptor too
  slot_.give_back_in_child();
  published_ = false;
  listed_ = false;
}

status pool_file::refuse_use() const noexcept {
  if (forked()) {
    return fail(errc::forked,
                "pool %s belongs to the parent process; the child may open it once the parent has closed it", path());
  }
  if (!closed()) return refuse_lost();
  return fail(errc::invalid, "pool %s was closed; what was open in it is, too", path());
}

status pool_file::refuse_lost() const noexcept {
  return fail(errc::io, "pool %s has failed: %s", path(), memory_.why());
}

status pool_file::refuse_commits() const noexcept {
  if (lost()) return refuse_lost();
  return fail(errc::io, "pool %s takes no more commits: %s", path(), failure_);
}

// ---- creation -------------------------------------------------------------------------------------------------------

status pool_file::create_file(const pool_create_options& options) noexcept {
  const std::uint32_t mode = options.mode != 0 ? options.mode : 0600;
  if ((mode & ~0775U) != 0 || (mode & 0600) != 0600)
    return fail(errc::invalid, "mode: found %04o, expected the owner to read and write, and others not to write", mode);
  if (options.medium > last_medium)
    return fail(errc::invalid, "medium: found %u, expected 0 .. %u", options.medium, last_medium);
  // Options that do not depend on the file are checked before there is one.
  const std::uint32_t likely = options.medium != NVM_MEDIUM_DETECT ? options.medium : std::uint32_t{NVM_MEDIUM_SHM};
  if (auto shape = shape_of_new_pool(options, likely, platform::window_bytes); !shape) return shape.error();
  if (auto s = platform::reserve_window(); !s) return s;
  {
    const std::lock_guard lock{open_pools::guard()};
    auto opened = name_.begin(path(), mode);
    if (!opened) {
      if (opened.error() == errc::exists && errno == EEXIST) return fail(errc::exists, "the file exists");
      if (opened.error() == errc::not_found) return fail(errc::not_found, "its directory does not exist");
      return opened.error();
    }
    file_ = std::move(*opened);
  }
  if (auto s = fill_new_file(options); !s) return s;
  auto named = name_.give(file_);  // C3
  if (!named) return named.error() == errc::exists ? status{fail(errc::exists, "the file exists")} : named;
  open_pools::publish(*this);
  published_ = true;
  return {};
}

status pool_file::fill_new_file(const pool_create_options& options) noexcept {
  if (auto s = lock_file(true); !s) return s;
  const auto facts = file_.facts();
  if (!facts) return facts.error();
  device_ = facts->device;
  inode_ = facts->inode;
  const auto detected = detect_medium(file_);
  if (!detected) return detected.error();
  medium_ = options.medium != NVM_MEDIUM_DETECT ? options.medium : *detected;

  superblock_request request;
  request.medium = medium_;
  request.engine = options.engine;
  request.validation = options.validation;
  request.created_unix_s = options.created_unix_s != 0 ? options.created_unix_s : platform::unix_s();
  const auto shape = shape_of_new_pool(options, medium_, platform::window_bytes);
  if (!shape) return shape.error();
  request.shape = *shape;
  const std::uint64_t addresses = lay_out(*shape).address_bytes();
  for (unsigned attempt = 0;; ++attempt) {
    if (options.uuid != nullptr) {
      std::memcpy(request.uuid, options.uuid, sizeof request.uuid);
    } else if (auto s = platform::random_bytes(request.uuid, sizeof request.uuid); !s) {
      return s;
    }
    request.base_address = options.address != 0 ? options.address : preferred_base(request.uuid, addresses);
    auto taken = platform::slot::take(request.base_address, addresses);
    if (taken) {
      slot_ = std::move(*taken);
      base_ = slot_.base();
      break;
    }
    const bool is_wish = options.uuid != nullptr || options.address != 0;
    if (taken.error() != errc::address || is_wish || attempt == uuid_attempts_max) return taken.error();
  }
  const auto sb = make_superblock(request);
  if (!sb) return sb.error();
  take_superblock(*sb);
  was_clean_ = true;
  sparse_ = options.tier.run != nullptr && medium_ == NVM_MEDIUM_SHM;

  if (auto s = allocate_blocks(0, superblock_.size_pages); !s) return s;
  if (options.prepare.run != nullptr) {
    if (auto s = options.prepare.run(options.prepare.context, file_, superblock_); !s) return s;
  }
  if (auto s = file_.sync_all(); !s) return s;  // C1
  if (auto s = map(); !s) return s;
  if (auto s = bring_tier(options.tier); !s) return s;
  if (sparse_ && !has_tier()) {
    sparse_ = false;  // it works without holes
    if (auto s = allocate_blocks(0, superblock_.size_pages); !s) return s;
  }

  write_owner(static_cast<std::uint64_t>(platform::process_id()));
  layout::superblock copies[2];
  seal_superblocks(superblock_, copies);
  for (const unsigned copy : {1U, 0U}) {
    if (auto s = file_.write(shape_.superblock_at(copy), &copies[copy], sizeof copies[copy]); !s) return s;
  }
  return file_.sync_data();  // C2
}

// ---- opening --------------------------------------------------------------------------------------------------------

// The file that the path leads to, and no other process's.  errc::not_found, busy, not_a_pool.
status pool_file::take_file() noexcept {
  {
    const std::lock_guard lock{open_pools::guard()};
    // Non-blocking: a pipe under this name must not make us wait.
    auto opened = platform::file::open(path(), (read_only_ ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOCTTY);
    if (!opened) {
      if (opened.error() == errc::not_found) return fail(errc::not_found, "no such file");
      if (errno == EISDIR) return fail(errc::not_a_pool, "the path is a directory; expected a regular file");
      return without_path(opened.error());
    }
    file_ = std::move(*opened);
    const auto facts = file_.facts();
    if (!facts) return facts.error();
    if (!facts->regular) return fail(errc::not_a_pool, "expected a regular file");
    device_ = facts->device;
    inode_ = facts->inode;
    if (open_pools::same_file(*this, device_, inode_) != nullptr)
      return fail(errc::busy, "it is open in this process (pid %" PRId64 ") already", platform::process_id());
    if (auto s = check_permissions(*facts); !s) return s;
  }
  return lock_file(!read_only_);
}

status pool_file::open_file(const pool_open_options& options) noexcept {
  if (options.medium > last_medium)
    return fail(errc::invalid, "medium: found %u, expected 0 .. %u", options.medium, last_medium);
  read_only_ = options.read_only;
  if (auto s = take_file(); !s) return s;
  // Another file may have got the path before this one was locked: what is stored here would have no name.
  constexpr unsigned takes_max = 10;
  for (unsigned tries = 1; !platform::file::is_at(path(), {.device = device_, .inode = inode_}); ++tries) {
    if (tries == takes_max) return fail(errc::busy, "another file takes its place again and again");
    file_ = {};
    if (auto s = take_file(); !s) return s;
  }
  if (auto s = read_superblock(options.accept_copy); !s) return s;
  if (!read_only_ && must_be_read_only(superblock_)) {
    return fail(errc::version, "features %08x forbid changes by this library; open it read-only",
                superblock_.features_ro_compat & ~features_ro_compat_known);
  }
  if (auto s = choose_medium(options.medium); !s) return s;
  // Written early: reading the log can take long, and other processes may ask for the owner meanwhile.
  if (!read_only_) write_owner(static_cast<std::uint64_t>(platform::process_id()));
  if (auto s = take_addresses(options); !s) return s;
  if (auto s = map(); !s) return s;
  if (auto s = make_sure_of_metadata(); !s) return s;
  if (auto s = bring_tier(options.tier); !s) return s;
  if (options.after_mapping.run != nullptr) {
    if (auto s = options.after_mapping.run(options.after_mapping.context, *this); !s) return s;
  }
  if (lost()) return fail(errc::io, "%s", memory_.why());
  was_clean_ = superblock_.state == static_cast<std::uint32_t>(pool_state::clean);
  if (!read_only_) {
    if (auto s = make_sure_of_blocks(options.entry_pages); !s) return s;
    if (!has_image(superblock_)) {
      if (auto s = set_state(pool_state::open); !s) return s;
    } else if (was_clean_) {
      to_mark_open_ = true;
      superblock_.state = static_cast<std::uint32_t>(pool_state::open);
      ++superblock_.sequence;
      superblock_.crc = superblock_crc(superblock_);
      opening_ = superblock_;
    }
  }
  open_pools::publish(*this);
  published_ = true;
  return {};
}

// The preferred base; else, where the caller relocates, another that pointers may assume, else a new one.
status pool_file::take_addresses(const pool_open_options& options) noexcept {
  if (!options.moves) {
    const std::lock_guard lock{open_pools::guard()};
    if (const pool_file* twin = open_pools::same_uuid(*this, superblock_.uuid); twin != nullptr) {
      return fail(errc::address, "it is a copy of %s, which is open in this process: same uuid, same addresses",
                  twin->path());
    }
  }
  const base_ranges known = bases();
  const std::uint64_t bytes = shape_.address_bytes();
  if (options.address != 0) {
    // Finds out on a copy whether the base could join.
    layout::superblock sb = superblock_;
    if (options.address % platform::granule_bytes == 0) {
      if (const auto joined = join_base(sb, options.address); !joined) return joined.error();
    }
  }
  const unsigned tries = options.moves && options.address == 0 ? known.count : 1;
  errc why = errc::ok;
  for (unsigned i = 0; i < tries; ++i) {
    auto taken = platform::slot::take(options.address != 0 ? options.address : known.bases[i], bytes);
    if (taken) {
      slot_ = std::move(*taken);
      base_ = slot_.base();
      return {};
    }
    why = taken.error();
    if (why != errc::address) return why;
  }
  if (!options.moves || options.address != 0) return why;
  return take_free_slot();
}

// Tries the places that the uuid names, then all.
status pool_file::take_free_slot() noexcept {
  constexpr std::uint64_t places_named = 64;
  const base_ranges known = bases();
  const std::uint64_t bytes = shape_.address_bytes();
  const std::uint64_t granules = ceil_div(bytes, platform::granule_bytes);
  const std::uint64_t places = platform::granule_count - granules + 1;
  for (std::uint64_t i = 1; i < places_named + places; ++i) {
    const std::uint64_t place =
        i < places_named ? checksum(superblock_.uuid, sizeof superblock_.uuid, i) % places : i - places_named;
    const std::uint64_t base = platform::window_base + (place << platform::granule_shift);
    if (known.collides(base)) continue;
    layout::superblock sb = superblock_;
    if (const auto joined = join_base(sb, base); !joined) return joined.error();
    auto taken = platform::slot::take(base, bytes);
    if (taken) {
      slot_ = std::move(*taken);
      base_ = slot_.base();
      return {};
    }
    if (taken.error() != errc::address) return taken.error();
  }
  return fail(errc::address, "no %" PRIu64 " bytes of the address window are free in one piece", bytes);
}

// Checks the pages that opening reads next by plain loads: on a page that the device has lost, a load raises SIGBUS.
// Checks only the beginning of the page map, so that opening a large pool takes no longer: allocations read a few
// entries at a time.
status pool_file::make_sure_of_metadata() noexcept {
  constexpr std::uint64_t map_bytes_max = std::uint64_t{8} << 20;
  const std::uint64_t map_bytes =
      std::min(shape_.page_map_end(superblock_.size_pages) - shape_.page_map_offset, map_bytes_max);
  const bool clean = superblock_.state == static_cast<std::uint32_t>(pool_state::clean);
  const bool recovers = !clean && !has_image(superblock_);
  struct part {
    const char* what;
    std::uint64_t from, to;
  };
  const part parts[] = {{"superblocks", 0, header_bytes},
                        {"page map", shape_.page_map_offset, shape_.page_map_offset + map_bytes},
                        {"log", shape_.log_offset, shape_.log_offset + (recovers ? shape_.log_bytes : 0)},
                        // The rest of the log is read by system calls.
                        {"headers of the log", shape_.log_offset,
                         shape_.log_offset + (has_image(superblock_) ? 2 * file_page_bytes : 0)}};
  for (const part& p : parts) {
    const std::byte* const bad = platform::unreadable_page(base() + p.from, p.to - p.from);
    if (bad == nullptr) continue;
    return fail(errc::io, "%s: the page at offset %" PRIu64 " cannot be read: %s", p.what,
                static_cast<std::uint64_t>(bad - base()), std::strerror(errno));
  }
  return {};
}

status pool_file::lock_file(bool exclusive) noexcept {
  auto s = exclusive ? file_.lock_exclusive() : file_.lock_shared();
  if (s || s.error() != errc::busy) return s;
  // The record names the last process that could change the pool; a process that only reads keeps out this one, too.
  if (const auto held = file_.locked_elsewhere(); exclusive && held && !*held) {
    return fail(errc::busy, "another process reads it");
  }
  layout::owner_record owner{};
  if (auto known = file_.read(owner_at, &owner, sizeof owner); !known || owner.pid == 0) {
    return fail(errc::busy, "another process has it open");
  }
  return fail(errc::busy, "process %" PRIu64 " has it open", owner.pid);
}

status pool_file::read_superblock(bool accept_copy) noexcept {
  const auto bytes = file_.size();
  if (!bytes) return bytes.error();
  alignas(8) std::byte header[header_bytes];
  const std::size_t available = std::min<std::uint64_t>(*bytes, sizeof header);
  if (auto s = file_.read(0, header, available); !s) return s;
  const auto sb = pick_superblock(header, available, *bytes);
  if (!sb) return sb.error();
  if (auto s = check_file_superblock(*sb); !s) return s;
  layout::owner_record owner;
  std::memcpy(&owner, header + owner_at, sizeof owner);
  if (!accept_copy) {
    if (auto s = check_not_a_copy(owner, file_); !s) return s;
  }
  take_superblock(*sb);
  return {};
}

void pool_file::take_superblock(const layout::superblock& sb) noexcept {
  superblock_ = sb;
  shape_ = geometry_of(sb);
  size_pages_.store(sb.size_pages, std::memory_order_release);
  features_.store(sb.features_incompat, std::memory_order_release);
  compatible_.store(sb.features_compat, std::memory_order_release);
}

// The logs of ssd and of direct media differ, so those two kinds cannot stand in for each other; direct media can, and
// the place of the file says which it is now. A pool of engine log has neither kind of log and works on any medium.
status pool_file::choose_medium(std::uint32_t requested) noexcept {
  const std::uint32_t made = superblock_.medium;
  const bool anywhere = engine_of(superblock_.engine).is_its_log();
  if (requested != NVM_MEDIUM_DETECT) {
    if (!anywhere && (requested == NVM_MEDIUM_SSD) != (made == NVM_MEDIUM_SSD)) {
      return fail(errc::medium, "it was made for medium %s, asked for is %s: their logs differ", medium_name(made),
                  medium_name(requested));
    }
    medium_ = requested;
    return {};
  }
  if (made == NVM_MEDIUM_SSD) {
    medium_ = made;  // right on any file system
    return {};
  }
  const auto detected = detect_medium(file_);
  if (!detected) return detected.error();
  if (*detected == NVM_MEDIUM_SSD && read_only_) {
    medium_ = made;  // nothing is written, so no data can get lost
    return {};
  }
  if (*detected == NVM_MEDIUM_SSD && !anywhere) {
    return fail(
        errc::medium,
        "it was made for medium %s, but lies on a file system behind a page cache, where commits would not survive "
        "power loss; name medium shm to open it all the same",
        medium_name(made));
  }
  medium_ = *detected;
  return {};
}

status pool_file::map() noexcept {
  const int descriptor = file_.descriptor();
  const std::uint64_t bytes = shape_.capacity_bytes();
  const bool is_private = read_only_ || has_image(superblock_);
  const bool by_kernel = medium_ == NVM_MEDIUM_SHM || medium_ == NVM_MEDIUM_SSD;
  const std::uint64_t shown = has_tier() || sparse_ ? shape_.page_offset(0) : bytes;
  const status mapped = is_private  ? slot_.map_private(descriptor, bytes, shown)
                        : by_kernel ? slot_.map_shared(descriptor, bytes, shown)
                                    : slot_.map_shared_sync(descriptor, bytes);
  if (!mapped) return mapped;
  return memory_.start({base_, shape_.address_bytes(), bytes, descriptor, path(), !is_private});
}

status pool_file::detach() noexcept { return slot_.map_private(file_.descriptor(), shape_.capacity_bytes()); }

status pool_file::adopt_image() noexcept {
  const auto bytes = file_.size();
  if (!bytes) return bytes.error();
  const auto sb = pick_superblock(base(), header_bytes, *bytes);
  if (!sb) return sb.error();
  if (auto s = check_file_superblock(*sb); !s) return s;
  if (!is_of_same_pool(superblock_, *sb))
    return fail(errc::corrupt, "the replay of the log changed constant fields of the superblock");
  take_superblock(*sb);
  return {};
}

// ---- while it is open -----------------------------------------------------------------------------------------------

// As write_superblock(), by file operations: outside of the order of a medium, when nothing else changes.
status pool_file::set_state(pool_state state) noexcept {
  // A killed process may have left the copy that counts in caches only: it becomes durable before the other is written.
  if (state == pool_state::open && medium_ != NVM_MEDIUM_SHM) {
    if (auto s = file_.sync_data(); !s) return s;
  }
  if (auto s = set_state_once(state); !s) return s;
  // Everything else is in the file; the mark goes to the device with the second copy.
  if (state == pool_state::clean) clear_owner();
  return set_state_once(state);
}
status pool_file::set_state_once(pool_state state) noexcept {
  superblock_.state = static_cast<std::uint32_t>(state);
  ++superblock_.sequence;
  superblock_.crc = superblock_crc(superblock_);
  const std::uint64_t place = shape_.superblock_at(superblock_copy_of(superblock_.sequence));
  if (auto s = file_.write(place, &superblock_, sizeof superblock_); !s) return s;
  return medium_ == NVM_MEDIUM_SHM ? status{} : file_.sync_data();  // shm survives the process without a sync
}

// The copy that counts is not written: only its state differs, and the next change writes it.
status pool_file::mark_open() noexcept {
  if (!to_mark_open_) return {};
  to_mark_open_ = false;
  return file_.write(shape_.superblock_at(superblock_copy_of(opening_.sequence)), &opening_, sizeof opening_);
}

void pool_file::write_owner(std::uint64_t pid) noexcept {
  const layout::owner_record owner = make_owner(pid, pid != 0 ? file_.identity() : platform::file_identity{});
  // Without the mark, messages say less and copies are not recognised.
  const status written = file_.write(owner_at, &owner, sizeof owner);
  owned_ = pid != 0 && written;
}

void pool_file::clear_owner() noexcept {
  // A file that was cut off must not become longer again.
  if (!owned_ || !file_ || lost()) return;
  const failure_kept kept;
  write_owner(0);
  owned_ = false;
}

}  // namespace nvm
