// What all workers share.
#pragma once

#include <atomic>
#include <functional>

#include "server/clock.hpp"
#include "server/connection_table.hpp"
#include "server/item_store.hpp"
#include "server/settings.hpp"
#include "server/size_classes.hpp"
#include "server/statistics.hpp"

namespace nvm::server {

struct environment {
  environment(const settings& given, item_store& items) noexcept
      : config{given},
        store{items},
        classes{given.class_growth, given.class_smallest},
        verbosity{given.verbosity},
        started{clock.now()} {}

  const settings& config;
  item_store& store;
  wall_clock clock;
  size_classes classes;
  statistics stats;
  connection_table connections;
  std::atomic<unsigned> verbosity;  // relaxed: it only decides what is printed
  std::uint32_t started;
  std::function<void()> stop = [] {};  // ends the server, soon; from any thread
};

}  // namespace nvm::server
