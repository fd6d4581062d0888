// A pool with one lock-free structure of known contents, its file in memory for damage, and the result of a repair.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../file_bytes.hpp"
#include "care/mend_extents.hpp"
#include "care/repair.hpp"
#include "edited_pool.hpp"
#include "lockfree/hash_table.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "lockfree/rebuilt.hpp"
#include "lockfree/skip_list.hpp"
#include "lockfree/tree.hpp"
#include "nvm/store_lockfree.h"
#include "scratch.hpp"
#include "space/cluster_image.hpp"
#include "space/space.hpp"

namespace nvm::tests {

inline constexpr std::uint64_t keys = 120;
inline constexpr const char* name = "structure";
namespace lf = lockfree::layout;

struct subject {
  const char* name;
  std::uint32_t kind;
  std::uint32_t flags;
  nvm_engine engine = NVM_ENGINE_UNDO;
  bool ssd = false;
  bool killed = false;
  std::uint64_t many = keys;
  bool in_store = false;  // in object store "home", which is the only one
  [[nodiscard]] bool of_bytes() const { return (flags & NVM_LF_BYTES) != 0; }
  [[nodiscard]] bool is_volatile() const { return (flags & NVM_LF_VOLATILE_LINKS) != 0; }
};

// What is in one, by key: value, and mark of bytes.
using entries = std::map<std::string, std::pair<std::string, std::uint64_t>>;

inline std::string key_of(const subject& s, std::uint64_t k) {
  if (s.of_bytes()) return "key-" + std::to_string(1000 + k * 7);
  const std::uint64_t word = 1000 + k * 7;
  return {reinterpret_cast<const char*>(&word), sizeof word};
}
inline std::string value_of(const subject& s, std::uint64_t k) {
  if (s.of_bytes()) return "the value of " + std::to_string(1000 + k * 7) + std::string(k % 5 * 40, '.');
  const std::uint64_t word = 0x7711'0000'0000 + k;
  return {reinterpret_cast<const char*>(&word), sizeof word};
}
inline std::uint64_t word_of(const std::string& text) {
  std::uint64_t word = 0;
  std::memcpy(&word, text.data(), sizeof word);
  return word;
}

inline bool put(nvm_lf* lf, const subject& s, const std::string& key, const std::string& value, std::uint64_t mark) {
  if (!s.of_bytes()) return nvm_lf_put64(lf, word_of(key), word_of(value), 0) > 0;
  return nvm_lf_put(lf, key.data(), key.size(), value.data(), value.size(), mark, 0) > 0;
}
inline int take(nvm_lf* lf, const subject& s, const std::string& key) {
  return s.of_bytes() ? nvm_lf_remove(lf, key.data(), key.size()) : nvm_lf_remove64(lf, word_of(key));
}
inline nvm_lf* open(NVM_POOL* pool, const subject& s, bool makes, const char* of = name) {
  nvm_lf_options o{};
  o.mode = makes ? 0 : 1;
  o.kind = s.kind;
  o.flags = s.flags;
  o.expected = 16;
  if (!s.in_store) return nvm_lf_open(pool, of, &o);
  nvm_store* const home = nvm_store_attach(pool, "home", makes ? NVM_STORE_CREATE : 0);
  return home == nullptr ? nullptr : nvm_lf_open_in(home, of, &o);
}

// Keys 0 to `many` - 1; of those after, all were removed, and every fifth was replaced.
inline bool fill(NVM_POOL* pool, const subject& s) {
  nvm_lf* lf = open(pool, s, true);
  if (lf == nullptr) return false;
  for (std::uint64_t k = 0; k < s.many + 20; ++k) {
    const bool comes_twice = k % 5 == 0;
    if (comes_twice && !put(lf, s, key_of(s, k), value_of(s, k + 1), 0)) return false;
    if (!put(lf, s, key_of(s, k), value_of(s, k), k)) return false;
  }
  for (std::uint64_t k = s.many; k < s.many + 20; ++k) {
    if (take(lf, s, key_of(s, k)) != 1) return false;
  }
  return true;
}
inline entries stored(const subject& s) {
  entries all;
  for (std::uint64_t k = 0; k < s.many; ++k) all[key_of(s, k)] = {value_of(s, k), s.of_bytes() ? k : 0};
  return all;
}
inline nvm_pool_options options_of(const subject& s) {
  nvm_pool_options o{};
  o.size = o.capacity = s.in_store ? 4 << 20 : 1 << 20;
  o.engine = s.engine;
  o.medium = s.ssd ? NVM_MEDIUM_SSD : direct_medium();
  o.log_bytes = s.ssd ? 1 << 16 : 0;
  return o;
}

class pools : public edited_pool {
 public:
  explicit pools(const subject& s) : s_{s}, place_{s.ssd} {
    const std::string path = place_.path("made");
    const pid_t maker = s.killed ? ::fork() : 0;
    if (maker == 0) {
      const nvm_pool_options o = options_of(s);
      NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
      const bool made = pool != nullptr && fill(pool, s);
      if (s.killed) ::_exit(made ? 0 : 1);
      EXPECT_TRUE(made) << nvm_errormsg();
      EXPECT_EQ(nvm_pool_close(pool), 0);
    } else {
      int how = -1;
      EXPECT_EQ(::waitpid(maker, &how, 0), maker);
      EXPECT_EQ(how, 0);
    }
    begin_with(read_file(path));
  }

  void put_content(std::uint64_t at, std::uint64_t content) { put(at, seal_word(content, word_seed(at))); }
  [[nodiscard]] std::uint64_t find(const std::string& what, std::uint64_t from = 0) const {
    const auto at =
        std::search(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), what.begin(), what.end());
    return at == bytes.end() ? 0 : static_cast<std::uint64_t>(at - bytes.begin());
  }
  // Offsets of the words that name the directory.
  [[nodiscard]] std::vector<std::uint64_t> names_of_directory() const {
    const geometry g = shape();
    if (!s_.in_store) return {anchor_word_at(g, 0, anchor_word::lockfree), anchor_word_at(g, 1, anchor_word::lockfree)};
    for (const cluster& c : clusters()) {
      if (c.first) return {g.page_offset(c.page) + offsetof(layout::cluster_header, structures)};
    }
    return {};
  }
  [[nodiscard]] std::uint64_t directory() const { return word(names_of_directory().front()) & checked_mask; }
  // Of the object store, before anything was damaged.
  [[nodiscard]] std::vector<cluster> clusters() const {
    const geometry g = shape();
    const auto* const base = reinterpret_cast<const std::byte*>(sound().data());
    std::vector<cluster> all;
    care::each_good_entry(base, g, [&](std::uint64_t page, const layout::page_entry& e, std::uint32_t) {
      cluster c;
      if (e.kind != layout::page_kind::cluster) return;
      EXPECT_EQ(cluster_fault(base, g, page, e.length_pages, c).what, nullptr);
      all.push_back(c);
    });
    return all;
  }
  // Offset of the word that says what a page is: in the page map, or in the map of its cluster.
  [[nodiscard]] std::uint64_t entry_of(std::uint64_t page) const {
    const geometry g = shape();
    for (const cluster& c : clusters()) {
      if (c.has(page)) return c.entry_offset(g, page);
    }
    return g.entry_offset(page);
  }
  // The parts of it that say what the structure's pages are: offset and bytes of each.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> maps() const {
    if (!s_.in_store) return {{shape().page_map_offset, 4096}};
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    for (const cluster& c : clusters()) all.emplace_back(c.entry_offset(shape(), c.page), c.pages * 8);
    return all;
  }
  [[nodiscard]] std::uint64_t entry() const { return directory() + offsetof(lf::directory, entries); }
  [[nodiscard]] std::uint64_t root() const { return word(entry() + offsetof(lf::entry, root)) & checked_mask; }
  // Head of the node of a key that is linked.
  [[nodiscard]] std::uint64_t head_of(std::uint64_t k) const {
    const std::uint64_t before = s_.of_bytes() ? (s_.is_volatile() ? 40 : 32) : (s_.is_volatile() ? 24 : 16);
    const std::string what = s_.of_bytes() ? key_of(s_, k) + value_of(s_, k) : value_of(s_, k);
    for (std::uint64_t at = find(what); at != 0; at = find(what, at + 1)) {
      if (at % 8 == 0 && leads_to(at - before) != 0) return at - before;
      if (at % 8 == 0 && s_.is_volatile()) return at - before;
    }
    ADD_FAILURE() << "no node of key " << k;
    return 0;
  }
  // Where a word is that leads there, and is not marked.
  [[nodiscard]] std::uint64_t leads_to(std::uint64_t head) const {
    for (std::uint64_t at = shape().data_offset; at + 8 <= bytes.size(); at += 8) {
      const std::uint64_t w = word(at);
      if (lockfree::offset_of(w) == head && (w & (lockfree::gone | lockfree::cell)) == 0) return at;
    }
    return 0;
  }

  // What the check finds in what is there now.
  [[nodiscard]] std::int64_t faults() const {
    const std::string damaged = place_.path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    return nvm_pool_check(damaged.c_str(), nullptr, nullptr, nullptr);
  }
  // What is there now, open.
  [[nodiscard]] NVM_POOL* open_damaged() const {
    const std::string damaged = place_.path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    return nvm_pool_open(damaged.c_str());
  }
  // Repairs what is there now; what the result holds, after it was found sound, worked with and found sound.
  entries mend(const char* of = name) {
    const std::string damaged = place_.path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    care::repair_request request;
    request.path = damaged;
    request.out = place_.path("mended");
    request.accept_copy = true;
    ::unlink(request.out.c_str());
    report = {};
    const status done = care::repair_pool(request, report);
    EXPECT_TRUE(done) << last_message();
    entries found;
    if (!done) return found;
    EXPECT_EQ(check(request.out), 0);
    NVM_POOL* pool = nvm_pool_open(request.out.c_str());
    EXPECT_NE(pool, nullptr) << nvm_errormsg();
    if (pool == nullptr) return found;
    nvm_lf* lf = open(pool, s_, false, of);
    if (lf != nullptr) {
      found = all_of(lf);
      work(lf, found);
    }
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    EXPECT_EQ(check(request.out), 0) << "after use";
    return found;
  }
  [[nodiscard]] std::string notes(mending how) const {
    std::string text;
    for (const care::repair_note& n : report.notes) {
      constexpr std::string_view home = "store 1: ";
      if (n.how == how) text += n.what.substr(s_.in_store && n.what.starts_with(home) ? home.size() : 0) + "\n";
    }
    return text;
  }
  [[nodiscard]] bool tells(mending how, const std::string& what) const {
    return notes(how).find(what) != std::string::npos;
  }

  care::repair_report report;

 private:
  static std::int64_t check(const std::string& path) {
    return nvm_pool_check(
        path.c_str(),
        [](std::uint64_t at, const char* finding, void*) { ADD_FAILURE() << "offset " << at << ": " << finding; },
        nullptr, nullptr);
  }
  [[nodiscard]] entries all_of(nvm_lf* lf) const {
    entries all;
    if (!s_.of_bytes()) {
      EXPECT_EQ(nvm_lf_each64(
                    lf,
                    [](std::uint64_t key, std::uint64_t value, void* to) {
                      const auto text = [](std::uint64_t& w) {
                        return std::string{reinterpret_cast<const char*>(&w), sizeof w};
                      };
                      (*static_cast<entries*>(to))[text(key)] = {text(value), 0};
                      return 0;
                    },
                    &all),
                0);
    } else {
      std::uint64_t cursor = 0;
      do {
        const auto add = [](const nvm_lf_entry* e, void* to) {
          (*static_cast<entries*>(to))[std::string{static_cast<const char*>(e->key), e->key_bytes}] = {
              std::string{static_cast<const char*>(e->value), e->value_bytes}, e->mark};
          return 0;
        };
        EXPECT_EQ(nvm_lf_scan(lf, &cursor, 50, add, &all), 0);
      } while (cursor != 0);
    }
    std::uint64_t count = 0;
    EXPECT_EQ(nvm_lf_get_count(lf, &count), 0);
    EXPECT_EQ(count, all.size());
    return all;
  }
  void work(nvm_lf* lf, const entries& found) const {
    for (const auto& [key, value] : found) {
      if (s_.of_bytes()) {
        EXPECT_EQ(nvm_lf_get(lf, key.data(), key.size(), nullptr, 0, nullptr), 1);
      } else {
        std::uint64_t word = 0;
        EXPECT_EQ(nvm_lf_get64(lf, word_of(key), &word), 1);
        EXPECT_EQ(word, word_of(value.first));
      }
    }
    for (std::uint64_t k = 2 * s_.many; k < 2 * s_.many + keys; ++k)
      EXPECT_TRUE(tests::put(lf, s_, key_of(s_, k), value_of(s_, k), k));
    for (std::uint64_t k = 0; k < keys; k += 2) {
      const std::string key = key_of(s_, k);
      EXPECT_EQ(take(lf, s_, key), found.contains(key) ? 1 : 0) << k;
    }
  }

  const subject s_;
  scratch place_;
};

}  // namespace nvm::tests
