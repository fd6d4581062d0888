// Order only, decided at compile time: nothing is written back, a fence stops the compiler.  The null medium under the
// recorder (which judges by the calls that pass) and under tests of logic.
#pragma once

#include "media/concept.hpp"
#include "platform/platform.hpp"

namespace nvm {

struct ordered_media {
  static constexpr bool atomic_batches = false;
  using batch = no_batch;
  void flush(const void*, std::size_t, site = site::here()) noexcept {}
  void fence(edge) noexcept { isa::compiler_fence(); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }
};
static_assert(media<ordered_media>);

}  // namespace nvm
