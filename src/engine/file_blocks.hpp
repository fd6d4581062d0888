// The blocks of an open pool's file, as its space asks for them, through the medium that the engine runs on.
#pragma once

#include "media/media.hpp"
#include "pool/pool.hpp"
#include "space/pool_blocks.hpp"

namespace nvm::engines {

template <media M>
class file_blocks final : public pool_blocks {
 public:
  file_blocks(pool_file& file, M& medium) noexcept : file_{file}, medium_{medium} {}

  status fill(std::uint64_t page, std::uint64_t count) noexcept override { return file_.fill(page, count); }
  status allow_holes() noexcept override {
    return file_.has_holes() ? status{} : file_.add_compatible_feature(medium_, layout::feature_holes);
  }
  status bring_home() noexcept override { return nvm::bring_home(medium_); }
  status punch(std::uint64_t page, std::uint64_t count) noexcept override { return file_.punch(page, count); }
  status shrink(std::uint64_t pages, status& uncut) noexcept override { return file_.shrink(medium_, pages, uncut); }

 private:
  pool_file& file_;
  M& medium_;
};

}  // namespace nvm::engines
