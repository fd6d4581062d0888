// Objects that ask for more than 16 bytes of alignment have it, on every engine and medium, and are objects like
// others.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "../sanitized.hpp"
#include "care/repair.hpp"
#include "nvm/kv.hpp"
#include "nvm/nvm.hpp"
#include "nvm/stm.hpp"
#include "pool/pool.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

template <std::size_t Alignment>
struct alignas(Alignment) wide {
  long first = 1;
  char rest[Alignment];
};

bool is_aligned(const void* p, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; }

class alignment : public testing::TestWithParam<pool_kind> {
 protected:
  scratch place{GetParam()};
  NVM_POOL* pool = place.create("pool", std::size_t{16} << 20);
  void TearDown() override {
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(check(), 0);
  }
  std::int64_t check() {
    return nvm_pool_check(
        place.path().c_str(),
        [](std::uint64_t at, const char* what, void*) { ADD_FAILURE() << "at " << at << ": " << what; }, nullptr,
        nullptr);
  }
  void reopen() {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    ASSERT_EQ(check(), 0);
    pool = nvm_pool_open(place.path().c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
};
INSTANTIATE_TEST_SUITE_P(kinds, alignment, testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(alignment, is_that_of_the_type) {
  const auto make_all = [&](auto make) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(is_aligned(make(wide<32>{}), 32));
      EXPECT_TRUE(is_aligned(make(wide<64>{}), 64));
      EXPECT_TRUE(is_aligned(make(wide<128>{}), 128));
      EXPECT_TRUE(is_aligned(make(wide<4096>{}), 4096));
    }
  };
  ASSERT_TRUE(nvm::transaction(pool, [&] { make_all([&](auto t) { return nvm::make<decltype(t)>(pool, 1); }); }))
      << nvm_errormsg();
  ASSERT_TRUE(nvm::atomic(pool, [&](nvm::tx& tx) { make_all([&](auto t) { return tx.make<decltype(t)>(1); }); }))
      << nvm_errormsg();
}

TEST_P(alignment, objects_are_found_resized_walked_and_freed) {
  struct object {
    std::size_t size, alignment;
    unsigned char fill;
  };
  std::map<unsigned char*, object> model;
  std::mt19937 random{7};
  for (int round = 0; round < 120; ++round) {
    const auto keep = model;
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    for (int i = 0; i < 4; ++i) {
      const std::size_t alignment = std::size_t{1} << random() % 13;
      const std::size_t size = 1 + random() % (i == 0 ? 9000 : 300);
      if (model.size() > 40 || (!model.empty() && random() % 3 == 0)) {
        const auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
        const object old = victim->second;
        unsigned char* p = victim->first;
        model.erase(victim);
        if (random() % 2 == 0) {
          ASSERT_EQ(nvm_free(pool, p), 0) << nvm_errormsg();
          continue;
        }
        auto* moved = static_cast<unsigned char*>(nvm_realloc(pool, p, 3, size));
        ASSERT_NE(moved, nullptr) << nvm_errormsg();
        EXPECT_TRUE(is_aligned(moved, old.alignment));
        for (std::size_t k = 0; k < std::min(size, old.size); ++k) ASSERT_EQ(moved[k], old.fill);
        if (moved == p) {
          ASSERT_EQ(nvm_tx_log(moved, size), 0);
        }
        std::memset(moved, old.fill, size);
        model[moved] = {size, old.alignment, old.fill};
        continue;
      }
      auto* p = static_cast<unsigned char*>(nvm_calloc_aligned(pool, 3, 1, size, alignment));
      ASSERT_NE(p, nullptr) << nvm_errormsg();
      EXPECT_TRUE(is_aligned(p, alignment));
      EXPECT_EQ(std::count(p, p + size, 0), static_cast<long>(size));
      const auto fill = static_cast<unsigned char>(random());
      std::memset(p, fill, size);
      model[p] = {size, std::max<std::size_t>(alignment, 16), fill};
    }
    if (round % 7 == 3) {
      ASSERT_EQ(nvm_tx_abort(pool), 0);
      model = keep;
    } else {
      ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    }
    if (round % 40 == 39) {
      ASSERT_NO_FATAL_FAILURE(reopen());
    }
    std::map<void*, std::size_t> walked;
    const int all = nvm_pool_each(
        pool,
        [](void* o, uint32_t type, size_t size, void* to) {
          if (type == 3) static_cast<std::map<void*, std::size_t>*>(to)->emplace(o, size);
          return 0;
        },
        &walked);
    ASSERT_EQ(all, 0) << nvm_errormsg();
    ASSERT_EQ(walked.size(), model.size());
    for (const auto& [p, o] : model) {
      ASSERT_EQ(walked[p], o.size);
      ASSERT_EQ(nvm_size_of(pool, p), o.size) << nvm_errormsg();
      ASSERT_EQ(nvm_type_of(pool, p), 3U);
      ASSERT_EQ(std::count(p, p + o.size, o.fill), static_cast<long>(o.size));
    }
  }
}

TEST_P(alignment, is_refused_where_it_cannot_be) {
  for (const std::size_t alignment : {std::size_t{3}, std::size_t{0}, std::size_t{48}, std::size_t{1} << 16}) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    EXPECT_EQ(nvm_alloc_aligned(pool, 1, 8, alignment), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
    EXPECT_EQ(nvm_tx_commit(pool), -1);
    EXPECT_EQ(nvm_stm_run(
                  pool,
                  [](nvm_stm* tx, void* a) {
                    EXPECT_EQ(nvm_stm_alloc_aligned(tx, 1, 8, *static_cast<std::size_t*>(a)), nullptr);
                    return 0;
                  },
                  const_cast<std::size_t*>(&alignment)),
              -1);
  }
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_alloc_aligned(pool, 1, 0, 64), nullptr);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  ASSERT_EQ(nvm_tx_begin(pool), 0);
  EXPECT_EQ(nvm_alloc_aligned(pool, 1, SIZE_MAX, 64), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TOO_LARGE);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  // Largest alignment; what is no payload is no object.
  char* p = nullptr;
  ASSERT_TRUE(nvm::transaction(pool, [&] {
    p = static_cast<char*>(nvm_alloc_aligned(pool, 1, 100, 1 << 15));
    return p != nullptr;
  })) << nvm_errormsg();
  EXPECT_TRUE(is_aligned(p, 1 << 15));
  EXPECT_EQ(nvm_size_of(pool, p), 100U);
  EXPECT_EQ(nvm_size_of(pool, p - 16), 0U);
  EXPECT_EQ(nvm_size_of(pool, p + 32), 0U);
  ASSERT_TRUE(nvm::transaction(pool, [&] {
    EXPECT_EQ(nvm_free(pool, p + 32), -1);
    return nvm_free(pool, p) == 0;
  })) << nvm_errormsg();
  EXPECT_EQ(nvm_size_of(pool, p), 0U);
}

TEST_P(alignment, barriers_free_what_they_or_others_have_allocated) {
  std::vector<void*> made;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(nvm::atomic(pool, [&](nvm::tx& tx) {
      made.clear();
      for (const std::size_t alignment : {32, 64, 256, 4096}) {
        void* p = tx.alloc_aligned(1, 40, alignment);
        EXPECT_TRUE(is_aligned(p, alignment));
        if (i % 2 == 0) tx.free(p);
        made.push_back(p);
      }
    })) << nvm_errormsg();
    if (i % 2 == 0) continue;
    ASSERT_TRUE(nvm::atomic(pool, [&](nvm::tx& tx) {
      for (void* p : made) tx.free(p);
    })) << nvm_errormsg();
  }
  int objects = 0;
  ASSERT_EQ(
      nvm_pool_each(
          pool, [](void*, uint32_t type, size_t, void* n) { return *static_cast<int*>(n) += type == 1, 0; }, &objects),
      0);
  EXPECT_EQ(objects, 0);
}

class alignment_by_barriers : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(engines, alignment_by_barriers,
                         testing::Values(NVM_ENGINE_REDO, NVM_ENGINE_MNEMOSYNE, NVM_ENGINE_MNEMOSYNE_UNDO));
TEST_P(alignment_by_barriers, is_kept_over_a_close) {
  scratch place{false};
  nvm_pool_options o{};
  o.size = 4 << 20;
  o.medium = direct_medium();
  o.engine = GetParam();
  NVM_POOL* pool = nvm_pool_create_with(place.path().c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  wide<256>* w = nullptr;
  ASSERT_TRUE(nvm::atomic(pool, [&](nvm::tx& tx) {
    for (int i = 0; i < 20; ++i) w = tx.make<wide<256>>(1);
    std::memset(w->rest, 7, sizeof w->rest);
    tx.set_root(w);
  })) << nvm_errormsg();
  EXPECT_TRUE(is_aligned(w, 256));
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, nullptr), 0);
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  w = static_cast<wide<256>*>(nvm_pool_get_root(pool));
  EXPECT_EQ(w->first, 1);
  EXPECT_EQ(std::count(w->rest, w->rest + sizeof w->rest, 7), static_cast<long>(sizeof w->rest));
  ASSERT_TRUE(nvm::atomic(pool, [&](nvm::tx& tx) {
    tx.free(w);
    tx.set_root(nullptr);
  })) << nvm_errormsg();
  ASSERT_EQ(nvm_pool_close(pool), 0);
}

// ---- what keeps older libraries out

layout::superblock superblock_of(const std::string& path, unsigned copy) {
  layout::superblock sb{};
  std::ifstream file{path, std::ios::binary};
  file.seekg(copy * 4096);
  file.read(reinterpret_cast<char*>(&sb), sizeof sb);
  return sb;
}
bool has_bit(const std::string& path) {
  const bool first = (superblock_of(path, 0).features_incompat & layout::feature_aligned) != 0;
  EXPECT_EQ((superblock_of(path, 1).features_incompat & layout::feature_aligned) != 0, first);
  return first;
}
bool allocate(NVM_POOL* pool, std::size_t alignment, bool commits) {
  return transaction(pool, [&] { return nvm_alloc_aligned(pool, 1, 100, alignment) != nullptr && commits; }).code() ==
         0;
}

TEST_P(alignment, sets_a_feature_of_the_pool_before_the_first_object) {
  EXPECT_TRUE(allocate(pool, 16, true));
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_FALSE(has_bit(place.path()));
  // Also where it comes to nothing: an abort does not take it back.
  EXPECT_FALSE(allocate(pool, 32, false));
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(has_bit(place.path()));
  EXPECT_TRUE(allocate(pool, 64, true));
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(has_bit(place.path()));
}

TEST_P(alignment, keeps_its_feature_with_its_object_over_a_kill) {
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  const pid_t child = fork();
  if (child == 0) {
    NVM_POOL* mine = nvm_pool_open(place.path().c_str());
    if (mine == nullptr || !allocate(mine, 64, true)) _exit(1);
    raise(SIGKILL);
  }
  int ended = 0;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFSIGNALED(ended));
  EXPECT_EQ(check(), 0);
  pool = nvm_pool_open(place.path().c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_TRUE(has_bit(place.path()));
}

// As a library would leave it that sets the bit too late.
TEST_P(alignment, is_missed_by_the_check_without_its_feature_which_repair_adds) {
  EXPECT_TRUE(allocate(pool, 64, true));
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  for (unsigned copy = 0; copy < 2; ++copy) {
    layout::superblock sb = superblock_of(place.path(), copy);
    sb.features_incompat &= ~layout::feature_aligned;
    sb.crc = superblock_crc(sb);
    std::fstream file{place.path(), std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(copy * 4096);
    file.write(reinterpret_cast<const char*>(&sb), sizeof sb);
  }
  std::string found;
  const auto tell = [](std::uint64_t, const char* what, void* to) { *static_cast<std::string*>(to) += what; };
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), tell, &found, nullptr), 1);
  EXPECT_NE(found.find("aligned objects"), std::string::npos) << found;
  care::repair_report report;
  care::repair_request wanted;
  wanted.path = place.path();
  wanted.out = place.path("mended");
  EXPECT_TRUE(care::repair_pool(wanted, report)) << last_message();
  EXPECT_EQ(nvm_pool_check(place.path("mended").c_str(), tell, &found, nullptr), 0) << found;
  EXPECT_TRUE(has_bit(place.path("mended")));
  pool = nvm_pool_open(place.path("mended").c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  std::filesystem::rename(place.path("mended"), place.path());
}

// One word of what says where an aligned object's payload is, damaged: the check finds it.
TEST(alignment_damage, is_found_by_the_check) {
  scratch place{false};
  NVM_POOL* pool = place.create();
  char* p = nullptr;
  ASSERT_TRUE(nvm::transaction(pool, [&] {
    p = static_cast<char*>(nvm_alloc_aligned(pool, 1, 100, 4096));
    return p != nullptr;
  }));
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
  const auto at = static_cast<long>(reinterpret_cast<std::uintptr_t>(p) - info.base);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  ASSERT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, nullptr), 0);
  std::fstream file{place.path(), std::ios::in | std::ios::out | std::ios::binary};
  file.seekp(at - 16);
  file.put('\x55');
  file.close();
  EXPECT_EQ(nvm_pool_check(place.path().c_str(), nullptr, nullptr, nullptr), 1);
}

}  // namespace
}  // namespace nvm::tests
