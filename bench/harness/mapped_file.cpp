#include "harness/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace nvm::bench {

temporary_path::temporary_path(const std::string& directory, const std::string& name)
    : path_(directory + "/holdfast-bench-" + std::to_string(getpid()) + "-" + name) {
  std::filesystem::remove_all(path_);
}

temporary_path::~temporary_path() {
  std::error_code ignored;  // a file left behind must not hide the error that brought us here
  std::filesystem::remove_all(path_, ignored);
}

mapped_file::mapped_file(const std::string& path, std::uint64_t bytes) : data_(nullptr), bytes_(bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  unlink(path.c_str());
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    close(fd);
    throw std::system_error(error, std::generic_category(), path);
  }
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  const int error = errno;
  close(fd);
  if (p == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  data_ = static_cast<char*>(p);
}

mapped_file::~mapped_file() { munmap(data_, bytes_); }

existing_file::existing_file(const std::string& path, std::uint64_t bytes) : data_(nullptr), bytes_(bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  const int error = errno;
  close(fd);
  if (p == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  data_ = static_cast<char*>(p);
}

existing_file::~existing_file() { munmap(data_, bytes_); }

}  // namespace nvm::bench
