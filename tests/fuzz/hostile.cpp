#include "hostile.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../tx/pool_image.hpp"
#include "media/memory_device.hpp"

namespace nvm::fuzz {
namespace {

using tests::image_shape;

constexpr image_shape shape{.size_pages = 64, .capacity_pages = 64, .page_shift = 10, .lanes = 2, .lane_bytes = 2048};
constexpr std::uint64_t ring_bytes = 16 * 1024;

// Objects of all kinds, some freed again, a root, and at the end a transaction that nobody finished.
template <class Heap>
void live(Heap& h, unsigned rounds) {
  std::vector<std::uint64_t> objects;
  for (unsigned i = 0; i < rounds; ++i) {
    tests::session s{h, i % 2};
    for (const std::uint64_t size : {24, 100, 700, 2500}) objects.push_back(s.alloc(size + i));
    if (i % 3 == 2) {
      (void)s.free(objects[objects.size() / 2]);
      objects.erase(objects.begin() + static_cast<std::ptrdiff_t>(objects.size() / 2));
    }
    if (i % 2 == 0) (void)s.set_root(objects.front());
    if (i > 0) (void)s.store(objects.front(), i);
    (void)s.commit();
  }
}
template <class Heap>
void leave_open(Heap& h, bool overflow) {
  tests::session s{h, 1};
  const std::uint64_t root = tests::root_of(h);
  (void)s.store(root, 77);
  if (overflow) {
    std::uint64_t at = 0;
    (void)for_each_object(h.base(), h.shape(), [&](std::uint64_t offset, std::uint64_t size, layout::object_layout) {
      if (size >= 2048) at = offset;
      return at == 0;
    });
    if (at != 0) (void)s.announce(at + 16, 2000);
  }
  (void)s.alloc(40);
  (void)s.free(root);
  s.forget();
}

bytes direct_image(unsigned rounds, bool open, bool overflow) {
  tests::direct_pool pool{shape};
  live(pool.heap(), rounds);
  if (open) {
    leave_open(pool.heap(), overflow);
  } else {
    pool.heap().come_to_rest();
  }
  return {pool.heap().base(), pool.heap().base() + pool.heap().shape().size_bytes()};
}

ring_identity ring_of(const layout::superblock& sb) {
  ring_identity r;
  r.place = {sb.log_offset, sb.log_bytes};
  std::memcpy(r.uuid, sb.uuid, sizeof r.uuid);
  return r;
}

// A pool on a device in memory, as tx/image_pool.hpp has it, whose device can be looked at.
class ring_pool {
 public:
  using heap_type = tx::heap<image_media>;

  explicit ring_pool(bytes device) : device_{std::move(device)} {}
  // False: refused.
  bool open() {
    bytes probe = device_.content();
    auto sb = pick_superblock(probe.data(), probe.size());
    if (!sb || sb->log_bytes == 0 || sb->lane_count != 0 || sb->capacity_pages > 4096) return false;
    const ring_identity ring = ring_of(*sb);
    if (!ring.place.well_formed(probe.size())) return false;
    auto run = open_log(device_, ring, probe.size());
    if (!run) return false;
    image_ = std::make_unique<tests::buffer>(probe.size());
    if (!device_.read(0, image_->data(), image_->size())) return false;
    apply_run(*run, ring, image_->data());
    sb = pick_superblock(image_->data(), image_->size());
    if (!sb || sb->lane_count != 0) return false;
    image_settings settings;
    settings.base = image_->data();
    settings.bytes = image_->size();
    settings.ring = ring;
    auto m = image_media::open(device_, settings, std::move(*run));
    if (!m) return false;
    medium_ = std::move(*m);
    heap_ = std::make_unique<heap_type>(
        *medium_, image_->data(), geometry_of(*sb), tx::pool_key(sb->uuid), 2,
        [](std::uint64_t) -> result<std::uint64_t> { return fail(errc::no_space, "the image cannot grow"); });
    return static_cast<bool>(heap_->boot());
  }
  heap_type& heap() { return *heap_; }
  memory_device& device() { return device_; }

 private:
  memory_device device_;
  std::unique_ptr<tests::buffer> image_;
  std::unique_ptr<image_media> medium_;
  std::unique_ptr<heap_type> heap_;
};

bytes ring_image(unsigned rounds, bool keep_unsynced) {
  const layout::superblock sb = tests::superblock_for(shape, true, ring_bytes);
  bytes image(geometry_of(sb).size_bytes());
  format_image(image.data(), sb);
  {
    memory_device device{image};
    if (!format_ring(device, ring_of(sb))) std::abort();
    image = device.content();
  }
  ring_pool pool{std::move(image)};
  if (!pool.open()) std::abort();
  live(pool.heap(), rounds);
  return keep_unsynced ? pool.device().crash_keeping_all() : pool.device().crash_losing_all_unsynced();
}

// ---- edits ---------------------------------------------------------------------------------------------------------

struct edit {
  std::uint8_t what;
  std::uint8_t flags;
  std::uint32_t place;
  std::uint64_t value;
};

class editor {
 public:
  explicit editor(bytes& image) : image_{image} {
    // The geometry of the image as it was; edits of the superblock change what readers see, not where we repair.
    auto sb = pick_superblock(image.data(), image.size());
    if (!sb) std::abort();
    superblock_ = *sb;
    g_ = geometry_of(*sb);
  }

  void apply(const edit& e) {
    const std::uint64_t n = image_.size();
    const std::uint64_t byte = place_of(e) % n;
    const std::uint64_t word = round_down(byte, 8);
    const std::uint64_t line = round_down(byte, line_bytes);
    const std::uint64_t other = round_down(e.value % n, line_bytes);
    switch (e.what % 8) {
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
      default:
        put(word, std::uint64_t{1} << e.value % 64);
        break;
    }
    if (e.flags % 4 != 0) {
      repair(byte);
      if (e.what % 8 == 5) repair(other);
    }
  }

 private:
  // Half of the edits go where the metadata is: that is a small part of an image.
  [[nodiscard]] std::uint64_t place_of(const edit& e) const {
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
    if (at - g_.log_offset < g_.log_bytes) return g_.lane_count != 0 ? repair_lane(at) : repair_ring(at);
    if (at >= g_.data_offset) reseal_word(round_down(at, 8));
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
        seal_record(&image_[r], h.lsn, h.durable_lsn, size, h.count, ring.uuid);
        return;
      }
      if (r == first) return;
    }
  }

  bytes& image_;
  layout::superblock superblock_;
  geometry g_;
};

// ---- use -----------------------------------------------------------------------------------------------------------

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "broken promise: %s (last message: %s)\n", what, last_message());
  std::abort();
}

template <class Heap>
bool whole(Heap& h) {
  geometry g = h.shape();
  space_summary sum;
  const bool good = check_space(h.base(), g, [](const damage&) {}, sum);
  return good;
}

template <class Heap>
void use(Heap& h) {
  const bool was_whole = whole(h);
  std::uint64_t first = 0;
  std::uint64_t objects = 0;
  (void)for_each_object(h.base(), h.shape(), [&](std::uint64_t offset, std::uint64_t, layout::object_layout l) {
    if (first == 0 && l == layout::object_layout::typed) first = offset + sizeof(layout::object_header);
    return ++objects < 100000;
  });
  (void)read_root(h.base(), h.shape());
  for (unsigned i = 0; i < 6; ++i) {
    auto lane = h.lanes().acquire(i);
    if (!lane) return;
    auto of_lane = h.of_lane(*lane);
    if (!of_lane) {  // it was not at rest in a pool that says it was closed
      h.lanes().release(*lane);
      continue;
    }
    auto& t = **of_lane;
    if (t.begin()) {
      auto a = tx::allocate_typed(h, t, 9, 30 + 400 * i);
      if (a) std::memset(h.base() + *a, 0x5A, 30);
      if (i == 1 && first != 0) (void)t.release(first - sizeof(layout::object_header), layout::object_layout::typed);
      if (i == 2 && a) (void)tx::set_root(h, t, *a);
      if (i % 2 == 0) {
        (void)t.commit();
      } else {
        t.abort();
      }
      (void)t.take_hooks();
    }
    h.lanes().release(*lane);
  }
  if (was_whole && !whole(h)) broken("a pool that was whole is damaged after use");
}

}  // namespace

const std::vector<bytes>& direct_images() {
  static const std::vector<bytes> all{direct_image(1, false, false), direct_image(5, true, false),
                                      direct_image(4, true, true), direct_image(9, true, false)};
  return all;
}
const std::vector<bytes>& ring_images() {
  static const std::vector<bytes> all{ring_image(1, false), ring_image(4, false), ring_image(7, true)};
  return all;
}

bytes edited(const std::vector<bytes>& images, std::span<const std::uint8_t> input) {
  bytes image = images[input.empty() ? 0 : input[0] % images.size()];
  editor editor{image};
  constexpr std::size_t edit_bytes = 14;
  for (std::size_t at = 1; at + edit_bytes <= input.size() && at < 64 * edit_bytes; at += edit_bytes) {
    edit e{input[at], input[at + 1], 0, 0};
    std::memcpy(&e.place, &input[at + 2], 4);
    std::memcpy(&e.value, &input[at + 6], 8);
    editor.apply(e);
  }
  return image;
}

bool use_direct(const bytes& image) {
  // Exactly sized, so that a read beyond the end is seen.
  tests::buffer memory{image.size()};
  std::byte* const base = memory.data();
  std::memcpy(base, image.data(), image.size());
  auto sb = pick_superblock(base, image.size());
  if (!sb || sb->lane_count == 0 || sb->lane_count > 16 || sb->capacity_pages > 4096) return false;
  if (geometry_of(*sb).size_bytes() > image.size()) broken("a superblock was believed that claims more than there is");
  ordered_media medium;
  const auto no_growth = [](std::uint64_t) -> result<std::uint64_t> {
    return fail(errc::no_space, "the image cannot grow");
  };
  tx::heap<ordered_media> heap{medium, base, geometry_of(*sb), tx::pool_key(sb->uuid), sb->lane_count, no_growth};
  const bool closed = sb->state == static_cast<std::uint32_t>(layout::pool_state::clean);
  if (!heap.boot(closed)) return false;
  use(heap);
  heap.come_to_rest();
  return true;
}

bool use_ring(bytes image) {
  ring_pool pool{std::move(image)};
  if (!pool.open()) return false;
  use(pool.heap());
  return true;
}

}  // namespace nvm::fuzz
