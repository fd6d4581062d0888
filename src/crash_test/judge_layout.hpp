// Messages over a socket between the tool and a program that judges crash states.
#pragma once

#include <cstdint>

namespace nvm::layout {

inline constexpr char judge_variable[] = "HOLDFAST_CRASH_JUDGE";  // number of the socket's descriptor
inline constexpr std::uint32_t judge_path_max = 4096;
inline constexpr std::uint32_t judge_message_max = 512;

// From the program, once.
struct judge_greeting {
  std::uint32_t ready;  // 0: it defines no nvm_crash_check
};
// From the tool: the pool to judge.
struct judge_question {
  std::uint32_t path_bytes;
  std::uint32_t seconds_max;
};  // then the path
enum class judge_verdict : std::uint32_t { good, refused, bad, signal, timeout, failed };
// From the program.
struct judge_answer {
  std::uint32_t verdict;  // enum judge_verdict
  std::uint32_t detail;   // exit code or signal
  std::uint32_t message_bytes;
};  // then the message: of the library when it refused the pool, else the end of what was printed on standard error

}  // namespace nvm::layout
