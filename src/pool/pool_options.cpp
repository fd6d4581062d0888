#include "pool/pool_options.hpp"

#include <algorithm>
#include <cinttypes>

namespace nvm {
namespace {

// Largest capacity, in whole chunks of pages, that leaves room for header, page map and log below `limit` bytes.
std::uint64_t capacity_pages_max(std::uint64_t limit, std::uint64_t log_bytes) noexcept {
  // Two header pages, the rounding of the page map and of the data's start.
  const std::uint64_t fixed = log_bytes + (4 + layout::extent_align_pages) * file_page_bytes;
  if (limit <= fixed) return 0;
  return round_down((limit - fixed) / (file_page_bytes + 8), layout::pages_per_chunk);
}

result<std::uint64_t> log_bytes_of(const pool_create_options& o, std::uint64_t size) noexcept {
  if (o.log_bytes == 0) {
    return round_up(std::clamp<std::uint64_t>(size / 4, 256 * 1024, 64 * 1024 * 1024), file_page_bytes);
  }
  if (o.log_bytes < ring_bytes_min) {
    return fail(errc::invalid, "log_bytes: found %" PRIu64 ", expected at least %" PRIu64 " on ssd", o.log_bytes,
                ring_bytes_min);
  }
  if (o.log_bytes > layout::pool_bytes_max) {
    return fail(errc::too_large, "log_bytes: found %" PRIu64 ", expected at most %" PRIu64, o.log_bytes,
                layout::pool_bytes_max);
  }
  return round_up(o.log_bytes, file_page_bytes);
}

status set_lanes(const pool_create_options& o, std::uint64_t size, geometry_request& shape) noexcept {
  if (o.lanes > lane_count_max)
    return fail(errc::invalid, "lanes: found %u, expected 1 .. %u", o.lanes, lane_count_max);
  if (o.log_bytes > lane_bytes_max) {
    return fail(errc::too_large, "log_bytes: found %" PRIu64 ", expected at most %" PRIu64 " for a lane", o.log_bytes,
                lane_bytes_max);
  }
  const bool small = size < (std::uint64_t{4} << 20);
  const bool ring = engine_of(o.engine).wants_large_lanes();
  shape.lane_count = o.lanes != 0 ? o.lanes : small ? 8 : ring ? 32 : 64;
  // A ring holds the records of many transactions: the more, the fewer lines are written home.
  const std::uint64_t chosen =
      ring ? std::clamp<std::uint64_t>(size / 256, redo_ring_bytes_least, redo_ring_bytes_most) : lane_bytes_default;
  shape.lane_bytes = round_up(o.log_bytes != 0 ? o.log_bytes : chosen, file_page_bytes);
  return {};
}

}  // namespace

result<geometry_request> shape_of_new_pool(const pool_create_options& o, std::uint32_t medium,
                                           std::uint64_t window_bytes) noexcept {
  // Virtual addresses take at least as much of the window as the data may.
  const bool has_home = engine_of(o.engine).is_its_log();
  const std::uint64_t limit = std::min(layout::pool_bytes_max, has_home ? window_bytes / 4 : window_bytes);
  const std::uint64_t asked = o.size_bytes != 0 ? o.size_bytes : size_bytes_default;
  if (asked > limit)
    return fail(errc::too_large, "size: found %" PRIu64 ", a pool has at most %" PRIu64 " bytes", asked, limit);
  if (o.capacity_bytes > limit) {
    return fail(errc::too_large,
                "capacity: found %" PRIu64 ", a pool has at most %" PRIu64 " bytes, the address window %" PRIu64,
                o.capacity_bytes, layout::pool_bytes_max, window_bytes);
  }
  const std::uint64_t size = round_up(asked, chunk_bytes);

  geometry_request shape;
  shape.size_pages = size / file_page_bytes;
  if (has_home) {
    if (o.log_bytes != 0) {
      return fail(errc::invalid, "log_bytes: found %" PRIu64 ", expected 0 for engine log, whose log is the pool",
                  o.log_bytes);
    }
  } else if (medium == NVM_MEDIUM_SSD) {
    if (!engine_of(o.engine).on_ssd)
      return fail(errc::medium, "engine %u: it is for byte-addressable memory, not for ssd", o.engine);
    const auto ring = log_bytes_of(o, size);
    if (!ring) return ring.error();
    shape.ring_bytes = *ring;
  } else if (auto s = set_lanes(o, size, shape); !s) {
    return s.error();
  }
  const std::uint64_t log_bytes = shape.ring_bytes + shape.lane_count * shape.lane_bytes;
  const std::uint64_t pages_max = capacity_pages_max(limit, log_bytes);
  if (shape.size_pages > pages_max) {
    return fail(errc::too_large, "size: found %" PRIu64 ", expected at most %" PRIu64 " with a log of %" PRIu64, size,
                pages_max * file_page_bytes, log_bytes);
  }
  if (o.capacity_bytes != 0) {
    const std::uint64_t capacity = round_up(o.capacity_bytes, chunk_bytes);
    if (capacity < size)
      return fail(errc::invalid, "capacity: found %" PRIu64 ", expected at least the size %" PRIu64, capacity, size);
    if (capacity / file_page_bytes > pages_max) {
      return fail(errc::too_large, "capacity: found %" PRIu64 ", expected at most %" PRIu64 " with a log of %" PRIu64,
                  capacity, pages_max * file_page_bytes, log_bytes);
    }
    shape.capacity_pages = capacity / file_page_bytes;
  } else {
    // An eighth of the window at most, so that several pools with default capacities fit into it.
    const std::uint64_t wanted = std::max(16 * size, capacity_bytes_default_min);
    const std::uint64_t most = std::max(size, window_bytes / 8);
    shape.capacity_pages = std::min(round_up(std::min(wanted, most), chunk_bytes) / file_page_bytes, pages_max);
  }
  if (has_home) {
    // Rounding up and superblocks with holes cost only addresses.
    const geometry g = lay_out(shape);
    shape.home_bytes = round_down(std::min({4 * g.capacity_bytes(), layout::home_bytes_max,
                                            window_bytes / 2 - std::min(window_bytes / 2, g.home_offset())}),
                                  layout::home_bytes_unit);
  }
  return shape;
}

std::uint64_t preferred_base(const std::uint8_t uuid[16], std::uint64_t bytes) noexcept {
  const std::uint64_t granules = ceil_div(bytes, platform::granule_bytes);
  NVM_ASSERT(granules <= platform::granule_count);
  const std::uint64_t places = platform::granule_count - granules + 1;
  return platform::window_base + (checksum(uuid, 16, 0) % places << platform::granule_shift);
}

}  // namespace nvm
