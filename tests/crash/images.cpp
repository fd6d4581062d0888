// What explorations of a pool begin with: its image, and what is tried of it.
#include <cstdlib>
#include <cstring>

#include "media/memory_device.hpp"
#include "subjects.hpp"

namespace nvm::tests {
namespace {

layout::superblock superblock_for(const crash_shape& s, kind_of_medium kind) {
  const bool image = is_image(kind);
  superblock_request r;
  r.shape.page_shift = s.page_shift;
  r.shape.size_pages = s.size_pages;
  r.shape.capacity_pages = s.capacity_pages;
  if (image) {
    r.shape.ring_bytes = s.ring_bytes;
  } else {
    r.shape.lane_count = s.lanes;
    r.shape.lane_bytes = s.lane_bytes;
  }
  r.medium = image ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  for (const engine_row& e : engine_table) {
    if (e.log == kind.log) r.engine = e.number;
  }
  if (is_mnemosyne(kind)) r.shape.lane_bytes = 4 * s.lane_bytes;  // it goes on nowhere else
  r.validation = static_cast<std::uint32_t>(kind.validation);
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(i * 7 + 1);
  const auto sb = make_superblock(r);
  if (!sb) std::abort();
  return *sb;
}

}  // namespace

std::vector<std::byte> new_image(const crash_shape& shape, kind_of_medium kind) {
  const layout::superblock sb = superblock_for(shape, kind);
  const geometry g = geometry_of(sb);
  std::vector<std::byte> bytes(round_up(g.capacity_bytes(), sector_bytes));
  format_image(bytes.data(), sb);
  if (!is_image(kind)) return bytes;
  memory_device file{std::move(bytes)};
  ring_identity ring;
  ring.place = {sb.log_offset, sb.log_bytes};
  std::memcpy(ring.uuid, sb.uuid, sizeof ring.uuid);
  if (!format_ring(file, ring)) std::abort();
  return file.content();
}

explore::options options_for(explore::model m) {
  explore::options o;
  o.persistency = m;
  o.nesting = 2;
  o.nested_every = 16;
  o.promise_at_op_end = m != explore::model::ssd;
  // Allocation words are written back late on purpose: the rules would name each of them.
  o.rules = false;
  return o;
}

}  // namespace nvm::tests
