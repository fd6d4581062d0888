// Which attachments of object stores programs have, and for what: asked by threads with a transaction open, which wait
// for no call about stores.  What the library attaches for itself is not here.
//
// An attachment is named by its number (engines::store_side::attachment_of()), which no other one of the pool has.
//
// Threads.  Any; one lock, a leaf.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "nvm/store.h"

namespace nvm::api {

class attachments {
 public:
  enum class rights : std::uint8_t { none, reads, changes };
  struct what {
    rights may = rights::none;
    std::string store;
  };
  using node = std::map<std::uint64_t, what>::node_type;
  using name_room = char[NVM_STORE_NAME_MAX + 1];

  // A node for add(), made before anything has happened.  May throw std::bad_alloc.
  [[nodiscard]] static node prepared(rights may, const std::string& store) {
    std::map<std::uint64_t, what> one;
    one.emplace(0, what{may, store});
    return one.extract(one.begin());
  }
  void add(std::uint64_t attachment, node&& n) noexcept {
    n.key() = attachment;
    const std::lock_guard guard{lock_};
    all_.insert(std::move(n));
  }
  void remove(std::uint64_t attachment) noexcept {
    const std::lock_guard guard{lock_};
    all_.erase(attachment);
  }
  [[nodiscard]] rights rights_of(std::uint64_t attachment) const noexcept {
    const std::lock_guard guard{lock_};
    const auto at = all_.find(attachment);
    return at == all_.end() ? rights::none : at->second.may;
  }
  // Empty: it is not here.
  void name_of(std::uint64_t attachment, name_room& to) const noexcept {
    to[0] = 0;
    const std::lock_guard guard{lock_};
    const auto at = all_.find(attachment);
    if (at != all_.end()) std::memcpy(to, at->second.store.c_str(), at->second.store.size() + 1);
  }

 private:
  mutable std::mutex lock_;
  std::map<std::uint64_t, what> all_;
};

}  // namespace nvm::api
