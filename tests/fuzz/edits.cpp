#include "edits.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "log/log.hpp"
#include "log_heap_image.hpp"
#include "media/media.hpp"
#include "nvm/nvm.h"
#include "structure_image.hpp"
#include "tx/tx.hpp"

namespace nvm::fuzz {
ring_identity ring_of(const layout::superblock& sb) {
  ring_identity r;
  r.place = {sb.log_offset, sb.log_bytes};
  std::memcpy(r.uuid, sb.uuid, sizeof r.uuid);
  return r;
}

namespace {

constexpr unsigned plain_kinds = 8;  // of edits of bytes, whatever they are about

class editor {
 public:
  // `original`: the same as `image`, and stays so.
  editor(bytes& image, const bytes& original, const bytes* other) : image_{image}, other_{other} {
    // The geometry of the image as it was; edits of the superblock change what readers see, not where we repair.
    auto sb = pick_superblock(image.data(), image.size());
    if (!sb) std::abort();
    superblock_ = *sb;
    g_ = geometry_of(*sb);
    if (g_.home_bytes != 0) heap_ = read_log_heap(image.data(), g_);
    if (g_.home_bytes == 0) structures_ = structure_image{original, g_};
  }

  void apply(const edit& e) {
    const unsigned own_kinds = other_ == nullptr ? plain_kinds : plain_kinds + 1;
    if (!heap_.blocks.empty() && e.what % (own_kinds + heap_kinds) >= own_kinds) {
      return change_heap(e.what % (own_kinds + heap_kinds) - own_kinds, e);
    }
    const std::uint64_t n = image_.size();
    const std::uint64_t byte = place_of(e) % n;
    const std::uint64_t word = round_down(byte, 8);
    const std::uint64_t line = round_down(byte, line_bytes);
    const std::uint64_t other = round_down(e.value % n, line_bytes);
    switch (e.what % own_kinds) {
      case 0:
        image_[byte] = static_cast<std::byte>(e.value);
        break;
      case 1:
        image_[byte] ^= static_cast<std::byte>(1U << e.value % 8);
        break;
      case 2:
        put(word, e.value);
        break;
      case 3:
        put(word, get(word) + static_cast<std::uint64_t>(static_cast<std::int8_t>(e.value)));
        break;
      case 4:
        std::memmove(&image_[line], &image_[other], line_bytes);
        break;
      case 5:
        std::swap_ranges(&image_[line], &image_[line] + line_bytes, &image_[other]);
        break;
      case 6:
        put(word, get(round_down(e.value % n, 8)));
        break;
      case 7:
        put(word, std::uint64_t{1} << e.value % 64);
        break;
      default:
        // Not repaired: a crash does not do that.
        std::memcpy(&image_[line], &(*other_)[line], line_bytes);
        return;
    }
    if (e.flags % 4 != 0) {
      repair(byte);
      if (e.what % own_kinds == 5) repair(other);
    }
  }

 private:
  // Half of the edits go where the metadata is: that is a small part of an image.
  [[nodiscard]] std::uint64_t place_of(const edit& e) const {
    if (heap_.whole) return place_in_heap(e);
    if (structures_.whole()) {
      if (e.flags % 32 >= 28) return structures_.type_place(e.place);
      if (e.flags % 32 >= 24) return structures_.directory_place(e.place);
      if (e.flags % 128 >= 64) return structures_.used_place(e.place);
    }
    switch (e.flags >> 2 & 7) {
      case 0:
        return e.place % sizeof(layout::superblock);
      case 1:
        return g_.superblock_at(1) + e.place % sizeof(layout::superblock);
      case 2:
        return g_.page_map_offset + e.place % (g_.size_pages * 8);
      case 3:
        return g_.log_offset + e.place % g_.log_bytes;
      case 4:
        return g_.log_offset + e.place % 2048;
      case 5:
        return g_.data_offset + round_down(e.place % (g_.size_pages << g_.page_shift), g_.page_bytes()) + e.place % 320;
      default:
        return e.place;
    }
  }
  [[nodiscard]] std::uint64_t place_in_heap(const edit& e) const {
    const std::uint64_t i = e.place / 4096;
    const std::uint64_t byte = e.place % 4096;
    const log_block* b = heap_.blocks.empty() ? nullptr : &heap_.blocks[i % heap_.blocks.size()];
    switch (e.flags >> 2 & 7) {
      case 0:
        return g_.superblock_at(i % 2) + byte % 1024;
      case 1:
        return heap_.root_at + byte % sizeof heap_.root;
      case 2:
        return g_.page_map_offset + e.place % (g_.size_pages * 8);
      case 3:
        if (heap_.chunks.empty()) return e.place;
        return heap_.chunks[i % heap_.chunks.size()].offset + byte % (2 * sizeof(log_layout::chunk_header));
      case 4:
        return b == nullptr ? e.place : b->place.offset() + byte % sizeof b->header;
      case 5:
        return b == nullptr ? e.place : b->place.offset() + (sizeof b->header + byte) % b->header.bytes;
      case 6:
        // Of a saved mapping, if there is one.
        return (heap_.root.saved & checked_mask) + sizeof(log_layout::chunk_header) + byte % heap_.root.chunk_bytes;
      default:
        return e.place;
    }
  }
  [[nodiscard]] std::uint64_t get(std::uint64_t at) const {
    std::uint64_t v = 0;
    std::memcpy(&v, &image_[at], 8);
    return v;
  }
  void put(std::uint64_t at, std::uint64_t v) { std::memcpy(&image_[at], &v, 8); }
  void reseal_word(std::uint64_t at) { put(at, seal_word(get(at) & checked_mask, word_seed(at))); }

  void repair(std::uint64_t at) {
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t sb_at = g_.superblock_at(copy);
      if (at - sb_at < sizeof(layout::superblock)) {
        layout::superblock sb;
        std::memcpy(&sb, &image_[sb_at], sizeof sb);
        sb.crc = superblock_crc(sb);
        std::memcpy(&image_[sb_at], &sb, sizeof sb);
        return;
      }
      if (at - g_.anchor_at(copy) < 8 * anchor_words) return reseal_word(round_down(at, 8));
    }
    if (at - g_.page_map_offset < g_.size_pages * 8) return reseal_word(round_down(at, 8));
    if (heap_.whole) return repair_heap(at);
    if (at - g_.log_offset < g_.log_bytes) {
      if (g_.lane_count == 0) return repair_ring(at);
      switch (superblock_.engine) {
        case NVM_ENGINE_REDO:
          return repair_redo(at);
        case NVM_ENGINE_MNEMOSYNE:
        case NVM_ENGINE_MNEMOSYNE_UNDO:
          // Words of entries prove nothing but their lap.
          if ((at - g_.log_offset) % g_.lane_bytes < line_bytes) reseal_word(round_down(at, 8));
          return;
        default:
          return repair_lane(at);
      }
    }
    if (at < g_.data_offset || (structures_.whole() && structures_.reseal(image_, at))) return;
    reseal_word(round_down(at, 8));
  }
  void repair_lane(std::uint64_t at) {
    const unsigned lane = static_cast<unsigned>((at - g_.log_offset) / g_.lane_bytes);
    const std::uint64_t begin = g_.log_offset + lane * g_.lane_bytes;
    const std::uint64_t inside = at - begin;
    const std::uint64_t key = tx::pool_key(superblock_.uuid);
    if (inside < 8) return reseal_word(begin);
    if (inside >= layout::lane_commit_at && inside < layout::lane_body_at) {
      const std::uint64_t slot = round_down(at, line_bytes);
      const std::uint64_t sum = log::seal(image_.data(), slot, line_bytes, get(slot + 8), key);
      return put(slot, sum);
    }
    // The record that begins in this line, if its length is one.
    for (std::uint64_t record = round_down(at, line_bytes); record >= begin + layout::lane_body_at;
         record -= line_bytes) {
      layout::record_header h;
      std::memcpy(&h, &image_[record], sizeof h);
      if (h.bytes < sizeof h || h.bytes > begin + g_.lane_bytes - record || h.generation == 0) continue;
      const std::uint64_t body = log::body_key(key, lane);
      if (h.kind == static_cast<std::uint16_t>(layout::record_kind::large_undo)) {
        const std::uint64_t data = layout::large_undo_data_at(record);
        const std::uint64_t size = layout::range_bytes(get(record + sizeof h));
        if (data + size > image_.size()) continue;
        put(record, log::seal_large(&image_[record], record, &image_[data], size, h.generation, body));
      } else {
        put(record, log::seal(image_.data(), record, h.bytes, h.generation, body));
      }
      return;
    }
  }
  void repair_redo(std::uint64_t at) {
    const unsigned lane = static_cast<unsigned>((at - g_.log_offset) / g_.lane_bytes);
    const std::uint64_t begin = g_.log_offset + lane * g_.lane_bytes;
    if (at - begin < line_bytes) return reseal_word(round_down(at, 8));
    const auto how = static_cast<log::validation>(superblock_.validation);
    for (std::uint64_t record = round_down(at, line_bytes); record > begin; record -= line_bytes) {
      layout::redo_record r;
      std::memcpy(&r, &image_[record], sizeof r);
      if (r.version == 0 || r.bytes < sizeof r || r.bytes > begin + g_.lane_bytes - record) continue;
      // Where it is.
      const auto* in_place = reinterpret_cast<const layout::redo_record*>(&image_[record]);
      return put(record, log::redo_proof(in_place, record, tx::pool_key(superblock_.uuid), lane, how));
    }
  }

  // ---- the log-structured heap ----

  static constexpr unsigned heap_kinds = 12;
  [[nodiscard]] const log_block& block(std::uint64_t n) const { return heap_.blocks[n % heap_.blocks.size()]; }
  [[nodiscard]] std::uint64_t first_entry(const log_block& b) const { return b.place.offset() + sizeof b.header; }
  void put_home(std::uint64_t entry, std::uint64_t home) {
    put(entry, (get(entry) & ~log_layout::home_mask) | (home & log_layout::home_mask));
  }
  // What only somebody who knows the format would do.
  void change_heap(unsigned kind, const edit& e) {
    const log_block& b = block(e.place);
    const log_block& other = block(e.value);
    const log_chunk& c = heap_.chunks[e.place % heap_.chunks.size()];
    const log_chunk& other_chunk = heap_.chunks[e.value % heap_.chunks.size()];
    const std::uint64_t at = b.place.offset();
    const std::uint64_t count_word = at + offsetof(log_layout::block_header, peer_and_count);
    constexpr std::uint64_t peer_mask = (std::uint64_t{1} << log_layout::peer_bits) - 1;
    const std::uint64_t entry = first_entry(b);
    const std::uint64_t use = get(c.offset + offsetof(log_layout::chunk_header, use)) & checked_mask;
    const auto put_word = [&](std::size_t field, std::uint64_t content) {
      put(c.offset + field, content);
      reseal_word(c.offset + field);
    };
    switch (kind) {
      case 0:
        put(count_word, (get(count_word) & ~peer_mask) | other.place.offset());
        break;
      case 1:
        put(at, get(other.place.offset()));  // its version
        break;
      case 2:
        put_home(entry, get(first_entry(other)));
        break;
      case 3:
        put_home(entry, get(entry) + static_cast<std::uint64_t>(static_cast<std::int8_t>(e.value)) * 8);
        break;
      case 4:
        put(entry, get(entry) ^ std::uint64_t{1} << (log_layout::home_shift_tombstone + e.value % 8));
        break;
      case 5:  // wide, of any size and kind
        put(entry, get(entry) & log_layout::home_mask);
        put(entry + 8, (e.value & 0xFFFF'FFFF'FFFF) >> e.place % 48 | (e.value >> 56 & 3) << 48);
        break;
      case 6:
        put(count_word, get(count_word) + (std::uint64_t{1} << log_layout::peer_bits) * (e.value % 3 - 1));
        break;
      case 7:
        put(at + offsetof(log_layout::block_header, bytes),
            get(at + offsetof(log_layout::block_header, bytes)) ^
                (e.value % 2 == 0 ? std::uint64_t{1} << (32 + e.value / 2 % 2) : e.value % 64));
        break;
      case 8: {  // one block becomes another
        const std::uint64_t n = std::min(b.header.bytes, other.header.bytes);
        std::memmove(&image_[at], &image_[other.place.offset()], n);
        break;
      }
      case 9:
        return put_word(offsetof(log_layout::chunk_header, use),
                        (use & ~(std::uint64_t{15} << log_layout::generation_bits)) |
                            (e.value & 15) << log_layout::generation_bits);
      case 10:
        return put_word(offsetof(log_layout::chunk_header, end),
                        log_layout::pack_bound(static_cast<std::uint32_t>(e.value), log_layout::generation_of(use)));
      default:
        return put_word(e.value / 64 % 2 == 0 ? offsetof(log_layout::chunk_header, next)
                                              : offsetof(log_layout::chunk_header, previous),
                        other_chunk.offset);
    }
    reseal_block(b.place);
  }
  void reseal_block(const logheap::block_place& p) {
    log_layout::block_header h;
    std::memcpy(&h, &image_[p.offset()], sizeof h);
    h.header_check = logheap::header_check_of(h, p);
    const std::uint64_t room = heap_.root.chunk_bytes - p.at;
    if (h.bytes >= sizeof h && h.bytes <= room) {
      h.content_check = logheap::content_check_of(&image_[p.offset()], h.bytes, p);
    }
    std::memcpy(&image_[p.offset()], &h, sizeof h);
  }
  void repair_heap(std::uint64_t at) {
    if (at - heap_.root_at < line_bytes) {
      log_layout::root r;
      std::memcpy(&r, &image_[heap_.root_at], sizeof r);
      r.check = checksum(&r, offsetof(log_layout::root, check), mix_seed(log_layout::root_magic, heap_.root_at));
      std::memcpy(&image_[heap_.root_at], &r, sizeof r);
      return;
    }
    if (at - heap_.root_at < sizeof(log_layout::root)) return reseal_word(round_down(at, 8));
    for (const log_chunk& c : heap_.chunks) {
      if (at - c.offset >= heap_.root.chunk_bytes) continue;
      if (at - c.offset < sizeof(log_layout::chunk_header)) return reseal_word(round_down(at, 8));
      // The block that has the byte; one of a saved mapping is alone in its chunk.
      logheap::block_place p{c.offset, sizeof(log_layout::chunk_header), log_layout::generation_of(c.use),
                             heap_.root.key};
      for (const log_block& b : heap_.blocks) {
        if (b.place.chunk == c.offset && b.place.offset() <= at) p = b.place;
      }
      return reseal_block(p);
    }
  }

  // Those of straight entries, as far as these can be read.
  void mend_sums(std::span<std::byte> record, const ring_identity& ring) {
    const auto nothing = [](std::uint64_t, const std::byte*, std::size_t) noexcept -> status { return {}; };
    std::uint64_t sum = 0;
    const auto mend = [&](std::uint64_t offset, std::uint64_t bytes,
                          const layout::straight_rest& rest) noexcept -> status {
      sum = layout::straight_seed(ring.uuid, offset);
      for (std::uint64_t done = 0; done < bytes; done += layout::straight_piece_bytes)
        sum = checksum(&image_[offset + done],
                       static_cast<std::size_t>(std::min(bytes - done, layout::straight_piece_bytes)), sum);
      // The entry is where the copy of its rest is.
      for (std::size_t i = sizeof(layout::ring_record); i + sizeof rest <= record.size(); i += 8)
        if (std::memcmp(&record[i], &rest, sizeof rest) == 0) std::memcpy(&record[i], &sum, sizeof sum);
      return {};
    };
    (void)each_entry(record, ring.place, image_.size(), nothing, mend);
  }

  void repair_ring(std::uint64_t at) {
    const ring_identity ring = ring_of(superblock_);
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t header = ring.place.header_offset(copy);
      if (at - header >= sizeof(layout::ring_header)) continue;
      layout::ring_header h;
      std::memcpy(&h, &image_[header], sizeof h);
      h.checksum = checksum(&h, offsetof(layout::ring_header, checksum), layout::ring_magic);
      std::memcpy(&image_[header], &h, sizeof h);
      return;
    }
    // The nearest record at or before the edit that has a plausible length.
    const std::uint64_t first = ring.place.ring_offset();
    if (at < first) return;
    for (std::uint64_t r = first + round_down(at - first, layout::ring_unit);; r -= layout::ring_unit) {
      layout::ring_record h;
      std::memcpy(&h, &image_[r], sizeof h);
      const std::uint64_t size = std::uint64_t{h.units} * layout::ring_unit;
      if (h.lsn < layout::lsn_max && ring.place.offset_of(h.lsn) == r && size >= sizeof h &&
          r + size <= image_.size()) {
        mend_sums({&image_[r], static_cast<std::size_t>(size)}, ring);
        seal_record(&image_[r], h.lsn, h.durable_lsn, size, h.count, ring.uuid);
        return;
      }
      if (r == first) return;
    }
  }

  bytes& image_;
  const bytes* other_;  // nullptr: there is none
  layout::superblock superblock_;
  geometry g_;
  log_heap_image heap_;         // as it was
  structure_image structures_;  // as they were
};

}  // namespace

bytes edited(const std::vector<bytes>& images, std::span<const std::uint8_t> input, bool lines_of_others) {
  const std::size_t number = input.empty() ? 0 : input[0] % images.size();
  bytes image = images[number];
  const bytes& next = images[(number + 1) % images.size()];
  editor editor{image, images[number], lines_of_others && next.size() == image.size() ? &next : nullptr};
  for (std::size_t at = 1; at + edit_bytes <= input.size() && at < (edits_max + 1) * edit_bytes; at += edit_bytes) {
    edit e{input[at], input[at + 1], 0, 0};
    std::memcpy(&e.place, &input[at + 2], 4);
    std::memcpy(&e.value, &input[at + 6], 8);
    editor.apply(e);
  }
  return image;
}

void make_damage(std::uint8_t* edit) noexcept {
  edit[0] %= plain_kinds;
  edit[1] &= 0xFC;
}

void broken(const char* what) {
  std::fprintf(stderr, "broken promise: %s (last message: %s)\n", what, last_message());
  std::abort();
}

}  // namespace nvm::fuzz
