// What transactions tell that end while stores are collected (tx/change_watch.hpp): for each store, places that some
// value led to, and objects that were freed.  The collections take it from here.
//
// A value counts wherever it stands, so that nobody has to know the types of what was announced.
//
// Threads: any.  The lock is held while a transaction tells, and taken under none of the library but those of
// the caller's own collection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "object/store_objects.hpp"
#include "tx/face.hpp"

namespace nvm {
class open_store;  // space/open_store.hpp
}

namespace nvm::object {

// What one collection was told.
class told_places {
 public:
  struct place {
    std::uint64_t offset;
    bool freed;  // an object, by its header; else a place that something leads to
  };

 private:
  friend class store_watch;
  struct range {
    std::uint64_t first, end;  // offsets
  };
  std::vector<range> ranges_;  // of the store, ascending
  std::uint64_t root_at_ = 0;  // of the word that names its root
  open_store* store_ = nullptr;
  std::vector<place> places_;
  bool lost_ = false;  // there was more than fits, or no memory
};

class store_watch final : public tx::change_watch {
 public:
  // More than a collection that goes on leaves waiting.
  static constexpr std::size_t places_max = std::size_t{1} << 18;

  // tell(this) makes transactions tell, tell(nullptr) ends it.  Stored pointers lead to where the pool is mapped.
  using teller = std::function<void(tx::change_watch*)>;
  store_watch(const std::byte* bytes, const geometry& g, teller tell)
      : bytes_{bytes}, address_{reinterpret_cast<std::uintptr_t>(bytes)}, g_{g}, tell_{std::move(tell)} {}

  // ---- of a collection ----

  // From here on it is told, of the pages that the store has; again() when these have changed.  May throw
  // std::bad_alloc.
  void add(told_places& to, open_store& store, const std::vector<cluster>& clusters, bool any_packed);
  void again(told_places& to, const std::vector<cluster>& clusters);
  void remove(told_places& from) noexcept;
  // What it was told since the last time; false: it cannot go on, since something is lost.
  [[nodiscard]] bool take(told_places& from, std::vector<told_places::place>& out) noexcept;
  // While one of these lives no transaction tells.
  class silence {
   public:
    silence(store_watch& of, told_places& mine) noexcept : guard_{of.lock_}, mine_{mine} {}
    // Nothing was told since take().
    [[nodiscard]] bool nothing_new() const noexcept { return mine_.places_.empty() && !mine_.lost_; }

   private:
    std::unique_lock<std::mutex> guard_;
    told_places& mine_;
  };
  // The open transaction of this lane frees garbage: what that holds is not told when it ends.
  void frees_garbage(unsigned lane) noexcept;
  // A program lets an object go that it held, by its payload.
  void dropped(std::uint64_t payload) noexcept;

  // ---- tx::change_watch ----
  bool begin(unsigned lane) noexcept override;
  void values(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept override;
  void born(std::uint64_t header) noexcept override { object(header, false); }
  void freed(std::uint64_t header) noexcept override { object(header, true); }
  void end() noexcept override;

 private:
  void object(std::uint64_t header, bool is_freed) noexcept;
  void use(told_places& to, const std::vector<cluster>& clusters);
  // The collection whose store had the place when it began; and that whose store has it now, in a cluster that it got
  // since, perhaps.
  [[nodiscard]] told_places* of(std::uint64_t offset) const noexcept;
  // A word of which some bytes belong, belonged or will belong there.
  void piece(std::uint64_t at, std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept;
  void value(std::uint64_t v) noexcept {
    if (v - address_ < g_.address_bytes()) leads_to(v - address_);
  }
  [[nodiscard]] told_places* now_of(std::uint64_t offset) const noexcept;
  void leads_to(std::uint64_t offset) noexcept;
  void lose_all() noexcept;
  void put(told_places& to, const told_places::place& p) noexcept;

  const std::byte* bytes_;
  const std::uint64_t address_;
  const geometry g_;
  const teller tell_;
  std::mutex lock_;
  std::vector<told_places*> all_;
  std::vector<unsigned> lanes_;  // whose transactions free garbage
  unsigned packed_ = 0;          // collections whose types have pointers at any place
  std::vector<bool> is_packed_;
  // Of the transaction that tells: words that it has announced in pieces, the oldest version of each byte.
  std::map<std::uint64_t, std::uint64_t> pieces_;
};

// A word that an open transaction of another thread may be storing to: whatever it says is as good as what it said
// before, since that transaction tells both when it ends.
[[nodiscard]] std::uint64_t read_in_use(const std::byte* at) noexcept;

}  // namespace nvm::object
