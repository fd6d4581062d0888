// What the C interface needs of a pool's engine, whatever medium it runs on: one virtual call per operation, everything
// below it is a template over the medium.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "log/log.hpp"
#include "nvm/nvm.h"
#include "object/object.hpp"
#include "tx/tx.hpp"

namespace nvm::api {

// An open transaction; the face of tx::transaction on one lane.  Offsets are bytes from the pool's start; objects are
// named by their payload.
class open_transaction {
 public:
  virtual ~open_transaction() = default;
  [[nodiscard]] virtual unsigned depth() const noexcept = 0;
  [[nodiscard]] virtual status begin() noexcept = 0;
  [[nodiscard]] virtual status announce(const log::byte_range* ranges, std::size_t count) noexcept = 0;
  // Whether the innermost level can take back a store to these bytes.
  [[nodiscard]] virtual bool covers(const log::byte_range& range) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual status release(std::uint64_t payload) noexcept = 0;
  [[nodiscard]] virtual status set_root(std::uint64_t payload) noexcept = 0;
  // Replaces the pool's type map.
  [[nodiscard]] virtual status publish_types(const void* map, std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual status on(int event, void (*call)(), void* argument) noexcept = 0;
  // Inner level.
  [[nodiscard]] virtual status commit_level() noexcept = 0;
  // `hooks` are to be run now.
  virtual void abort_level(std::vector<tx::hook>& hooks) noexcept = 0;
  // Outermost level; the lane is free afterwards and this object belongs to whoever takes it next.
  [[nodiscard]] virtual result<lsn_t> commit(std::vector<tx::hook>& hooks) noexcept = 0;
  virtual void abort(std::vector<tx::hook>& hooks) noexcept = 0;
};

// A committed or reserved object.
struct object_facts {
  std::uint64_t payload = 0;
  std::uint64_t bytes = 0;   // asked for
  std::uint64_t usable = 0;  // from the payload to the end of its slots or pages
  std::uint32_t type = 0;
  bool reserved = false;  // of an open transaction
};

class engine {
 public:
  virtual ~engine() = default;
  // A lane for this thread's new transaction, with its first level begun: `lane` if that is free.  `parked` says
  // whether the lane is this thread's own between transactions (lanes::park).  Both are told what holds now, also when
  // it fails.
  [[nodiscard]] virtual result<open_transaction*> begin(unsigned& lane, bool& parked) noexcept = 0;
  // The thread, which has no transaction open, gives its parked lane up.
  virtual void give_back(unsigned lane) noexcept = 0;
  // Transactions open at the moment, of all threads.
  [[nodiscard]] virtual unsigned open_transactions() const noexcept = 0;
  [[nodiscard]] virtual status wait(lsn_t lsn) noexcept = 0;
  [[nodiscard]] virtual result<std::uint64_t> root() noexcept = 0;
  // Views into the pool.
  [[nodiscard]] virtual result<object::type_map> types() noexcept = 0;
  [[nodiscard]] virtual result<object_facts> find(std::uint64_t payload) noexcept = 0;
  // visit returns non-zero to stop; that value is the result.
  [[nodiscard]] virtual result<int> each(int (*visit)(void* argument, const object_facts& object),
                                         void* argument) noexcept = 0;
  [[nodiscard]] virtual status build_index(unsigned threads) noexcept = 0;
  [[nodiscard]] virtual std::uint64_t used_pages() noexcept = 0;
  virtual void statistics(nvm_statistics& out) noexcept = 0;
  [[nodiscard]] virtual unsigned lanes() const noexcept = 0;
  // enum nvm_persist in force.
  [[nodiscard]] virtual std::uint32_t persist() const noexcept = 0;
  [[nodiscard]] virtual const tx::recovery_report& recovered() const noexcept = 0;
  // Everything durable, nothing left to recover; no transaction is open.
  [[nodiscard]] virtual status come_to_rest() noexcept = 0;
};

}  // namespace nvm::api
