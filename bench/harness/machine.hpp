// What a number was measured on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nvm::bench {

// Processor, kernel, compiler, commit, the file system of `directory`, and what memory is emulated; and how busy the
// machine was before.
nlohmann::ordered_json describe_machine(const std::string& directory, const std::string& emulated);

// "tmpfs", "ext4" ...: the type of the file system that holds `path`.
std::string file_system_of(const std::string& path);

}  // namespace nvm::bench
