// The tier of a pool on ssd: its image is kept in a file of memory, from which pages leave that the pool's file has.
#include <algorithm>
#include <memory>

#include "tier/pool_tier.hpp"

namespace nvm::tier {
namespace {

// A quarter of the machine's memory, or of the limit of this process's group.
std::uint64_t quarter_of_memory() noexcept {
  std::uint64_t all = platform::memory_bytes();
  if (const auto limit = platform::memory_limit(); limit != 0) all = std::min(all, limit);
  return all / 4;
}

}  // namespace

// Pages of the image leave, and come back from the pool's file.
status pool_tier::keep_image(pool_file& pool) {
  if (!wish_path_.empty()) {
    return fail(errc::invalid, "a pool on ssd takes no second file, found %s: pages come back from the pool's own",
                wish_path_.c_str());
  }
  if (wish_.compression > NVM_TIER_PLAIN) {
    return fail(errc::invalid, "nvm_tier_options.compression: found %u, expected 0 or %u: %s keeps pages as they are",
                wish_.compression, unsigned{NVM_TIER_PLAIN}, pool.path());
  }
  if (pool.read_only()) {
    do_without("a pool on ssd that is opened read-only shows pages of its file, which are not counted");
    return {};
  }
  fast_bytes_max_ = wish_.fast_bytes != 0 ? wish_.fast_bytes : quarter_of_memory();
  policy_ = wish_.policy != 0 ? wish_.policy : std::uint32_t{NVM_TIER_STEADY};
  compression_ = NVM_TIER_PLAIN;
  const status s = open_image_pages(pool);
  if (s) path_ = pool.path();
  if (s || s.error() != errc::system) return s;
  // The pool works as well without.
  do_without(last_message());
  fast_.close();
  slow_.close();
  return pool.take_image_back();
}

status pool_tier::open_image_pages(pool_file& pool) {
  auto own = pool.file().open_again(pool.path());
  if (!own) return own.error();
  slow_ = std::move(*own);
  auto memory = platform::file::in_memory("holdfast image", pool.geometry().capacity_bytes());
  if (!memory) return memory.error();
  fast_ = std::move(*memory);
  auto pages = std::make_unique<image_pages>(slow_, pool.geometry().page_offset(0));
  if (!pages->valid()) return fail(errc::no_memory, "no volatile memory to compare pages of the image");
  if (status s = pool.keep_image_in(fast_.descriptor()); !s) return s;
  image_pages* const image = pages.get();
  swapper_settings settings;
  settings.grows = &slow_;
  if (status s = make_swapper(pool, settings, std::move(pages)); !s) return s;
  image_ = image;
  image_guest guest;
  guest.context = this;
  guest.meet = [](void* context, image_media* medium) noexcept {
    static_cast<pool_tier*>(context)->image_->meet(medium);
  };
  guest.hold = [](void* context, const void* p, std::size_t bytes) noexcept {
    auto* const t = static_cast<pool_tier*>(context);
    const auto [first, count] = t->pages_of(p, bytes);
    return t->swapper_->pin(first, count, swapper::pinned_by::library);
  };
  guest.let_go = [](void* context, const void* p, std::size_t bytes) noexcept {
    auto* const t = static_cast<pool_tier*>(context);
    const auto [first, count] = t->pages_of(p, bytes);
    t->swapper_->unpin(first, count, swapper::pinned_by::library);
  };
  guest.discard = [](void* context, const void* p, std::size_t bytes) noexcept {
    auto* const t = static_cast<pool_tier*>(context);
    t->image_->forget_end();
    t->swapper_->discard(t->page_at(p), bytes / swapper::page_bytes);
  };
  pool.let_in(guest);
  return {};
}

std::uint64_t pool_tier::page_at(const void* p) const noexcept {
  return (static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_) - data_offset_) / swapper::page_bytes;
}
page_range pool_tier::pages_of(const void* p, std::size_t bytes) const noexcept {
  return pages_touched(static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_) - data_offset_, bytes);
}

}  // namespace nvm::tier
