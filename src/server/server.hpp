// nv-memcached: listens, hands connections to workers, and stops when asked to.
//
// The main thread accepts, answers those who ask for metrics, waits for signals, and removes expired items a few at a
// time. Workers do the rest (worker.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "server/environment.hpp"

namespace nvm::server {

class service {
 public:
  ~service();

  // Opens all sockets; nothing is served before run().
  static result<std::unique_ptr<service>> open(const settings& given, item_store& store);

  // Serves until a signal (SIGTERM, SIGINT, SIGUSR1) or the command "shutdown" ends it.
  status run();

 private:
  struct parts;
  explicit service(std::unique_ptr<parts> all) noexcept;

  std::unique_ptr<parts> all_;
};

}  // namespace nvm::server
