// What YCSB is run on: servers as processes of their own, and the key-value library in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ycsb/client.hpp"

namespace nvm::bench::ycsb {

// Where programs are, and how large they may become.
struct programs {
  std::string nv_memcached;       // required
  std::string memcached;          // empty: the one that is installed
  std::string durable_memcached;  // of ports/memcached; empty: left out
  std::string redis;
  std::string durable_redis;    // of ports/redis; empty: left out
  std::string folder;           // shared memory
  std::string disk;             // a folder on a file system
  unsigned threads = 2;         // of servers that have them
  std::uint64_t megabytes = 0;  // of items
  std::string emulate;          // memory of pools on shared memory; empty: as it is
};

class system {
 public:
  virtual ~system() = default;
  virtual std::unique_ptr<client> connect() = 0;
  // Processor time since it started, of a server.
  virtual std::uint64_t cpu_ns() const = 0;
};

struct kind_of_system {
  std::string name;
  std::string family;  // those of one are compared: "memcached", "redis", "in-process"
  std::function<std::unique_ptr<system>()> start;
};

// Those whose programs there are.
std::vector<kind_of_system> kinds_of_system(const programs& p);

}  // namespace nvm::bench::ycsb
