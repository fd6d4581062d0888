// Repair of pools of the log-structured engine in which a word of what leads to the log was lost: the heap's root, the
// headers of chunks, their list, entries of the page map.  The check names it, and a repair loses nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
#include "logheap/logheap_layout.hpp"
#include "nvm/kv.h"
#include "scratch.hpp"
#include "space/space.hpp"

namespace nvm::tests {
namespace {

namespace log_layout = logheap::layout;

struct log_pool {
  const char* name;
  pool_kind kind;
  bool killed;
};
void PrintTo(const log_pool& p, std::ostream* to) { *to << p.name; }

constexpr unsigned entries = 90;
using contents = std::map<std::string, std::string>;

std::string value_of(unsigned i, unsigned round) {
  return "value " + std::to_string(i) + " of round " + std::to_string(round) +
         std::string(300 + i * 37 % 500, static_cast<char>('a' + i % 26));
}

class mended_log : public testing::TestWithParam<log_pool>, protected edited_pool {
 protected:
  void SetUp() override {
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
    const pid_t maker = GetParam().killed ? ::fork() : 0;
    if (maker == 0) {
      const bool made = make();
      if (GetParam().killed) ::_exit(made ? 0 : 1);
      ASSERT_TRUE(made) << nvm_errormsg();
    } else {
      int how = -1;
      ASSERT_EQ(::waitpid(maker, &how, 0), maker);
      ASSERT_EQ(how, 0);
    }
    begin_with(read_file(path("made")));
  }
  // More than the pool holds, so that chunks are cleaned and used again.
  bool make() {
    nvm_pool_options o{};
    o.size = o.capacity = std::size_t{2} << 20;
    choose(o, GetParam().kind);
    NVM_POOL* pool = nvm_pool_create_with(path("made").c_str(), &o);
    nvm_kv_options how{};
    how.index = NVM_KV_HASH;
    nvm_kv* kv = pool == nullptr ? nullptr : nvm_kv_open(pool, "store", &how);
    if (kv == nullptr) return false;
    for (unsigned round = 0; round < 30; ++round) {
      for (unsigned i = 0; i < entries + 10; ++i) {
        const std::string key = "key " + std::to_string(i);
        const std::string value = value_of(i, round);
        if (nvm_kv_put(kv, key.data(), key.size(), value.data(), value.size()) != 0) return false;
      }
    }
    for (unsigned i = entries; i < entries + 10; ++i) {
      const std::string key = "key " + std::to_string(i);
      if (nvm_kv_remove(kv, key.data(), key.size()) != 1) return false;
    }
    return GetParam().killed || (nvm_kv_close(kv) == 0 && nvm_pool_close(pool) == 0);
  }
  static contents stored() {
    contents all;
    for (unsigned i = 0; i < entries; ++i) all["key " + std::to_string(i)] = value_of(i, 29);
    return all;
  }
  [[nodiscard]] std::string path(const char* of) const { return place_.path(of); }

  [[nodiscard]] std::uint64_t root() const {
    return word(anchor_word_at(shape(), 0, anchor_word::log_heap)) & checked_mask;
  }
  [[nodiscard]] std::vector<std::uint64_t> chunks() const {
    std::vector<std::uint64_t> all;
    for (std::uint64_t at = word(root() + offsetof(log_layout::root, first_chunk)) & checked_mask; at != 0;
         at = word(at + offsetof(log_layout::chunk_header, next)) & checked_mask) {
      all.push_back(at);
    }
    return all;
  }

  [[nodiscard]] std::string findings() const {
    const std::string damaged = path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    std::string all;
    const auto add = [](std::uint64_t, const char* finding, void* to) {
      *static_cast<std::string*>(to) += finding, *static_cast<std::string*>(to) += '\n';
    };
    EXPECT_GE(nvm_pool_check(damaged.c_str(), add, &all, nullptr), 0) << nvm_errormsg();
    return all;
  }
  static contents look(const std::string& at, bool changes) {
    contents found;
    nvm_pool_options o{};
    o.read_only = changes ? 0 : 1;
    NVM_POOL* pool = nvm_pool_open_with(at.c_str(), &o);
    if (pool == nullptr) return found;
    nvm_kv_options how{};
    how.mode = NVM_KV_OPEN_ONLY;
    nvm_kv* kv = nvm_kv_open(pool, "store", &how);
    EXPECT_NE(kv, nullptr) << nvm_errormsg();
    const auto add = [](const nvm_kv_entry* e, void* to) {
      (*static_cast<contents*>(to))[{static_cast<const char*>(e->key), e->key_bytes}] = {
          static_cast<const char*>(e->value), e->value_bytes};
      return 0;
    };
    if (kv != nullptr) {
      EXPECT_EQ(nvm_kv_scan(kv, nullptr, add, &found), 0) << nvm_errormsg();
      for (unsigned i = 0; changes && i < 200; ++i) {
        const std::string value = value_of(i, 77);
        EXPECT_EQ(nvm_kv_put(kv, "new", 3, value.data(), value.size()), 0) << nvm_errormsg();
      }
      EXPECT_EQ(nvm_kv_close(kv), 0);
    }
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    return found;
  }
  contents mend() {
    const std::string damaged = path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    care::repair_request request;
    request.path = damaged;
    request.out = path("mended");
    request.accept_copy = true;
    ::unlink(request.out.c_str());
    report = {};
    const status done = care::repair_pool(request, report);
    EXPECT_TRUE(done) << last_message();
    return done ? look(request.out, true) : contents{};
  }
  [[nodiscard]] std::string notes(mending how) const {
    std::string text;
    for (const care::repair_note& n : report.notes) {
      if (n.how == how) text += n.what + "\n";
    }
    return text;
  }
  static std::uint64_t word_in(const std::string& file, std::uint64_t at) {
    const auto all = read_file(file);
    std::uint64_t w = 0;
    EXPECT_LE(at + sizeof w, all.size());
    if (at + sizeof w <= all.size()) std::memcpy(&w, all.data() + at, sizeof w);
    return w;
  }
  // Whoever reads the pool as it is reads what was stored, or the check has something to say; repair loses nothing.
  void expect_all(const std::string& what) {
    SCOPED_TRACE(what);
    const std::string found = findings();
    if (found.empty()) {
      EXPECT_EQ(look(path("damaged"), false), stored()) << "and the check finds nothing";
    }
    EXPECT_EQ(mend(), stored()) << notes(mending::lost) << notes(mending::kept);
    EXPECT_EQ(notes(mending::lost), "") << found;
    told_ += found.empty() ? 0 : 1;
    // A pool of which somebody has damaged one word is sound again.
    nvm_check_summary sum{};
    const auto tell = [](std::uint64_t at, const char* finding, void*) {
      ADD_FAILURE() << "offset " << at << ": " << finding;
    };
    EXPECT_EQ(nvm_pool_check(path("mended").c_str(), tell, nullptr, &sum), 0);
  }
  // Those at the ends, the one that tells what was saved, and some between.
  [[nodiscard]] std::vector<std::uint64_t> some_chunks() const {
    std::vector<std::uint64_t> all = chunks();
    EXPECT_GE(all.size(), 16U);
    std::vector<std::uint64_t> some;
    for (std::size_t i = 0; i < all.size(); i += i < 2 || i + 2 > all.size() ? 1 : 15) some.push_back(all[i]);
    if (const std::uint64_t saved = word(root() + offsetof(log_layout::root, saved)) & checked_mask; saved != 0) {
      some.push_back(saved);
    }
    return some;
  }

  scratch place_{GetParam().kind};
  care::repair_report report;
  unsigned told_ = 0;
};
INSTANTIATE_TEST_SUITE_P(pools, mended_log,
                         testing::Values(log_pool{"closed", pool_kind::log, false},
                                         log_pool{"killed", pool_kind::log, true},
                                         log_pool{"ssd", pool_kind::ssd_log, false}),
                         [](const auto& i) { return std::string{i.param.name}; });

TEST_P(mended_log, is_whole_after_any_damage_of_a_word_of_the_root) {
  ASSERT_EQ(mend(), stored());
  EXPECT_EQ(notes(mending::lost) + notes(mending::kept) + notes(mending::mended), "");
  const std::uint64_t line = root();
  const std::uint64_t copy = line + log_layout::root_copy_at(shape().page_bytes());
  ASSERT_EQ(std::memcmp(&bytes[line], &bytes[copy], log_layout::root_line_bytes), 0);
  for (std::uint64_t at = 0; at < sizeof(log_layout::root) + log_layout::root_line_bytes; at += 8) {
    const std::uint64_t place = at < sizeof(log_layout::root) ? line + at : copy + at - sizeof(log_layout::root);
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{0x5555'1234'9876'0001}, word(place) ^ 1 << 5, word(place + 8)}) {
      restore();
      if (word(place) == value) continue;
      put(place, value);
      expect_all("word " + std::to_string(at) + " is " + std::to_string(value));
    }
  }
  EXPECT_GT(told_, 40U);
}

// What libraries before this have left: without a copy of the line words are found by trying, all but the key.
TEST_P(mended_log, is_whole_without_a_copy_of_the_first_line_of_the_root) {
  const std::uint64_t line = root();
  const std::uint64_t copy = line + log_layout::root_copy_at(shape().page_bytes());
  for (std::uint64_t at = 0; at < log_layout::root_line_bytes; at += 8) {
    restore();
    std::memset(&bytes[copy], 0, log_layout::root_line_bytes);
    if (at == 0) {
      EXPECT_EQ(findings(), "");
    }
    if (at == offsetof(log_layout::root, key)) continue;
    put(line + at, 0x5555'1234'9876'0001);
    expect_all("word " + std::to_string(at));
  }
}

TEST_P(mended_log, is_whole_after_any_damage_of_a_word_of_the_header_of_a_chunk) {
  const std::uint64_t first = chunks().front();
  for (const std::uint64_t chunk : some_chunks()) {
    for (std::uint64_t at = 0; at < offsetof(log_layout::chunk_header, reserved); at += 8) {
      restore();
      const std::uint64_t other = word(first + at);
      for (const std::uint64_t value :
           {std::uint64_t{0}, std::uint64_t{0x5555'1234'9876'0001}, word(chunk + at) ^ 1 << 5, other}) {
        restore();
        // One of 256 passes the check of the word: the test after this one.
        if (word(chunk + at) == value || word_holds(value, word_seed(chunk + at))) continue;
        put(chunk + at, value);
        expect_all("chunk at " + std::to_string(chunk) + ", word " + std::to_string(at) + " is " +
                   std::to_string(value));
      }
    }
  }
  EXPECT_GT(told_, 40U);
}

TEST_P(mended_log, is_whole_where_the_use_of_a_chunk_is_that_of_another_and_passes_its_check) {
  if (GetParam().killed) GTEST_SKIP() << "so it is when a chunk has just begun its next use";
  const std::uint64_t first = chunks().front();
  unsigned tried = 0;
  for (const std::uint64_t chunk : some_chunks()) {
    const std::uint64_t at = chunk + offsetof(log_layout::chunk_header, use);
    restore();
    const std::uint64_t other = word(first + offsetof(log_layout::chunk_header, use)) & checked_mask;
    if ((word(at) & checked_mask) == other) continue;
    put(at, seal_word(other, word_seed(at)));
    expect_all("chunk at " + std::to_string(chunk));
    ++tried;
  }
  EXPECT_GT(tried, 0U);  // of which many have been used as often as the first
}

// One of 256 words from elsewhere does.
TEST_P(mended_log, is_whole_where_the_place_of_what_was_saved_is_another_chunk_and_passes_its_check) {
  const std::uint64_t at = root() + offsetof(log_layout::root, saved);
  for (const std::uint64_t chunk : chunks()) {
    restore();
    if ((word(at) & checked_mask) == chunk) continue;
    put(at, seal_word(chunk, word_seed(at)));
    expect_all("chunk at " + std::to_string(chunk));
  }
}

TEST_P(mended_log, is_whole_where_a_use_is_another_word_of_its_chunk_and_passes_its_check) {
  if (GetParam().killed) GTEST_SKIP() << "so it is when a chunk has just begun its next use";
  const std::uint64_t session = word(root() + offsetof(log_layout::root, session)) & checked_mask;
  for (const std::uint64_t chunk : some_chunks()) {
    const std::uint64_t at = chunk + offsetof(log_layout::chunk_header, use);
    for (const std::size_t other :
         {offsetof(log_layout::chunk_header, owner), offsetof(log_layout::chunk_header, end)}) {
      restore();
      put(at, seal_word(word(chunk + other) & checked_mask, word_seed(at)));
      expect_all("chunk at " + std::to_string(chunk));
      const std::uint64_t mended = word_in(path("mended"), root() + offsetof(log_layout::root, session));
      EXPECT_LE(mended & checked_mask, session + 8) << chunk;  // it was opened
    }
  }
}

TEST_P(mended_log, is_whole_when_all_of_a_header_of_a_chunk_is_lost) {
  for (const std::uint64_t chunk : some_chunks()) {
    for (const char lost : {'\0', 'x'}) {
      restore();
      std::memset(&bytes[chunk], lost, sizeof(log_layout::chunk_header));
      expect_all("chunk at " + std::to_string(chunk) + " begins with " + std::to_string(lost));
    }
  }
}

TEST_P(mended_log, is_whole_when_the_page_map_says_that_nothing_is_there) {
  const geometry g = shape();
  unsigned runs = 0;
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    restore();
    if ((layout::unpack(word(g.entry_offset(page)) & checked_mask)).store != log_layout::owner) continue;
    put(g.entry_offset(page), 0);
    expect_all("the run at page " + std::to_string(page));
    ++runs;
  }
  EXPECT_GE(runs, 3U);
}

}  // namespace
}  // namespace nvm::tests
