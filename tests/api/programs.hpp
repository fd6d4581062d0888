// Programs as processes: what one knows of types it knows for good.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "../object/sample_types.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {

// Runs `program` as a process that knows these types; it returns what went wrong, empty: nothing.
inline void as_program(const std::vector<type_description>& types, const std::function<std::string()>& program) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    type_map_writer w;
    for (const auto& t : types) w.add(t);
    const auto words = w.finish();
    std::string wrong;
    if (!types.empty() && nvm_register_types(words.data(), words.size() * 8) != 0) wrong = nvm_errormsg();
    if (wrong.empty()) wrong = program();
    const ssize_t n = ::write(told[1], wrong.data(), wrong.size());
    ::_exit(n == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  ::close(told[1]);
  std::string wrong;
  char buffer[512];
  for (ssize_t n; (n = ::read(told[0], buffer, sizeof buffer)) > 0;) wrong.append(buffer, static_cast<std::size_t>(n));
  ::close(told[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(wrong, "");
}

inline std::string equal(const std::string& found, const std::string& expected) {
  return found == expected ? "" : "found '" + found + "', expected '" + expected + "'";
}
inline std::string check(const std::string& path) {
  std::string findings;
  const auto n = nvm_pool_check(
      path.c_str(),
      [](std::uint64_t at, const char* text, void* all) {
        *static_cast<std::string*>(all) += std::to_string(at) + ": " + text + "\n";
      },
      &findings, nullptr);
  return n == 0 ? "" : n < 0 ? nvm_errormsg() : findings;
}

}  // namespace nvm::tests
