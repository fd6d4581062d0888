// A transaction that keeps its stores in volatile memory until it commits: for callers that have no write set of their
// own.  Isolation is theirs (heap.hpp).
#pragma once

#include <map>

#include "logheap/heap.hpp"

namespace nvm::logheap {

template <class Heap>
class transaction {
 public:
  using thread = typename Heap::thread;

  transaction(Heap& h, thread& t) noexcept : heap_{h}, thread_{t} {}
  ~transaction() { abort(); }
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;

  // Addresses of a new object of zeros.  Errors as Heap::allocate().
  [[nodiscard]] result<home_t> allocate(std::uint64_t size) {
    auto o = heap_.allocate(thread_, size);
    if (!o) return o.error();
    allocated_.push_back(*o);
    return o->at.home;
  }
  // Frees the object that begins there.  errc::bad_pointer.
  [[nodiscard]] status release(home_t home) {
    const auto own =
        std::find_if(allocated_.begin(), allocated_.end(), [&](const auto& o) { return o.at.home == home; });
    if (own != allocated_.end()) {
      forget(own->at.home, own->at.bytes);
      const typename Heap::object o = *own;
      allocated_.erase(own);
      heap_.abandon({{}, std::span{&o, 1}, {}});
      return {};
    }
    auto o = heap_.release(thread_, home);
    if (!o) return o.error();
    forget(o->at.home, o->at.bytes);
    released_.push_back(*o);
    return {};
  }
  void store(home_t home, const void* from, std::uint64_t size) {
    if (size == 0) return;
    forget(home, size);
    const auto* bytes = static_cast<const std::byte*>(from);
    stores_[home].assign(bytes, bytes + size);
  }
  // Loads bytes as this transaction has left them.
  void load(home_t home, void* to, std::uint64_t size) {
    heap_.read(thread_, home, to, size);
    auto* const out = static_cast<std::byte*>(to);
    for (const auto& [at, bytes] : stores_) {
      const home_t from = std::max(home, at);
      const home_t end = std::min(home + size, at + bytes.size());
      if (from < end)
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from - at), end - from, out + (from - home));
    }
  }
  // Errors as Heap::commit(): nothing has happened then, and it is over.
  [[nodiscard]] result<std::uint64_t> commit() {
    std::vector<typename Heap::store_range> ranges;
    ranges.reserve(stores_.size());
    for (const auto& [at, bytes] : stores_) ranges.push_back({at, bytes.data(), bytes.size()});
    auto version = heap_.commit(thread_, {ranges, allocated_, released_});
    if (!version) {
      abort();
      return version;
    }
    clear();
    return version;
  }
  void abort() noexcept {
    heap_.abandon({{}, allocated_, released_});
    clear();
  }

 private:
  void clear() noexcept {
    stores_.clear();
    allocated_.clear();
    released_.clear();
  }
  // Earlier stores there no longer count.
  void forget(home_t home, std::uint64_t size) {
    auto s = stores_.upper_bound(home);
    if (s != stores_.begin()) --s;
    while (s != stores_.end() && s->first < home + size) {
      const home_t at = s->first;
      std::vector<std::byte> bytes = std::move(s->second);
      s = stores_.erase(s);
      if (at + bytes.size() > home + size) {
        s = stores_.emplace_hint(
            s, home + size,
            std::vector<std::byte>(bytes.begin() + static_cast<std::ptrdiff_t>(home + size - at), bytes.end()));
      }
      if (at < home) {
        bytes.resize(std::min<std::uint64_t>(bytes.size(), home - at));
        stores_[at] = std::move(bytes);
      }
    }
  }

  Heap& heap_;
  thread& thread_;
  std::map<home_t, std::vector<std::byte>> stores_;  // disjoint
  std::vector<typename Heap::object> allocated_;
  std::vector<typename Heap::object> released_;
};

}  // namespace nvm::logheap
