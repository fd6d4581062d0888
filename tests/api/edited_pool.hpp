// The file of a pool that a test damages word by word, and has again as it was.
#pragma once

#include <cstdint>
#include <cstring>

#include "../file_bytes.hpp"
#include "pool/pool.hpp"

namespace nvm::tests {

class edited_pool {
 public:
  // From now on `bytes` are these, and those that restore() brings back.
  void begin_with(file_bytes sound) { bytes = sound_ = std::move(sound); }
  void restore() { bytes = sound_; }
  [[nodiscard]] const file_bytes& sound() const { return sound_; }

  [[nodiscard]] std::uint64_t word(std::uint64_t at) const {
    std::uint64_t w;
    std::memcpy(&w, &bytes[at], sizeof w);
    return w;
  }
  void put(std::uint64_t at, std::uint64_t w) { std::memcpy(&bytes[at], &w, sizeof w); }
  // Before anything was damaged.
  [[nodiscard]] geometry shape() const {
    layout::superblock sb;
    std::memcpy(&sb, sound_.data(), sizeof sb);
    return geometry_of(sb);
  }

  file_bytes bytes;

 private:
  file_bytes sound_;
};

}  // namespace nvm::tests
