// The entries that the service keeps in its pool: in a key-value store, a lock-free structure, objects, or a compiled
// program.  The bytes of a value follow from its key.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/random.hpp"
#include "nvm/nvm.h"

namespace nvm::bench::soak {

// A value says its key and size, so that one that is found where another belongs shows.
struct value_head {
  std::uint64_t key;
  std::uint64_t bytes;
};
inline void fill_value(std::vector<unsigned char>& to, std::uint64_t key, std::uint64_t bytes) {
  to.assign(bytes < sizeof(value_head) ? sizeof(value_head) : bytes, static_cast<unsigned char>(mix(key)));
  const value_head head{key, to.size()};
  std::memcpy(to.data(), &head, sizeof head);
}
[[nodiscard]] inline bool is_value_of(std::uint64_t key, const void* data, std::uint64_t bytes) {
  value_head head;
  if (bytes < sizeof head) return false;
  std::memcpy(&head, data, sizeof head);
  const auto* all = static_cast<const unsigned char*>(data);
  const auto pattern = static_cast<unsigned char>(mix(key));
  if (head.key != key || head.bytes != bytes) return false;
  for (std::uint64_t i = sizeof head; i < bytes; i += 61) {
    if (all[i] != pattern) return false;
  }
  return bytes == sizeof head || all[bytes - 1] == pattern;
}

// The library failed, and not for want of room.
class failure : public std::runtime_error {
 public:
  explicit failure(const std::string& what) : std::runtime_error{what + ": " + nvm_errormsg()} {}
};
[[nodiscard]] inline bool is_want_of_room() {
  const int code = nvm_errno();
  return code == NVM_E_NO_SPACE || code == NVM_E_LOG_FULL || code == NVM_E_NO_MEMORY;
}

// Threads: any.  What fails for want of room has changed nothing; other failures are thrown.
class contents {
 public:
  virtual ~contents() = default;
  enum class put_result { inserted, replaced, no_room };
  // *was: bytes of the value that it replaces.
  [[nodiscard]] virtual put_result put(std::uint64_t key, const std::vector<unsigned char>& value,
                                       std::uint64_t& was) = 0;
  // Bytes of the value that was removed; 0: there was none, or no room for the note that it goes.
  [[nodiscard]] virtual std::uint64_t remove(std::uint64_t key) = 0;
  // 1: it is there, and what it should be; 0: it is not there.
  [[nodiscard]] virtual int get(std::uint64_t key) = 0;
  // Visits each entry when nobody else is at work.
  virtual void each(const std::function<void(std::uint64_t key, std::uint64_t bytes)>& visit) = 0;
};

// kv, structure, objects, compiled.
[[nodiscard]] std::unique_ptr<contents> contents_in(NVM_POOL* pool, std::string_view kind);

}  // namespace nvm::bench::soak
