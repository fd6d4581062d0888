// Lock-free structures through the C interface: words and bytes, on shm and ssd, across closing, killing and reopening.
#include "nvm/lockfree.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "scratch.hpp"

namespace {

struct medium {
  const char* name;
  std::uint32_t medium;
  std::uint32_t engine;
  std::uint32_t flags = 0;  // of structures that are made, but for trees
};
constexpr medium media[] = {{"shm", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO},
                            {"shm_redo", NVM_MEDIUM_SHM, NVM_ENGINE_REDO},
                            {"ssd", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT},
                            {"shm_volatile_links", NVM_MEDIUM_SHM, NVM_ENGINE_UNDO, NVM_LF_VOLATILE_LINKS},
                            {"ssd_volatile_links", NVM_MEDIUM_SSD, NVM_ENGINE_DETECT, NVM_LF_VOLATILE_LINKS}};

constexpr std::uint32_t all_kinds[] = {NVM_LF_LIST, NVM_LF_HASH, NVM_LF_SKIP_LIST, NVM_LF_TREE};

class lockfree_face : public ::testing::TestWithParam<medium> {
 protected:
  void SetUp() override {
    place = std::make_unique<nvm::tests::scratch>(GetParam().medium == NVM_MEDIUM_SSD);
    path = place->path();
    nvm_pool_options o{};
    o.size = 32 << 20;
    o.medium = GetParam().medium;
    o.engine = GetParam().engine;
    pool = nvm_pool_create_with(path.c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  void TearDown() override {
    if (pool != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    }
  }
  void reopen() {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
  nvm_lf* open(const char* name, std::uint32_t flags, std::uint32_t kind = NVM_LF_HASH, std::uint32_t mode = 0) {
    nvm_lf_options o{};
    o.kind = kind;
    o.flags = flags | (kind == NVM_LF_TREE ? 0 : GetParam().flags);
    o.mode = mode;
    nvm_lf* lf = nvm_lf_open(pool, name, &o);
    return lf;
  }
  std::string get(nvm_lf* lf, const std::string& key) {
    std::string value(100000, '\0');
    std::size_t n = 0;
    const int r = nvm_lf_get(lf, key.data(), key.size(), value.data(), value.size(), &n);
    if (r != 1) return r == 0 ? "<none>" : "<failed>";
    value.resize(n);
    return value;
  }
  int put(nvm_lf* lf, const std::string& key, const std::string& value, unsigned flags = 0) {
    return nvm_lf_put(lf, key.data(), key.size(), value.data(), value.size(), 7, flags);
  }

  std::unique_ptr<nvm::tests::scratch> place;
  std::string path;
  NVM_POOL* pool = nullptr;
};

TEST_P(lockfree_face, keeps_words) {
  for (const std::uint32_t kind : all_kinds) {
    const std::string own = "kind" + std::to_string(kind);
    const char* name = own.c_str();
    nvm_lf* lf = open(name, 0, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    EXPECT_EQ(open(name, 0, kind), lf) << "the same one";
    const std::uint64_t keys = GetParam().medium == NVM_MEDIUM_SSD ? 200 : 2000;
    for (std::uint64_t k = 0; k < keys; ++k) EXPECT_EQ(nvm_lf_put64(lf, k, k * k, 0), 1) << nvm_errormsg();
    EXPECT_EQ(nvm_lf_put64(lf, 5, 1, NVM_LF_PUT_ABSENT), 0);
    EXPECT_EQ(nvm_lf_put64(lf, 5000, 1, NVM_LF_PUT_PRESENT), 0);
    EXPECT_EQ(nvm_lf_put64(lf, 5, 55, NVM_LF_PUT_PRESENT), 2);
    EXPECT_EQ(nvm_lf_remove64(lf, 6), 1);
    EXPECT_EQ(nvm_lf_remove64(lf, 6), 0);
    EXPECT_EQ(nvm_lf_count(lf), keys - 1);
    for (int round = 0; round < 2; ++round) {
      std::uint64_t v = 0;
      EXPECT_EQ(nvm_lf_get64(lf, 5, &v), 1);
      EXPECT_EQ(v, 55U);
      EXPECT_EQ(nvm_lf_get64(lf, 6, &v), 0);
      EXPECT_EQ(nvm_lf_get64(lf, keys - 1, &v), 1);
      EXPECT_EQ(v, (keys - 1) * (keys - 1));
      struct {
        std::uint64_t count = 0, last = 0;
        bool in_order = true;
      } seen;
      EXPECT_EQ(nvm_lf_each64(
                    lf,
                    [](std::uint64_t key, std::uint64_t, void* to) {
                      auto& all = *static_cast<decltype(seen)*>(to);
                      all.in_order = all.in_order && (all.count == 0 || key > all.last);
                      all.last = key;
                      ++all.count;
                      return 0;
                    },
                    &seen),
                0);
      EXPECT_EQ(seen.count, keys - 1);
      EXPECT_TRUE(seen.in_order || kind == NVM_LF_HASH);
      reopen();
      lf = open(name, 0, kind, 1);
      ASSERT_NE(lf, nullptr) << nvm_errormsg();
      EXPECT_EQ(nvm_lf_count(lf), keys - 1);
    }
  }
}

TEST_P(lockfree_face, keeps_bytes_of_any_size) {
  for (const std::uint32_t kind : all_kinds) {
    const std::string name = "bytes" + std::to_string(kind);
    nvm_lf* lf = open(name.c_str(), NVM_LF_BYTES, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    std::map<std::string, std::string> model;
    for (const std::size_t n : {0, 1, 8, 40, 100, 1000, 4000, 5000, 70000}) {
      const std::string key = "key" + std::to_string(n) + std::string(n % 200, 'k');
      model[key] = std::string(n, static_cast<char>('a' + n % 26));
      EXPECT_EQ(put(lf, key, model[key]), 1) << nvm_errormsg();
    }
    EXPECT_EQ(put(lf, "", "empty key"), 1) << nvm_errormsg();
    model[""] = "empty key";
    model["key1k"] = std::string(9000, 'z');
    EXPECT_EQ(put(lf, "key1k", model["key1k"]), 2) << nvm_errormsg();
    for (int round = 0; round < 2; ++round) {
      for (const auto& [k, v] : model) EXPECT_EQ(get(lf, k), v) << k;
      EXPECT_EQ(get(lf, "no such"), "<none>");
      std::uint64_t cursor = 0;
      std::map<std::string, std::string> seen;
      do {
        ASSERT_EQ(nvm_lf_scan(
                      lf, &cursor, 3,
                      [](const nvm_lf_entry* e, void* to) {
                        auto& all = *static_cast<std::map<std::string, std::string>*>(to);
                        all[{static_cast<const char*>(e->key), e->key_bytes}] = {static_cast<const char*>(e->value),
                                                                                 e->value_bytes};
                        return 0;
                      },
                      &seen),
                  0);
      } while (cursor != 0);
      EXPECT_EQ(seen, model);
      reopen();
      lf = open(name.c_str(), NVM_LF_BYTES, kind);
      ASSERT_NE(lf, nullptr) << nvm_errormsg();
    }
    const std::string key(NVM_LF_KEY_MAX + 1, 'x');
    EXPECT_EQ(put(lf, key, "v"), -1);
    EXPECT_EQ(nvm_errno(), NVM_E_TOO_LARGE);
  }
}

TEST_P(lockfree_face, decides_about_an_entry_atomically) {
  constexpr int threads = 4;
  const int each = GetParam().medium == NVM_MEDIUM_SSD ? 50 : 300;
  const auto add_one = [](const nvm_lf_entry*, nvm_lf_change* c, void*) {
    c->value_bytes = sizeof(std::uint64_t);
    c->fill = [](void* to, std::size_t, const nvm_lf_entry* from, void*) {
      std::uint64_t n = 0;
      if (from != nullptr) std::memcpy(&n, from->value, sizeof n);
      ++n;
      std::memcpy(to, &n, sizeof n);
    };
    return NVM_LF_REPLACE;
  };
  for (const std::uint32_t kind : all_kinds) {
    SCOPED_TRACE(kind);
    const std::string name = "counters " + std::to_string(kind);
    nvm_lf* lf = open(name.c_str(), NVM_LF_BYTES, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&] {
        for (int i = 0; i < each; ++i) ASSERT_GT(nvm_lf_update(lf, "n", 1, add_one, nullptr), 0) << nvm_errormsg();
      });
    }
    for (auto& t : all) t.join();
    std::uint64_t n = 0;
    EXPECT_EQ(nvm_lf_get(lf, "n", 1, &n, sizeof n, nullptr), 1);
    EXPECT_EQ(n, std::uint64_t{threads} * each);
    EXPECT_EQ(
        nvm_lf_update(lf, "n", 1, [](const nvm_lf_entry*, nvm_lf_change*, void*) { return NVM_LF_KEEP; }, nullptr), 0);
    EXPECT_EQ(nvm_lf_update(
                  lf, "n", 1, [](const nvm_lf_entry*, nvm_lf_change*, void*) { return NVM_LF_REMOVE; }, nullptr),
              3);
    EXPECT_EQ(nvm_lf_get(lf, "n", 1, &n, sizeof n, nullptr), 0);
  }
}

TEST_P(lockfree_face, marks_are_durable) {
  nvm_lf* lf = open("marks", NVM_LF_BYTES);
  ASSERT_EQ(put(lf, "k", "v"), 1);
  ASSERT_EQ(nvm_lf_enter(lf), 0);
  nvm_lf_entry e{};
  ASSERT_EQ(nvm_lf_find(lf, "k", 1, &e), 1);
  EXPECT_EQ(e.mark, 7U);
  EXPECT_EQ(nvm_lf_set_mark(lf, &e, 99), 0);
  ASSERT_EQ(nvm_lf_leave(lf), 0);
  reopen();
  lf = open("marks", NVM_LF_BYTES);
  ASSERT_EQ(nvm_lf_enter(lf), 0);
  ASSERT_EQ(nvm_lf_find(lf, "k", 1, &e), 1);
  EXPECT_EQ(e.mark, 99U);
  ASSERT_EQ(nvm_lf_leave(lf), 0);
}

std::int64_t findings(const std::string& path, std::string& all) {
  return nvm_pool_check(
      path.c_str(),
      [](std::uint64_t, const char* what, void* to) { *static_cast<std::string*>(to) += std::string{what} + '\n'; },
      &all, nullptr);
}
// Changes a byte of the file, or changes it back.
void flip(const std::string& path, std::size_t at) {
  std::fstream file{path, std::ios::binary | std::ios::in | std::ios::out};
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 0x20);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  ASSERT_TRUE(file.good());
}
// Changes a byte of what the closed pool has last of these bytes; where.
std::size_t damage(const std::string& path, std::string_view bytes) {
  std::ifstream in{path, std::ios::binary | std::ios::ate};
  std::vector<char> file(static_cast<std::size_t>(in.tellg()));
  in.seekg(0).read(file.data(), static_cast<std::streamsize>(file.size()));
  std::size_t last = file.size();
  const char* from = file.data();
  while (const void* found =
             ::memmem(from, file.size() - static_cast<std::size_t>(from - file.data()), bytes.data(), bytes.size())) {
    last = static_cast<std::size_t>(static_cast<const char*>(found) - file.data());
    from = file.data() + last + 1;
  }
  EXPECT_LT(last, file.size()) << "nowhere in the file";
  flip(path, last);
  return last;
}

TEST_P(lockfree_face, has_entries_that_the_check_finds_damaged) {
  for (const std::uint32_t kind : all_kinds) {
    const std::string name = "sums" + std::to_string(kind);
    nvm_lf* bytes = open(name.c_str(), NVM_LF_BYTES, kind);
    nvm_lf* words = open((name + "w").c_str(), 0, kind);
    ASSERT_TRUE(bytes != nullptr && words != nullptr) << nvm_errormsg();
    for (unsigned i = 0; i < 60; ++i) {
      ASSERT_EQ(put(bytes, "key " + std::to_string(i * 7919), "first"), 1);
      ASSERT_EQ(nvm_lf_put64(words, i * 7919, 0x1000 + i, 0), 1);
    }
    for (unsigned i = 0; i < 60; i += 2) {
      ASSERT_EQ(put(bytes, "key " + std::to_string(i * 7919), name + " value " + std::to_string(i)), 2);
    }
    ASSERT_EQ(nvm_lf_put64(words, 7919, 0x6B63'6F6C'2D66'726FULL + kind, 0), 2);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = nullptr;
  std::string told;
  ASSERT_EQ(findings(path, told), 0) << told;
  const bool sealed = GetParam().flags != 0;
  for (const std::uint32_t kind : all_kinds) {
    const std::string name = "sums" + std::to_string(kind);
    std::size_t at = damage(path, name + " value 40");
    ASSERT_EQ(findings(path, told), 1) << told;
    EXPECT_NE(told.find('\'' + name + '\''), std::string::npos) << told;
    EXPECT_NE(told.find("fails its checksum"), std::string::npos) << told;
    flip(path, at);
    told.clear();
    // A word whose node proves itself is not there when it does not.
    if (!sealed || kind == NVM_LF_TREE) {
      const std::uint64_t value = 0x6B63'6F6C'2D66'726FULL + kind;
      at = damage(path, {reinterpret_cast<const char*>(&value), 8});
      ASSERT_EQ(findings(path, told), 1) << told;
      EXPECT_NE(told.find('\'' + name + "w'"), std::string::npos) << told;
      flip(path, at);
      told.clear();
    }
  }
}

TEST_P(lockfree_face, does_not_pass_the_check_when_the_map_has_lost_its_pages) {
  if (GetParam().flags != 0) GTEST_SKIP() << "nothing else counts nodes that prove themselves";
  ASSERT_EQ(put(open("lost", NVM_LF_BYTES), "key", "value"), 1);
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  pool = nullptr;
  constexpr std::size_t page = 4096;  // the page map begins after the superblocks, with a page for 512 pages of data
  std::fstream file{path, std::ios::binary | std::ios::in | std::ios::out};
  file.seekp(2 * page);
  file << std::string(page, '\0');
  file.close();
  std::string told;
  EXPECT_GT(findings(path, told), 0);
}

TEST_P(lockfree_face, has_no_checksums_where_they_are_left_out) {
  for (const std::uint32_t kind : all_kinds) {
    const std::string name = "plain" + std::to_string(kind);
    nvm_lf* lf = open(name.c_str(), NVM_LF_BYTES | NVM_LF_NO_CHECKSUMS, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    ASSERT_EQ(put(lf, "key", name + " value"), 1);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  damage(path, "plain2 value");
  std::string told;
  EXPECT_EQ(findings(path, told), 0) << told;
  pool = nvm_pool_open(path.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  // As it was made, whatever is asked at that time.
  EXPECT_EQ(get(open("plain2", NVM_LF_BYTES), "key"), "Plain2 value");
}

// What nvm_lf_verify() says of the entry; -2: there is none.
int verified(nvm_lf* lf, const char* key) {
  EXPECT_EQ(nvm_lf_enter(lf), 0);
  nvm_lf_entry e{};
  const int answer = nvm_lf_find(lf, key, std::strlen(key), &e) == 1 ? nvm_lf_verify(lf, &e) : -2;
  EXPECT_EQ(nvm_lf_leave(lf), 0);
  return answer;
}
TEST_P(lockfree_face, tells_an_entry_whose_bytes_are_damaged) {
  for (const bool with_sums : {true, false}) {
    for (const std::uint32_t kind : all_kinds) {
      const std::string name = (with_sums ? "verified" : "unproved") + std::to_string(kind);
      const std::uint32_t flags = NVM_LF_BYTES | (with_sums ? 0U : unsigned{NVM_LF_NO_CHECKSUMS});
      nvm_lf* lf = open(name.c_str(), flags, kind);
      ASSERT_NE(lf, nullptr) << nvm_errormsg();
      ASSERT_EQ(put(lf, "good", std::string(5000, 'g')), 1);
      ASSERT_EQ(put(lf, "bad", std::string(5000, 'b')), 1);
      EXPECT_EQ(verified(lf, "bad"), 1);
      // A bit of the value goes over while the pool is open.
      ASSERT_EQ(nvm_lf_enter(lf), 0);
      nvm_lf_entry e{};
      ASSERT_EQ(nvm_lf_find(lf, "bad", 3, &e), 1);
      static_cast<char*>(const_cast<void*>(e.value))[4321] ^= 4;
      EXPECT_EQ(nvm_lf_set_mark(lf, &e, 8), 0) << nvm_errormsg();
      ASSERT_EQ(nvm_lf_leave(lf), 0);
      EXPECT_EQ(verified(lf, "bad"), with_sums ? 0 : 1);
      EXPECT_EQ(verified(lf, "good"), 1);
      // Whoever decides about it sees it, too, and what replaces it holds.
      const auto decide = [](const nvm_lf_entry* old, nvm_lf_change* change, void* to) {
        auto& [of, said] = *static_cast<std::pair<nvm_lf*, int>*>(to);
        said = nvm_lf_verify(of, old);
        change->value_bytes = 3;
        change->fill = [](void* value, std::size_t n, const nvm_lf_entry*, void*) { std::memset(value, 'n', n); };
        return NVM_LF_REPLACE;
      };
      std::pair<nvm_lf*, int> seen{lf, -2};
      EXPECT_EQ(nvm_lf_update(lf, "bad", 3, decide, &seen), 2) << nvm_errormsg();
      EXPECT_EQ(seen.second, with_sums ? 0 : 1);
      EXPECT_EQ(verified(lf, "bad"), 1);
      EXPECT_EQ(get(lf, "bad"), "nnn");
    }
  }
  nvm_lf* words = open("words", 0);
  ASSERT_EQ(nvm_lf_put64(words, 1, 1, 0), 1);
  const nvm_lf_entry none{};
  EXPECT_EQ(nvm_lf_verify(words, &none), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
  EXPECT_EQ(nvm_lf_verify(open("verified2", NVM_LF_BYTES, NVM_LF_HASH), &none), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_BAD_POINTER);
  EXPECT_EQ(nvm_lf_verify(words, nullptr), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
}

TEST_P(lockfree_face, changes_a_mark_only_from_what_it_is) {
  nvm_lf* lf = open("marks", NVM_LF_BYTES);
  ASSERT_EQ(put(lf, "k", "v"), 1);
  ASSERT_EQ(nvm_lf_enter(lf), 0);
  nvm_lf_entry e{};
  ASSERT_EQ(nvm_lf_find(lf, "k", 1, &e), 1);
  std::uint64_t expected = 8;
  EXPECT_EQ(nvm_lf_change_mark(lf, &e, &expected, 9, 0), 0);
  EXPECT_EQ(expected, 7U);
  EXPECT_EQ(nvm_lf_change_mark(lf, &e, &expected, 9, NVM_LF_MARK_LAZY), 1);
  expected = 9;
  EXPECT_EQ(nvm_lf_change_mark(lf, &e, &expected, 10, 0), 1);
  EXPECT_EQ(nvm_lf_change_mark(lf, &e, nullptr, 10, 0), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(nvm_lf_change_mark(lf, &e, &expected, 10, 2), -1);
  ASSERT_EQ(nvm_lf_leave(lf), 0);
  constexpr int threads = 4;
  constexpr int each = 200;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      ASSERT_EQ(nvm_lf_enter(lf), 0);
      nvm_lf_entry mine{};
      ASSERT_EQ(nvm_lf_find(lf, "k", 1, &mine), 1);
      for (int i = 0; i < each; ++i) {
        std::uint64_t seen = mine.mark;
        while (nvm_lf_change_mark(lf, &mine, &seen, seen + 1, i % 2 == 0 ? 0U : unsigned{NVM_LF_MARK_LAZY}) == 0) {
        }
      }
      std::uint64_t seen = 0;
      while (nvm_lf_change_mark(lf, &mine, &seen, seen, 0) == 0) {
      }
      ASSERT_EQ(nvm_lf_leave(lf), 0);
    });
  }
  for (auto& t : all) t.join();
  reopen();
  lf = open("marks", NVM_LF_BYTES);
  ASSERT_EQ(nvm_lf_enter(lf), 0);
  ASSERT_EQ(nvm_lf_find(lf, "k", 1, &e), 1);
  EXPECT_EQ(e.mark, 10U + threads * each);
  ASSERT_EQ(nvm_lf_leave(lf), 0);
}

TEST_P(lockfree_face, says_what_does_not_fit) {
  nvm_lf* words = open("a", 0);
  ASSERT_NE(words, nullptr);
  EXPECT_EQ(open("a", NVM_LF_BYTES), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
  EXPECT_EQ(open("a", 0, NVM_LF_LIST), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
  EXPECT_EQ(open("a", 0, NVM_LF_HASH, 2), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_EXISTS);
  EXPECT_EQ(open("b", 0, NVM_LF_HASH, 1), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(open("", 0), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  EXPECT_EQ(put(words, "k", "v"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_TYPE_MISMATCH);
  EXPECT_EQ(nvm_lf_drop(pool, "b"), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
  EXPECT_EQ(nvm_lf_drop(pool, "a"), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_lf_put64(words, 1, 1, 0), -1);
  EXPECT_EQ(nvm_errno(), NVM_E_NOT_FOUND);
}

TEST_P(lockfree_face, has_no_tree_with_volatile_links) {
  EXPECT_EQ(open("volatile tree", NVM_LF_VOLATILE_LINKS, NVM_LF_TREE), nullptr);
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID);
  // What is there has the links that it was made with.
  nvm_lf* made = open("it", 0);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(open("it", NVM_LF_VOLATILE_LINKS), made);
}

TEST_P(lockfree_face, gives_the_memory_of_a_dropped_structure_back) {
  const auto used = [&] {
    nvm_pool_info info{};
    EXPECT_EQ(nvm_pool_get_info(pool, &info), 0) << nvm_errormsg();
    return info.used_pages;
  };
  nvm_lf* first = open("first", NVM_LF_BYTES);
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(put(first, "k", "v"), 1);
  const std::uint64_t before = used();
  for (int round = 0; round < 3; ++round) {
    nvm_lf* lf = open("second", NVM_LF_BYTES);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    for (int i = 0; i < 500; ++i)
      ASSERT_GT(put(lf, std::to_string(i % 100), std::string(5000, 'x')), 0) << nvm_errormsg();
    EXPECT_GT(used(), before);
    ASSERT_EQ(nvm_lf_drop(pool, "second"), 0) << nvm_errormsg();
    EXPECT_EQ(used(), before);
  }
  EXPECT_EQ(get(first, "k"), "v");
}

// What was acknowledged is there after a kill; nothing is allocated that nothing leads to.
TEST_P(lockfree_face, survives_kills) {
  nvm_lf* lf = open("survivor", NVM_LF_BYTES);
  ASSERT_NE(lf, nullptr);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  pool = nullptr;
  const int more = GetParam().medium == NVM_MEDIUM_SSD ? 10 : 100;
  for (int round = 0; round < 3; ++round) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(fds[0]);
      NVM_POOL* mine = nvm_pool_open(path.c_str());
      nvm_lf_options o{};
      o.flags = NVM_LF_BYTES;
      nvm_lf* s = mine == nullptr ? nullptr : nvm_lf_open(mine, "survivor", &o);
      if (s == nullptr) _exit(1);
      for (std::uint64_t i = 0;; ++i) {
        const std::string key = "key" + std::to_string(i % 50);
        const std::string value = std::to_string(round) + ":" + std::to_string(i) + std::string(i * 37 % 3000, '.');
        if (i % 7 == 6 ? nvm_lf_remove(s, key.data(), key.size()) < 0
                       : nvm_lf_put(s, key.data(), key.size(), value.data(), value.size(), 0, 0) < 0) {
          _exit(2);
        }
        if (write(fds[1], &i, sizeof i) != sizeof i) _exit(3);
      }
    }
    close(fds[1]);
    std::uint64_t last = 0;
    for (int i = 0; i < 4 * more + round * more + 100; ++i)
      ASSERT_EQ(read(fds[0], &last, sizeof last), ssize_t{sizeof last});
    kill(child, SIGKILL);
    while (read(fds[0], &last, sizeof last) == ssize_t{sizeof last}) {
    }
    close(fds[0]);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(nvm_pool_check(
                  path.c_str(), [](std::uint64_t at, const char* what, void*) { ADD_FAILURE() << at << ": " << what; },
                  nullptr, nullptr),
              0);
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    lf = open("survivor", NVM_LF_BYTES);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    std::uint64_t present = 0;
    for (std::uint64_t k = 0; k < 50; ++k) {
      // The newest acknowledged operation on the key; one more may have happened.
      std::uint64_t newest = last - (last + 50 - k) % 50;
      const auto expected = [&](std::uint64_t i) {
        return i % 7 == 6 ? std::string{"<none>"}
                          : std::to_string(round) + ":" + std::to_string(i) + std::string(i * 37 % 3000, '.');
      };
      const std::string found = get(lf, "key" + std::to_string(k));
      EXPECT_TRUE(found == expected(newest) || (newest + 50 == last + 1 && found == expected(last + 1)))
          << "key " << k << ": " << found.substr(0, 20) << ", expected " << expected(newest).substr(0, 20);
      present += found == "<none>" ? 0 : 1;
    }
    EXPECT_EQ(nvm_lf_count(lf), present);
    ASSERT_EQ(nvm_pool_close(pool), 0);
    pool = nullptr;
  }
}

std::string contents_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary | std::ios::ate};
  std::string all(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0);
  file.read(all.data(), static_cast<std::streamsize>(all.size()));
  return all;
}

// A deletion that recovery did not know of is counted: the check reports it, and a thread that comes by mends it.
TEST_P(lockfree_face, a_deleted_node_that_is_counted_is_found_by_the_check) {
  if (GetParam().flags != 0) return;  // counted by what its nodes say themselves
  for (const std::uint32_t kind : all_kinds) {
    const std::string name = "counted" + std::to_string(kind);
    nvm_lf* lf = open(name.c_str(), NVM_LF_BYTES, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    const std::string value = "a value that is nowhere else, of " + name;
    for (int i = 0; i < 20; ++i) ASSERT_EQ(put(lf, "key" + std::to_string(100 + i), i == 7 ? value : "v"), 1);
    ASSERT_EQ(nvm_pool_close(pool), 0);
    // A tree marks the edge that leads to the node, the others the node's own link.
    const std::string all = contents_of(path);
    const std::uint64_t node = all.rfind("key107" + value) - 32;
    const std::string edge{reinterpret_cast<const char*>(&node), 8};
    std::size_t marked = kind == NVM_LF_TREE ? all.rfind(edge) : node;
    while (marked % 8 != 0) marked = all.rfind(edge, marked - 1);
    ASSERT_LT(marked, all.size());
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(static_cast<std::streamoff>(marked));
    file.put(static_cast<char>(all[marked] | 1));
    file.close();
    int found = 0;
    const auto count = [](std::uint64_t, const char* what, void* to) {
      *static_cast<int*>(to) += std::strstr(what, "counted as an entry") != nullptr ? 1 : 0;
    };
    EXPECT_GT(nvm_pool_check(path.c_str(), count, &found, nullptr), 0) << name;
    EXPECT_EQ(found, 1) << name;
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    lf = open(name.c_str(), NVM_LF_BYTES, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    EXPECT_EQ(get(lf, "key107"), "<none>");
    ASSERT_EQ(put(lf, "key107", "again"), 1);
    reopen();
    lf = open(name.c_str(), NVM_LF_BYTES, kind);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_lf_count(lf), 20U) << name;
    ASSERT_EQ(nvm_pool_close(pool), 0);
    EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0) << name;
    pool = nvm_pool_open(path.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
  }
}

// Where a removal cannot note what it unlinks, for want of space, it is refused and has done nothing.
struct full_pool {
  static constexpr std::size_t large_bytes = 500'000;
  void* large = nullptr;
  const nvm::tests::scratch place{false};
  NVM_POOL* pool = nullptr;
  nvm_lf* lf = nullptr;

  void open(std::uint32_t kind, bool create) {
    nvm_pool_options o{};
    o.size = o.capacity = 4 << 20;
    pool = create ? nvm_pool_create_with(place.path().c_str(), &o) : nvm_pool_open(place.path().c_str());
    nvm_lf_options of{};
    of.kind = kind;
    of.flags = NVM_LF_BYTES;
    lf = pool == nullptr ? nullptr : nvm_lf_open(pool, "one", &of);
    ASSERT_NE(lf, nullptr) << nvm_errormsg();
    if (!create) return;
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    large = nvm_alloc(pool, 1, large_bytes);
    ASSERT_NE(large, nullptr) << nvm_errormsg();
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  // A transaction whose log takes the pages that are kept for logs, until it is aborted.
  void take_what_is_kept() {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    constexpr std::size_t step = 2000;  // free pages may lie apart
    for (std::size_t at = 0; at + step <= large_bytes; at += step)
      if (nvm_tx_log(static_cast<char*>(large) + at, step) != 0) break;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
  }
  void close() {
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    const auto tell = [](std::uint64_t at, const char* what, void*) { ADD_FAILURE() << at << ": " << what; };
    EXPECT_EQ(nvm_pool_check(place.path().c_str(), tell, nullptr, nullptr), 0);
  }
  static std::string key(int i) { return std::to_string(100'000 + i); }
  int put(int i) {
    const std::string value(900, 'v');
    return nvm_lf_put(lf, key(i).data(), 6, value.data(), value.size(), 0, 0);
  }
  int remove(int i) { return nvm_lf_remove(lf, key(i).data(), 6); }
  int has(int i) { return nvm_lf_get(lf, key(i).data(), 6, nullptr, 0, nullptr); }
  // Until there is no page left, either.  The number of entries.
  int fill() {
    int entries = 0;
    while (put(entries) == 1) ++entries;
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
    for (bool fits = true; fits;) {
      EXPECT_EQ(nvm_tx_begin(pool), 0);
      fits = nvm_alloc(pool, 1, 4000) != nullptr;
      EXPECT_EQ(fits ? nvm_tx_commit(pool) : nvm_tx_abort(pool), 0);
    }
    return entries;
  }
};

TEST(lockfree_full_pool, refuses_removals_that_it_cannot_note) {
  for (const std::uint32_t kind : all_kinds) {
    SCOPED_TRACE(kind);
    full_pool p;
    p.open(kind, true);
    // A thread inside keeps unlinked nodes from being freed, and their areas from being forgotten.
    std::promise<void> inside;
    std::promise<void> end;
    std::thread reader{[&] {
      EXPECT_EQ(nvm_lf_enter(p.lf), 0);
      inside.set_value();
      end.get_future().wait();
      EXPECT_EQ(nvm_lf_leave(p.lf), 0);
    }};
    inside.get_future().wait();
    const int entries = p.fill();
    p.take_what_is_kept();
    int gone = 0;
    while (gone < entries && p.remove(gone) == 1) ++gone;
    EXPECT_LT(gone, entries) << "nothing was wanting";
    EXPECT_EQ(nvm_errno(), NVM_E_NO_SPACE) << nvm_errormsg();
    EXPECT_EQ(p.has(gone), 1);
    EXPECT_EQ(nvm_tx_abort(p.pool), 0);
    // With what is kept it goes on.
    EXPECT_EQ(p.remove(gone), 1) << nvm_errormsg();
    ++gone;
    end.set_value();
    reader.join();
    EXPECT_EQ(nvm_lf_count(p.lf), static_cast<std::uint64_t>(entries - gone));
    if (kind != NVM_LF_SKIP_LIST) {  // that one is left as it is
      // What was removed is free now, and with it whole pages.
      EXPECT_EQ(p.remove(gone), 1) << nvm_errormsg();
      ++gone;
    }
    p.close();
    p.open(kind, false);
    EXPECT_EQ(nvm_lf_count(p.lf), static_cast<std::uint64_t>(entries - gone));
    for (; gone < entries; ++gone) ASSERT_EQ(p.remove(gone), 1) << nvm_errormsg();
    EXPECT_EQ(nvm_lf_count(p.lf), 0U);
    p.close();
  }
}

INSTANTIATE_TEST_SUITE_P(on, lockfree_face, ::testing::ValuesIn(nvm::tests::kinds_of_build(media)),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
