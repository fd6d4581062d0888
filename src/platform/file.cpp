#include "platform/file.hpp"

#include <errno.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "platform/cancellation.hpp"
#include "platform/descriptor.hpp"

namespace nvm::platform {
namespace {

constexpr file_calls system_calls{
    .open = [](const char* path, int flags, unsigned mode) { return open_descriptor(path, flags, mode); },
    .close = ::close,
    .pread = ::pread,
    .pwrite = ::pwrite,
    .fdatasync = ::fdatasync,
    .fsync = ::fsync,
    .fallocate = ::fallocate,
    .ftruncate = ::ftruncate,
    .fstat = [](int descriptor, struct ::stat* out) { return ::fstat(descriptor, out); },
    .lock = [](int descriptor, struct ::flock* range) { return ::fcntl(descriptor, F_OFD_SETLK, range); },
    .lock_test = [](int descriptor, struct ::flock* range) { return ::fcntl(descriptor, F_OFD_GETLK, range); },
    .link =
        [](int descriptor, const char* path) {
          char name[32];
          std::snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
          return ::linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
        },
    .rename = [](const char* from, const char* to,
                 unsigned flags) { return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags); },
};
std::atomic<const file_calls*> replaced{nullptr};

const file_calls& process_calls() noexcept {
  // acquire: pairs with the release of use_file_calls; the table is initialised.
  const file_calls* table = replaced.load(std::memory_order_acquire);
  return table != nullptr ? *table : system_calls;
}

// Continues a call that a signal interrupted; no cancellation point.
template <class Call>
auto uninterrupted(Call&& call) noexcept {
  const uncancelled until_done;
  auto r = call();
  while (r < 0 && errno == EINTR) r = call();
  return r;
}

// The message of a failed call; errno stays for the caller.
status failed(errc code, const char* what, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const int number = errno;
  fail(code, "%s of %llu bytes at offset %llu: %s", what, static_cast<unsigned long long>(bytes),
       static_cast<unsigned long long>(offset), std::strerror(number));
  errno = number;
  return code;
}

errc space_or(errc otherwise) noexcept {
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errc::no_space : otherwise;
}

// Beyond the limit of the process the system raises SIGXFSZ, which ends an unprepared program. Here it is an error like
// a full device.
bool beyond_limit(std::uint64_t end) noexcept {
  struct ::rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}
status refuse_beyond_limit(std::uint64_t end) noexcept {
  errno = EFBIG;
  fail(errc::no_space, "a file of %llu bytes is larger than this process may write (ulimit -f)",
       static_cast<unsigned long long>(end));
  return errc::no_space;
}

struct ::flock whole_file(short type) noexcept {
  struct ::flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  return range;  // l_pid zero, as open-file-description locks demand; length zero: to the end
}

}  // namespace

const file_calls& system_file_calls() noexcept { return system_calls; }
void use_file_calls(const file_calls* table) noexcept { replaced.store(table, std::memory_order_release); }

const file_calls& file::calls() const noexcept { return calls_ != nullptr ? *calls_ : process_calls(); }

result<file> file::open(const char* path, int flags, unsigned mode, const file_calls* calls) noexcept {
  const file_calls& table = calls != nullptr ? *calls : process_calls();
  const int descriptor = uninterrupted([&] { return table.open(path, flags | O_CLOEXEC, mode); });
  if (descriptor >= 0) return file{descriptor, calls};
  const int number = errno;
  const errc code = number == ENOENT ? errc::not_found : number == EEXIST ? errc::exists : space_or(errc::system);
  fail(code, "open %s: %s", path, std::strerror(number));
  errno = number;
  return code;
}

result<file> file::in_memory(const char* name, std::uint64_t bytes) noexcept {
  file made{open_empty_file(name), nullptr};
  if (!made) return fail(errc::system, "a file in memory: %s", std::strerror(errno));
  if (status s = made.truncate(bytes); !s) return s.error();
  return made;
}

result<file> file::open_again(const char* path) const noexcept {
  char name[32];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor_);
  auto again = open(name, O_RDWR, 0, calls_);
  if (!again) again = open(path, O_RDWR, 0, calls_);
  if (!again) return again.error();
  const auto own = facts(), others = again->facts();
  if (!own) return own.error();
  if (!others) return others.error();
  if (own->device != others->device || own->inode != others->inode) {
    return fail(errc::busy, "open %s once more: found another file, of inode %llu, expected inode %llu", path,
                static_cast<unsigned long long>(others->inode), static_cast<unsigned long long>(own->inode));
  }
  return again;
}

file& file::operator=(file&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.descriptor_;
    calls_ = other.calls_;
    other.descriptor_ = -1;
  }
  return *this;
}

void file::close() noexcept {
  if (descriptor_ < 0) return;
  const uncancelled until_done;
  // Not repeated: on Linux the descriptor is closed even after EINTR, and may be another file's by now.
  calls().close(descriptor_);
  descriptor_ = -1;
}

status file::read(std::uint64_t offset, void* to, std::size_t bytes) const noexcept {
  auto* out = static_cast<char*>(to);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = uninterrupted(
        [&] { return calls().pread(descriptor_, out + done, bytes - done, static_cast<off_t>(offset + done)); });
    if (n < 0) return failed(errc::io, "read", offset + done, bytes - done);
    if (n == 0)
      return fail(errc::corrupt, "read of %zu bytes at offset %llu: the file ends after %zu of them", bytes,
                  static_cast<unsigned long long>(offset), done);
    done += static_cast<std::size_t>(n);
  }
  return {};
}

status file::write(std::uint64_t offset, const void* from, std::size_t bytes) const noexcept {
  if (beyond_limit(offset + bytes)) return refuse_beyond_limit(offset + bytes);
  const auto* in = static_cast<const char*>(from);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = uninterrupted(
        [&] { return calls().pwrite(descriptor_, in + done, bytes - done, static_cast<off_t>(offset + done)); });
    if (n == 0) errno = EIO;  // a regular file never takes 0 bytes; repeating could go on for ever
    if (n <= 0) return failed(space_or(errc::io), "write", offset + done, bytes - done);
    done += static_cast<std::size_t>(n);
  }
  return {};
}

status file::sync_data() const noexcept {
  if (uninterrupted([&] { return calls().fdatasync(descriptor_); }) == 0) return {};
  const int number = errno;
  fail(errc::io, "sync of the file's data: %s", std::strerror(number));
  errno = number;
  return errc::io;
}

status file::sync_all() const noexcept {
  if (uninterrupted([&] { return calls().fsync(descriptor_); }) == 0) return {};
  const int number = errno;
  fail(errc::io, "sync of the file: %s", std::strerror(number));
  errno = number;
  return errc::io;
}

// The limit does not apply to bytes that the file already has.
status file::may_reach(std::uint64_t end) const noexcept {
  if (!beyond_limit(end)) return {};
  const auto now = size();
  if (!now) return now.error();
  return end <= *now ? status{} : refuse_beyond_limit(end);
}

status file::allocate(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (bytes == 0) return {};
  if (auto s = may_reach(offset + bytes); !s) return s;
  const auto start = static_cast<off_t>(offset);
  const auto length = static_cast<off_t>(bytes);
  if (uninterrupted([&] { return calls().fallocate(descriptor_, 0, start, length); }) == 0) return {};
  return failed(space_or(errc::system), "allocation", offset, bytes);
}

status file::truncate(std::uint64_t bytes) const noexcept {
  if (auto s = may_reach(bytes); !s) return s;
  if (uninterrupted([&] { return calls().ftruncate(descriptor_, static_cast<off_t>(bytes)); }) == 0) return {};
  return failed(space_or(errc::system), "truncation", 0, bytes);
}

status file::punch(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  constexpr int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const auto start = static_cast<off_t>(offset);
  const auto length = static_cast<off_t>(bytes);
  if (uninterrupted([&] { return calls().fallocate(descriptor_, mode, start, length); }) == 0) return {};
  return failed(errc::system, "giving back", offset, bytes);
}

result<std::uint64_t> file::next_data(std::uint64_t offset) const noexcept {
  const off_t at = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
  if (at >= 0) return static_cast<std::uint64_t>(at);
  if (errno == ENXIO) return size();
  return failed(errc::system, "looking for data", offset, 0).error();
}

result<std::uint64_t> file::next_hole(std::uint64_t offset) const noexcept {
  const off_t at = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_HOLE);
  if (at >= 0) return static_cast<std::uint64_t>(at);
  if (errno == ENXIO) return size();
  return failed(errc::system, "looking for a hole", offset, 0).error();
}

result<std::uint64_t> file::size() const noexcept {
  struct ::stat s{};
  if (calls().fstat(descriptor_, &s) == 0) return static_cast<std::uint64_t>(s.st_size);
  const int number = errno;
  fail(errc::system, "size of the file: %s", std::strerror(number));
  errno = number;
  return errc::system;
}

result<file_facts> file::facts() const noexcept {
  struct ::stat s{};
  if (calls().fstat(descriptor_, &s) != 0) {
    const int number = errno;
    fail(errc::system, "status of the file: %s", std::strerror(number));
    errno = number;
    return errc::system;
  }
  file_facts f;
  f.device = s.st_dev;
  f.inode = s.st_ino;
  f.bytes = static_cast<std::uint64_t>(s.st_size);
  f.allocated_bytes = static_cast<std::uint64_t>(s.st_blocks) * 512;
  f.owner = s.st_uid;
  f.mode = s.st_mode & 07777;
  f.regular = S_ISREG(s.st_mode);
  f.block_bytes = static_cast<std::uint32_t>(s.st_blksize);
  return f;
}

result<file_system_kind> file::file_system() const noexcept {
  struct ::statx x{};
  if (::statx(descriptor_, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0 &&
      (x.stx_attributes_mask & x.stx_attributes & STATX_ATTR_DAX) != 0)
    return file_system_kind::dax;
  struct ::statfs s{};
  if (::fstatfs(descriptor_, &s) != 0) {
    const int number = errno;
    fail(errc::system, "kind of the file system: %s", std::strerror(number));
    errno = number;
    return errc::system;
  }
  return static_cast<std::uint64_t>(s.f_type) == TMPFS_MAGIC ? file_system_kind::tmpfs : file_system_kind::other;
}

file_identity file::identity() const noexcept {
  struct ::statx x{};
  struct ::statfs s{};
  file_identity id;
  if (::statx(descriptor_, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) != 0 || ::fstatfs(descriptor_, &s) != 0) {
    return id;
  }
  // The numbers of <linux/magic.h>; those that it lacks are from the kernel's sources.
  constexpr std::uint64_t made_up[] = {FUSE_SUPER_MAGIC,       0x517B /* SMB */, 0xFF534D42 /* CIFS */,
                                       0xFE534D42 /* SMB2 */,  V9FS_MAGIC,       MSDOS_SUPER_MAGIC,
                                       0x2011BAB0 /* exFAT */, 0x786F4256 /* VirtualBox */};
  const auto type = static_cast<std::uint32_t>(s.f_type);
  const bool changes = std::find(std::begin(made_up), std::end(made_up), type) != std::end(made_up);
  id.known = changes ? file_identity::how::changing : file_identity::how::certain;
  id.inode = x.stx_ino;
  if ((x.stx_mask & STATX_BTIME) != 0) {
    id.birth_ns = static_cast<std::uint64_t>(x.stx_btime.tv_sec) * 1'000'000'000 + x.stx_btime.tv_nsec;
  }
  return id;
}

status file::lock(short type) const noexcept {
  auto range = whole_file(type);
  if (uninterrupted([&] { return calls().lock(descriptor_, &range); }) == 0) return {};
  if (errno == EAGAIN || errno == EACCES) return fail(errc::busy, "the file is locked by another opener");
  const int number = errno;
  fail(errc::system, "lock of the file: %s", std::strerror(number));
  errno = number;
  return errc::system;
}

status file::lock_exclusive() const noexcept { return lock(F_WRLCK); }
status file::lock_shared() const noexcept { return lock(F_RDLCK); }

void file::unlock() const noexcept {
  auto range = whole_file(F_UNLCK);
  // A failure leaves the lock to the descriptor's close.
  uninterrupted([&] { return calls().lock(descriptor_, &range); });
}

result<bool> file::locked_elsewhere() const noexcept {
  auto range = whole_file(F_RDLCK);
  if (calls().lock_test(descriptor_, &range) == 0) return range.l_type != F_UNLCK;
  const int number = errno;
  fail(errc::system, "query of the file's lock: %s", std::strerror(number));
  errno = number;
  return errc::system;
}

bool file::is_at(const char* path, const file_facts& facts) noexcept {
  struct ::stat there{};
  return ::stat(path, &there) == 0 && there.st_dev == facts.device && there.st_ino == facts.inode;
}
bool file::has_name(const char* path) const noexcept {
  struct ::stat named{};
  struct ::stat own{};
  if (::lstat(path, &named) != 0 || calls().fstat(descriptor_, &own) != 0) return false;
  return named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}
void file::remove_name(const char* path) const noexcept {
  if (has_name(path)) ::unlink(path);
}
int file::give_name(const char* path) const noexcept { return calls().link(descriptor_, path); }
int file::rename(const char* from, const char* to, unsigned flags) noexcept {
  return process_calls().rename(from, to, flags);
}

status sync_directory_of(const char* path) noexcept {
  const std::string_view whole{path};
  const std::size_t slash = whole.rfind('/');
  char directory[4096] = ".";
  if (slash != std::string_view::npos) {
    const std::size_t length = std::max<std::size_t>(slash, 1);  // "/name" lies in "/"
    if (length >= sizeof directory)
      return fail(errc::invalid, "path of %zu bytes is longer than %zu", whole.size(), sizeof directory);
    std::memcpy(directory, path, length);
    directory[length] = 0;
  }
  result<file> opened = file::open(directory, O_RDONLY | O_DIRECTORY);
  if (!opened) return opened.error();
  return opened->sync_all();
}

}  // namespace nvm::platform
