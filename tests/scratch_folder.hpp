// A folder for the files of one test, on tmpfs (direct_place.hpp) or behind the page cache, removed at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "direct_place.hpp"

namespace nvm::tests {

class scratch_folder {
 public:
  scratch_folder(const char* of, bool ssd)
      : path_{std::string{ssd ? "/var/tmp" : direct_folder()} + "/holdfast-" + of + "-XXXXXX"} {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no directory " << path_;
  }
  ~scratch_folder() { std::filesystem::remove_all(path_); }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  [[nodiscard]] std::string path(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace nvm::tests
