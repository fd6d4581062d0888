// Volatile memory runs out while old bytes are kept: those that the log has are durable all the same.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "../fault_injection.hpp"
#include "media/meter_media.hpp"
#include "pool_image.hpp"

namespace nvm::tests {
namespace {

using metered = meter_media<ordered_media>;

class metered_pool {
 public:
  metered_pool() {
    format_image(bytes_.data(), superblock_);
    const status s = heap_.boot();
    EXPECT_TRUE(s) << last_message();
  }
  auto& heap() noexcept { return heap_; }
  [[nodiscard]] std::uint64_t fences(const std::string& label) const {
    for (const auto& e : counts_.read().edges) {
      if (label == e.name) return e.fences;
    }
    return 0;
  }

 private:
  layout::superblock superblock_ = superblock_for({.lanes = 1}, false);
  buffer bytes_{geometry_of(superblock_).capacity_bytes()};
  ordered_media inner_;
  meter counts_;
  metered medium_{inner_, counts_};
  tx::heap<metered> heap_{medium_,
                          bytes_.data(),
                          geometry_of(superblock_),
                          tx::pool_key(superblock_.uuid),
                          superblock_.lane_count,
                          [this](std::uint64_t) -> result<std::uint64_t> { return superblock_.size_pages; }};
};

// The outer level takes over the lines of an inner one that was given up, and writes there without another record.
TEST(undo_without_memory, fences_the_old_bytes_that_the_log_has) {
  constexpr std::uint64_t ranges = 600;
  unsigned refused = 0;
  unsigned refused_with_records = 0;
  for (long first = 1;; ++first) {
    SCOPED_TRACE(first);
    metered_pool pool;
    std::uint64_t at = 0;
    {
      session setup{pool.heap()};
      at = setup.alloc(ranges * 16);
      ASSERT_NE(at, 0U) << last_message();
      ASSERT_TRUE(setup.commit());
    }
    session s{pool.heap()};
    ASSERT_TRUE(s.tx().begin());
    std::vector<log::byte_range> all;
    for (std::uint64_t i = 0; i < ranges; ++i) all.push_back({at + 16 * i, 8});
    const std::uint64_t before = pool.fences("undo/E1");
    injected.arm(fault::memory, ENOMEM, first, false);
    const status announced = s.tx().announce(all.data(), all.size());
    injected.relieve();
    const bool has_records = pool.heap().lanes().has_records(0);
    EXPECT_TRUE(!has_records || pool.fences("undo/E1") == before + 1) << last_message();
    if (!injected.struck()) {
      EXPECT_TRUE(announced) << last_message();
      EXPECT_TRUE(has_records);
      break;
    }
    if (!announced) {
      EXPECT_EQ(announced.error(), errc::no_memory);
      ++refused;
      if (has_records) ++refused_with_records;
    }
  }
  EXPECT_GE(refused, 3U);
  EXPECT_GE(refused_with_records, 1U);
}

}  // namespace
}  // namespace nvm::tests
