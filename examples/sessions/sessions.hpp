// Sessions that end by themselves: a key-value store of what each session keeps, and an index by the time at which it
// ends. A session and its place in the index change in one transaction, so neither is there without the other.
// Any number of threads; each call that changes something is durable when it returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nvm/kv.hpp>
#include <nvm/stm.hpp>

namespace sessions {

using seconds = std::uint64_t;  // since 1970; each call gets the time from its caller

struct session {
  seconds ends;
  std::string content;
};

class store {
 public:
  // Nothing where the pool has no room for it or is not whole: nvm_errormsg() says why.
  static std::optional<store> open(const nvm::pool& pool) {
    auto all = nvm::kv::open(pool, "sessions", NVM_KV_HASH);
    if (!all) return std::nullopt;
    auto by_end = nvm::kv::open(pool, "sessions by end", NVM_KV_BTREE);
    if (!by_end) return std::nullopt;
    return store{pool.handle(), std::move(*all), std::move(*by_end)};
  }

  // A session that is there gets this content and this end.
  nvm::outcome put(std::string_view id, std::string_view content, seconds ends) {
    return nvm::atomic(pool_, [&](nvm::tx& tx) { replace(tx, id, content, ends); });
  }

  // A session that has ended is none, even if no sweep has met it yet.
  nvm::kv_answer<session> get(std::string_view id, seconds now) const {
    auto record = all_.get(id);
    if (!record) return nvm::kv_answer<session>::failed(record.code());
    auto s = read(*record);
    if (!s) return nvm::kv_answer<session>::failed(NVM_E_CORRUPT);
    if (s->ends <= now) return {};
    return std::move(*s);
  }

  // Moves the end of a session that has not ended; false in `found` if there is none.
  nvm::outcome prolong(std::string_view id, seconds now, seconds ends, bool& found) {
    return nvm::atomic(pool_, [&](nvm::tx& tx) {
      auto s = get(id, now);
      found = s.has_value();
      if (found) replace(tx, id, s->content, ends);
    });
  }

  nvm::outcome end(std::string_view id) {
    return nvm::atomic(pool_, [&](nvm::tx& tx) { remove(tx, id); });
  }

  // Removes sessions that ended at `now` or before, the oldest first, at most `most` in one transaction; how many in
  // `removed`. A caller repeats it while it removes as many as it may: each call is short, whatever has piled up.
  nvm::outcome sweep(seconds now, std::uint64_t most, std::uint64_t& removed) {
    return nvm::atomic(pool_, [&](nvm::tx& tx) {
      removed = 0;
      const std::string after = place(now + 1, "");
      nvm::kv_range ended;
      ended.to = after;
      ended.exclusive = true;
      ended.limit = most;
      std::vector<std::string> ids;
      auto cursor = by_end_.entries(ended);
      while (auto entry = cursor.next()) ids.emplace_back(entry->key.substr(time_bytes));
      if (cursor.code() != NVM_OK) tx.cancel(cursor.code());
      for (const std::string& id : ids) remove(tx, id);
      removed = ids.size();
    });
  }

  nvm::kv_answer<std::uint64_t> size() const { return all_.size(); }

  // How many sessions have no place in the index, and places no session. Nobody may change anything meanwhile.
  nvm::kv_answer<std::uint64_t> strays() const {
    std::uint64_t strays = 0, sessions = 0;
    auto cursor = all_.entries();
    while (auto entry = cursor.next()) {
      const auto s = read(entry->value);
      ++sessions;
      if (!s || !by_end_.contains(place(s->ends, entry->key))) ++strays;
    }
    if (cursor.code() != NVM_OK) return nvm::kv_answer<std::uint64_t>::failed(cursor.code());
    const auto places = by_end_.size();
    if (!places) return places;
    const std::uint64_t met = sessions - strays;
    return strays + (*places > met ? *places - met : 0);
  }

 private:
  static constexpr std::size_t time_bytes = sizeof(seconds);

  store(NVM_POOL* pool, nvm::kv all, nvm::kv by_end) : pool_{pool}, all_{std::move(all)}, by_end_{std::move(by_end)} {}

  // Big-endian, so that the order of bytes is the order of times.
  static std::string time_text(seconds t) {
    std::string text(time_bytes, '\0');
    for (std::size_t i = time_bytes; i-- > 0; t >>= 8) text[i] = static_cast<char>(t & 0xff);
    return text;
  }
  static std::string place(seconds ends, std::string_view id) { return time_text(ends).append(id); }
  // Nothing if another program has put something shorter into the store.
  static std::optional<session> read(std::string_view record) {
    if (record.size() < time_bytes) return std::nullopt;
    session s{0, std::string{record.substr(time_bytes)}};
    for (std::size_t i = 0; i < time_bytes; ++i) s.ends = s.ends << 8 | static_cast<unsigned char>(record[i]);
    return s;
  }

  void remove(nvm::tx& tx, std::string_view id) {
    const auto record = all_.get(id);
    if (record.code() != NVM_OK) tx.cancel(record.code());
    if (!record) return;
    const auto s = read(*record);
    if (!s) tx.cancel(NVM_E_CORRUPT);
    if (auto removed = by_end_.remove(place(s->ends, id)); removed.code() != NVM_OK) tx.cancel(removed.code());
    if (auto removed = all_.remove(id); removed.code() != NVM_OK) tx.cancel(removed.code());
  }
  void replace(nvm::tx& tx, std::string_view id, std::string_view content, seconds ends) {
    remove(tx, id);
    if (!all_.put(id, time_text(ends).append(content))) tx.cancel(nvm_errno());
    if (!by_end_.put(place(ends, id), "")) tx.cancel(nvm_errno());
  }

  NVM_POOL* pool_;
  nvm::kv all_;
  nvm::kv by_end_;
};

}  // namespace sessions
