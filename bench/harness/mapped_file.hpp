// Files that a benchmark makes for itself and that go away with it.
#pragma once

#include <cstdint>
#include <string>

namespace nvm::bench {

// A path for a new file or directory in `directory`, unique to this process; what is there is removed now and, with all
// it contains, when the object dies.
class temporary_path {
 public:
  temporary_path(const std::string& directory, const std::string& name);
  ~temporary_path();
  temporary_path(const temporary_path&) = delete;
  temporary_path& operator=(const temporary_path&) = delete;
  const std::string& string() const noexcept { return path_; }
  const char* c_str() const noexcept { return path_.c_str(); }

 private:
  std::string path_;
};

// A preallocated file, mapped shared, every page touched.
class mapped_file {
 public:
  mapped_file(const std::string& path, std::uint64_t bytes);
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  char* data() const noexcept { return data_; }

 private:
  char* data_;
  std::uint64_t bytes_;
};

// A file that is there, mapped shared.
class existing_file {
 public:
  existing_file(const std::string& path, std::uint64_t bytes);
  ~existing_file();
  existing_file(const existing_file&) = delete;
  existing_file& operator=(const existing_file&) = delete;
  char* data() const noexcept { return data_; }

 private:
  char* data_;
  std::uint64_t bytes_;
};

}  // namespace nvm::bench
