// What the server says to those who run it: lines on standard error, or in the file of --log. Any thread.
#pragma once

#include <string>

namespace nvm::server {

// A line; in a file it begins with the time.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) noexcept;

// Lines go to the end of that file from now on; also to be called again, after somebody has moved it. False: it cannot
// be had, see errno, and lines go where they went.
[[nodiscard]] bool open_log(const std::string& path) noexcept;

}  // namespace nvm::server
