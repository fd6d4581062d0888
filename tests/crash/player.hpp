// Player: one run of a scenario.  It opens the pool on the machine's image and executes transactions; each commit is an
// operation of the explorer, and the digest after it goes into the history.
//
// On direct media a commit is durable when it returns.  On ssd wait() makes what was published durable, and only then
// obliges the explorer to find it (options::promise_at_op_end is off).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ground.hpp"
#include "pool_model.hpp"

namespace nvm::tests {

class player;

// One transaction with its effect on the model; several may be open at once, each on its lane.
class open_tx {
 public:
  // Offset of the payload, filled; 0: no room.
  std::uint64_t alloc(std::uint64_t bytes, std::uint8_t fill);
  bool free(std::uint64_t payload);
  bool write(std::uint64_t payload, std::uint64_t from, std::uint64_t bytes, std::uint8_t fill);
  struct change {
    std::uint64_t payload, from, bytes;
    std::uint8_t fill;
  };
  // One announcement of all ranges.
  bool write_many(const std::vector<change>& changes);
  bool set_root(std::uint64_t payload);
  // The pool's type map, of a type whose name ends with `version`, and of `fields` fields.
  bool set_types(unsigned version, unsigned fields);
  void begin();
  bool commit_level();
  void abort_level();
  // Reads the object through the transaction, and stops the program unless that is content().  False: it met another
  // transaction, and is gone.
  bool look(std::uint64_t payload);
  bool run_alone();
  // Durable on return.
  void commit();
  // As commit(); false: it met another transaction, or found no room for its record, and is gone.
  bool commit_or_meet();
  // Durable with the next wait() of the player.
  void commit_async();
  // Direct media: the process is killed before the n-th write-back or fence of the commit, counted from 1; the next one
  // opens the pool, and what it finds must stay.  `recovery_point`: the next one is killed, too, before that one of its
  // recovery, and another opens the pool; 0: it is not.
  enum class killed : unsigned char { never, in_commit, in_both };
  killed commit_killed(unsigned point, unsigned recovery_point = 0);
  void abort();
  // The transaction sees this.
  [[nodiscard]] std::vector<std::byte> content(std::uint64_t payload) const;

 private:
  friend class player;
  open_tx(player& p, unsigned lane) : player_{p}, lane_{lane} {}
  ground& heap();
  bool end();
  struct effect {
    std::map<std::uint64_t, std::vector<std::byte>> written;  // whole new contents
    std::vector<std::uint64_t> freed;
    bool root_set = false;
    std::uint64_t root = 0;
    std::vector<std::byte> types;  // empty: not changed
  };
  player& player_;
  unsigned lane_;
  std::vector<effect> levels_;  // what the transaction does to the model, level by level
};

class player {
 public:
  player(explore::machine& m, explore::digest_history& history, kind_of_medium kind);

  // A transaction on the lane, which counts as a thread of its own as far as write-backs go.
  std::unique_ptr<open_tx> begin(unsigned lane = 0);
  void wait();
  void checkpoint();
  // As open_tx::commit_killed(), of what changes no object, in a thread.  False: it has ended before.
  bool killed(unsigned point, unsigned thread, const std::function<void()>& what);
  bool checkpoint_killed(unsigned point);
  // An operation without effect; between it and reopen() the image is closed().
  void close();
  // Opens the image again: after close(), or as after a crash that lost nothing.
  void reopen();
  // Direct media, in the middle of an operation: the process that opens the image is killed before the n-th write-back
  // or fence of that, counted from 1; the next one opens it.  False: the image was open before.
  bool reopen_killed(unsigned point);
  // ssd: the process is killed between writing its log and syncing it; the next one finds all of it, and what it finds
  // must survive from then on.
  void kill_while_syncing();
  // Runs f as another thread of the process would, one that has never used the pool: `number` is its logical thread.
  void on_another_thread(unsigned number, const std::function<void()>& f);

  [[nodiscard]] const pool_model& committed() const noexcept { return model_; }
  [[nodiscard]] explore::machine& on() noexcept { return machine_; }
  [[nodiscard]] ground& heap() noexcept { return *heap_; }
  [[nodiscard]] kind_of_medium kind() const noexcept { return kind_; }

 private:
  friend class open_tx;
  void start();
  explore::machine& machine_;
  explore::digest_history& history_;
  kind_of_medium kind_;
  std::unique_ptr<ground> heap_;
  pool_model model_;
  lsn_t published_ = 0;
  bool lanes_are_threads_ = true;
  bool closed_ = false;
};

// Whether a crash there comes after a close() and before anything else.
[[nodiscard]] bool closed(const explore::window& w) noexcept;

}  // namespace nvm::tests
