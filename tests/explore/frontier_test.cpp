// The persistency models against their definitions: the images that the frontier can make are exactly those whose set
// of durable words is closed under the model's order and contains what is guaranteed.  The definition is written here a
// second time, as subsets and pairs.
#include "explore/frontier.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace nvm::explore {
namespace {

constexpr std::size_t image_bytes = 2048;
const nvm_rec_site plain{"t.cpp", "f", 1, 1, NVM_REC_PLAIN, 0};
const nvm_rec_site stream{"t.cpp", "f", 2, 1, NVM_REC_PLAIN | NVM_REC_NON_TEMPORAL, 0};
const nvm_rec_site copy{"t.cpp", "f", 3, 1, NVM_REC_COPY, 0};

using image = std::vector<std::byte>;

// Builds traces by hand and keeps the memory that they describe.
struct script {
  trace t;
  image memory = image(image_bytes);
  std::uint64_t next_value = 1;

  void store(std::uint64_t offset, std::uint32_t bytes, const nvm_rec_site* site = &plain, std::uint8_t thread = 0) {
    for (std::uint32_t i = 0; i < bytes; ++i) memory[offset + i] = std::byte(next_value++ % 255 + 1);
    event e{};
    e.kind = event_kind::store;
    e.offset = offset;
    e.bytes = bytes;
    e.site = site;
    e.thread = thread;
    e.inline_word = offset / 8 == (offset + bytes - 1) / 8;
    if (e.inline_word) {
      std::memcpy(&e.payload, &memory[offset / 8 * 8], 8);
    } else {
      e.payload = keep(offset, bytes);
    }
    t.events.push_back(e);
  }
  void write(std::uint64_t offset, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i) memory[offset + i] = std::byte(next_value % 255 + 1);
    ++next_value;
    event e{};
    e.kind = event_kind::write;
    e.offset = offset;
    e.bytes = bytes;
    e.payload = keep(offset, bytes);
    t.events.push_back(e);
  }
  void flush(std::uint64_t offset, std::uint64_t bytes, std::uint8_t thread = 0) {
    event e{};
    e.kind = event_kind::flush;
    e.offset = offset;
    e.payload = bytes;
    e.thread = thread;
    t.events.push_back(e);
  }
  void fence(std::uint8_t thread = 0, event_kind kind = event_kind::fence) {
    event e{};
    e.kind = kind;
    e.thread = thread;
    t.events.push_back(e);
  }

 private:
  std::uint64_t keep(std::uint64_t offset, std::uint32_t bytes) {
    const std::uint64_t from = offset / 8 * 8;
    const std::uint64_t to = (offset + bytes + 7) / 8 * 8;
    const std::uint64_t at = t.words.size();
    t.words.resize(at + (to - from) / 8);
    std::memcpy(&t.words[at], &memory[from], to - from);
    return at;
  }
};

// All images that the frontier can make at the end of the trace.
std::set<image> reachable(const script& s, model m, bool rmw_fences = false) {
  image durable(image_bytes);
  frontier f;
  f.start(m, durable.data(), durable.size(), &s.t, rmw_fences);
  for (std::uint32_t i = 0; i < s.t.events.size(); ++i) {
    if (f.raises(s.t.events[i]) || m == model::eadr) f.begin_epoch();
    f.feed(i);
  }
  std::vector<unit*> units(f.active().begin(), f.active().end());
  for (unit* u : units) f.prepare(*u);
  std::vector<std::uint32_t> cuts(units.size(), 0);
  std::set<image> all;
  for (;;) {
    image made = durable;
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      expected += f.delta(*units[i], cuts[i]);
      std::memcpy(&made[f.offset_of(*units[i])], f.content(*units[i], cuts[i]), f.unit_bytes());
    }
    // The incremental hash is that of the whole image.
    std::uint64_t difference = 0;
    for (std::size_t w = 0; w < image_bytes / 8; ++w) {
      std::uint64_t now, was;
      std::memcpy(&now, &made[w * 8], 8);
      std::memcpy(&was, &durable[w * 8], 8);
      difference += word_hash(w, now) - word_hash(w, was);
    }
    EXPECT_EQ(difference, expected);
    all.insert(std::move(made));
    std::size_t i = 0;
    while (i < units.size() && ++cuts[i] == units[i]->choices) cuts[i++] = 0;
    if (i == units.size()) return all;
  }
}

// The definition.  Pieces are the atomic parts of all stores, in program order.
struct piece {
  std::uint64_t offset;
  std::vector<std::byte> bytes;
  std::size_t event;
  std::uint64_t order_unit;  // pieces of one unit are ordered if they are of different events
  bool guaranteed = false;
};
std::set<image> defined(const script& s, model m) {
  std::vector<piece> pieces;
  const std::uint64_t grain = m == model::ssd ? 512 : 8;
  const std::uint64_t unit = m == model::ssd ? 512 : m == model::torn8 ? 8 : 64;
  std::vector<std::pair<std::size_t, std::uint8_t>> flushed;  // (piece, thread)
  for (std::size_t i = 0; i < s.t.events.size(); ++i) {
    const event& e = s.t.events[i];
    if (e.kind == event_kind::store || e.kind == event_kind::write) {
      for (std::uint64_t at = e.offset; at < e.offset + e.bytes;) {
        const std::uint64_t to = std::min((at / grain + 1) * grain, e.offset + e.bytes);
        piece p;
        p.offset = at;
        const auto* from = e.inline_word
                               ? reinterpret_cast<const std::byte*>(&e.payload) + at % 8
                               : reinterpret_cast<const std::byte*>(&s.t.words[e.payload]) + (at - e.offset / 8 * 8);
        p.bytes.assign(from, from + (to - at));
        p.event = i;
        p.order_unit = at / unit;
        pieces.push_back(p);
        at = to;
      }
    } else if (e.kind == event_kind::flush) {
      for (std::size_t k = 0; k < pieces.size(); ++k) {
        const std::uint64_t line = pieces[k].offset / 64;
        if (line >= e.offset / 64 && line <= (e.offset + e.payload - 1) / 64) flushed.push_back({k, e.thread});
      }
    } else if (e.kind == event_kind::fence) {
      for (const auto& [k, thread] : flushed) {
        if (thread == e.thread) pieces[k].guaranteed = true;
      }
    } else if (e.kind == event_kind::sync) {
      for (piece& p : pieces) p.guaranteed = true;
    }
  }
  std::set<image> all;
  for (std::uint32_t set = 0; set < 1U << pieces.size(); ++set) {
    bool allowed = true;
    for (std::size_t q = 0; q < pieces.size() && allowed; ++q) {
      const bool has_q = (set >> q & 1) != 0;
      if (pieces[q].guaranteed && !has_q) allowed = false;
      for (std::size_t p = 0; p < q && has_q && allowed; ++p) {
        const bool ordered = pieces[p].order_unit == pieces[q].order_unit && pieces[p].event != pieces[q].event;
        if (ordered && (set >> p & 1) == 0) allowed = false;
      }
    }
    if (!allowed) continue;
    image made(image_bytes);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if ((set >> p & 1) != 0)
        std::copy(pieces[p].bytes.begin(), pieces[p].bytes.end(), made.begin() + pieces[p].offset);
    }
    all.insert(std::move(made));
  }
  return all;
}

class line_model : public testing::TestWithParam<model> {};

TEST_P(line_model, allows_exactly_the_images_of_its_definition) {
  std::mt19937_64 r{GetParam() == model::x86 ? 1U : 2U};
  for (int round = 0; round < 400; ++round) {
    script s;
    std::size_t pieces = 0;
    const std::uint64_t lines = 1 + r() % 3;  // with few lines, one becomes clean and dirty again
    while (pieces < 9) {
      const std::uint8_t thread = static_cast<std::uint8_t>(r() % 2);
      const std::uint64_t line = r() % lines;
      switch (r() % 9) {
        case 0:
        case 1:
        case 2: {
          const std::uint32_t bytes = 1U << r() % 4;
          s.store(line * 64 + r() % 4 * 8 + (8 - bytes) / 2 / bytes * bytes, bytes, &plain, thread);
          pieces += 1;
          break;
        }
        case 3: {
          const std::uint32_t bytes = 9 + static_cast<std::uint32_t>(r() % 16);
          s.store(line * 64 + 40 + r() % 16, bytes, &copy, thread);  // may cross into the next line
          pieces += 4;
          break;
        }
        case 4:
          s.flush(line * 64 + r() % 64, 1 + r() % 80, thread);
          break;
        default:
          s.fence(thread);
          break;
      }
    }
    ASSERT_EQ(reachable(s, GetParam()), defined(s, GetParam())) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(models, line_model, testing::Values(model::x86, model::torn8),
                         [](const auto& i) { return name_of(i.param); });

TEST(sector_model, allows_exactly_the_images_of_its_definition) {
  std::mt19937_64 r{3};
  for (int round = 0; round < 300; ++round) {
    script s;
    for (std::size_t pieces = 0; pieces < 8;) {
      if (r() % 5 == 0) {
        s.fence(0, event_kind::sync);
      } else if (r() % 2 == 0) {
        s.write(r() % 4 * 512, 512);
        ++pieces;
      } else {
        s.write(r() % 3 * 512 + 256, 512);  // half of one sector and half of the next
        pieces += 2;
      }
    }
    ASSERT_EQ(reachable(s, model::ssd), defined(s, model::ssd)) << "round " << round;
  }
}

TEST(sector_model, keeps_sectors_whole) {
  script s;
  s.write(0, 512);
  s.write(0, 512);
  EXPECT_EQ(reachable(s, model::ssd).size(), 3U);
}

TEST(line_model, keeps_a_prefix_of_scalar_stores_to_one_line) {
  script s;
  s.store(0, 8);
  s.store(8, 8);
  s.store(16, 8);
  EXPECT_EQ(reachable(s, model::x86).size(), 4U);
  EXPECT_EQ(reachable(s, model::torn8).size(), 8U);
}

TEST(line_model, lets_the_words_of_one_wide_store_become_durable_in_any_order) {
  script s;
  s.store(0, 32, &copy);
  EXPECT_EQ(reachable(s, model::x86).size(), 16U);
}

TEST(line_model, does_not_take_a_fence_for_a_flush_nor_a_flush_for_a_fence) {
  script s;
  s.store(0, 8);
  s.fence();
  EXPECT_EQ(reachable(s, model::x86).size(), 2U);
  s.flush(0, 8);
  EXPECT_EQ(reachable(s, model::x86).size(), 2U);
  s.fence(1);
  EXPECT_EQ(reachable(s, model::x86).size(), 2U) << "another thread's fence completes nothing";
  s.fence(0);
  EXPECT_EQ(reachable(s, model::x86).size(), 1U);
}

TEST(line_model, does_not_let_an_old_flush_of_another_thread_cover_a_line_that_was_clean_since) {
  script s;
  s.store(0, 8);
  s.flush(0, 8, 0);
  s.flush(0, 8, 1);
  s.fence(0);
  s.store(0, 8);
  s.fence(1);
  EXPECT_EQ(reachable(s, model::x86).size(), 2U);
}

TEST(line_model, does_not_let_a_flush_cover_a_later_store) {
  script s;
  s.store(0, 8);
  s.flush(0, 8);
  s.store(8, 8);
  s.fence();
  EXPECT_EQ(reachable(s, model::x86).size(), 2U);
}

TEST(non_temporal_stores, need_a_fence_but_no_flush_and_are_in_no_order) {
  script s;
  s.store(0, 8, &stream);
  s.store(8, 8, &stream);
  EXPECT_EQ(reachable(s, model::x86).size(), 4U);
  EXPECT_EQ(reachable(s, model::eadr).size(), 4U);
  s.fence();
  EXPECT_EQ(reachable(s, model::x86).size(), 1U);
}

TEST(non_temporal_stores, of_another_thread_stay_open_when_one_thread_fences) {
  script s;
  s.store(0, 8, &stream, 0);
  s.store(8, 8, &stream, 1);
  s.store(16, 8, &stream, 1);
  s.fence(0);
  EXPECT_EQ(reachable(s, model::x86).size(), 4U);
  s.fence(1);
  EXPECT_EQ(reachable(s, model::x86).size(), 1U);
}

TEST(non_temporal_stores, to_one_word_stay_in_order) {
  script s;
  s.store(0, 8, &stream);
  s.store(0, 8, &stream);
  EXPECT_EQ(reachable(s, model::x86).size(), 3U);
}

TEST(eadr_model, makes_ordinary_stores_durable_at_once) {
  script s;
  s.store(0, 8);
  s.store(64, 32, &copy);
  EXPECT_EQ(reachable(s, model::eadr).size(), 1U);
}

TEST(locked_operations, order_write_backs_only_where_the_option_says_so) {
  script s;
  s.store(0, 8);
  s.flush(0, 8);
  s.fence(0, event_kind::rmw);
  EXPECT_EQ(reachable(s, model::x86, false).size(), 2U);
  EXPECT_EQ(reachable(s, model::x86, true).size(), 1U);
  EXPECT_EQ(reachable(s, model::torn8, true).size(), 2U) << "no portable promise";
}

TEST(cuts, are_numbered_so_that_a_prefix_is_found_again) {
  std::mt19937_64 r{4};
  for (int round = 0; round < 200; ++round) {
    script s;
    for (int i = 0; i < 5; ++i) s.store(r() % 4 * 8, static_cast<std::uint32_t>(r() % 3 == 0 ? 24 : 8), &copy);
    image durable(image_bytes);
    frontier f;
    f.start(model::x86, durable.data(), durable.size(), &s.t, false);
    for (std::uint32_t i = 0; i < s.t.events.size(); ++i) f.feed(i);
    for (unit* u : f.active()) {
      f.prepare(*u);
      for (std::size_t count = 0; count <= u->steps.size(); ++count) {
        const std::uint32_t cut = frontier::cut_of_prefix(*u, count);
        ASSERT_LT(cut, u->choices);
        for (std::size_t i = 0; i < u->steps.size(); ++i) ASSERT_EQ(frontier::holds(*u, cut, i), i < count);
      }
    }
  }
}

}  // namespace
}  // namespace nvm::explore
