// Checkpointer: a thread that empties the log of an image medium before a commit has to wait for room.
//
// Works when the ring is half full, and once in each interval: so an asynchronous commit without a waiter becomes
// durable after about that time, and an idle pool has an empty log.  Ends by itself when the medium is poisoned.
#pragma once

#include <thread>

#include "media/image_media.hpp"

namespace nvm {

class checkpointer {
 public:
  static constexpr std::chrono::milliseconds interval_default{1000};

  checkpointer() noexcept = default;
  checkpointer(const checkpointer&) = delete;
  checkpointer& operator=(const checkpointer&) = delete;
  ~checkpointer() { stop(); }

  // Once; `medium` outlives the thread.  errc::system if the system gives no thread: the medium works
  // without, its writers then checkpoint themselves.
  status start(image_media& medium, std::chrono::milliseconds interval = interval_default) noexcept;
  [[nodiscard]] bool running() const noexcept { return thread_.joinable(); }
  // Returns when the thread has ended; a step under way is finished first.
  void stop() noexcept;
  // In a forked child, where the thread does not exist.
  void abandon_after_fork() noexcept;

 private:
  std::thread thread_;
  std::atomic<bool> stop_{false};
  image_media* medium_ = nullptr;
};

}  // namespace nvm
