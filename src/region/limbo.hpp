// Places that regions have left: given back after every reader that was inside then has moved on, and after no record
// of the log can be replayed into them (holes L3, C8, C9 and K4 of docs/design/023).
//
// Threads: any; one lock, which no reader takes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "base/plant.hpp"
#include "region/entry.hpp"
#include "sync/sync.hpp"

namespace nvm::region {

// A slot or a run.
struct left_place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint16_t owner = 0;
  std::uint8_t in_class = run;
  static constexpr std::uint8_t run = 255;
};

class limbo {
 public:
  explicit limbo(epochs& of) noexcept : epochs_{of} {}

  // Room to remember `places` more, so that leave() cannot fail.  errc::no_memory.
  [[nodiscard]] status expect(std::size_t places) noexcept try {
    const std::lock_guard guard{lock_};
    now_.places.reserve(now_.places.size() + promised_ + places);
    now_.entries.reserve(now_.entries.size() + promised_ + places);
    promised_ += places;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the places that regions leave");
  }
  // The promise is not needed.
  void spare(std::size_t places) noexcept {
    const std::lock_guard guard{lock_};
    promised_ -= places;
  }
  // Of a promise of one each: `version`: of the record by which it was left.
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
    for (const auto& g : waiting_) sum += g->bytes;
    return sum;
  }
  // The newest version by which something was left that waits; 0: nothing does.
  [[nodiscard]] std::uint64_t newest() const noexcept {
    const std::lock_guard guard{lock_};
    std::uint64_t v = now_.version;
    for (const auto& g : waiting_) v = g->version > v ? g->version : v;
    return v;
  }

  // Calls place(left_place) and entry_of(entry*) for all that nobody needs any longer: readers have moved on, and the
  // log counts nothing up to `truncated`.  What has been left since the last call begins to wait for the readers of
  // this moment.  False: some of it has to wait on.  Without memory all of it does.
  template <class Place, class Entry>
  bool collect(std::uint64_t truncated, Place&& place, Entry&& entry_of) noexcept {
    std::vector<std::unique_ptr<generation>> gone;
    bool all = true;
    {
      const std::lock_guard guard{lock_};
      if (!close_generation()) return false;
      std::erase_if(waiting_, [&](std::unique_ptr<generation>& g) {
        const bool may_be_replayed = g->version > truncated && !planted(plant::place_back_early);
        if (may_be_replayed || !epochs_.passed(g->inside)) {
          all = false;
          return false;
        }
        try {
          gone.push_back(std::move(g));
          return true;
        } catch (const std::bad_alloc&) {
          all = false;
          return false;
        }
      });
    }
    for (const auto& g : gone) {
      for (const left_place& p : g->places) place(p);
      for (entry* e : g->entries) entry_of(e);
    }
    return all;
  }
  // The places of an owner that goes as a whole.
  void forget_places_of(std::uint16_t owner) noexcept {
    const std::lock_guard guard{lock_};
    const auto its = [&](const left_place& p) { return p.owner == owner; };
    std::erase_if(now_.places, its);
    for (const auto& g : waiting_) std::erase_if(g->places, its);
  }
  // For good: nobody is inside, and no log is left.
  template <class Entry>
  void forget(Entry&& entry_of) noexcept {
    for (const auto& g : waiting_) {
      for (entry* e : g->entries) entry_of(e);
    }
    for (entry* e : now_.entries) entry_of(e);
    waiting_.clear();
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
  mutable std::mutex lock_;
  generation now_;
  std::size_t promised_ = 0;
  std::vector<std::unique_ptr<generation>> waiting_;
};

}  // namespace nvm::region
