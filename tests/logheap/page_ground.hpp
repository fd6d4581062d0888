// Home pages over a heap that is an array of bytes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <random>
#include <vector>

#include "logheap/home_pages.hpp"
#include "platform/platform.hpp"

namespace nvm::logheap::testing {

inline constexpr std::uint64_t page = home_pages::page_bytes;

// Addresses for home pages, given back at the end.
class reserved_range {
 public:
  explicit reserved_range(std::uint64_t bytes) {
    auto taken = platform::slot::take(platform::window_base, bytes);
    EXPECT_TRUE(taken) << last_message();
    if (taken) slot_ = std::move(*taken);
  }
  [[nodiscard]] std::byte* base() const { return slot_.base(); }

 private:
  platform::slot slot_;
};

class page_ground {
 public:
  static constexpr home_t first = home_t{1} << 40;

  explicit page_ground(std::uint64_t pages = 2048, std::uint64_t bytes_max = 0, unsigned fault_threads = 1,
                       unsigned fault_around = 1)
      : heap_(pages * page), range_{pages * page} {
    home_pages_settings s;
    s.base = range_.base();
    s.first = first;
    s.bytes = heap_.size();
    s.bytes_max = bytes_max;
    s.fault_around = fault_around;
    auto opened = home_pages::open(s, std::vector<home_read>(fault_threads, reader()));
    if (opened) pages_ = std::move(*opened);
  }

  // False: this system has no user faults; last_message() says why.
  [[nodiscard]] bool exists() const { return pages_ != nullptr; }
  [[nodiscard]] home_pages& operator*() { return *pages_; }
  [[nodiscard]] home_pages* operator->() { return pages_.get(); }
  void close() { pages_.reset(); }

  // What the heap has; commits of threads change it while others read.
  [[nodiscard]] std::byte* in_heap(home_t home) { return heap_.data() + (home - first); }
  [[nodiscard]] std::uint64_t bytes() const { return heap_.size(); }
  [[nodiscard]] home_read reader() {
    return [this](home_t home, std::byte* to, std::uint64_t size) {
      const auto& hook = after_read;
      isolation::copy_out(to, in_heap(home), size);
      if (hook) hook(home);
    };
  }
  // Runs after each look into the heap, on the thread that builds a page.  Set while nobody builds.
  std::function<void(home_t)> after_read;

  void commit(home_t home, const void* from, std::uint64_t size) {
    isolation::copy_in(in_heap(home), from, size);
    pages_->store(home, from, size);
  }
  void fill(home_t home, std::uint64_t size, int value) {
    const std::vector<std::byte> bytes(size, std::byte(value));
    commit(home, bytes.data(), size);
  }
  // As a program does it.
  [[nodiscard]] int load(home_t home) const {
    return std::to_integer<int>(*static_cast<const volatile std::byte*>(pages_->at(home)));
  }
  // All of the range is what the heap has.
  [[nodiscard]] bool agrees(home_t home, std::uint64_t size) {
    return std::memcmp(pages_->at(home), in_heap(home), size) == 0;
  }
  // Pages that the system has, of those of the range.
  [[nodiscard]] std::uint64_t resident() const {
    std::vector<unsigned char> there(heap_.size() / page);
    EXPECT_EQ(::mincore(range_.base(), heap_.size(), there.data()), 0);
    std::uint64_t n = 0;
    for (const unsigned char c : there) n += c & 1;
    return n;
  }

 private:
  std::vector<std::byte> heap_;
  reserved_range range_;
  std::unique_ptr<home_pages> pages_;
};

}  // namespace nvm::logheap::testing

// In a test: makes a page_ground, or leaves the test with the reason why there is none.
#define PAGE_GROUND(name, ...)                            \
  ::nvm::logheap::testing::page_ground name{__VA_ARGS__}; \
  if (!(name).exists()) GTEST_SKIP() << ::nvm::last_message()
