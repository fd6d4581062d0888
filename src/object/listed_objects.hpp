// The typed objects of a pool whose objects are named by a list: those of the log-structured engine.  As
// placed_objects; a place is looked up among the objects' addresses, so it costs their logarithm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "object/placed_objects.hpp"

namespace nvm::object {

class listed_objects {
 public:
  struct entry {
    std::uint64_t header;
    std::uint64_t room;
  };
  // Ascending, and none reaches into the next.
  explicit listed_objects(std::vector<entry> all) noexcept
      : all_{std::move(all)}, marks_{ceil_div(all_.size(), checked_bits)} {}
  [[nodiscard]] status survey(unsigned /*threads*/) noexcept {
    return marks_.exists() ? status{} : fail(errc::no_memory, "no volatile memory for the marks of objects");
  }

  [[nodiscard]] bool find(std::uint64_t offset, found_object& out) const noexcept {
    const auto after = std::upper_bound(all_.begin(), all_.end(), offset,
                                        [](std::uint64_t at, const entry& e) { return at < e.header; });
    if (after == all_.begin()) return false;
    const auto i = static_cast<std::uint64_t>(after - all_.begin()) - 1;
    out = object_at(i);
    return offset - all_[i].header < all_[i].room;
  }
  [[nodiscard]] std::uint64_t room_of(const found_object& o) const noexcept { return all_[index_of(o.mark)].room; }
  // Memory that another thread may have to build first: it is touched when it is needed.
  void prefetch(const found_object& /*o*/) const noexcept {}

  [[nodiscard]] mark_bits& marks() noexcept { return marks_; }
  [[nodiscard]] found_object object_of(mark_place p) const noexcept { return object_at(index_of(p)); }

  template <class Visit>
  void each_unmarked(std::uint64_t first, std::uint64_t end, Visit&& visit) const {
    each(first, end, [&](const found_object& o) {
      if (!marks_.test(o.mark)) visit(o);
    });
  }
  template <class Visit>
  void each(std::uint64_t first, std::uint64_t end, Visit&& visit) const {
    for (std::uint64_t i = first; i < end; ++i) visit(object_at(i));
  }
  [[nodiscard]] std::uint64_t units() const noexcept { return all_.size(); }
  [[nodiscard]] std::uint64_t objects() const noexcept { return all_.size(); }

 private:
  [[nodiscard]] found_object object_at(std::uint64_t i) const noexcept {
    return {all_[i].header, {i / checked_bits, static_cast<unsigned>(i % checked_bits)}};
  }
  static std::uint64_t index_of(mark_place p) noexcept { return p.word() * checked_bits + p.bit(); }

  std::vector<entry> all_;
  mark_bits marks_;
};

}  // namespace nvm::object
