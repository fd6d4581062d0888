// A client of YCSB: reads and writes whole records, one after the other, and waits for each answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/servers.hpp"

struct nvm_kv;

namespace nvm::bench::ycsb {

class client {
 public:
  virtual ~client() = default;
  // The record's value; false: there is none, `value` is empty.  Throws on any other answer.
  virtual bool read(const std::string& key, std::string& value) = 0;
  virtual void write(const std::string& key, const std::string& value) = 0;
};

// Over a connection of its own, in the server's dialect.
std::unique_ptr<client> connected_client(const server_process& server);
// Calls a store in this process.
std::unique_ptr<client> calling_client(nvm_kv* store);

}  // namespace nvm::bench::ycsb
