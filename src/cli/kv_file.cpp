// The file that load reads and export writes.
#include "cli/kv_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

namespace nvm::cli::kv_actions {

text_format format_of(const arguments& given, const std::string& file) {
  const std::string name = given.choice("format").value_or("");
  const auto ends = [&](std::string_view end) { return file.ends_with(end); };
  const bool lines = name.empty() ? ends(".jsonl") || ends(".ndjson") || ends(".json") : name == "jsonl";
  return lines ? text_format::json_lines : text_format::csv;
}

json file_facts(const std::string& file, text_format format) {
  return {{"file", file.empty() || file == "-" ? json(nullptr) : json(file)},
          {"format", format == text_format::csv ? "csv" : "jsonl"}};
}

bool is_one_file(const std::string& a, const std::string& b) noexcept {
  struct stat one{};
  struct stat other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

bool is_standard_output(std::string_view file) noexcept {
  return file.empty() || file == "-" || file == "/dev/stdout" || file == "/dev/fd/1" || file == "/proc/self/fd/1";
}

namespace {
// A name of the system's for a descriptor that this process was given: a new file could not take its place.
bool is_descriptor(std::string_view path) noexcept {
  return path == "/dev/stderr" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}
}  // namespace

text_file::text_file(const std::string& path, bool write) : path_{path} {
  if (write ? is_standard_output(path) : path.empty() || path == "-") {
    file_ = write ? stdout : stdin;
    return;
  }
  owned_ = true;
  if (write && is_descriptor(path)) {
    file_ = std::fopen(path.c_str(), "ab");  // after what is there
    return;
  }
  struct stat there{};
  const bool replaces = ::stat(path.c_str(), &there) == 0;
  if (!write || (replaces && !S_ISREG(there.st_mode))) {  // a pipe, a device
    file_ = std::fopen(path.c_str(), write ? "wb" : "rb");
    return;
  }
  ::signal(SIGXFSZ, SIG_IGN);  // exceeding the limit of a file's size is then an ordinary error
  auto begun = name_.begin(path.c_str(), 0666, platform::pending_name::kind::named);
  if (!begun) {
    problem_ = last_message();
    return;
  }
  made_ = std::move(*begun);
  if (replaces) {
    // Nobody may read it who could not read the old one: a group that cannot be given is given nothing.
    const bool is_ours = there.st_uid == ::geteuid() && there.st_gid == ::getegid();
    const bool same = is_ours || ::fchown(made_.descriptor(), there.st_uid, there.st_gid) == 0;
    if (::fchmod(made_.descriptor(), there.st_mode & (same ? 07777 : 0700)) != 0) {
      problem_ = std::strerror(errno);
      return;
    }
  }
  file_ = std::fopen(name_.temporary().c_str(), "wb");
}

std::uint64_t text_file::bytes() const noexcept {
  struct stat s{};
  return ::fstat(::fileno(file_), &s) == 0 && S_ISREG(s.st_mode) ? static_cast<std::uint64_t>(s.st_size) : 0;
}

failure text_file::problem() const {
  return {exit_internal, path_.empty() || path_ == "-" ? "standard input" : path_, "NVM_E_SYSTEM",
          problem_.empty() ? std::strerror(errno) : problem_};
}

bool text_file::finish() {
  if (!owned_) return std::fflush(file_) == 0;
  const bool failed = std::ferror(file_) != 0;
  const int closed = std::fclose(file_);
  file_ = nullptr;
  if (failed || closed != 0) return false;
  if (!made_ || name_.replace(made_)) return true;
  problem_ = last_message();
  return false;
}

}  // namespace nvm::cli::kv_actions
