// The servers that are compared, as processes of their own: started on a port and a Unix socket that nobody else has,
// ended and cleaned up with the object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nvm::bench {

enum class dialect { memcached, redis };

// Where a server listens and keeps its files.
struct place {
  bool by_unix_socket = false;
  int port = 0;
  std::string folder;
  unsigned megabytes = 1024;  // of items, as memcached counts them
  [[nodiscard]] std::string socket() const { return folder + "/socket"; }
};

class server_process {
 public:
  ~server_process();
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;

  // Throws when it does not come up. The folder of `where` goes away with it.
  static std::unique_ptr<server_process> start(const std::string& program, std::vector<std::string> arguments,
                                               dialect speaks, const place& where);

  // A connected socket that does not block.
  [[nodiscard]] int connect() const;
  // Of all its threads, since it started.
  [[nodiscard]] std::uint64_t cpu_ns() const;
  // Memory that it has now, files that it maps included.
  [[nodiscard]] std::uint64_t resident_bytes() const;
  // Blocks of what lies in its folder.
  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] dialect speaks() const noexcept { return speaks_; }

 private:
  server_process() = default;

  pid_t pid_ = -1;
  dialect speaks_ = dialect::memcached;
  place where_;
};

// One server of the comparison: how to start it.
struct server_kind {
  std::string name;
  bool is_subject = false;
  bool is_durable_on_disk = false;  // runs in the comparison on ssd, and only there
  std::string program;
  dialect speaks = dialect::memcached;
  std::function<std::vector<std::string>(unsigned threads, const place& where)> arguments;
};

// Those whose programs are installed; our own program is `ours`.
std::vector<server_kind> server_kinds(const std::string& ours);

}  // namespace nvm::bench
