// The tier of a pool: its second file, found or made while the pool is opened, and the swapper of its pages.
//
// Order of opening.  bring() runs inside pool_file::open() or create(), when the file is locked and mapped and only its
// superblock and log were read: so recovery's loads find each page where it is.  Pages leave from start() on. A second
// file is made, and durable (tier/E1), before the pool names it (layout::tier_record), and named before the pool has
// the feature; a kill in between leaves a second file that belongs to no pool.
//
// Order of closing.  stop() before the pool gives up its file; this object is destroyed after the pool's mapping.
//
// If pages cannot be brought when they are touched, a pool without pages in the second file works without a tier; why()
// says why.
//
// A pool on ssd has no second file: pages of its image come back from its own (image_pages.hpp) if the program that
// opens it wishes that. The file does not record the wish.
//
// Threads: bring(), start(), stop() by one; questions by any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "media/media.hpp"
#include "nvm/tier.h"
#include "pool/pool.hpp"
#include "tier/image_pages.hpp"
#include "tier/page_file.hpp"
#include "tier/swapper.hpp"

namespace nvm::tier {

struct page_range {
  std::uint64_t first = 0, count = 0;
};
// The pages that a range of at least one byte touches, `at` bytes after the beginning of page 0.
[[nodiscard]] constexpr page_range pages_touched(std::uint64_t at, std::size_t bytes) noexcept {
  const std::uint64_t first = at / swapper::page_bytes;
  return {first, (at + bytes - 1) / swapper::page_bytes - first + 1};
}

class pool_tier {
 public:
  // `wish`: the program's; nullptr: as the pool's record says.
  [[nodiscard]] static result<std::unique_ptr<pool_tier>> make(const nvm_tier_options* wish) noexcept;
  ~pool_tier();
  pool_tier(const pool_tier&) = delete;
  pool_tier& operator=(const pool_tier&) = delete;

  // For pool_open_options::tier, and pool_create_options::tier where the program wishes one.
  [[nodiscard]] image_step step() noexcept {
    return {[](void* context, pool_file& pool) noexcept { return static_cast<pool_tier*>(context)->bring(pool); },
            this};
  }
  [[nodiscard]] bool is_wished() const noexcept { return wished_; }
  // Once the pool is recovered, or is about to be.
  [[nodiscard]] status start() noexcept;
  void stop() noexcept;
  // After stop(), when no thread uses the pool any more: notes what its file has.
  void rest() noexcept;
  // Removes a file that bring() has made, since the pool is not created.
  void remove_new_file() noexcept;
  // The same where the pool could not be opened: unless its superblock says already that it has a second file.
  void remove_unnamed_file(const char* pool) noexcept;

  // nullptr: pages neither come nor go.
  [[nodiscard]] swapper* pages() noexcept { return swapper_.get(); }
  // Whether the pool has a second file, or should have one.
  [[nodiscard]] bool exists() const noexcept { return wished_ || swapper_ != nullptr || !path_.empty(); }
  void statistics(nvm_tier_statistics& out);

 private:
  pool_tier() noexcept : wish_{} {}
  [[nodiscard]] status bring(pool_file& pool) noexcept;
  [[nodiscard]] status join(pool_file& pool);
  [[nodiscard]] status find(pool_file& pool);
  [[nodiscard]] status keep_image(pool_file& pool);
  [[nodiscard]] status open_image_pages(pool_file& pool);
  [[nodiscard]] status make_swapper(pool_file& pool, swapper_settings& settings, std::unique_ptr<slow_pages> slow);
  [[nodiscard]] status take_wishes(layout::tier_record& record) noexcept;
  [[nodiscard]] status open_slow(int flags, bool shared_lock) noexcept;
  [[nodiscard]] status open_pages(pool_file& pool, const layout::tier_record& record, pages_found& found);
  [[nodiscard]] static status check_holes(const pool_file& pool, const layout::tier_record& record,
                                          std::uint64_t present) noexcept;
  [[nodiscard]] static status keep_holes(pool_file& pool) noexcept;
  void say_at_rest(std::uint64_t fast_pages) noexcept;
  void do_without(const char* why);
  [[nodiscard]] std::uint64_t page_at(const void* p) const noexcept;
  [[nodiscard]] page_range pages_of(const void* p, std::size_t bytes) const noexcept;

  nvm_tier_options wish_;
  bool wished_ = false;
  bool made_file_ = false;
  std::string path_;  // of the second file
  std::string wish_path_;
  std::string why_;  // why it is not used; empty: it is
  std::uint64_t fast_bytes_max_ = 0;
  std::uint32_t policy_ = 0, compression_ = 0;
  const std::int64_t process_ = platform::process_id();
  platform::file slow_;  // the second file
  // The pool's file, opened once more: pages may come after the pool has closed its own descriptor. For an image: the
  // memory that it lies in, and slow_ is the pool's file.
  platform::file fast_;
  std::optional<file_device> device_;
  layout::tier_record* record_ = nullptr;  // of the pool, in its mapping; nullptr: it has none
  std::uint64_t data_offset_ = 0;          // of page 0 in the pool
  std::byte* base_ = nullptr;
  image_pages* image_ = nullptr;  // of the swapper, as its slow pages
  std::unique_ptr<swapper> swapper_;
};

// Reads what the files of a pool say, without a lock.
[[nodiscard]] status inspect_tier(const char* pool, nvm_tier_info& out) noexcept;

}  // namespace nvm::tier
