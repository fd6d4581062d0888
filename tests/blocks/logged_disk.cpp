#define FUSE_USE_VERSION 31

#include "logged_disk.hpp"

#include <fcntl.h>
#include <fuse.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

namespace nvm::blocks {
namespace {

constexpr std::uint64_t log_bytes_max = std::uint64_t{1} << 30;
constexpr std::size_t events_max = std::size_t{1} << 18;

// Pages of it come when they are touched.
template <class T>
T* shared_memory(std::size_t bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<T*>(p);
}

std::string what_failed(const std::string& what) { return what + ": " + std::strerror(errno); }

}  // namespace

struct logged_disk::shared {
  std::atomic<std::uint64_t> events, bytes;
  std::atomic<bool> overflowed;
};

std::span<const event> logged_disk::events() const { return {events_, shared_->events.load()}; }
bool logged_disk::has_overflowed() const { return shared_->overflowed.load(); }
const char* logged_disk::note(std::size_t i) const {
  char* at = notes_ + i * how_.note_bytes;
  if (i == shared_->events.load()) how_.take_note(at);
  return at;
}
void logged_disk::forget() {
  shared_->events.store(0);
  shared_->bytes.store(0);
  shared_->overflowed.store(false);
}

// ---- the process that serves it

struct server {
  static logged_disk& disk() { return *static_cast<logged_disk*>(::fuse_get_context()->private_data); }

  static void log(logged_disk& d, std::uint64_t offset, const char* from, std::uint64_t bytes) {
    const std::uint64_t i = d.shared_->events.load(), used = d.shared_->bytes.load();
    if (i + 1 >= events_max || used + bytes > log_bytes_max) {
      d.shared_->overflowed.store(true);
      return;
    }
    d.how_.take_note(d.notes_ + i * d.how_.note_bytes);
    d.events_[i] = {offset, bytes, used};
    if (bytes != 0) std::memcpy(d.log_bytes_ + used, from, bytes);
    d.shared_->bytes.store(used + bytes);
    d.shared_->events.store(i + 1);
  }

  static bool is_disk(const char* path) { return std::strcmp(path, "/disk") == 0; }
  static int getattr(const char* path, struct stat* out, fuse_file_info*) {
    *out = {};
    if (std::strcmp(path, "/") == 0) {
      out->st_mode = S_IFDIR | 0700;
      out->st_nlink = 2;
      return 0;
    }
    if (!is_disk(path)) return -ENOENT;
    out->st_mode = S_IFREG | 0600;
    out->st_nlink = 1;
    out->st_size = static_cast<off_t>(disk().how_.bytes);
    return 0;
  }
  // Requests come here as they are made, without the page cache.
  static int open(const char* path, fuse_file_info* file) {
    if (!is_disk(path)) return -ENOENT;
    file->direct_io = 1;
    return 0;
  }
  static int read(const char*, char* to, std::size_t bytes, off_t from, fuse_file_info*) {
    logged_disk& d = disk();
    const auto offset = static_cast<std::uint64_t>(from);
    if (offset >= d.how_.bytes) return 0;
    if (bytes > d.how_.bytes - offset) bytes = d.how_.bytes - offset;
    std::memcpy(to, d.contents_ + offset, bytes);
    return static_cast<int>(bytes);
  }
  static int write(const char*, const char* from, std::size_t bytes, off_t to, fuse_file_info*) {
    logged_disk& d = disk();
    const auto offset = static_cast<std::uint64_t>(to);
    if (offset % sector_bytes != 0 || bytes % sector_bytes != 0) return -EINVAL;
    if (offset > d.how_.bytes || bytes > d.how_.bytes - offset) return -ENOSPC;
    if (bytes != 0) log(d, offset, from, bytes);
    std::memcpy(d.contents_ + offset, from, bytes);
    return static_cast<int>(bytes);
  }
  static int fsync(const char*, int, fuse_file_info*) {
    log(disk(), 0, nullptr, 0);
    return 0;
  }

  // Until it is unmounted.
  static int serve(logged_disk& d) {
    fuse_operations calls{};
    calls.getattr = getattr;
    calls.open = open;
    calls.read = read;
    calls.write = write;
    calls.fsync = fsync;
    char name[] = "logged_disk";
    char* arguments[] = {name, nullptr};
    fuse_args all = FUSE_ARGS_INIT(1, arguments);
    fuse* f = ::fuse_new(&all, &calls, sizeof calls, &d);
    if (f == nullptr || ::fuse_mount(f, d.mount_point_.c_str()) != 0) return 1;
    const int code = ::fuse_loop(f);
    ::fuse_unmount(f);
    ::fuse_destroy(f);
    return code;
  }
};

// ---- its life

std::string logged_disk::begin(const settings& how) {
  how_ = how;
  mount_point_ = how.folder + "/served";
  shared_ = shared_memory<shared>(sizeof(shared));
  contents_ = shared_memory<char>(how.bytes);
  events_ = shared_memory<event>(events_max * sizeof(event));
  log_bytes_ = shared_memory<char>(log_bytes_max);
  notes_ = shared_memory<char>((events_max + 1) * how.note_bytes);
  if (shared_ == nullptr || contents_ == nullptr || events_ == nullptr || log_bytes_ == nullptr || notes_ == nullptr)
    return what_failed("memory for a disk");
  if (::mkdir(mount_point_.c_str(), 0700) != 0) return what_failed(mount_point_);

  server_ = ::fork();
  if (server_ < 0) return what_failed("fork");
  if (server_ == 0) {
    // The one who started it says when it ends.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    ::_exit(server::serve(*this));
  }
  const std::string file = mount_point_ + "/disk";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  int backing = -1;
  while ((backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC)) < 0) {
    if (::waitpid(server_, nullptr, WNOHANG) != 0) {
      server_ = 0;
      return "the file system in user space does not start";
    }
    if (std::chrono::steady_clock::now() > deadline) return what_failed(file);
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }

  std::string wrong;
  const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (control < 0) wrong = what_failed("/dev/loop-control");
  // Somebody else may take the free one first.
  for (int tries = 0; wrong.empty() && loop_ < 0; ++tries) {
    const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) {
      wrong = what_failed("a free loop device");
      break;
    }
    device_ = "/dev/loop" + std::to_string(number);
    const int device = ::open(device_.c_str(), O_RDWR | O_CLOEXEC);
    loop_config config{};
    config.fd = static_cast<std::uint32_t>(backing);
    config.block_size = sector_bytes;
    if (device >= 0 && ::ioctl(device, LOOP_CONFIGURE, &config) == 0) {
      loop_ = number;
    } else if (errno != EBUSY || tries == 100) {
      wrong = what_failed(device_);
    }
    if (device >= 0) ::close(device);
  }
  if (control >= 0) ::close(control);
  ::close(backing);
  return wrong;
}

void logged_disk::end() noexcept {
  if (loop_ >= 0) {
    const int device = ::open(device_.c_str(), O_RDWR | O_CLOEXEC);
    if (device >= 0) {
      (void)::ioctl(device, LOOP_CLR_FD, 0);
      ::close(device);
    }
    loop_ = -1;
  }
  if (server_ > 0) {
    // The loop device lets go of the file a little later.
    for (int tries = 0; ::umount2(mount_point_.c_str(), 0) != 0 && errno == EBUSY && tries < 500; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    (void)::umount2(mount_point_.c_str(), MNT_DETACH);
    (void)::waitpid(server_, nullptr, 0);
    (void)::rmdir(mount_point_.c_str());
    server_ = 0;
  }
  for (auto [p, bytes] : {std::pair<void*, std::size_t>{shared_, sizeof(shared)},
                          {contents_, how_.bytes},
                          {events_, events_max * sizeof(event)},
                          {log_bytes_, log_bytes_max},
                          {notes_, (events_max + 1) * how_.note_bytes}}) {
    if (p != nullptr) ::munmap(p, bytes);
  }
  shared_ = nullptr;
  contents_ = log_bytes_ = notes_ = nullptr;
  events_ = nullptr;
}

}  // namespace nvm::blocks
