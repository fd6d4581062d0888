// Threads that call a key-value store, all on the same few keys; keys of their own come and go between them, so that
// the nodes of the index are split and become one meanwhile.
#pragma once

#include <string>

#include "nvm/kv.h"
#include "workload.hpp"

namespace nvm::tests {

class history_store {
 public:
  history_store(engine_kind engine, const std::string& path, enum nvm_kv_index index)
      : engine_{engine}, path_{path}, index_{index} {}
  // As those of history_pool.
  bool make();
  bool open();
  bool close();
  std::int64_t check() const;
  bool work(history_log& log, unsigned me, std::uint32_t count);
  bool look_at_everything(history_log& log);

 private:
  bool run_call(recorded_call& c);
  bool change_others(std::uint64_t random, unsigned me);

  engine_kind engine_;
  std::string path_;
  enum nvm_kv_index index_;
  NVM_POOL* pool_ = nullptr;
  nvm_kv* store_ = nullptr;
};

}  // namespace nvm::tests
