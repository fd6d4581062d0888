// What a benchmark is: one question, asked of several systems with the same operations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nvm::bench {

// What a library says that it has done, all its threads together, since it was set up.
struct library_counts {
  std::uint64_t fences = 0;
  std::uint64_t lines = 0;        // written back
  std::uint64_t dirty_bytes = 0;  // of those lines, what was asked to be written back: what has changed at most
  std::uint64_t logged_bytes = 0;
};

// What a system that works tells of itself.
class observed {
 public:
  observed() = default;
  virtual ~observed() = default;
  observed(const observed&) = delete;
  observed& operator=(const observed&) = delete;

  // Bytes written to logs so far, headers included; nothing if the system cannot tell.
  virtual std::optional<std::uint64_t> bytes_logged() { return std::nullopt; }
  // Transactions that were rolled back and run again so far.
  virtual std::uint64_t aborts() { return 0; }
  // Nothing if the library does not count, or was not asked to (see system_under_test::make_counting).
  virtual std::optional<library_counts> counts() { return std::nullopt; }
};

// A `Base` that has all that from what it works on, which Self::memory() gives.
template <class Self, class Base>
class told_by_memory : public Base {
 public:
  std::optional<std::uint64_t> bytes_logged() override { return memory().bytes_logged(); }
  std::uint64_t aborts() override { return memory().aborts(); }
  std::optional<library_counts> counts() override { return memory().counts(); }

 private:
  auto& memory() { return static_cast<Self*>(this)->memory(); }
};

// One system, set up for one benchmark and ready to run.
//
// A virtual class, not a concept: the harness calls it once for thousands of operations, so a virtual call costs
// nothing that can be measured, and which systems take part is decided by command line and by what is installed. What
// is called once an operation (log, alloc, commit) is a template over the system instead, see systems/heaps.hpp.
//
// Operations have numbers. Operation i of thread t is the same for every system, however the numbers are cut into
// calls.
class contestant : public observed {
 public:
  // Untimed, on the thread that will run them: gets ready for operations [first, first + ops).
  virtual void prepare(unsigned /*thread*/, std::uint64_t /*first*/, std::uint64_t /*ops*/) {}
  // Timed. Does operations [first, first + ops) of `thread`; throws when one fails.
  virtual void run(unsigned thread, std::uint64_t first, std::uint64_t ops) = 0;
  // False for an operation that changes nothing durable: counting passes over it, so that rare writes are seen at all.
  virtual bool writes(unsigned /*thread*/, std::uint64_t /*operation*/) { return true; }
  // Hash of what all operations read and left behind. 0: this system does no work that could be compared.
  virtual std::uint64_t work_digest() = 0;
};

enum class role {
  subject,  // Holdfast, and variants of its use
  variant,  // the same, measured only if --systems asks for it; a subject then
  peer,     // who it is compared with
  limit     // what the machine can do; made by the runner
};

struct system_under_test {
  std::string name;
  bench::role role;
  std::function<std::unique_ptr<contestant>()> make;
  // The same with the library's own counting switched on, which may slow it down: it does the warm-up and one
  // repetition before the timed ones, and is gone when they begin. None: the system is counted by stepping only.
  std::function<std::unique_ptr<contestant>()> make_counting = nullptr;
};

// The durable bytes that an operation cannot do without, for the machine's limit: `pieces` places chosen at random in
// the footprint, each of `lines_per_piece` lines in a row.
struct payload_shape {
  double pieces;  // on average: 0.5 where every other operation writes
  std::uint64_t lines_per_piece;
  std::uint64_t footprint_bytes;  // of each thread
};

struct benchmark {
  std::string name;  // "sps-8", without the number of threads
  std::string unit;  // what a time is of: "swap"
  std::uint64_t units_per_op = 1;
  unsigned threads = 1;
  std::uint64_t ops = 0;  // of each thread in a repetition
  std::uint64_t warmup_ops = 0;
  // A repetition does its operations again, as a whole, until it has taken as long: so that what a system does now and
  // then is part of it. Done again they leave the same behind.
  double seconds_min = 0;
  bool latency = false;       // time each operation by itself, for percentiles
  bool latency_last = false;  // the same in one more repetition after the others, which are timed as a whole
  // None: no limit is measured, no instructions are counted.
  std::optional<payload_shape> payload;
  nlohmann::ordered_json parameters;
  std::vector<system_under_test> systems;
};

}  // namespace nvm::bench
