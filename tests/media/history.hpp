// A model of a log: random lives of an image medium, and which states a crash may leave.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "image_rig.hpp"

namespace nvm::test {

// What was appended, record by record, so that each prefix can be told.
struct history {
  struct range {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<std::byte> start = std::vector<std::byte>(file_bytes - data_offset);
  std::vector<std::vector<range>> records;
  std::size_t acknowledged = 0;  // records that must survive
  // Of blocks: by which LSN they were freed; what a crash leaves is durable.
  std::array<lsn_t, blocks::count> freed{};

  static void apply(std::vector<std::byte>& data, const std::vector<range>& record) {
    for (const range& r : record)
      std::copy(r.bytes.begin(), r.bytes.end(), data.begin() + static_cast<std::ptrdiff_t>(r.offset - data_offset));
  }
  // True if `data` is the state after some prefix that holds everything acknowledged.
  [[nodiscard]] bool allows(const std::vector<std::byte>& data) const {
    std::vector<std::byte> state = start;
    for (std::size_t k = 0; k <= records.size(); ++k) {
      if (k >= acknowledged && shown(state) == data) return true;
      if (k < records.size()) apply(state, records[k]);
    }
    return false;
  }
};

// Appends one random record to the medium and to the history.
inline void append(image_rig& rig, history& past, std::mt19937_64& random) {
  image_media::batch b;
  std::vector<history::range> record;
  const std::uint64_t ranges = 1 + random() % 4;
  for (std::uint64_t i = 0; i < ranges; ++i) {
    const std::size_t bytes = random() % 8 == 0 ? 1 + random() % 250 : 1 + random() % 40;
    std::uint64_t offset = data_offset + random() % (blocks::words - data_offset - bytes);
    const std::uint64_t block = random() % (2 * blocks::count);
    const std::uint64_t there = block < blocks::count ? rig.at(blocks::word_at(block)) * sector_bytes : 0;
    if (there != 0) offset = blocks::at(block) + random() % (there - bytes);
    history::range r{offset, std::vector<std::byte>(bytes)};
    for (auto& byte : r.bytes) byte = static_cast<std::byte>(random());
    std::copy(r.bytes.begin(), r.bytes.end(), rig.image() + offset);
    b.add(rig.image() + offset, bytes);
    record.push_back(std::move(r));
  }
  ASSERT_TRUE(rig.medium->publish(b, [] {}, edge{"test/commit"})) << last_message();
  past.records.push_back(std::move(record));
}

// A block comes, whose bytes go straight to their place if they may, or goes.
inline void append_block(image_rig& rig, history& past, std::mt19937_64& random) {
  image_media::batch b;
  std::vector<history::range> record;
  const std::uint64_t block = random() % blocks::count;
  auto& word = rig.at(blocks::word_at(block));
  word = word == 0 ? 1 + random() % 4 : 0;
  if (word != 0) {
    history::range r{blocks::at(block), std::vector<std::byte>(sector_bytes * word)};
    for (auto& byte : r.bytes) byte = static_cast<std::byte>(random());
    std::byte* const at = rig.image() + r.offset;
    std::copy(r.bytes.begin(), r.bytes.end(), at);
    const auto straight = rig.medium->write_straight(at, r.bytes.size(), past.freed[block]);
    ASSERT_TRUE(straight) << last_message();
    if (straight->written) {
      b.add_straight(at, r.bytes.size(), straight->sum);
    } else {
      rig.medium->flush(at, r.bytes.size());
    }
    record.push_back(std::move(r));
  }
  b.add(&word, sizeof word);
  const auto* bytes = reinterpret_cast<const std::byte*>(&word);
  record.push_back({blocks::word_at(block), {bytes, bytes + sizeof word}});
  const auto lsn = rig.medium->publish(b, [] {}, edge{"test/commit"});
  ASSERT_TRUE(lsn) << last_message();
  past.records.push_back(std::move(record));
  if (word == 0) past.freed[block] = *lsn;
}

// A random life: appends, waits, checkpoints.
inline void live(image_rig& rig, history& past, std::mt19937_64& random, unsigned steps) {
  for (unsigned i = 0; i < steps; ++i) {
    switch (random() % 10) {
      case 0:
      case 1:
        ASSERT_TRUE(rig.medium->sync_appended().has_value());
        past.acknowledged = past.records.size();
        break;
      case 2:
        ASSERT_TRUE(rig.medium->checkpoint_step().has_value());
        break;
      case 3:
      case 4:
        append_block(rig, past, random);
        break;
      default:
        append(rig, past, random);
    }
  }
}

// The prefix that is left becomes the start of the next life.
inline void settle(history& past, const std::vector<std::byte>& data) {
  past = {.start = data, .records = {}, .acknowledged = 0, .freed = {}};
}

}  // namespace nvm::test
