// Objects that the program refers to from volatile memory for longer than a transaction: counts, in volatile memory.
//
// Threads: any.  Objects are spread over locks by their place.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/base.hpp"

namespace nvm::object {

class holds {
 public:
  // Counts one more hold of the object whose payload is at `offset`.  errc::no_memory.
  [[nodiscard]] status add(std::uint64_t offset) noexcept try {
    part& p = part_of(offset);
    const std::lock_guard guard{p.lock};
    ++p.counts[offset];
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to hold an object");
  }
  // Counts one hold less; false: it was not held.
  [[nodiscard]] bool take(std::uint64_t offset) noexcept {
    part& p = part_of(offset);
    const std::lock_guard guard{p.lock};
    const auto found = p.counts.find(offset);
    if (found == p.counts.end()) return false;
    if (--found->second == 0) p.counts.erase(found);
    return true;
  }
  [[nodiscard]] bool any(std::uint64_t offset) noexcept {
    part& p = part_of(offset);
    const std::lock_guard guard{p.lock};
    return p.counts.find(offset) != p.counts.end();
  }
  // Calls visit(offset) for each held object; visit holds or drops none.
  template <class Visit>
  void each(Visit&& visit) {
    for (part& p : parts_) {
      const std::lock_guard guard{p.lock};
      for (const auto& [offset, count] : p.counts) visit(offset);
    }
  }

 private:
  struct part {
    std::mutex lock;
    std::unordered_map<std::uint64_t, std::uint64_t> counts;
  };
  [[nodiscard]] part& part_of(std::uint64_t offset) noexcept { return parts_[(offset >> 4 ^ offset >> 12) % 16]; }
  std::array<part, 16> parts_;
};

}  // namespace nvm::object
