#include "media/checkpointer.hpp"

#include <new>
#include <system_error>

namespace nvm {
namespace {

void work(image_media& medium, std::chrono::milliseconds interval, const std::atomic<bool>& stop) noexcept {
  while (!stop.load(std::memory_order_relaxed) && !medium.poisoned()) {
    medium.await_work(interval, stop);
    if (stop.load(std::memory_order_relaxed)) return;
    // A failure poisons the medium, and its users are told by their next call.
    if (!medium.sync_appended()) return;
    if (!medium.checkpoint_step()) return;
  }
}

}  // namespace

status checkpointer::start(image_media& medium, std::chrono::milliseconds interval) noexcept {
  NVM_ASSERT(!running());
  medium_ = &medium;
  stop_.store(false, std::memory_order_relaxed);
  try {
    thread_ = std::thread{[this, interval] { work(*medium_, interval, stop_); }};
  } catch (const std::system_error& e) {
    return fail(errc::system, "thread of the checkpointer: %s", e.what());
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the thread of the checkpointer");
  }
  return {};
}

void checkpointer::stop() noexcept {
  if (!running()) return;
  stop_.store(true, std::memory_order_relaxed);
  medium_->wake();
  thread_.join();
}

void checkpointer::abandon_after_fork() noexcept {
  if (running()) thread_.detach();
}

}  // namespace nvm
