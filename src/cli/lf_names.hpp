// Names of kinds of lock-free structures on the command line.
#pragma once

#include <string_view>

namespace nvm::cli {

inline constexpr std::string_view kind_names[] = {"", "list", "hash", "skiplist", "tree"};  // by enum nvm_lf_kind

}  // namespace nvm::cli
