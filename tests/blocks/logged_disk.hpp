// A disk that logs its writes: a block device whose contents lie in memory, and a log of its writes and syncs.
//
// A file system in user space, served by a process of its own, holds one file; a loop device makes a disk of it.
// Contents and log lie in memory that the serving process shares with the others, so that a state can be laid out on
// the disk by plain stores while nothing is mounted.
//
// Threads: the serving process has one.  While it handles a request nothing else reaches the disk: what a note says was
// so when the disk held what the log says before it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace nvm::blocks {

constexpr std::size_t sector_bytes = 512;

struct event {
  std::uint64_t offset;   // on the disk
  std::uint64_t bytes;    // whole sectors; 0: a sync, which makes durable what was written before it
  std::uint64_t written;  // where the bytes are, from the begin of the log's bytes
};

class logged_disk {
 public:
  struct settings {
    std::string folder;  // for the mount point and for what is kept; on any file system
    std::uint64_t bytes = 0;
    std::size_t note_bytes = 0;
    std::function<void(char*)> take_note;  // called when a request has come, before it is logged; async-signal-safe
  };

  logged_disk() = default;
  ~logged_disk() { end(); }
  logged_disk(const logged_disk&) = delete;
  logged_disk& operator=(const logged_disk&) = delete;

  // Empty, or what does not work.
  std::string begin(const settings& how);
  void end() noexcept;

  [[nodiscard]] const std::string& device() const { return device_; }
  // What a mounted file system has of it in memory follows no stores here.
  [[nodiscard]] char* contents() const { return contents_; }

  // ---- the log

  [[nodiscard]] std::span<const event> events() const;
  [[nodiscard]] const char* bytes_of(const event& e) const { return log_bytes_ + e.written; }
  // What was so when the event came; `i` may be events().size(): now.
  [[nodiscard]] const char* note(std::size_t i) const;
  [[nodiscard]] bool has_overflowed() const;
  // Call while nothing is mounted.
  void forget();

 private:
  struct shared;
  friend struct server;

  settings how_;
  std::string mount_point_, device_;
  shared* shared_ = nullptr;
  char* contents_ = nullptr;
  event* events_ = nullptr;
  char* log_bytes_ = nullptr;
  char* notes_ = nullptr;
  pid_t server_ = 0;
  int loop_ = -1;  // number of the loop device
};

}  // namespace nvm::blocks
