// Player of stories about key-value stores: each call of the C interface is an operation of the explorer, and an
// ordinary map says what has to be there after it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kv_reader.hpp"
#include "nvm/store_kv.h"
#include "subjects.hpp"
#include "whole_pool.hpp"

namespace nvm::tests {

// Where the stores of a story lie: the pool has them, or an object store of it, which is made where there is none.
enum class kv_home : std::uint8_t { pool, object_store };

class kv_player {
 public:
  kv_player(explore::machine& m, explore::digest_history& history, kind_of_medium kind, kv_home where);
  ~kv_player();
  kv_player(const kv_player&) = delete;
  kv_player& operator=(const kv_player&) = delete;

  // Opens the store, or makes it.
  void open(const std::string& store, enum nvm_kv_index index);
  void put(const std::string& store, const std::string& key, const std::string& value);
  void remove(const std::string& store, const std::string& key);
  // Changes bytes [from, from + bytes) of a value that is there.
  void update(const std::string& store, const std::string& key, std::size_t from, std::size_t bytes, char with);
  struct change {
    std::string store, key, value;
    bool removes = false;
  };
  // False: the pool had no room, and nothing has changed.
  bool batch(const std::vector<change>& changes);
  // Several calls in a transaction of the program, with levels that fail in it; taken back unless `commits`.
  void transaction(const std::vector<change>& changes, bool commits);
  // Closes a store before.
  void drop(const std::string& store);
  void rename(const std::string& store, const std::string& new_name);
  // The object store that they lie in: given up and taken again; deleted, with all of them; made anew.
  void detach();
  void delete_home();
  void make_home();
  // Reads everything through the library, and stops the program unless that is what has to be there.
  void look();

  // ssd: brings the log home.
  void checkpoint();
  // At rest; then, or as after a crash that lost nothing, open again.
  void close();
  void reopen();
  void on_another_thread(const std::function<void()>& f);

  [[nodiscard]] const std::map<std::string, std::string>& entries(const std::string& store) const {
    return model_.at(store).entries;
  }
  [[nodiscard]] bool has(const std::string& store) const { return model_.contains(store); }
  [[nodiscard]] NVM_POOL* pool() noexcept { return pool_->handle(); }

 private:
  void start();
  void apply(const change& c);
  [[nodiscard]] nvm_kv* handle(const std::string& store) { return open_.at(store); }
  void open_all();
  void close_all();
  [[nodiscard]] std::vector<nvm_kv_operation> calls(const std::vector<change>& changes);
  // An operation of the explorer; f says whether it took effect, and changes the model then.
  template <class F>
  void operation(F&& f);

  explore::machine& machine_;
  explore::digest_history& history_;
  kind_of_medium kind_;
  const kv_home where_;
  nvm_store* home_ = nullptr;
  std::unique_ptr<whole_pool> pool_;
  std::map<std::string, nvm_kv*> open_;
  std::map<std::string, kv_store_contents> model_;
};

using kv_steps = std::function<void(kv_player&)>;

[[nodiscard]] explore::subject kv_subject_from(kind_of_medium kind, std::string name, kv_steps steps,
                                               std::vector<std::byte> image, kv_home where = kv_home::pool);
// The image that a process leaves which does this to a new pool and closes it.  From here on the library's random
// numbers, seeds of hash tables among them, are made from `seed`.
[[nodiscard]] std::vector<std::byte> kv_image_after(kind_of_medium kind, const crash_shape& shape,
                                                    const kv_steps& steps, std::uint64_t seed = 1,
                                                    kv_home where = kv_home::pool);

}  // namespace nvm::tests
