// One line on a terminal that shows a long operation; only on terminals, and only after a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cli/console.hpp"

namespace nvm::cli {

class progress {
 public:
  // `what` is shown with the time so far; `share`, if given, is asked by another thread for the part that is done, 0 to
  // 1, and drawn as a bar.
  progress(const console& out, std::string what, std::function<double()> share = {});
  ~progress();
  progress(const progress&) = delete;

  // Runs `print` with the line wiped, so that what it prints does not collide with it.
  void interrupt(const std::function<void()>& print);

 private:
  void run();
  void draw();
  void wipe();

  const std::string what_;
  const std::function<double()> share_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;  // guards the terminal line and stop_
  std::condition_variable changed_;
  bool stop_ = false;
  bool drawn_ = false;
  std::thread thread_;
};

}  // namespace nvm::cli
