// A file that gets its name when it is whole: the name never leads to an unfinished file, even if the process is killed
// or the machine loses its power.
//
//   1. F file without a name in the folder (O_TMPFILE); where the file system has none, one named
//      `.NAME.holdfast-unfinished`, locked
//   2. F the caller fills and syncs it
//   3. F the name: linkat, or renameat2 without replacement; rename where another file is to be replaced
//   4. | the folder is synced: the name is on the device
//
// A file that a killed process leaves under the temporary name is removed by the next process that makes a file of the
// same name: such a file can be locked, whereas one that is still being made cannot.  So the temporary name is removed
// under the lock only: after it, the name may be that of another process's file.
//
// Threads: none of its own.
#pragma once

#include <string>

#include "base/base.hpp"
#include "platform/file.hpp"

namespace nvm::platform {

// The path to which the symbolic links at `path` lead, whether a file exists there or not; a path that is no link is
// its own answer. errc::system for links in circles, or links that another user has put into a folder for all users.
[[nodiscard]] result<std::string> behind_links(const char* path) noexcept;

// An open file that lies where a new one at `path` would, links followed, and vanishes with its descriptor; where the
// file system needs names, the folder.  No name is made.  errc::not_found without the folder, no_space, system.
[[nodiscard]] result<file> file_for_questions(const char* path) noexcept;

class pending_name {
 public:
  enum class kind {
    none_if_possible,  // until the name is given
    named,             // under temporary(), so that others can open it
  };

  pending_name() noexcept = default;
  pending_name(const pending_name&) = delete;

  // The new file that will become `path`, empty and open for reading and writing.  errc::exists if something has that
  // name (not for replace()), errc::not_found without its folder, errc::busy if another process makes the same file.
  [[nodiscard]] result<file> begin(const char* path, unsigned mode, kind how = kind::none_if_possible) noexcept;

  // Gives the file of begin() its name, durably. errc::exists if another file has got it meanwhile.
  [[nodiscard]] status give(const file& made) noexcept;
  // The same, in place of a file with that name. The contents are synced before.
  [[nodiscard]] status replace(const file& made) noexcept;

  // Removes the temporary name of a file that will get no other.  `made` is open and locked; a file that is closed
  // before keeps the name until the next process makes one.  No effect after give() and replace().  errno stays.
  void drop(const file& made) noexcept;

  // The path with all links followed.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Empty for a file without a name.
  [[nodiscard]] const std::string& temporary() const noexcept { return temporary_; }

 private:
  [[nodiscard]] result<file> begin_named(unsigned mode) noexcept;
  [[nodiscard]] status remove_leftover() noexcept;

  std::string path_, temporary_;
  bool is_there_ = false;  // our file has the temporary name
};

}  // namespace nvm::platform
