// A model of a log: random lives of an image medium, and which states a crash may leave.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

  static void apply(std::vector<std::byte>& data, const std::vector<range>& record) {
    for (const range& r : record)
      std::copy(r.bytes.begin(), r.bytes.end(), data.begin() + static_cast<std::ptrdiff_t>(r.offset - data_offset));
  }
  // True if `data` is the state after some prefix that holds everything acknowledged.
  [[nodiscard]] bool allows(const std::vector<std::byte>& data) const {
    std::vector<std::byte> state = start;
    for (std::size_t k = 0; k <= records.size(); ++k) {
      if (k >= acknowledged && state == data) return true;
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
    const std::uint64_t offset = data_offset + random() % (file_bytes - data_offset - bytes);
    history::range r{offset, std::vector<std::byte>(bytes)};
    for (auto& byte : r.bytes) byte = static_cast<std::byte>(random());
    std::copy(r.bytes.begin(), r.bytes.end(), rig.image() + offset);
    b.add(rig.image() + offset, bytes);
    record.push_back(std::move(r));
  }
  ASSERT_TRUE(rig.medium->publish(b, [] {}, edge{"test/commit"})) << last_message();
  past.records.push_back(std::move(record));
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
      default:
        append(rig, past, random);
    }
  }
}

// The prefix that is left becomes the start of the next life.
inline void settle(history& past, const std::vector<std::byte>& data) {
  past = {.start = data, .records = {}, .acknowledged = 0};
}

}  // namespace nvm::test
