// The recording pass reports the stores that were made: for each way of storing, byte by byte.
#include <gtest/gtest.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "nvm/record.h"
#include "stores.hpp"

namespace nvm::record_test {
namespace {

constexpr std::size_t watched_bytes = 1024;

struct listener {
  alignas(64) std::byte memory[watched_bytes];
  std::vector<bool> reported = std::vector<bool>(watched_bytes);
  std::vector<std::uint32_t> kinds;
  unsigned stores = 0;
  std::jmp_buf limit;

  static void on_store(void* self, const void* p, std::size_t bytes, const nvm_rec_site* site) {
    auto* l = static_cast<listener*>(self);
    const auto from = static_cast<std::size_t>(static_cast<const std::byte*>(p) - l->memory);
    for (std::size_t i = 0; i < bytes; ++i) l->reported.at(from + i) = true;
    l->kinds.push_back(site->kind);
    ++l->stores;
  }
  static void on_rmw(void* self, const void* p, std::size_t bytes, const nvm_rec_site* site) {
    // Locked operations are reported wherever they are.
    auto* l = static_cast<listener*>(self);
    const auto from = static_cast<std::size_t>(static_cast<const std::byte*>(p) - l->memory);
    if (bytes != 0 && from < watched_bytes) on_store(self, p, bytes, site);
  }
  static void on_step_limit(void* self) { std::longjmp(static_cast<listener*>(self)->limit, 1); }

  listener() {
    std::memset(memory, 0xAA, sizeof memory);
    nvm_rec_hooks hooks{};
    hooks.self = this;
    hooks.store = on_store;
    hooks.rmw = on_rmw;
    hooks.step_limit = on_step_limit;
    nvm_rec_attach(&hooks, memory, sizeof memory);
  }
  ~listener() { nvm_rec_detach(); }
};

bool processor_has(const char* feature) {
  if (feature == nullptr) return true;
  if (std::strcmp(feature, "avx2") == 0) return __builtin_cpu_supports("avx2");
  if (std::strcmp(feature, "avx512f") == 0) return __builtin_cpu_supports("avx512f");
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

TEST(record_pass, reports_exactly_the_bytes_that_each_way_of_storing_stores) {
  unsigned run = 0;
  for (const way& w : ways()) {
    if (!processor_has(w.needs)) continue;
    ++run;
    listener l;
    w.store(l.memory + 64);
    std::size_t stored = 0;
    for (std::size_t i = 0; i < watched_bytes; ++i) {
      const bool changed = l.memory[i] != std::byte{0xAA};
      stored += changed ? 1 : 0;
      EXPECT_EQ(l.reported[i], changed) << w.name << ", byte " << i;
    }
    EXPECT_EQ(stored, w.bytes) << w.name;
    EXPECT_GE(l.stores, w.reports_min) << w.name;
    for (const std::uint32_t k : l.kinds) EXPECT_TRUE(w.kind == any_kind || k == w.kind) << w.name << ": kind " << k;
  }
  EXPECT_GE(run, 19U);
}

TEST(record_pass, reports_nothing_outside_the_watched_range) {
  for (const way& w : ways()) {
    if (!processor_has(w.needs)) continue;
    alignas(64) std::byte elsewhere[watched_bytes];
    std::memset(elsewhere, 0xAA, sizeof elsewhere);
    std::byte* volatile to = elsewhere + 64;
    listener l;
    w.store(to);
    for (const bool r : l.reported) EXPECT_FALSE(r) << w.name;
  }
}

TEST(record_pass, does_not_see_inline_assembly_nor_excluded_functions) {
  listener l;
  store_by_assembly(l.memory);
  store_excluded(l.memory + 64);
  EXPECT_EQ(l.stores, 0U);
  EXPECT_EQ(l.memory[0], std::byte{1});
  EXPECT_EQ(l.memory[64], std::byte{1});
}

TEST(record_pass, ends_an_endless_loop_at_the_step_limit) {
  listener l;
  __nvm_rec_steps = 1'000'000;
  if (setjmp(l.limit) == 0) {
    loop_for_ever();
    FAIL() << "the loop ended by itself";
  }
  SUCCEED();
}

TEST(record_pass_death_test, refuses_a_second_listener) {
  EXPECT_DEATH(
      {
        listener a;
        listener b;
      },
      "attached twice");
}

}  // namespace
}  // namespace nvm::record_test
