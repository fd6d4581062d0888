// Places that regions have left: given back after every reader that was inside then has moved on, and after no record
// of the log can be replayed into them (holes L3, C8, C9 and K4 of docs/design/023); and not before the leases of their
// bytes were let go, which delays these places only.
//
// Threads: any; one lock, which no reader takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "base/plant.hpp"
#include "region/entry.hpp"
#include "region/leases.hpp"
#include "sync/sync.hpp"

namespace nvm::region {

// A slot, a run, or pages that were the last of one.
struct left_place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint16_t owner = 0;
  std::uint8_t in_class = run;
  static constexpr std::uint8_t run = 255;
  static constexpr std::uint8_t tail = 254;
  // Offset of its bytes, which leases name.
  [[nodiscard]] std::uint64_t bytes_at() const noexcept {
    if (in_class >= tail) return offset;
    return offset + (layout::is_of_partners(in_class) ? sizeof(layout::partner) : sizeof(layout::header));
  }
};

class limbo {
 public:
  limbo(epochs& of, const leases& held) noexcept : epochs_{of}, leases_{held} {}

  // Room to remember `places` more, so that leave() cannot fail.  errc::no_memory.
  [[nodiscard]] status expect(std::size_t places) noexcept try {
    const std::lock_guard guard{lock_};
    make_room(now_.places, now_.places.size() + promised_ + places);
    make_room(now_.entries, now_.entries.size() + promised_ + places);
    promised_ += places;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the places that regions leave");
  }
  // Gives promises back that are not needed.
  void spare(std::size_t places) noexcept {
    const std::lock_guard guard{lock_};
    promised_ -= places;
  }
  // Uses one promise: the place was left by the record with this version.
  void leave(const left_place& place, std::uint64_t version) noexcept {
    const std::lock_guard guard{lock_};
    --promised_;
    now_.places.push_back(place);
    now_.bytes += place.bytes;
    now_.version = version > now_.version ? version : now_.version;
  }
  void leave(entry* of) noexcept {
    const std::lock_guard guard{lock_};
    --promised_;
    now_.entries.push_back(of);
  }
  // Bytes that wait.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    const std::lock_guard guard{lock_};
    std::uint64_t sum = now_.bytes;
    for (const left_place& p : leased_) sum += p.bytes;
    for (const auto& g : waiting_) sum += g->bytes;
    return sum;
  }
  // Bytes that wait for readers and the log only.
  [[nodiscard]] std::uint64_t unleased_bytes() const noexcept {
    const std::lock_guard guard{lock_};
    std::uint64_t sum = now_.bytes;
    for (const auto& g : waiting_) sum += g->bytes;
    return sum;
  }
  // The newest version by which a waiting place was left; 0: none waits.
  [[nodiscard]] std::uint64_t newest() const noexcept {
    const std::lock_guard guard{lock_};
    std::uint64_t v = now_.version;
    for (const auto& g : waiting_) v = g->version > v ? g->version : v;
    return v;
  }

  // Calls place(left_place) and entry_of(entry*) for all that is no longer needed: readers have moved on, leases were
  // let go, and the log counts nothing up to `truncated`.  Places that were left since the last call begin to wait for
  // the readers of this moment.  Without memory all places wait on.
  template <class Place, class Entry>
  void collect(std::uint64_t truncated, Place&& place, Entry&& entry_of) noexcept {
    std::vector<std::unique_ptr<generation>> gone;
    std::vector<left_place> let_go;
    try {
      const std::lock_guard guard{lock_};
      if (!close_generation()) return;
      const auto may_go = std::partition(waiting_.begin(), waiting_.end(), [&](const auto& g) {
        const bool may_be_replayed = g->version > truncated && !planted(plant::place_back_early);
        return may_be_replayed || !epochs_.passed(g->inside);
      });
      std::size_t places = leased_.size();
      for (auto g = may_go; g != waiting_.end(); ++g) places += (*g)->places.size();
      // Read when readers have moved on: a lease of such a reader is seen.
      std::vector<std::uint64_t> held;
      leases_.held(held);
      gone.reserve(static_cast<std::size_t>(waiting_.end() - may_go));
      let_go.reserve(leased_.size());
      leased_.reserve(places);
      // Nothing fails from here on.
      const auto is_held = [&](const left_place& p) {
        return std::binary_search(held.begin(), held.end(), p.bytes_at()) && !planted(plant::leased_place_back);
      };
      std::erase_if(leased_, [&](const left_place& p) {
        if (is_held(p)) return false;
        let_go.push_back(p);
        return true;
      });
      for (auto g = may_go; g != waiting_.end(); ++g) {
        std::erase_if((*g)->places, [&](const left_place& p) {
          if (!is_held(p)) return false;
          leased_.push_back(p);
          return true;
        });
        gone.push_back(std::move(*g));
      }
      waiting_.erase(may_go, waiting_.end());
    } catch (const std::bad_alloc&) {
      return;
    }
    for (const left_place& p : let_go) place(p);
    for (const auto& g : gone) {
      for (const left_place& p : g->places) place(p);
      for (entry* e : g->entries) entry_of(e);
    }
  }
  // Forgets the places of an owner that is dropped as a whole.
  void forget_places_of(std::uint16_t owner) noexcept {
    const std::lock_guard guard{lock_};
    // Tails are no longer its own.
    const auto its = [&](const left_place& p) { return p.owner == owner && p.in_class != left_place::tail; };
    const auto forget_in = [&](generation& g) {
      std::erase_if(g.places, [&](const left_place& p) {
        if (!its(p)) return false;
        g.bytes -= p.bytes;
        return true;
      });
    };
    forget_in(now_);
    for (const auto& g : waiting_) forget_in(*g);
    std::erase_if(leased_, its);
  }
  // For good: no thread is inside, and no log is left.
  template <class Entry>
  void forget(Entry&& entry_of) noexcept {
    for (const auto& g : waiting_) {
      for (entry* e : g->entries) entry_of(e);
    }
    for (entry* e : now_.entries) entry_of(e);
    waiting_.clear();
    leased_.clear();
    now_ = {};
  }

 private:
  struct generation {
    std::vector<left_place> places;
    std::vector<entry*> entries;
    std::uint64_t version = 0;
    std::uint64_t bytes = 0;
    epochs::vector inside;
  };
  // More than that: reserve() for exactly so many would copy all that waits at each call.
  template <class T>
  static void make_room(std::vector<T>& in, std::size_t n) {
    if (n > in.capacity()) in.reserve(n > 2 * in.capacity() ? n : 2 * in.capacity());
  }
  [[nodiscard]] bool close_generation() noexcept try {
    if (now_.places.empty() && now_.entries.empty()) return true;
    waiting_.reserve(waiting_.size() + 1);
    auto g = std::make_unique<generation>();
    generation next;
    next.places.reserve(promised_);
    next.entries.reserve(promised_);
    *g = std::exchange(now_, std::move(next));
    epochs_.take_vector(g->inside);
    waiting_.push_back(std::move(g));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  epochs& epochs_;
  const leases& leases_;
  mutable std::mutex lock_;
  generation now_;
  std::size_t promised_ = 0;
  std::vector<std::unique_ptr<generation>> waiting_;
  std::vector<left_place> leased_;  // places that wait only for leases
};

}  // namespace nvm::region
