// State that all workers share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "server/clock.hpp"
#include "server/connection_table.hpp"
#include "server/item_store.hpp"
#include "server/settings.hpp"
#include "server/size_classes.hpp"
#include "server/statistics.hpp"

namespace nvm::server {

struct environment {
  environment(const settings& given, item_store& items, std::uint32_t clock_stands_at = 0) noexcept
      : config{given},
        store{items},
        clock{clock_stands_at},
        classes{given.class_growth, given.class_smallest},
        verbosity{given.verbosity},
        started{clock.now()} {}

  // The beginning of memcached's own time: items that would expire before it expire one second after it.
  [[nodiscard]] std::uint32_t beginning() const noexcept {
    constexpr std::uint32_t before_start = 62;
    return started - before_start;
  }

  const settings& config;
  item_store& store;
  wall_clock clock;
  size_classes classes;
  statistics stats;
  connection_table connections;
  std::atomic<unsigned> verbosity;  // relaxed: it only decides what is printed
  std::uint32_t started;
  std::atomic<bool> crawler{true};               // relaxed: the setting of lru_crawler, which it reports
  std::atomic<std::uint64_t> awaited_bytes{0};   // relaxed: large values that have begun to come
  std::atomic<std::uint64_t> released_bytes{0};  // relaxed: of buffers of clients, since memory was last given back
  std::function<void()> stop = [] {};            // ends the server, soon; from any thread
};

}  // namespace nvm::server
