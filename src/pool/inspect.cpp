#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "pool/header_read.hpp"
#include "pool/pool_file.hpp"

namespace nvm {
namespace {

// Pages in use according to the page map in the file.  The map may change meanwhile, so impossible figures are bounded
// and not reported: that is the full check's work.
result<std::uint64_t> used_pages(const platform::file& file, const geometry& g,
                                 std::uint64_t (*entry_pages)(std::uint64_t) noexcept) noexcept {
  std::array<std::uint64_t, 8192> words;
  std::uint64_t used = 0;
  for (std::uint64_t page = 0; page < g.size_pages; page += words.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(words.size(), g.size_pages - page);
    if (auto s = file.read(g.entry_offset(page), words.data(), count * 8); !s) return s.error();
    for (std::uint64_t i = 0; i < count; ++i) {
      if (words[i] == 0) continue;
      const bool holds = word_holds(words[i], word_seed(g.entry_offset(page + i)));
      used += holds ? std::min(entry_pages(words[i] & checked_mask), g.size_pages) : 1;
    }
  }
  return std::min(used, g.size_pages);
}

void describe_superblock(const layout::superblock& sb, nvm_pool_info& out) noexcept {
  const geometry g = geometry_of(sb);
  std::memcpy(out.uuid, sb.uuid, sizeof out.uuid);
  out.format_version = sb.version;
  out.medium = sb.medium;
  out.engine = engine_of(sb.engine).number;
  out.validation = sb.validation;
  if (const geometry g = geometry_of(sb); g.home_bytes != 0) {
    out.home = sb.base_address + g.home_offset();
    out.home_bytes = g.home_bytes;
  }
  out.lanes = sb.lane_count;
  out.size = g.size_pages << g.page_shift;
  out.capacity = g.capacity_pages << g.page_shift;
  out.base = sb.base_address;
  const base_ranges known = ranges_of(sb);
  out.base_count = known.count;
  std::copy_n(known.bases.begin(), known.count, out.bases);
  out.log_bytes = g.log_bytes;
  out.clean = sb.state == static_cast<std::uint32_t>(layout::pool_state::clean);
  out.untyped = (sb.features_compat & layout::feature_untyped_bytes) != 0 ? NVM_UNTYPED_BYTES : NVM_UNTYPED_REFUSE;
  out.page_bytes = static_cast<std::uint32_t>(g.page_bytes());
}

void name_pool(const char* path, nvm_pool_info& out) noexcept {
  out = {};
  const std::size_t bytes = std::min(std::strlen(path), sizeof out.path - 1);
  std::memcpy(out.path, path, bytes);
}

status inspect(const char* path, std::uint64_t (*entry_pages)(std::uint64_t) noexcept, nvm_pool_info& out) noexcept {
  auto file = platform::file::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) {
    if (file.error() == errc::not_found) return fail(errc::not_found, "no such file");
    const int number = errno;
    fail(file.error(), "open: %s", std::strerror(number));
    errno = number;
    return file.error();
  }
  const auto header = read_header(*file);
  if (!header) return header.error();
  const geometry g = geometry_of(header->superblock);
  const auto used = used_pages(*file, g, entry_pages);
  if (!used) return used.error();
  const auto locked = file->locked_elsewhere();
  if (!locked) return locked.error();
  describe_superblock(header->superblock, out);
  out.file_bytes = header->facts.bytes;
  out.used_pages = *used;
  out.free_pages = g.size_pages - *used;
  if (g.page_bytes() >= layout::owner_sector + sizeof(layout::owner_record) && !*locked) {
    layout::owner_record owner;
    if (auto s = file->read(layout::owner_sector, &owner, sizeof owner); !s) return s;
    out.copied = is_of_a_copy(owner, file->identity()) ? 1 : 0;
  }
  if (*locked && g.page_bytes() >= layout::owner_sector + sizeof(layout::owner_record)) {
    // Read after the lock was found held: a record read earlier may be of an owner that died.
    layout::owner_record owner;
    if (auto s = file->read(layout::owner_sector, &owner, sizeof owner); !s) return s;
    out.owner_pid = static_cast<std::int64_t>(owner.pid);
    if (owner.pid != 0) out.clean = 0;  // on ssd the file says so from the first change on
  }
  return {};
}

}  // namespace

status pool_file::describe(nvm_pool_info& out) noexcept {
  name_pool(path(), out);
  const auto facts = file_.facts();
  if (!facts) return fail(facts.error(), "pool %s: %s", path(), last_message());
  {
    const std::lock_guard lock{growing_};
    describe_superblock(superblock_, out);
  }
  out.base = reinterpret_cast<std::uintptr_t>(base());
  if (out.home_bytes != 0) out.home = out.base + shape_.home_offset();
  out.file_bytes = facts->bytes;
  // A process that only reads holds nothing that another reader could not hold too.
  out.owner_pid = read_only_ ? 0 : platform::process_id();
  return {};
}

status inspect_pool(const char* path, std::uint64_t (*entry_pages)(std::uint64_t content) noexcept,
                    nvm_pool_info& out) noexcept {
  if (path == nullptr || *path == 0) return fail(errc::invalid, "a pool needs a path");
  name_pool(path, out);
  if (auto s = inspect(path, entry_pages, out); !s) return fail(s.error(), "pool %s: %s", path, last_message());
  return {};
}

}  // namespace nvm
