// Reference counts in a log-structured heap at rest: its objects are copied to memory at their addresses, and looked at
// there (references_in_image.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "care/references_in_image.hpp"
#include "platform/platform.hpp"

namespace nvm::care {

// Memory: as much as the pages of home space that have objects.
template <class Heap>
class home_copy {
 public:
  // May throw std::bad_alloc.
  home_copy(Heap& heap, typename Heap::thread& thread, const geometry& g) : g_{g}, memory_{g.home_bytes} {
    if (memory_.data() == nullptr) throw std::bad_alloc{};
    bool has_all = true;
    heap.for_each_object([&](std::uint64_t home, std::uint64_t size) {
      try {
        if (size != 0 && g_.in_objects(home, size)) objects_.push_back({home, size});
      } catch (const std::bad_alloc&) {  // the walk is one that cannot fail
        has_all = false;
      }
    });
    if (!has_all) throw std::bad_alloc{};
    std::sort(objects_.begin(), objects_.end(),
              [](const object_room& a, const object_room& b) { return a.offset < b.offset; });
    for (const object_room& o : objects_) heap.read(thread, o.offset, bytes() + o.offset, o.bytes);
  }

  // Place that the words of home space name; 0: neither copy holds.
  [[nodiscard]] std::uint64_t named(anchor_word which) const noexcept {
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(g_, copy, which);
      std::uint64_t word;
      std::memcpy(&word, bytes() + at, sizeof word);
      if (word_holds(word, word_seed(at)) && (word & checked_mask) != 0) return word & checked_mask;
    }
    return 0;
  }
  // `address`: of the pool's start, by stored pointers.
  [[nodiscard]] counted_image image(std::uint64_t address) {
    counted_image i{
        bytes(), g_, address, named(anchor_word::root), named(anchor_word::types), named(anchor_word::references), {}};
    i.listed = &objects_;
    i.changed = [this](std::uint64_t offset, const void* from, std::uint64_t n) {
      const auto* b = static_cast<const std::byte*>(from);
      changes_.push_back({offset, {b, b + n}});
    };
    return i;
  }
  // Makes changes of the image in the heap, too; change(body) runs body(transaction) as one.
  template <class Change>
  [[nodiscard]] status store_changes(Change&& change) {
    constexpr std::size_t at_once = 256;
    for (std::size_t i = 0; i < changes_.size(); i += at_once) {
      const status done = change([&](auto& t) -> status {
        for (std::size_t k = i; k < std::min(i + at_once, changes_.size()); ++k) {
          t.store(changes_[k].offset, changes_[k].bytes.data(), changes_[k].bytes.size());
        }
        return {};
      });
      if (!done) return done;
    }
    return {};
  }

 private:
  // By offsets in the pool: home space begins at its own.
  [[nodiscard]] std::byte* bytes() const noexcept { return static_cast<std::byte*>(memory_.data()) - g_.home_offset(); }
  struct piece {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  geometry g_;
  platform::zeroed_memory memory_;
  std::vector<object_room> objects_;
  std::vector<piece> changes_;
};

}  // namespace nvm::care
