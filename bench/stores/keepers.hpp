// What keeps a store for each of many names: an object store of one pool, or a file of its own, ours or libpmemobj's.
//
// Stores have numbers.  A store that is filled has objects of a kibibyte, and a root that names the first of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"

namespace nvm::bench {

inline constexpr std::uint64_t filling_bytes = 1 << 10;
inline constexpr std::uint64_t expansion_bytes = 256 << 10;

class store_keeper {
 public:
  store_keeper() = default;
  virtual ~store_keeper() = default;
  store_keeper(const store_keeper&) = delete;
  store_keeper& operator=(const store_keeper&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual role part() const = 0;
  // Makes store `i`, durable on return, and leaves it closed; throws, as all of these do.
  virtual void create(unsigned i) = 0;
  // Untimed: `bytes` of objects; leaves it closed.
  virtual void fill(unsigned i, std::uint64_t bytes) = 0;
  // Until its root has been read: the first word of the first object.
  virtual std::uint64_t attach(unsigned i) = 0;
  // Of the store that is attached.  One object of 64 bytes, in a transaction of its own.
  virtual void allocate_once() = 0;
  // One object of expansion_bytes, for which there is no room yet; and it is freed, and the room given back where the
  // system can.
  virtual void expand() = 0;
  virtual void shrink() = 0;
  virtual void detach() = 0;
};

struct keeper_place {
  std::string directory;
  bool on_disk = false;  // a file system whose commits are syncs: the medium ssd
};
// Object stores of one pool that may grow to `capacity_bytes`.
[[nodiscard]] std::unique_ptr<store_keeper> keep_in_one_pool(const keeper_place& at, std::uint64_t capacity_bytes,
                                                             bool are_protected = true);
[[nodiscard]] std::unique_ptr<store_keeper> keep_in_pool_files(const keeper_place& at);
#if NVM_BENCH_PMEMOBJ
[[nodiscard]] std::unique_ptr<store_keeper> keep_in_pmemobj_files(const keeper_place& at);
#endif

}  // namespace nvm::bench
