// Method: an image of the two header pages in memory, damaged in every way that a device or a stranger could.
#include "pool/superblock.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "nvm/nvm.h"

namespace nvm {
namespace {

using layout::superblock;

superblock_request request(unsigned page_shift = 12, std::uint32_t medium = NVM_MEDIUM_SHM) {
  superblock_request r;
  r.shape.page_shift = page_shift;
  r.shape.size_pages = 64;
  r.shape.capacity_pages = 256;
  if (medium == NVM_MEDIUM_SSD) {
    r.shape.ring_bytes = std::uint64_t{16} << page_shift;
  } else {
    r.shape.lane_count = 2;
    r.shape.lane_bytes = std::uint64_t{1} << page_shift;
  }
  r.medium = medium;
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(0xA0 + i);
  r.base_address = 0x200040000000;
  r.created_unix_s = 1700000000;
  return r;
}

struct image {
  explicit image(const superblock_request& r = request()) {
    auto made = make_superblock(r);
    EXPECT_TRUE(made) << last_message();
    sb = *made;
    pool_bytes = geometry_of(sb).size_bytes();
    bytes.resize(2 * geometry_of(sb).page_bytes());
    format_image(bytes.data(), sb);
  }
  [[nodiscard]] result<superblock> pick() const { return pick_superblock(bytes.data(), bytes.size(), pool_bytes); }
  // A superblock written as a whole with a correct crc, into the copy of its sequence.
  void put(superblock s) {
    s.crc = superblock_crc(s);
    std::memcpy(bytes.data() + geometry_of(sb).superblock_at(superblock_copy_of(s.sequence)), &s, sizeof s);
  }
  void put_both(superblock s) {
    s.sequence = 3;
    put(s);
    s.sequence = 4;
    put(s);
  }

  superblock sb;
  std::uint64_t pool_bytes = 0;
  std::vector<std::byte> bytes;
};

bool message_has(const char* text) { return std::string{last_message()}.find(text) != std::string::npos; }
#define EXPECT_SAID(text) EXPECT_TRUE(message_has(text)) << last_message()

TEST(superblock, of_a_new_pool_is_found_with_every_page_size) {
  for (unsigned shift = layout::page_shift_min; shift <= layout::page_shift_max; ++shift) {
    const image i{request(shift)};
    const auto found = i.pick();
    ASSERT_TRUE(found) << shift << ": " << last_message();
    EXPECT_EQ(std::memcmp(&*found, &i.sb, sizeof i.sb), 0) << shift;
  }
}

TEST(superblock, of_every_medium_is_found) {
  for (std::uint32_t medium = NVM_MEDIUM_SHM; medium <= NVM_MEDIUM_SSD; ++medium) {
    EXPECT_TRUE(image{request(12, medium)}.pick()) << medium << ": " << last_message();
  }
}

TEST(superblock, copy_with_the_larger_sequence_counts) {
  image i;
  superblock newer = i.sb;
  newer.sequence = 3;
  newer.generation = 77;
  i.put(newer);
  EXPECT_EQ(i.pick()->generation, 77U);
  newer.sequence = 4;
  newer.generation = 78;
  i.put(newer);
  EXPECT_EQ(i.pick()->generation, 78U);
}

TEST(superblock, either_copy_alone_is_enough_with_every_page_size) {
  for (unsigned shift = layout::page_shift_min; shift <= layout::page_shift_max; ++shift) {
    for (unsigned copy = 0; copy < 2; ++copy) {
      image i{request(shift)};
      std::memset(i.bytes.data() + geometry_of(i.sb).superblock_at(copy), 0xFF, sizeof(superblock));
      const auto found = i.pick();
      ASSERT_TRUE(found) << shift << " " << copy << ": " << last_message();
      EXPECT_EQ(found->page_shift, shift);
      EXPECT_EQ(found->size_pages, i.sb.size_pages);
    }
  }
}

// One flipped bit, wherever it is in the header pages, costs nothing: between two changes both copies say the same.
TEST(superblock, any_flipped_bit_of_a_copy_opens_from_the_other) {
  image i;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = geometry_of(i.sb).superblock_at(copy);
    for (std::size_t bit = 0; bit < sizeof(superblock) * 8; ++bit) {
      i.bytes[at + bit / 8] ^= std::byte(1U << bit % 8);
      const auto found = i.pick();
      ASSERT_TRUE(found) << copy << " bit " << bit << ": " << last_message();
      ASSERT_EQ(std::memcmp(&found->size_pages, &i.sb.size_pages, offsetof(superblock, crc) - 120), 0);
      ASSERT_EQ(found->sequence, copy == 0 ? 1U : 2U);
      i.bytes[at + bit / 8] ^= std::byte(1U << bit % 8);
    }
  }
}

TEST(superblock, one_flipped_bit_in_each_copy_is_refused) {
  image i;
  const std::uint64_t b = geometry_of(i.sb).superblock_at(1);
  for (std::size_t bit = 0; bit < sizeof(superblock) * 8; ++bit) {
    i.bytes[bit / 8] ^= std::byte(1U << bit % 8);
    i.bytes[b + bit / 8] ^= std::byte(1U << bit % 8);
    ASSERT_FALSE(i.pick()) << bit;
    i.bytes[bit / 8] ^= std::byte(1U << bit % 8);
    i.bytes[b + bit / 8] ^= std::byte(1U << bit % 8);
  }
}

TEST(superblock, torn_at_any_byte_leaves_the_old_one) {
  image i;
  superblock next = i.sb;
  next.sequence = 3;
  next.size_pages = 128;
  next.crc = superblock_crc(next);
  i.pool_bytes = geometry_of(next).size_bytes();
  const std::uint64_t b = geometry_of(i.sb).superblock_at(1);
  const std::vector<std::byte> before = i.bytes;
  for (std::size_t cut = 0; cut <= sizeof next; ++cut) {
    i.bytes = before;
    std::memcpy(i.bytes.data() + b, &next, cut);
    const auto found = i.pick();
    ASSERT_TRUE(found) << cut << ": " << last_message();
    const bool whole = std::memcmp(i.bytes.data() + b, &next, sizeof next) == 0;
    ASSERT_EQ(found->size_pages, whole ? 128U : 64U) << cut;
  }
}

TEST(superblock, copy_written_to_the_place_of_the_other_is_refused) {
  image i;
  const std::uint64_t b = geometry_of(i.sb).superblock_at(1);
  std::memcpy(i.bytes.data() + b, i.bytes.data(), sizeof(superblock));
  ASSERT_TRUE(i.pick()) << last_message();  // A still holds
  std::memset(i.bytes.data(), 0, sizeof(superblock));
  EXPECT_EQ(i.pick().error(), errc::corrupt);
  EXPECT_SAID("belongs elsewhere");
}

TEST(superblock, kinds_of_files_are_told_apart) {
  EXPECT_EQ(pick_superblock(nullptr, 0, 0).error(), errc::not_a_pool);
  EXPECT_SAID("empty");
  const image whole;
  EXPECT_EQ(pick_superblock(whole.bytes.data(), 511, 511).error(), errc::not_a_pool);
  EXPECT_SAID("truncated");
  const std::vector<std::byte> zeros(8192);
  EXPECT_EQ(pick_superblock(zeros.data(), zeros.size()).error(), errc::not_a_pool);
  EXPECT_SAID("interrupted");
  const std::vector<std::byte> foreign(8192, std::byte{'x'});
  EXPECT_EQ(pick_superblock(foreign.data(), foreign.size()).error(), errc::not_a_pool);
  EXPECT_SAID("not a Holdfast pool: found \"xxxxxxxx\"");
}

TEST(superblock, truncated_pool_is_refused_at_every_length) {
  const image i;
  for (std::uint64_t length = 0; length < i.pool_bytes; length += 509) {
    const auto found = pick_superblock(i.bytes.data(), std::min<std::uint64_t>(length, i.bytes.size()), length);
    ASSERT_EQ(found.error(), errc::not_a_pool) << length << ": " << last_message();
  }
  EXPECT_FALSE(pick_superblock(i.bytes.data(), i.bytes.size(), i.pool_bytes - 1));
  EXPECT_TRUE(pick_superblock(i.bytes.data(), i.bytes.size(), i.pool_bytes));
}

TEST(superblock, newer_format_is_refused_by_its_number) {
  image i;
  superblock s = i.sb;
  s.version = 2;
  i.put_both(s);
  EXPECT_EQ(i.pick().error(), errc::version);
  EXPECT_SAID("found 2, expected 1 .. 1");
}

// A later format may compute its crc otherwise; the message must not call such a pool damaged only.
TEST(superblock, newer_format_with_another_crc_is_refused_by_its_number) {
  image i;
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint32_t version = 9;
    std::memcpy(i.bytes.data() + geometry_of(i.sb).superblock_at(copy) + 8, &version, sizeof version);
  }
  EXPECT_EQ(i.pick().error(), errc::version);
  EXPECT_SAID("found 9");
}

TEST(superblock, newer_copy_with_a_newer_format_is_not_passed_over) {
  image i;
  superblock s = i.sb;
  s.version = 2;
  s.sequence = 3;
  i.put(s);
  EXPECT_EQ(i.pick().error(), errc::version);
}

TEST(superblock, unknown_features_are_refused_restricted_or_ignored) {
  image i;
  superblock s = i.sb;
  s.features_incompat = 0x8000;
  i.put_both(s);
  EXPECT_EQ(i.pick().error(), errc::version);
  EXPECT_SAID("found bits 00008000");

  s = i.sb;
  s.features_ro_compat = 0x80;
  i.put_both(s);
  const auto restricted = i.pick();
  ASSERT_TRUE(restricted) << last_message();
  EXPECT_TRUE(must_be_read_only(*restricted));

  s = i.sb;
  s.features_compat = 4;
  s.reserved[3] = 12345;  // may belong to that feature
  i.put_both(s);
  const auto ignored = i.pick();
  ASSERT_TRUE(ignored) << last_message();
  EXPECT_FALSE(must_be_read_only(*ignored));
}

// A crash in the change leaves it so; a bit is never taken back.
TEST(superblock, a_feature_that_is_added_may_be_in_the_newer_copy_alone) {
  const auto added = [](std::uint32_t superblock::* features, std::uint32_t bit, bool taken_back) {
    image i;
    superblock older = i.sb;
    superblock newer = i.sb;
    newer.sequence = older.sequence + 1;
    superblock& changed = taken_back ? older : newer;
    changed.*features |= bit;
    i.put(older);
    i.put(newer);
    const auto found = i.pick();
    if (taken_back) {
      EXPECT_EQ(found.error(), errc::corrupt);
    } else {
      ASSERT_TRUE(found) << last_message();
      EXPECT_EQ((*found).*features, newer.*features);
    }
  };
  for (const bool taken_back : {false, true}) {
    added(&superblock::features_incompat, layout::feature_aligned, taken_back);
    added(&superblock::features_compat, layout::feature_untyped_bytes, taken_back);
  }
}

TEST(superblock, copies_of_different_pools_are_refused) {
  image i;
  superblock s = i.sb;
  s.sequence = 1;
  s.uuid[5] ^= 1;
  i.put(s);
  EXPECT_EQ(i.pick().error(), errc::corrupt);
  EXPECT_SAID("contradict");
}

// Places as they follow from the other fields.
void place(superblock& s) {
  geometry_request r;
  r.page_shift = s.page_shift;
  r.size_pages = s.size_pages;
  r.capacity_pages = s.capacity_pages;
  r.lane_count = s.lane_count;
  r.lane_bytes = s.lane_bytes;
  r.ring_bytes = s.log_bytes;
  const geometry g = lay_out(r);
  s.page_map_offset = g.page_map_offset;
  s.log_offset = g.log_offset;
  s.data_offset = g.data_offset;
}
// Of engine log, which has no log area; but without home space.
void make_log(superblock& s) {
  s.features_incompat = layout::feature_engine;
  s.engine = NVM_ENGINE_LOG;
  s.lane_count = 0;
  s.lane_bytes = s.log_bytes = 0;
  place(s);
}
// For ssd, with a ring.
void make_ssd(superblock& s) {
  s.medium = NVM_MEDIUM_SSD;
  s.lane_count = 0;
  s.lane_bytes = 0;
  s.log_bytes = 16U << s.page_shift;
  place(s);
}
void set_engine(superblock& s, std::uint32_t engine) {
  s.features_incompat = layout::feature_engine;
  s.engine = engine;
}

// Each is a superblock with a correct crc, as a stranger could write it.
TEST(superblock, field_outside_its_domain_is_refused_by_name) {
  struct hostile {
    const char* name;
    std::function<void(superblock&)> change;
  };
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  const hostile cases[] = {
      {"superblock_bytes", [](superblock& s) { s.superblock_bytes = 1024; }},
      {"page_shift", [](superblock& s) { s.page_shift = layout::page_shift_min - 1; }},
      {"page_shift", [](superblock& s) { s.page_shift = layout::page_shift_max + 1; }},
      {"page_shift", [](superblock& s) { s.page_shift = 0xFFFFFFFF; }},
      {"uuid", [](superblock& s) { std::memset(s.uuid, 0, sizeof s.uuid); }},
      {"medium", [](superblock& s) { s.medium = 0; }},
      {"medium", [](superblock& s) { s.medium = 5; }},
      {"lane_count", [](superblock& s) { s.lane_count = 0; }},
      {"lane_count", [](superblock& s) { s.lane_count = 1025; }},
      {"lane_count", [](superblock& s) { s.medium = NVM_MEDIUM_SSD; }},
      {"lane_bytes", [](superblock& s) { s.lane_bytes = 0; }},
      {"lane_bytes", [](superblock& s) { s.lane_bytes = 100; }},
      {"lane_bytes", [](superblock& s) { s.lane_bytes = huge & ~std::uint64_t{4095}; }},
      {"capacity_pages", [](superblock& s) { s.capacity_pages = 0; }},
      {"capacity_pages", [](superblock& s) { s.capacity_pages = huge; }},
      {"size_pages", [](superblock& s) { s.size_pages = 0; }},
      {"size_pages", [](superblock& s) { s.size_pages = s.capacity_pages + 1; }},
      {"size_pages", [](superblock& s) { s.size_pages = huge; }},
      {"page_map_offset", [](superblock& s) { s.page_map_offset += 4096; }},
      {"log_offset", [](superblock& s) { s.log_offset = huge; }},
      {"log_bytes", [](superblock& s) { s.log_bytes += 4096; }},
      {"data_offset", [](superblock& s) { s.data_offset -= 4096; }},
      {"state", [](superblock& s) { s.state = 0; }},
      {"state", [](superblock& s) { s.state = 3; }},
      {"base_history_count", [](superblock& s) { s.base_history_count = 9; }},
      {"base_history", [](superblock& s) { s.base_history[7].generation = 1; }},
      {"base_address", [](superblock& s) { s.base_address = huge - 4096; }},
      {"type_map_offset", [](superblock& s) { s.type_map_offset = huge; }},
      {"gc_offset", [](superblock& s) { s.gc_bytes = huge; }},
      {"engine", [](superblock& s) { s.engine = NVM_ENGINE_REDO; }},  // and no feature bit says so
      {"engine", [](superblock& s) { set_engine(s, NVM_ENGINE_LOG + 1); }},
      {"engine", [](superblock& s) { set_engine(s, NVM_ENGINE_UNDO); }},  // which is 0 on media
      {"engine", [](superblock& s) { make_ssd(s), set_engine(s, NVM_ENGINE_MNEMOSYNE); }},
      {"engine", [](superblock& s) { make_ssd(s), set_engine(s, NVM_ENGINE_MNEMOSYNE_UNDO); }},
      // Each of its fields is inside its limits, and header, log and data together are not.
      {"a pool of at most 16 TiB",
       [](superblock& s) {
         s.capacity_pages = layout::pool_bytes_max >> s.page_shift;
         place(s);
       }},
      {"home_bytes", [](superblock& s) { make_log(s); }},
      {"lane_count", [](superblock& s) { make_log(s), s.lane_count = 2; }},
      {"lane_bytes", [](superblock& s) { make_log(s), s.lane_bytes = 4096; }},
      {"log_bytes", [](superblock& s) { make_log(s), s.log_bytes = 4096; }},
      {"home_bytes", [](superblock& s) { s.home_bytes = layout::home_bytes_unit; }},
      {"home_bytes",
       [](superblock& s) {
         make_log(s);
         s.home_bytes = layout::home_bytes_unit + 4096;
       }},
      {"home_bytes",
       [](superblock& s) {
         make_log(s);
         s.home_bytes = 2 * layout::home_bytes_max;
       }},
      {"validation", [](superblock& s) { s.validation = NVM_VALIDATION_COMMIT_MARK; }},
      {"validation", [](superblock& s) { s.features_incompat = layout::feature_engine, s.validation = 2; }},
      {"reserved", [](superblock& s) { s.reserved[21] = 1; }},
  };
  for (const hostile& h : cases) {
    image i;
    superblock s = i.sb;
    h.change(s);
    i.put_both(s);
    const auto found = i.pick();
    EXPECT_EQ(found.error(), errc::corrupt) << h.name;
    EXPECT_SAID(h.name);
  }
}

// What the cases above begin with is believed where nothing contradicts it.
TEST(superblock, of_every_engine_is_found_where_its_medium_has_it) {
  struct combination {
    std::uint32_t engine;
    bool on_ssd;
    bool allowed;
  };
  for (const combination c : {combination{NVM_ENGINE_REDO, false, true},
                              {NVM_ENGINE_REDO, true, true},
                              {NVM_ENGINE_MNEMOSYNE, false, true},
                              {NVM_ENGINE_MNEMOSYNE, true, false},
                              {NVM_ENGINE_MNEMOSYNE_UNDO, false, true},
                              {NVM_ENGINE_MNEMOSYNE_UNDO, true, false}}) {
    image i;
    superblock s = i.sb;
    if (c.on_ssd) make_ssd(s);
    set_engine(s, c.engine);
    i.pool_bytes = geometry_of(s).size_bytes();
    i.put_both(s);
    const auto found = i.pick();
    ASSERT_EQ(bool{found}, c.allowed) << c.engine << " " << c.on_ssd << ": " << last_message();
    if (found) {
      EXPECT_EQ(found->engine, c.engine);
    } else {
      EXPECT_SAID("on ssd");
    }
  }
}

// Random words in random places, both copies sealed again: what is accepted can be relied on.
TEST(superblock, of_any_content_is_refused_or_adds_up) {
  std::mt19937_64 random{99};
  const std::uint64_t words[] = {0,
                                 1,
                                 2,
                                 63,
                                 64,
                                 511,
                                 4095,
                                 4096,
                                 1U << 31,
                                 ~0U,
                                 std::uint64_t{1} << 44,
                                 std::uint64_t{1} << 63,
                                 ~std::uint64_t{0}};
  unsigned accepted = 0;
  for (unsigned round = 0; round < 50000; ++round) {
    image i;
    superblock s = i.sb;
    for (unsigned changes = 1 + random() % 2; changes != 0; --changes) {
      std::uint64_t word = words[random() % std::size(words)] + random() % 3;
      const std::size_t bytes = random() % 2 == 0 ? 4 : 8;
      const std::size_t at = random() % ((sizeof s - 8) / bytes) * bytes;
      if (random() % 4 == 0) {
        std::uint64_t old = 0;
        std::memcpy(&old, reinterpret_cast<std::byte*>(&s) + at, bytes);
        word = old ^ std::uint64_t{1} << random() % (8 * bytes);
      }
      std::memcpy(reinterpret_cast<std::byte*>(&s) + at, &word, bytes);
    }
    const geometry place = geometry_of(i.sb);
    for (const std::uint64_t sequence : {3U, 4U}) {
      s.sequence = sequence;
      s.crc = superblock_crc(s);
      std::memcpy(i.bytes.data() + place.superblock_at(superblock_copy_of(sequence)), &s, sizeof s);
    }
    const auto found = i.pick();
    if (!found) continue;
    ++accepted;
    const geometry g = geometry_of(*found);
    ASSERT_LE(g.size_bytes(), i.pool_bytes);
    ASSERT_LE(g.capacity_bytes(), layout::pool_bytes_max);
    ASSERT_LE(g.size_pages, g.capacity_pages);
    ASSERT_GE(g.page_map_offset, 2 * g.page_bytes());
    ASSERT_GE(g.log_offset, g.entry_offset(g.capacity_pages));
    ASSERT_GE(g.data_offset, g.log_offset + g.log_bytes);
    ASSERT_TRUE(found->medium == NVM_MEDIUM_SSD || g.log_bytes == g.lane_count * g.lane_bytes);
  }
  EXPECT_GT(accepted, 500U);  // the address, the date, the uuid
}

TEST(superblock, request_outside_its_domain_is_refused) {
  auto r = request();
  r.shape.page_shift = layout::page_shift_max + 1;
  EXPECT_EQ(make_superblock(r).error(), errc::invalid);
  r = request();
  r.shape.size_pages = r.shape.capacity_pages + 1;
  EXPECT_EQ(make_superblock(r).error(), errc::invalid);
  r = request();
  r.shape.capacity_pages = layout::pool_bytes_max >> 12;  // no room for header and log below 16 TiB
  EXPECT_EQ(make_superblock(r).error(), errc::too_large);
  r = request(12, NVM_MEDIUM_SSD);
  r.shape.ring_bytes = 4096;
  EXPECT_EQ(make_superblock(r).error(), errc::invalid);
  // What only the finished superblock shows.
  r = request();
  r.base_address = ~std::uint64_t{0} - 4096;
  EXPECT_EQ(make_superblock(r).error(), errc::invalid);
  EXPECT_SAID("base_address");
  r = request();
  std::memset(r.uuid, 0, sizeof r.uuid);
  EXPECT_EQ(make_superblock(r).error(), errc::invalid);
  EXPECT_SAID("uuid");
}

// A library from before engines and validations refuses what is neither undo nor checked by sums.
TEST(superblock, says_by_a_feature_that_it_has_an_engine_or_a_validation_of_its_own) {
  struct choice {
    std::uint32_t engine, validation, engine_on_media;
    bool feature;
  };
  for (const choice c : {choice{NVM_ENGINE_DETECT, NVM_VALIDATION_CHECKSUM, 0, false},
                         {NVM_ENGINE_UNDO, NVM_VALIDATION_CHECKSUM, 0, false},
                         {NVM_ENGINE_UNDO, NVM_VALIDATION_COMMIT_MARK, 0, true},
                         {NVM_ENGINE_REDO, NVM_VALIDATION_CHECKSUM, NVM_ENGINE_REDO, true},
                         {NVM_ENGINE_REDO, NVM_VALIDATION_COMMIT_MARK, NVM_ENGINE_REDO, true}}) {
    auto r = request();
    r.engine = c.engine;
    r.validation = c.validation;
    const auto found = image{r}.pick();
    ASSERT_TRUE(found) << last_message();
    EXPECT_EQ(found->engine, c.engine_on_media);
    EXPECT_EQ(found->validation, c.validation);
    EXPECT_EQ(found->features_incompat, c.feature ? layout::feature_engine : 0);
  }
}

TEST(superblock, names_of_media_and_engines_are_those_of_the_interface) {
  const std::vector<const char*> media{"?", "shm", "dax", "auto", "ssd", "?"};
  for (std::uint32_t m = 0; m < media.size(); ++m) EXPECT_STREQ(medium_name(m), media[m]);
  const std::vector<const char*> engines{"undo", "undo", "redo", "mnemosyne", "mnemosyne-undo", "log", "?"};
  for (std::uint32_t e = 0; e < engines.size(); ++e) EXPECT_STREQ(engine_name(e), engines[e]);
}

class root : public ::testing::Test {
 protected:
  image i;
  geometry g = geometry_of(i.sb);

  void set(unsigned copy, std::uint64_t offset) {
    const std::uint64_t at = root_word_at(g, copy);
    const std::uint64_t word = seal_word(offset, word_seed(at));
    std::memcpy(i.bytes.data() + at, &word, sizeof word);
  }
  result<std::uint64_t> read() { return read_root(i.bytes.data(), g); }
};

TEST_F(root, of_a_new_pool_is_unset) {
  ASSERT_TRUE(read());
  EXPECT_EQ(*read(), 0U);
}

TEST_F(root, survives_any_flipped_bit_of_either_copy) {
  const std::uint64_t object = g.page_offset(5) + 320;
  set(0, object);
  set(1, object);
  for (unsigned copy = 0; copy < 2; ++copy) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      std::byte& hit = i.bytes[root_word_at(g, copy) + bit / 8];
      hit ^= std::byte(1U << bit % 8);
      const auto found = read();
      ASSERT_TRUE(found) << copy << " bit " << bit << ": " << last_message();
      ASSERT_EQ(*found, object);
      EXPECT_FALSE(check_anchor(i.bytes.data(), g, copy));
      hit ^= std::byte(1U << bit % 8);
      EXPECT_TRUE(check_anchor(i.bytes.data(), g, copy)) << last_message();
    }
  }
}

TEST_F(root, that_is_unset_survives_any_flipped_bit_of_either_copy) {
  for (unsigned copy = 0; copy < 2; ++copy) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      std::byte& hit = i.bytes[root_word_at(g, copy) + bit / 8];
      hit ^= std::byte(1U << bit % 8);
      const auto found = read();
      ASSERT_TRUE(found) << copy << " bit " << bit << ": " << last_message();
      ASSERT_EQ(*found, 0U);
      hit ^= std::byte(1U << bit % 8);
    }
  }
}

TEST_F(root, copies_that_differ_are_refused) {
  set(0, g.page_offset(1));
  set(1, g.page_offset(2));
  EXPECT_EQ(read().error(), errc::corrupt);
  EXPECT_SAID("differ");
}

TEST_F(root, outside_the_data_is_refused) {
  for (const std::uint64_t offset :
       {std::uint64_t{8}, g.data_offset - 8, g.size_bytes(), g.capacity_bytes(), checked_mask}) {
    set(0, offset);
    set(1, offset);
    EXPECT_EQ(read().error(), errc::corrupt) << offset;
    EXPECT_SAID("expected 0 or");
    for (unsigned copy = 0; copy < 2; ++copy) {
      EXPECT_EQ(check_anchor(i.bytes.data(), g, copy).error(), errc::corrupt) << offset;
      EXPECT_SAID("root word at offset");
    }
  }
}

TEST_F(root, anchor_with_other_content_is_found_by_the_check) {
  i.bytes[g.anchor_at(1) + 511] = std::byte{1};
  EXPECT_TRUE(check_anchor(i.bytes.data(), g, 0));
  EXPECT_EQ(check_anchor(i.bytes.data(), g, 1).error(), errc::corrupt);
}

}  // namespace
}  // namespace nvm
