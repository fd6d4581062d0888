// A folder for the files of one test (direct_place.hpp), removed at the end.
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
      : path_{std::string{ssd ? ssd_folder() : direct_folder()} + "/holdfast-" + of + "-XXXXXX"} {
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
