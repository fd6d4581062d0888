#include "cli/place_facts.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "platform/platform.hpp"

namespace nvm::cli {
namespace {

namespace fs = std::filesystem;

std::string contents_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}
std::string line_of_file(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// The kernel writes a space as \040.
std::string unescaped(const std::string& word) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '7'; };
    if (word[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      text += static_cast<char>((word[i + 1] - '0') * 64 + (word[i + 2] - '0') * 8 + (word[i + 3] - '0'));
      i += 3;
    } else {
      text += word[i];
    }
  }
  return text;
}

bool lies_under(const std::string& path, const std::string& folder) {
  return folder == "/" || path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

std::vector<std::string> options_in(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream{text};
  for (std::string word; std::getline(stream, word, ',');) all.push_back(word);
  return all;
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// File systems whose syncs are answered by a server or a host: its promise cannot be checked from here.
constexpr std::array<std::string_view, 13> elsewhere = {"nfs",  "nfs4",  "cifs",      "smb3",     "ceph", "afs",   "9p",
                                                        "gfs2", "ocfs2", "glusterfs", "virtiofs", "fuse", "lustre"};
constexpr std::array<std::string_view, 2> memory = {"tmpfs", "ramfs"};
constexpr std::array<std::string_view, 4> without_barriers = {"nobarrier", "barrier=0", "barrier=none",
                                                              "fsync_mode=nobarrier"};

// A file with no name in the folder.
result<platform::file> nameless_file(const std::string& folder) {
  auto file = platform::file::open(folder.c_str(), O_TMPFILE | O_RDWR);
  if (file) return file;
  const std::string name = fmt::format("{}/.holdfast-doctor-{}", folder, ::getpid());
  file = platform::file::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL);
  if (file) file->remove_name(name.c_str());
  return file;
}

}  // namespace

mount_facts mount_of(const std::string& path, const std::string& text) {
  mount_facts best;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    // 36 35 98:0 /root /point options [tag...] - type source options
    std::istringstream words{line};
    std::string id, parent, device, root, point, options, word, type, source, more;
    if (!(words >> id >> parent >> device >> root >> point >> options)) continue;
    while (words >> word && word != "-") {
    }
    if (!(words >> type >> source)) continue;
    words >> more;
    point = unescaped(point);
    // A later mount covers an earlier one on the same point.
    if (!lies_under(path, point) || point.size() < best.point.size()) continue;
    best = {type, unescaped(source), point, more.empty() ? options : options + "," + more, 0, 0};
    (void)std::sscanf(device.c_str(), "%u:%u", &best.device_major, &best.device_minor);
  }
  return best;
}

mount_facts mount_of(const std::string& path) { return mount_of(path, contents_of("/proc/self/mountinfo")); }

device_facts device_of(const mount_facts& mount) {
  device_facts d;
  unsigned major = mount.device_major;
  unsigned minor = mount.device_minor;
  struct ::stat source{};
  // File systems of several devices have a number of their own.
  if (major == 0 && ::stat(mount.source.c_str(), &source) == 0 && S_ISBLK(source.st_mode)) {
    major = major(source.st_rdev);
    minor = minor(source.st_rdev);
  }
  if (major == 0) return d;
  std::error_code none;
  const fs::path place = fs::canonical(fmt::format("/sys/dev/block/{}:{}", major, minor), none);
  if (none) return d;
  d.name = place.filename();
  const fs::path disk = fs::exists(place / "queue", none) ? place : place.parent_path();  // of a partition
  d.write_cache = line_of_file(disk / "queue/write_cache");
  d.model = line_of_file(disk / "device/model");
  d.backing = line_of_file(disk / "loop/backing_file");
  return d;
}

sync_judgement judge_syncs(const mount_facts& mount, const device_facts& device, const std::string& preloaded,
                           const mount_facts* below) {
  if (preloaded.find("eatmydata") != std::string::npos) {
    return {verdict::no, "LD_PRELOAD names libeatmydata, with which syncs do nothing"};
  }
  if (mount.type.empty()) return {verdict::unknown, "the file system is not known"};
  if (is_one_of(mount.type, memory)) {
    return {verdict::no, fmt::format("{} is memory of this boot", mount.type)};
  }
  const std::vector<std::string> options = options_in(mount.options);
  for (const std::string& o : options) {
    if (is_one_of(o, without_barriers)) {
      return {verdict::no, fmt::format("{} is mounted with {}: the device's cache is not flushed", mount.point, o)};
    }
  }
  if (mount.type == "overlay" || mount.type == "fuse.fuse-overlayfs") {
    if (std::find(options.begin(), options.end(), "volatile") != options.end()) {
      return {verdict::no, fmt::format("{} is an overlay mounted with volatile: syncs do nothing", mount.point)};
    }
    if (below == nullptr || below->type.empty() || below->type == mount.type) {
      return {verdict::unknown,
              "the folder is an overlay, as containers have; what lies below it cannot be seen from here (a volume has "
              "no such layer)"};
    }
    sync_judgement lower = judge_syncs(*below, device, preloaded, nullptr);
    lower.because = "an overlay; below it " + lower.because;
    return lower;
  }
  if (is_one_of(mount.type, elsewhere) || mount.type.starts_with("fuse.")) {
    return {verdict::unknown,
            fmt::format("a sync on {} asks {}, and nothing here says what that does", mount.type, mount.source)};
  }
  if (!device.backing.empty()) {
    return {verdict::unknown,
            fmt::format("{} is the file {}: a sync is as good as there", device.name, device.backing)};
  }
  std::string how =
      fmt::format("{} on {} takes a sync to the device", mount.type, device.name.empty() ? mount.source : device.name);
  if (device.write_cache == "write back") {
    how += ", whose cache is volatile and is flushed by it";
  } else if (device.write_cache == "write through") {
    how += ", which has no volatile cache";
  }
  return {verdict::yes, how};
}

sync_judgement judge_syncs(const mount_facts& mount) {
  const char* preloaded = std::getenv("LD_PRELOAD");
  const std::string text = preloaded == nullptr ? "" : preloaded;
  for (const std::string& o : options_in(mount.options)) {
    if (!o.starts_with("upperdir=")) continue;
    std::error_code none;
    const fs::path upper = fs::canonical(o.substr(sizeof "upperdir=" - 1), none);
    if (none) break;
    const mount_facts below = mount_of(upper);
    return judge_syncs(mount, device_of(below), text, &below);
  }
  return judge_syncs(mount, device_of(mount), text, nullptr);
}

std::vector<std::string> persistence_domains() {
  std::vector<std::string> all;
  std::error_code none;
  for (const auto& device : fs::directory_iterator{"/sys/bus/nd/devices", none}) {
    const std::string domain = line_of_file(device.path() / "persistence_domain");
    if (!domain.empty() && std::find(all.begin(), all.end(), domain) == all.end()) all.push_back(domain);
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool is_virtual() {
  std::ifstream facts{"/proc/cpuinfo"};
  for (std::string line; std::getline(facts, line);) {
    if (!line.starts_with("flags")) continue;
    return (line + ' ').find(" hypervisor ") != std::string::npos;
  }
  return false;
}

std::optional<room_facts> room_in(const std::string& folder) {
  struct ::statvfs facts{};
  if (::statvfs(folder.c_str(), &facts) != 0) return std::nullopt;
  return room_facts{std::uint64_t{facts.f_bavail} * facts.f_frsize, facts.f_favail};
}

process_limits limits_of_process() {
  const auto limit = [](auto which) -> std::optional<std::uint64_t> {
    struct ::rlimit r{};
    if (::getrlimit(which, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return r.rlim_cur;
  };
  process_limits l;
  l.address_space = limit(RLIMIT_AS);
  l.file_bytes = limit(RLIMIT_FSIZE);
  l.open_files = limit(RLIMIT_NOFILE);
  l.map_count = std::strtoull(line_of_file("/proc/sys/vm/max_map_count").c_str(), nullptr, 10);
  if (const std::uint64_t bytes = platform::memory_limit(); bytes != 0) l.memory_bytes = bytes;
  return l;
}

sync_latency measure_syncs(const std::string& folder, double seconds) {
  using clock = std::chrono::steady_clock;
  constexpr std::size_t page = 4096;
  constexpr std::size_t pages = 64;
  constexpr std::size_t least = 8;
  sync_latency found;
  const auto failed = [&](const char* what) {
    found.problem = fmt::format("{}: {}", what, last_message());
    return found;
  };
  const auto file = nameless_file(folder);
  if (!file) return failed("a scratch file");
  std::vector<char> bytes(page);
  // Blocks first, so that no allocation is measured.
  for (std::size_t i = 0; i < pages; ++i) {
    if (!file->write(i * page, bytes.data(), page)) return failed("a write");
  }
  if (!file->sync_all()) return failed("a sync");
  std::vector<double> took;
  const auto begin = clock::now();
  const std::chrono::duration<double> time{seconds};
  for (std::size_t i = 0; i < least || clock::now() - begin < time; ++i) {
    std::memset(bytes.data(), static_cast<int>(i), page);
    const auto at = clock::now();
    if (!file->write(i % pages * page, bytes.data(), page)) return failed("a write");
    if (!file->sync_data()) return failed("a sync");
    took.push_back(std::chrono::duration<double, std::nano>(clock::now() - at).count());
  }
  std::sort(took.begin(), took.end());
  found.count = took.size();
  found.median_ns = took[took.size() / 2];
  found.p99_ns = took[std::min(took.size() - 1, took.size() * 99 / 100)];
  return found;
}

memory_trials try_memory(const std::string& folder) {
  memory_trials t;
  constexpr std::size_t size = std::size_t{1} << 16;
  t.window = static_cast<bool>(platform::reserve_window());
  if (!t.window) t.window_problem = last_message();
  void* range = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range != MAP_FAILED) {
    {
      const auto faults = platform::user_faults::open(static_cast<std::byte*>(range), size);
      t.user_faults = static_cast<bool>(faults);
      if (t.user_faults) {
        t.user_faults_in_system_calls = faults->in_system_calls();
      } else {
        t.user_faults_problem = last_message();
      }
    }
    ::munmap(range, size);
  }
  const auto file = nameless_file(folder);
  if (!file || !file->truncate(size)) {
    t.map_sync_problem = last_message();
    return t;
  }
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file->descriptor(), 0);
  t.map_sync = mapped != MAP_FAILED;
  if (t.map_sync) {
    ::munmap(mapped, size);
  } else {
    t.map_sync_problem =
        errno == EOPNOTSUPP ? "the file system is not on directly mapped memory" : std::strerror(errno);
  }
  return t;
}

}  // namespace nvm::cli
