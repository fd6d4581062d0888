// A place for pool files of one test, of each kind of pool, removed at the end.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "../scratch_folder.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {

// Pools that take the same calls.
enum class pool_kind { shm, log, ssd, ssd_log };
// In this order every second one has each medium and each kind of engine (kinds_of_build).
inline constexpr pool_kind pool_kinds[] = {pool_kind::shm, pool_kind::log, pool_kind::ssd_log, pool_kind::ssd};
constexpr bool is_ssd(pool_kind k) { return k == pool_kind::ssd || k == pool_kind::ssd_log; }
constexpr bool is_log(pool_kind k) { return k == pool_kind::log || k == pool_kind::ssd_log; }
inline std::string name_of(const testing::TestParamInfo<pool_kind>& k) {
  constexpr const char* names[] = {"shm", "log", "ssd", "ssd_log"};
  return names[static_cast<unsigned>(k.param)];
}
inline void choose(nvm_pool_options& o, pool_kind k) {
  o.medium = is_ssd(k) ? NVM_MEDIUM_SSD : direct_medium();
  if (is_log(k)) o.engine = NVM_ENGINE_LOG;
}

class scratch {
 public:
  explicit scratch(bool ssd) : scratch{ssd ? pool_kind::ssd : pool_kind::shm} {}
  explicit scratch(pool_kind kind) : kind_{kind}, folder_{"api", is_ssd(kind)} {}
  std::string path(const char* name = "pool") const { return folder_.path(name); }
  bool ssd() const { return is_ssd(kind_); }
  pool_kind kind() const { return kind_; }

  NVM_POOL* create(const char* name = "pool", std::size_t size = std::size_t{4} << 20) const {
    nvm_pool_options o{};
    o.size = size;
    choose(o, kind_);
    NVM_POOL* p = nvm_pool_create_with(path(name).c_str(), &o);
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    return p;
  }

 private:
  pool_kind kind_;
  scratch_folder folder_;
};

}  // namespace nvm::tests
