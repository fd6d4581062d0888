// A place for pool files of one test, on each medium, removed at the end.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "../scratch_folder.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {

class scratch {
 public:
  explicit scratch(bool ssd) : ssd_{ssd}, folder_{"api", ssd} {}
  std::string path(const char* name = "pool") const { return folder_.path(name); }
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
  scratch_folder folder_;
};

}  // namespace nvm::tests
