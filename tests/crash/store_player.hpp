// Player of object stores: one run of a story on the machine's image, by the library's engine and its face of stores,
// and the model beside it.  Each commit is an operation of the explorer; attaching, growing and shrinking change
// nothing that the model knows, wherever they are crashed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "explore/explore.hpp"

namespace nvm::tests {

// An engine on a medium.
enum class store_ground : unsigned char { undo, redo, ssd, mnemosyne, mnemosyne_undo };
[[nodiscard]] const char* name_of(store_ground g) noexcept;

// A process that has the image open.
class store_process {
 public:
  virtual ~store_process() = default;
  [[nodiscard]] virtual engines::engine& engine() noexcept = 0;
  [[nodiscard]] virtual std::byte* base() noexcept = 0;
  // Brings the log home.
  virtual status checkpoint() = 0;
};
// nullptr with last_message().
[[nodiscard]] std::unique_ptr<store_process> open_store_process(explore::machine& m, store_ground on);
// Recovery alone.
[[nodiscard]] status recover_stores(explore::machine& m, store_ground on);
[[nodiscard]] std::vector<std::byte> new_store_image(store_ground on, std::uint64_t pages = 72);
// Whether the pool of the image, as it is before recovery, is no longer than its file.
[[nodiscard]] bool ends_in_its_file(explore::machine& m);

// The content that a pool has or must have.
struct store_model {
  struct store {
    std::uint64_t page = 0;
    std::uint64_t root = 0;
    std::uint64_t owner = 0;
    std::map<std::uint64_t, std::vector<std::byte>> objects;  // by payload
  };
  std::map<std::uint32_t, store> stores;                    // by number
  std::map<std::uint64_t, std::vector<std::byte>> objects;  // of no store
  [[nodiscard]] std::uint64_t digest() const;
  // A sentence in `fault` where its metadata is not whole.
  [[nodiscard]] static store_model of(const std::byte* base, std::size_t available, std::string& fault);
};

class store_player {
 public:
  store_player(explore::machine& m, explore::digest_history& history, store_ground on);

  // ---- one transaction of a lane ----
  void begin(unsigned lane = 0);
  void create(std::uint32_t number, std::uint64_t quota_pages = 0, unsigned lane = 0);
  // Offset of the payload, filled; 0: no room, and nothing but abort() is left.
  std::uint64_t put(std::uint32_t number, std::uint64_t bytes, std::uint8_t fill, unsigned lane = 0);
  std::uint64_t put_in_pool(std::uint64_t bytes, std::uint8_t fill, unsigned lane = 0);
  void free(std::uint64_t payload, unsigned lane = 0);
  void set_root(std::uint32_t number, std::uint64_t payload, unsigned lane = 0);
  void set_owner(std::uint32_t number, std::uint32_t owner, unsigned lane = 0);
  // True: the store is gone when it commits.
  bool drop_some(std::uint32_t number, unsigned clusters, unsigned lane = 0);
  void commit(unsigned lane = 0);          // durable on return
  void commit_ordered(unsigned lane = 0);  // ssd: not durable yet
  void abort(unsigned lane = 0);
  // All of it at once.
  std::uint64_t one(std::uint32_t number, std::uint64_t bytes, std::uint8_t fill, unsigned lane = 0);
  void one_free(std::uint64_t payload, unsigned lane = 0);

  // ---- at once ----
  void attach(std::uint32_t number);
  void detach(std::uint32_t number);
  void trim(std::uint32_t number);
  trim_outcome trim_pool(const trim_wishes& wishes = {});
  void checkpoint();
  // The process is gone as after a crash that lost nothing; another opens the image.
  void reopen();
  // Is killed before the n-th write-back or fence of what this does, counted from 1, and another process opens the
  // image.  False: it has ended before.
  bool killed(unsigned point, const std::function<void()>& what);

  // ---- a transaction of the library's own, of which the story sees what it leaves ----
  [[nodiscard]] engines::open_transaction* begin_beside(unsigned lane);
  // It has ended: objects that are none any more are gone from the model; their payloads.  `lsn`: of its commit.
  std::vector<std::uint64_t> ended_beside(unsigned lane, lsn_t lsn);

  [[nodiscard]] const store_model& model() const noexcept { return model_; }
  [[nodiscard]] std::byte* base() noexcept { return process_->base(); }
  [[nodiscard]] engines::engine& engine() noexcept { return process_->engine(); }
  [[nodiscard]] std::uint64_t pages_of(std::uint32_t number);

 private:
  struct change {
    engines::open_transaction* open = nullptr;
    store_model after;
  };
  [[nodiscard]] engines::store_side& side();
  change& of(unsigned lane);
  void end(unsigned lane, bool waits);
  void start();

  explore::machine& machine_;
  explore::digest_history& history_;
  store_ground on_;
  std::unique_ptr<store_process> process_;
  store_model model_;
  change changes_[2];
  bool parked_[2] = {};  // whether the lane is a thread's own between its transactions
};

struct store_story {
  const char* name;
  void (*steps)(store_player&);
  bool on_others = true;  // than undo on direct media
  bool on_ssd = true;
};
[[nodiscard]] const std::vector<store_story>& store_stories();
[[nodiscard]] explore::subject store_subject(const store_story& s, store_ground on);
[[nodiscard]] explore::subject store_subject_from(const char* name, const std::function<void(store_player&)>& steps,
                                                  store_ground on, std::vector<std::byte> image);
[[nodiscard]] explore::options store_options(explore::model m);

}  // namespace nvm::tests
