// An open transaction of any engine and medium on one lane, for the C interface and the barrier transactions of stm/.
// Offsets are bytes from the pool's start; objects are named by their payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/base.hpp"
#include "isolation/face.hpp"
#include "log/face.hpp"
#include "media/concept.hpp"
#include "tx/assigned.hpp"
#include "tx/hook.hpp"
#include "tx/log_room.hpp"

namespace nvm {
struct store_attachment;  // space/store_attachment.hpp
}

namespace nvm::tx {

class open_transaction {
 public:
  virtual ~open_transaction() = default;
  [[nodiscard]] virtual unsigned depth() const noexcept = 0;
  // All levels.
  [[nodiscard]] virtual log_room room() const noexcept { return {}; }
  // errc::ok, or the failure that leaves only abort.
  [[nodiscard]] virtual errc failure() const noexcept = 0;
  [[nodiscard]] virtual status begin() noexcept = 0;
  [[nodiscard]] virtual status announce(const log::byte_range* ranges, std::size_t count) noexcept = 0;
  // Whether the innermost level can undo a store to these bytes.
  [[nodiscard]] virtual bool covers(const log::byte_range& range) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept = 0;
  // The same in an attached store; release() frees it like any other.  Errors besides those of allocate():
  // errc::no_space if the store's quota is used up, and the message has both figures; read_only; invalid: that
  // attachment has ended. A request that does not fit the store's pages makes the store grow at once, also if the
  // transaction aborts: one fence in place, three by a cluster.
  [[nodiscard]] virtual result<std::uint64_t> allocate_in(const store_attachment& /*store*/, std::uint32_t /*type*/,
                                                          std::uint64_t /*bytes*/) noexcept {
    return doom(fail(errc::engine, "a pool of this engine has no stores"));
  }
  [[nodiscard]] virtual status release(std::uint64_t payload) noexcept = 0;
  // allocate_cluster(): offset of a run of `pages` pages that will be a cluster (space/clusters_layout.hpp), of which
  // the transaction writes `bytes` bytes. release_cluster() frees one as a whole when the transaction commits.
  [[nodiscard]] virtual result<std::uint64_t> allocate_cluster(std::uint64_t /*pages*/,
                                                               std::uint64_t /*bytes*/) noexcept {
    return doom(fail(errc::engine, "a pool of this engine has no stores"));
  }
  [[nodiscard]] virtual status release_cluster(std::uint64_t /*offset*/) noexcept {
    return fail(errc::engine, "a pool of this engine has no stores");
  }
  // The program frees the object: release(); or, if references are counted and the object existed before, it is freed
  // as soon as nothing refers to it.
  [[nodiscard]] virtual status let_go(std::uint64_t payload) noexcept { return release(payload); }
  // Bytes of an object from its payload to the end of its slots or pages; errc::bad_pointer.
  [[nodiscard]] virtual result<std::uint64_t> room_of(std::uint64_t payload) noexcept = 0;
  [[nodiscard]] virtual status set_root(std::uint64_t payload) noexcept = 0;
  // The same for the rings of activation records; 0: there are none.
  [[nodiscard]] virtual status set_reference_rings(std::uint64_t payload) noexcept = 0;
  // Stores words and half words of the library's own, durable together; not inside objects that programs store to.
  [[nodiscard]] virtual status assign_all(std::span<const assigned_bytes> words) noexcept = 0;
  [[nodiscard]] virtual unsigned lane() const noexcept = 0;
  // Replaces the pool's type map.
  [[nodiscard]] virtual status publish_types(const void* map, std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual status on(int event, void (*call)(), void* argument) noexcept = 0;
  // From now on the innermost level can only be rolled back, because of the thread's last fail(). Returns `why`.
  virtual errc doom(errc why) noexcept = 0;
  // Ends an inner level.
  [[nodiscard]] virtual status commit_level() noexcept = 0;
  // The caller runs `hooks` now.
  virtual void abort_level(std::vector<hook>& hooks) noexcept = 0;
  // Ends the outermost level; the lane is free afterwards, and this object belongs to the next thread that takes it.
  [[nodiscard]] virtual result<lsn_t> commit(std::vector<hook>& hooks) noexcept = 0;
  virtual void abort(std::vector<hook>& hooks) noexcept = 0;

  // ---- barrier transactions (stm/) ----

  // True: stores reach home at the commit, all at once (write-back). False: each is announced and made in place
  // (write-through).
  [[nodiscard]] virtual bool writes_back() const noexcept = 0;
  // Write-back: whether the engine is told of each store as it is made, by log_store(); the lines at the commit have
  // these stores again.
  [[nodiscard]] virtual bool logs_each_store() const noexcept { return false; }
  [[nodiscard]] virtual status log_store(std::uint64_t /*offset*/, const std::byte* /*from*/,
                                         std::uint64_t /*bytes*/) noexcept {
    return {};
  }
  // Write-back, outermost level, before the version of the commit is drawn from the clock: finds room for everything
  // that the commit needs; commit_lines() will get the same `lines`. After success, commit_lines() or abort() must
  // follow at once, without waiting in between: log space is not given back meanwhile.
  [[nodiscard]] virtual status enter_commit(std::span<const isolation::written_line> lines) noexcept = 0;
  // Write-back, outermost level: commit() with the new bytes of these lines of the pool, each at most once. `version`
  // is larger than that of every transaction whose writes this one read or replaces; no other thread reads or writes
  // the lines' masked bytes until this returns.
  [[nodiscard]] virtual result<lsn_t> commit_lines(std::span<const isolation::written_line> lines,
                                                   std::uint64_t version, std::vector<hook>& hooks) noexcept = 0;
};

}  // namespace nvm::tx
