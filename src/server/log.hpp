// Messages of the server to its operators: lines on standard error, or in the file of --log. Any thread.
#pragma once

#include <string>

namespace nvm::server {

// A line; in a file it begins with the time.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) noexcept;

// Appends later lines to that file; called again after the file was moved. False: the file cannot be opened (errno),
// and lines go where they went before.
[[nodiscard]] bool open_log(const std::string& path) noexcept;

}  // namespace nvm::server
