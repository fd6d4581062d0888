// A file in memory that may be changed without changing the file: its bytes, and zeros after its end.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/base.hpp"
#include "platform/lost_pages.hpp"
#include "platform/map.hpp"

namespace nvm::platform {

class private_image {
 public:
  // `bytes` of memory, of which the first `file_bytes` show the file; takes memory for pages that are stored to.
  // errc::no_memory, errc::system.  Pages that the file loses meanwhile: lost_pages.hpp.  `name`: the file's. File and
  // name outlive the image.
  [[nodiscard]] static result<private_image> of(int descriptor, const char* name, std::uint64_t file_bytes,
                                                std::uint64_t bytes) noexcept {
    private_image image;
    const auto failed = [&] {
      return fail(errc::no_memory, "no addresses for %llu bytes: %s", static_cast<unsigned long long>(bytes),
                  std::strerror(errno));
    };
    void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return failed();
    image.base_ = static_cast<std::byte*>(place);
    image.bytes_ = bytes;
    // After the end of the file, up to the end of its last page, the kernel shows zeros.
    const std::uint64_t shown = round_up(std::min(file_bytes, bytes), page_bytes());
    place = ::mmap(image.base_, shown, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, descriptor, 0);
    if (place == MAP_FAILED) return failed();
    image.watched_.reset(new (std::nothrow) watched_memory);
    if (image.watched_ == nullptr) return fail(errc::no_memory, "no memory for the image of a file");
    if (status s = image.watched_->start({image.base_, bytes, shown, descriptor, name, false}); !s) return s.error();
    return image;
  }

  private_image(private_image&& other) noexcept
      : base_{other.base_}, bytes_{other.bytes_}, watched_{std::move(other.watched_)} {
    other.base_ = nullptr;
  }
  private_image& operator=(private_image&&) = delete;
  ~private_image() {
    watched_.reset();
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  // errc::io: pages of the file are lost, and bytes that were read may be zeros.
  [[nodiscard]] status intact() const noexcept {
    if (!watched_->lost()) return {};
    return fail(errc::io, "%s", watched_->why());
  }

 private:
  private_image() noexcept = default;

  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<watched_memory> watched_;
};

}  // namespace nvm::platform
