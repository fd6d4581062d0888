// Holdfast: the C++ face (C++17 and later) over gc.h.
//
//   nvm::held<node> cursor{list->first};   // no garbage while cursor leads there
//   cursor = nvm::held<node>{cursor->next};
//   if (const auto up = nvm::lock(cursor->parent)) ...   // of a weak pointer: null if its object has died
#ifndef NVM_GC_HPP
#define NVM_GC_HPP

#include <cstddef>
#include <utility>

#include "nvm/gc.h"
#include "nvm/nvm.hpp"

namespace nvm {

// A volatile pointer that keeps its object from being collected (nvm_hold()); as a std::shared_ptr a copy is one more.
// Lives no longer than its pool is open.
template <class T>
class held {
 public:
  held() noexcept = default;
  held(std::nullptr_t) noexcept {}
  // Null where the object cannot be held; nvm_errno() says why.
  explicit held(T *p) noexcept : p_{nvm_hold(p) == 0 ? p : nullptr} {}
  // Takes over one hold of an object that the caller holds.
  static held taken(T *p) noexcept {
    held h;
    h.p_ = p;
    return h;
  }
  held(const held &other) noexcept : held{other.p_} {}
  held(held &&other) noexcept : p_{std::exchange(other.p_, nullptr)} {}
  held &operator=(held other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~held() {
    if (p_ != nullptr) (void)nvm_drop(p_);
  }

  T *get() const noexcept { return p_; }
  T &operator*() const noexcept { return *p_; }
  T *operator->() const noexcept { return p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }

 private:
  T *p_ = nullptr;
};

// The object that a weak pointer leads to, held; null: it leads to none, or to one that has died (nvm_weak_get()).
template <class T>
held<T> lock(const weak<T> &field) {
  return held<T>::taken(static_cast<T *>(nvm_weak_get(&field)));
}

// Frees what cannot be reached: nvm_gc().
inline outcome collect(pool &p, const nvm_gc_options &options = {}, nvm_gc_report *report = nullptr) noexcept {
  return nvm_gc(p.handle(), &options, report) == 0 ? outcome{} : outcome{nvm_errno()};
}

// Counts all that has been committed, and frees what has died by it: nvm_settle().
inline outcome settle(pool &p, nvm_settle_report *report = nullptr) noexcept {
  return nvm_settle(p.handle(), report) == 0 ? outcome{} : outcome{nvm_errno()};
}

}  // namespace nvm
#endif
