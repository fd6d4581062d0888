// Pools that are damaged and mended, for the tests of mending.
#pragma once

#include <vector>

#include "space/mend.hpp"
#include "test_pool.hpp"

namespace nvm::testing {

// A pool whose bytes can be damaged, mended, and put back.
class mended_pool {
 public:
  explicit mended_pool(unsigned page_shift = 12) : pool{test_geometry(128, 128, 4, page_shift)} {
    const geometry g = pool.sizes();
    std::memset(pool.base() + g.data_offset, 0, g.size_bytes() - g.data_offset);
    EXPECT_TRUE(pool.boot());
  }
  // What is there now is sound.
  void keep() {
    EXPECT_TRUE(pool.check(nullptr));
    objects = pool.objects();
    const auto* first = pool.base();
    sound.assign(first, first + pool.sizes().size_bytes());
  }
  void restore() { std::copy(sound.begin(), sound.end(), pool.base()); }
  [[nodiscard]] bool as_before() const { return std::equal(sound.begin(), sound.end(), pool.base()); }

  mend_summary mend() {
    told.clear();
    return mend_space(pool.base(), pool.sizes(), [this](const mended_place& p) { told.push_back(p); });
  }
  // Mends what is damaged, and finds nothing that it dares change.
  [[nodiscard]] bool changes_nothing() {
    const auto* first = pool.base();
    damaged.assign(first, first + pool.sizes().size_bytes());
    (void)mend();
    return std::equal(damaged.begin(), damaged.end(), first);
  }
  [[nodiscard]] bool is_sound() {
    space_summary s;
    return check_space(pool.base(), pool.sizes(), nullptr, s);
  }
  // Of the first page of this kind, and of the first object in it.
  [[nodiscard]] std::uint64_t page_of(layout::page_kind kind) const {
    const geometry g = pool.sizes();
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      if (entry(page).kind == kind) return page;
    }
    ADD_FAILURE();
    return 0;
  }
  [[nodiscard]] layout::page_entry entry(std::uint64_t page) const {
    return layout::unpack(word(pool.sizes().entry_offset(page)) & checked_mask);
  }
  void enter(std::uint64_t page, const layout::page_entry& e) { put(pool.sizes().entry_offset(page), layout::pack(e)); }
  [[nodiscard]] std::uint64_t word(std::uint64_t at) const { return load_word(pool.base(), at); }
  // A word that holds, and one as it is.
  void put(std::uint64_t at, std::uint64_t content) { put_raw(at, seal_word(content, word_seed(at))); }
  void put_raw(std::uint64_t at, std::uint64_t word) { std::memcpy(pool.base() + at, &word, sizeof word); }
  void flip(std::uint64_t at, unsigned mask) { pool.base()[at] ^= std::byte{static_cast<unsigned char>(mask)}; }
  [[nodiscard]] std::string report() const {
    std::string text;
    for (const mended_place& p : told) {
      text += std::to_string(static_cast<int>(p.how)) + " " + std::to_string(p.offset) + ": " + p.what + "\n";
    }
    return text;
  }

  mutable test_pool pool;
  std::map<std::uint64_t, std::uint64_t> objects;
  std::vector<std::byte> sound, damaged;
  std::vector<mended_place> told;
};

// A small pool of objects as programs have them.
class typed_pool : public mended_pool {
 public:
  typed_pool() {
    std::vector<std::uint64_t> all;
    const auto add = [&](std::uint64_t bytes) {
      const auto a = testing::put(pool, bytes, 0, layout::object_layout::typed);
      EXPECT_TRUE(a) << last_message();
      all.push_back(*a);
    };
    for (unsigned i = 0; i < 40; ++i) {
      add(17 + i * 5);
      add(300 + i * 90);
      if (i % 8 == 0) add(3 * 4096 + i);
    }
    for (std::size_t i = 0; i < all.size(); i += 3) {
      EXPECT_TRUE(drop(pool, all[i], 1, layout::object_layout::typed));
    }
    keep();
  }
};

// What has no headers: objects without a type, nodes and runs of structures, a log.
class untyped_pool : public mended_pool {
 public:
  explicit untyped_pool(unsigned page_shift = 12) : mended_pool{page_shift} {
    for (unsigned i = 1; i < 20; ++i) EXPECT_TRUE(testing::put(pool, i * 13));
    for (unsigned i = 1; i < 8; ++i) EXPECT_TRUE(testing::put(pool, 500 + i * 77));
    const std::uint64_t page = std::uint64_t{1} << page_shift;
    for (const unsigned pages : {5U, 7U, 6U}) EXPECT_TRUE(testing::put(pool, pages * page));
    EXPECT_TRUE(pool->reserve_log_run(3 * page));
    for (const layout::slot_protocol p : {layout::slot_protocol::epoch, layout::slot_protocol::self_validating}) {
      EXPECT_TRUE(pool->take_run(0, p, 300, 3 * page));
      nodes = *pool->take_extent(0, p, 77, slots_each);
    }
    // Every third node of the last extent exists.
    s = layout::shape_of(layout::page_kind::coarse, page_shift);
    for (unsigned w = 0; w < s.words; ++w) {
      std::uint64_t bits = 0;
      for (unsigned slot = s.header_slots; slot + slots_each <= s.slots; slot += 3 * slots_each) {
        if (slot / checked_bits == w) bits |= std::uint64_t{1} << slot % checked_bits;
      }
      put(word_at(w), bits);
    }
    // What it holds is no header of an object.
    for (std::uint64_t at = s.header_slots * s.slot_bytes; at < s.bytes; ++at) {
      pool.base()[nodes + at] = std::byte{static_cast<unsigned char>(at % 251 + 1)};
    }
    keep();
  }
  [[nodiscard]] std::uint64_t word_at(unsigned w) const { return nodes + layout::first_words_at + w * 8; }
  [[nodiscard]] std::uint64_t length_at(unsigned slot) const { return nodes + s.lengths_at + slot; }

  static constexpr unsigned slots_each = 3;
  std::uint64_t nodes = 0;  // offset of an extent of nodes
  layout::extent_shape s;
};

}  // namespace nvm::testing
