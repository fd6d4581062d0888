// Memory of a burst trie on a plain buffer: a transaction is a copy, objects are never moved, and allocations fail
// where a test wants them to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "store/store.hpp"

namespace nvm::tests {

class buffer_memory {
 public:
  static constexpr std::uint64_t root_at = 16;

  explicit buffer_memory(std::uint64_t bytes) : bytes_(bytes) {}

  // ---- as the trie sees it ----

  const std::byte* view(std::uint64_t place, std::uint64_t bytes, std::byte*) noexcept {
    if (place % 8 != 0 || !range_inside(place, bytes, bytes_.size())) return nullptr;
    return bytes_.data() + place;
  }
  result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept {
    if (fail_after_ == 0) return fail(errc::no_space, "the test has no more room");
    if (fail_after_ > 0) --fail_after_;
    ++allocations;
    const std::uint64_t room = round_up(bytes, 16);
    std::uint64_t place = 0;
    if (auto& free = free_[room]; !free.empty()) {
      place = free.back();
      free.pop_back();
    } else {
      place = end_;
      if (place + room > bytes_.size()) return fail(errc::no_space, "the buffer is full");
      end_ += room;
    }
    objects_[place] = {bytes, type};
    std::memset(bytes_.data() + place, 0xA5, room);  // what nobody fills is seen
    return place;
  }
  void fill(std::uint64_t place, const void* from, std::uint64_t bytes) noexcept {
    if (!is_inside(place, bytes)) std::abort();
    std::memcpy(bytes_.data() + place, from, bytes);
    // What a container has beyond its texts is anything.
  }
  status put(std::uint64_t place, const void* from, std::uint64_t bytes) noexcept {
    if (place % 8 != 0 || bytes % 8 != 0 || (place != root_at && !is_inside(place, bytes))) std::abort();
    std::memcpy(bytes_.data() + place, from, bytes);
    put_bytes += bytes;
    return {};
  }
  status give_back(std::uint64_t place, std::uint64_t bytes) noexcept {
    const auto at = objects_.find(place);
    if (at == objects_.end() || at->second.bytes != bytes) std::abort();
    objects_.erase(at);
    free_[round_up(bytes, 16)].push_back(place);
    return {};
  }

  // ---- as tests do ----

  struct object {
    std::uint64_t bytes;
    std::uint32_t type;
    bool operator==(const object&) const = default;
  };
  [[nodiscard]] const std::map<std::uint64_t, object>& objects() const noexcept { return objects_; }
  [[nodiscard]] std::vector<std::byte>& bytes() noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t used() const noexcept { return end_; }
  // Allocations that succeed from now on; negative: all.
  void fail_after(int allocations_left) noexcept { fail_after_ = allocations_left; }

  std::uint64_t allocations = 0;
  std::uint64_t put_bytes = 0;

 private:
  // Bytes of one object.
  [[nodiscard]] bool is_inside(std::uint64_t place, std::uint64_t bytes) const noexcept {
    auto at = objects_.upper_bound(place);
    if (at == objects_.begin()) return false;
    --at;
    return range_inside(place - at->first, bytes, at->second.bytes);
  }
  std::vector<std::byte> bytes_;
  std::uint64_t end_ = 64;
  std::map<std::uint64_t, object> objects_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_;
  int fail_after_ = -1;
};
static_assert(stores::trie_writes<buffer_memory>);

}  // namespace nvm::tests
