// Player of stories about regions: opens the pool on the machine's image and calls them; each call is an operation of
// the explorer, and what it has to leave goes into a history.  Durable on return; on ssd after wait().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "region_process.hpp"
#include "region_reader.hpp"

namespace nvm::tests {

class region_player {
 public:
  using mode = region::mode;
  using calls = std::vector<region_call>;
  region_player(explore::machine& m, explore::digest_history& history, const region_variant& v);

  void make_set(const char* name);
  void drop_set(const char* name);

  // By the thread that on() chose last.  If the model knows better than what they return, the program stops.
  void on(unsigned thread) { thread_ = thread; }
  // New bytes are different ones each time.
  [[nodiscard]] region_call creation(std::uint64_t rid, std::uint64_t size, std::uint64_t written = 0,
                                     std::uint64_t room = 0);
  [[nodiscard]] region_call writing(std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes,
                                    mode how = mode::adaptive);
  [[nodiscard]] region_call appending(std::uint64_t rid, std::uint64_t bytes, mode how = mode::adaptive);
  [[nodiscard]] static region_call truncating(std::uint64_t rid, std::uint64_t length);
  [[nodiscard]] static region_call dropping(std::uint64_t rid);

  void create(const char* set, std::uint64_t rid, std::uint64_t size, std::uint64_t written = 0,
              std::uint64_t room = 0) {
    change(set, creation(rid, size, written, room));
  }
  void write(const char* set, std::uint64_t rid, std::uint64_t offset, std::uint64_t bytes, mode how = mode::adaptive) {
    change(set, writing(rid, offset, bytes, how));
  }
  void append(const char* set, std::uint64_t rid, std::uint64_t bytes, mode how = mode::adaptive) {
    change(set, appending(rid, bytes, how));
  }
  void truncate(const char* set, std::uint64_t rid, std::uint64_t length) { change(set, truncating(rid, length)); }
  void drop(const char* set, std::uint64_t rid) { change(set, dropping(rid)); }
  void change(const char* set, const region_call& c);
  // The same without waiting: it is durable with what is waited for later, by reopen() at the latest.
  void change_soon(const char* set, const region_call& c);
  // False: there was no room, and nothing has changed.
  bool try_change(const char* set, const region_call& c, bool waits = true);
  void group(const char* set, const calls& all) { (void)in_group(set, all, false); }
  void group_given_up(const char* set, const calls& all) { (void)in_group(set, all, true); }
  bool try_group(const char* set, const calls& all) { return in_group(set, all, false); }

  // Held until let_go() or the end of the process; at each call after that it is what it was.
  void hold(const char* set, std::uint64_t rid);
  void let_go(std::uint64_t rid);

  // The process is killed before the n-th write-back or fence of a transaction, counted from 1; another one opens the
  // pool, and looks what has become of it.  That is one operation of the explorer, for what the other one has seen must
  // stay.  False: the transaction has ended before.
  bool group_killed(unsigned point, const char* set, const calls& all);
  bool make_set_killed(unsigned point, const char* name);
  bool drop_set_killed(unsigned point, const char* name);
  bool truncate_log_killed(unsigned point);
  bool collect_killed(unsigned point);

  // Without effect, and no operations.
  void truncate_log();
  void collect();
  // An operation without effect; between it and reopen() the image is at rest.
  void close();
  void reopen();

  using set_model = std::map<std::uint64_t, region_bytes>;
  [[nodiscard]] const std::map<std::string, set_model>& model() const noexcept { return model_; }
  [[nodiscard]] explore::machine& on_machine() noexcept { return machine_; }
  [[nodiscard]] const region_variant& variant() const noexcept { return variant_; }
  [[nodiscard]] region::statistics statistics() { return process_->statistics(); }

 private:
  using models = std::map<std::string, set_model>;
  void start();
  void begin();
  void end(bool waits = true);
  bool in_group(const char* set, const calls& all, bool gives_up);
  [[nodiscard]] std::uint64_t digest() const;
  [[nodiscard]] models seen();
  bool killed(unsigned point, const models& after, const std::function<bool()>& operation);
  // Of the explorer: those of one process are not those of the next.
  [[nodiscard]] unsigned machine_thread(unsigned t) const noexcept { return t + lives_ % 12 * 8; }

  explore::machine& machine_;
  explore::digest_history& history_;
  const region_variant variant_;
  std::unique_ptr<region_process> process_;
  models model_;
  struct held_bytes {
    std::uint64_t rid;
    region::lease lease;
    region_bytes bytes;
  };
  std::vector<held_bytes> held_;
  void look_at_leases();
  unsigned thread_ = 0;
  unsigned lives_ = 0;
  std::uint64_t patterns_ = 0;
  bool closed_ = false;
  bool has_not_waited_ = false;
};

using region_steps = std::function<void(region_player&)>;

[[nodiscard]] explore::subject region_subject(const region_variant& v, std::string name, region_steps steps,
                                              std::uint64_t pages = 96);
// The image that the steps leave.
[[nodiscard]] std::vector<std::byte> region_image_after(const region_variant& v, const region_steps& steps,
                                                        std::uint64_t pages = 96);
[[nodiscard]] explore::options region_options(explore::model m, const region_variant& v);

}  // namespace nvm::tests
