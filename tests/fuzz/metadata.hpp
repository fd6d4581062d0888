// Places of the metadata in a pool's file, where a flipped bit must be noticed.
#pragma once

#include <algorithm>
#include <vector>

#include "edits.hpp"
#include "log/log.hpp"
#include "log_heap_image.hpp"
#include "nvm/nvm.h"
#include "space/space.hpp"

namespace nvm::fuzz {

struct byte_run {
  const char* what;
  std::uint64_t from, bytes;
};

// Of a whole image: superblocks, anchors, the page map and the log as far as they say something, headers of extents
// and objects; chunk headers, block headers and entries of a log-structured heap, and what it has saved.
[[nodiscard]] inline std::vector<byte_run> metadata_of(const bytes& image) {
  std::vector<byte_run> runs;
  const auto sb = pick_superblock(image.data(), image.size());
  if (!sb) broken("an image without a superblock");
  const geometry g = geometry_of(*sb);
  const std::byte* const base = image.data();
  // Lines that are not zero, and the one after.
  const auto lines = [&](const char* what, std::uint64_t from, std::uint64_t bytes) {
    bool before = false;
    for (std::uint64_t at = from; at < from + bytes; at += line_bytes) {
      const bool used = std::any_of(base + at, base + at + line_bytes, [](std::byte b) { return b != std::byte{0}; });
      if (used || before) runs.push_back({what, at, line_bytes});
      before = used;
    }
  };
  for (unsigned copy = 0; copy < 2; ++copy) {
    runs.push_back({"superblock", g.superblock_at(copy), sizeof(layout::superblock)});
    runs.push_back({"anchor", g.anchor_at(copy), 8 * anchor_words});
  }
  lines("page map", g.page_map_offset, round_up(8 * g.size_pages, line_bytes));
  if (g.home_bytes == 0) lines("log", g.log_offset, g.log_bytes);
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    const std::uint64_t word = word_of(base, g.entry_offset(page));
    const auto kind = static_cast<layout::page_kind>(word >> 48 & 15);
    const bool fine = kind == layout::page_kind::fine;
    if (!fine && kind != layout::page_kind::coarse) continue;
    const std::uint64_t header = fine ? 16 + 5 * 8 : 16 + 10 * 8;
    runs.push_back({"extent", g.page_offset(page), header});
    for (std::uint64_t slot = 0; slot < (fine ? 256U : 512U); ++slot) {
      const std::uint64_t at = g.page_offset(page) + header + slot;
      if (base[at] != std::byte{0}) runs.push_back({"length of an object", at, 1});
    }
  }
  if (g.home_bytes == 0) {
    (void)for_each_object(base, g, [&](std::uint64_t offset, std::uint64_t, layout::object_layout l) {
      if (l == layout::object_layout::typed) runs.push_back({"object", offset, sizeof(layout::object_header)});
      return true;
    });
    return runs;
  }
  const log_heap_image heap = read_log_heap(base, g);
  runs.push_back({"root of the heap", heap.root_at, sizeof heap.root});
  for (const log_chunk& c : heap.chunks) {
    runs.push_back({"chunk", c.offset, sizeof(log_layout::chunk_header)});
    if (log_layout::use_of(c.use) != log_layout::chunk_use::saved) continue;
    log_layout::block_header h;
    std::memcpy(&h, base + c.offset + line_bytes, sizeof h);
    runs.push_back({"saved mapping", c.offset + line_bytes, std::min<std::uint64_t>(h.bytes, 512)});
  }
  for (const log_block& b : heap.blocks) {
    const std::uint64_t entries = 16 * logheap::count_of(b.header);
    runs.push_back({"block", b.place.offset(), std::min<std::uint64_t>(sizeof b.header + entries, b.header.bytes)});
  }
  return runs;
}

}  // namespace nvm::fuzz
