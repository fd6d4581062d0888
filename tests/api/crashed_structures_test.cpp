// Lock-free structures of a pool whose owner died, or whose file is damaged: faults that the check must find, and
// states that it must accept.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../file_bytes.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "lockfree/tree.hpp"
#include "nvm/lockfree.h"
#include "nvm/nvm.h"
#include "object/object.hpp"
#include "pool/pool.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

// A copy of a pool that its owner left open.
void write_pool(const std::string& path, const std::vector<char>& bytes) {
  ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
  write_file(path, bytes);
  EXPECT_EQ(chmod(path.c_str(), 0600), 0);
}
NVM_POOL* pool_for_structures(const std::string& path) {
  nvm_pool_options o{};
  o.size = 4 << 20;
  o.medium = NVM_MEDIUM_SHM;
  o.engine = NVM_ENGINE_UNDO;
  return nvm_pool_create_with(path.c_str(), &o);
}
nvm_lf* structure_of(NVM_POOL* pool, const char* name, std::uint32_t kind, bool bytes) {
  nvm_lf_options o{};
  o.kind = kind;
  o.flags = bytes ? NVM_LF_BYTES : 0;
  return nvm_lf_open(pool, name, &o);
}
constexpr std::uint32_t kinds_of_structures[] = {NVM_LF_LIST, NVM_LF_HASH, NVM_LF_SKIP_LIST, NVM_LF_TREE};

struct word_node {
  std::uint64_t next, order, value, sum;
};
// A list of words with these keys, its bytes as they are while it is in use.
std::string list_in_use(const scratch& place, std::uint64_t keys, std::vector<char>& bytes) {
  const std::string path = place.path("original");
  NVM_POOL* pool = pool_for_structures(path);
  EXPECT_NE(pool, nullptr) << nvm_errormsg();
  nvm_lf* const list = structure_of(pool, "list", NVM_LF_LIST, false);
  EXPECT_NE(list, nullptr) << nvm_errormsg();
  for (std::uint64_t k = 1; k <= keys; ++k) EXPECT_GT(nvm_lf_put64(list, k * 17, k, 0), 0) << nvm_errormsg();
  bytes = read_file(path);
  EXPECT_EQ(nvm_pool_close(pool), 0);
  return place.path("victim");
}
word_node* node_of(std::vector<char>& bytes, std::uint64_t key) {
  for (std::size_t at = 0; at + 64 <= bytes.size(); at += 64) {
    auto* n = reinterpret_cast<word_node*>(&bytes[at]);
    if (n->order == key * 17 && n->value == key) return n;
  }
  return nullptr;
}

// What comes after the link looks like nodes that nobody has linked yet, of which a thread has one at most.
TEST(crashed_pool, with_a_link_of_a_list_that_is_zero_does_not_pass_the_check) {
  scratch place{false};
  std::vector<char> bytes;
  constexpr std::uint64_t keys = 60;
  const std::string victim = list_in_use(place, keys, bytes);
  write_pool(victim, bytes);
  EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
  for (std::uint64_t k = 1; k < keys - 1; k += 3) {
    std::vector<char> damaged = bytes;
    word_node* n = node_of(damaged, k);
    ASSERT_NE(n, nullptr);
    n->next = 0;
    write_pool(victim, damaged);
    EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << "after key " << k;
  }
}
// A tree whose root leads nowhere is empty, and one that leads past its first branch lacks half of its keys.
TEST(crashed_pool, with_the_edge_of_the_root_of_a_tree_that_leads_elsewhere_does_not_pass_the_check) {
  for (const bool of_bytes : {false, true}) {
    scratch place{false};
    const std::string path = place.path("original");
    NVM_POOL* pool = pool_for_structures(path);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    nvm_lf* const tree = structure_of(pool, "tree", NVM_LF_TREE, of_bytes);
    ASSERT_NE(tree, nullptr) << nvm_errormsg();
    std::vector<std::uint64_t> keys(200);
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64{3});
    // The first branch parts them in halves.
    std::swap(*std::find(keys.begin(), keys.end(), 100), keys[0]);
    std::swap(*std::find(keys.begin(), keys.end(), 101), keys[1]);
    for (const std::uint64_t k : keys) {
      const std::uint64_t in_order = __builtin_bswap64(k);
      ASSERT_GT(of_bytes ? nvm_lf_put(tree, &in_order, sizeof k, &k, sizeof k, 0, 0) : nvm_lf_put64(tree, k, k, 0), 0);
    }
    const std::vector<char> bytes = read_file(path);
    ASSERT_EQ(nvm_pool_close(pool), 0);
    const std::string victim = place.path("victim");
    write_pool(victim, bytes);
    EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
    const std::string magic(reinterpret_cast<const char*>(&lockfree::tree_magic), sizeof lockfree::tree_magic);
    const auto found = std::search(bytes.begin(), bytes.end(), magic.begin(), magic.end());
    ASSERT_NE(found, bytes.end());
    const std::size_t top_at = static_cast<std::size_t>(found - bytes.begin()) + offsetof(lockfree::tree_root, top);
    std::uint64_t top = 0, left = 0, right = 0;
    std::memcpy(&top, &bytes[top_at], sizeof top);
    std::memcpy(&left, &bytes[lockfree::offset_of(top)], sizeof left);
    std::memcpy(&right, &bytes[lockfree::offset_of(top) - 2 * sizeof right], sizeof right);
    for (const std::uint64_t other : {std::uint64_t{0}, left, right}) {
      ASSERT_NE(other, top);
      std::vector<char> damaged = bytes;
      std::memcpy(&damaged[top_at], &other, sizeof other);
      write_pool(victim, damaged);
      EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << of_bytes << ", edge " << other;
    }
  }
}
TEST(crashed_pool, with_a_page_of_a_list_that_is_another_one_does_not_pass_the_check) {
  scratch place{false};
  std::vector<char> bytes;
  const std::string victim = list_in_use(place, 200, bytes);
  constexpr std::size_t page = 4096;
  const auto page_with = [&](std::uint64_t key) {
    return static_cast<std::size_t>(reinterpret_cast<char*>(node_of(bytes, key)) - bytes.data()) / page * page;
  };
  const std::size_t from = page_with(150), to = page_with(80);
  ASSERT_NE(from, to);
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), page, bytes.begin() + static_cast<std::ptrdiff_t>(to));
  write_pool(victim, bytes);
  EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
}
// Pages of nodes that were dropped hold nodes that were never linked in the structure that has them now.
TEST(crashed_pool, with_nodes_in_pages_of_a_structure_that_was_dropped_passes_the_check) {
  for (const std::uint32_t kind : kinds_of_structures) {
    for (const bool of_bytes : {false, true}) {
      scratch place{false};
      const std::string path = place.path("original");
      NVM_POOL* pool = pool_for_structures(path);
      ASSERT_NE(pool, nullptr) << nvm_errormsg();
      const auto put = [&](nvm_lf* to, std::uint64_t k) {
        return of_bytes ? nvm_lf_put(to, &k, sizeof k, &k, sizeof k, 0, 0) : nvm_lf_put64(to, k, k, 0);
      };
      nvm_lf* const first = structure_of(pool, "first", kind, of_bytes);
      ASSERT_NE(first, nullptr) << nvm_errormsg();
      for (std::uint64_t k = 0; k < 3000; ++k) ASSERT_GT(put(first, k), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_lf_drop(pool, "first"), 0) << nvm_errormsg();
      nvm_lf* const second = structure_of(pool, "second", kind, of_bytes);
      ASSERT_NE(second, nullptr) << nvm_errormsg();
      for (std::uint64_t k = 0; k < 10; ++k) ASSERT_GT(put(second, k * 5), 0) << nvm_errormsg();
      const std::vector<char> bytes = read_file(path);
      ASSERT_EQ(nvm_pool_close(pool), 0);
      const std::string victim = place.path("victim");
      write_pool(victim, bytes);
      EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << kind << of_bytes;
    }
  }
}
// Nothing leads to nodes whose links are volatile: they prove themselves, wherever they are.
TEST(closed_pool, without_the_entry_of_an_extent_of_nodes_does_not_pass_the_check) {
  for (const std::uint32_t kind : {NVM_LF_LIST, NVM_LF_HASH, NVM_LF_SKIP_LIST, NVM_LF_TREE}) {
    for (const bool of_bytes : {false, true}) {
      scratch place{false};
      const std::string path = place.path("pool");
      NVM_POOL* pool = pool_for_structures(path);
      ASSERT_NE(pool, nullptr) << nvm_errormsg();
      nvm_lf_options o{};
      o.kind = kind;
      o.flags = (of_bytes ? NVM_LF_BYTES : 0) | (kind == NVM_LF_TREE ? 0 : NVM_LF_VOLATILE_LINKS);
      nvm_lf* const it = nvm_lf_open(pool, "it", &o);
      ASSERT_NE(it, nullptr) << nvm_errormsg();
      for (std::uint64_t k = 0; k < 900; ++k) {
        ASSERT_GT(of_bytes ? nvm_lf_put(it, &k, sizeof k, &k, sizeof k, 0, 0) : nvm_lf_put64(it, k, k, 0), 0);
      }
      ASSERT_EQ(nvm_pool_close(pool), 0);
      EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
      const std::vector<char> bytes = read_file(path);
      layout::superblock sb;
      std::memcpy(static_cast<void*>(&sb), bytes.data(), sizeof sb);
      unsigned extents = 0;
      for (std::uint64_t page = 0; page < sb.size_pages; ++page) {
        const std::uint64_t at = sb.page_map_offset + page * 8;
        std::uint64_t word = 0;
        std::memcpy(&word, &bytes[at], sizeof word);
        if (layout::unpack(word & checked_mask).kind != layout::page_kind::coarse) continue;
        std::vector<char> damaged = bytes;
        std::memset(&damaged[at], 0, sizeof word);
        write_pool(path, damaged);
        EXPECT_GT(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << kind << of_bytes << ", page " << page;
        ++extents;
      }
      EXPECT_GT(extents, 1U);
    }
  }
}
// A structure whose entry says that there is none would be freed with all that is in it.
TEST(closed_pool, without_the_state_of_a_structure_does_not_pass_the_check) {
  namespace names = lockfree::layout;
  for (const std::uint32_t kind : kinds_of_structures) {
    for (const bool of_bytes : {false, true}) {
      scratch place{false};
      const std::string path = place.path("pool");
      NVM_POOL* pool = pool_for_structures(path);
      ASSERT_NE(pool, nullptr) << nvm_errormsg();
      for (const char* name : {"one", "dropped", "other"}) {
        nvm_lf* const it = structure_of(pool, name, kind, of_bytes);
        ASSERT_NE(it, nullptr) << nvm_errormsg();
        for (std::uint64_t k = 0; k < 300; ++k) {
          ASSERT_GT(of_bytes ? nvm_lf_put(it, &k, sizeof k, &k, sizeof k, 0, 0) : nvm_lf_put64(it, k, k, 0), 0);
        }
      }
      ASSERT_EQ(nvm_lf_drop(pool, "dropped"), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_pool_close(pool), 0);
      EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << nvm_errormsg();
      const std::vector<char> bytes = read_file(path);
      const std::string magic(reinterpret_cast<const char*>(&names::directory_magic), sizeof names::directory_magic);
      const auto found = std::search(bytes.begin(), bytes.end(), magic.begin(), magic.end());
      ASSERT_NE(found, bytes.end());
      const auto directory = static_cast<std::size_t>(found - bytes.begin());
      unsigned named = 0;
      for (unsigned i = 0; i < 3; ++i) {
        const std::size_t at = directory + offsetof(names::directory, entries) + i * sizeof(names::entry);
        std::uint64_t state = 0;
        std::memcpy(&state, &bytes[at + offsetof(names::entry, state)], sizeof state);
        if (state == 0) continue;
        std::vector<char> damaged = bytes;
        std::memset(&damaged[at + offsetof(names::entry, state)], 0, sizeof state);
        write_pool(path, damaged);
        EXPECT_GT(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << kind << of_bytes << ", entry " << i;
        ++named;
      }
      EXPECT_EQ(named, 2U);
    }
  }
}
// Method: threads put and remove the same keys until they are killed, and so does each process that comes after.
TEST(crashed_pool, of_threads_that_were_killed_at_work_passes_the_check) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 40;
  std::mt19937_64 random{5};
  for (const std::uint32_t kind : kinds_of_structures) {
    for (const bool of_bytes : {false, true}) {
      scratch place{false};
      const std::string path = place.path("pool");
      for (int kill_number = 0; kill_number < 6; ++kill_number) {
        int made[2];
        ASSERT_EQ(::pipe(made), 0);
        const pid_t child = fork();
        if (child == 0) {
          NVM_POOL* pool = kill_number == 0 ? pool_for_structures(path) : nvm_pool_open(path.c_str());
          nvm_lf* const it = pool == nullptr ? nullptr : structure_of(pool, "it", kind, of_bytes);
          if (it == nullptr || ::write(made[1], "!", 1) != 1) _exit(1);
          std::vector<std::thread> all;
          for (unsigned t = 0; t < threads; ++t) {
            all.emplace_back([=] {
              std::mt19937_64 own{t};
              for (;;) {
                const std::uint64_t k = own() % keys;
                const bool puts = own() % 2 == 0;
                if (of_bytes) {
                  (void)(puts ? nvm_lf_put(it, &k, sizeof k, &k, sizeof k, 0, 0) : nvm_lf_remove(it, &k, sizeof k));
                } else {
                  (void)(puts ? nvm_lf_put64(it, k, k, 0) : nvm_lf_remove64(it, k));
                }
              }
            });
          }
          for (auto& t : all) t.join();
        }
        // The first one is killed when there is a pool, however long that takes.
        ::close(made[1]);
        char said = 0;
        if (kill_number == 0) {
          EXPECT_EQ(::read(made[0], &said, 1), 1);
        }
        std::this_thread::sleep_for(std::chrono::microseconds{30'000 + random() % 60'000});
        ASSERT_EQ(kill(child, SIGKILL), 0);
        int how = 0;
        ASSERT_EQ(waitpid(child, &how, 0), child);
        ::close(made[0]);
        ASSERT_TRUE(WIFSIGNALED(how)) << WEXITSTATUS(how);
        std::string first;
        const auto tell = [](std::uint64_t, const char* what, void* to) {
          auto& text = *static_cast<std::string*>(to);
          if (text.empty()) text = what;
        };
        EXPECT_EQ(nvm_pool_check(path.c_str(), tell, &first, nullptr), 0) << kind << of_bytes << ": " << first;
      }
    }
  }
}

}  // namespace
}  // namespace nvm::tests
