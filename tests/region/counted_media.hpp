// Byte-addressable memory that counts the lines written back and the fences.
#pragma once

#include "media/media.hpp"

namespace nvm::region::testing {

class counted_media {
 public:
  static constexpr bool atomic_batches = false;
  using batch = no_batch;
  void flush(const void* p, std::size_t bytes, site s = site::here()) noexcept { metered_.flush(p, bytes, s); }
  void copy(void* to, const void* from, std::size_t bytes, site s = site::here()) noexcept {
    copy_out(metered_, to, from, bytes, s);
  }
  void fence(edge e) noexcept { metered_.fence(e); }
  lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }
  [[nodiscard]] meter_totals totals() const { return counts_.totals(); }

 private:
  ordered_media inner_;
  meter counts_;
  meter_media<ordered_media> metered_{inner_, counts_};
};
static_assert(media<counted_media>);

}  // namespace nvm::region::testing
