// Damage of pools with key-value stores and a root, on every engine: pages that were exchanged or copied, words of
// zero, exchanged copies of superblock and anchors. Damage that the check does not find has changed nothing; a repair
// does no harm, reports what is missing, and leaves a sound pool, or refuses with a reason.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../file_bytes.hpp"
#include "care/repair.hpp"
#include "edited_pool.hpp"
#include "nvm/kv.h"
#include "nvm/nvm.h"
#include "nvm/stm.h"
#include "pool/pool.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

struct base_pool {
  const char* name;
  nvm_engine engine;
  bool ssd;
};
void PrintTo(const base_pool& b, std::ostream* to) { *to << b.name; }

using contents = std::map<std::string, std::string>;  // by store and key, or "root"
constexpr std::uint64_t many = 60;
constexpr std::uint64_t page_bytes = 4096;
constexpr const char* root_text = "the root of a pool with many parts";

std::string key_in(unsigned index, std::uint64_t i) {
  if (index != NVM_KV_RBTREE) return "key-" + std::to_string(1000 + i * 17);
  const std::uint64_t key = __builtin_bswap64(1000 + i * 17);
  return {reinterpret_cast<const char*>(&key), sizeof key};
}
std::string value_of(std::uint64_t i) {
  std::string v = "value " + std::to_string(i) + " ";
  for (std::uint64_t n = 20 + i * 37 % 180; v.size() < n;) v += static_cast<char>('a' + (i * 7 + v.size() * 3) % 26);
  return v;
}
constexpr unsigned indexes[] = {NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE};

contents stored() {
  contents all{{"root", root_text}};
  for (const unsigned index : indexes) {
    for (std::uint64_t i = 0; i < many; ++i) {
      all[std::string{nvm_kv_index_name(static_cast<int>(index))} + " " + key_in(index, i)] = value_of(i);
    }
  }
  return all;
}
// Nothing here looks through a pointer of the pool.
contents readable(const std::string& path) {
  contents all;
  nvm_pool_options o{};
  o.read_only = 1;
  o.accept_copy = 1;
  NVM_POOL* pool = nvm_pool_open_with(path.c_str(), &o);
  if (pool == nullptr) return all;
  void* root = nullptr;
  if (nvm_pool_read_root(pool, &root) == 0 && root != nullptr && nvm_size_of(pool, root) >= std::strlen(root_text)) {
    struct reading {
      const void* from;
      std::string copy;
    } r{root, std::string(std::strlen(root_text), '\0')};
    const auto body = [](nvm_stm* t, void* to) {
      auto& read = *static_cast<reading*>(to);
      nvm_stm_read(t, read.copy.data(), read.from, read.copy.size());
      return 0;
    };
    if (nvm_stm_run(pool, body, &r) == 0) all["root"] = r.copy;
  }
  for (const unsigned index : indexes) {
    nvm_kv_options k{};
    k.mode = NVM_KV_OPEN_ONLY;
    k.flags = NVM_KV_VERIFY_READS;
    const std::string name = nvm_kv_index_name(static_cast<int>(index));
    nvm_kv* kv = nvm_kv_open(pool, name.c_str(), &k);
    if (kv == nullptr) continue;
    for (std::uint64_t i = 0; i < many + 10; ++i) {
      const std::string key = key_in(index, i);
      std::string value(4096, '\0');
      std::size_t n = 0;
      if (nvm_kv_get(kv, key.data(), key.size(), value.data(), value.size(), &n) != 1) continue;
      value.resize(std::min(n, value.size()));
      all[name + " " + key] = value;
    }
    (void)nvm_kv_close(kv);
  }
  (void)nvm_pool_close(pool);
  return all;
}

class misplaced_pages : public testing::TestWithParam<base_pool>, protected edited_pool {
 protected:
  void SetUp() override {
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
    place_ = std::make_unique<scratch>(GetParam().ssd);
    nvm_pool_options o{};
    o.size = o.capacity = 2 << 20;
    o.engine = GetParam().engine;
    o.medium = GetParam().ssd ? NVM_MEDIUM_SSD : direct_medium();
    o.log_bytes = GetParam().ssd && GetParam().engine != NVM_ENGINE_LOG ? 1 << 16 : 0;
    NVM_POOL* pool = nvm_pool_create_with(path("made").c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    std::vector<nvm_kv*> stores;
    for (const unsigned index : indexes) {
      nvm_kv_options k{};
      k.index = index;
      stores.push_back(nvm_kv_open(pool, nvm_kv_index_name(static_cast<int>(index)), &k));
      ASSERT_NE(stores.back(), nullptr) << nvm_errormsg();
    }
    // In turn: what they allocate lies side by side.
    for (std::uint64_t i = 0; i < many + 10; ++i) {
      for (std::size_t s = 0; s < stores.size(); ++s) {
        const std::string k = key_in(indexes[s], i);
        const std::string v = value_of(i);
        ASSERT_GE(nvm_kv_put(stores[s], k.data(), k.size(), v.data(), v.size()), 0) << nvm_errormsg();
      }
    }
    for (std::uint64_t i = many; i < many + 10; ++i) {
      for (std::size_t s = 0; s < stores.size(); ++s) {
        const std::string k = key_in(indexes[s], i);
        ASSERT_EQ(nvm_kv_remove(stores[s], k.data(), k.size()), 1) << nvm_errormsg();
      }
    }
    ASSERT_EQ(nvm_stm_run(
                  pool,
                  [](nvm_stm* t, void* in) {
                    void* made = nvm_stm_alloc(t, 8, std::strlen(root_text));
                    if (made == nullptr) return -1;
                    nvm_stm_write(t, made, root_text, std::strlen(root_text));
                    *static_cast<void**>(in) = made;
                    return 0;
                  },
                  &root_),
              0);
    ASSERT_EQ(nvm_pool_set_root(pool, root_), 0) << nvm_errormsg();
    for (nvm_kv* kv : stores) ASSERT_EQ(nvm_kv_close(kv), 0);
    ASSERT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    begin_with(read_file(path("made")));
    ASSERT_EQ(readable(path("made")), stored());
  }
  [[nodiscard]] std::string path(const char* of) const { return place_->path(of); }
  // With something in them.
  [[nodiscard]] std::vector<std::uint64_t> pages(std::uint64_t from, std::uint64_t end) const {
    std::vector<std::uint64_t> all;
    for (std::uint64_t at = from; at + page_bytes <= end && at + page_bytes <= sound().size(); at += page_bytes) {
      const auto begin = sound().begin() + static_cast<std::ptrdiff_t>(at);
      if (std::any_of(begin, begin + page_bytes, [](char c) { return c != 0; })) all.push_back(at);
    }
    return all;
  }
  [[nodiscard]] std::vector<std::uint64_t> data_pages() const { return pages(shape().data_offset, sound().size()); }
  void exchange(std::uint64_t a, std::uint64_t b, std::uint64_t n) {
    const auto begin = bytes.begin();
    std::swap_ranges(begin + static_cast<std::ptrdiff_t>(a), begin + static_cast<std::ptrdiff_t>(a + n),
                     begin + static_cast<std::ptrdiff_t>(b));
  }
  void copy(std::uint64_t from, std::uint64_t to, std::uint64_t n) { std::memmove(&bytes[to], &bytes[from], n); }

  // What holds of any damage; what can be read after the repair.  `may_refuse`: nothing that could say what was there.
  contents judge(const std::string& what, bool may_refuse = false) {
    SCOPED_TRACE(what);
    const contents all = stored();
    const std::string damaged = path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    const std::int64_t faults = nvm_pool_check(damaged.c_str(), nullptr, nullptr, nullptr);
    write_file(damaged, bytes);
    const contents before = readable(damaged);
    if (faults == 0) {
      EXPECT_EQ(before, all) << "silent";
    }
    write_file(damaged, bytes);
    care::repair_request request;
    request.path = damaged;
    request.out = path("mended");
    request.accept_copy = true;
    ::unlink(request.out.c_str());
    report = {};
    const status done = care::repair_pool(request, report);
    if (!done) {
      EXPECT_FALSE(report.refusals.empty() && last_message()[0] == '\0');
      EXPECT_TRUE(may_refuse) << last_message();
      return before;
    }
    EXPECT_EQ(nvm_pool_check(
                  request.out.c_str(),
                  [](std::uint64_t at, const char* finding, void*) { ADD_FAILURE() << "at " << at << ": " << finding; },
                  nullptr, nullptr),
              0);
    const contents after = readable(request.out);
    std::uint64_t missing = 0;
    for (const auto& [key, value] : all) {
      const auto now = after.find(key);
      const auto was = before.find(key);
      const bool is_there = now != after.end() && now->second == value;
      missing += is_there ? 0 : 1;
      EXPECT_TRUE(is_there || was == before.end() || was->second != value) << "worse: " << key;
    }
    const bool tells = std::any_of(report.notes.begin(), report.notes.end(), [](const care::repair_note& n) {
      return n.how == mending::lost || n.how == mending::kept;
    });
    // What looks like an object stays one, though it may have been freed.
    for (const auto& [key, value] : after) EXPECT_TRUE(all.contains(key) || tells) << "invented: " << key;
    EXPECT_TRUE(missing == 0 || tells) << missing << " are missing, and nobody says so";
    return after;
  }

  care::repair_report report;
  std::unique_ptr<scratch> place_;
  void* root_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(pools, misplaced_pages,
                         testing::Values(base_pool{"undo", NVM_ENGINE_UNDO, false},
                                         base_pool{"redo", NVM_ENGINE_REDO, false},
                                         base_pool{"ssd", NVM_ENGINE_UNDO, true},
                                         base_pool{"log", NVM_ENGINE_LOG, false},
                                         base_pool{"log_ssd", NVM_ENGINE_LOG, true}),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(misplaced_pages, of_data_that_were_exchanged) {
  const auto all = data_pages();
  for (std::size_t i = 0; i < all.size(); i += all.size() / 12 + 1) {
    for (const std::size_t with : {i + 1, i + 9, i * 7 + 3}) {
      if (with % all.size() == i) continue;
      restore();
      exchange(all[i], all[with % all.size()], page_bytes);
      judge("pages " + std::to_string(all[i]) + " and " + std::to_string(all[with % all.size()]), true);
    }
  }
}

TEST_P(misplaced_pages, of_data_that_were_copied_over_others) {
  const auto all = data_pages();
  for (std::size_t i = 0; i < all.size(); i += all.size() / 12 + 1) {
    for (const std::size_t to : {i + 1, i + 9, i * 7 + 3}) {
      if (to % all.size() == i) continue;
      restore();
      copy(all[i], all[to % all.size()], page_bytes);
      judge("page " + std::to_string(all[i]) + " over " + std::to_string(all[to % all.size()]), true);
    }
  }
}

TEST_P(misplaced_pages, and_words_of_zero_in_data) {
  for (const std::uint64_t page : data_pages()) {
    for (std::uint64_t at = page; at < page + page_bytes; at += 8 * (GetParam().engine == NVM_ENGINE_LOG ? 397 : 61)) {
      restore();
      if (word(at) == 0) continue;
      put(at, 0);
      judge("a zero at " + std::to_string(at), true);
    }
  }
}

TEST_P(misplaced_pages, of_superblocks_and_anchors_that_are_each_others) {
  const geometry g = shape();
  const auto header = g.superblock_at(1) - g.superblock_at(0);
  const contents all = stored();
  const auto expect_all = [&](const std::string& what) { EXPECT_EQ(judge(what), all) << what; };
  exchange(g.superblock_at(0), g.superblock_at(1), header);
  expect_all("both exchanged");
  for (const bool first : {false, true}) {
    restore();
    copy(g.superblock_at(first ? 0 : 1), g.superblock_at(first ? 1 : 0), header);
    expect_all("one over the other");
    restore();
    copy(g.anchor_at(first ? 0 : 1), g.anchor_at(first ? 1 : 0), sizeof(layout::anchor));
    expect_all("one anchor over the other");
  }
  restore();
  exchange(g.anchor_at(0), g.anchor_at(1), sizeof(layout::anchor));
  expect_all("anchors exchanged");
  for (unsigned i = 0; i < anchor_words; ++i) {
    const auto which = static_cast<anchor_word>(i);
    for (const unsigned copies : {1U, 2U, 3U}) {
      restore();
      for (unsigned copy = 0; copy < 2; ++copy) {
        if ((copies >> copy & 1) != 0) put(anchor_word_at(g, copy, which), 0);
      }
      // The root is an object like any other.
      if (copies == 3 && which == anchor_word::root) continue;
      judge("anchor word " + std::to_string(i) + " of copies " + std::to_string(copies));
    }
    for (unsigned other = i + 1; other < anchor_words; ++other) {
      restore();
      exchange(anchor_word_at(g, 0, which), anchor_word_at(g, 0, static_cast<anchor_word>(other)), 8);
      judge("anchor words " + std::to_string(i) + " and " + std::to_string(other));
    }
  }
}

TEST_P(misplaced_pages, of_the_page_map_and_words_of_it) {
  const geometry g = shape();
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    restore();
    if (word(g.entry_offset(page)) == 0) continue;
    put(g.entry_offset(page), 0);
    judge("no entry of page " + std::to_string(page), true);
    const std::uint64_t next = (page + 8) % g.size_pages;
    restore();
    exchange(g.entry_offset(page), g.entry_offset(next), 8);
    judge("entries of pages " + std::to_string(page) + " and " + std::to_string(next), true);
  }
}

}  // namespace
}  // namespace nvm::tests
