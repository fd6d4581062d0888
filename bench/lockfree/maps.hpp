// The maps that are compared: lock-free and durable, their log-based twins, and the same without any persistence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/random.hpp"

namespace nvm::bench {

enum class shape : std::uint8_t { list, hash, skip_list, tree };
enum class variant : std::uint8_t {
  link_and_persist,
  link_cache,
  redo_settled,
  redo_stamped,
  volatile_only,
  one_by_one,   // link-and-persist; each allocation and each unlinking recorded durably, as without NV-epochs
  as_in_paper,  // link-and-persist with a write-back for each allocation
  volatile_links
};
[[nodiscard]] const char* name_of(shape s) noexcept;
[[nodiscard]] const char* name_of(variant v) noexcept;
[[nodiscard]] role role_of(variant v) noexcept;

struct map_settings {
  bench::shape shape = bench::shape::hash;
  bench::variant variant = bench::variant::link_and_persist;
  std::uint64_t size = 0;  // keys at the start, of a range twice as large
  unsigned threads = 1;
  unsigned look_ups_percent = 0;  // of the operations; the rest: insert and remove, half each
  std::uint64_t write_ns = 0;     // emulated latency of a sync, beside that of the real instructions
  std::string directory = "/dev/shm";
};

struct area_hits {
  std::uint64_t allocations = 0, allocation_hits = 0;
  std::uint64_t unlinks = 0, unlink_hits = 0;
};

// A map with `size` of the keys [0, 2 * size).
class measured_map : public contestant {
 public:
  virtual bool insert(unsigned thread, std::uint64_t key, std::uint64_t value) = 0;
  virtual bool replace(unsigned thread, std::uint64_t key, std::uint64_t value) = 0;  // false: cannot
  virtual bool remove(unsigned thread, std::uint64_t key) = 0;
  virtual bool look_up(unsigned thread, std::uint64_t key) = 0;
  virtual area_hits hits() { return {}; }
};

[[nodiscard]] std::unique_ptr<measured_map> make_map(const map_settings& s);
[[nodiscard]] std::unique_ptr<measured_map> make_durable_map(const map_settings& s);   // durable_maps.cpp
[[nodiscard]] std::unique_ptr<measured_map> make_emulated_map(const map_settings& s);  // emulated_maps.cpp
[[nodiscard]] std::unique_ptr<measured_map> make_volatile_map(const map_settings& s);  // volatile_maps.cpp

// Keys of the start, in random order (a list's in descending order beyond 8192, where random order takes long).
template <class Insert>
void fill(shape what, std::uint64_t size, Insert&& insert) {
  std::uint64_t range = 1;
  while (range < 2 * size) range *= 2;
  const bool descending = what == shape::list && size > 8192;
  for (std::uint64_t i = 0; i < range; ++i) {
    // Odd multipliers and shifts of a power of two: a permutation.
    std::uint64_t key = i;
    if (descending) {
      key = range - 1 - i;
    } else {
      for (int round = 0; round < 3; ++round) {
        key = (key * 0x9E37'79B1 + 0x7F4A'7C15) & (range - 1);
        key ^= key >> 7;
      }
    }
    if (key < 2 * size && (mix(key) & 1) == 0) insert(key);
  }
}

// One operation of the mix.
enum class action : std::uint8_t { insert, remove, look_up };
struct step {
  action what;
  std::uint64_t key;
};
[[gnu::always_inline]] inline step step_of(const map_settings& s, unsigned thread, std::uint64_t i) noexcept {
  const std::uint64_t r = mix(i * 64 + thread + 1);
  const std::uint64_t key = static_cast<std::uint64_t>((static_cast<unsigned __int128>(r) * (2 * s.size)) >> 64);
  const std::uint64_t choice = mix(r + 0x51);
  if (choice % 100 < s.look_ups_percent) return {action::look_up, key};
  return {(choice >> 32 & 1) != 0 ? action::insert : action::remove, key};
}

// What all of them share: Self has insert_(), remove_() and look_up_().
template <class Self>
class map_of : public measured_map {
 public:
  explicit map_of(const map_settings& s) : settings_{s}, sums_(s.threads) {}

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    auto& self = static_cast<Self&>(*this);
    std::uint64_t done = 0;
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const step o = step_of(settings_, thread, i);
      switch (o.what) {
        case action::insert:
          done += self.insert_(thread, o.key, i) ? 1 : 0;
          break;
        case action::remove:
          done += self.remove_(thread, o.key) ? 2 : 0;
          break;
        case action::look_up:
          done += self.look_up_(thread, o.key) ? 3 : 0;
          break;
      }
    }
    sums_[thread].of += done;
  }
  bool insert(unsigned t, std::uint64_t k, std::uint64_t v) override {
    return static_cast<Self&>(*this).insert_(t, k, v);
  }
  bool remove(unsigned t, std::uint64_t k) override { return static_cast<Self&>(*this).remove_(t, k); }
  bool look_up(unsigned t, std::uint64_t k) override { return static_cast<Self&>(*this).look_up_(t, k); }
  // What happened, and which keys are left. Threads that meet make neither certain.
  std::uint64_t work_digest() override {
    if (settings_.threads != 1) return 0;
    digest d;
    d.add(sums_[0].of);
    for (std::uint64_t k = 0; k < std::min<std::uint64_t>(2 * settings_.size, 4096); ++k) d.add(look_up(0, k) ? 1 : 0);
    return d.value();
  }

 protected:
  const map_settings settings_;

 private:
  struct alignas(64) sum {
    std::uint64_t of = 0;
  };
  std::vector<sum> sums_;
};

}  // namespace nvm::bench
