#include "pool/header_read.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace nvm {
namespace {

struct looked_at {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;  // of the header
  bool operator==(const looked_at&) const = default;
};

}  // namespace

result<header_read> read_header(const platform::file& file) noexcept {
  constexpr unsigned times_max = 64;
  alignas(8) std::array<std::byte, superblock_probe_bytes> header;
  std::optional<looked_at> before;
  for (unsigned times = 1;; ++times) {
    const auto facts = file.facts();
    if (!facts) return facts.error();
    if (!facts->regular) return fail(errc::not_a_pool, "expected a regular file");
    const std::size_t available = std::min<std::uint64_t>(facts->bytes, header.size());
    if (status s = file.read(0, header.data(), available); !s) return s.error();
    const auto sb = pick_superblock(header.data(), available, facts->bytes);
    if (sb) return header_read{*sb, *facts};
    const looked_at now{facts->bytes, checksum(header.data(), available, 0)};
    if (before == now || times == times_max) return sb.error();
    before = now;
  }
}

}  // namespace nvm
