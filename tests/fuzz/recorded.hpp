// What holds of any recording that a reader has let in.
#pragma once

#include <cstdlib>

#include "base/bits.hpp"
#include "crash_test/recording.hpp"

namespace nvm::fuzz {

inline void require_recording(const crash_test::recording& r, std::uint64_t image_max) {
  const auto require = [](bool holds) {
    if (!holds) std::abort();
  };
  for (const crash_test::session& s : r.sessions) {
    require(s.image.size() % 4096 == 0 && s.image.size() <= image_max && s.stores != 0);
    require(s.faults.size() == s.trace.events.size());
    std::vector<std::byte> image = s.image;
    std::uint64_t stores = 0;
    for (const explore::event& e : s.trace.events) {
      switch (e.kind) {
        case explore::event_kind::store:
          require(e.bytes != 0 && range_inside(e.offset, e.bytes, image.size()) && e.site != nullptr);
          require(!crash_test::text_of(e.site).empty());
          crash_test::apply(s.trace, e, image.data());
          ++stores;
          break;
        case explore::event_kind::flush:
          require(range_inside(e.offset, e.payload, image.size()) && e.place < r.places.size());
          break;
        case explore::event_kind::fence:
          require(e.place < r.places.size());
          break;
        default:
          break;
      }
    }
    require(stores == s.stores);
  }
}

}  // namespace nvm::fuzz
