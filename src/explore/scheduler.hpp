// Scheduler: threads as fibers of one operating system thread, switched only where it decides.
//
// Each atomic access, flush and fence of instrumented code is a point where another thread may run first.  A chooser
// answers which; the answers that are not the first candidate are the schedule, and the same answers give the same run.
// A thread that takes many steps without reaching such a point, or passes many without a new store, counts as waiting
// for another one: the others run, at no cost in preemptions.
//
// Code on fibers shares one operating system thread, so it must not keep state in thread_local variables across such
// points, nor wait on the system's locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "explore/machine.hpp"
#include "explore/token.hpp"

namespace nvm::explore {

// Decides at each point.  Candidate 0 is the thread that runs, if it may go on; the others follow by number.
class chooser {
 public:
  virtual ~chooser() = default;
  virtual std::size_t choose(std::span<const unsigned> candidates, bool may_go_on) = 0;
  // Begins the next schedule; false if there is none.
  virtual bool next() = 0;
};

// All schedules with at most so many preemptions (switches away from a thread that could go on), depth first.  Switches
// at the end of a thread or away from a waiting one are free.
class bounded_chooser final : public chooser {
 public:
  explicit bounded_chooser(unsigned preemptions_max) : preemptions_max_{preemptions_max} {}
  std::size_t choose(std::span<const unsigned> candidates, bool may_go_on) override;
  bool next() override;

 private:
  struct choice {
    std::uint32_t taken;
    std::uint32_t candidates;
  };
  unsigned preemptions_max_;
  unsigned preemptions_ = 0;
  std::size_t at_ = 0;
  std::vector<choice> made_;
};

// Random priorities with a few random points at which the running thread's becomes the lowest (probabilistic
// concurrency testing): a bug that needs d ordered events in n threads and k steps is met with probability 1 / (n
// k^(d-1)) at least.  A thread that waits has the lowest as well.
class priority_chooser final : public chooser {
 public:
  priority_chooser(std::uint64_t seed, unsigned depth, unsigned runs) : seed_{seed}, depth_{depth}, runs_{runs} {
    begin();
  }
  std::size_t choose(std::span<const unsigned> candidates, bool may_go_on) override;
  bool next() override;

 private:
  void begin();
  std::uint64_t seed_;
  unsigned depth_;
  unsigned runs_;
  unsigned run_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t steps_max_ = 64;  // of the longest run so far
  std::mt19937_64 random_;
  static constexpr std::size_t nobody = SIZE_MAX;
  std::vector<std::int64_t> priority_;  // by thread
  std::int64_t lowest_ = 0;             // of those that have waited
  std::size_t last_ = nobody;           // the thread that was chosen last
  std::vector<std::uint64_t> changes_;
};

// One given schedule.
class fixed_chooser final : public chooser {
 public:
  explicit fixed_chooser(std::span<const state_path::turn> turns) : turns_(turns.begin(), turns.end()) {}
  std::size_t choose(std::span<const unsigned> candidates, bool may_go_on) override;
  bool next() override { return false; }

 private:
  std::vector<state_path::turn> turns_;
  std::uint32_t point_ = 0;
};

class scheduler {
 public:
  scheduler();
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  // Runs the bodies to their ends.  on_switch gets the number of the thread that runs from here on. Passes exceptions
  // of a body on, and throws std::runtime_error if the threads wait for each other for ever; the fibers are abandoned
  // then.
  void run(machine& m, std::span<const std::function<void(machine&)>> bodies, chooser& c,
           const std::function<void(unsigned)>& on_switch);
  // After a jump out of run(): fibers that were under way are forgotten.
  void abandon() noexcept;
  // Choices of the last run that were not the first candidate.
  [[nodiscard]] const std::vector<state_path::turn>& turns() const noexcept { return turns_; }

 private:
  struct fiber;
  static void enter();
  void at_point(bool tired);
  bool something_happened();
  void ended();
  std::size_t ask(bool may_go_on);
  void go_to(unsigned thread);

  // A thread counts as waiting if it takes so many steps without a point, or passes so many points without a change.
  static constexpr std::int64_t patience_steps = 20'000;
  static constexpr unsigned patience_points = 256;
  static constexpr unsigned waits_max = 10'000;  // such turns, of any threads, in a row: no thread will go on

  std::vector<std::unique_ptr<fiber>> fibers_;
  machine* machine_ = nullptr;
  chooser* chooser_ = nullptr;
  const std::function<void(unsigned)>* on_switch_ = nullptr;
  std::size_t count_ = 0;
  unsigned current_ = 0;
  unsigned waits_ = 0;
  unsigned idle_ = 0;
  std::size_t events_ = 0;            // in the trace at the last point
  std::uint64_t stored_offset_ = 0;   // of the last store before it,
  std::uint64_t stored_payload_ = 0;  // and its word
  std::uint32_t point_ = 0;
  bool running_ = false;
  std::vector<unsigned> candidates_;
  std::vector<state_path::turn> turns_;
  std::exception_ptr failure_;
};

}  // namespace nvm::explore
