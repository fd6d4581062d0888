// How much of the pages in use are bytes that objects may use, and how much of that was asked for.
#include <cstdio>
#include <random>

#include "test_pool.hpp"

namespace nvm::testing {
namespace {

using layout::object_layout;

struct filling {
  double usable;   // bytes that objects may use / bytes of pages in use
  double payload;  // bytes asked for, without headers / bytes of pages in use
};

// Fills the pool until it is full; next() gives payload sizes.
template <class Next>
filling fill(std::uint64_t pages, object_layout l, Next&& next) {
  test_pool pool{test_geometry(pages, pages, 1)};
  EXPECT_TRUE(pool.boot());
  std::uint64_t usable = 0;
  std::uint64_t payload = 0;
  const std::uint64_t header = l == object_layout::typed ? sizeof(layout::object_header) : 0;
  for (;;) {
    const std::uint64_t bytes = next();
    const auto r = pool->reserve(0, bytes + header, l);
    if (!r) {
      EXPECT_EQ(r.error(), errc::no_space);
      break;
    }
    usable += r->bytes;
    payload += bytes;
  }
  const auto pages_bytes = static_cast<double>(pool->used_pages() << 12);
  return {static_cast<double>(usable) / pages_bytes, static_cast<double>(payload) / pages_bytes};
}

std::vector<std::uint64_t> sizes() {
  std::vector<std::uint64_t> all;
  for (std::uint64_t bytes = 48; bytes <= 8192; bytes += 16) all.push_back(bytes);
  for (std::uint64_t bytes = 8192 + 512; bytes <= 65536; bytes += 512) all.push_back(bytes);
  for (std::uint64_t bytes = 65536 + 16384; bytes <= 1 << 20; bytes += 16384) all.push_back(bytes);
  return all;
}

void uniform(object_layout l, const char* name) {
  filling worst{1, 1};
  std::uint64_t worst_usable_at = 0;
  std::uint64_t worst_payload_at = 0;
  for (const std::uint64_t bytes : sizes()) {
    const filling f = fill(std::max<std::uint64_t>(256, 8 * bytes >> 12), l, [=] { return bytes; });
    EXPECT_GE(f.usable, 0.85) << name << " objects of " << bytes << " bytes";
    if (f.usable < worst.usable) worst.usable = f.usable, worst_usable_at = bytes;
    if (f.payload < worst.payload) worst.payload = f.payload, worst_payload_at = bytes;
    if ((bytes & (bytes - 1)) == 0) {
      std::printf("%s, payload %7lu: usable %.3f, payload %.3f\n", name, bytes, f.usable, f.payload);
    }
  }
  std::printf("%s, worst of all sizes: usable %.3f (payload %lu), payload %.3f (payload %lu)\n", name, worst.usable,
              worst_usable_at, worst.payload, worst_payload_at);
}

TEST(utilisation, is_85_percent_for_raw_objects_of_every_size) { uniform(object_layout::raw, "raw"); }
TEST(utilisation, is_85_percent_for_typed_objects_of_every_size) { uniform(object_layout::typed, "typed"); }

TEST(utilisation, is_85_percent_for_mixed_sizes) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    std::mt19937_64 random{seed};
    // Every order of magnitude is as likely as any other: 48 B to 1 MiB.
    std::uniform_real_distribution<double> exponent{std::log2(48), 20};
    const filling f =
        fill(64 << 8, object_layout::typed, [&] { return static_cast<std::uint64_t>(std::exp2(exponent(random))); });
    EXPECT_GE(f.usable, 0.85) << "seed " << seed;
    std::printf("mixed sizes, seed %lu: usable %.3f, payload %.3f\n", seed, f.usable, f.payload);
  }
}

TEST(utilisation, is_85_percent_for_mixed_small_sizes) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    std::mt19937_64 random{seed};
    std::uniform_int_distribution<std::uint64_t> bytes{48, 4096};
    const filling f = fill(8 << 8, object_layout::typed, [&] { return bytes(random); });
    EXPECT_GE(f.usable, 0.85) << "seed " << seed;
    std::printf("mixed small sizes, seed %lu: usable %.3f, payload %.3f\n", seed, f.usable, f.payload);
  }
}

// Objects come and go until the pool has seen ten times its size: what is free stays usable.
TEST(utilisation, is_85_percent_after_long_use) {
  const std::uint64_t pages = 8 << 8;
  test_pool pool{test_geometry(pages, pages, 1)};
  ASSERT_TRUE(pool.boot());
  std::mt19937_64 random{11};
  std::uniform_int_distribution<std::uint64_t> bytes{48, 4096};
  std::vector<test_space::reservation> live;
  std::uint64_t usable = 0;
  double low = 1;
  for (std::uint64_t passed = 0; passed < 10 * (pages << 12);) {
    const auto r = pool->reserve(0, bytes(random), object_layout::raw);
    if (r) {
      live.push_back(*r);
      usable += r->bytes;
      passed += r->bytes;
      continue;
    }
    ASSERT_EQ(r.error(), errc::no_space);
    if (passed > pages << 12) low = std::min(low, static_cast<double>(usable) / static_cast<double>(pages << 12));
    for (int i = 0; i < 100; ++i) {
      std::swap(live[random() % live.size()], live.back());
      usable -= live.back().bytes;
      pool->cancel(live.back(), 0);
      live.pop_back();
    }
  }
  std::printf("mixed small sizes, full again and again: at least %.3f usable\n", low);
  EXPECT_GE(low, 0.85);
}

}  // namespace
}  // namespace nvm::testing
