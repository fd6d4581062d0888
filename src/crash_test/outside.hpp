// Judges outside this process: a shell command, or the recorded program itself through its nvm_crash_check().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::crash_test {

// A directory of our own, on tmpfs if there is one. It is removed with the files that we put there, also when the
// process is interrupted.
class scratch {
 public:
  // nullopt with the reason.
  [[nodiscard]] static std::optional<scratch> make(std::string& problem);
  scratch(scratch&& other) noexcept : path_{std::move(other.path_)} { other.path_.clear(); }
  scratch& operator=(scratch&&) = delete;
  ~scratch();
  [[nodiscard]] std::string file(std::string_view name) const { return path_ + "/" + std::string{name}; }
  // The names that may be used.
  static constexpr const char* trace = "trace";
  static constexpr const char* pool = "pool.nvm";
  static constexpr const char* candidate = "candidate.nvm";

 private:
  explicit scratch(std::string path) : path_{std::move(path)} {}
  std::string path_;
};

// How a program ended.
struct ending {
  enum class how : std::uint8_t { exited, signalled, late, not_started };
  how what = how::not_started;
  int code = 0;        // exit code or signal
  std::string output;  // standard output, as much of it as was wanted
  std::string errors;  // the end of standard error, or why it did not start
  [[nodiscard]] bool good() const noexcept { return what == how::exited && code == 0; }
  // "exit code 3".
  [[nodiscard]] std::string text() const;
};

// For a program that opens a state: the state is an image of a pool that was in use, in a file of its own.
inline constexpr const char* accepts_copies = "HOLDFAST_ACCEPT_COPY=1";

struct run_options {
  std::vector<std::string> environment;  // NAME=VALUE, added
  double seconds_max = 0;                // 0: no limit
  std::size_t output_max = 0;            // bytes of standard output that are kept; the rest is read and dropped
  bool errors_pass = false;              // standard error is ours
};
[[nodiscard]] ending run_program(const std::vector<std::string>& arguments, const run_options& o);

// A file with the content of an image, mapped, so that putting the next image there costs a comparison.
class candidate_file {
 public:
  // nullopt with the reason.
  [[nodiscard]] static std::optional<candidate_file> make(const std::string& path, std::uint64_t image_bytes,
                                                          std::string& problem);
  candidate_file(candidate_file&& other) noexcept;
  candidate_file& operator=(candidate_file&&) = delete;
  ~candidate_file();
  // `length`: of the file, at least that of the image.  False: there is no room.
  [[nodiscard]] bool put(const std::byte* image, std::uint64_t length);
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  candidate_file(std::string path, int descriptor, std::byte* base, std::uint64_t bytes)
      : path_{std::move(path)}, descriptor_{descriptor}, base_{base}, bytes_{bytes} {}
  std::string path_;
  int descriptor_;
  std::byte* base_;
  std::uint64_t bytes_;
};

// Finding of a judge; nullopt: none. `what` is the same for each failure of a kind, `message` is this one's own.
struct objection {
  std::string what;
  std::string message;
};

class outside_judge {
 public:
  virtual ~outside_judge() = default;
  virtual std::optional<objection> judge(const std::string& path) = 0;
};

// `command` for the shell; {pool} in it is replaced by the path.
[[nodiscard]] std::string with_pool(std::string_view command, const std::string& path, bool quoted);

class command_judge final : public outside_judge {
 public:
  command_judge(std::string recover, std::string check, double seconds_max)
      : recover_{std::move(recover)}, check_{std::move(check)}, seconds_max_{seconds_max} {}
  std::optional<objection> judge(const std::string& path) override;

 private:
  std::string recover_, check_;
  double seconds_max_;
};

class program_judge final : public outside_judge {
 public:
  // nullptr if the program defines no nvm_crash_check().
  [[nodiscard]] static std::unique_ptr<program_judge> start(const std::vector<std::string>& program,
                                                            double seconds_max);
  ~program_judge() override;
  std::optional<objection> judge(const std::string& path) override;

 private:
  program_judge(pid_t process, int socket, double seconds_max)
      : process_{process}, socket_{socket}, seconds_max_{seconds_max} {}
  pid_t process_;
  int socket_;
  double seconds_max_;
};

}  // namespace nvm::crash_test
