// Command line that all benchmark programs share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/emulation.hpp"

namespace nvm::bench {

struct options {
  bool quick = false;  // the size for CI: seconds, and numbers that mean little
  unsigned runs = 0;   // repetitions of each system
  std::vector<unsigned> threads;
  std::string filter;             // parts of names, separated by commas, or whole ones after "="; empty: all
  std::string systems;            // parts of names, by commas; empty: all but variants
  std::string json;               // file for the results; empty: none
  std::string directory;          // where pools and files are made
  std::uint64_t records = 0;      // of tables
  std::uint64_t megabytes = 0;    // of data; 0: what each benchmark takes by itself
  std::uint64_t ops = 0;          // of a thread in a repetition; 0: as many as suit the benchmark
  bool limits = true;             // whether the machine's limits run beside the systems
  std::uint64_t count_steps = 0;  // instructions stepped for the counts of each system; 0: no counts
  std::string emulated = "none";  // name of the settings that follow
  emulation slower;               // of byte-addressable media

  template <class T>
  T full_or_quick(T full, T small) const noexcept {
    return quick ? small : full;
  }
  bool selects(const std::string& name) const;
  bool selects_system(const std::string& name) const;
};

// What a program does when the command line leaves it open.
struct defaults {
  std::string question;  // for --help
  std::string directory;
  std::vector<unsigned> threads;
  unsigned runs = 9;
  std::uint64_t records = 1'000'000;
  std::uint64_t quick_records = 100'000;
  // Settings for emulated memory by their name; throws for a name that there is not. None: no emulation.
  std::function<emulation(const std::string&)> emulations = nullptr;
};

// Reads the command line; exits with a message on --help or an error. Before that it makes sure that the environment
// tells libpmem to use processor instructions on /dev/shm (PMEM_IS_PMEM_FORCE=1), and that the library by which
// libpmemobj waits as long as emulated memory does is loaded if that is asked for: it runs the program anew if need be,
// for libraries read their environment when they are loaded.
options parse_options(int argc, char** argv, const defaults& fallback);

}  // namespace nvm::bench
