// Programs that are not an image: runs that may fault or hang, runs of which one call fails, all short histories.
#pragma once

#include "platform/file.hpp"
#include "zoo.hpp"

namespace nvm::zoo {

// `run` as the recovery of an unused image: its verdict counts, as do faults and hangs. It starts afresh each time,
// because the explorer repeats it on a failure.
inline subject guarded(const char* name, std::function<verdict()> run) {
  subject s;
  s.name = name;
  s.image.resize(line_bytes);
  s.run = [](machine& m) { m.promise(); };
  s.recover = [run = std::move(run)](machine&) { return run(); };
  s.oracle = [](machine&, const window&) { return pass(); };
  return s;
}

// The system's calls for files, of which the k-th fails with EIO while explore_failing_calls() says so.
[[nodiscard]] const platform::file_calls* failing_calls();

// Runs the program, whose files use failing_calls(): with all calls as they are, then with the first one failing, the
// second one, ... until it makes fewer.
report explore_failing_calls(const char* name, const std::function<verdict()>& run, const options& o);

// Runs a program through every history of `length` events, each one of names.size(): `run` begins it anew and is given
// the numbers of the events.  Nothing in them may fault.
report every_history(const char* name, std::span<const char* const> names, std::size_t length,
                     const std::function<verdict(std::span<const unsigned>)>& run);

}  // namespace nvm::zoo
