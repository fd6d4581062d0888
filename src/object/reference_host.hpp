// What the counting of references asks of its pool.
#pragma once

#include <cstdint>
#include <functional>

#include "base/base.hpp"
#include "isolation/face.hpp"
#include "pool/pool.hpp"
#include "tx/face.hpp"

namespace nvm::object {

// An object, by its payload.
struct counted_object {
  std::uint64_t header = 0;
  std::uint64_t payload = 0;
  std::uint64_t bytes = 0;
  std::uint32_t type = 0;
};

class reference_host {
 public:
  virtual ~reference_host() = default;
  [[nodiscard]] virtual std::byte* base() noexcept = 0;
  // The address that stored pointers have for base().
  [[nodiscard]] virtual std::uint64_t address() noexcept { return reinterpret_cast<std::uintptr_t>(base()); }
  [[nodiscard]] virtual nvm::geometry geometry() noexcept = 0;
  // The object around a place that a transaction of this thread stores to; 0 bytes: none.
  [[nodiscard]] virtual counted_object around_own(std::uint64_t place) noexcept = 0;
  // Whether references to that place are counted: not into object stores, which are collected by themselves, nor to
  // where a store has had a page since the pool was opened.  What refers to an object that was there is not known, and
  // would be taken for a reference to the object that came to the place.
  [[nodiscard]] virtual bool is_counted(std::uint64_t place) noexcept = 0;
  // Whether there is such a place.
  [[nodiscard]] virtual bool has_stores() noexcept = 0;
  // The committed object around a place that is_counted(); 0 bytes: none.
  [[nodiscard]] virtual counted_object around(std::uint64_t place) noexcept = 0;
  // Calls visit(object) for all committed objects, those of object stores as well, until it says false.
  [[nodiscard]] virtual status each(const std::function<bool(const counted_object&)>& visit) noexcept = 0;
  // The root's payload, 0: none.
  [[nodiscard]] virtual result<std::uint64_t> root() noexcept = 0;
  // Begins a transaction of the calling thread, which may have another open.
  [[nodiscard]] virtual result<tx::open_transaction*> begin() noexcept = 0;
  // As engine::turns_of(), for each lane.
  [[nodiscard]] virtual unsigned lanes() noexcept = 0;
  [[nodiscard]] virtual std::uint64_t turns_of(unsigned lane) noexcept = 0;
  // The barrier transactions that are open, which need not have a lane.  May throw std::bad_alloc.
  [[nodiscard]] virtual isolation::visits barriers_inside() = 0;
  // Whether order_all() orders: a barrier in every thread of the process.
  [[nodiscard]] virtual bool can_order_all() noexcept = 0;
  virtual void order_all() noexcept = 0;
  // Whether the program holds the object from volatile memory.
  [[nodiscard]] virtual bool held(std::uint64_t payload) noexcept = 0;
};

}  // namespace nvm::object
