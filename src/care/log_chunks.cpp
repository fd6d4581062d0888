#include "care/log_chunks.hpp"

#include <bit>
#include <cstddef>

#include "care/header_on_file.hpp"
#include "logheap/logheap_layout.hpp"

namespace nvm::care {
namespace {

namespace on_log = logheap::layout;

bool holds(const on_log::root& r, std::uint64_t at) noexcept {
  return r.magic == on_log::root_magic &&
         r.check == checksum(&r, offsetof(on_log::root, check), mix_seed(on_log::root_magic, at)) &&
         r.version <= on_log::root_version && std::has_single_bit(r.chunk_bytes) &&
         r.chunk_bytes >= on_log::chunk_bytes_min && r.chunk_bytes <= on_log::chunk_bytes_max;
}

}  // namespace

result<std::uint64_t> log_chunk_bytes_in(const char* path) noexcept {
  const auto h = header_on_file_of(path);
  if (!h) return h.error();
  std::uint64_t bytes = 0;
  if (!engine_of(h->superblock.engine).is_its_log()) return bytes;
  const status read = each_anchored(*h, anchor_word::log_heap, [&](std::uint64_t at) -> status {
    on_log::root r{};
    if (!h->sizes.in_data(at, sizeof r)) return errc::not_found;
    if (status s = h->file.read(at, &r, sizeof r); !s) return s;
    if (!holds(r, at)) return errc::not_found;
    bytes = r.chunk_bytes;
    return {};
  });
  if (!read) return read.error();
  return bytes;
}

}  // namespace nvm::care
