// The types of this program: what the constructors that the compiler plugin puts into object files announce, and what
// libraries announce that are loaded later.  Copied, so that a library may be unloaded again.
//
// Threads: any.  A process has one registry; it is constant-initialised, because constructors of other files use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/base.hpp"
#include "object/type_map.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::object {

// A map and the bytes that it is a view of.
struct owned_type_map {
  type_map_writer::words bytes;
  type_map map;
};

class type_registry {
 public:
  static type_registry& of_program() noexcept;

  // Adds the types of a map.  errc::corrupt: it is none; errc::type_mismatch: an id has two layouts in this program;
  // errc::no_memory.  The last two stay until the process ends: no pool may be opened with half of the types.
  [[nodiscard]] status add(const void* map, std::uint64_t bytes) noexcept;

  // Notes a failure about types of the program that could not be registered: it stays, too.
  status lacks(errc code) noexcept;

  // Rises with every change; 0: no types, and no static objects (static_registry.hpp).
  [[nodiscard]] static unsigned generation() noexcept { return generation_.load(std::memory_order_relaxed); }
  static void changed() noexcept { generation_.fetch_add(1, std::memory_order_relaxed); }
  // All types so far, or the error that add() had.  Never null.
  [[nodiscard]] result<std::shared_ptr<const owned_type_map>> types() noexcept;

 private:
  constexpr type_registry() noexcept = default;
  [[nodiscard]] status add_locked(const void* map, std::uint64_t bytes);
  status broken(errc code) noexcept;

  std::mutex lock_;
  static inline constinit std::atomic<unsigned> generation_{0};  // of_program() is the only one
  std::shared_ptr<const owned_type_map> types_;
  errc error_ = errc::ok;
  char message_[512] = {};
};

}  // namespace nvm::object
