// The common part of the twins: the face that tests and benchmarks call, which enters, works and leaves; and the
// answers to recovery (concept.hpp).
//
// After a crash the log has linked each node for good or not at all: no node bears a mark, none is deleted and still
// linked, and every node in an active area is looked for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/inlining.hpp"
#include "base/result.hpp"
#include "lockfree/concept.hpp"
#include "lockfree/nodes.hpp"
#include "lockfree/structure.hpp"

namespace nvm::lockfree::logged {

// Twin: has search(k, visit), put(s, k, v), take(s, k), and leads_to(offset); it derives from this.
template <class Twin, memory Memory>
class twin_face {
 public:
  using session = typename Memory::session;
  using nodes = word_nodes;  // what keys and values are

  // Calls visit(value) where the key is; false: it is nowhere.
  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool look_up(session& s, std::uint64_t k, Visit&& visit) noexcept {
    s.enter();
    const bool found = self().search(k, visit);
    s.leave();
    return found;
  }
  // False: it is there already.
  [[nodiscard]] result<bool> insert(session& s, std::uint64_t k, std::uint64_t v) noexcept {
    s.enter();
    auto r = self().put(s, k, v);
    s.leave();
    return r;
  }
  // False: it is nowhere.
  [[nodiscard]] result<bool> remove(session& s, std::uint64_t k) noexcept {
    s.enter();
    auto r = self().take(s, k);
    s.leave();
    return r;
  }

  // ---- recovery ----

  struct probe {
    const link* by = nullptr;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] static bool begin(probe& p, std::uint64_t offset, std::uint64_t) noexcept {
    p = {nullptr, offset};
    return true;
  }
  [[nodiscard]] progress step(probe& p) noexcept {
    return self().leads_to(p.offset) ? progress::found : progress::absent;
  }
  [[nodiscard]] static bool bears_mark(std::uint64_t, std::uint64_t) noexcept { return true; }
  [[nodiscard]] static const link* mark_of(std::uint64_t, std::uint64_t) noexcept { return nullptr; }
  [[nodiscard]] static std::uint64_t deleted_head(std::uint64_t, std::uint64_t, const link*) noexcept { return 0; }
  [[nodiscard]] static bool is_deleted_by(const link&) noexcept { return false; }
  template <class Pass>
  static void each_link_to(std::uint64_t, std::uint64_t, Pass&&) noexcept {}
  static bool detach(std::uint64_t, std::uint64_t) noexcept { return false; }
  template <class Meet>
  [[nodiscard]] static const char* check(Meet&&) {
    return nullptr;
  }

 private:
  friend Twin;
  twin_face() noexcept = default;
  [[nodiscard]] Twin& self() noexcept { return static_cast<Twin&>(*this); }
};

}  // namespace nvm::lockfree::logged
