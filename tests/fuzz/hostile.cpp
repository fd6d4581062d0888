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
    settings.straight_from = 1024;
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
  // Two sectors within an object, which the log has nothing for, get other bytes straight; they are durable with what
  // is committed next.
  void write_straight() {
    std::uint64_t object = 0;
    {
      tests::session s{*heap_, 0};
      object = s.alloc(3000);
      (void)s.set_root(object);
      (void)s.commit();
    }
    std::byte* const at = image_->data() + round_up(object, sector_bytes);
    if (!medium_->quiesce()) std::abort();
    std::memset(at, 0x5A, 2 * sector_bytes);
    const auto done = medium_->write_straight(at, 2 * sector_bytes, 0);
    if (!done || !done->written) std::abort();
    image_batch batch;
    batch.add_straight(at, 2 * sector_bytes, done->sum);
    if (!medium_->publish(batch, [] {}, edge{"test/commit"})) std::abort();
  }

 private:
  memory_device device_;
  std::unique_ptr<tests::buffer> image_;
  std::unique_ptr<image_media> medium_;
  std::unique_ptr<heap_type> heap_;
};

bytes ring_image(unsigned rounds, bool keep_unsynced, bool straight = false) {
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
  if (straight) {
    pool.write_straight();
    live(pool.heap(), 1);
    pool.write_straight();
  }
  return keep_unsynced ? pool.device().crash_keeping_all() : pool.device().crash_losing_all_unsynced();
}

// ---- use -----------------------------------------------------------------------------------------------------------

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
  static const std::vector<bytes> all{ring_image(1, false), ring_image(4, false), ring_image(7, true),
                                      ring_image(1, true, true)};
  return all;
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
