// Player of stories about lock-free structures: opens the pool on the machine's image and calls them; each call is an
// operation of the explorer, and what it has to leave goes into a history.
//
// Calls are durable on return, except
//   - with the link cache: when somebody depends on the key, or after settle(). Each key by itself has a prefix of its
//     operations then, with everything that was reported of it in it;
//   - on ssd: after wait().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockfree_process.hpp"
#include "lockfree_reader.hpp"

namespace nvm::tests {

// The states that the operations so far may leave: after each of them, of everything and of each key by itself.
class lockfree_history {
 public:
  void clear();
  // The next operation leaves this.
  void state(std::uint64_t digest) { states_.state(digest); }
  // It was about the key, and left `value` (a value_code(), 0: none); `changed`: it changed it.
  void touched(std::uint64_t where, std::uint64_t value, bool changed);
  void started_with(std::uint64_t where, std::uint64_t value);

  [[nodiscard]] explore::verdict check(const lockfree_contents& found, const explore::window& w, bool by_key) const;

 private:
  struct touch {
    std::uint64_t operation;
    std::uint64_t value;
    bool changed;
  };
  explore::digest_history states_;
  std::map<std::uint64_t, std::vector<touch>> keys_;
};
[[nodiscard]] std::uint64_t place_of_item(std::string_view name, std::uint64_t key) noexcept;

[[nodiscard]] value_bytes word_value(std::uint64_t v);
// So many bytes, different for each `seed`.
[[nodiscard]] value_bytes long_value(std::uint64_t seed, std::size_t bytes);

class lockfree_player {
 public:
  lockfree_player(explore::machine& m, lockfree_history& history, const lockfree_variant& v);

  void create(const char* name, shape_of_structure shape, unsigned bits = 1);
  void drop(const char* name);
  void need_directory();

  // By the thread `on()` chose last.  What they return is what the structure said; if the model knows better, the
  // program stops.
  void on(unsigned thread) { thread_ = thread; }
  void insert(const char* name, std::uint64_t key, const value_bytes& v);   // does nothing if there is one
  void replace(const char* name, std::uint64_t key, const value_bytes& v);  // does nothing if there is none
  void put(const char* name, std::uint64_t key, const value_bytes& v);
  void remove(const char* name, std::uint64_t key);
  void look_up(const char* name, std::uint64_t key);
  void insert(const char* name, std::uint64_t key, std::uint64_t v) { insert(name, key, word_value(v)); }
  void replace(const char* name, std::uint64_t key, std::uint64_t v) { replace(name, key, word_value(v)); }
  void put(const char* name, std::uint64_t key, std::uint64_t v) { put(name, key, word_value(v)); }
  // put() that may find no room; false then.
  bool try_put(const char* name, std::uint64_t key, const value_bytes& v);

  // The process is killed before the n-th write-back or fence of the operation, counted from 1; another one opens the
  // pool, and looks what has become of the key.  That is one operation of the explorer, for what the other one has seen
  // must stay.  False: the operation has ended before.
  bool put_killed(unsigned point, const char* name, std::uint64_t key, std::uint64_t v);
  bool remove_killed(unsigned point, const char* name, std::uint64_t key);
  bool create_killed(unsigned point, const char* name, shape_of_structure shape);
  bool drop_killed(unsigned point, const char* name);

  void enter(const char* name);
  void leave(const char* name);
  void end_thread();
  void fill_up(const char* name);
  // Everything that was done is durable.
  void settle();
  // An operation without effect; between it and reopen() the image is at rest.
  void close();
  void reopen();

  struct structure {
    shape_of_structure shape;
    std::map<std::uint64_t, value_bytes> items;
  };
  [[nodiscard]] const std::map<std::string, structure>& model() const noexcept { return model_; }
  [[nodiscard]] explore::machine& on_machine() noexcept { return machine_; }
  [[nodiscard]] const lockfree_variant& variant() const noexcept { return variant_; }

 private:
  void start();
  void begin();
  void end(std::uint64_t result = 0);
  void write(const char* name, std::uint64_t key, const value_bytes& v, lockfree::write_rule rule);
  [[nodiscard]] std::uint64_t digest() const;
  bool killed(unsigned point, const std::function<void()>& operation);
  bool killed(unsigned point, const char* name, std::uint64_t key, const std::function<void()>& operation);
  // Of the explorer: those of one process are not those of the next.
  [[nodiscard]] unsigned machine_thread(unsigned t) const noexcept { return t + lives_ % 12 * 8; }

  explore::machine& machine_;
  lockfree_history& history_;
  const lockfree_variant variant_;
  std::unique_ptr<lockfree_process> process_;
  std::map<std::string, structure> model_;
  unsigned thread_ = 0;
  unsigned lives_ = 0;
  std::uint64_t opened_ = 0;
  bool closed_ = false;
  bool was_killed_ = false;
};

using lockfree_steps = std::function<void(lockfree_player&)>;

// A pool without structures.
[[nodiscard]] std::vector<std::byte> lockfree_image(std::uint64_t pages, const lockfree_variant& v);
// On a given image, recovered or not.
[[nodiscard]] explore::subject lockfree_subject_from(const lockfree_variant& v, std::string name, lockfree_steps steps,
                                                     std::vector<std::byte> image);
[[nodiscard]] explore::subject lockfree_subject(const lockfree_variant& v, std::string name, lockfree_steps steps,
                                                std::uint64_t pages = 96);
[[nodiscard]] explore::options lockfree_options(explore::model m, const lockfree_variant& v);
// What a process leaves that does this to a new pool on direct media, and loses nothing.
[[nodiscard]] std::vector<std::byte> lockfree_image_after(const lockfree_variant& v, const lockfree_steps& steps,
                                                          std::uint64_t pages = 96);

}  // namespace nvm::tests
