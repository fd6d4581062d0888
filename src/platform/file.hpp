// One open file: everything a pool does to its file except mapping it.
//
// Reads and writes are whole or an error: interrupted and short calls are continued.  Each system call goes through a
// table that tests replace to make the k-th call fail, be short or be interrupted. A failed sync is never repeated: the
// kernel may have dropped the pages, so that a second, successful sync proves nothing.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/base.hpp"

namespace nvm::platform {

// Results and errno are those of the call of the same name.
struct file_calls {
  int (*open)(const char* path, int flags, unsigned mode);  // never 0, 1 or 2 (descriptor.hpp)
  int (*close)(int descriptor);
  ssize_t (*pread)(int descriptor, void* to, std::size_t bytes, off_t offset);
  ssize_t (*pwrite)(int descriptor, const void* from, std::size_t bytes, off_t offset);
  int (*fdatasync)(int descriptor);
  int (*fsync)(int descriptor);
  int (*fallocate)(int descriptor, int mode, off_t offset, off_t bytes);
  int (*ftruncate)(int descriptor, off_t bytes);
  int (*fstat)(int descriptor, struct ::stat* out);
  int (*lock)(int descriptor, struct ::flock* range);               // F_OFD_SETLK
  int (*lock_test)(int descriptor, struct ::flock* range);          // F_OFD_GETLK
  int (*link)(int descriptor, const char* path);                    // linkat of an open file that has no name
  int (*rename)(const char* from, const char* to, unsigned flags);  // renameat2
};
[[nodiscard]] const file_calls& system_file_calls() noexcept;
// Replaces the table for the whole process, for tests; nullptr: the system's again.
void use_file_calls(const file_calls*) noexcept;

enum class file_system_kind : std::uint8_t {
  tmpfs,  // memory of this boot
  dax,    // the file's pages are the device's memory
  other,  // with a page cache
};

// What the system knows about a file.
struct file_facts {
  std::uint64_t device = 0;  // with `inode`: identity of the file, whatever its name
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocated_bytes = 0;  // less than `bytes` if there are holes
  std::uint32_t owner = 0;            // user id
  std::uint32_t mode = 0;             // permission bits
  bool regular = false;
  std::uint32_t block_bytes = 0;  // of a file in memory: of its huge pages, if it may have such
};

// Identity that tells a file from its copies, for as long as it exists.
struct file_identity {
  enum class how : std::uint8_t {
    unknown,   // the system does not say
    changing,  // its file system invents numbers: FUSE, SMB, 9P, FAT
    certain,
  };
  how known = how::unknown;
  std::uint64_t inode = 0;
  std::uint64_t birth_ns = 0;  // since 1970; 0: the file system does not keep it
};

class file {
 public:
  // `flags` as open(2); close-on-exec is added.  errc::not_found, errc::exists, errc::no_space or errc::system (errno
  // is kept).  `calls` serves this file alone, nullptr: the process's table.
  [[nodiscard]] static result<file> open(const char* path, int flags, unsigned mode = 0600,
                                         const file_calls* calls = nullptr) noexcept;

  // A file without a name in memory, of zeros that take none; the system shows `name` in lists of mappings.
  // errc::system, no_space.
  [[nodiscard]] static result<file> in_memory(const char* name, std::uint64_t bytes) noexcept;

  // Opens the same file again for reading and writing, with its own record of failed write-backs: the kernel tells each
  // open file description of a failure once, by the next sync through it.  `path` is used without /proc.
  [[nodiscard]] result<file> open_again(const char* path) const noexcept;

  file() noexcept = default;
  file(file&& other) noexcept : descriptor_{other.descriptor_}, calls_{other.calls_} { other.descriptor_ = -1; }
  file& operator=(file&& other) noexcept;
  ~file() { close(); }

  // errc::corrupt if the file ends before `bytes` are read, errc::io on a device error.
  [[nodiscard]] status read(std::uint64_t offset, void* to, std::size_t bytes) const noexcept;
  // errc::no_space on a full device or quota, and beyond the process's limit (RLIMIT_FSIZE), whose signal is not
  // raised; errc::io otherwise.
  [[nodiscard]] status write(std::uint64_t offset, const void* from, std::size_t bytes) const noexcept;
  // Makes the bytes, and the metadata that reading them needs, durable on the device.
  [[nodiscard]] status sync_data() const noexcept;
  // The same with all other metadata of the file, or with the entries of a directory.
  [[nodiscard]] status sync_all() const noexcept;
  // Makes [offset, offset + bytes) exist, with space of its own, growing the file if needed: later
  // stores and writes there find no full device.  Contents already there stay.
  [[nodiscard]] status allocate(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  [[nodiscard]] status truncate(std::uint64_t bytes) const noexcept;
  // Gives the space of the range back: it reads as zeros, and the file keeps its length.
  [[nodiscard]] status punch(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  // The first byte from `offset` on that is in no hole; the file's length if there is none.
  [[nodiscard]] result<std::uint64_t> next_data(std::uint64_t offset) const noexcept;
  // The first byte from `offset` on that is in a hole; `offset` itself is in none.
  [[nodiscard]] result<std::uint64_t> next_hole(std::uint64_t offset) const noexcept;
  [[nodiscard]] result<std::uint64_t> size() const noexcept;
  [[nodiscard]] result<file_facts> facts() const noexcept;
  [[nodiscard]] file_identity identity() const noexcept;
  [[nodiscard]] result<file_system_kind> file_system() const noexcept;

  // Takes the exclusive lock on the whole file for this open file description; it ends with the descriptor, also when
  // the process dies. errc::busy if another has it.
  [[nodiscard]] status lock_exclusive() const noexcept;
  // The same, compatible with other shared locks; the file may be open for reading only.
  [[nodiscard]] status lock_shared() const noexcept;
  // Gives the lock up for every descriptor of this open file description, also a forked child's.
  void unlock() const noexcept;
  // True if another open file description holds the exclusive lock.
  [[nodiscard]] result<bool> locked_elsewhere() const noexcept;

  // Whether `path`, or the target of a link there, is the file of these facts.
  [[nodiscard]] static bool is_at(const char* path, const file_facts& facts) noexcept;
  // Whether `path` itself, not the target of a link there, names this file.
  [[nodiscard]] bool has_name(const char* path) const noexcept;
  // Removes the name `path` if it still names this file.
  void remove_name(const char* path) const noexcept;
  // Gives the file its name (pending_name.hpp); 0, or -1 and errno.
  [[nodiscard]] int give_name(const char* path) const noexcept;
  [[nodiscard]] static int rename(const char* from, const char* to, unsigned flags) noexcept;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  // A failure of the close does not matter: everything that must survive was synced before.
  void close() noexcept;

 private:
  file(int descriptor, const file_calls* calls) noexcept : descriptor_{descriptor}, calls_{calls} {}
  [[nodiscard]] const file_calls& calls() const noexcept;
  [[nodiscard]] status lock(short type) const noexcept;
  [[nodiscard]] status may_reach(std::uint64_t end) const noexcept;

  int descriptor_ = -1;
  const file_calls* calls_ = nullptr;
};

// Makes the directory entry of `path` durable.
[[nodiscard]] status sync_directory_of(const char* path) noexcept;

}  // namespace nvm::platform
