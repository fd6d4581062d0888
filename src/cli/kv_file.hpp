// The file that load reads and export writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/kv_text.hpp"
#include "platform/platform.hpp"

namespace nvm::cli::kv_actions {

// The format from --format, otherwise from the end of the file's name, otherwise CSV.
[[nodiscard]] text_format format_of(const arguments& given, const std::string& file);
// The fields `file` and `format` of an answer.
[[nodiscard]] json file_facts(const std::string& file, text_format format);

// Whether a file to write is this process's standard output, by whatever name.
[[nodiscard]] bool is_standard_output(std::string_view file) noexcept;
// Whether both lead to one file: output would replace what it is read from.
[[nodiscard]] bool is_one_file(const std::string& a, const std::string& b) noexcept;

// A file that is closed at the end, or one of the standard ones.  A written file gets its name when it is complete;
// until then the name still leads to the old file.
class text_file {
 public:
  text_file(const std::string& path, bool write);
  ~text_file() {
    if (owned_ && file_ != nullptr) std::fclose(file_);
    name_.drop(made_);
  }
  text_file(const text_file&) = delete;
  text_file& operator=(const text_file&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return file_ != nullptr; }
  [[nodiscard]] std::FILE* get() const noexcept { return file_; }
  // 0: not a file of known size.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  // The last failure of a member; errno must be the one that it left.
  [[nodiscard]] failure problem() const;
  // True: everything written has reached the file, which has its name from now on.
  [[nodiscard]] bool finish();

 private:
  std::string path_;
  platform::pending_name name_;
  platform::file made_;
  std::FILE* file_ = nullptr;
  bool owned_ = false;
  std::string problem_;
};

}  // namespace nvm::cli::kv_actions
