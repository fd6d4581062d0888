// Heap: a pool's bytes with everything volatile that works on them: lanes, space, one transaction object per lane.
//
// Knows no files and makes no threads: the same class runs on a mapped pool, on the private image of a pool on ssd and
// on a plain buffer in a test.  boot() takes the bytes from whatever a crash left to ready.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "log/log.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"
#include "space/space.hpp"
#include "tx/recover.hpp"
#include "tx/transaction.hpp"

namespace nvm::tx {

// Seeds log records: a record of another pool proves nothing here.
inline std::uint64_t pool_key(const std::uint8_t (&uuid)[16]) noexcept { return checksum(uuid, sizeof uuid, 0); }

template <media M>
class heap {
 public:
  using lanes_type = log::lanes<M>;
  using space_type = space<M, lanes_type>;
  using transaction_type = transaction<M>;

  // `lane_count` lanes: those of the geometry on direct media, any number where lanes are volatile.
  template <class Grow>
  heap(M& m, std::byte* base, const geometry& g, std::uint64_t key, unsigned lane_count, Grow&& grow)
      : media_{m},
        base_{base},
        geometry_{g},
        key_{key},
        lanes_{m, base, geometry_, key, lane_count},
        space_{m, lanes_, base, geometry_, std::forward<Grow>(grow)} {
    transactions_.reserve(lane_count);
    for (unsigned i = 0; i < lane_count; ++i) {
      transactions_.push_back(std::make_unique<transaction_type>(m, base, lanes_, space_, i));
    }
  }

  // Recovery, then the page map: afterwards transactions may begin.  run(parts, f) calls f(0) .. f(parts - 1), maybe in
  // parallel.
  template <class Run>
  [[nodiscard]] status boot(unsigned parts, Run&& run) {
    status s = recover(media_, base_, geometry_, key_, report_,
                       [&](unsigned lane, std::uint64_t generation) { lanes_.start(lane, generation); });
    if (!s) return s;
    std::atomic<errc> failed{errc::ok};
    run(parts, [&](unsigned part) {
      if (status booted = space_.boot(part, parts); !booted) failed = booted.error();
    });
    if (failed != errc::ok) return failed.load();
    return {};
  }
  [[nodiscard]] status boot() {
    return boot(1, [](unsigned, auto&& f) { f(0); });
  }
  [[nodiscard]] const recovery_report& recovered() const noexcept { return report_; }

  // Nothing is left that recovery would have to do; no transaction is open.
  void come_to_rest() noexcept { lanes_.come_to_rest(); }

  [[nodiscard]] M& medium() noexcept { return media_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] const geometry& shape() const noexcept { return geometry_; }
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] lanes_type& lanes() noexcept { return lanes_; }
  [[nodiscard]] space_type& places() noexcept { return space_; }
  [[nodiscard]] transaction_type& of_lane(unsigned lane) noexcept { return *transactions_[lane]; }

 private:
  M& media_;
  std::byte* base_;
  geometry geometry_;  // as booted; space follows growth
  std::uint64_t key_;
  lanes_type lanes_;
  space_type space_;
  recovery_report report_;
  std::vector<std::unique_ptr<transaction_type>> transactions_;
};

// ---- typed objects
// ----------------------------------------------------------------------------------------------------

// Payload of `bytes` bytes with its header before it; offset of the payload.
template <media M>
[[nodiscard]] result<std::uint64_t> allocate_typed(heap<M>& h, transaction<M>& t, std::uint32_t type,
                                                   std::uint64_t bytes) noexcept {
  if (bytes == 0) return fail(errc::invalid, "an object of 0 bytes");
  if (bytes > layout::object_bytes_max) {
    return fail(errc::too_large, "an object of %lu bytes: at most %lu", bytes, layout::object_bytes_max);
  }
  auto offset = t.allocate(bytes + sizeof(layout::object_header), layout::object_layout::typed);
  if (!offset) return offset.error();
  const layout::object_header header = layout::make_object_header(bytes, type, *offset);
  std::memcpy(h.base() + *offset, &header, sizeof header);
  return *offset + sizeof header;
}

// Sets the root to the payload at `payload` (0: none) inside transaction t: both anchors, one group.
template <media M>
[[nodiscard]] status set_root(heap<M>& h, transaction<M>& t, std::uint64_t payload) noexcept {
  const std::uint64_t at[2] = {root_word_at(h.shape(), 0), root_word_at(h.shape(), 1)};
  const log::byte_range ranges[2] = {{at[0], 8}, {at[1], 8}};
  if (status s = t.announce(ranges, 2); !s) return s;
  for (const std::uint64_t a : at) {
    *reinterpret_cast<std::uint64_t*>(h.base() + a) = seal_word(payload, word_seed(a));
  }
  return {};
}

}  // namespace nvm::tx
