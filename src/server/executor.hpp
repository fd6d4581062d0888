// Carries out commands against the store and writes the replies.  One for each worker; no input or output.
//
// The replies are those of memcached 1.6.18. A reply may be sent when everything up to the session's position is
// durable: the caller sees to that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "server/environment.hpp"
#include "server/protocol.hpp"
#include "server/reply_buffer.hpp"

namespace nvm::server {

class executor {
 public:
  executor(environment& shared, counters& own, item_session& session) noexcept
      : shared_{shared}, counters_{own}, session_{session}, now_{shared.clock.now()} {}

  // Reads the clock; called before a round of commands.
  void look_at_clock() noexcept {
    now_ = shared_.clock.now();
    shared_.store.tick(now_);
  }
  [[nodiscard]] std::uint32_t now() const noexcept { return now_; }

  enum class after : std::uint8_t {
    next,
    again,  // the reply has become long; send it, then call again with the same command
    close,
  };
  // The session must have entered. `again` continues a command that said so.
  after execute(command& c, reply_buffer& out);
  // Sets the call before the session leaves in the middle of a round: references to items that it has found become
  // copies. False: there is no memory for that.
  void before_letting_go(std::function<bool()> settle) { let_go_ = std::move(settle); }
  // Notes a storing command that gets no memory.
  void note_no_memory(const command& c) noexcept;

 private:
  // Whether the key has a visible item; counts the reason if not.
  look find(std::string_view key, item& found) noexcept;
  void note_access(const item& i) noexcept;
  // Updates, and makes room if there is none and eviction is allowed.
  update_result update(std::string_view key, decision& by, std::size_t value_bytes) noexcept;
  update_result update_outside(std::string_view key, decision& by) noexcept;
  void remove_quietly(std::string_view key) noexcept;
  [[nodiscard]] bool is_gone(const item& i) const noexcept {
    return nvm::server::is_gone(i, now_, shared_.store.flushed_before());
  }
  [[nodiscard]] std::uint32_t expiry_of(std::int64_t given) const noexcept;
  [[nodiscard]] unsigned class_of(std::size_t key, std::size_t value) const noexcept {
    return shared_.classes.of(item_bytes(key, value));
  }
  // The answer to a client about an expiry. A past one is negative, and is written as memcached writes it, without a
  // sign.
  [[nodiscard]] std::uint32_t seconds_left(std::uint32_t expiry) const noexcept {
    return std::max(expiry, shared_.beginning() + 1) - now_;
  }
  [[nodiscard]] item_state fresh_state(std::uint32_t expiry, bool binary_key) const noexcept;

  void line(const command& c, reply_buffer& out, std::string_view text) const;
  void refuse(const command& c, reply_buffer& out);
  static void fail(const command& c, reply_buffer& out);

  after get(command& c, reply_buffer& out);
  void put_value(const item& i, bool with_cas, reply_buffer& out) const;
  void store(const command& c, reply_buffer& out);
  void remove(const command& c, reply_buffer& out);
  void arithmetic(const command& c, reply_buffer& out);
  bool touch_item(const item& i, std::uint32_t expiry) noexcept;
  void touch(const command& c, reply_buffer& out);

  // meta_commands.cpp
  void meta_get(const command& c, reply_buffer& out);
  look find_or_vivify(const command& c, item& found, bool& created) noexcept;
  item_state note_meta_access(const command& c, const item& found, bool& won) noexcept;
  void meta_set(const command& c, reply_buffer& out);
  void meta_delete(const command& c, reply_buffer& out);
  void meta_arithmetic(const command& c, reply_buffer& out);
  void meta_debug(const command& c, reply_buffer& out);
  enum class store_answer : std::uint8_t { stored, not_stored, exists, not_found, no_memory, failed };
  store_answer store_value(const command& c, verb mode, std::uint64_t cas, bool may_go_stale, std::uint32_t expiry,
                           std::uint64_t& new_cas);

  // admin_commands.cpp
  [[nodiscard]] static bool needs_store(const command& c) noexcept;
  void flush_all(const command& c, reply_buffer& out);
  void report(const command& c, reply_buffer& out);
  after shut_down(const command& c, reply_buffer& out);
  void set_memory_limit(const command& c, reply_buffer& out);
  void slabs(const command& c, reply_buffer& out);
  [[nodiscard]] static std::string_view lru_answer(std::span<const std::string_view> words) noexcept;
  void lru(const command& c, reply_buffer& out);
  void lru_crawler(const command& c, reply_buffer& out);
  void debugtime(const command& c, reply_buffer& out);

  environment& shared_;
  counters& counters_;
  item_session& session_;
  std::uint32_t now_;
  std::function<bool()> let_go_;
  // Last time that a sweep found nothing that could make room for this size class.
  std::array<std::uint32_t, size_classes_max> no_room_at_{};
};

// The version of memcached as which this server answers: clients derive features from its numbers, some from the last
// number that they find.
inline constexpr std::string_view version_text = "1.6.18";

inline constexpr std::string_view no_memory_text = "SERVER_ERROR out of memory storing object";

// If more than this waits for a client, its next command waits, too.
inline constexpr std::size_t reply_bytes_high = std::size_t{256} << 10;

}  // namespace nvm::server
