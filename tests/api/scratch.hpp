// A place for pool files of one test, on each medium, removed at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "nvm/nvm.h"

namespace nvm::tests {

class scratch {
 public:
  explicit scratch(bool ssd) : ssd_{ssd} {
    std::string name = ssd ? "/var/tmp/holdfast-api-XXXXXX" : "/dev/shm/holdfast-api-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    folder_ = name;
  }
  ~scratch() { std::filesystem::remove_all(folder_); }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  std::string path(const char* name = "pool") const { return folder_ + "/" + name; }
  bool ssd() const { return ssd_; }

  NVM_POOL* create(const char* name = "pool", std::size_t size = std::size_t{4} << 20) const {
    nvm_pool_options o{};
    o.size = size;
    o.medium = ssd_ ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
    NVM_POOL* p = nvm_pool_create_with(path(name).c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }

 private:
  bool ssd_;
  std::string folder_;
};

}  // namespace nvm::tests
