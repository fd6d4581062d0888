// A check of a pool whose owner died reports the state that the next open would find, not the half-written state of the
// crash.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "pool/pool.hpp"
#include "scratch.hpp"
#include "space/space_layout.hpp"

namespace nvm::tests {
namespace {

constexpr std::uint64_t objects = 2;

// Allocates, commits, and dies.
void die_with_objects(const std::string& path) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.medium = NVM_MEDIUM_SHM;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr) _exit(1);
  for (std::uint64_t i = 0; i < objects; ++i) {
    if (nvm_tx_begin(pool) != 0) _exit(2);
    void* p = nvm_alloc(pool, 1, 400);
    if (p == nullptr) _exit(3);
    std::memset(p, 1, 400);
    if (nvm_tx_commit(pool) != 0) _exit(4);
  }
  _exit(0);
}

// Offsets of the length bytes of all objects in coarse extents.
std::vector<std::uint64_t> length_bytes(const std::vector<char>& file) {
  std::vector<std::uint64_t> found;
  const auto* base = reinterpret_cast<const std::byte*>(file.data());
  const auto sb = pick_superblock(base, file.size());
  if (!sb) return found;
  const geometry g = geometry_of(*sb);
  const layout::extent_shape shape = layout::shape_of(layout::page_kind::coarse, g.page_shift);
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    std::uint64_t word = 0;
    std::memcpy(&word, base + g.entry_offset(page), 8);
    if (layout::unpack(word & checked_mask).kind != layout::page_kind::coarse) continue;
    const std::uint64_t lengths = g.page_offset(page) + shape.lengths_at;
    for (std::uint64_t slot = 0; slot < shape.slots; ++slot) {
      if (file[lengths + slot] != 0) found.push_back(lengths + slot);
    }
  }
  return found;
}

TEST(check, of_a_pool_after_power_loss_takes_late_allocation_words_for_what_the_log_says) {
  const scratch place{false};
  const std::string path = place.path();
  const pid_t child = fork();
  if (child == 0) die_with_objects(path);
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << how;
  std::ifstream in{path, std::ios::binary};
  const std::vector<char> whole{std::istreambuf_iterator<char>{in}, {}};
  const auto lengths = length_bytes(whole);
  ASSERT_EQ(lengths.size(), objects);
  for (const std::uint64_t lost : lengths) {
    // Its bit was written back, its length was not: nothing fences them, since recovery makes both again.
    std::vector<char> file = whole;
    file[lost] = 0;
    std::ofstream{path, std::ios::binary}.write(file.data(), static_cast<std::streamsize>(file.size()));
    nvm_check_summary summary{};
    const auto say = [](std::uint64_t at, const char* what, void*) { ADD_FAILURE() << "at " << at << ": " << what; };
    EXPECT_EQ(nvm_pool_check(path.c_str(), say, nullptr, &summary), 0) << nvm_errormsg();
    EXPECT_EQ(summary.objects, objects);
    std::ifstream again{path, std::ios::binary};
    EXPECT_EQ((std::vector<char>{std::istreambuf_iterator<char>{again}, {}}), file) << "a check writes nothing";
  }
}

}  // namespace
}  // namespace nvm::tests
