// Functions and static objects of this program that pools may lead to, by name: what the compiler's tables and
// NVM_STATIC announce, and what libraries announce that are loaded later.
//
// Threads: any.  A process has one registry; it is constant-initialised, because constructors of other files use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/base.hpp"
#include "nvm/static.h"
#include "object/static_table.hpp"

namespace nvm::object {

class static_registry {
 public:
  static static_registry& of_program() noexcept;

  // The images that are loaded; images without a build id have no key.  May throw std::bad_alloc.
  using images_now = std::vector<static_object> (*)();

  // Adds names, all or none.  A name that is already there with another address, in an image that is still loaded, is
  // ambiguous and finds nothing from then on; texts, whose names begin with a quotation mark, are the same at every
  // address.  errc::invalid, errc::too_large, errc::no_memory.
  [[nodiscard]] status add(const nvm_static_object* objects, std::size_t count, images_now images) noexcept;

  // All names that are not ambiguous, and the images.  May throw std::bad_alloc.
  [[nodiscard]] static_table table(images_now images);
  // Whether anything was ever added.
  [[nodiscard]] bool any() noexcept;

  // Whether objects of the program without a described type may hold static pointers.
  // relaxed: set before the pools are opened that it concerns.
  void untyped_may_lead(bool yes) noexcept { untyped_.store(yes, std::memory_order_relaxed); }
  [[nodiscard]] bool untyped_may_lead() const noexcept { return untyped_.load(std::memory_order_relaxed); }

 private:
  constexpr static_registry() noexcept = default;
  struct object {
    std::uint64_t address;
    std::uint64_t bytes;
  };
  void add_locked(const nvm_static_object& o, images_now images);

  std::mutex lock_;
  std::atomic<bool> untyped_{false};
  // Objects by name; several for an ambiguous name, and for a text.  Null until the first is added, since a map has a
  // constructor.
  std::map<std::string, std::vector<object>>* objects_ = nullptr;
};

}  // namespace nvm::object
