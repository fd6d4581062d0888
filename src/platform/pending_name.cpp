#include "platform/pending_name.hpp"

#include <errno.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

namespace nvm::platform {
namespace {

constexpr std::string_view suffix = ".holdfast-unfinished";
constexpr unsigned links_max = 40;    // as the kernel
constexpr unsigned attempts_max = 8;  // others may begin, die and be cleared away meanwhile

// Whether the path names the file, also where a call of its own that asks fails.
bool is_name_of(const file& f, const char* path) noexcept {
  if (f.has_name(path)) return true;
  char own_path[48];
  std::snprintf(own_path, sizeof own_path, "/proc/self/fd/%d", f.descriptor());
  struct ::stat named{};
  struct ::stat own{};
  if (::lstat(path, &named) != 0 || ::stat(own_path, &own) != 0) return false;
  return named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

status failed(const std::string& path, const char* what) noexcept {
  const int number = errno;
  const bool full = number == ENOSPC || number == EDQUOT;
  const errc code = number == EEXIST ? errc::exists : full ? errc::no_space : errc::system;
  fail(code, "%s %s: %s", what, path.c_str(), std::strerror(number));
  errno = number;
  return code;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Beside the file; a long name is cut and told apart by its checksum.
std::string temporary_of(const std::string& path) {
  constexpr std::size_t longest = NAME_MAX - suffix.size() - 1;
  const std::size_t slash = path.rfind('/');
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  std::string name = path.substr(begin);
  if (name.size() > longest) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx",
                  static_cast<unsigned long long>(checksum(name.data(), name.size(), 0)));
    name.resize(longest - 16);
    name += digits;
  }
  return path.substr(0, begin) + "." + name + std::string{suffix};
}

// As the kernel with protected_symlinks: in a folder that all may write to, links of other users are not followed.
bool may_follow(const std::string& link, const struct ::stat& itself) {
  struct ::stat folder{};
  if (::stat(folder_of(link).c_str(), &folder) != 0) return false;
  const bool for_everybody = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
  return !for_everybody || itself.st_uid == ::geteuid() || itself.st_uid == folder.st_uid;
}

bool lacks_nameless_files(int error) { return error == EOPNOTSUPP || error == EISDIR || error == EINVAL; }

}  // namespace

result<std::string> behind_links(const char* path) noexcept try {
  std::string at = path;
  for (unsigned i = 0; i < links_max; ++i) {
    struct ::stat itself{};
    if (::lstat(at.c_str(), &itself) != 0 || !S_ISLNK(itself.st_mode)) return at;
    if (!may_follow(at, itself)) {
      errno = EACCES;
      return failed(at, "follow the link").error();
    }
    char target[PATH_MAX];
    const ssize_t length = ::readlink(at.c_str(), target, sizeof target);
    if (length <= 0) return at;
    const std::string_view words{target, static_cast<std::size_t>(length)};
    at = words.front() == '/' ? std::string{words} : folder_of(at) + "/" + std::string{words};
  }
  errno = ELOOP;
  return failed(path, "follow").error();
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no memory for a path");
}

result<file> file_for_questions(const char* path) noexcept try {
  const auto behind = behind_links(path);
  if (!behind) return behind.error();
  const std::string folder = folder_of(*behind);
  auto nameless = file::open(folder.c_str(), O_TMPFILE | O_RDWR, 0600);
  if (nameless || !lacks_nameless_files(errno)) return nameless;
  return file::open(folder.c_str(), O_PATH | O_DIRECTORY);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no memory for a path");
}

result<file> pending_name::begin(const char* path, unsigned mode, kind how) noexcept try {
  auto behind = behind_links(path);
  if (!behind) return behind.error();
  path_ = std::move(*behind);
  if (how == kind::none_if_possible) {
    struct ::stat there{};
    if (::lstat(path_.c_str(), &there) == 0) {
      errno = EEXIST;
      return failed(path_, "make").error();
    }
    // Without /proc a nameless file could not get a name.
    if (::access("/proc/self/fd", X_OK) == 0) {
      auto nameless = file::open(folder_of(path_).c_str(), O_TMPFILE | O_RDWR, mode);
      if (nameless) {
        // A process that used a temporary name may still have left one.
        temporary_ = temporary_of(path_);
        if (::lstat(temporary_.c_str(), &there) == 0) (void)remove_leftover();
        temporary_.clear();
        return nameless;
      }
      if (!lacks_nameless_files(errno)) return nameless.error();
    }
  }
  temporary_ = temporary_of(path_);
  return begin_named(mode);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no memory for a path");
}

result<file> pending_name::begin_named(unsigned mode) noexcept {
  const char* const name = temporary_.c_str();
  for (unsigned attempt = 0; attempt < attempts_max; ++attempt) {
    auto made = file::open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (!made) {
      if (made.error() != errc::exists) return made;
      if (auto s = remove_leftover(); !s) return s.error();
      continue;
    }
    // Another process may have taken the new file for a leftover before it was locked.
    if (auto s = made->lock_exclusive(); !s) {
      if (s.error() == errc::busy) continue;
      const int number = errno;
      if (is_name_of(*made, name)) ::unlink(name);
      errno = number;
      return s.error();
    }
    if (!is_name_of(*made, name)) continue;
    is_there_ = true;
    return made;
  }
  return fail(errc::busy, "another process makes %s at this moment", path_.c_str());
}

// Removes the file with the temporary name, unless a process is working on it.
status pending_name::remove_leftover() noexcept {
  const char* const name = temporary_.c_str();
  auto leftover = file::open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (!leftover) return leftover.error() == errc::not_found ? status{} : status{leftover.error()};
  const auto facts = leftover->facts();
  if (!facts) return facts.error();
  if (!facts->regular) {
    errno = 0;
    return fail(errc::exists, "%s is in the way: it is no regular file", name);
  }
  if (auto s = leftover->lock_exclusive(); !s) {
    if (s.error() != errc::busy) return s;
    return fail(errc::busy, "another process makes %s at this moment", path_.c_str());
  }
  leftover->remove_name(name);
  return {};
}

status pending_name::give(const file& made) noexcept {
  if (!is_there_) {
    if (made.give_name(path_.c_str()) != 0) return failed(path_, "name");
  } else {
    if (file::rename(temporary_.c_str(), path_.c_str(), RENAME_NOREPLACE) != 0) {
      // Some file systems cannot rename without replacing.
      const bool unknown = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
      if (!unknown || ::link(temporary_.c_str(), path_.c_str()) != 0) return failed(path_, "name");
      drop(made);
    }
    is_there_ = false;
  }
  const status synced = sync_directory_of(path_.c_str());
  if (!synced) {
    const int number = errno;
    made.remove_name(path_.c_str());
    errno = number;
  }
  return synced;
}

status pending_name::replace(const file& made) noexcept {
  if (auto s = made.sync_all(); !s) return s;
  if (file::rename(temporary_.c_str(), path_.c_str(), 0) != 0) return failed(path_, "name");
  is_there_ = false;
  return sync_directory_of(path_.c_str());  // there is no way back
}

void pending_name::drop(const file& made) noexcept {
  const int number = errno;
  if (is_there_ && made && is_name_of(made, temporary_.c_str())) ::unlink(temporary_.c_str());
  is_there_ = false;
  errno = number;
}

}  // namespace nvm::platform
