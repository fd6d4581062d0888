// A client and a server without sockets: input is parsed, carried out against a store, and answered.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "../scratch_folder.hpp"
#include "server/durable_store.hpp"
#include "server/environment.hpp"
#include "server/executor.hpp"
#include "server/protocol.hpp"
#include "server/reply_buffer.hpp"
#include "server/volatile_store.hpp"

namespace nvm::server {

class conversation {
 public:
  explicit conversation(settings given = debugging(), std::uint32_t clock_stands_at = 0)
      : conversation{given, nullptr, clock_stands_at} {}
  // With the store of another conversation.
  conversation(settings given, std::shared_ptr<item_store> store, std::uint32_t clock_stands_at = 0)
      : given_{std::move(given)},
        store_{store != nullptr ? std::move(store) : new_store(given_)},
        shared_{given_, *store_, clock_stands_at},
        session_{store_->open_session()},
        executor_{shared_, shared_.stats.add_worker(), *session_} {}

  static settings debugging() {
    settings s;
    s.debug_commands = true;
    return s;
  }

  // What is answered to `bytes`, which may begin or end within a command.
  std::string operator()(std::string_view bytes) {
    std::string replies;
    input_ += bytes;
    if (!session_->enter()) throw std::bad_alloc{};
    executor_.look_at_clock();
    const parse_limits limits{given_.item_bytes_max, given_.debug_commands};
    std::size_t at = 0;
    command c;
    while (!ended) {
      const std::size_t thrown = std::min(swallow_, input_.size() - at);
      at += thrown;
      swallow_ -= thrown;
      if (swallow_ == 0 && !late_refusal_.empty()) {
        replies += std::string{late_refusal_} + "\r\n";
        late_refusal_ = {};
      }
      const std::string_view rest = std::string_view{input_}.substr(at);
      if (rest.size() < needed_ || rest.empty()) break;
      const parsed p = parse(rest, limits, c);
      if (p.what == parsed::answer::hang_up) ended = true;
      if (p.what == parsed::answer::incomplete) {
        if (p.bytes <= rest.size()) throw std::logic_error("asked for bytes that are there");
        needed_ = p.bytes;
      }
      if (p.what != parsed::answer::command) break;
      if (p.bytes == 0 || p.bytes > rest.size()) throw std::logic_error("took bytes that are not there");
      needed_ = 0;
      at += p.bytes;
      swallow_ = c.swallow;
      if (swallow_ != 0 && !c.silent) late_refusal_ = c.refusal;
      executor::after then = executor::after::again;
      while (then == executor::after::again) {
        then = executor_.execute(c, out_);
        replies += drained();
      }
      if (then == executor::after::close) ended = true;
    }
    input_.erase(0, at);
    session_->leave();
    return replies;
  }

  // The store that the program is compiled for.
  static std::shared_ptr<item_store> new_store(settings& given);

  environment& shared() { return shared_; }
  item_session& session() { return *session_; }
  std::shared_ptr<item_store> store() { return store_; }

  bool ended = false;

 private:
  std::string drained() {
    out_.settle();
    std::string text{out_.room(0) - out_.pending(), out_.pending()};
    out_.clear(0);
    return text;
  }

  settings given_;
  std::shared_ptr<item_store> store_;
  environment shared_;
  std::unique_ptr<item_session> session_;
  executor executor_;
  reply_buffer out_;
  std::string input_;
  std::size_t needed_ = 0;
  std::size_t swallow_ = 0;
  std::string_view late_refusal_;
};

// The medium of pools that items are in, which the environment names; empty: they are in memory.
inline std::string medium_of_test() {
  const char* const named = std::getenv("NVM_TEST_MEDIUM");
  return named == nullptr ? "" : named;
}

// Items in a pool that goes away with the program, or in memory.
inline std::shared_ptr<item_store> conversation::new_store(settings& given) {
  if (medium_of_test().empty()) return std::make_shared<volatile_store>(given.memory_bytes);
  static int pools = 0;
  given.medium = medium_of_test();
  static const tests::scratch_folder folder{"server", given.medium == "ssd"};
  given.pool_path = folder.path(("pool" + std::to_string(pools++)).c_str());
  auto opened = durable_store::open(given);
  if (!opened) throw std::runtime_error(last_message());
  return std::move(*opened);
}

}  // namespace nvm::server
