// nv-memcached: listens, hands connections to workers, and stops on request.
//
// The main thread accepts, answers requests for metrics, waits for signals, and removes expired items a few at a time.
// Workers do the rest (worker.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "server/environment.hpp"
#include "server/sockets.hpp"

namespace nvm::server {

class service {
 public:
  ~service();

  struct addresses {
    std::vector<listening_socket> of_clients;
    std::vector<listening_socket> of_metrics;  // one, if metrics are wanted
  };
  // Takes all addresses for clients and for metrics.
  static result<addresses> take_addresses(const settings& given);
  // Listens there; serving begins with run().
  static result<std::unique_ptr<service>> open(const settings& given, item_store& store, addresses taken);

  // Serves until a signal (SIGTERM, SIGINT, SIGUSR1), the command "shutdown" or, if it is to end then, a failure of the
  // store ends it. SIGHUP calls on_hang_up. A service manager that has set NOTIFY_SOCKET is told when clients are
  // served and when it stops.
  status run(std::function<void()> on_hang_up);

 private:
  struct parts;
  explicit service(std::unique_ptr<parts> all) noexcept;

  std::unique_ptr<parts> all_;
};

}  // namespace nvm::server
