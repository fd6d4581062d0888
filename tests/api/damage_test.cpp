// Random one-word changes of a used pool's file: opened, walked, written, closed: no fault and no hang, whatever the
// answer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "../file_bytes.hpp"
#include "../fuzz/log_heap_image.hpp"
#include "../sanitized.hpp"
#include "care/repair.hpp"
#include "log/log.hpp"
#include "object/object.hpp"
#include "pool/pool.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

// What a program does with a pool that it was given.
void use(const char* path) {
  NVM_POOL* pool = nvm_pool_open(path);
  if (pool == nullptr) return;
  (void)nvm_pool_get_root(pool);
  std::uint64_t sum = 0;
  (void)nvm_pool_each(
      pool,
      [](void* p, std::uint32_t, std::size_t n, void* to) {
        std::uint64_t& total = *static_cast<std::uint64_t*>(to);
        for (std::size_t i = 0; i < n; ++i) total += static_cast<unsigned char*>(p)[i];
        return 0;
      },
      &sum);
  for (int i = 0; i < 20; ++i) {
    if (nvm_tx_begin(pool) != 0) break;
    void* p = nvm_alloc(pool, 1, static_cast<std::size_t>(1 + i * 97));
    if (p != nullptr) std::memset(p, 1, static_cast<std::size_t>(1 + i * 97));
    if (i % 2 == 0 && p != nullptr) (void)nvm_free(pool, p);
    (void)nvm_tx_commit(pool);
  }
  (void)nvm_pool_close(pool);
}

struct used {
  const char* name;
  nvm_engine engine;
  nvm_validation validation;
  nvm_medium medium;
  int changes;
};
class damage : public testing::TestWithParam<used> {};
INSTANTIATE_TEST_SUITE_P(
    media, damage,
    testing::Values(used{"shm", NVM_ENGINE_UNDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, 1500},
                    used{"shm_redo", NVM_ENGINE_REDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, 1500},
                    used{"shm_log", NVM_ENGINE_LOG, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, 600},
                    used{"shm_mnemosyne", NVM_ENGINE_MNEMOSYNE, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, 400},
                    used{"shm_mnemosyne_undo", NVM_ENGINE_MNEMOSYNE_UNDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SHM, 400},
                    used{"shm_mnemosyne_undo_plain", NVM_ENGINE_MNEMOSYNE_UNDO, NVM_VALIDATION_COMMIT_MARK,
                         NVM_MEDIUM_SHM, 400},
                    used{"ssd", NVM_ENGINE_UNDO, NVM_VALIDATION_CHECKSUM, NVM_MEDIUM_SSD, 400}),
    [](const auto& i) { return i.param.name; });

// Makes a pool that dies with a transaction open; the process's wait status.
int make_killed_pool(const std::string& path, const used& u) {
  const bool announces =
      u.engine == NVM_ENGINE_UNDO || u.engine == NVM_ENGINE_MNEMOSYNE_UNDO || u.engine == NVM_ENGINE_LOG;
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 1 << 20;
  o.log_bytes = u.medium == NVM_MEDIUM_SSD ? 1 << 16 : 0;
  o.medium = u.medium;
  o.engine = u.engine;
  o.validation = u.validation;
  const pid_t maker = fork();
  if (maker == 0) {
    NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
    if (pool == nullptr) _exit(1);
    void* last = nullptr;
    for (int i = 0; i < 150; ++i) {
      if (nvm_tx_begin(pool) != 0) _exit(2);
      last = nvm_alloc(pool, 1, static_cast<std::size_t>(8 + i * 23));
      (void)nvm_pool_set_root(pool, last);
      if (nvm_tx_commit(pool) != 0) _exit(3);
    }
    if (nvm_tx_begin(pool) != 0 || (announces && nvm_tx_log(last, 100) != 0)) _exit(4);
    (void)nvm_alloc(pool, 1, 40);
    _exit(0);
  }
  int how = -1;
  return waitpid(maker, &how, 0) == maker ? how : -1;
}

struct word_change {
  std::size_t at;
  std::uint64_t word;
};

// Words that hold something, where damage means most, and any words.
class word_changes {
 public:
  explicit word_changes(const std::vector<char>& good) : good_{good} {
    for (std::size_t at = 0; at + 8 <= good.size(); at += 8) {
      if (word_at(at) != 0) interesting_.push_back(at);
    }
  }
  word_change next() {
    const std::size_t at =
        random_() % 4 != 0 ? interesting_[random_() % interesting_.size()] : random_() % (good_.size() / 8) * 8;
    const std::uint64_t w = word_at(at);
    switch (random_() % 4) {
      case 0:
        return {at, random_()};
      case 1:
        return {at, w ^ (std::uint64_t{1} << random_() % 64)};
      case 2:
        return {at, random_() % 2 ? 0 : ~std::uint64_t{0}};
      default:
        return {at, w + random_() % 3 - 1};
    }
  }

 private:
  [[nodiscard]] std::uint64_t word_at(std::size_t at) const {
    std::uint64_t w = 0;
    std::memcpy(&w, &good_[at], 8);
    return w;
  }
  const std::vector<char>& good_;
  std::vector<std::size_t> interesting_;
  std::mt19937_64 random_{11};
};

TEST_P(damage, of_any_one_word_causes_no_fault_and_no_hang) {
  scratch place{false};  // the file system of the copies; the medium is the pool's
  const std::string original = place.path("original");
  ASSERT_EQ(make_killed_pool(original, GetParam()), 0);
  const std::vector<char> good = read_file(original);
  ASSERT_GT(good.size(), std::size_t{1} << 20);
  const char* asked = std::getenv("NVM_DAMAGE_CHANGES");
  const int changes = asked != nullptr ? std::atoi(asked) : rounds_of_build(GetParam().changes);
  word_changes source{good};
  const std::string victim = place.path("victim");
  constexpr int at_once = 25;
  for (int done = 0; done < changes; done += at_once) {
    std::vector<word_change> list;
    for (int k = 0; k < at_once; ++k) list.push_back(source.next());
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      int k = 0;
      const char* only = std::getenv("NVM_DAMAGE_ONLY");
      for (const auto& [at, w] : list) {
        if (only != nullptr && std::atoi(only) != done + k++) continue;
        std::vector<char> bytes = good;
        std::memcpy(&bytes[at], &w, 8);
        const int fd = open(victim.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) _exit(9);
        close(fd);
        (void)nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr);
        use(victim.c_str());
      }
      _exit(0);
    }
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0)
        << "changes " << done << " to " << done + at_once << ": "
        << (WIFSIGNALED(how) ? strsignal(WTERMSIG(how)) : "exit code " + std::to_string(WEXITSTATUS(how)));
  }
  RecordProperty("changes", changes);
}

nvm_pool_options small_pool(nvm_engine engine) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 1 << 20;
  o.engine = engine;
  return o;
}

// A pool of the log-structured engine with five objects of 500 bytes, 'b' to 'f', as a crash leaves it; one bit of one
// of them is another.
std::string crashed_log_pool(const scratch& place, char damaged) {
  const nvm_pool_options o = small_pool(NVM_ENGINE_LOG);
  const std::string path = place.path("original");
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  EXPECT_NE(pool, nullptr) << nvm_errormsg();
  for (const char fill : {'b', 'c', 'd', 'e', 'f'}) {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    std::memset(nvm_alloc(pool, 1, 500), fill, 500);
    EXPECT_EQ(nvm_tx_commit(pool), 0);
  }
  std::vector<char> bytes = read_file(path);
  EXPECT_EQ(nvm_pool_close(pool), 0);
  const std::string content(500, damaged);
  const auto at = std::search(bytes.begin(), bytes.end(), content.begin(), content.end());
  EXPECT_NE(at, bytes.end());
  at[100] ^= 4;
  std::string victim = place.path("victim");
  std::ofstream{victim, std::ios::binary}.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_EQ(chmod(victim.c_str(), 0600), 0);
  return victim;
}
// The last byte of each object.
std::string contents_of(NVM_POOL* pool) {
  std::string found;
  EXPECT_EQ(nvm_pool_each(
                pool,
                [](void* p, std::uint32_t, std::size_t n, void* to) {
                  static_cast<std::string*>(to)->push_back(static_cast<char*>(p)[n - 1]);
                  return 0;
                },
                &found),
            0);
  std::sort(found.begin(), found.end());
  return found;
}

// Blocks of the log that do not hold are not passed over in silence, however often the pool is opened; what is left can
// be read.
TEST(log_pool, with_a_damaged_block_opens_for_reading_only) {
  ::setenv("HOLDFAST_ACCEPT_COPY", "1", 1);  // what is damaged is a copy of a pool that its owner left open
  scratch place{false};
  const std::string victim = crashed_log_pool(place, 'c');
  EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(nvm_pool_open(victim.c_str()), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
    EXPECT_NE(std::string{nvm_errormsg()}.find("found 1 blocks that fail their checks"), std::string::npos)
        << nvm_errormsg();
  }
  nvm_pool_options reading{};
  reading.read_only = 1;
  NVM_POOL* pool = nvm_pool_open_with(victim.c_str(), &reading);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(contents_of(pool), "bdef");
  EXPECT_EQ(nvm_pool_close(pool), 0);
}
// The last block of a log may be torn: that commit was not done, and nothing is damaged.
TEST(log_pool, with_a_torn_last_block_opens) {
  scratch place{false};
  const std::string victim = crashed_log_pool(place, 'f');
  EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
  for (int i = 0; i < 2; ++i) {
    NVM_POOL* pool = nvm_pool_open(victim.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(contents_of(pool), "bcde");
    EXPECT_EQ(nvm_pool_close(pool), 0);
  }
}

// ---- one flipped bit of a pool that a crash has left --------------------------------------------------------------

// A pool of one lane with objects of 72 bytes, 'b' to 'f', as a crash leaves it with a transaction open.
std::string crashed_pool(const scratch& place, nvm_engine engine, std::vector<char>& bytes) {
  nvm_pool_options o = small_pool(engine);
  o.lanes = 1;
  const std::string path = place.path("original");
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  EXPECT_NE(pool, nullptr) << nvm_errormsg();
  void* last = nullptr;
  for (const char fill : {'b', 'c', 'd', 'e', 'f'}) {
    EXPECT_EQ(nvm_tx_begin(pool), 0);
    last = nvm_alloc(pool, 1, 72);
    std::memset(last, fill, 72);
    EXPECT_EQ(nvm_tx_commit(pool), 0);
  }
  EXPECT_EQ(nvm_tx_begin(pool), 0);
  if (engine == NVM_ENGINE_UNDO) {
    EXPECT_EQ(nvm_tx_log(last, 72), 0);
    std::memset(last, 'x', 72);
  }
  bytes = read_file(path);
  EXPECT_EQ(nvm_tx_abort(pool), 0);
  EXPECT_EQ(nvm_pool_close(pool), 0);
  return place.path("victim");
}
void write_file(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream{path, std::ios::binary}.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_EQ(chmod(path.c_str(), 0600), 0);
}
std::uint64_t log_offset_of(const std::vector<char>& bytes) {
  std::uint64_t at = 0;
  std::memcpy(&at, &bytes[offsetof(layout::superblock, log_offset)], sizeof at);
  return at;
}
// Refused, whoever asks, and as it was.
void expect_refused(const std::string& victim, const char* message) {
  EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(nvm_pool_open(victim.c_str()), nullptr);
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
    EXPECT_NE(std::string{nvm_errormsg()}.find(message), std::string::npos) << nvm_errormsg();
  }
}

// What an unfinished transaction has kept of the bytes that it was about to change says that the one before committed.
TEST(crashed_pool, with_its_newest_commit_record_damaged_before_a_later_transaction_is_refused) {
  scratch place{false};
  std::vector<char> bytes;
  const std::string victim = crashed_pool(place, NVM_ENGINE_UNDO, bytes);
  write_file(victim, bytes);
  NVM_POOL* pool = nvm_pool_open(victim.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(contents_of(pool), "bcdef");
  ASSERT_EQ(nvm_pool_close(pool), 0);
  std::uint64_t newest = 0, slot = 0;
  for (unsigned i = 0; i < layout::commit_slots; ++i) {
    const std::uint64_t at = log_offset_of(bytes) + layout::commit_slot_at(i);
    layout::commit_record c;
    std::memcpy(&c, &bytes[at], sizeof c);
    if (c.generation > newest) newest = c.generation, slot = at;
  }
  ASSERT_NE(newest, 0U);
  bytes[slot + offsetof(layout::commit_record, generation) + 8] ^= 4;
  write_file(victim, bytes);
  expect_refused(victim, "found a record of generation");
}
// Nobody counts so far: what a lane says of it is not believed, but its commit records are.
TEST(pool_of_a_lane_beyond_the_last_generation, is_mended) {
  for (const bool crashed : {false, true}) {
    scratch place{false};
    std::vector<char> bytes;
    const std::string victim = crashed_pool(place, NVM_ENGINE_UNDO, bytes);
    if (!crashed) bytes = read_file(place.path("original"));
    const std::uint64_t lane = log_offset_of(bytes);
    const std::uint64_t forged = seal_word(checked_mask, word_seed(lane));
    std::memcpy(&bytes[lane], &forged, sizeof forged);
    write_file(victim, bytes);
    EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << crashed;
    care::repair_request request;
    request.path = victim;
    request.out = place.path("mended");
    care::repair_report report;
    ASSERT_TRUE(care::repair_pool(request, report)) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_check(request.out.c_str(), nullptr, nullptr, nullptr), 0) << crashed;
    NVM_POOL* pool = nvm_pool_open(request.out.c_str());
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    EXPECT_EQ(contents_of(pool), "bcdef") << crashed;
    EXPECT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    EXPECT_NE(nvm_alloc(pool, 1, 72), nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
    EXPECT_EQ(nvm_pool_close(pool), 0);
    EXPECT_EQ(nvm_pool_check(request.out.c_str(), nullptr, nullptr, nullptr), 0) << crashed;
  }
}
// Only the record after the newest can have been torn by the crash.  What is no longer needed is no reason to refuse.
TEST(crashed_pool, with_an_older_commit_record_damaged_does_not_pass_the_check) {
  scratch place{false};
  std::vector<char> bytes;
  const std::string victim = crashed_pool(place, NVM_ENGINE_UNDO, bytes);
  write_file(victim, bytes);
  EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
  const std::uint64_t lane = log_offset_of(bytes);
  const auto generation_at = [&](std::uint64_t at) {
    std::uint64_t generation = 0;
    std::memcpy(&generation, &bytes[at + offsetof(layout::commit_record, generation)], sizeof generation);
    return generation;
  };
  std::uint64_t newest = 0;
  for (unsigned i = 0; i < layout::commit_slots; ++i) {
    newest = std::max(newest, generation_at(lane + layout::commit_slot_at(i)));
  }
  unsigned tried = 0;
  for (unsigned i = 0; i < layout::commit_slots; ++i) {
    const std::uint64_t at = lane + layout::commit_slot_at(i);
    if (generation_at(at) == 0 || generation_at(at) == newest) continue;
    std::vector<char> changed = bytes;
    changed[at + offsetof(layout::commit_record, generation) + 8] ^= 4;
    write_file(victim, changed);
    EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0) << i;
    ++tried;
  }
  EXPECT_GT(tried, 2U);
}
// A later record of its lane says that an earlier one was there.
TEST(crashed_pool, with_a_record_of_the_redo_log_damaged_before_others_is_refused) {
  scratch place{false};
  std::vector<char> bytes;
  const std::string victim = crashed_pool(place, NVM_ENGINE_REDO, bytes);
  const std::uint64_t ring = log_offset_of(bytes) + layout::redo_ring_at;
  // The second record: the first says how long it is.
  layout::redo_record first;
  std::memcpy(&first, &bytes[ring], sizeof first);
  const std::uint64_t second = ring + round_up(first.bytes, line_bytes);
  bytes[second + sizeof first] ^= 4;
  write_file(victim, bytes);
  expect_refused(victim, "found behind the end of its lane");
}
// The words that say which versions count are gone, and so is the record that would have come first: what stands after
// it says that they were there.
TEST(closed_pool, without_the_head_of_its_redo_log_does_not_pass_the_check) {
  scratch place{false};
  std::vector<char> bytes;
  const std::string victim = crashed_pool(place, NVM_ENGINE_REDO, bytes);
  bytes = read_file(place.path("original"));
  const std::uint64_t ring = log_offset_of(bytes);
  std::swap_ranges(&bytes[ring], &bytes[ring] + line_bytes, &bytes[ring + layout::redo_ring_at]);
  std::memset(&bytes[ring], 0, line_bytes);
  write_file(victim, bytes);
  EXPECT_GT(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
}
TEST(crashed_pool, with_the_header_of_an_object_damaged_says_so_to_whoever_walks_it) {
  for (const nvm_engine engine : {NVM_ENGINE_UNDO, NVM_ENGINE_LOG}) {
    SCOPED_TRACE(engine);
    scratch place{false};
    nvm_pool_options o{};
    o.size = 1 << 20;
    o.capacity = 1 << 20;
    o.engine = engine;
    NVM_POOL* pool = nvm_pool_create_with(place.path("one").c_str(), &o);
    ASSERT_NE(pool, nullptr) << nvm_errormsg();
    void* objects[3];
    for (void*& p : objects) {
      ASSERT_EQ(nvm_tx_begin(pool), 0);
      p = nvm_alloc(pool, 1, 72);
      ASSERT_EQ(nvm_tx_commit(pool), 0);
    }
    // As a stray store of the program does it.
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    char* const header = static_cast<char*>(objects[1]) - sizeof(layout::object_header);
    ASSERT_EQ(nvm_tx_log(header, 8), 0) << nvm_errormsg();
    header[1] ^= 4;
    ASSERT_EQ(nvm_tx_commit(pool), 0);
    unsigned visited = 0;
    const int walked = nvm_pool_each(
        pool, [](void*, std::uint32_t, std::size_t, void* n) { return ++*static_cast<unsigned*>(n), 0; }, &visited);
    EXPECT_EQ(walked, -1);
    EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
    EXPECT_EQ(visited, 2U);
    EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
  }
}

// What a close has saved is believed by the next open, and so it is checked against the log.
TEST(log_pool, whose_saved_mapping_leads_elsewhere_does_not_pass_the_check) {
  namespace log_layout = logheap::layout;
  scratch place{false};
  const nvm_pool_options o = small_pool(NVM_ENGINE_LOG);
  const std::string original = place.path("original");
  NVM_POOL* pool = nvm_pool_create_with(original.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  for (const char fill : {'b', 'c', 'd', 'e', 'f'}) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    std::memset(nvm_alloc(pool, 1, 72), fill, 72);
    ASSERT_EQ(nvm_tx_commit(pool), 0);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(nvm_pool_check(original.c_str(), nullptr, nullptr, nullptr), 0);
  const std::vector<char> good = read_file(original);
  const auto* const read = reinterpret_cast<const std::byte*>(good.data());
  const auto sb = pick_superblock(read, good.size());
  ASSERT_TRUE(sb);
  const fuzz::log_heap_image heap = fuzz::read_log_heap(read, geometry_of(*sb));
  const std::uint64_t chunk = heap.root.saved & checked_mask;
  ASSERT_NE(chunk, 0U);
  const std::uint64_t use = fuzz::word_of(read, chunk + offsetof(log_layout::chunk_header, use)) & checked_mask;
  const logheap::block_place at{chunk, sizeof(log_layout::chunk_header), log_layout::generation_of(use), heap.root.key};
  log_layout::block_header header;
  std::memcpy(&header, read + at.offset(), sizeof header);
  std::vector<log_layout::saved_record> records((header.bytes - sizeof header) / sizeof(log_layout::saved_record));
  std::memcpy(records.data(), read + at.offset() + sizeof header, records.size() * sizeof records[0]);
  const auto findings = [&](const std::vector<log_layout::saved_record>& changed) {
    std::vector<char> bytes = good;
    auto* const base = reinterpret_cast<std::byte*>(bytes.data());
    std::memcpy(base + at.offset() + sizeof header, changed.data(), changed.size() * sizeof changed[0]);
    log_layout::block_header h = header;
    h.content_check = logheap::content_check_of(base + at.offset(), h.bytes, at);
    std::memcpy(base + at.offset(), &h, sizeof h);
    const std::string victim = place.path("victim");
    write_file(victim, bytes);
    return nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(findings(records), 0);
  // Of each kind: where bytes are, where an allocation is, how much of a chunk lives.
  const auto kind_of = [](const log_layout::saved_record& r) {
    return static_cast<log_layout::saved_kind>(r.home_and_kind >> 56);
  };
  unsigned tried = 0;
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::vector<log_layout::saved_record> changed = records;
    if (kind_of(records[i]) == log_layout::saved_kind::chunk) {
      changed[i].size ^= 8;
    } else {
      changed[i].log += 8;
    }
    EXPECT_GT(findings(changed), 0) << i << " of kind " << static_cast<int>(kind_of(records[i]));
    if (kind_of(records[i]) == log_layout::saved_kind::slot) slots.push_back(i);
    ++tried;
  }
  EXPECT_GT(tried, 10U);
  // An allocation of another object: in the same chunk what is counted is as it was.
  ASSERT_GT(slots.size(), 2U);
  for (const std::size_t i : slots) {
    for (const std::size_t k : slots) {
      if (i == k) continue;
      std::vector<log_layout::saved_record> changed = records;
      changed[i].log = records[k].log;
      EXPECT_GT(findings(changed), 0) << i << " as " << k;
    }
  }
}
// The first transaction of a pool makes the words of home space that name its objects.
TEST(log_pool, whose_creation_was_cut_short_passes_the_check) {
  scratch place{false};
  const nvm_pool_options o = small_pool(NVM_ENGINE_LOG);
  const std::string original = place.path("original");
  NVM_POOL* pool = nvm_pool_create_with(original.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  std::vector<char> bytes = read_file(original);
  ASSERT_EQ(nvm_pool_close(pool), 0);
  auto* const base = reinterpret_cast<std::byte*>(bytes.data());
  const auto sb = pick_superblock(base, bytes.size());
  ASSERT_TRUE(sb);
  const fuzz::log_heap_image heap = fuzz::read_log_heap(base, geometry_of(*sb));
  ASSERT_EQ(heap.blocks.size(), 1U);
  base[heap.blocks[0].place.offset() + sizeof heap.blocks[0].header] ^= std::byte{4};
  const std::string victim = place.path("victim");
  write_file(victim, bytes);
  EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
  pool = nvm_pool_open(victim.c_str());
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  EXPECT_EQ(contents_of(pool), "");
  ASSERT_EQ(nvm_pool_close(pool), 0);
  EXPECT_EQ(nvm_pool_check(victim.c_str(), nullptr, nullptr, nullptr), 0);
}

// The lanes of a closed pool are at rest and not looked at before they are used: then each is checked.
TEST(closed_pool, finds_a_damaged_lane_by_the_check_and_when_a_transaction_first_uses_it) {
  scratch place{false};
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 1 << 20;
  o.lanes = 2;
  const std::string path = place.path("closed");
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  ASSERT_NE(pool, nullptr) << nvm_errormsg();
  nvm_pool_info info{};
  ASSERT_EQ(nvm_pool_get_info(pool, &info), 0);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(nvm_tx_begin(pool), 0);
    ASSERT_NE(nvm_alloc(pool, 1, 64), nullptr);
    ASSERT_EQ(nvm_tx_commit(pool), 0);
  }
  ASSERT_EQ(nvm_pool_close(pool), 0);
  const std::vector<char> good = read_file(path);
  std::uint64_t log_offset = 0;
  std::memcpy(&log_offset, &good[offsetof(layout::superblock, log_offset)], sizeof log_offset);

  const auto with_word = [&](std::uint64_t at, std::uint64_t change) {
    std::vector<char> bytes = good;
    std::uint64_t w = 0;
    std::memcpy(&w, &bytes[at], 8);
    w ^= change;
    std::memcpy(&bytes[at], &w, 8);
    std::ofstream{path, std::ios::binary}.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  // Whether a transaction of some lane was refused; the lanes that are whole go on.
  const auto some_lane_is_refused = [&] {
    NVM_POOL* p = nvm_pool_open(path.c_str());
    EXPECT_NE(p, nullptr) << nvm_errormsg();
    bool refused = false;
    for (int k = 0; k < 2 && !refused; ++k) {
      // A new thread is given a lane of its own.
      std::thread{[&] {
        if (nvm_tx_begin(p) == 0) {
          EXPECT_NE(nvm_alloc(p, 1, 64), nullptr);
          EXPECT_EQ(nvm_tx_commit(p), 0);
        } else {
          EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT);
          refused = true;
        }
      }}.join();
    }
    EXPECT_EQ(nvm_pool_close(p), 0) << nvm_errormsg();
    return refused;
  };
  with_word(log_offset, 0);
  EXPECT_EQ(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
  EXPECT_FALSE(some_lane_is_refused());
  with_word(log_offset, 1);  // the generation that lane 0 says is retired
  EXPECT_GT(nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr), 0);
  EXPECT_TRUE(some_lane_is_refused());
}

}  // namespace
}  // namespace nvm::tests
