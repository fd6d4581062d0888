// Pool on an image medium over a device in memory; see pool_image.hpp.
#pragma once

#include "media/memory_device.hpp"
#include "pool_image.hpp"

namespace nvm::tests {

// Pool whose durable bytes are a device's; the heap works on a private copy.
class image_pool {
 public:
  using medium_type = image_media;
  using heap_type = tx::heap<medium_type>;

  explicit image_pool(image_shape shape = {})
      : superblock_{superblock_for(shape, true)},
        device_{std::make_unique<memory_device>(geometry_of(superblock_).capacity_bytes())},
        image_{geometry_of(superblock_).capacity_bytes()} {
    format_image(image_.data(), superblock_);
    EXPECT_TRUE(device_->write(0, image_.data(), image_.size()));
    EXPECT_TRUE(format_ring(*device_, ring()));
    EXPECT_TRUE(device_->sync(edge{"test"}));
    boot();
  }
  heap_type& heap() noexcept { return *heap_; }
  // Everything volatile is lost, and everything that the device was not asked to sync.
  void crash() {
    heap_.reset();
    medium_.reset();
    device_ = std::make_unique<memory_device>(device_->crash_losing_all_unsynced());
    boot();
  }

 private:
  ring_identity ring() const {
    ring_identity r;
    r.place = {superblock_.log_offset, superblock_.log_bytes};
    std::memcpy(r.uuid, superblock_.uuid, sizeof r.uuid);
    return r;
  }
  void boot() {
    auto run = open_log(*device_, ring(), image_.size());
    ASSERT_TRUE(run) << last_message();
    ASSERT_TRUE(device_->read(0, image_.data(), image_.size()));
    apply_run(*run, ring(), image_.data());
    auto sb = pick_superblock(image_.data(), image_.size());
    ASSERT_TRUE(sb) << last_message();
    superblock_ = *sb;
    image_settings settings;
    settings.base = image_.data();
    settings.bytes = image_.size();
    settings.ring = ring();
    auto m = image_media::open(*device_, settings, std::move(*run));
    ASSERT_TRUE(m) << last_message();
    medium_ = std::move(*m);
    heap_ =
        std::make_unique<heap_type>(*medium_, image_.data(), geometry_of(superblock_), tx::pool_key(superblock_.uuid),
                                    4, [this](std::uint64_t pages) { return grow(pages); });
    const status s = heap_->boot();
    ASSERT_TRUE(s) << last_message();
  }
  result<std::uint64_t> grow(std::uint64_t pages) {
    if (pages > superblock_.capacity_pages)
      return fail(errc::no_space, "capacity of %lu pages", superblock_.capacity_pages);
    superblock_.size_pages = pages;
    write_superblock(*medium_, image_.data(), superblock_);
    return pages;
  }

  layout::superblock superblock_;
  std::unique_ptr<memory_device> device_;
  buffer image_;
  std::unique_ptr<image_media> medium_;
  std::unique_ptr<heap_type> heap_;
};

}  // namespace nvm::tests
