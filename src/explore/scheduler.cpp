#include "explore/scheduler.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <stdexcept>

#include "nvm/record.h"

namespace nvm::explore {

namespace {

constexpr std::size_t stack_bytes = 256 * 1024;
constexpr std::size_t stack_guard_bytes = 4096;

scheduler* starting = nullptr;  // makecontext passes integers only
ucontext_t home;                // where run() waits; the last thread that ends goes back there

}  // namespace

struct scheduler::fiber {
  fiber() {
    void* m = ::mmap(nullptr, stack_bytes + stack_guard_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (m == MAP_FAILED || ::mprotect(m, stack_guard_bytes, PROT_NONE) != 0) {
      throw std::runtime_error("explore: no memory for a fiber's stack");
    }
    stack = m;
  }
  ~fiber() { ::munmap(stack, stack_bytes + stack_guard_bytes); }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  void* stack = nullptr;
  ucontext_t context;
  const std::function<void(machine&)>* body = nullptr;
  bool done = true;
};

scheduler::scheduler() = default;
scheduler::~scheduler() = default;

void scheduler::enter() {
  scheduler* s = starting;
  try {
    (*s->fibers_[s->current_]->body)(*s->machine_);
  } catch (...) {
    s->failure_ = std::current_exception();
  }
  if (s->failure_) setcontext(&home);
  s->ended();
}

void scheduler::run(machine& m, std::span<const std::function<void(machine&)>> bodies, chooser& c,
                    const std::function<void(unsigned)>& on_switch) {
  machine_ = &m;
  chooser_ = &c;
  on_switch_ = &on_switch;
  count_ = bodies.size();
  while (fibers_.size() < count_) fibers_.push_back(std::make_unique<fiber>());
  point_ = 0;
  waits_ = 0;
  idle_ = 0;
  events_ = 0;
  stored_offset_ = stored_payload_ = 0;
  turns_.clear();
  failure_ = nullptr;
  for (std::size_t i = 0; i < count_; ++i) {
    fiber& f = *fibers_[i];
    f.body = &bodies[i];
    f.done = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = static_cast<std::byte*>(f.stack) + stack_guard_bytes;
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = &home;
    makecontext(&f.context, &scheduler::enter, 0);
  }
  starting = this;
  const unsigned thread_before = m.thread();
  current_ = static_cast<unsigned>(count_);  // none
  const std::size_t first = ask(false);
  current_ = candidates_[first];
  m.thread(current_);
  if (on_switch) on_switch(current_);
  m.switch_at_accesses({this, [](void* self, bool tired) { static_cast<scheduler*>(self)->at_point(tired); }});
  __nvm_rec_steps = patience_steps;
  running_ = true;
  swapcontext(&home, &fibers_[current_]->context);
  abandon();
  m.thread(thread_before);
  if (failure_) std::rethrow_exception(failure_);
}

void scheduler::abandon() noexcept {
  running_ = false;
  __nvm_rec_steps = INT64_MAX;
  if (machine_ != nullptr) machine_->switch_at_accesses({});
}

// Fills candidates_ and returns the chosen one's place among them.
std::size_t scheduler::ask(bool may_go_on) {
  candidates_.clear();
  if (may_go_on) candidates_.push_back(current_);
  // Round robin after the running thread, so that the first candidate of a waiting thread is the next one.
  for (std::size_t k = 1; k <= count_; ++k) {
    const auto t = static_cast<unsigned>((current_ + k) % (count_ + (current_ == count_ ? 1 : 0)));
    if (t < count_ && t != current_ && !fibers_[t]->done) candidates_.push_back(t);
  }
  if (candidates_.size() < 2) return 0;
  const std::size_t chosen = chooser_->choose(candidates_, may_go_on);
  if (chosen != 0) turns_.push_back({point_, static_cast<std::uint32_t>(chosen)});
  ++point_;
  return chosen;
}

void scheduler::go_to(unsigned thread) {
  const unsigned from = current_;
  current_ = thread;
  machine_->thread(thread);
  if (*on_switch_) (*on_switch_)(thread);
  __nvm_rec_steps = patience_steps;
  idle_ = 0;
  if (fibers_[from]->done) {
    setcontext(&fibers_[thread]->context);
  } else {
    swapcontext(&fibers_[from]->context, &fibers_[thread]->context);
  }
}

// Whether the thread has changed anything since the last point. A locked operation alone does not count, nor does
// storing the same word again: waiting for a lock does both.
bool scheduler::something_happened() {
  if (machine_->recording() == nullptr) return false;
  const auto& events = machine_->recording()->events;
  bool happened = false;
  for (; events_ < events.size(); ++events_) {
    const event& e = events[events_];
    if (e.kind == event_kind::rmw) continue;
    if (e.kind == event_kind::store && e.inline_word) {
      const bool again = e.offset == stored_offset_ && e.payload == stored_payload_;
      stored_offset_ = e.offset;
      stored_payload_ = e.payload;
      if (again) continue;
    }
    happened = true;
  }
  return happened;
}

void scheduler::at_point(bool tired) {
  if (!running_) return;
  __nvm_rec_steps = patience_steps;
  // A thread that passes many points without a change waits for another one.
  if (something_happened()) {
    idle_ = 0;
    waits_ = 0;
  } else if (++idle_ > patience_points) {
    tired = true;
  }
  if (tired) {
    idle_ = 0;
    if (++waits_ > waits_max) {
      failure_ = std::make_exception_ptr(std::runtime_error("the threads wait for each other for ever"));
      setcontext(&home);
    }
  }
  const std::size_t chosen = ask(!tired);
  if (!candidates_.empty() && candidates_[chosen] != current_) go_to(candidates_[chosen]);
}

void scheduler::ended() {
  fibers_[current_]->done = true;
  waits_ = 0;
  const std::size_t chosen = ask(false);
  if (candidates_.empty()) setcontext(&home);
  go_to(candidates_[chosen]);
}

// ---- choosers -------------------------------------------------------------------------------------------------------

std::size_t bounded_chooser::choose(std::span<const unsigned> candidates, bool may_go_on) {
  if (may_go_on && preemptions_ >= preemptions_max_) return 0;
  if (at_ == made_.size()) made_.push_back({0, static_cast<std::uint32_t>(candidates.size())});
  const std::size_t taken = made_[at_++].taken;
  if (may_go_on && taken != 0) ++preemptions_;
  return taken;
}

bool bounded_chooser::next() {
  at_ = 0;
  preemptions_ = 0;
  while (!made_.empty() && made_.back().taken + 1 == made_.back().candidates) made_.pop_back();
  if (made_.empty()) return false;
  ++made_.back().taken;
  return true;
}

void priority_chooser::begin() {
  random_.seed(seed_ * 1'000'003 + run_);
  step_ = 0;
  priority_.clear();
  lowest_ = -static_cast<std::int64_t>(depth_);
  last_ = nobody;
  changes_.clear();
  for (unsigned i = 1; i < depth_; ++i) changes_.push_back(random_() % steps_max_);
}

bool priority_chooser::next() {
  steps_max_ = std::max(steps_max_, step_);
  if (++run_ >= runs_) return false;
  begin();
  return true;
}

std::size_t priority_chooser::choose(std::span<const unsigned> candidates, bool may_go_on) {
  for (const unsigned t : candidates) {
    while (priority_.size() <= t) priority_.push_back(static_cast<std::int64_t>(random_() % 1'000'000) + depth_);
  }
  // Otherwise two that wait for a third would take turns for ever.
  if (!may_go_on && last_ < priority_.size()) priority_[last_] = --lowest_;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (changes_[i] == step_ && may_go_on) priority_[candidates[0]] = -static_cast<std::int64_t>(i) - 1;
  }
  ++step_;
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (priority_[candidates[i]] > priority_[candidates[best]]) best = i;
  }
  last_ = candidates[best];
  return best;
}

std::size_t fixed_chooser::choose(std::span<const unsigned> candidates, bool) {
  const std::uint32_t point = point_++;
  for (const auto& turn : turns_) {
    if (turn.point == point) return std::min<std::size_t>(turn.candidate, candidates.size() - 1);
  }
  return 0;
}

}  // namespace nvm::explore
