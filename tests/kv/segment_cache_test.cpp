// Answers of a hash table's cache of segments, and their times.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "kv/store.hpp"

namespace nvm::tests {
namespace {

// A segment is found there by threads that have read nothing else of whoever made it, and write to it at once: a data
// race, unless the cache orders them.
TEST(segment_cache, tells_of_segments_that_are_filled) {
  constexpr std::uint64_t count = 2000;
  keyed::segment_cache cache;
  std::vector<std::uint64_t> segments(count + 1, 7);
  std::thread other{[&] {
    for (std::uint64_t number = 0; number < count; ++number) {
      std::uint64_t place = 0;
      while ((place = cache.find(number)) == 0) std::this_thread::yield();
      ASSERT_EQ(place, number + 1);
      ASSERT_EQ(segments[place], 0U);
      segments[place] = 9;
    }
  }};
  for (std::uint64_t number = 0; number < count; ++number) {
    std::memset(&segments[number + 1], 0, sizeof(std::uint64_t));
    cache.put(number, number + 1);
  }
  other.join();
  EXPECT_EQ(cache.find(count + 5000), 0U);
}

}  // namespace
}  // namespace nvm::tests
