// Lock-free structures inside of object stores after kills and damage: calls that returned are there, none of the links
// is followed out of the store.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../sanitized.hpp"
#include "api/pool_object.hpp"
#include "care/repair.hpp"
#include "space/cluster_image.hpp"
#include "store_structures.hpp"

namespace nvm::tests {
namespace {

// ---- kills ---------------------------------------------------------------------------------------------------------

// What a thread of the process that is killed has begun and ended: call i puts or removes key i / 2 % 50.
struct progress {
  std::atomic<std::uint64_t> begun{0}, ended{0};
};
constexpr unsigned killed_threads = 3;

class killed_process : public structures_in_store {
 protected:
  static std::uint64_t key_of(std::uint64_t call) { return call / 2 % 50; }
  void run(unsigned t, progress& p) {
    const std::string home = "home/" + std::to_string(t);
    nvm_store* s = nullptr;
    nvm_lf* lf = nullptr;
    for (std::uint64_t i = p.ended;; ++i) {
      if (i % 97 == 0 && lf != nullptr) {
        if (nvm_lf_close(lf) != 0 || nvm_store_detach(s) != 0) ::_exit(3);
        lf = nullptr;
      }
      if (lf == nullptr) {
        s = nvm_store_attach(pool_, home.c_str(), NVM_STORE_CREATE);
        lf = s == nullptr ? nullptr : opened(s, "one");
        if (lf == nullptr) ::_exit(4);
      }
      p.begun = i + 1;
      const bool puts = i % 2 == 0 || i % 3 == 0;
      if ((puts ? nvm_lf_put64(lf, key_of(i), i, 0) : nvm_lf_remove64(lf, key_of(i))) < 0) ::_exit(5);
      p.ended = i + 1;
    }
  }
  // After so many calls.
  static model after(std::uint64_t calls) {
    model m;
    for (std::uint64_t i = 0; i < calls; ++i) {
      if (i % 2 == 0 || i % 3 == 0) {
        m[key_of(i)] = i;
      } else {
        m.erase(key_of(i));
      }
    }
    return m;
  }
};
INSTANTIATE_TEST_SUITE_P(everywhere, killed_process, testing::ValuesIn(grounds()), name_of_ground);

// The next process finds each call that had returned, and of the interrupted one all or nothing.
TEST_P(killed_process, leaves_what_its_calls_have_promised) {
  close();
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const progresses = new (shared) progress[killed_threads];
  for (unsigned kill = 0; kill < 6; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      open();
      std::vector<std::thread> all;
      for (unsigned t = 0; t < killed_threads; ++t) all.emplace_back([this, t, progresses] { run(t, progresses[t]); });
      all[0].join();
      ::_exit(6);
    }
    std::uint64_t target = 0;
    for (unsigned t = 0; t < killed_threads; ++t) target += progresses[t].ended;
    target += 40 + 137 * kill;
    for (int status = 0; ::waitpid(child, &status, WNOHANG) == 0;) {
      std::uint64_t now = 0;
      for (unsigned t = 0; t < killed_threads; ++t) now += progresses[t].ended;
      if (now >= target) break;
      std::this_thread::yield();
    }
    (void)::kill(child, SIGKILL);
    int status = 0;
    if (::waitpid(child, &status, 0) == child) {
      ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    }
    EXPECT_EQ(findings_in(path()), "");
    open();
    for (unsigned t = 0; t < killed_threads; ++t) {
      progress& p = progresses[t];
      nvm_store* const s = attached(("home/" + std::to_string(t)).c_str());
      nvm_lf* const lf = opened(s, "one");
      const model found = entries_of(lf);
      if (found != after(p.ended)) {
        EXPECT_EQ(found, after(p.begun)) << "thread " << t << " after " << p.ended;
        p.ended = p.begun.load();
      }
      p.begun = p.ended.load();
      ASSERT_EQ(nvm_lf_close(lf), 0);
      detach(s);
    }
    close();
  }
  ASSERT_EQ(::munmap(shared, 4096), 0);
}

// ---- damage --------------------------------------------------------------------------------------------------------

class damaged_structures : public structures_in_store {
 protected:
  void TearDown() override { close(); }
  void make() {
    nvm_store* const s = attached("home");
    nvm_lf* const one = opened(s, "one");
    (void)put(one, 60);
    nvm_store* const other = attached("other");
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    void* const inside = nvm_store_alloc(other, 1, 4000);
    ASSERT_NE(inside, nullptr);
    ASSERT_EQ(nvm_tx_commit(pool_), 0) << nvm_errormsg();
    const auto* const base = reinterpret_cast<const std::byte*>(pool_->base());
    inside_other_ = static_cast<std::uint64_t>(static_cast<const std::byte*>(inside) - base);
    shape_ = pool_->file->geometry();
    ASSERT_EQ(nvm_lf_close(one), 0);
    detach(s);
    detach(other);
    close();
    const std::string sound = bytes_of_file(path());
    const auto* const bytes = reinterpret_cast<const std::byte*>(sound.data());
    for (std::uint64_t p = 0; p < shape_.size_pages; ++p) {
      cluster c;
      if (cluster_fault(bytes, shape_, p, shape_.size_pages - p, c).what != nullptr && c.number == 0) continue;
      const std::uint64_t at = shape_.page_offset(p) + offsetof(layout::cluster_header, structures);
      if (c.first && load_word(bytes, at) != 0) word_at_ = at;
    }
    ASSERT_NE(word_at_, 0U);
  }
  void expect_all_entries() {
    open();
    nvm_store* const s = attached("home", 0);
    nvm_lf* const one = opened(s, "one", 1);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(entries_of(one).size(), 60U);
    ASSERT_EQ(nvm_lf_close(one), 0);
    detach(s);
    close();
  }
  void set_word(std::uint64_t at, std::uint64_t word) {
    std::fstream file{path(), std::ios::binary | std::ios::in | std::ios::out};
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&word), sizeof word);
  }

  std::uint64_t word_at_ = 0, inside_other_ = 0;
  geometry shape_;
};
std::vector<ground> shm_only() {
  std::vector<ground> all = grounds();
  std::erase_if(all, [](const ground& g) { return std::string{g.name} != "shm_undo"; });
  return all;
}
INSTANTIATE_TEST_SUITE_P(shm, damaged_structures, testing::ValuesIn(kinds_of_build(shm_only())), name_of_ground);

// A word of zeros holds its check: the pages say that there was a directory.
TEST_P(damaged_structures, whose_directory_is_not_named_any_more_are_not_freed) {
  make();
  const std::string sound = bytes_of_file(path());
  for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{0x1234567}}) {
    write_file(path(), sound);
    set_word(word_at_, word);
    EXPECT_NE(findings_in(path()), "") << word;
    open();
    nvm_store* const s = nvm_store_attach(pool_, "home", 0);
    if (s != nullptr) {
      EXPECT_EQ(nvm_lf_open_in(s, "one", nullptr), nullptr);
      EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
      detach(s);
    } else {
      EXPECT_EQ(nvm_errno(), NVM_E_CORRUPT) << nvm_errormsg();
    }
    close();
    std::uint64_t right = 0;
    std::memcpy(&right, sound.data() + word_at_, sizeof right);
    set_word(word_at_, right);
    expect_all_entries();
    EXPECT_EQ(findings_in(path()), "");
  }
}

// Otherwise nothing of the store could be reached, and a repair of the pool would be refused.
TEST_P(damaged_structures, have_a_bit_of_their_directory_s_word_put_right) {
  make();
  const std::string sound = bytes_of_file(path());
  std::uint64_t word = 0;
  std::memcpy(&word, sound.data() + word_at_, sizeof word);
  for (const unsigned bit : {3U, 17U, 60U}) {
    write_file(path(), sound);
    set_word(word_at_, word ^ std::uint64_t{1} << bit);
    EXPECT_NE(findings_in(path()), "");
    care::repair_request request;
    request.path = path();
    request.in_place = true;
    request.accept_copy = true;
    care::repair_report report;
    ASSERT_TRUE(care::repair_pool(request, report)) << last_message();
    EXPECT_EQ(findings_in(path()), "");
    expect_all_entries();
  }
}

// Each word of its pages that leads to a node leads into another store: an error, and no trap.
TEST_P(damaged_structures, lead_into_no_other_store) {
  make();
  const std::string sound = bytes_of_file(path());
  const std::uint64_t target = round_up(inside_other_, line_bytes);
  const auto* const bytes = reinterpret_cast<const std::byte*>(sound.data());
  // Each takes an open.
  constexpr unsigned most = sanitized ? 12 : 60;
  unsigned led = 0, told = 0;
  for (std::uint64_t p = 0; p < shape_.size_pages && led < most; ++p) {
    const std::uint64_t head = cluster_head(bytes, shape_, p);
    if (head == no_cluster) continue;
    for (std::uint64_t at = shape_.page_offset(p); at < shape_.page_offset(p + 1) && led < most; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, sound.data() + at, sizeof word);
      const std::uint64_t to = word & ~std::uint64_t{63};
      // A plain offset of a place in some cluster: links have no check.
      if (to < shape_.data_offset || to >= shape_.size_bytes() || (word >> 48) != 0) continue;
      if (cluster_head(bytes, shape_, shape_.page_of(to)) == no_cluster) continue;
      ++led;
      write_file(path(), sound);
      set_word(at, target | (word & 63));
      open();
      nvm_store* const s = nvm_store_attach(pool_, "home", 0);
      nvm_lf* const one = s == nullptr ? nullptr : nvm_lf_open_in(s, "one", nullptr);
      if (one == nullptr) {
        ++told;
      } else {
        bool failed = false;
        for (std::uint64_t i = 1; i <= 60; ++i) {
          std::uint64_t value = 0;
          failed = nvm_lf_get64(one, i * 7919 % 100003, &value) < 0 || failed;
        }
        told += failed ? 1 : 0;
        EXPECT_EQ(nvm_lf_close(one), 0);
      }
      if (s != nullptr) detach(s);
      close();
    }
  }
  EXPECT_GE(led, 10U);
  EXPECT_GT(told, led / 4);
}

}  // namespace
}  // namespace nvm::tests
