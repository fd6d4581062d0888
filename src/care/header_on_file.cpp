#include "care/header_on_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>

namespace nvm::care {

result<header_on_file> header_on_file_of(const char* path) noexcept {
  auto file = platform::file::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return file.error();
  const auto facts = file->facts();
  if (!facts) return facts.error();
  if (!facts->regular) return fail(errc::not_a_pool, "%s: expected a regular file", path);
  alignas(8) std::array<std::byte, superblock_probe_bytes> header;
  const std::size_t available = std::min<std::uint64_t>(facts->bytes, header.size());
  if (status s = file->read(0, header.data(), available); !s) return s.error();
  const auto sb = pick_superblock(header.data(), available, facts->bytes);
  if (!sb) return sb.error();
  return header_on_file{std::move(*file), *sb, geometry_of(*sb)};
}

}  // namespace nvm::care
