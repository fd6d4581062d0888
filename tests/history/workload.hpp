// The work of the threads whose history is checked: transactions that append to and read some of a few lists, and calls
// on a few keys of a map, each a transaction.  All of it lies in the pool's root.
#pragma once

#include <string>

#include "nvm/stm.hpp"
#include "recorded.hpp"

namespace nvm::tests {

enum class engine_kind { undo, undo_write_back, redo, redo_by_mark, log, ssd, ssd_log };
constexpr bool is_ssd(engine_kind e) { return e == engine_kind::ssd || e == engine_kind::ssd_log; }
inline const char* name_of(engine_kind e) {
  constexpr const char* names[] = {"undo", "undo_write_back", "redo", "redo_by_mark", "log", "ssd", "ssd_log"};
  return names[static_cast<unsigned>(e)];
}

// A pool of this kind; log_bytes 0: as usual.  nullptr: nvm_errormsg().
NVM_POOL* make_pool(engine_kind engine, const char* path, std::uint64_t log_bytes);
NVM_POOL* open_pool(engine_kind engine, const char* path);
// Findings of the full check of a closed pool; -1 if it could not be done.
std::int64_t check_pool(const char* path);
// Notes the first failure; false.
bool failed(history_log& log, const char* what);
std::uint64_t mix(std::uint64_t x);

class history_pool {
 public:
  history_pool(engine_kind engine, const std::string& path) : engine_{engine}, path_{path} {}
  // Makes the pool and what is in it.  False: nvm_errormsg().
  bool make();
  // One process has it open at a time.
  bool open();
  bool close();
  // Findings of the full check of the closed pool; -1 if it could not be done.
  std::int64_t check() const;
  // Thread `me` works until its log is full, or until it has made `count` of each kind of records.  It goes on where
  // its log ends.  False: failed; the log has the message.
  bool work(history_log& log, unsigned me, std::uint32_t count);
  // Reads everything once, as thread 0.
  bool look_at_everything(history_log& log);

 private:
  struct list;
  struct board;
  bool run_transaction(history_log& log, unsigned me, recorded_transaction& r);
  bool run_call(history_log& log, recorded_call& c);

  engine_kind engine_;
  std::string path_;
  NVM_POOL* pool_ = nullptr;
  board* board_ = nullptr;
};

}  // namespace nvm::tests
