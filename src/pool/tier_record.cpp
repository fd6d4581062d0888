#include "pool/tier_record.hpp"

#include <cinttypes>
#include <cstring>

#include "pool/pool_file.hpp"

namespace nvm {
namespace {

std::uint64_t check_of(const layout::tier_record& r) noexcept {
  return checksum(&r, offsetof(layout::tier_record, check), layout::tier_magic);
}

}  // namespace

result<layout::tier_record> read_tier_record(const platform::file& file) noexcept {
  layout::tier_record r;
  if (auto s = file.read(layout::tier_sector, &r, sizeof r); !s) return s.error();
  if (r.magic != layout::tier_magic) {
    return fail(errc::corrupt,
                "record of the second file at offset %" PRIu64 ": magic: found %016" PRIx64 ", expected %016" PRIx64,
                layout::tier_sector, r.magic, layout::tier_magic);
  }
  if (const std::uint64_t expected = check_of(r); r.check != expected) {
    return fail(errc::corrupt,
                "record of the second file at offset %" PRIu64 ": check: found %016" PRIx64 ", expected %016" PRIx64,
                layout::tier_sector, r.check, expected);
  }
  if (r.path_bytes == 0 || r.path_bytes >= sizeof r.path || r.path[r.path_bytes] != 0 ||
      std::strlen(r.path) != r.path_bytes) {
    return fail(errc::corrupt, "record of the second file: path of %u bytes: expected 1 to %zu without a zero",
                r.path_bytes, sizeof r.path - 1);
  }
  return r;
}

status write_tier_record(const platform::file& file, layout::tier_record& record, bool keep_sequence) noexcept {
  record.magic = layout::tier_magic;
  record.check = check_of(record);
  const std::size_t bytes = keep_sequence ? offsetof(layout::tier_record, sequence) : sizeof record;
  return file.write(layout::tier_sector, &record, bytes);
}

status pool_file::bring_tier(const image_step& step) noexcept {
  if (step.run != nullptr) {
    if (status s = step.run(step.context, *this); !s) return s;
    return slot_.show(shape_.capacity_bytes());
  }
  if (!has_tier()) return {};
  return fail(errc::version, "some of its pages are in a second file, which this call does not bring");
}

void pool_file::join_tier() noexcept {
  superblock_.features_incompat |= layout::feature_tier;
  features_.store(superblock_.features_incompat, std::memory_order_release);
  sparse_ = true;
  // The mapping of a reader is its own already: zeros in the place of a lost page are for its calls alone (020).
  if (!read_only_) memory_.keep_mapping();
}

status pool_file::keep_image_in(int descriptor) noexcept {
  return slot_.put_over(descriptor, shape_.page_offset(0), shape_.capacity_bytes());
}

status pool_file::take_image_back() noexcept { return slot_.map_private(file_.descriptor(), shape_.capacity_bytes()); }

void pool_file::let_in(const image_guest& guest) noexcept {
  guest_ = guest;
  memory_.keep_mapping();
}

}  // namespace nvm
