// Heap: a pool's bytes with everything volatile that works on them: lanes, space, one transaction object per lane used.
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
        space_{m, lanes_, base, geometry_, std::forward<Grow>(grow)},
        transactions_{new std::atomic<transaction_type*>[lane_count] {}} {}
  ~heap() {
    for (unsigned i = 0; i < lanes_.count(); ++i) delete transactions_[i].load(std::memory_order_relaxed);
  }
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  // Recovery, then the page map: afterwards transactions may begin.  run(parts, f) calls f(0) .. f(parts - 1), maybe in
  // parallel.  `at_rest`: the pool was closed, all lanes are at rest; each is looked at when it is first used.
  template <class Run>
  [[nodiscard]] status boot(bool at_rest, unsigned parts, Run&& run) {
    unread_ = at_rest;
    if (!at_rest) {
      status s = recover(media_, base_, geometry_, key_, report_,
                         [&](unsigned lane, std::uint64_t generation) { lanes_.start(lane, generation); });
      if (!s) return s;
    }
    std::atomic<errc> failed{errc::ok};
    run(parts, [&](unsigned part) {
      if (status booted = space_.boot(part, parts); !booted) failed = booted.error();
    });
    if (failed != errc::ok) return failed.load();
    return {};
  }
  [[nodiscard]] status boot(bool at_rest = false) {
    return boot(at_rest, 1, [](unsigned, auto&& f) { f(0); });
  }
  [[nodiscard]] const recovery_report& recovered() const noexcept { return report_; }

  // Nothing is left that recovery would have to do; no transaction is open.
  void come_to_rest() noexcept { lanes_.come_to_rest(); }

  [[nodiscard]] M& medium() noexcept { return media_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] const geometry& shape() const noexcept { return geometry_; }
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  [[nodiscard]] lanes_type& lanes() noexcept { return lanes_; }
  [[nodiscard]] const lanes_type& lanes() const noexcept { return lanes_; }
  [[nodiscard]] space_type& places() noexcept { return space_; }
  // The transaction of a lane that the caller holds, made when the lane is first used.  errc::no_memory; errc::corrupt
  // if the lane of a closed pool is not at rest.
  [[nodiscard]] result<transaction_type*> of_lane(unsigned lane) noexcept {
    // relaxed: lanes are handed over with acquire and release.
    transaction_type* t = transactions_[lane].load(std::memory_order_relaxed);
    return t != nullptr ? result<transaction_type*>{t} : first_of_lane(lane);
  }
  // nullptr: the lane was never used.
  [[nodiscard]] const transaction_type* existing_of_lane(unsigned lane) const noexcept {
    return transactions_[lane].load(std::memory_order_acquire);
  }

 private:
  [[nodiscard, gnu::noinline]] result<transaction_type*> first_of_lane(unsigned lane) noexcept {
    if (unread_ && lane < geometry_.lane_count) {
      const pool_targets targets{base_, geometry_};
      log::lane_reader reader{base_, geometry_, key_, lane, targets};
      if (status s = reader.validate(); !s) return s.error();
      if (!reader.at_rest()) {
        return fail(errc::corrupt, "lane %u is not at rest, but the pool's state says that it was closed", lane);
      }
      lanes_.start(lane, reader.generation());
    }
    auto* t = lanes_.furnish(lane) ? new (std::nothrow) transaction_type{media_, base_, lanes_, space_, lane} : nullptr;
    if (t == nullptr) return fail(errc::no_memory, "no volatile memory for a transaction");
    // release: pairs with the acquire in existing_of_lane().
    transactions_[lane].store(t, std::memory_order_release);
    return t;
  }

  M& media_;
  std::byte* base_;
  geometry geometry_;  // as booted; space follows growth
  std::uint64_t key_;
  lanes_type lanes_;
  space_type space_;
  recovery_report report_;
  bool unread_ = false;  // lanes, until each is used
  std::unique_ptr<std::atomic<transaction_type*>[]> transactions_;
};

// ---- typed objects
// ----------------------------------------------------------------------------------------------------

// Payload of `bytes` bytes with its header before it; offset of the payload.
template <media M>
[[nodiscard]] result<std::uint64_t> allocate_typed(heap<M>& h, transaction<M>& t, std::uint32_t type,
                                                   std::uint64_t bytes) noexcept {
  if (bytes == 0) return t.refuse_allocation(fail(errc::invalid, "an object of 0 bytes"));
  if (bytes > layout::object_bytes_max) {
    return t.refuse_allocation(
        fail(errc::too_large, "an object of %lu bytes: at most %lu", bytes, layout::object_bytes_max));
  }
  auto offset = t.allocate(bytes + sizeof(layout::object_header), layout::object_layout::typed);
  if (!offset) return offset.error();
  const layout::object_header header = layout::make_object_header(bytes, type, *offset);
  std::memcpy(h.base() + *offset, &header, sizeof header);
  return *offset + sizeof header;
}

// Makes a word of the anchors name `place` (0: none) inside transaction t: both copies, one group.
template <media M>
[[nodiscard]] status set_anchor_word(heap<M>& h, transaction<M>& t, anchor_word which, std::uint64_t place) noexcept {
  const std::uint64_t at[2] = {anchor_word_at(h.shape(), 0, which), anchor_word_at(h.shape(), 1, which)};
  const log::byte_range ranges[2] = {{at[0], 8}, {at[1], 8}};
  if (status s = t.announce(ranges, 2); !s) return s;
  for (const std::uint64_t a : at) {
    *reinterpret_cast<std::uint64_t*>(h.base() + a) = seal_word(place, word_seed(a));
  }
  return {};
}
// Sets the root to the payload at `payload`.
template <media M>
[[nodiscard]] status set_root(heap<M>& h, transaction<M>& t, std::uint64_t payload) noexcept {
  return set_anchor_word(h, t, anchor_word::root, payload);
}

}  // namespace nvm::tx
