// The full check of structures.hpp, which includes this; no thread is at work. Each allocated node has one link, each
// link leads to a node, keys are in order, entries match their checksums.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/structures.hpp"

namespace nvm::engines {

// Offsets that were met; `complete`: there was memory for all.
struct noted {
  std::vector<std::uint64_t> offsets;
  bool complete = true;
  void add(std::uint64_t offset) noexcept {
    try {
      offsets.push_back(offset);
    } catch (const std::bad_alloc&) {
      complete = false;
    }
  }
  void sort() noexcept { std::sort(offsets.begin(), offsets.end()); }
  [[nodiscard]] bool has(std::uint64_t offset) const noexcept {
    return std::binary_search(offsets.begin(), offsets.end(), offset);
  }
};
// Says which entry fails its checksum.
struct failing {
  const std::function<void(std::uint64_t offset, const char* what)>& tell;
  const std::string& name;
  static constexpr std::size_t shown = 40;
  static void add(void* self, std::uint64_t at, std::span<const std::byte> key) {
    auto& of = *static_cast<failing*>(self);
    std::string hex;
    for (std::size_t i = 0; i < std::min(key.size(), shown); ++i) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(key[i]));
      hex += digits;
    }
    const std::string text = "lock-free structure '" + of.name + "': the entry with the key of " +
                             std::to_string(key.size()) + " bytes " + hex + (key.size() > shown ? "..." : "") +
                             " fails its checksum";
    of.tell(at, text.c_str());
  }
};

template <media M>
status structures<M>::check(const told& tell) {
  return check_each([&tell](std::string_view, std::uint64_t at, const char* what) { tell(at, what); });
}

template <media M>
status structures<M>::check_each(const told_of& tell_of) {
  std::array<std::string, lockfree::layout::structures_max> names;
  if (status s = names_.each([&](const found& f, std::string_view name) { names[f.index] = name; }); !s) return s;
  for (auto& o : open_) {
    if (o == nullptr) continue;
    const std::string& name = names[static_cast<std::size_t>(&o - open_.data())];
    told tell = [&](std::uint64_t at, const char* what) { tell_of(name, at, what); };
    lockfree::structure& raw = o->raw();
    noted linked;
    noted allocated;
    const bool all = raw.each_linked(
        &linked, [](void* to, std::uint64_t offset, const lockfree::link*) { static_cast<noted*>(to)->add(offset); });
    raw.each_allocated(0, ~std::uint64_t{0} >> 1, &allocated,
                       [](void* to, std::uint64_t offset, std::uint64_t) { static_cast<noted*>(to)->add(offset); });
    if (!all || !linked.complete || !allocated.complete) {
      return fail(errc::no_memory, "no volatile memory to check the lock-free structures");
    }
    // Deleted nodes that recovery has not found are counted, though no walk shows them.
    const auto walked = o->count_linked();
    if (walked && *walked != o->count()) tell(0, "a node is deleted and linked, and counted as an entry");
    linked.sort();
    allocated.sort();
    for (const std::uint64_t at : allocated.offsets) {
      if (!linked.has(at)) tell(at, "node is allocated, and nothing leads to it");
    }
    if (const char* wrong = raw.links_fault(); wrong != nullptr || raw.is_damaged()) {
      tell(0, wrong != nullptr ? wrong : "a link leads where no node can be");
    }
    if (failing by_sum{tell, name}; !raw.is_damaged()) {
      raw.each_failing(&by_sum, failing::add);
    }
    raw.each_stray(&tell, [](void* to, std::uint64_t at) {
      (*static_cast<told*>(to))(at, "nodes live in pages that the page map calls free");
    });
    std::uint64_t before = 0;
    for (const std::uint64_t at : linked.offsets) {
      if (at == before) tell(at, "two links lead to the same node");
      if (!allocated.has(at)) tell(at, "something leads to a node that is not allocated");
      before = at;
    }
  }
  return {};
}

}  // namespace nvm::engines
