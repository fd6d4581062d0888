// The memory of the catalogue in an open pool: read in place, and changed by an engine's transaction.
//
// A transaction's changes of old words are kept here until finish(), which stores all of them at once as words of the
// library's own (tx/assigned.hpp); until then reads see the kept words. So the same code runs on engines that store in
// place and on those that do not, and logs each word once.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <vector>

#include "space/face.hpp"
#include "store/own_links.hpp"
#include "store/trie_memory.hpp"
#include "tx/face.hpp"

namespace nvm::stores {

// Where the data of a pool lies.
struct pool_bytes {
  std::byte* base = nullptr;
  std::uint64_t begin = 0, end = 0;  // offsets of the data
  own_links links{};                 // lead into no store

  [[nodiscard]] bool has(std::uint64_t place, std::uint64_t bytes) const noexcept {
    return place % 8 == 0 && place >= begin && range_inside(place, bytes, end) && !links.lead_into_store(place, bytes);
  }
};

class names_reader {
 public:
  explicit names_reader(const pool_bytes& of) noexcept : of_{of} {}
  const std::byte* view(std::uint64_t place, std::uint64_t bytes, std::byte*) noexcept {
    if (!of_.has(place, bytes)) return nullptr;
    return of_.base + place;
  }

 private:
  pool_bytes of_;
};
static_assert(trie_reads<names_reader>);

// `Transaction`: allocate(), release() and assign_all() of tx::open_transaction.
template <class Transaction>
class names_transaction {
 public:
  names_transaction(Transaction& t, const pool_bytes& of) noexcept : t_{t}, of_{of} {}

  const std::byte* view(std::uint64_t place, std::uint64_t bytes, std::byte* room) noexcept {
    if (!of_.has(place, bytes)) return nullptr;
    auto word = kept_.lower_bound(place);
    if (word == kept_.end() || word->first >= place + bytes) return of_.base + place;
    std::memcpy(room, of_.base + place, bytes);
    for (; word != kept_.end() && word->first < place + bytes; ++word) {
      const std::uint64_t n = std::min<std::uint64_t>(8, place + bytes - word->first);
      std::memcpy(room + (word->first - place), &word->second, n);
    }
    return room;
  }
  result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept try {
    fresh_.reserve(fresh_.size() + 1);
    const auto place = t_.allocate(type, bytes);
    if (!place) return place.error();
    fresh_.push_back({*place, bytes});
    of_.end = std::max(of_.end, *place + bytes);  // the pool may have grown
    return *place;
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  void fill(std::uint64_t place, const void* from, std::uint64_t bytes) noexcept {
    std::memcpy(of_.base + place, from, bytes);
  }
  status put(std::uint64_t place, const void* from, std::uint64_t bytes) noexcept try {
    if (is_fresh(place)) {
      fill(place, from, bytes);
      return {};
    }
    for (std::uint64_t at = 0; at < bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<const std::byte*>(from) + at, sizeof word);
      kept_.insert_or_assign(place + at, word);
    }
    return {};
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  status give_back(std::uint64_t place, std::uint64_t bytes) noexcept {
    kept_.erase(kept_.lower_bound(place), kept_.lower_bound(place + bytes));
    return t_.release(place);
  }

  // The last call, before the transaction commits.
  [[nodiscard]] status finish() noexcept try {
    std::vector<tx::assigned_bytes> words;
    words.reserve(kept_.size());
    for (const auto& [place, word] : kept_) {
      std::uint64_t there = 0;
      std::memcpy(&there, of_.base + place, sizeof there);
      if (there != word) words.push_back({place, word, 8});
    }
    kept_.clear();
    if (planted(plant::store_past_barriers)) {
      for (const tx::assigned_bytes& w : words) std::memcpy(of_.base + w.offset, &w.value, w.bytes);
      return {};
    }
    return words.empty() ? status{} : t_.assign_all(words);
  } catch (const std::bad_alloc&) {
    return no_memory();
  }

 private:
  struct object {
    std::uint64_t place, bytes;
  };
  [[nodiscard]] bool is_fresh(std::uint64_t place) const noexcept {
    return std::any_of(fresh_.begin(), fresh_.end(), [&](const object& o) { return place - o.place < o.bytes; });
  }
  static errc no_memory() noexcept { return fail(errc::no_memory, "no volatile memory for names of stores"); }

  Transaction& t_;
  pool_bytes of_;
  std::map<std::uint64_t, std::uint64_t> kept_;  // place -> word
  std::vector<object> fresh_;                    // made by this transaction
};

// Names the catalogue in both anchors, whose words lie there.
template <class Transaction>
[[nodiscard]] status name_catalogue(names_transaction<Transaction>& m, const std::uint64_t (&words_at)[2],
                                    std::uint64_t place) noexcept {
  for (const std::uint64_t at : words_at) {
    const std::uint64_t word = seal_word(place, word_seed(at));
    if (status s = m.put(at, &word, sizeof word); !s) return s;
  }
  return {};
}

}  // namespace nvm::stores
