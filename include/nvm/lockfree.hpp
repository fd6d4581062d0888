// Holdfast: the C++ face (C++17 and later) over lockfree.h.
//
//   if (nvm::lf_guard inside{sessions}) {
//     nvm_lf_entry e;
//     if (nvm_lf_find(sessions, key.data(), key.size(), &e) == 1) show(e);  // e stays what it is until the guard ends
//   }
#ifndef NVM_LOCKFREE_HPP
#define NVM_LOCKFREE_HPP

#include <utility>

#include "nvm/lockfree.h"

namespace nvm {

// Between nvm_lf_enter() and nvm_lf_leave(): entries that this thread finds stay what they are while it lives, however
// the block is left.  False: nvm_lf_enter() failed, see nvm_errno().  Guards nest; each belongs to its thread.
class [[nodiscard]] lf_guard {
 public:
  explicit lf_guard(nvm_lf *structure) noexcept : inside_{nvm_lf_enter(structure) == 0 ? structure : nullptr} {}
  lf_guard(lf_guard &&other) noexcept : inside_{std::exchange(other.inside_, nullptr)} {}
  lf_guard &operator=(lf_guard &&other) noexcept {
    if (this != &other) {
      leave();
      inside_ = std::exchange(other.inside_, nullptr);
    }
    return *this;
  }
  ~lf_guard() { leave(); }

  explicit operator bool() const noexcept { return inside_ != nullptr; }
  // Before the end of its life.
  void leave() noexcept {
    if (inside_ != nullptr) (void)nvm_lf_leave(std::exchange(inside_, nullptr));
  }

 private:
  nvm_lf *inside_;
};

}  // namespace nvm
#endif
