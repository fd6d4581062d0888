// Holdfast: the C++ face (C++17 and later) over region.h.
//
//   auto pool = nvm::pool::open("/dev/shm/game");
//   auto players = nvm::regions::open(*pool, "players");
//   if (!players->create(42, 2048)) std::puts(nvm_errormsg());
//   auto done = players->update({42, 43}, [&](auto& trade) {      // both, or neither
//     trade.write(42, gold_at, less);
//     trade.write(43, gold_at, more);
//   });
//   if (auto state = players->hold(42)) draw(state.bytes());      // stays as it is while writers go on
//
// Bytes are std::string_view of anything.  Failures are values; nvm_errno() and nvm_errormsg() say why.  Exceptions
// come from the caller's own code only: an update whose body throws is given up, and the exception goes on.
#ifndef NVM_REGION_HPP
#define NVM_REGION_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nvm/nvm.hpp"
#include "nvm/region.h"

namespace nvm {

template <class T>
using region_answer = answer<T>;

// The bytes of a region at one moment, which stay as they are until the end of its life, or let_go(): see
// nvm_region_hold().  False: it could not be held, code() says why, or it was let go.  Any thread may end it.
class [[nodiscard]] region_lease {
 public:
  region_lease(nvm_regions *set, std::uint64_t rid) noexcept {
    if (nvm_region_hold(set, rid, &lease_) != 0) code_ = nvm_errno();
  }
  region_lease(region_lease &&other) noexcept : lease_{std::exchange(other.lease_, {})}, code_{other.code_} {}
  region_lease &operator=(region_lease &&other) noexcept {
    if (this != &other) {
      let_go();
      lease_ = std::exchange(other.lease_, {});
      code_ = other.code_;
    }
    return *this;
  }
  ~region_lease() { let_go(); }

  explicit operator bool() const noexcept { return lease_.set != nullptr; }
  int code() const noexcept { return code_; }
  std::string_view bytes() const noexcept { return {static_cast<const char *>(lease_.bytes), size()}; }
  const void *data() const noexcept { return lease_.bytes; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(lease_.length); }
  // Before the end of its life.
  void let_go() noexcept {
    if (lease_.set != nullptr) (void)nvm_region_let_go(&lease_);
  }

 private:
  nvm_region_lease lease_{};
  int code_ = NVM_OK;
};

namespace detail {
inline outcome region_done(int answer) noexcept { return answer == 0 ? outcome{} : outcome{nvm_errno()}; }

// Up to `bytes` bytes from `offset` on; all of them to the end by default.  May throw std::bad_alloc.
inline region_answer<std::string> region_read(nvm_regions *set, std::uint64_t rid, std::uint64_t offset,
                                              std::uint64_t bytes) {
  using answer = region_answer<std::string>;
  for (;;) {
    std::uint64_t size = 0;
    if (nvm_region_size(set, rid, &size) != 0) return answer::failed(nvm_errno());
    const std::uint64_t there = size > offset ? size - offset : 0;
    std::string to(static_cast<std::size_t>(there < bytes ? there : bytes), '\0');
    const std::int64_t n = nvm_region_read(set, rid, offset, to.data(), to.size());
    if (n < 0) return answer::failed(nvm_errno());
    // It may be longer by now.
    if (to.size() < bytes && static_cast<std::size_t>(n) == to.size()) {
      std::uint64_t now = 0;
      if (nvm_region_size(set, rid, &now) != 0) return answer::failed(nvm_errno());
      if (now > size) continue;
    }
    to.resize(static_cast<std::size_t>(n));
    return to;
  }
}
}  // namespace detail

// What the body of an update changes: all of it becomes durable together, or none.  False: the call has failed, and so
// does the update, with its code.  Reads see what was changed.
class region_changes {
 public:
  bool write(std::uint64_t rid, std::uint64_t offset, std::string_view bytes) noexcept {
    return note(nvm_region_write(set_, rid, offset, bytes.data(), bytes.size()));
  }
  bool append(std::uint64_t rid, std::string_view bytes, std::uint64_t *where = nullptr) noexcept {
    return note(nvm_region_append(set_, rid, bytes.data(), bytes.size(), where));
  }
  bool truncate(std::uint64_t rid, std::uint64_t length) noexcept {
    return note(nvm_region_truncate(set_, rid, length));
  }
  // May throw std::bad_alloc.
  region_answer<std::string> read(std::uint64_t rid, std::uint64_t offset = 0,
                                  std::uint64_t bytes = ~std::uint64_t{0}) const {
    return detail::region_read(set_, rid, offset, bytes);
  }
  // For updates of several regions: one more region, a new one, or one that is dropped.  A join that might wait for
  // ever gives false: return then, and the body is called again with that region held.  May throw std::bad_alloc.
  bool join(std::uint64_t rid, unsigned mode = NVM_REGION_ADAPTIVE) {
    const int joined = nvm_region_group_join(group_, rid, mode);
    if (joined != 0 && nvm_errno() == NVM_E_BUSY && held_ != nullptr) held_->push_back(rid);
    if (joined != 0 && nvm_errno() == NVM_E_TX_OPEN && was_refused(rid)) return true;
    return note(joined);
  }
  bool create(std::uint64_t rid, std::uint64_t size) noexcept {
    return note(nvm_region_group_create(group_, rid, size));
  }
  bool drop(std::uint64_t rid) noexcept {
    return note(group_ != nullptr ? nvm_region_group_drop(group_, rid) : nvm_region_drop(set_, rid));
  }
  // NVM_OK, or the code of the first call that failed.
  int code() const noexcept { return code_; }

 private:
  friend class regions;
  region_changes(nvm_regions *set, nvm_region_group *group, std::vector<std::uint64_t> *held) noexcept
      : set_{set}, group_{group}, held_{held} {}
  bool was_refused(std::uint64_t rid) const noexcept {
    if (held_ == nullptr) return false;
    return std::find(held_->begin(), held_->end(), rid) != held_->end();
  }
  bool note(int answer) noexcept {
    if (answer != 0 && code_ == NVM_OK) code_ = nvm_errno();
    return answer == 0;
  }
  nvm_regions *set_;
  nvm_region_group *group_;
  std::vector<std::uint64_t> *held_;  // because a join of an earlier call of the body was refused
  int code_ = NVM_OK;
};

// An open set; a handle that may be copied, for any thread, until its pool is closed or the set is dropped.
class regions {
 public:
  static std::optional<regions> open(NVM_POOL *pool, const char *name,
                                     const nvm_regions_options &options = {}) noexcept {
    nvm_regions *handle = nvm_regions_open(pool, name, &options);
    if (handle == nullptr) return std::nullopt;
    return regions{handle};
  }
  static std::optional<regions> open(const pool &p, const char *name,
                                     const nvm_regions_options &options = {}) noexcept {
    return open(p.handle(), name, options);
  }
  nvm_regions *handle() const noexcept { return handle_; }

  outcome create(std::uint64_t rid, std::uint64_t size) noexcept {
    return detail::region_done(nvm_region_create(handle_, rid, size));
  }
  // With these bytes, and room for `room` bytes in all before it has to move.
  outcome create_with(std::uint64_t rid, std::string_view bytes, std::uint64_t room = 0) noexcept {
    return detail::region_done(nvm_region_create_with(handle_, rid, bytes.data(), bytes.size(), room));
  }
  outcome drop(std::uint64_t rid) noexcept { return detail::region_done(nvm_region_drop(handle_, rid)); }
  region_answer<std::uint64_t> size(std::uint64_t rid) const noexcept {
    std::uint64_t bytes = 0;
    if (nvm_region_size(handle_, rid, &bytes) != 0) return region_answer<std::uint64_t>::failed(nvm_errno());
    return bytes;
  }
  region_answer<std::uint64_t> count() const noexcept {
    std::uint64_t n = 0;
    if (nvm_regions_count(handle_, &n) != 0) return region_answer<std::uint64_t>::failed(nvm_errno());
    return n;
  }
  // From `offset` on, fewer bytes at the end of the region.  May throw std::bad_alloc.
  region_answer<std::string> read(std::uint64_t rid, std::uint64_t offset = 0,
                                  std::uint64_t bytes = ~std::uint64_t{0}) const {
    return detail::region_read(handle_, rid, offset, bytes);
  }
  // The same into memory of the caller: bytes that were read.
  region_answer<std::size_t> read(std::uint64_t rid, std::uint64_t offset, void *to, std::size_t bytes) const noexcept {
    const std::int64_t n = nvm_region_read(handle_, rid, offset, to, bytes);
    if (n < 0) return region_answer<std::size_t>::failed(nvm_errno());
    return static_cast<std::size_t>(n);
  }
  region_lease hold(std::uint64_t rid) const noexcept { return {handle_, rid}; }

  outcome write(std::uint64_t rid, std::uint64_t offset, std::string_view bytes) noexcept {
    return detail::region_done(nvm_region_write(handle_, rid, offset, bytes.data(), bytes.size()));
  }
  // The offset of the new bytes.
  region_answer<std::uint64_t> append(std::uint64_t rid, std::string_view bytes) noexcept {
    std::uint64_t where = 0;
    if (nvm_region_append(handle_, rid, bytes.data(), bytes.size(), &where) != 0) {
      return region_answer<std::uint64_t>::failed(nvm_errno());
    }
    return where;
  }
  outcome truncate(std::uint64_t rid, std::uint64_t length) noexcept {
    return detail::region_done(nvm_region_truncate(handle_, rid, length));
  }

  // Calls body(region_changes&) and makes durable what it changed, all or nothing.  A body that returns false or an
  // outcome that is false, or throws, changes nothing.  With several regions body may be called again (see
  // region_changes::join()), so it should change nothing else.
  template <class Body>
  outcome update(std::initializer_list<std::uint64_t> rids, Body &&body) {
    detail::check_verdict<std::invoke_result_t<Body &, region_changes &>>();
    struct context {
      Body &body;
      nvm_regions *set;
      outcome wanted;
      std::exception_ptr thrown;
      std::vector<std::uint64_t> refused;
    } c{body, handle_, {}, {}, {}};
    const int done = nvm_region_group_run(
        handle_, rids.begin(), rids.size(),
        [](nvm_region_group *group, void *argument) {
          auto &in = *static_cast<context *>(argument);
          in.thrown = nullptr;
          region_changes changes{in.set, group, &in.refused};
          try {
            in.wanted = run(in.body, changes);
          } catch (...) {
            in.thrown = std::current_exception();
            return 1;
          }
          return in.wanted ? 0 : 1;
        },
        &c);
    if (c.thrown) std::rethrow_exception(c.thrown);
    if (done > 0) return detail::refused(c.wanted);
    return detail::region_done(done);
  }
  // The same for one region, logged in the way that `mode` says (enum nvm_region_mode).
  template <class Body>
  outcome update(std::uint64_t rid, Body &&body, unsigned mode = NVM_REGION_ADAPTIVE) {
    detail::check_verdict<std::invoke_result_t<Body &, region_changes &>>();
    if (nvm_region_begin(handle_, rid, mode) != 0) return outcome{nvm_errno()};
    struct guard {
      nvm_regions *set;
      std::uint64_t rid;
      ~guard() {
        if (set != nullptr) (void)nvm_region_abort(set, rid);
      }
    } undo{handle_, rid};
    region_changes changes{handle_, nullptr, nullptr};
    const outcome wanted = run(body, changes);
    if (!wanted) return detail::refused(wanted);
    undo.set = nullptr;
    return detail::region_done(nvm_region_commit(handle_, rid));
  }

  // Calls f(rid, size) for each region, in no order, until it returns false, if it returns anything.  An exception of f
  // goes on.
  template <class F>
  outcome each(F &&f) const {
    struct context {
      F &f;
      std::exception_ptr thrown;
    } c{f, {}};
    const int done = nvm_region_each(
        handle_,
        [](std::uint64_t rid, std::uint64_t size, void *argument) {
          auto &in = *static_cast<context *>(argument);
          try {
            if constexpr (std::is_void_v<std::invoke_result_t<F &, std::uint64_t, std::uint64_t>>) {
              in.f(rid, size);
              return 0;
            } else {
              return in.f(rid, size) ? 0 : 1;
            }
          } catch (...) {
            in.thrown = std::current_exception();
            return 1;
          }
        },
        &c);
    if (c.thrown) std::rethrow_exception(c.thrown);
    return done < 0 ? outcome{nvm_errno()} : outcome{};
  }
  // Waits until all that this thread has done and seen in the pool is durable (NVM_REGIONS_NO_WAIT).
  outcome wait() noexcept { return detail::region_done(nvm_regions_wait(handle_)); }
  region_answer<nvm_region_statistics> statistics() const noexcept {
    nvm_region_statistics s{};
    if (nvm_region_get_statistics(handle_, &s) != 0) return region_answer<nvm_region_statistics>::failed(nvm_errno());
    return s;
  }

 private:
  explicit regions(nvm_regions *handle) noexcept : handle_{handle} {}

  // What the body wants, or the first failure of its calls.
  template <class Body>
  static outcome run(Body &body, region_changes &changes) {
    outcome wanted;
    if constexpr (std::is_void_v<std::invoke_result_t<Body &, region_changes &>>) {
      body(changes);
    } else {
      wanted = detail::verdict_of(body(changes));
    }
    return changes.code() != NVM_OK ? outcome{changes.code()} : wanted;
  }

  nvm_regions *handle_;
};

}  // namespace nvm
#endif
