// Door of crash tests: explores the crash states of a recorded program, or of an imported store log, and says what is
// wrong with them.
//
// Stages, while the budget lasts, for each model of persistency:
//   1. program order, nothing but what is guaranteed, pairs, at every crash point, judged by the library itself
//   2. a sample of the same states, as many as the time allows, judged by the user's command or nvm_crash_check()
//   3. all tiers, judged by the library
// Findings of the same kind at the same place are one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "explore/explore.hpp"

namespace nvm::crash_test {

struct settings {
  std::vector<std::string> program;  // with its arguments, {pool} among them: a file of ours
  std::string check;                 // shell command, {pool} is the state's file
  std::string recover;               // run before it
  std::vector<explore::model> models{explore::model::x86, explore::model::torn8};
  double seconds = 20;        // of exploration
  double check_seconds = 10;  // for one run of a check
  std::uint64_t seed = 1;
  bool own_check = true;  // the library's judgement
  std::string replay;     // token
  std::string trace;      // file to keep the trace in; without a program: file to read it from
  std::string pmemcheck;  // store log in place of a program
  std::string image;      // and the file's content when it began
  std::string file;       // the one to take if the log registers several
};

struct finding {
  std::string kind;  // store-outside, store-unlogged, store-late, contents, structure, check, ...
  std::string what;  // one line; of one place always the same
  std::string file;  // of the store that is to blame; empty: not known
  std::uint32_t line = 0;
  std::string function;
  std::string details;  // lines
  std::string token;    // replays the state; empty: the trace alone shows it
  std::string model;
  std::string output;  // how the program's own output shows it, if that was tried
  std::uint64_t states = 0;
  std::uint64_t states_before = 0;  // tried before it was found
  double seconds = 0;               // after the start, recording included
};

struct outcome {
  std::string problem;     // why nothing could be tested; empty: it was
  bool wrong_use = false;  // the user's to mend
  std::vector<finding> findings;
  std::vector<std::string> notes;
  std::string program_ending;  // "exit code 0"
  std::uint64_t sessions = 0;
  std::uint64_t threads = 0;
  std::uint64_t transactions = 0;
  std::uint64_t stores = 0;
  std::uint64_t events = 0;
  std::uint64_t states = 0;          // judged by the library
  std::uint64_t states_outside = 0;  // judged by the user's check
  double record_seconds = 0;
  double explore_seconds = 0;
  bool budget_spent = false;
};

// What goes on, for a caller that watches.
struct observer {
  std::function<void(const finding&)> found;
  std::atomic<double>* share = nullptr;
};

[[nodiscard]] outcome run(const settings& s, const observer& watch);

}  // namespace nvm::crash_test
