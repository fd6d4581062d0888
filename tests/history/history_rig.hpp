// Runs a workload on a pool in a folder of its own and hands its history to the checkers.
//
// Pool: history_pool, or a type with the same members.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../scratch_folder.hpp"
#include "workload.hpp"

namespace nvm::tests {

template <class Pool>
class basic_history_rig {
 public:
  // `more`: what the pool wants to know besides.
  template <class... More>
  explicit basic_history_rig(engine_kind engine, More... more)
      : folder_{"history", is_ssd(engine)}, pool_{std::make_unique<Pool>(engine, folder_.path("pool"), more...)} {
    if (!pool_->make()) ADD_FAILURE() << nvm_errormsg();
  }

  // All threads in this process, `count` records of each kind.
  void run(std::uint32_t count) {
    run_in_spite_of_failures(count);
    EXPECT_EQ(log_->failures.load(), 0U) << log_->failure;
  }
  void run_in_spite_of_failures(std::uint32_t count) {
    ASSERT_TRUE(pool_->open()) << nvm_errormsg();
    work_in_threads(count);
    EXPECT_TRUE(pool_->close()) << nvm_errormsg();
  }

  // In a process that is killed while it works.
  void run_and_kill(std::uint32_t count, std::chrono::microseconds after) {
    const pid_t child = begin_process(count);
    ASSERT_GE(child, 0);
    while (log_->running.load() < threads_of_history) {
      std::this_thread::yield();
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "the process ended by itself: " << status;
    }
    kill_process(child, after);
  }
  // The same, perhaps before its threads have begun, or while it opens the pool.
  void run_and_kill_early(std::uint32_t count, std::chrono::microseconds after) {
    const pid_t child = begin_process(count);
    ASSERT_GE(child, 0);
    kill_process(child, after);
  }

  void look_at_everything() {
    ASSERT_TRUE(pool_->open()) << nvm_errormsg();
    EXPECT_TRUE(pool_->look_at_everything(*log_)) << log_->failure;
    EXPECT_TRUE(pool_->close()) << nvm_errormsg();
  }

  [[nodiscard]] explore::verdict check_transactions() const {
    return explore::check_list_history(log_.transactions(crashes_));
  }
  [[nodiscard]] explore::verdict check_calls() const { return explore::check_kv_history(log_.calls(), crashes_); }
  [[nodiscard]] std::size_t calls() const { return log_.calls().size(); }
  // What a call of a workload with a planted fault may come to.
  [[nodiscard]] std::uint32_t failures() const { return log_->failures.load(); }
  [[nodiscard]] std::size_t transactions() const { return log_.transactions(crashes_).size(); }
  [[nodiscard]] std::size_t cut_off() const {
    std::size_t n = 0;
    for (const auto& t : log_.transactions(crashes_)) n += t.fate == explore::fate::cut_off ? 1 : 0;
    for (const auto& c : log_.calls()) n += c.returned ? 0 : 1;
    return n;
  }

 private:
  pid_t begin_process(std::uint32_t count) {
    log_->running.store(0);
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (!pool_->open()) ::_exit(3);
    work_in_threads(count);
    for (;;) ::pause();
  }
  void kill_process(pid_t child, std::chrono::microseconds after) {
    std::this_thread::sleep_for(after);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    crashes_.push_back(now());
    ASSERT_EQ(log_->failures.load(), 0U) << log_->failure;
    // Whatever it left, the check must be able to say what the next open makes of it.
    EXPECT_EQ(pool_->check(), 0) << "after crash " << crashes_.size();
  }
  void work_in_threads(std::uint32_t count) {
    // On a busy machine one could be done before the next has begun.
    std::latch all_are_here{threads_of_history};
    std::vector<std::thread> all;
    for (unsigned me = 0; me < threads_of_history; ++me) {
      all.emplace_back([this, me, count, &all_are_here] {
        all_are_here.arrive_and_wait();
        (void)pool_->work(*log_, me, count);
      });
    }
    for (std::thread& t : all) t.join();
  }

  scratch_folder folder_;
  shared_history log_;
  std::unique_ptr<Pool> pool_;
  std::vector<std::uint64_t> crashes_;
};

using history_rig = basic_history_rig<history_pool>;

class engines : public testing::TestWithParam<engine_kind> {};
#define NVM_EVERY_ENGINE(suite)                                                                                      \
  INSTANTIATE_TEST_SUITE_P(                                                                                          \
      on, suite,                                                                                                     \
      testing::Values(engine_kind::undo, engine_kind::undo_write_back, engine_kind::redo, engine_kind::redo_by_mark, \
                      engine_kind::log, engine_kind::ssd, engine_kind::ssd_log),                                     \
      [](const auto& i) { return name_of(i.param); })

}  // namespace nvm::tests
