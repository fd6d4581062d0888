// Pools with two sets of regions, for damage: contents after a repair, and its reports.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "../file_bytes.hpp"
#include "care/repair.hpp"
#include "edited_pool.hpp"
#include "nvm/kv.h"
#include "nvm/region.h"
#include "region/region.hpp"
#include "scratch.hpp"

namespace nvm::tests {

namespace regions = region::layout;

struct kept_in {
  const char* name;
  nvm_engine engine;
  bool ssd;
  bool killed;
};
inline void PrintTo(const kept_in& k, std::ostream* to) { *to << k.name; }

using contents = std::map<std::pair<std::string, std::uint64_t>, std::string>;  // by set and number
inline constexpr std::uint64_t many = 150;
inline constexpr const char* names[] = {"things", "a set with another name"};

inline std::string bytes_of(std::uint64_t rid, unsigned set) {
  std::string text = "region " + std::to_string(rid) + " of " + names[set] + " ";
  const std::uint64_t n = rid % 50 == 7 ? 9000 + rid : 30 + rid * 37 % 600;
  while (text.size() < n) text += static_cast<char>('a' + (rid * 7 + text.size() * 3) % 26);
  text.resize(n);
  return text;
}
inline bool write_one(nvm_regions* set, std::uint64_t rid, const std::string& bytes, unsigned mode) {
  return nvm_region_begin(set, rid, mode) == 0 && nvm_region_write(set, rid, 0, bytes.data(), bytes.size()) == 0 &&
         nvm_region_commit(set, rid) == 0;
}
inline bool fill_set(NVM_POOL* pool, unsigned which) {
  nvm_regions_options o{};
  o.replicas = 1 << 10;
  nvm_regions* set = nvm_regions_open(pool, names[which], &o);
  if (set == nullptr) return false;
  for (std::uint64_t i = 0; i < many + 10; ++i) {
    const std::uint64_t rid = 1 + i;
    const std::string bytes = bytes_of(rid, which);
    if (rid % 20 == 3) {
      if (nvm_region_create(set, rid, bytes.size()) != 0) return false;  // reads as zeros
      continue;
    }
    if (nvm_region_create_with(set, rid, bytes.data(), bytes.size(), 0) != 0) return false;
    const unsigned mode = rid % 20 == 5 ? NVM_REGION_REPLICA : rid % 20 == 9 ? NVM_REGION_ALTERNATE : 0;
    for (int again = 0; mode != 0 && again < 3; ++again) {
      if (!write_one(set, rid, bytes, mode)) return false;
    }
  }
  for (std::uint64_t rid = many + 1; rid <= many + 10; ++rid) {
    if (nvm_region_drop(set, rid) != 0) return false;
  }
  return true;
}
inline contents all_stored() {
  contents all;
  for (unsigned which = 0; which < 2; ++which) {
    for (std::uint64_t rid = 1; rid <= many; ++rid) {
      const std::string bytes = bytes_of(rid, which);
      all[{names[which], rid}] = rid % 20 == 3 ? std::string(bytes.size(), '\0') : bytes;
    }
  }
  return all;
}
inline bool read_set(NVM_POOL* pool, const std::string& name, contents& all) {
  nvm_regions_options o{};
  o.mode = 1;
  nvm_regions* set = nvm_regions_open(pool, name.c_str(), &o);
  if (set == nullptr) return false;
  std::map<std::uint64_t, std::uint64_t> there;
  const auto add = [](std::uint64_t rid, std::uint64_t size, void* to) {
    (*static_cast<std::map<std::uint64_t, std::uint64_t>*>(to))[rid] = size;
    return 0;
  };
  if (nvm_region_each(set, add, &there) != 0) return false;
  for (const auto& [rid, size] : there) {
    std::string bytes(std::min<std::uint64_t>(size, 1 << 20), '?');
    if (nvm_region_read(set, rid, 0, bytes.data(), bytes.size()) != static_cast<std::int64_t>(bytes.size()))
      return false;
    all[{name, rid}] = bytes;
  }
  return true;
}
inline std::vector<std::string> sets_in(NVM_POOL* pool) {
  std::vector<std::string> all;
  const auto add = [](const char* name, std::uint64_t, void* to) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  EXPECT_EQ(nvm_regions_names(pool, add, &all), 0);
  return all;
}

class mended_regions : public testing::TestWithParam<kept_in>, protected edited_pool {
 protected:
  struct header_place {
    std::uint64_t at;
    std::uint64_t extent;
    unsigned in_class;
    std::uint64_t rid;
    regions::state where;
  };

  void SetUp() override {
    ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);
    const kept_in& k = GetParam();
    place_ = std::make_unique<scratch>(k.ssd);
    const pid_t maker = k.killed ? ::fork() : 0;
    if (maker == 0) {
      const bool made = make();
      if (k.killed) ::_exit(made ? 0 : 1);
      ASSERT_TRUE(made) << nvm_errormsg();
    } else {
      int how = -1;
      ASSERT_EQ(::waitpid(maker, &how, 0), maker);
      ASSERT_EQ(how, 0);
      // What the log of a killed pool has is brought home: nothing of it is damaged here.
      if (k.ssd) {
        NVM_POOL* pool = nvm_pool_open(path("made").c_str());
        ASSERT_NE(pool, nullptr);
        ASSERT_EQ(nvm_pool_close(pool), 0);
      }
    }
    begin_with(read_file(path("made")));
  }
  bool make() {
    const kept_in& k = GetParam();
    nvm_pool_options o{};
    o.size = o.capacity = 3 << 20;
    o.engine = k.engine;
    o.medium = k.ssd ? NVM_MEDIUM_SSD : direct_medium();
    NVM_POOL* pool = nvm_pool_create_with(path("made").c_str(), &o);
    if (pool == nullptr || !fill_set(pool, 0) || !fill_set(pool, 1)) return false;
    return k.killed || nvm_pool_close(pool) == 0;
  }
  [[nodiscard]] std::string path(const char* of) const { return place_->path(of); }

  [[nodiscard]] std::uint64_t directory() const {
    return word(anchor_word_at(shape(), 0, anchor_word::regions)) & checked_mask;
  }
  [[nodiscard]] std::uint64_t copy_of_directory() const {
    return directory() + regions::directory_copy_at(round_up(sizeof(regions::directory), shape().page_bytes()));
  }
  [[nodiscard]] std::uint64_t entry(unsigned i) const {
    return directory() + offsetof(regions::directory, entries) + i * sizeof(regions::set_entry);
  }
  [[nodiscard]] std::vector<std::pair<std::uint64_t, unsigned>> extents(bool of_partners = false) const {
    std::vector<std::pair<std::uint64_t, unsigned>> all;
    const geometry g = shape();
    for (std::uint64_t page = 0; page < g.size_pages; ++page) {
      const layout::page_entry e = layout::unpack(word(g.entry_offset(page)) & checked_mask);
      if (e.length_pages == 0 || e.protocol != layout::slot_protocol::region) continue;
      if (e.layout != layout::object_layout::region) continue;
      const unsigned c = region::class_of_extent(reinterpret_cast<const std::byte*>(bytes.data()), g.page_offset(page));
      if (c != regions::all_classes && regions::is_of_partners(c) == of_partners)
        all.push_back({g.page_offset(page), c});
    }
    return all;
  }
  [[nodiscard]] std::vector<header_place> headers() const {
    std::vector<header_place> all;
    for (const auto& [extent, c] : extents()) {
      for (std::uint64_t i = 0; i < regions::slots_in(8 * 4096, c); ++i) {
        regions::header h;
        const std::uint64_t at = extent + regions::slot_at(c, i);
        std::memcpy(&h, &bytes[at], sizeof h);
        if (h.seal != 0) all.push_back({at, extent, c, h.rid, regions::unpack(h).where});
      }
    }
    return all;
  }

  [[nodiscard]] std::int64_t faults() const {
    const std::string damaged = path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    return nvm_pool_check(damaged.c_str(), nullptr, nullptr, nullptr);
  }
  // What can be read after a repair of what is there now, and after it was found sound; it works afterwards.
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
    contents found;
    if (!done) return found;
    expect_sound(request.out);
    NVM_POOL* pool = nvm_pool_open(request.out.c_str());
    EXPECT_NE(pool, nullptr) << nvm_errormsg();
    if (pool == nullptr) return found;
    for (const std::string& name : sets_in(pool)) EXPECT_TRUE(read_set(pool, name, found)) << nvm_errormsg();
    work(pool);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    expect_sound(request.out);
    return found;
  }
  static void expect_sound(const std::string& path) {
    const auto tell = [](std::uint64_t at, const char* finding, void*) {
      ADD_FAILURE() << "offset " << at << ": " << finding;
    };
    EXPECT_EQ(nvm_pool_check(path.c_str(), tell, nullptr, nullptr), 0);
  }
  static void work(NVM_POOL* pool) {
    for (const std::string& name : sets_in(pool)) {
      nvm_regions* set = nvm_regions_open(pool, name.c_str(), nullptr);
      ASSERT_NE(set, nullptr);
      for (std::uint64_t rid = 5000; rid < 5050; ++rid) {
        const std::string b = bytes_of(rid, 0);
        EXPECT_EQ(nvm_region_create_with(set, rid, b.data(), b.size(), 0), 0) << nvm_errormsg();
      }
      for (std::uint64_t rid = 5000; rid < 5050; rid += 2) EXPECT_EQ(nvm_region_drop(set, rid), 0) << nvm_errormsg();
    }
  }
  [[nodiscard]] std::string notes(mending how) const {
    std::string text;
    for (const care::repair_note& n : report.notes) {
      if (n.how == how) text += n.what + "\n";
    }
    return text;
  }
  [[nodiscard]] bool tells(mending how, const std::string& what) const {
    return notes(how).find(what) != std::string::npos;
  }
  // Regions that are told to be lost: one by its header, or some in places.
  [[nodiscard]] std::uint64_t told_lost() const {
    const std::string text = notes(mending::lost);
    std::uint64_t n = 0;
    if (tells(mending::lost, "of which nothing can be told")) return all_stored().size();
    const std::regex counted{"what was in up to (\\d+) places|a region, whose header|: taken out"};
    for (std::sregex_iterator at{text.begin(), text.end(), counted}, end; at != end; ++at) {
      n += (*at)[1].matched ? std::stoull((*at)[1].str()) : 1;
    }
    return n;
  }
  // All that was stored, and nothing told to be lost.
  void expect_all(const std::string& what) {
    EXPECT_GT(faults(), 0) << what;
    EXPECT_EQ(mend(), all_stored()) << what;
    EXPECT_EQ(notes(mending::lost), "") << what;
  }
  // Of what is missing as much is told; nothing is there that was not.
  void expect_told(const contents& found, std::uint64_t most, const std::string& what) {
    const contents all = all_stored();
    std::uint64_t same = 0;
    for (const auto& [key, value] : found) {
      const auto was = all.find(key);
      ASSERT_NE(was, all.end()) << what << ": region " << key.second;
      if (was->second != value) {
        EXPECT_TRUE(tells(mending::kept, "region " + std::to_string(key.second))) << what;
      }
      ++same;
    }
    const std::uint64_t missing = all.size() - same;
    EXPECT_LE(missing, most) << what << ": " << notes(mending::lost);
    EXPECT_GE(told_lost(), missing) << what << ": " << notes(mending::lost);
  }

  // What opening the sets says.
  [[nodiscard]] std::string refused() const {
    const std::string damaged = path("damaged");
    write_file(damaged, bytes);
    EXPECT_EQ(::chmod(damaged.c_str(), 0600), 0);
    NVM_POOL* pool = nvm_pool_open(damaged.c_str());
    if (pool == nullptr) return nvm_errormsg();
    const bool opens = nvm_regions_open(pool, names[0], nullptr) != nullptr;
    std::string what = opens ? "" : nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0);
    return what;
  }
  // So many regions of one set are gone without a trace.
  void expect_missed(std::uint64_t gone, const std::string& what) {
    const std::string left = std::to_string(many - gone) + " regions are there, and " + std::to_string(many) + " were";
    const std::string why = refused();
    const bool is_told = why.find(left) != std::string::npos || why.find("extent of regions") != std::string::npos;
    EXPECT_TRUE(is_told) << what << ": " << why;
    EXPECT_GT(faults(), 0) << what;
    const contents found = mend();
    EXPECT_EQ(found.size(), 2 * many - gone) << what;
    const contents all = all_stored();
    // A page of zeros may have bytes of the region before, too, which carry no checksum.
    for (const auto& [key, value] : found) EXPECT_EQ(value.size(), all.at(key).size()) << what;
    EXPECT_TRUE(tells(mending::lost, left)) << what << ": " << notes(mending::lost);
  }

  care::repair_report report;
  std::unique_ptr<scratch> place_;
};

// The pools of all such tests.
inline auto pools_with_regions() {
  return testing::Values(kept_in{"undo", NVM_ENGINE_UNDO, false, false},
                         kept_in{"redo_killed", NVM_ENGINE_REDO, false, true},
                         kept_in{"ssd", NVM_ENGINE_UNDO, true, false});
}

}  // namespace nvm::tests
