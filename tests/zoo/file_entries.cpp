// F: files, mappings, time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "guarded.hpp"
#include "media/concept.hpp"
#include "model_files.hpp"

namespace nvm::zoo {
namespace {

using rule = finding::rule;
using std::uint64_t;

constexpr unsigned name = 0;
constexpr unsigned other_name = 1;

// The oracle gets the number of the file that has the name.
subject on_files(const char* title, std::function<void(machine&, model_files&)> run,
                 std::function<verdict(const model_files&, unsigned, const window&)> oracle) {
  subject s;
  s.name = title;
  s.image.resize(sizeof(files_image));
  s.run = [run = std::move(run)](machine& m) {
    model_files fs{m};
    run(m, fs);
  };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [oracle = std::move(oracle)](machine& m, const window& w) -> verdict {
    const model_files fs{m};
    const unsigned f = fs.find(name);
    return f == model_files::none ? fault("there is no file") : oracle(fs, f, w);
  };
  return s;
}

// A file that is there: whatever happens to it next is the first operation.
unsigned make_file(machine& m, model_files& fs, unsigned pages) {
  const unsigned f = fs.create(name);
  fs.allocate(f, pages);
  fs.sync_file(f);
  fs.sync_names();
  m.explore_from_here();
  return f;
}

// ---- syncs ----------------------------------------------------------------------------------------------------------

// Each operation stores to both pages of a mapped file.
enum class synced : std::uint8_t { all, first_page, begun };
subject mapped_stores(const char* title, synced what) {
  return on_files(
      title,
      [what](machine& m, model_files& fs) {
        const unsigned f = make_file(m, fs, 2);
        for (uint64_t i = 1; i <= 3; ++i) {
          m.op_begin();
          for (unsigned p = 0; p < 2; ++p) *fs.map(f, p, model_files::mapping::page_cache) = i;
          fs.sync_mapping(f, 0, what == synced::first_page ? 1 : 2,
                          what == synced::begun ? model_files::flush::async : model_files::flush::sync);
          m.op_end();
        }
      },
      [](const model_files& fs, unsigned f, const window& w) -> verdict {
        for (unsigned p = 0; p < 2; ++p) {
          const uint64_t there = fs.read(f, p, 0);
          if (there < w.promised || there > w.started)
            return fault("page " + std::to_string(p) + " is of operation " + std::to_string(there));
        }
        return pass();
      });
}
subject f76_async(twin t) { return mapped_stores("F76", is_buggy(t) ? synced::begun : synced::all); }
subject f76_part(twin t) { return mapped_stores("F76, part", is_buggy(t) ? synced::first_page : synced::all); }

// Each operation adds a page.
subject f78_size(twin t) {
  return on_files(
      "F78",
      [t](machine& m, model_files& fs) {
        const unsigned f = make_file(m, fs, 1);
        for (unsigned p = 1; p <= 3; ++p) {
          m.op_begin();
          fs.write(f, p, 0, 10 + p);
          if (is_buggy(t)) {
            fs.sync_bytes_only(f);
          } else {
            fs.sync_file(f);
          }
          m.op_end();
        }
      },
      [](const model_files& fs, unsigned f, const window& w) -> verdict {
        for (unsigned p = 1; p <= w.promised; ++p) {
          if (fs.read(f, p, 0) != 10 + p) return fault("page " + std::to_string(p) + " is not in the file");
        }
        return pass();
      });
}

// Each operation replaces the file by a new one, under another name first.
enum class replaced : std::uint8_t { in_order, name_before_bytes, name_not_synced };
subject replaced_file(const char* title, replaced how) {
  return on_files(
      title,
      [how](machine& m, model_files& fs) {
        make_file(m, fs, 1);
        for (uint64_t i = 1; i <= 3; ++i) {
          m.op_begin();
          const unsigned f = fs.create(other_name);
          for (unsigned w = 0; w < page_words; ++w) fs.write(f, 0, w, i);
          if (how != replaced::name_before_bytes) fs.sync_file(f);
          fs.rename(other_name, name);
          if (how != replaced::name_not_synced) fs.sync_names();
          m.op_end();
        }
      },
      [](const model_files& fs, unsigned f, const window& w) -> verdict {
        const uint64_t there = fs.read(f, 0, 0);
        if (there < w.promised || there > w.started) return fault("the file is of " + std::to_string(there));
        for (unsigned i = 1; i < page_words; ++i) {
          if (fs.read(f, 0, i) != there) return fault("the file is not whole");
        }
        return pass();
      });
}
subject f78_rename(twin t) {
  return replaced_file("F78, rename", is_buggy(t) ? replaced::name_before_bytes : replaced::in_order);
}
subject f78_directory(twin t) {
  return replaced_file("F78, directory", is_buggy(t) ? replaced::name_not_synced : replaced::in_order);
}

// A mapping on DAX whose pages get their blocks when they are touched first.
subject f88(twin t) {
  return on_files(
      "F88",
      [t](machine& m, model_files& fs) {
        const unsigned f = fs.create(name);
        fs.truncate(f, 3);
        fs.sync_file(f);
        fs.sync_names();
        m.explore_from_here();
        for (unsigned p = 0; p < 3; ++p) {
          m.op_begin();
          uint64_t* const word = fs.map(f, p, is_buggy(t) ? model_files::mapping::dax : model_files::mapping::dax_sync);
          *word = 10 + p;
          persist(m.media(), word, 8, edge{"zoo/F88"});
          m.op_end();
        }
      },
      [](const model_files& fs, unsigned f, const window& w) -> verdict {
        for (unsigned p = 0; p < w.promised; ++p) {
          if (fs.read(f, p, 0) != 10 + p) return fault("no block of the file has page " + std::to_string(p));
        }
        return pass();
      });
}

// ---- pages that are not there ---------------------------------------------------------------------------------------

constexpr std::size_t page_bytes = 4096;

// A mapped file of a file system with so many pages of space.  A page after the end of what is really there faults as
// one in a hole does for which there is no space.
class small_disk {
 public:
  explicit small_disk(std::size_t pages_free)
      : file_{::memfd_create("holdfast-zoo", MFD_CLOEXEC)}, bytes_free_{pages_free * page_bytes} {
    if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(bytes_free_)) != 0) ADD_FAILURE() << "no file in memory";
  }
  // A file of a real one, full when `bytes_free` are in use.
  small_disk(int file, std::size_t bytes_free) : file_{file}, bytes_free_{bytes_free}, real_{true} {}
  ~small_disk() {
    if (base_ != MAP_FAILED) ::munmap(base_, mapped_);
    ::close(file_);
  }
  small_disk(const small_disk&) = delete;
  small_disk& operator=(const small_disk&) = delete;

  // Space for the first `bytes` of the file.
  bool allocate(std::size_t bytes) {
    return real_ ? ::fallocate(file_, 0, 0, static_cast<off_t>(bytes)) == 0 : bytes <= bytes_free_;
  }
  // The file is so long, its pages are holes.
  void make_holes(std::size_t bytes) {
    if (real_ && ::ftruncate(file_, static_cast<off_t>(bytes)) != 0) ADD_FAILURE() << "no file";
  }
  std::byte* map(std::size_t bytes) {
    if (base_ == MAP_FAILED) base_ = ::mmap(nullptr, mapped_ = bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    return base_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(base_);
  }

 private:
  int file_;
  std::size_t bytes_free_;
  bool real_ = false;
  void* base_ = MAP_FAILED;
  std::size_t mapped_ = 0;
};

constexpr std::size_t wanted_pages = 4;
verdict fill(small_disk& disk, twin t) {
  constexpr std::size_t bytes = wanted_pages * page_bytes;
  if (is_buggy(t)) {
    disk.make_holes(bytes);
  } else if (!disk.allocate(bytes)) {
    return pass();  // no space: the caller is told
  }
  std::byte* const base = disk.map(bytes);
  if (base == nullptr) return fault("no mapping");
  for (std::size_t p = 0; p < wanted_pages; ++p) base[p * page_bytes] = std::byte{7};
  return pass();
}
subject fill_of(const char* title, const std::shared_ptr<small_disk>& disk, twin t) {
  return guarded(title, [disk, t] { return fill(*disk, t); });
}
report f79(twin t, const options& o) {
  return explore_each(
      wanted_pages + 1, [t](std::size_t free) { return fill_of("F79", std::make_shared<small_disk>(free), t); }, o);
}

// The same on a tmpfs that is nowhere mounted.
TEST(zoo_files, a_store_into_a_hole_of_a_full_file_system_is_reported) {
  const auto full_disk = []() -> std::shared_ptr<small_disk> {
    const auto system = static_cast<int>(::syscall(SYS_fsopen, "tmpfs", 0));
    if (system < 0) return nullptr;
    constexpr unsigned set_string = 1, create = 6;  // of fsconfig(2)
    int file = -1;
    if (::syscall(SYS_fsconfig, system, set_string, "size", "8k", 0) == 0 &&
        ::syscall(SYS_fsconfig, system, create, nullptr, nullptr, 0) == 0) {
      const auto mount = static_cast<int>(::syscall(SYS_fsmount, system, 0, 0));
      if (mount >= 0) {
        file = ::openat(mount, "pool", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ::close(mount);
      }
    }
    ::close(system);
    return file < 0 ? nullptr : std::make_shared<small_disk>(file, 2 * page_bytes);
  };
  const auto first = full_disk();
  if (first == nullptr) GTEST_SKIP() << "no tmpfs of our own: " << std::strerror(errno);
  options o;
  o.print_violations = false;
  const report buggy = explore::explore(fill_of("F79, really", first, twin::buggy), o);
  ASSERT_TRUE(buggy.finds_violation());
  EXPECT_NE(buggy.violations[0].what.find("SIGBUS"), std::string::npos) << buggy.text();
  EXPECT_TRUE(explore::explore(fill_of("F79, really", full_disk(), twin::correct), o).clean());
}

// A file of which somebody cuts off pages while it is read.
class cut_file {
 public:
  cut_file() : file_{::memfd_create("holdfast-zoo", MFD_CLOEXEC)} {
    void* const p = ::mmap(nullptr, wanted_pages * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (p == MAP_FAILED) ADD_FAILURE() << "no mapping";
    mapped_ = static_cast<uint64_t*>(p);
  }
  ~cut_file() {
    ::munmap(mapped_, wanted_pages * page_bytes);
    ::close(file_);
  }
  cut_file(const cut_file&) = delete;
  cut_file& operator=(const cut_file&) = delete;

  void make_whole() {
    cut(wanted_pages);
    for (std::size_t p = 0; p < wanted_pages; ++p) mapped_[p * page_bytes / 8] = 10 + p;
  }
  void cut(std::size_t pages) {
    if (::ftruncate(file_, static_cast<off_t>(pages * page_bytes)) != 0) ADD_FAILURE() << "no file";
  }
  // The page's first word; nullopt: there is no such page, and the caller is told.
  [[nodiscard]] std::optional<uint64_t> read(std::size_t page, twin t) const {
    if (is_buggy(t)) return mapped_[page * page_bytes / 8];  // it was there when the file was opened
    uint64_t word = 0;
    if (::pread(file_, &word, 8, static_cast<off_t>(page * page_bytes)) != 8) return std::nullopt;
    return word;
  }

 private:
  int file_;
  uint64_t* mapped_;
};
report f80(twin t, const options& o) {
  const auto file = std::make_shared<cut_file>();
  return explore_each(
      wanted_pages * (wanted_pages + 1),
      [=](std::size_t i) {
        return guarded("F80", [=]() -> verdict {
          file->make_whole();
          for (std::size_t p = 0; p < wanted_pages; ++p) {
            if (p == i % wanted_pages) file->cut(i / wanted_pages);
            const auto word = file->read(p, t);
            if (word && *word != 10 + p) return fault("page " + std::to_string(p) + " reads as something else");
          }
          return pass();
        });
      },
      o);
}

// ---- copies of a pool -----------------------------------------------------------------------------------------------

// Pools in files of which one may become a copy of the other.  Persistent pointers name a pool by its id.
class open_pools {
 public:
  struct pool {
    uint64_t id;
    uint64_t root;
    bool open;
  };
  explicit open_pools(twin t) : twin_{t} {}

  void copy() {
    if (pools_[1].open) return;
    pools_[1] = {pools_[0].id, pools_[0].root, false};
  }
  bool open(unsigned i) {
    if (!is_buggy(twin_) && find(pools_[i].id) != nullptr && !pools_[i].open) return false;
    pools_[i].open = true;
    return true;
  }
  void close(unsigned i) { pools_[i].open = false; }
  void put(unsigned i, uint64_t value) { find(pools_[i].id)->root = value; }
  [[nodiscard]] const pool& operator[](unsigned i) const { return pools_[i]; }

 private:
  pool* find(uint64_t id) {
    for (pool& p : pools_) {
      if (p.open && p.id == id) return &p;
    }
    return nullptr;
  }
  twin twin_;
  pool pools_[2] = {{100, 0, false}, {200, 0, false}};
};
report f85(twin t, const options&) {
  static constexpr const char* names[] = {"copy", "open 0", "open 1", "put 0", "put 1", "close 0", "close 1"};
  return every_history("F85", names, 5, [t](std::span<const unsigned> history) -> verdict {
    open_pools pools{t};
    uint64_t expected[2] = {};
    uint64_t next = 1;
    for (const unsigned e : history) {
      const unsigned i = (e - 1) % 2;
      if (e == 0) {
        if (!pools[1].open) expected[1] = expected[0];
        pools.copy();
      } else if (e <= 2) {
        if (!pools.open(i) && (pools[0].id != pools[1].id || !pools[1 - i].open)) return fault("refused for nothing");
      } else if (e <= 4) {
        if (!pools[i].open) continue;
        pools.put(i, expected[i] = next++);
      } else {
        pools.close(i);
      }
      for (const unsigned k : {0U, 1U}) {
        if (pools[k].root != expected[k]) return fault("pool " + std::to_string(k) + " has another one's root");
      }
    }
    return pass();
  });
}

// ---- time -----------------------------------------------------------------------------------------------------------

enum class expiry : std::uint8_t { by_latest_time, by_wall_clock, by_age };
// An entry that is gone when its time is over, in a pool that is opened again and again.
class expiring {
 public:
  static constexpr uint64_t lives = 4;

  expiring(expiry how, const uint64_t& wall) : how_{how}, wall_{wall} {}
  void put() {
    pool_.made = time();
    pool_.there = true;
  }
  bool get() {
    const uint64_t t = time();
    return pool_.there && (how_ == expiry::by_age ? t - pool_.made <= lives : t < pool_.made + lives);
  }

 private:
  uint64_t time() {
    if (how_ != expiry::by_latest_time) return wall_;
    return pool_.latest = std::max(pool_.latest, wall_);
  }
  expiry how_;
  const uint64_t& wall_;
  struct {
    bool there = false;
    uint64_t made = 0;
    uint64_t latest = 0;
  } pool_;
};
report expiring_entries(const char* title, expiry how) {
  static constexpr const char* names[] = {"put", "get", "+1", "+3", "-2", "-50"};
  static constexpr int steps[] = {0, 0, 1, 3, -2, -50};
  return every_history(title, names, 7, [how](std::span<const unsigned> history) -> verdict {
    uint64_t wall = 1000;
    expiring entry{how, wall};
    bool there = false;
    // Of the clock, whenever somebody looked at it: the latest, what it was at put, the latest since.
    uint64_t latest = 0, at_put = 0, latest_then = 0, since_put = 0;
    for (const unsigned e : history) {
      wall += static_cast<uint64_t>(steps[e]);
      if (e > 1) continue;
      latest = std::max(latest, wall);
      if (e == 0) {
        entry.put();
        there = true;
        at_put = since_put = wall;
        latest_then = latest;
        continue;
      }
      since_put = std::max(since_put, wall);
      const bool found = entry.get();
      if (found && !there) return fault("an entry that was gone is back");
      if (!found && there && since_put < at_put + expiring::lives) return fault("gone before its time");
      if (found && since_put > latest_then + expiring::lives) return fault("there after its time");
      there = found;
    }
    return pass();
  });
}
report f87_back(twin t, const options&) {
  return expiring_entries("F87", is_buggy(t) ? expiry::by_wall_clock : expiry::by_latest_time);
}
report f87_early(twin t, const options&) {
  return expiring_entries("F87, age", is_buggy(t) ? expiry::by_age : expiry::by_latest_time);
}

}  // namespace

std::span<const entry> file_entries() {
  static const entry all[] = {
      {.number = 76,
       .title = "MS_ASYNC taken as durable",
       .make = f76_async,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 76,
       .title = "sync of a part of what was stored",
       .make = f76_part,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 78,
       .title = "size and extents of new blocks not synced",
       .make = f78_size,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 78, .title = "rename of a file that is not synced", .make = f78_rename, .tiers = t1_t3},
      {.number = 78,
       .title = "directory not synced after a rename",
       .make = f78_directory,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
      {.number = 79, .title = "store into a hole of a full file system", .hunt = f79},
      {.number = 80, .title = "file truncated under its mapping", .hunt = f80},
      {.number = 85, .title = "copy of a pool opened beside it", .hunt = f85},
      {.number = 87, .title = "time goes backward: expired, and back", .hunt = f87_back},
      {.number = 87, .title = "time goes backward: expired early", .hunt = f87_early},
      {.number = 88,
       .title = "DAX mapping without MAP_SYNC",
       .make = f88,
       .breaks = {rule::not_durable_at_end},
       .tiers = t1_t2},
  };
  return all;
}

}  // namespace nvm::zoo
