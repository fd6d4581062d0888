// The parts of a process on ssd besides the heap: its view of the file, which is the machine's image, and the log's
// medium.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <utility>

#include "explore/explore.hpp"
#include "media/media.hpp"
#include "pool/pool.hpp"

namespace nvm::tests {

[[nodiscard]] inline ring_identity ring_of(const layout::superblock& sb) {
  ring_identity r;
  r.place = {sb.log_offset, sb.log_bytes};
  std::memcpy(r.uuid, sb.uuid, sizeof r.uuid);
  return r;
}

// Until its process dies: after that no sync begins.
class mortal_device final : public block_device {
 public:
  explicit mortal_device(explore::machine& m) : inner_{m} {}
  ~mortal_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override { return dies_ ? status{fail(errc::io, "killed")} : inner_.sync(e); }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }
  void die_at_next_sync() noexcept { dies_ = true; }

 private:
  explore::device inner_;
  bool dies_ = false;
};

// A view of an image. The last one that may lie anywhere is kept: processes begin and end a hundred thousand times a
// second.
class process_view {
 public:
  process_view() noexcept = default;
  // At `wish`, or anywhere; nullptr: there is no room.  What is in it is anything.
  process_view(void* wish, std::size_t bytes) noexcept : bytes_{bytes}, anywhere_{wish == nullptr} {
    if (anywhere_ && kept().data_ != nullptr && kept().bytes_ == bytes) {
      swap(kept());
      return;
    }
    const int where = MAP_PRIVATE | MAP_ANONYMOUS | (wish == nullptr ? 0 : MAP_FIXED_NOREPLACE);
    void* mapped = ::mmap(wish, bytes, PROT_READ | PROT_WRITE, where, -1, 0);
    if (mapped != MAP_FAILED) data_ = static_cast<std::byte*>(mapped);
  }
  process_view(process_view&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, bytes_{other.bytes_}, anywhere_{other.anywhere_} {}
  process_view& operator=(process_view&& other) noexcept {
    swap(other);
    return *this;
  }
  ~process_view() {
    if (anywhere_ && this != &kept()) swap(kept());
    if (data_ != nullptr) (void)::munmap(data_, bytes_);
  }
  [[nodiscard]] std::byte* get() const noexcept { return data_; }

 private:
  static process_view& kept() noexcept {
    thread_local process_view view;
    return view;
  }
  void swap(process_view& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(anywhere_, other.anywhere_);
  }
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool anywhere_ = false;
};

struct image_process {
  // The view lies at `at`, or anywhere.
  explicit image_process(explore::machine& m, void* at = nullptr) : device{m}, wish{at} {}

  status open(explore::machine& m) {
    auto sb = pick_superblock(m.base(), m.size());
    if (!sb) return sb.error();
    auto run = open_log(device, ring_of(*sb), m.size());
    if (!run) return run.error();
    const std::size_t bytes = round_up(m.size(), 4096);
    view = process_view{wish, bytes};
    if (view.get() == nullptr) return fail(errc::system, "no room for a view of the image");
    std::memcpy(view.get(), m.base(), m.size());
    std::memset(view.get() + m.size(), 0, bytes - m.size());
    apply_run(*run, ring_of(*sb), view.get());
    sb = pick_superblock(view.get(), m.size());
    if (!sb) return sb.error();
    superblock = *sb;
    image_settings settings;
    settings.base = view.get();
    settings.bytes = geometry_of(superblock).capacity_bytes();
    settings.ring = ring_of(superblock);
    settings.checkpoint_pages = 3;  // so that a checkpoint fills the stage
    settings.straight_from = 1024;
    auto opened = image_media::open(device, settings, std::move(*run));
    if (!opened) return opened.error();
    medium = std::move(*opened);
    return {};
  }

  mortal_device device;
  layout::superblock superblock{};
  void* wish;
  process_view view;
  std::unique_ptr<image_media> medium;
};

}  // namespace nvm::tests
