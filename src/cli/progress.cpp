#include "cli/progress.hpp"

#include <algorithm>
#include <cmath>

namespace nvm::cli {
namespace {
constexpr auto patience = std::chrono::seconds{1};
constexpr auto interval = std::chrono::milliseconds{200};
constexpr int bar_columns = 30;
}  // namespace

progress::progress(const console& out, std::string what, std::function<double()> share)
    : what_{std::move(what)}, share_{std::move(share)} {
  if (out.shows_progress()) thread_ = std::thread{[this] { run(); }};
}

progress::~progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock{mutex_};
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  wipe();
}

void progress::interrupt(const std::function<void()>& print) {
  const std::lock_guard lock{mutex_};
  wipe();
  print();
}

void progress::run() {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, patience, [this] { return stop_; });
  while (!stop_) {
    draw();
    changed_.wait_for(lock, interval, [this] { return stop_; });
  }
}

void progress::draw() {
  const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - start_;
  std::string bar;
  if (share_) {
    const double share = std::clamp(share_(), 0.0, 1.0);
    const auto full = static_cast<int>(std::lround(share * bar_columns));
    bar = fmt::format("[{}{}] {:3.0f} % ", std::string(full, '#'), std::string(bar_columns - full, '.'), 100 * share);
  }
  fmt::print(stderr, "\r\033[K{}{} {:.0f} s", bar, what_, so_far.count());
  drawn_ = true;
}

void progress::wipe() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace nvm::cli
