// Scratch folders, child processes and small pools for the tests of pool/.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../direct_place.hpp"
#include "pool/pool.hpp"

namespace nvm::testing {

// Where syncs cost nothing; named media work in either place.
inline std::string memory_folder() {
  const char* const folder = tests::direct_folder();
  return std::filesystem::is_directory(folder) ? folder : std::filesystem::temp_directory_path().string();
}

// A folder that goes away with the object.  `where`: default the system's temporary folder.
class scratch {
 public:
  explicit scratch(std::string where = std::filesystem::temp_directory_path().string()) {
    std::string name = where + "/holdfast-pool-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
  }
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  scratch(const scratch&) = delete;
  [[nodiscard]] std::string path(const std::string& name = "a.nvm") const { return folder_ + "/" + name; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

inline std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  std::vector<std::byte> out(std::filesystem::file_size(path));
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
  return out;
}
inline void put_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::filesystem::permissions(path, std::filesystem::perms{0600});
}

// As cp --sparse=always does: blocks of zeros are left out.
inline void copy_with_holes(const std::string& from, const std::string& to) {
  constexpr std::size_t block = 4096;
  const std::vector<std::byte> bytes = bytes_of(from);
  std::ofstream out{to, std::ios::binary};
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    const std::size_t n = std::min(block, bytes.size() - at);
    if (std::all_of(&bytes[at], &bytes[at] + n, [](std::byte b) { return b == std::byte{}; })) continue;
    out.seekp(static_cast<std::streamoff>(at));
    out.write(reinterpret_cast<const char*>(&bytes[at]), static_cast<std::streamsize>(n));
  }
  out.close();
  EXPECT_TRUE(out.good());
  std::filesystem::resize_file(to, bytes.size());
  std::filesystem::permissions(to, std::filesystem::perms{0600});
}

// Runs f in a child; its exit code (f's result), or 1000 + the signal that killed it.
template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(f());
  int wait_status = 0;
  if (::waitpid(pid, &wait_status, 0) != pid) return -1;
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1000 + WTERMSIG(wait_status);
}

// One chunk of data in a file anywhere: medium shm needs no more than a shared mapping.
inline pool_create_options small_pool(std::uint32_t medium = NVM_MEDIUM_SHM) {
  pool_create_options o;
  o.size_bytes = 256 * 1024;
  o.capacity_bytes = 4 * 1024 * 1024;
  o.medium = medium;
  o.lanes = medium == NVM_MEDIUM_SSD ? 0 : 2;
  o.log_bytes = medium == NVM_MEDIUM_SSD ? 64 * 1024 : 4096;
  return o;
}
inline pool_open_options on_medium(std::uint32_t medium, bool read_only = false) {
  pool_open_options o;
  o.medium = medium;
  o.read_only = read_only;
  return o;
}

// The file of a small pool that was closed properly.
inline std::vector<std::byte> closed_pool(const std::string& path, std::uint32_t medium = NVM_MEDIUM_SHM) {
  auto pool = pool_file::create(path.c_str(), small_pool(medium));
  if (!pool || !(*pool)->close()) ADD_FAILURE() << last_message();
  return bytes_of(path);
}

inline bool message_has(const char* text) { return std::string{last_message()}.find(text) != std::string::npos; }
#define EXPECT_MESSAGE(text) EXPECT_TRUE(::nvm::testing::message_has(text)) << ::nvm::last_message()

// Medium whose fences do nothing, for what happens to be tested on a file.
struct plain_media {
  static constexpr bool atomic_batches = false;
  struct batch {
    void add(const void*, std::size_t) noexcept {}
    void clear() noexcept {}
  };
  void flush(const void*, std::size_t, site = site::here()) noexcept {}
  void fence(edge) noexcept {}
  [[nodiscard]] lsn_t last_lsn() noexcept { return 0; }
  status durable(lsn_t) noexcept { return {}; }
};
static_assert(media<plain_media>);

}  // namespace nvm::testing
