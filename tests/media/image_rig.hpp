// A small pool file in memory with an image medium on it, and its states after a crash.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "media/image_media.hpp"
#include "media/memory_device.hpp"

namespace nvm::test {

inline constexpr std::uint64_t file_bytes = 64 * 1024;
inline constexpr std::uint64_t data_offset = 16 * 1024;  // what lies before is header and log

// The last bytes of the file are blocks, of which a word of each, before them, says how many sectors there are; what
// the others hold is nobody's.
struct blocks {
  static constexpr std::uint64_t count = 4;
  static constexpr std::uint64_t bytes = 2048;
  static constexpr std::uint64_t first = file_bytes - count * bytes;
  static constexpr std::uint64_t words = first - sector_bytes;
  static constexpr std::uint64_t at(std::uint64_t i) { return first + i * bytes; }
  static constexpr std::uint64_t word_at(std::uint64_t i) { return words + 8 * i; }
};
// The data area of a file's content, as far as somebody may look at it.
inline std::vector<std::byte> shown(std::vector<std::byte> data) {
  for (std::uint64_t i = 0; i < blocks::count; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, &data[blocks::word_at(i) - data_offset], sizeof word);
    const std::uint64_t there = std::min(word * sector_bytes, blocks::bytes);
    const auto end = data.begin() + static_cast<std::ptrdiff_t>(blocks::at(i) + blocks::bytes - data_offset);
    std::fill(end - static_cast<std::ptrdiff_t>(blocks::bytes - there), end, std::byte{0});
  }
  return data;
}

inline ring_identity small_ring(std::uint64_t log_bytes = 8 * 1024) {
  ring_identity ring{.place = {.log_offset = 4096, .log_bytes = log_bytes}};
  for (std::size_t i = 0; i < sizeof ring.uuid; ++i) ring.uuid[i] = static_cast<std::uint8_t>(17 * i + 3);
  return ring;
}

struct alignas(4096) page {
  std::byte bytes[4096];
};

// Lets a test look between a write and its sync, or take its time there.
class hooked_device final : public block_device {
 public:
  explicit hooked_device(memory_device& inner) : inner_{inner} {}
  ~hooked_device() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept override {
    return inner_.write(offset, from, bytes, s);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return inner_.read(offset, to, bytes);
  }
  status sync(edge e) noexcept override {
    if (before_sync) before_sync(e);
    if (without != nullptr && std::strcmp(without, e.name) == 0) return {};
    return inner_.sync(e);
  }
  result<std::uint64_t> size() noexcept override { return inner_.size(); }

  std::function<void(edge)> before_sync;
  const char* without = nullptr;  // syncs of this edge do nothing: is it needed?

 private:
  memory_device& inner_;
};

// The file, its image, the medium; destroying it is a crash.
class image_rig {
 public:
  explicit image_rig(const ring_identity& ring = small_ring()) : ring_{ring}, device{file_bytes}, hooks{device} {
    result<ring_state> state = format_ring(device, ring_);
    if (state && device.sync(edge{"test/create"})) open({.state = *state, .end = state->checkpoint, .bytes = {}});
  }
  // Opens what a crash left, as a process does: the log goes to the image now, and home later.
  image_rig(const ring_identity& ring, std::vector<std::byte> content, const char* without = nullptr)
      : ring_{ring}, device{std::move(content)}, hooks{device} {
    recover(without);
  }
  // The same after a kill that spared the machine.
  image_rig(const ring_identity& ring, memory_device::after_kill left, const char* without = nullptr)
      : ring_{ring}, device{left}, hooks{device} {
    recover(without);
  }

  [[nodiscard]] std::byte* image() noexcept { return reinterpret_cast<std::byte*>(image_.get()); }
  template <class T = std::uint64_t>
  [[nodiscard]] T& at(std::uint64_t offset) noexcept {
    return *reinterpret_cast<T*>(image() + offset);
  }
  [[nodiscard]] const ring_identity& ring() const noexcept { return ring_; }
  // The image's data area.
  [[nodiscard]] std::vector<std::byte> data() noexcept { return shown({image() + data_offset, image() + file_bytes}); }

 private:
  void recover(const char* without) {
    hooks.without = without;
    result<log_run> run = open_log(hooks, ring_, file_bytes);
    replayed = run.error();
    if (run) open(std::move(*run));
  }
  void open(log_run run) {
    image_ = std::make_unique<page[]>(file_bytes / sizeof(page));
    const std::vector<std::byte> content = device.content();
    std::memcpy(image(), content.data(), content.size());
    apply_run(run, ring_, image());
    auto opened = image_media::open(
        hooks, {.base = image(), .bytes = file_bytes, .ring = ring_, .straight_from = sector_bytes, .guest = {}},
        std::move(run));
    if (opened) medium = std::move(*opened);
  }

  ring_identity ring_;
  std::unique_ptr<page[]> image_;

 public:
  memory_device device;
  hooked_device hooks;
  errc replayed = errc::ok;
  std::unique_ptr<image_media> medium;
};

// Any subset of the unsynced sector versions.
inline std::vector<std::byte> random_crash(const memory_device& device, std::mt19937_64& random) {
  return device.crash(
      [&](std::uint64_t, std::size_t versions) { return static_cast<std::size_t>(random() % (versions + 1)); });
}

// Data area of a file's content.
inline std::vector<std::byte> data_of(const std::vector<std::byte>& content) {
  return shown({content.begin() + data_offset, content.end()});
}

// Stores `value` at word `i` of the data area and commits it in a batch of its own; returns its LSN.
inline result<lsn_t> commit_word(image_rig& rig, std::uint64_t i, std::uint64_t value) {
  image_media::batch b;
  auto& word = rig.at(data_offset + 8 * i);
  std::atomic_ref{word}.store(value, std::memory_order_relaxed);
  b.add(&word, 8);
  return rig.medium->publish(b, [] {}, edge{"test/commit"});
}
// Runs commits until the medium refuses; returns how many were acknowledged.
inline std::uint64_t commit_until_refused(image_rig& rig, std::uint64_t limit) {
  for (std::uint64_t i = 0; i < limit; ++i) {
    const result<lsn_t> lsn = commit_word(rig, i % 64, i + 1);
    if (!lsn || !rig.medium->durable(*lsn)) return i;
  }
  return limit;
}

}  // namespace nvm::test
