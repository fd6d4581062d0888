// Threads that call regions, all about the same few: transactions that append to and read some of a few regions, alone
// and as groups, and calls about regions that come, are written whole, and go.
//
// Pool: as history_pool.  A region that lists belong to holds elements of equal size, so that each way of logging is
// taken by some of them; a value says its number first, and its size goes by that.
#pragma once

#include <string>
#include <vector>

#include "nvm/region.h"
#include "workload.hpp"

namespace nvm::tests {

class history_regions {
 public:
  // `waits`: a call counts when it returns; otherwise after nvm_regions_wait().  `flags`: of the sets.
  history_regions(engine_kind engine, const std::string& path, bool waits, std::uint32_t flags)
      : engine_{engine}, path_{path}, waits_{waits}, flags_{flags} {}
  history_regions(engine_kind engine, const std::string& path, bool waits)
      : history_regions{engine, path, waits, waits ? 0U : std::uint32_t{NVM_REGIONS_NO_WAIT}} {}
  // As those of history_pool.
  bool make();
  bool open();
  bool close();
  std::int64_t check() const;
  bool work(history_log& log, unsigned me, std::uint32_t count);
  bool look_at_everything(history_log& log);

 private:
  enum class end : std::uint8_t { done, again, failed };
  bool run_transaction(history_log& log, unsigned me, recorded_transaction& r, std::uint64_t random);
  bool run_alone(thread_log& mine, recorded_access& a, std::uint64_t random);
  bool run_in_one(thread_log& mine, recorded_transaction& r);
  end try_group(thread_log& mine, recorded_transaction& r);
  bool run_body(thread_log& mine, recorded_transaction& r);
  bool access(thread_log& mine, recorded_access& a);
  bool read_list(thread_log& mine, recorded_access& a);
  bool run_call(recorded_call& c);
  bool get(recorded_call& c);
  bool update(recorded_call& c, int& found);
  bool note_ends(history_log& log, unsigned me, std::uint32_t transactions, std::uint32_t calls);
  bool open_sets();

  engine_kind engine_;
  std::string path_;
  bool waits_;
  std::uint32_t flags_;
  NVM_POOL* pool_ = nullptr;
  nvm_regions* lists_ = nullptr;
  nvm_regions* values_ = nullptr;
};

}  // namespace nvm::tests
