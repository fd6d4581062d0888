// A process that is killed in the middle of an operation.
#pragma once

#include <ucontext.h>

#include <functional>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::tests {

// Runs something on a stack of its own that is left for good before the n-th place where the machine could switch.
class cut_off {
 public:
  cut_off(explore::machine& m, unsigned point, const std::function<void()>& what) : left_{point}, what_{what} {
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.data();
    inside_.uc_stack.ss_size = stack_.size();
    inside_.uc_link = &home_;
    makecontext(&inside_, &cut_off::enter, 0);
    starting_ = this;
    m.switch_at_accesses({this, [](void* raw, bool tired) {
                            auto& self = *static_cast<cut_off*>(raw);
                            if (!tired && --self.left_ == 0) swapcontext(&self.inside_, &self.home_);
                          }});
    swapcontext(&home_, &inside_);
    m.switch_at_accesses({});
  }
  [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
  static void enter() {
    cut_off* const self = starting_;
    self->what_();
    self->ended_ = true;
  }
  static inline cut_off* starting_ = nullptr;  // makecontext passes integers only
  unsigned left_;
  const std::function<void()>& what_;
  std::vector<std::byte> stack_ = std::vector<std::byte>(256 * 1024);
  ucontext_t inside_{};
  ucontext_t home_{};
  bool ended_ = false;
};

}  // namespace nvm::tests
