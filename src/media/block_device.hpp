// Block device under an image medium. Until a sync that begins after them returns, writes become durable in any order,
// in part or not at all, by whole sectors.
//
// A virtual interface, not a template, since every call of it is a system call.  Errors are errc::io (or no_space) with
// a message and errno; after one the caller never asks the device again.
#pragma once

#include <utility>

#include "media/concept.hpp"
#include "platform/platform.hpp"

namespace nvm {

class block_device {
 public:
  block_device() = default;
  block_device(const block_device&) = delete;
  block_device& operator=(const block_device&) = delete;

  // `s` names the place for reports and for trace mutation, as with media::flush().
  virtual status write(std::uint64_t offset, const void* from, std::size_t bytes, site s = site::here()) noexcept = 0;
  virtual status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept = 0;
  // Everything written before the call is durable on return.  `e` names the reason.
  virtual status sync(edge e) noexcept = 0;
  virtual result<std::uint64_t> size() noexcept = 0;

 protected:
  ~block_device() = default;
};

// A file of any file system.  Does not own it.
class file_device final : public block_device {
 public:
  explicit file_device(platform::file& file) noexcept : file_{file} {}
  ~file_device() = default;

  status write(std::uint64_t offset, const void* from, std::size_t bytes, site = site::here()) noexcept override {
    return file_.write(offset, from, bytes);
  }
  status read(std::uint64_t offset, void* to, std::size_t bytes) noexcept override {
    return file_.read(offset, to, bytes);
  }
  status sync(edge) noexcept override { return file_.sync_data(); }
  result<std::uint64_t> size() noexcept override { return file_.size(); }

 private:
  platform::file& file_;
};

}  // namespace nvm
