// Settings of the command line: memcached's flags, and ours. Read once; values that can change while the server runs
// are in environment.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvm::server {

enum class durability : std::uint8_t {
  strict,   // a command is acknowledged when a crash cannot take it back
  relaxed,  // a command is acknowledged when it is done; a crash may take back the last ones
};

enum class binding : std::uint8_t { automatic, text };

// When a write or a sync of the pool has failed.
enum class on_failure : std::uint8_t {
  end,   // the server ends with exit_failed; the next start finds all acknowledged changes
  stay,  // it answers SERVER_ERROR to commands that need the pool, until it is stopped
};

struct settings {
  // where to listen
  std::vector<std::string> addresses = {"127.0.0.1"};
  bool addresses_given = false;
  int port = 11211;  // 0: none, -1: one that is free
  std::string unix_path;
  unsigned unix_mode = 0700;
  int backlog = 1024;
  int metrics_port = 0;  // 0: none, -1: one that is free
  binding protocol = binding::automatic;

  // limits
  std::uint64_t memory_bytes = std::uint64_t{64} << 20;
  bool memory_given = false;
  std::size_t item_bytes_max = std::size_t{1} << 20;
  unsigned connections_max = 1024;
  unsigned idle_seconds_max = 0;  // 0: none
  unsigned commands_per_round = 1024;
  unsigned threads = 4;

  // the store
  std::string pool_path;
  std::uint64_t pool_bytes = 0;  // 0: made from the memory limit
  std::string medium;            // empty: what the path suggests
  durability durable = durability::strict;
  on_failure failure = on_failure::end;
  bool volatile_store = false;
  bool checksums = true;     // of items, in a new pool
  bool verify_reads = true;  // compare them when an item is read
  // Of the structures that items lie in, as in nvm_lf_options; 0: by default.
  std::uint32_t links = 0;
  std::uint32_t allocation = 0;
  std::uint32_t recovery = 0;
  std::uint32_t area_bytes = 0;  // in a new pool

  // behaviour
  unsigned verbosity = 0;
  bool evictions = true;
  bool cas = true;
  bool shutdown_command = false;
  bool flush_command = true;
  bool dump_commands = true;
  bool debug_commands = false;
  double class_growth = 1.25;
  unsigned class_smallest = 48;
  std::string auth_path;

  // the process
  bool daemon = false;
  std::string pid_path;
  std::string log_path;  // empty: standard error is unchanged
  std::string user;
  bool lock_memory = false;
  bool core_dumps = false;

  std::vector<std::string> warnings;  // accepted options without effect
};

// Result of a command line.
struct command_line {
  settings given;
  std::optional<int> exit_code;  // only print and end
  std::string output;            // for standard output
  std::string error;             // for standard error
};

inline constexpr int exit_good = 0;
inline constexpr int exit_usage = 2;
inline constexpr int exit_unavailable = 3;  // a socket, the pool or a file cannot be had
inline constexpr int exit_internal = 4;
inline constexpr int exit_failed = 5;  // a write or a sync of the pool has failed

command_line read_command_line(int argc, const char* const* argv);

}  // namespace nvm::server
