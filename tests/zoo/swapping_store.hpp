// The smallest store that swaps to flash.
//
// Values by key: the last ones in a few slots of memory, the others on flash.  Copies say which version they are, and
// the last version of a key counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/base.hpp"
#include "media/block_device.hpp"
#include "zoo.hpp"

namespace nvm::zoo {

struct copy {
  alignas(64) std::uint64_t key;  // plus one
  std::uint64_t version;
  std::uint64_t value;
  std::uint64_t sum;

  [[nodiscard]] std::uint64_t right_sum() const { return checksum(this, offsetof(copy, sum), 86); }
  [[nodiscard]] bool valid() const { return key != 0 && sum == right_sum(); }
};
inline constexpr std::size_t memory_slots = 2;
inline constexpr std::size_t flash_slots = 6;
inline constexpr std::uint64_t keys = 4;

enum class swap_mistake : std::uint8_t { none, no_sync, old_copy, full_ignored };

// What an unreadable slot of the flash holds is not known: it is neither reused nor believed to be empty.
class swapping_store {
 public:
  swapping_store(machine& m, copy* memory, block_device& flash, swap_mistake wrong)
      : m_{m}, memory_{memory}, flash_{flash}, wrong_{wrong}, flash_slots_{*flash.size() / sizeof(copy)} {
    for (std::size_t i = 0; i < memory_slots; ++i) note(memory_[i]);
    for (std::size_t i = 0; i < flash_slots_; ++i) {
      if (const auto c = on_flash(i)) {
        note(*c);
      } else {
        all_known_ = false;
      }
    }
  }
  // 0: there is none.
  [[nodiscard]] result<std::uint64_t> get(std::uint64_t key) {
    copy last{};
    for (std::size_t i = 0; i < memory_slots; ++i) take(last, memory_[i], key);
    for (std::size_t i = 0; i < flash_slots_; ++i) {
      const auto c = on_flash(i);
      if (!c) return errc::io;
      if (wrong_ == swap_mistake::old_copy && c->valid() && c->key == key + 1) return c->value;
      take(last, *c, key);
    }
    return last.value;
  }
  status put(std::uint64_t key, std::uint64_t value) {
    if (!all_known_) return errc::io;
    const std::size_t to = slot_for(key);
    if (is_last(memory_[to])) {
      const status moved = swap_out(memory_[to]);
      if (!moved && wrong_ != swap_mistake::full_ignored) return moved;
    }
    copy c{key + 1, version_ + 1, value, 0};
    c.sum = c.right_sum();
    memory_[to] = c;
    persist(m_.media(), &memory_[to], sizeof(copy), edge{"zoo/F86 memory"});
    ++version_;
    return {};
  }

 private:
  [[nodiscard]] std::size_t slot_for(std::uint64_t key) {
    for (std::size_t i = 0; i < memory_slots; ++i) {
      if (!is_last(memory_[i])) return i;
    }
    const std::size_t oldest = memory_[0].version < memory_[1].version ? 0 : 1;
    // The last copy of the key stays until there is a newer one.
    return memory_[oldest].key == key + 1 ? 1 - oldest : oldest;
  }
  status swap_out(const copy& c) {
    for (std::size_t i = 0; i < flash_slots_; ++i) {
      const auto there = on_flash(i);
      if (!there || is_last(*there)) continue;
      if (auto s = flash_.write(i * sizeof(copy), &c, sizeof c); !s) return s;
      return wrong_ == swap_mistake::no_sync ? status{} : flash_.sync(edge{"zoo/F86 flash"});
    }
    return fail(errc::no_space, "the flash is full");
  }
  [[nodiscard]] std::optional<copy> on_flash(std::size_t i) {
    copy c{};
    return flash_.read(i * sizeof(copy), &c, sizeof c) ? std::optional{c} : std::nullopt;
  }
  void note(const copy& c) {
    if (c.valid()) version_ = std::max(version_, c.version);
  }
  static void take(copy& last, const copy& c, std::uint64_t key) {
    if (c.valid() && c.key == key + 1 && c.version > last.version) last = c;
  }
  // Nothing newer is known of its key.
  [[nodiscard]] bool is_last(const copy& c) {
    if (!c.valid()) return false;
    copy last = c;
    for (std::size_t i = 0; i < memory_slots; ++i) take(last, memory_[i], c.key - 1);
    for (std::size_t i = 0; i < flash_slots_; ++i) {
      if (const auto other = on_flash(i)) take(last, *other, c.key - 1);
    }
    return last.version == c.version;
  }

  machine& m_;
  copy* memory_;
  block_device& flash_;
  swap_mistake wrong_;
  std::size_t flash_slots_;
  std::uint64_t version_ = 0;
  bool all_known_ = true;
};

// Which key is put as the i-th.
constexpr std::uint64_t key_of_put(std::uint64_t i) { return (i * i + i / 3) % keys; }

struct swap_image {
  copy memory[memory_slots];
  copy flash[flash_slots];
};

// Flash in the image: lines that only a sync makes durable.
class lines_of_flash final : public block_device {
 public:
  lines_of_flash(machine& m, copy* base) : m_{m}, base_{reinterpret_cast<std::byte*>(base)} {}
  ~lines_of_flash() = default;
  status write(std::uint64_t offset, const void* from, std::size_t bytes, site = site::here()) noexcept override {
    std::memcpy(base_ + offset, from, bytes);
    dirty_[offset / sizeof(copy)] = true;
    return {};
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    std::memcpy(to, base_ + offset, bytes);
    return {};
  }
  status sync(edge e) noexcept override {
    for (std::size_t i = 0; i < flash_slots; ++i) {
      if (dirty_[i]) m_.media().flush(base_ + i * sizeof(copy), sizeof(copy));
      dirty_[i] = false;
    }
    m_.media().fence(e);
    return {};
  }
  result<std::uint64_t> size() noexcept override { return std::uint64_t{flash_slots * sizeof(copy)}; }

 private:
  machine& m_;
  std::byte* base_;
  std::array<bool, flash_slots> dirty_{};
};

}  // namespace nvm::zoo
