// A pool in a buffer, with lanes that remember what recovery could make again, for the tests of space.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "../pool_in_buffer.hpp"
#include "space/space.hpp"

namespace nvm::testing {

// Stands for log::lanes.  A generation's intents can be made again until the lane is settled.
class test_lanes {
 public:
  static constexpr bool ordered = false;

  explicit test_lanes(unsigned count) : lanes_(count) {}

  // The caller tells space, which applies them.
  std::uint64_t commit(unsigned index, const std::vector<log::intent>& intents) {
    lane& l = lanes_[index];
    const std::lock_guard guard{l.lock};
    ++l.generation;
    for (const log::intent& i : intents) {
      l.replayable.push_back(i);
    }
    return l.generation;
  }

  void settle(log::tag t, unsigned lane) noexcept {
    if (!t.none() && t.lane() != lane) settle_all(t);
  }
  void settle_all(log::tag t) noexcept {
    if (t.none()) return;
    lane& l = lanes_.at(t.lane());
    const std::lock_guard guard{l.lock};
    EXPECT_LE(t.generation(), l.generation) << "a tag from the future";
    if (l.settled >= t.generation()) return;
    l.settled = l.generation;
    l.replayable.clear();
    ++l.settlements;
  }

  // What recovery does to the allocation words: every lane makes its intents again, oldest first, lanes in an order
  // that nobody may rely on.
  void replay(std::byte* image, unsigned first_lane) const {
    for (std::size_t k = 0; k < lanes_.size(); ++k) {
      for (const log::intent& i : lanes_[(first_lane + k) % lanes_.size()].replayable) log::apply(image, i);
    }
  }
  [[nodiscard]] std::uint64_t settlements() const {
    std::uint64_t sum = 0;
    for (const lane& l : lanes_) sum += l.settlements;
    return sum;
  }

 private:
  struct lane {
    std::mutex lock;
    std::uint64_t generation = 0;
    std::uint64_t settled = 0;
    std::uint64_t settlements = 0;
    std::vector<log::intent> replayable;
  };
  std::vector<lane> lanes_;
};
static_assert(log::settler<test_lanes>);

using test_space = space<ordered_media, test_lanes>;

inline geometry test_geometry(std::uint64_t size_pages, std::uint64_t capacity_pages, unsigned lanes = 4,
                              unsigned page_shift = 12) {
  return tests::pool_geometry(size_pages, capacity_pages, lanes, page_shift);
}

using image = tests::pool_memory;

// Zeroed, page-aligned; pages appear when touched.
inline image make_image(const geometry& g) {
  auto* p = static_cast<std::byte*>(std::aligned_alloc(4096, round_up(g.capacity_bytes(), 4096)));
  std::memset(p, 0, g.data_offset);
  return image{p};
}

class test_pool {
 public:
  explicit test_pool(const geometry& g) : geometry_{g}, memory_{make_image(g)}, lanes_{std::max(g.lane_count, 1U)} {
    start();
  }
  // A copy of the bytes of `other`, opened: what a new process sees.
  test_pool(const test_pool& other, unsigned replay_from)
      : geometry_{other.sizes()}, memory_{make_image(geometry_)}, lanes_{std::max(geometry_.lane_count, 1U)} {
    std::memcpy(memory_.get(), other.memory_.get(), geometry_.size_bytes());
    other.lanes_.replay(memory_.get(), replay_from);
    start();
  }

  [[nodiscard]] status boot(unsigned parts = 1) {
    for (unsigned i = 0; i < parts; ++i) {
      if (status s = space_->boot(i, parts); !s) return s;
    }
    return {};
  }
  test_space& operator*() { return *space_; }
  test_space* operator->() { return space_.get(); }
  // What lies there now.
  [[nodiscard]] result<space_types::object> around(std::uint64_t at) {
    test_space::stores_stay stay;
    return space_->find_around(at, layout::object_layout::raw, stay);
  }
  [[nodiscard]] std::byte* base() const { return memory_.get(); }
  test_lanes& lanes() { return lanes_; }
  // With the size of now.
  [[nodiscard]] geometry sizes() const {
    geometry g = geometry_;
    g.size_pages = size_pages_.load();
    return g;
  }
  // The pool was cut.
  void shrunk_to(std::uint64_t pages) noexcept { size_pages_ = pages; }
  // The device has room for this many pages.
  std::atomic<std::uint64_t> device_pages{~std::uint64_t{0}};
  std::atomic<unsigned> growths{0};

  // offset -> bytes of everything on media.
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> objects() {
    std::map<std::uint64_t, std::uint64_t> all;
    EXPECT_TRUE(space_->for_each_object([&](std::uint64_t offset, std::uint64_t bytes, layout::object_layout) {
      all.emplace(offset, bytes);
      return true;
    })) << last_message();
    return all;
  }
  // All bytes but those that mean nothing: length bytes of slots where no object begins.
  [[nodiscard]] std::vector<std::byte> essence() const {
    const geometry g = sizes();
    std::vector<std::byte> bytes(memory_.get(), memory_.get() + g.size_bytes());
    const auto clear = [&](std::uint64_t page, const layout::page_entry& e) {
      if (e.kind != layout::page_kind::fine && e.kind != layout::page_kind::coarse) return;
      const layout::extent_shape s = layout::shape_of(e.kind, g.page_shift);
      const std::uint64_t at = g.page_offset(page);
      for (unsigned slot = 0; slot < s.slots; ++slot) {
        const first_bit b = first_bit_of(at, slot);
        if ((load_word(bytes.data(), b.word_offset) >> b.bit & 1) == 0) bytes[at + s.lengths_at + slot] = {};
      }
    };
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      const layout::page_entry e = layout::unpack(load_word(bytes.data(), g.entry_offset(page)) & checked_mask);
      clear(page, e);
      cluster c;
      if (e.kind != layout::page_kind::cluster) continue;
      EXPECT_EQ(cluster_fault(bytes.data(), g, page, e.length_pages, c).what, nullptr);
      each_inner_entry(
          bytes.data(), g, c,
          [&](std::uint64_t inner, const layout::page_entry& of, std::uint64_t) {
            clear(inner, of);
            return true;
          },
          [](const damage& d) { ADD_FAILURE() << d.what; });
    }
    return bytes;
  }
  [[nodiscard]] bool check(space_summary* out = nullptr) {
    space_summary summary;
    const bool good = check_space(
        base(), sizes(),
        [](const damage& d) {
          ADD_FAILURE() << d.what << " at offset " << d.offset << ": found " << std::hex << d.found << ", expected "
                        << d.expected;
        },
        summary);
    if (out != nullptr) *out = summary;
    return good;
  }

 private:
  void start() {
    size_pages_ = geometry_.size_pages;
    // Grows like a pool: doubles, at least to what is needed.
    space_ = std::make_unique<test_space>(
        medium_, lanes_, memory_.get(), geometry_, [this](std::uint64_t pages_min) -> result<std::uint64_t> {
          std::uint64_t to = std::max(pages_min, std::min(size_pages_.load() * 2, geometry_.capacity_pages));
          to = std::max(pages_min, std::min(to, device_pages.load()));
          if (to > device_pages) return fail(errc::no_space, "the device is full");
          ++growths;
          size_pages_ = to;
          return to;
        });
  }

  geometry geometry_;
  image memory_;
  ordered_media medium_;
  test_lanes lanes_;
  std::atomic<std::uint64_t> size_pages_{0};
  std::unique_ptr<test_space> space_;
};

// A transaction of one lane, as far as space sees it.
class test_tx {
 public:
  test_tx(test_pool& pool, unsigned lane) : pool_{pool}, lane_{lane} {}
  ~test_tx() { abort(); }
  test_tx(const test_tx&) = delete;
  test_tx& operator=(const test_tx&) = delete;

  // `bytes` with the header.
  result<test_space::reservation> allocate(std::uint64_t bytes, layout::object_layout l = layout::object_layout::raw) {
    auto r = pool_->reserve(lane_, bytes, l);
    if (!r) return r.error();
    if (l == layout::object_layout::typed) {
      const auto h = layout::make_object_header(bytes - sizeof(layout::object_header), 7, r->offset);
      std::memcpy(pool_.base() + r->offset, &h, sizeof h);
    }
    allocations_.push_back(*r);
    return *r;
  }
  status free(std::uint64_t offset, layout::object_layout l = layout::object_layout::raw) {
    auto o = pool_->find(offset, l, test_space::name_of(lane_));
    if (!o) return o.error();
    if (status s = pool_->begin_free(*o, lane_); !s) return s;
    frees_.push_back(*o);
    return {};
  }
  void commit() {
    std::vector<log::intent> intents;
    for (const auto& r : allocations_) intents.push_back(r.set);
    for (const auto& o : frees_) intents.push_back(o.clear);
    const std::uint64_t g = pool_.lanes().commit(lane_, intents);
    for (const auto& r : allocations_) pool_->committed(r, lane_, g);
    for (const auto& o : frees_) pool_->finish_free(o, lane_, g);
    allocations_.clear();
    frees_.clear();
  }
  void abort() {
    for (const auto& o : frees_) pool_->cancel_free(o, lane_);
    for (const auto& r : allocations_) pool_->cancel(r, lane_);
    allocations_.clear();
    frees_.clear();
  }
  [[nodiscard]] const std::vector<test_space::reservation>& allocations() const { return allocations_; }
  [[nodiscard]] const std::vector<test_space::object>& frees() const { return frees_; }

 private:
  test_pool& pool_;
  unsigned lane_;
  std::vector<test_space::reservation> allocations_;
  std::vector<test_space::object> frees_;
};

// One object, committed; its offset, or an error.
inline result<std::uint64_t> put(test_pool& pool, std::uint64_t bytes, unsigned lane = 0,
                                 layout::object_layout l = layout::object_layout::raw) {
  test_tx t{pool, lane};
  auto r = t.allocate(bytes, l);
  if (!r) return r.error();
  const std::uint64_t offset = r->offset;
  t.commit();
  return offset;
}
inline status drop(test_pool& pool, std::uint64_t offset, unsigned lane = 0,
                   layout::object_layout l = layout::object_layout::raw) {
  test_tx t{pool, lane};
  if (status s = t.free(offset, l); !s) return s;
  t.commit();
  return {};
}

}  // namespace nvm::testing
