// What a number was measured on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nvm::bench {

// Processor, kernel, compiler, commit, and the file system of `directory`.
nlohmann::ordered_json describe_machine(const std::string& directory);

// "tmpfs", "ext4" ...: the type of the file system that holds `path`.
std::string file_system_of(const std::string& path);

}  // namespace nvm::bench
