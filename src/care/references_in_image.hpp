// Reference counts of a pool that no process has open: compared with its pointers and with records that are not
// applied, and mended by these.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/base.hpp"
#include "pool/pool.hpp"
#include "space/object_in_image.hpp"

namespace nvm::care {

// Whether the commit records of the lanes of such a pool say where its rings end.
[[nodiscard]] bool lanes_say_ends(const layout::superblock& sb) noexcept;

struct counted_image {
  std::byte* bytes = nullptr;  // recovered; the check changes nothing
  geometry shape;
  std::uint64_t address = 0;  // stored pointers to the pool's start
  std::uint64_t root = 0;     // payload; 0: none
  std::uint64_t types = 0;    // offset of the type map; 0: none
  std::uint64_t rings = 0;    // payload of the rings of activation records
  // Where the ring of a lane ends, if its commit records say so.
  std::function<std::uint32_t(unsigned)> end_of_lane;
  // Objects that no page map tells of, by their headers, ascending, the type map among them; nullptr: the page map
  // tells.
  const std::vector<object_room>* listed = nullptr;
  // For an image that is a copy: called with each change.
  std::function<void(std::uint64_t offset, const void* bytes, std::uint64_t n)> changed = nullptr;
};

// say(offset, text) for each ring, record and count that does not hold.  errc::no_memory.
[[nodiscard]] status check_references(const counted_image& image,
                                      const std::function<void(std::uint64_t, const char*)>& say) noexcept;

// Makes counts follow the pointers, and leaves no record waiting; returns how many counts were wrong.  errc::corrupt:
// the rings do not hold.
[[nodiscard]] result<std::uint64_t> mend_references(const counted_image& image) noexcept;

// Whether `place` is the payload of an object that has the rings.
[[nodiscard]] bool names_rings(const std::byte* bytes, const geometry& shape, std::uint64_t place) noexcept;
// Makes the next open that counts references count anew; returns 0.
[[nodiscard]] std::uint64_t count_later(const counted_image& image) noexcept;
// The same, with `rings` rings without records in the object that had the others.
void make_rings_anew(const counted_image& image, std::uint32_t rings) noexcept;

}  // namespace nvm::care
