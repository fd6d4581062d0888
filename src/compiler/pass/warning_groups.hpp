// The groups of warnings of holdfast-cc, and their levels by -W[no-]nvm-..., -Werror=nvm-... and -Wno-error=nvm-...
//
// No LLVM in here: the driver knows the same names.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace nvm::compiler {

enum class warning_group : unsigned {
  plain_pointer,
  volatile_pointer,
  type_id,
  library_type,
  unlogged,  // stores of functions that came compiled
  lock,      // locks in durable memory
  assembly   // stores of assembly that no instruction of a function holds
};
inline constexpr std::array<const char*, 7> warning_names = {"nvm-plain-pointer", "nvm-volatile-pointer", "nvm-type-id",
                                                             "nvm-library-type",  "nvm-unlogged",         "nvm-lock",
                                                             "nvm-assembly"};

// As for Clang's own warnings: `usual` follows -Werror, and of library types it is an error.
enum class warning_level { usual, off, warning, error };

class warning_levels {
 public:
  // An argument without its first dash, the last one counts; false: it names no group.
  bool take(std::string_view argument) {
    const auto is = [&](std::string_view beginning) {
      if (argument.substr(0, beginning.size()) != beginning) return false;
      argument.remove_prefix(beginning.size());
      return true;
    };
    const warning_level level = is("Wno-error=") ? warning_level::warning
                                : is("Werror=")  ? warning_level::error
                                : is("Wno-")     ? warning_level::off
                                                 : warning_level::usual;
    if (level == warning_level::usual && !is("W")) return false;
    bool known = false;
    for (std::size_t i = 0; i < warning_names.size(); ++i) {
      if (argument != "nvm" && argument != warning_names[i]) continue;
      levels_[i] = level;
      known = true;
    }
    return known;
  }
  [[nodiscard]] warning_level of(warning_group g) const { return levels_[static_cast<unsigned>(g)]; }

 private:
  std::array<warning_level, warning_names.size()> levels_{};
};

// The end of a warning's text.
[[nodiscard]] inline std::string warning_mark(warning_group g, bool made_error) {
  return std::string{" [-W"} + (made_error ? "error,-W" : "") + warning_names[static_cast<unsigned>(g)] + "]";
}

}  // namespace nvm::compiler
