// What transactions tell that end while stores, or the pool, are collected (tx/change_watch.hpp): for each collection,
// places that some value led to, and objects that were freed.  The collections take it from here.
//
// A value counts wherever it stands, so that the types of announced bytes need not be known.
//
// Threads: any.  The lock is held while a transaction tells, and taken under none of the library but those of
// the caller's own collection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "object/collected_ground.hpp"
#include "object/surveyed_objects.hpp"
#include "tx/face.hpp"

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
  // Whether it had the place when it began; and whether it has it now, in a cluster that it got since, perhaps.
  [[nodiscard]] bool had(std::uint64_t offset) const noexcept;
  [[nodiscard]] bool has(std::uint64_t offset, const geometry& g) const noexcept {
    return had(offset) || (offset >= g.data_offset && ground_->has(g.page_of(offset)));
  }

  ground_extent of_;
  collected_ground* ground_ = nullptr;
  std::vector<place> places_;
  bool lost_ = false;  // there was more than fits, or no memory
};

class store_watch final : public tx::change_watch {
 public:
  // More places than a collection leaves waiting as long as it goes on.
  static constexpr std::size_t places_max = std::size_t{1} << 18;

  // tell(this) makes transactions tell, tell(nullptr) ends it.  Stored pointers lead to where the pool is mapped.
  using teller = std::function<void(tx::change_watch*)>;
  store_watch(const std::byte* bytes, const geometry& g, teller tell)
      : bytes_{bytes}, address_{reinterpret_cast<std::uintptr_t>(bytes)}, g_{g}, tell_{std::move(tell)} {}

  // ---- of a collection ----

  // From here on it is told, of what the ground has; again() when that has changed, and from when on it counts.  May
  // throw std::bad_alloc.
  void add(told_places& to, collected_ground& ground, ground_extent now, bool any_packed);
  void again(told_places& to, ground_extent now);
  // More words that name roots, ascending.  May throw std::bad_alloc.
  void add_roots(told_places& to, std::span<const std::uint64_t> words);
  void remove(told_places& from) noexcept;
  // What it was told since the last call; false: something is lost, and the collection cannot go on.
  [[nodiscard]] bool take(told_places& from, std::vector<told_places::place>& out) noexcept;
  // While one of these lives no transaction tells.
  class silence {
   public:
    explicit silence(store_watch& of) noexcept : guard_{of.lock_} {}
    // As store_watch::take().
    [[nodiscard]] bool take(told_places& from, std::vector<told_places::place>& out) noexcept {
      return take_from(from, out);
    }

   private:
    std::unique_lock<std::mutex> guard_;
  };
  // The open transaction of this lane frees garbage: the garbage's words are not told when it ends.
  void frees_garbage(unsigned lane) noexcept;
  // The program drops an object that it held, named by its payload.
  void dropped(std::uint64_t payload) noexcept;

  // ---- tx::change_watch ----
  bool begin(unsigned lane) noexcept override;
  void values(std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept override;
  void born(std::uint64_t header) noexcept override { object(header, false); }
  void freed(std::uint64_t header) noexcept override { object(header, true); }
  void end() noexcept override;

 private:
  void object(std::uint64_t header, bool is_freed) noexcept;
  void roots_in(const told_places& c, std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept;
  // A word of which some bytes belong, belonged or will belong there.
  void piece(std::uint64_t at, std::uint64_t offset, std::uint64_t bytes, const std::byte* data) noexcept;
  void value(std::uint64_t v) noexcept {
    if (v - address_ < g_.address_bytes()) leads_to(v - address_);
  }
  void leads_to(std::uint64_t offset) noexcept;
  void lose_all() noexcept;
  static void put(told_places& to, const told_places::place& p) noexcept;
  [[nodiscard]] static bool take_from(told_places& from, std::vector<told_places::place>& out) noexcept;

  const std::byte* bytes_;
  const std::uint64_t address_;
  const geometry g_;
  const teller tell_;
  std::mutex lock_;
  std::vector<told_places*> all_;
  std::vector<unsigned> lanes_;  // whose transactions free garbage
  unsigned packed_ = 0;          // collections whose types have pointers at any place
  std::vector<bool> is_packed_;
  // Words that the transaction which tells has announced in pieces, with the oldest version of each byte.
  std::map<std::uint64_t, std::uint64_t> pieces_;
};

// A word that an open transaction of another thread may be storing to: its new value is as good as the old one, since
// that transaction tells both when it ends.
[[nodiscard]] std::uint64_t read_in_use(const std::byte* at) noexcept;

}  // namespace nvm::object
