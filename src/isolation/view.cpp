#include "isolation/view.hpp"

#include <thread>

#include "platform/platform.hpp"

namespace nvm::isolation {

namespace {
// A writer on direct media holds its locks for some fences, microseconds on slow memory.
constexpr unsigned pauses_without_locks = 400;
constexpr unsigned yields_without_locks = 64;
constexpr unsigned pauses_with_locks = 64;
}  // namespace

bool view::outwait(const orec& o, std::uint64_t locked) const noexcept {
  const bool patient = !has_locks();
  const unsigned pauses = patient ? pauses_without_locks : pauses_with_locks;
  for (unsigned i = 0; i < pauses; ++i) {
    if (o.load(std::memory_order_relaxed) != locked) return true;
    isa::spin_hint();
  }
  for (unsigned i = 0; i < (patient ? yields_without_locks : 1); ++i) {
    std::this_thread::yield();
    if (o.load(std::memory_order_relaxed) != locked) return true;
  }
  return false;
}

seen view::read_slowly(orec& o, const void* p, std::size_t n, void* out) {
  return read_under(o, [&] { copy_out(out, p, n); });
}

bool view::lock_slowly(orec& o) {
  if (held_ == locks_.size()) locks_.resize(locks_.size() * 2);
  std::uint64_t w = o.load(std::memory_order_acquire);
  while (open()) {
    if (orec_word::locked(w)) {
      if (!outwait(o, w)) return false;
    } else if (w >= limit_) {
      if (!extend()) return false;
    } else {
      bool taken = false;
      if (who_.in_peace([&] { taken = take_alone(o, w); }) && taken) return true;
      // acquire: what was written under the version found.  Later stores of this transaction to the line release, so
      // that a thread that sees one of them sees the lock.
      if (o.compare_exchange_strong(w, orec_word::of_lock(who_.number(), held_), std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
        locks_[held_++] = {&o, w};
        return true;
      }
    }
    w = o.load(std::memory_order_acquire);
  }
  return false;
}

}  // namespace nvm::isolation
