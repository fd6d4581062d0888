// F: devices.
#include <gtest/gtest.h>

#include <algorithm>

#include "guarded.hpp"
#include "media/memory_device.hpp"
#include "poisoned_memory.hpp"
#include "swapping_store.hpp"

namespace nvm::zoo {
namespace {

using explore::digest_history;
using explore::word_hash;
using std::uint64_t;

// ---- failed syncs ---------------------------------------------------------------------------------------------------

// Each of a few entries is a sector of its own; it is acknowledged when it is synced.
report f77(twin t, const options&) {
  constexpr uint64_t entries = 6;
  uint64_t tried = 0;
  for (uint64_t k = 0;; ++k) {
    memory_device device{entries * sector_bytes};
    device.fail_call(k);
    uint64_t acknowledged = 0;
    for (uint64_t i = 1; i <= entries; ++i) {
      if (!device.write((i - 1) * sector_bytes, &i, 8)) break;
      bool synced = device.sync(edge{"zoo/F77"}).has_value();
      if (!synced && is_buggy(t)) synced = device.sync(edge{"zoo/F77 again"}).has_value();
      if (!synced) break;  // nothing is believed from here on
      acknowledged = i;
    }
    const uint64_t calls = device.calls();
    for (const auto& left : {device.crash_losing_all_unsynced(), device.crash_keeping_all()}) {
      ++tried;
      for (uint64_t i = 1; i <= acknowledged; ++i) {
        uint64_t there;
        std::memcpy(&there, &left[(i - 1) * sector_bytes], 8);
        if (there != i)
          return judged("F77", tried, fault("entry " + std::to_string(i) + " is lost, it was acknowledged"));
      }
    }
    if (calls < k) return judged("F77", tried, pass());
  }
}

// ---- devices that lie -----------------------------------------------------------------------------------------------

// A device one of whose writes is torn, lost, or goes elsewhere; it reports no error.
class lying_device final : public block_device {
 public:
  enum class lie : std::uint8_t { none, torn, lost, misdirected };
  explicit lying_device(std::size_t sectors) : device_{sectors * sector_bytes} {}
  ~lying_device() = default;

  // The k-th write from now on, from 1; misdirected: to that sector.
  void tell(lie l, uint64_t k, uint64_t sector) {
    lie_ = l;
    at_ = k;
    sector_ = sector;
  }
  status write(uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    if (at_ == 0 || --at_ != 0 || lie_ == lie::none) return device_.write(offset, from, bytes, s);
    if (lie_ == lie::lost) return {};
    return device_.write(lie_ == lie::misdirected ? sector_ * sector_bytes : offset, from,
                         lie_ == lie::torn ? bytes / 2 : bytes, s);
  }
  status read(uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return device_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override { return device_.sync(e); }
  result<uint64_t> size() noexcept override { return device_.size(); }

 private:
  memory_device device_;
  lie lie_ = lie::none;
  uint64_t at_ = 0;
  uint64_t sector_ = 0;
};

struct block_mistakes {
  bool no_sum = false;
  bool no_generation = false;
  bool no_address = false;
};
// A few blocks and a table that says which version of each is the last.
class block_store {
 public:
  static constexpr uint64_t blocks = 4;
  static constexpr uint64_t sectors = 1 + blocks;
  static constexpr uint64_t payload_words = 62;
  using payload = std::array<uint64_t, payload_words>;

  block_store(block_device& device, block_mistakes wrong) : device_{device}, wrong_{wrong} {}

  status format() {
    for (uint64_t i = 0; i < blocks; ++i) {
      if (auto s = put(i, {}); !s) return s;
    }
    return {};
  }
  // errc::corrupt: the device does not hold what it was given.
  status open() {
    table found;
    if (auto s = device_.read(0, &found, sizeof found); !s) return s;
    if (found.sum != checksum(&found, offsetof(table, sum), blocks)) return fail(errc::corrupt, "the table's sum");
    table_ = found;
    return {};
  }
  status put(uint64_t i, const payload& content) {
    block b{++table_.generations[i], content, 0};
    b.sum = sum_of(b, i);
    if (auto s = device_.write((1 + i) * sector_bytes, &b, sizeof b); !s) return s;
    if (auto s = device_.sync(edge{"zoo/F82 block"}); !s) return s;
    table_.sum = checksum(&table_, offsetof(table, sum), blocks);
    if (auto s = device_.write(0, &table_, sizeof table_); !s) return s;
    return device_.sync(edge{"zoo/F82 table"});
  }
  result<payload> get(uint64_t i) {
    block b;
    if (auto s = device_.read((1 + i) * sector_bytes, &b, sizeof b); !s) return s.error();
    if (!wrong_.no_sum && b.sum != sum_of(b, i)) return fail(errc::corrupt, "a block's sum");
    if (!wrong_.no_generation && b.generation != table_.generations[i]) return fail(errc::corrupt, "an old block");
    return b.content;
  }

 private:
  struct table {
    uint64_t generations[blocks] = {};
    uint64_t rest[59] = {};
    uint64_t sum = 0;
  };
  struct block {
    uint64_t generation = 0;
    payload content = {};
    uint64_t sum = 0;
  };
  static_assert(sizeof(table) == sector_bytes && sizeof(block) == sector_bytes);
  [[nodiscard]] uint64_t sum_of(const block& b, uint64_t i) const {
    return checksum(&b, offsetof(block, sum), wrong_.no_address ? blocks + 1 : i);
  }
  block_device& device_;
  block_mistakes wrong_;
  table table_;
};

// Every lie about every write: what is read then is what was written, or an error.
report every_lie(const char* title, block_mistakes wrong) {
  using lie = lying_device::lie;
  constexpr uint64_t puts = 3 * block_store::blocks;
  uint64_t tried = 0;
  const auto look = [&](lie l, uint64_t k, uint64_t sector) -> verdict {
    ++tried;
    lying_device device{block_store::sectors};
    block_store written{device, wrong};
    if (!written.format()) return fault(last_message());
    block_store::payload expected[block_store::blocks] = {};
    device.tell(l, k, sector);
    for (uint64_t i = 0; i < puts; ++i) {
      block_store::payload& p = expected[i % block_store::blocks];
      p.fill(1 + i);
      if (!written.put(i % block_store::blocks, p)) return fault(last_message());
    }
    block_store store{device, wrong};
    const status opened = store.open();
    if (!opened) return l == lie::none ? fault("no lie, and an error") : pass();
    for (uint64_t i = 0; i < block_store::blocks; ++i) {
      const auto found = store.get(i);
      if (!found && l == lie::none) return fault("no lie, and an error");
      if (found && *found != expected[i]) return fault("block " + std::to_string(i) + " reads as something else");
    }
    return pass();
  };
  if (verdict v = look(lie::none, 0, 0)) return judged(title, tried, v);
  for (uint64_t k = 1; k <= 2 * puts; ++k) {
    if (verdict v = look(lie::torn, k, 0)) return judged(title, tried, v);
    if (verdict v = look(lie::lost, k, 0)) return judged(title, tried, v);
    for (uint64_t sector = 0; sector < block_store::sectors; ++sector) {
      if (verdict v = look(lie::misdirected, k, sector)) return judged(title, tried, v);
    }
  }
  return judged(title, tried, pass());
}
report f82_torn(twin t, const options&) { return every_lie("F82", {.no_sum = is_buggy(t)}); }
report f82_lost(twin t, const options&) { return every_lie("F82, lost", {.no_generation = is_buggy(t)}); }
report f82_misdirected(twin t, const options&) { return every_lie("F82, misdirected", {.no_address = is_buggy(t)}); }

// ---- bit rot --------------------------------------------------------------------------------------------------------

struct counted_values {
  uint64_t values[6];
  uint64_t count;
  uint64_t sum;
};
report f83(twin t, const options& o) {
  const auto sum_of = [t](const counted_values& x) {
    return checksum(&x, is_buggy(t) ? offsetof(counted_values, count) : offsetof(counted_values, sum), 83);
  };
  subject s = on<counted_values>(
      "F83", [](machine&, counted_values&) {},
      [](const counted_values& x, const window&) -> verdict {
        if (x.count != 4) return fault("another number of values");
        for (uint64_t i = 0; i < 4; ++i) {
          if (x.values[i] != 20 + i) return fault("another value");
        }
        return pass();
      });
  auto& x = *reinterpret_cast<counted_values*>(s.image.data());
  x = {.values = {20, 21, 22, 23}, .count = 4, .sum = 0};
  x.sum = sum_of(x);
  s.recover = [sum_of](machine& m) {
    const auto& x = *reinterpret_cast<const counted_values*>(m.base());
    return x.count <= std::size(x.values) && x.sum == sum_of(x) ? pass() : fault("the sum");
  };
  return explore_hostile_bytes(s, o);
}

// Blocks of a pool, a line each, with a sum.
struct summed_blocks {
  static constexpr std::size_t blocks = 4;
  struct block {
    alignas(64) uint64_t content[7];
    uint64_t sum;
  };
  block all[blocks];

  static uint64_t sum_of(const block& b, uint64_t pool, uint64_t i, twin t) {
    return checksum(b.content, sizeof b.content, is_buggy(t) ? 0 : mix_seed(pool, i));
  }
  void make(uint64_t pool, twin t) {
    for (uint64_t i = 0; i < blocks; ++i) {
      std::fill_n(all[i].content, 7, 10 * pool + i);
      all[i].sum = sum_of(all[i], pool, i, t);
    }
  }
};
// In the place of each block, each block of this pool and of another one.
report f83_place(twin t, const options& o) {
  constexpr std::size_t blocks = summed_blocks::blocks;
  summed_blocks pools[2];
  for (uint64_t pool = 0; pool < 2; ++pool) pools[pool].make(pool + 1, t);
  return explore_each(
      blocks * blocks * 2,
      [&](std::size_t i) {
        subject s = on<summed_blocks>(
            "F83, place", [](machine& m, summed_blocks&) { m.promise(); },
            [t](const summed_blocks& x, const window&) -> verdict {
              for (uint64_t b = 0; b < blocks; ++b) {
                if (x.all[b].sum != summed_blocks::sum_of(x.all[b], 1, b, t)) return pass();  // refused
              }
              for (uint64_t b = 0; b < blocks; ++b) {
                if (x.all[b].content[0] != 10 + b) return fault("block " + std::to_string(b) + " is another one");
              }
              return pass();
            });
        auto& x = *reinterpret_cast<summed_blocks*>(s.image.data());
        x = pools[0];
        x.all[i % blocks] = pools[i / blocks / blocks].all[i / blocks % blocks];
        return s;
      },
      o);
}

// ---- poison ---------------------------------------------------------------------------------------------------------

// Words of metadata in page 0, the same once more in page 1; zero means something.  Page 2 is the user's.
class doubled_words {
 public:
  enum class care : std::uint8_t { all, none, repairs_in_part };
  static constexpr std::size_t words = 8;

  doubled_words(poisoned_memory& m, care how) : m_{m}, how_{how} {}
  void make() {
    for (std::size_t p = 0; p < poisoned_memory::pages; ++p) m_.clear(p);
    for (std::size_t w = 0; w < words; ++w) m_.page(0)[w] = m_.page(1)[w] = m_.page(2)[w] = 30 + w;
  }
  // Metadata; whichever copy is poisoned is mended.
  uint64_t get(std::size_t w) {
    if (how_ == care::none) return m_.page(0)[w];
    uint64_t word = 0;
    for (const std::size_t p : {0, 1}) {
      if (m_.read(&m_.page(p)[w], word)) continue;
      m_.clear(p);
      const std::size_t first = how_ == care::repairs_in_part ? w : 0;
      const std::size_t count = how_ == care::repairs_in_part ? 1 : words_of_page;
      std::memcpy(&m_.page(p)[first], &m_.page(1 - p)[first], count * 8);
    }
    return m_.page(0)[w];
  }
  // The user's; nullopt: lost, and the caller is told.
  std::optional<uint64_t> data(std::size_t w) {
    uint64_t word = 0;
    if (how_ == care::none) return m_.page(2)[w];
    return m_.read(&m_.page(2)[w], word) ? std::optional{word} : std::nullopt;
  }

 private:
  poisoned_memory& m_;
  care how_;
};
report every_page_poisoned(const char* title, doubled_words::care how, const options& o) {
  const auto memory = std::make_shared<poisoned_memory>();
  return explore_each(
      2 * (poisoned_memory::pages + 1),
      [=](std::size_t i) {
        const std::size_t page = i / 2;
        return guarded(title, [=]() -> verdict {
          doubled_words x{*memory, how};
          x.make();
          const bool really = i % 2 == 0 && page < poisoned_memory::pages && memory->poison_really(page);
          if (!really && page < poisoned_memory::pages && !memory->poison(page)) return fault("cannot poison a page");
          for (std::size_t w = 0; w < doubled_words::words; ++w) {
            if (x.get(w) != 30 + w) return fault("word " + std::to_string(w) + " is another one");
            const auto data = x.data(w);
            if (page == 2 ? data && *data != 30 + w : data != 30 + w) return fault("the user's words are others");
          }
          return pass();
        });
      },
      o);
}
report f81(twin t, const options& o) {
  return every_page_poisoned("F81", is_buggy(t) ? doubled_words::care::none : doubled_words::care::all, o);
}
report f81_clear(twin t, const options& o) {
  return every_page_poisoned("F81, clear",
                             is_buggy(t) ? doubled_words::care::repairs_in_part : doubled_words::care::all, o);
}

TEST(zoo_devices, the_kernel_poisons_pages) {
  poisoned_memory memory;
  if (!memory.poison_really(0)) GTEST_SKIP() << "no UFFDIO_POISON: " << std::strerror(errno);
  uint64_t word = 0;
  EXPECT_FALSE(memory.read(memory.page(0), word));
  EXPECT_TRUE(memory.read(memory.page(1), word));
  memory.clear(0);
  EXPECT_TRUE(memory.read(memory.page(0), word));
}

// ---- unsafe shutdown ------------------------------------------------------------------------------------------------

// A pool of one word on a device that counts the times when power went and it could not write back what it had.
class counted_device {
 public:
  enum class check : std::uint8_t { counts_of_open_pools, nothing, all_counts };
  explicit counted_device(check how) : how_{how} {}

  // Opens the pool.  False: refused, what it holds may not be what was written.
  bool open() {
    const bool same = pool_.device == device_ && pool_.count == count_;
    if (how_ == check::counts_of_open_pools && pool_.open && !same) return false;
    if (how_ == check::all_counts && !same) return false;
    pool_.device = device_;
    pool_.count = count_;
    pool_.open = true;
    return true;
  }
  void write(uint64_t value) {
    before_ = pool_.value;
    pool_.value = value;
  }
  void close() {
    pool_.open = false;
    before_ = pool_.value;
  }
  void lose_power() {
    ++count_;
    pool_.value = before_;
  }
  // The file is copied to a device that has its own history.
  void move() {
    ++device_;
    count_ = 1000 * device_;
  }
  [[nodiscard]] uint64_t value() const { return pool_.value; }

 private:
  check how_;
  uint64_t device_ = 1;
  uint64_t count_ = 5;
  struct {
    bool open = false;
    uint64_t device = 1;
    uint64_t count = 5;
    uint64_t value = 0;
  } pool_;
  uint64_t before_ = 0;  // what is there if the device loses what it holds
};
report shutdowns(const char* title, counted_device::check how) {
  static constexpr const char* names[] = {"open", "write", "close", "killed", "power lost", "moved"};
  return every_history(title, names, 6, [how](std::span<const unsigned> history) -> verdict {
    counted_device d{how};
    bool running = false;    // somebody has it open
    bool left_open = false;  // somebody had, and did not close it
    bool in_doubt = false;   // and something has happened to it then that may have lost data
    uint64_t written = 0;
    for (const unsigned e : history) {
      if (e == 0 && !running) {
        const bool opened = d.open();
        if (!opened) return in_doubt ? pass() : fault("refused, and nothing is lost");
        if (d.value() != written) return fault("opened, and a write is lost");
        running = true;
        left_open = in_doubt = false;
      } else if (e == 1 && running) {
        d.write(++written);
      } else if (e == 2 && running) {
        d.close();
        running = false;
      } else if (e == 3 && running) {
        running = false;
        left_open = true;
      } else if (e == 4) {
        d.lose_power();
        in_doubt = in_doubt || running || left_open;
        left_open = left_open || running;
        running = false;
      } else if (e == 5 && !running) {
        d.move();
        in_doubt = in_doubt || left_open;
      }
    }
    return pass();
  });
}
using check = counted_device::check;
report f84_ignored(twin t, const options&) {
  return shutdowns("F84", is_buggy(t) ? check::nothing : check::counts_of_open_pools);
}
report f84_false_alarm(twin t, const options&) {
  return shutdowns("F84, moved", is_buggy(t) ? check::all_counts : check::counts_of_open_pools);
}

// ---- swapping -------------------------------------------------------------------------------------------------------

template <class Get>
uint64_t digest_of_values(Get get) {
  uint64_t d = 0;
  for (uint64_t k = 0; k < keys; ++k) d += word_hash(k, get(k));
  return d;
}
subject swapping(const char* title, swap_mistake wrong) {
  const auto history = std::make_shared<digest_history>();
  subject s = on<swap_image>(
      title,
      [=](machine& m, swap_image& x) {
        lines_of_flash flash{m, x.flash};
        swapping_store store{m, x.memory, flash, wrong};
        std::array<uint64_t, keys> expected{};
        const auto note = [&] { history->state(digest_of_values([&](uint64_t k) { return expected[k]; })); };
        history->clear();
        note();
        for (uint64_t i = 1; i <= 10; ++i) {
          m.op_begin();
          (void)store.put(key_of_put(i), i).has_value();
          m.op_end();
          expected[key_of_put(i)] = i;
          note();
        }
      },
      [](const swap_image&, const window&) { return pass(); });
  s.oracle = [=](machine& m, const window& w) {
    auto& x = *reinterpret_cast<swap_image*>(m.base());
    lines_of_flash flash{m, x.flash};
    swapping_store store{m, x.memory, flash, wrong};
    return history->check(digest_of_values([&](uint64_t k) { return *store.get(k); }), w);
  };
  return s;
}
subject f86_freed(twin t) { return swapping("F86", is_buggy(t) ? swap_mistake::no_sync : swap_mistake::none); }
subject f86_old(twin t) { return swapping("F86, old", is_buggy(t) ? swap_mistake::old_copy : swap_mistake::none); }

// Flash of every size, and flash each of whose calls fails: what was acknowledged is there, now and after a power cut.
verdict swap_out_to(memory_device& flash, swap_mistake wrong) {
  machine memory{sizeof(swap_image)};
  copy* const slots = reinterpret_cast<swap_image*>(memory.base())->memory;
  swapping_store store{memory, slots, flash, wrong};
  std::array<uint64_t, keys> expected{};
  for (uint64_t i = 1; i <= 10; ++i) {
    if (store.put(key_of_put(i), i)) expected[key_of_put(i)] = i;
  }
  flash.fail_call(0);
  for (uint64_t key = 0; key < keys; ++key) {
    if (*store.get(key) != expected[key]) return fault("a value is lost");
  }
  for (auto&& left : {flash.crash_losing_all_unsynced(), flash.crash_keeping_all()}) {
    memory_device flash_then{left};
    swapping_store then{memory, slots, flash_then, wrong};
    for (uint64_t key = 0; key < keys; ++key) {
      if (*then.get(key) != expected[key]) return fault("a value is lost by the power cut");
    }
  }
  return pass();
}
report f86_full(twin t, const options&) {
  const swap_mistake wrong = is_buggy(t) ? swap_mistake::full_ignored : swap_mistake::none;
  uint64_t tried = 0;
  for (std::size_t slots = 0; slots <= flash_slots; ++slots) {
    memory_device flash{slots * sizeof(copy)};
    ++tried;
    if (verdict v = swap_out_to(flash, wrong)) return judged("F86, full", tried, v);
  }
  for (uint64_t k = 1;; ++k) {
    memory_device flash{flash_slots * sizeof(copy)};
    flash.fail_call(k);
    ++tried;
    if (verdict v = swap_out_to(flash, wrong)) return judged("F86, full", tried, v);
    if (flash.calls() < k) return judged("F86, full", tried, pass());
  }
}

// ---- values written past the log ------------------------------------------------------------------------------------

enum class straight_mistake : std::uint8_t { none, not_summed, sum_alone, reused_early };
// Values of a sector each go to their place first; the record that leads there has their sum.
class straight_store {
 public:
  static constexpr uint64_t records = 48;
  static constexpr uint64_t places = 3;
  static constexpr uint64_t keys = 2;
  using values = std::array<uint64_t, keys>;  // 0: none

  straight_store(memory_device& device, straight_mistake wrong) : device_{device}, wrong_{wrong} {}

  // A new value in a place that nobody has.
  void put(uint64_t key, uint64_t value) {
    uint64_t to = next_++ % places;
    while (std::count(place_.begin(), place_.end(), to + 1) != 0) to = next_++ % places;
    if (wrong_ != straight_mistake::reused_early && freed_[to] > durable_) sync();
    prove(filled_[to]);
    const sector page = page_of(value);
    (void)device_.write((records + to) * sector_bytes, &page, sizeof page);
    if (place_[key] != 0) freed_[place_[key] - 1] = last_ + 1;
    append({.key = key, .place = to + 1, .sum = checksum(&page, sizeof page, to)});
    filled_[to] = last_;
    place_[key] = to + 1;
    now_[key] = value;
  }
  // By a record; the place has it later.
  void change(uint64_t key, uint64_t value) {
    if (place_[key] == 0) return;
    append({.key = key, .value = value});
    now_[key] = value;
    sync();
    prove(filled_[place_[key] - 1]);
    const sector page = page_of(value);
    (void)device_.write((records + place_[key] - 1) * sector_bytes, &page, sizeof page);
  }
  void sync() {
    (void)device_.sync(edge{"zoo/F95"});
    durable_ = last_;
    proved_ = told_;
  }
  [[nodiscard]] const values& now() const { return now_; }
  [[nodiscard]] uint64_t last() const { return last_; }  // record
  [[nodiscard]] uint64_t durable() const { return durable_; }
  [[nodiscard]] bool has_room() const { return last_ + 4 < records; }

  // What a process finds.
  static values recover(memory_device& device, straight_mistake wrong) {
    record all[records];
    uint64_t count = 0;
    uint64_t proved = 0;
    for (; count < records; ++count) {
      (void)device.read(count * sector_bytes, &all[count], sector_bytes);
      if (all[count].number != count + 1 || all[count].check != check_of(all[count])) break;
      proved = std::max(proved, all[count].durable);
    }
    if (wrong == straight_mistake::sum_alone) proved = 0;
    values found{};
    for (uint64_t i = 0; i < count; ++i) {
      const record& r = all[i];
      if (r.place == 0) {
        if (r.value != 0) found[r.key] = r.value;
        continue;
      }
      sector page;
      (void)device.read((records + r.place - 1) * sector_bytes, &page, sizeof page);
      const bool holds = r.sum == checksum(&page, sizeof page, r.place - 1);
      if (!holds && r.number > proved && wrong != straight_mistake::not_summed) break;
      found[r.key] = page[0];
    }
    return found;
  }

 private:
  using sector = std::array<uint64_t, sector_bytes / 8>;
  struct record {
    uint64_t key = 0;
    uint64_t place = 0;  // of a new value, plus one
    uint64_t value = 0;  // of a change
    uint64_t sum = 0;
    uint64_t number = 0;
    uint64_t durable = 0;  // records that were when this one was made
    uint64_t rest[57] = {};
    uint64_t check = 0;
  };
  static_assert(sizeof(record) == sector_bytes);
  static uint64_t check_of(const record& r) { return checksum(&r, offsetof(record, check), 89); }
  static sector page_of(uint64_t value) {
    sector page;
    page.fill(value);
    return page;
  }
  // The record counts whatever its place holds.
  void prove(uint64_t number) {
    if (number <= proved_) return;
    sync();
    append({});
    sync();
  }
  void append(record r) {
    r.number = ++last_;
    r.durable = told_ = durable_;
    r.check = check_of(r);
    (void)device_.write((last_ - 1) * sector_bytes, &r, sizeof r);
  }

  memory_device& device_;
  straight_mistake wrong_;
  std::array<uint64_t, keys> place_{};  // plus one
  std::array<uint64_t, places> filled_{}, freed_{};
  values now_{};
  uint64_t last_ = 0, durable_ = 0, told_ = 0, proved_ = 0, next_ = 0;
};

// Random lives that end in a power cut: what is found is what was after some call, none before the last sync.
report straight_lives(const char* title, straight_mistake wrong) {
  uint64_t tried = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    memory_device device{(straight_store::records + straight_store::places) * sector_bytes};
    straight_store store{device, wrong};
    std::vector<straight_store::values> past{store.now()};
    std::vector<uint64_t> records{0};  // that there were after each call
    uint64_t random = seed;
    const auto below = [&random](uint64_t n) { return ((random = mix_seed(random, 89)) >> 20) % n; };
    for (uint64_t i = 1; i <= 3 + seed % 12 && store.has_room(); ++i) {
      const uint64_t key = below(straight_store::keys);
      if (below(4) == 0) {
        store.change(key, 1000 + i);
      } else {
        store.put(key, i);
      }
      past.push_back(store.now());
      records.push_back(store.last());
      if (below(3) == 0) store.sync();
    }
    const auto acknowledged = std::upper_bound(records.begin(), records.end(), store.durable()) - records.begin() - 1;
    for (int i = 0; i < 8; ++i) {
      ++tried;
      memory_device left{device.crash([&](uint64_t, std::size_t versions) { return below(versions + 1); })};
      const auto found = straight_store::recover(left, wrong);
      if (std::find(past.begin() + acknowledged, past.end(), found) == past.end())
        return judged(title, tried, fault("what is found never was, or was before what was acknowledged"));
    }
  }
  return judged(title, tried, pass());
}
report f95_torn(twin t, const options&) {
  return straight_lives("F95", is_buggy(t) ? straight_mistake::not_summed : straight_mistake::none);
}
report f95_changed(twin t, const options&) {
  return straight_lives("F95, changed", is_buggy(t) ? straight_mistake::sum_alone : straight_mistake::none);
}
report f95_reused(twin t, const options&) {
  return straight_lives("F95, reused", is_buggy(t) ? straight_mistake::reused_early : straight_mistake::none);
}

}  // namespace

std::span<const entry> device_entries() {
  static const entry all[] = {
      {.number = 77, .title = "failed sync repeated and believed", .hunt = f77},
      {.number = 81, .title = "poison read", .hunt = f81},
      {.number = 81, .title = "page cleared, restored in part", .hunt = f81_clear},
      {.number = 82, .title = "torn sector", .hunt = f82_torn},
      {.number = 82, .title = "lost write", .hunt = f82_lost},
      {.number = 82, .title = "misdirected write", .hunt = f82_misdirected},
      {.number = 83, .title = "metadata that no sum covers", .hunt = f83},
      {.number = 83, .title = "sum without its place and pool", .hunt = f83_place},
      {.number = 84, .title = "unsafe shutdown ignored", .hunt = f84_ignored},
      {.number = 84, .title = "false alarm after a pool was moved", .hunt = f84_false_alarm},
      {.number = 86,
       .title = "copy in memory given up before that on flash is durable",
       .make = f86_freed,
       .breaks = {finding::rule::not_durable_at_end}},
      {.number = 86, .title = "both copies valid, the old one read", .make = f86_old, .tiers = t1},
      {.number = 86, .title = "no space at eviction", .hunt = f86_full},
      {.number = 95, .title = "value written past the log and believed unseen", .hunt = f95_torn},
      {.number = 95, .title = "its sum the only proof, and it changes", .hunt = f95_changed},
      {.number = 95, .title = "written to a place that a crash may still show", .hunt = f95_reused},
  };
  return all;
}

}  // namespace nvm::zoo
