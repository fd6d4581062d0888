// Which parts of a file are holes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/base.hpp"
#include "platform/platform.hpp"

namespace nvm::tier {

// Calls status f(from, to, in_file) for the data (in_file) and holes of [from, to), in order, as far as the file goes.
template <class F>
[[nodiscard]] status each_extent(const platform::file& file, std::uint64_t from, std::uint64_t to, F&& f) noexcept {
  const auto bytes = file.size();
  if (!bytes) return bytes.error();
  to = std::min(to, *bytes);
  while (from < to) {
    const auto data = file.next_data(from);
    if (!data) return data.error();
    const std::uint64_t hole_end = std::min(*data, to);
    if (hole_end > from) {
      if (status s = f(from, hole_end, false); !s) return s;
    }
    if (hole_end >= to) break;
    const auto hole = file.next_hole(hole_end);
    if (!hole) return hole.error();
    const std::uint64_t data_end = std::min(*hole, to);
    if (data_end <= hole_end) return fail(errc::system, "the file changes while it is looked at");
    if (status s = f(hole_end, data_end, true); !s) return s;
    from = data_end;
  }
  return {};
}

}  // namespace nvm::tier
