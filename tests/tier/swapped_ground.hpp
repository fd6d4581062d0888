// A file in memory with a tier under it, for tests: page 0 is metadata and stays, the others are swapped.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "../clocks.hpp"
#include "media/block_device.hpp"
#include "platform/platform.hpp"
#include "tier/tier.hpp"

namespace nvm::tier {

class swapped_ground {
 public:
  static constexpr std::uint64_t page_bytes = swapper::page_bytes;

  struct wish {
    std::uint64_t pages = 1024;
    std::uint64_t fast_pages_max = 128;
    std::uint32_t policy = NVM_TIER_STEADY;
    layout::page_coding coding = layout::page_coding::lz4;
    bool shared = true;
    bool keep_found = false;
  };

  // `name`: of both files, which stay when this object goes, as after a kill.
  swapped_ground(const std::string& name, const wish& w) : name_{name}, wish_{w} {}
  ~swapped_ground() { close(); }
  static void remove(const std::string& name) {
    ::unlink(fast_path(name).c_str());
    ::unlink(slow_path(name).c_str());
  }
  static std::string fast_path(const std::string& name) { return "/dev/shm/" + name + ".fast"; }
  static std::string slow_path(const std::string& name) { return "/dev/shm/" + name + ".slow"; }

  [[nodiscard]] static page_file_identity identity(std::uint64_t pages) {
    page_file_identity who;
    std::memset(who.pool_uuid, 3, sizeof who.pool_uuid);
    std::memset(who.uuid, 4, sizeof who.uuid);
    who.pages = pages;
    return who;
  }

  // Makes both files if they do not exist.  `device`: in place of the second file's own.
  [[nodiscard]] status open(block_device* device = nullptr) {
    tests::begin_clocks_anew();
    auto fast = platform::file::open(fast_path(name_).c_str(), O_RDWR | O_CREAT, 0600);
    if (!fast) return fast.error();
    fast_ = std::move(*fast);
    auto slow = platform::file::open(slow_path(name_).c_str(), O_RDWR | O_CREAT, 0600);
    if (!slow) return slow.error();
    slow_ = std::move(*slow);
    own_ = std::make_unique<file_device>(slow_);
    device = device == nullptr ? own_.get() : device;
    const bool is_new = *fast_.size() == 0;
    const page_file_identity who = identity(wish_.pages);
    if (is_new) {
      if (status s = page_file::format(*device, who, 1); !s) return s;
      if (status s = fast_.truncate((wish_.pages + 1) * page_bytes); !s) return s;
    }
    void* const p = ::mmap(nullptr, (wish_.pages + 1) * page_bytes, PROT_READ | PROT_WRITE,
                           (wish_.shared ? MAP_SHARED : MAP_PRIVATE) | MAP_NORESERVE, fast_.descriptor(), 0);
    if (p == MAP_FAILED) return fail(errc::system, "mmap: %s", std::strerror(errno));
    memory_ = static_cast<std::byte*>(p);
    auto* const sequence = reinterpret_cast<std::uint64_t*>(memory_);
    auto file = page_file::open(*device, who, *sequence);
    if (!file) return file.error();
    if (status s = (*file)->compress_by(wish_.coding); !s) return s;
    swapper_settings settings;
    settings.base = memory_ + page_bytes;
    settings.fast = &fast_;
    settings.offset = page_bytes;
    settings.pages = wish_.pages;
    settings.fast_pages_max = wish_.fast_pages_max;
    settings.policy = wish_.policy;
    settings.shared = wish_.shared;
    settings.keep_found = wish_.keep_found;
    settings.sequence = sequence;
    settings.lost = [](void* context, std::uint64_t page, const char* why) noexcept {
      auto* const g = static_cast<swapped_ground*>(context);
      const std::lock_guard guard{g->lost_lock_};
      g->lost_page_ = page;
      std::snprintf(g->lost_why_, sizeof g->lost_why_, "%s", why);
    };
    settings.context = this;
    auto made = swapper::open(settings, std::move(*file));
    if (!made) return made.error();
    swapper_ = std::move(*made);
    return swapper_->start_leaving();
  }
  void close() {
    if (swapper_ != nullptr) swapper_->stop_leaving();
    if (memory_ != nullptr) ::munmap(memory_, (wish_.pages + 1) * page_bytes);
    memory_ = nullptr;
    swapper_.reset();
    fast_.close();
    slow_.close();
  }

  [[nodiscard]] std::byte* page(std::uint64_t n) const { return memory_ + (n + 1) * page_bytes; }
  [[nodiscard]] std::uint64_t* words(std::uint64_t n) const { return reinterpret_cast<std::uint64_t*>(page(n)); }
  [[nodiscard]] swapper& tier() { return *swapper_; }
  [[nodiscard]] const page_file& slow() { return static_cast<const page_file&>(swapper_->slow()); }
  [[nodiscard]] platform::file& fast() { return fast_; }
  [[nodiscard]] std::uint64_t lost_page() {
    const std::lock_guard guard{lost_lock_};
    return lost_page_;
  }
  [[nodiscard]] std::string lost_why() {
    const std::lock_guard guard{lost_lock_};
    return lost_why_;
  }

 private:
  std::string name_;
  wish wish_;
  platform::file fast_, slow_;
  std::unique_ptr<file_device> own_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<swapper> swapper_;
  std::mutex lost_lock_;
  std::uint64_t lost_page_ = ~std::uint64_t{0};
  char lost_why_[512] = "";
};

}  // namespace nvm::tier
