// A file system so small that the explorer can build every image that a crash leaves of it.
//
// Names, the metadata of files and blocks lie in the image, each in lines of its own.  A sync flushes the lines that it
// covers and fences: what a crash leaves is what POSIX allows, any part of what no sync has covered.  The table of
// names and the metadata of one file are a word each: a change of them is atomic, as a journal makes it.
//
// A mapping is memory that lies on the blocks themselves: under a page cache its stores become durable by
// sync_mapping(), on DAX by write-backs of the program.  A page that is touched first gets its block then, as in a
// hole.
//
// Blocks are not given back.
#pragma once

#include <array>
#include <cstdint>

#include "zoo.hpp"

namespace nvm::zoo {

inline constexpr unsigned names_max = 8;
inline constexpr unsigned files_max = 4;
inline constexpr unsigned pages_max = 7;  // of a file
inline constexpr unsigned blocks_max = 12;
inline constexpr unsigned page_words = 16;

struct files_image {
  struct file {
    alignas(64) std::uint64_t metadata;  // byte 0: pages; byte 1 + i: block of page i, plus one; 0: a hole
  };
  struct block {
    alignas(64) std::uint64_t words[page_words];
  };
  alignas(64) std::uint64_t names;  // byte i: number of the file with name i, plus one; 0: there is none
  file files[files_max];
  block blocks[blocks_max];
};

class model_files {
 public:
  enum class mapping : std::uint8_t { page_cache, dax, dax_sync };  // dax_sync: MAP_SYNC
  enum class flush : std::uint8_t { async, sync };                  // MS_ASYNC, MS_SYNC
  static constexpr unsigned none = files_max;

  explicit model_files(machine& m) : m_{m}, x_{*reinterpret_cast<files_image*>(m.base())} {
    for (unsigned f = 0; f < files_max; ++f) {
      for (unsigned p = 0; p < pages_max; ++p) blocks_used_ = std::max(blocks_used_, block_of(f, p));
    }
  }

  // ---- names

  [[nodiscard]] unsigned find(unsigned name) const {
    const std::uint64_t f = byte_of(x_.names, name);
    return f == 0 || f > files_max ? none : static_cast<unsigned>(f) - 1;
  }
  // A new, empty file.
  unsigned create(unsigned name) {
    const unsigned f = files_used_++;
    x_.names = with_byte(x_.names, name, f + 1);
    names_dirty_ = true;
    return f;
  }
  void rename(unsigned from, unsigned to) {
    x_.names = with_byte(with_byte(x_.names, to, byte_of(x_.names, from)), from, 0);
    names_dirty_ = true;
  }

  // ---- files

  [[nodiscard]] unsigned pages(unsigned f) const { return static_cast<unsigned>(byte_of(x_.files[f].metadata, 0)); }
  [[nodiscard]] std::uint64_t read(unsigned f, unsigned page, unsigned word) const {
    const unsigned b = page < pages(f) ? block_of(f, page) : 0;
    return b == 0 ? 0 : x_.blocks[b - 1].words[word];
  }
  void write(unsigned f, unsigned page, unsigned word, std::uint64_t value) {
    if (page >= pages(f)) set_metadata(f, 0, page + 1);
    block_for(f, page).words[word] = value;
    dirty_[block_of(f, page) - 1] = true;
  }
  // Makes the file longer; its new pages are holes.
  void truncate(unsigned f, unsigned count) { set_metadata(f, 0, count); }
  // Makes the file longer; its new pages have space of their own.
  void allocate(unsigned f, unsigned count) {
    for (unsigned p = 0; p < count; ++p) (void)block_for(f, p);
    set_metadata(f, 0, count);
  }
  [[nodiscard]] std::uint64_t* map(unsigned f, unsigned page, mapping how) {
    std::uint64_t* const words = block_for(f, page).words;
    if (how == mapping::page_cache) dirty_[block_of(f, page) - 1] = true;
    if (how == mapping::dax_sync && metadata_dirty_[f]) {
      m_.media().flush(&x_.files[f].metadata, 8);
      m_.media().fence(edge{"zoo/metadata before the page is mapped"});
      metadata_dirty_[f] = false;
    }
    return words;
  }

  // ---- syncs

  // The file's bytes and all that is needed to read them; not its name.
  void sync_file(unsigned f) {
    flush_pages(f, 0, pages_max);
    if (metadata_dirty_[f]) m_.media().flush(&x_.files[f].metadata, 8);
    metadata_dirty_[f] = false;
    m_.media().fence(edge{"zoo/file synced"});
  }
  // The bytes of blocks that the file has; nothing that leads to them (sync_file_range).
  void sync_bytes_only(unsigned f) {
    flush_pages(f, 0, pages_max);
    m_.media().fence(edge{"zoo/bytes synced"});
  }
  void sync_names() {
    if (names_dirty_) m_.media().flush(&x_.names, 8);
    names_dirty_ = false;
    m_.media().fence(edge{"zoo/names synced"});
  }
  void sync_mapping(unsigned f, unsigned first, unsigned count, flush how) {
    if (how == flush::async) return;  // the kernel will write them, some day
    flush_pages(f, first, count);
    m_.media().fence(edge{"zoo/mapping synced"});
  }

 private:
  static std::uint64_t byte_of(std::uint64_t word, unsigned i) { return word >> 8 * i & 0xFF; }
  static std::uint64_t with_byte(std::uint64_t word, unsigned i, std::uint64_t value) {
    return (word & ~(std::uint64_t{0xFF} << 8 * i)) | value << 8 * i;
  }
  [[nodiscard]] unsigned block_of(unsigned f, unsigned page) const {
    const auto b = static_cast<unsigned>(byte_of(x_.files[f].metadata, 1 + page));
    return b > blocks_max ? 0 : b;
  }
  files_image::block& block_for(unsigned f, unsigned page) {
    if (block_of(f, page) == 0) set_metadata(f, 1 + page, ++blocks_used_);
    return x_.blocks[block_of(f, page) - 1];
  }
  void set_metadata(unsigned f, unsigned byte, std::uint64_t value) {
    x_.files[f].metadata = with_byte(x_.files[f].metadata, byte, value);
    metadata_dirty_[f] = true;
  }
  void flush_pages(unsigned f, unsigned first, unsigned count) {
    for (unsigned p = first; p < first + count && p < pages_max; ++p) {
      const unsigned b = block_of(f, p);
      if (b == 0 || !dirty_[b - 1]) continue;
      m_.media().flush(&x_.blocks[b - 1], sizeof(files_image::block));
      dirty_[b - 1] = false;
    }
  }

  machine& m_;
  files_image& x_;
  unsigned files_used_ = 0;
  unsigned blocks_used_ = 0;
  bool names_dirty_ = false;
  std::array<bool, files_max> metadata_dirty_{};
  std::array<bool, blocks_max> dirty_{};
};

}  // namespace nvm::zoo
