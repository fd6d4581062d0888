// Heap: a pool's bytes with everything volatile that works on them: lanes, space, one transaction object per lane used.
//
// Knows no files and makes no threads: the same class runs on a mapped pool, on the private image of a pool on ssd and
// on a plain buffer in a test.  boot() makes the bytes that a crash left ready.
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
#include "tx/redo_transaction.hpp"
#include "tx/transaction.hpp"

namespace nvm::tx {

// Seeds log records: a record of another pool proves nothing here.
inline std::uint64_t pool_key(const std::uint8_t (&uuid)[16]) noexcept { return checksum(uuid, sizeof uuid, 0); }

// Settings of an engine for the pool that it opens: how records prove themselves, and the like.
struct engine_settings {
  log::validation validation = log::validation::checksum;
};

// The engines.  Each is a kind of lanes, a kind of transaction, and how a pool of it becomes ready: recover() starts
// from the bytes that a crash left, rest() goes on where a closed pool stopped, first_use() is called before the first
// transaction of a lane.
template <media M>
struct undo_engine {
  using lanes_type = log::lanes<M>;
  using transaction_type = transaction<M>;
  static lanes_type make_lanes(M& m, std::byte* base, const geometry& g, std::uint64_t key, unsigned count,
                               const engine_settings&) {
    return lanes_type{m, base, g, key, count};
  }
  [[nodiscard]] static status recover(M& m, std::byte* base, const geometry& g, std::uint64_t key,
                                      const engine_settings&, recovery_report& report, lanes_type& lanes) {
    return tx::recover(m, base, g, key, report, [&](unsigned lane, std::uint64_t generation, std::uint32_t attached) {
      lanes.start(lane, generation, attached);
    });
  }
  [[nodiscard]] static status rest(const std::byte*, const geometry&, std::uint64_t, const engine_settings&,
                                   lanes_type&) noexcept {
    return {};
  }
  [[nodiscard]] static status first_use(const std::byte* base, const geometry& g, std::uint64_t key, unsigned lane,
                                        lanes_type& lanes) noexcept {
    if (lane >= g.lane_count) return {};
    const pool_targets targets{base, g};
    log::lane_reader reader{base, g, key, lane, targets};
    if (status s = reader.validate(); !s) return s;
    if (!reader.at_rest()) {
      return fail(errc::corrupt, "lane %u: found not at rest, but the pool's state says that it was closed", lane);
    }
    lanes.start(lane, reader.generation(), reader.attached());
    return {};
  }
};

template <media M>
struct redo_engine {
  using lanes_type = log::redo_log<M>;
  using transaction_type = redo_transaction<M>;
  static lanes_type make_lanes(M& m, std::byte* base, const geometry& g, std::uint64_t key, unsigned count,
                               const engine_settings& how) {
    return lanes_type{m, base, g, key, count, how.validation};
  }
  [[nodiscard]] static status recover(M& m, std::byte* base, const geometry& g, std::uint64_t key,
                                      const engine_settings& how, recovery_report& report, lanes_type& lanes) {
    std::uint64_t used = 0;
    if (status s = recover_redo(m, base, g, key, how.validation, report, used); !s) return s;
    lanes.start(used, clock);
    return {};
  }
  [[nodiscard]] static status rest(const std::byte* base, const geometry& g, std::uint64_t key,
                                   const engine_settings& how, lanes_type& lanes) {
    const pool_targets targets{base, g};
    log::redo_reader reader{base, g, key, how.validation, targets};
    // Nothing counts: reading all of the log would change nothing.
    if (status s = reader.validate(decltype(reader)::look::at_what_counts); !s) return s;
    if (!reader.at_rest()) {
      return fail(errc::corrupt, "the log has %lu records to replay, but the pool's state says that it was closed",
                  reader.report().records);
    }
    lanes.start(reader.report().used, clock);
    return {};
  }
  [[nodiscard]] static status first_use(const std::byte*, const geometry&, std::uint64_t, unsigned,
                                        lanes_type&) noexcept {
    return {};
  }
  static std::uint64_t clock() noexcept { return isolation::version_clock::of_process().now(); }
};

template <media M, class Engine = undo_engine<M>>
class heap {
 public:
  using lanes_type = typename Engine::lanes_type;
  using space_type = space<M, lanes_type>;
  using transaction_type = typename Engine::transaction_type;

  // `lane_count` lanes: those of the geometry on direct media, any number where lanes are volatile.
  template <class Grow>
  heap(M& m, std::byte* base, const geometry& g, std::uint64_t key, unsigned lane_count, Grow&& grow,
       const engine_settings& how = {})
      : media_{m},
        base_{base},
        geometry_{g},
        key_{key},
        settings_{how},
        lanes_{Engine::make_lanes(m, base, geometry_, key, lane_count, how)},
        space_{m, lanes_, base, geometry_, std::forward<Grow>(grow)},
        transactions_{new std::atomic<transaction_type*>[lane_count] {}} {
    if constexpr (lanes_type::ordered) {
      lanes_.on_release([this](std::uint64_t offset) { space_.release_log_run(offset); });
    }
  }
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
    if (!at_rest) space_.write_back_map();
    status s = at_rest ? Engine::rest(base_, geometry_, key_, settings_, lanes_)
                       : Engine::recover(media_, base_, geometry_, key_, settings_, report_, lanes_);
    if (!s) return s;
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

  // Leaves nothing for recovery; no transaction is open.
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
  [[nodiscard, gnu::noinline]] result<transaction_type*> first_of_lane(unsigned lane) noexcept try {
    if (unread_) {
      if (status s = Engine::first_use(base_, geometry_, key_, lane, lanes_); !s) return s.error();
    }
    auto* t = lanes_.furnish(lane) ? new (std::nothrow) transaction_type{media_, base_, lanes_, space_, lane} : nullptr;
    if (t == nullptr) return fail(errc::no_memory, "no volatile memory for a transaction");
    // release: pairs with the acquire in existing_of_lane().
    transactions_[lane].store(t, std::memory_order_release);
    return t;
  } catch (const std::bad_alloc&) {  // for a part of the transaction
    return fail(errc::no_memory, "no volatile memory for a transaction");
  }

  M& media_;
  std::byte* base_;
  geometry geometry_;  // as booted; space follows growth
  std::uint64_t key_;
  engine_settings settings_;
  lanes_type lanes_;
  space_type space_;
  recovery_report report_;
  bool unread_ = false;  // lanes, until each is used
  std::unique_ptr<std::atomic<transaction_type*>[]> transactions_;
};

// ---- typed objects --------------------------------------------------------------------------------------------------

// Payload of `bytes` bytes with its header before it, from allocate(bytes with the header); offset of the payload.
template <class Heap, class Allocate>
[[nodiscard]] result<std::uint64_t> allocate_typed_by(Heap& h, typename Heap::transaction_type& t, std::uint32_t type,
                                                      std::uint64_t bytes, Allocate&& allocate) noexcept {
  if (bytes == 0) return t.refuse_allocation(fail(errc::invalid, "an object of 0 bytes"));
  if (bytes > layout::object_bytes_max) {
    return t.refuse_allocation(
        fail(errc::too_large, "an object of %lu bytes: at most %lu", bytes, layout::object_bytes_max));
  }
  result<std::uint64_t> offset = allocate(bytes + sizeof(layout::object_header));
  if (!offset) return offset.error();
  const layout::object_header header = layout::make_object_header(bytes, type, *offset);
  static_assert(sizeof header == 2 * sizeof(std::uint64_t));
  // Word by word: a barrier transaction that will find out that it was too late may still be reading here, likewise.
  std::uint64_t words[2];
  std::memcpy(words, &header, sizeof words);
  auto* at = reinterpret_cast<std::uint64_t*>(h.base() + *offset);
  isolation::store_shared(at, words[0]);
  isolation::store_shared(at + 1, words[1]);
  return *offset + sizeof header;
}
template <class Heap>
[[nodiscard]] result<std::uint64_t> allocate_typed(Heap& h, typename Heap::transaction_type& t, std::uint32_t type,
                                                   std::uint64_t bytes) noexcept {
  return allocate_typed_by(h, t, type, bytes,
                           [&](std::uint64_t all) { return t.allocate(all, layout::object_layout::typed); });
}
// The same in an attached store.
template <class Heap>
[[nodiscard]] result<std::uint64_t> allocate_typed_in(Heap& h, typename Heap::transaction_type& t,
                                                      const store_attachment& store, std::uint32_t type,
                                                      std::uint64_t bytes) noexcept {
  return allocate_typed_by(h, t, type, bytes,
                           [&](std::uint64_t all) { return t.allocate_in(store, all, layout::object_layout::typed); });
}

// Makes a word of the anchors name `place` (0: none) inside transaction t: both copies in one group.
template <class Heap>
[[nodiscard]] status set_anchor_word(Heap& h, typename Heap::transaction_type& t, anchor_word which,
                                     std::uint64_t place) noexcept {
  assigned_word words[2];
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = anchor_word_at(h.shape(), copy, which);
    words[copy] = {at, seal_word(place, word_seed(at))};
  }
  return t.assign(words, 2);
}
// Sets the root to the payload at `payload`.
template <class Heap>
[[nodiscard]] status set_root(Heap& h, typename Heap::transaction_type& t, std::uint64_t payload) noexcept {
  return set_anchor_word(h, t, anchor_word::root, payload);
}

}  // namespace nvm::tx
