// The bug zoo: known crash-consistency bugs as minimal programs, each with a correct twin.
//
// An entry is caught when the buggy program gives what the entry expects, images that recovery or oracle reject or
// broken trace rules, and the correct twin gives neither.  Numbers and titles are those of the project's list of bug
// patterns (docs/design/003-crash-explorer.md).
//
// Three ways to look for a bug, all of which end in a report: the crashes of one program, the crashes of every schedule
// of its threads, and a hunt, which explores a family of programs or does something of its own.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "explore/concurrent.hpp"
#include "explore/explore.hpp"

namespace nvm::zoo {

using explore::concurrent;
using explore::fault;
using explore::finding;
using explore::machine;
using explore::options;
using explore::pass;
using explore::report;
using explore::subject;
using explore::verdict;
using explore::window;

enum class twin : bool { correct, buggy };
[[nodiscard]] constexpr bool is_buggy(twin t) noexcept { return t == twin::buggy; }

struct entry {
  unsigned number;
  const char* title;
  // One of these three.
  subject (*make)(twin) = nullptr;
  concurrent (*threads)(twin) = nullptr;
  report (*hunt)(twin, const options&) = nullptr;
  unsigned preemptions = 1;                // of `threads`, enough to find it
  bool shows_in_images = true;             // exploring finds a bad image
  std::vector<finding::rule> breaks = {};  // trace rules that the buggy twin breaks
  unsigned tiers = explore::all_tiers;     // enough to find it
  unsigned nesting = 0;                    // likewise
  explore::model persistency = explore::model::x86;
  bool rmw_fences = false;
  bool instructions = false;
  bool correct_on_torn8 = true;  // the correct twin relies on nothing that x86 alone gives
  const char* needs = nullptr;   // processor feature, or nullptr
};

// Tiers that suffice.
inline constexpr unsigned t1 = explore::t1_program_order;
inline constexpr unsigned t1_t2 = t1 | explore::t2_all_low;
inline constexpr unsigned t1_t3 = t1_t2 | explore::t3_pairs;

std::span<const entry> order_entries();        // A: flush, fence, stores
std::span<const entry> transaction_entries();  // B: transactions and logs
std::span<const entry> log_entries();          // B: rings, records, checkpoints
std::span<const entry> allocator_entries();    // C: allocators
std::span<const entry> collector_entries();    // C: garbage collectors, ownership of blocks
std::span<const entry> collection_entries();   // F: a collector of one store beside transactions
std::span<const entry> counting_entries();     // C: reference counts, weak pointers
std::span<const entry> concurrency_entries();  // D: threads, processes
std::span<const entry> structure_entries();    // D: what threads leave behind, structures of several words
std::span<const entry> recovery_entries();     // E: recovery, logs and replicas that it meets
std::span<const entry> lifecycle_entries();    // E: creation, opening, upgrades, growth, closing
std::span<const entry> file_entries();         // F: files, mappings, time
std::span<const entry> device_entries();       // F: devices that fail, lie, or are full
std::span<const entry> store_entries();        // F: object stores, their clusters and lists
std::span<const entry> names_entries();        // F: names of object stores
std::span<const entry> tier_entries();         // F: pages that leave for a second file
std::span<const entry> trim_entries();         // F: pages that go back to the file system
std::span<const entry> region_entries();       // F: regions, their records and replicas
std::span<const entry> relocation_entries();   // F: pools that open at another address

template <class T>
T& image_of(machine& m) {
  return *reinterpret_cast<T*>(m.base());
}

// A subject whose image is one object of type T, zeroed.
template <class T, class Run, class Oracle>
subject on(const char* name, Run run, Oracle oracle) {
  subject s;
  s.name = name;
  s.image.resize((sizeof(T) + 63) / 64 * 64);
  s.run = [=](machine& m) { run(m, image_of<T>(m)); };
  s.recover = [](machine&) { return pass(); };
  s.oracle = [=](machine& m, const window& w) { return oracle(std::as_const(image_of<T>(m)), w); };
  return s;
}

// ---- hunts ----------------------------------------------------------------------------------------------------------

// What a hunt of its own found in `tried` trials.
inline report judged(const char* name, std::uint64_t tried, const verdict& wrong) {
  report r;
  r.subject = name;
  r.unique_states = tried;
  if (!wrong) return r;
  r.bad_states = 1;
  explore::violation v;
  v.what = *wrong;
  v.report = std::string{name} + ": " + *wrong + '\n';
  r.violations.push_back(std::move(v));
  return r;
}

// The crashes of make(0), make(1), ... up to the first that shows something: a start from each value at which numbers
// wrap, a failure of each call.
template <class Make>
report explore_each(std::size_t count, Make make, const options& o) {
  report all;
  for (std::size_t i = 0; i < count && !all.finds_violation(); ++i) all.add(explore::explore(make(i), o));
  return all;
}

// Hostile bytes: the good image, each of its bits turned, and each of its words replaced by a value that programs get
// wrong.  Recovery may refuse, and has written nothing then; it may not fault or run for ever; what it accepts, the
// oracle must accept.  `s.run` is not used.
inline report explore_hostile_bytes(const subject& s, const options& o) {
  static constexpr std::array<std::uint64_t, 8> values{
      0, 1, 0x7FFF'FFFF, 0xFFFF'FFFF, INT64_MAX, std::uint64_t{1} << 63, UINT64_MAX - 7, UINT64_MAX};
  const std::size_t bits = s.image.size() * 8;
  const auto hostile = [&](std::size_t i) {
    subject one = s;
    if (i < bits) {
      one.image[i / 8] ^= std::byte(1U << i % 8);
    } else if (const std::size_t k = i - bits; k < s.image.size() / 8 * values.size()) {
      std::memcpy(&one.image[k / values.size() * 8], &values[k % values.size()], 8);
    }
    const auto refused = std::make_shared<bool>();
    one.run = [](machine& m) { m.promise(); };
    one.recover = [refused, recover = s.recover](machine& m) {
      *refused = recover(m).has_value();
      return pass();
    };
    one.oracle = [refused, image = one.image, oracle = s.oracle](machine& m, const window& w) -> verdict {
      if (!*refused) return oracle(m, w);
      return std::memcmp(m.base(), image.data(), image.size()) == 0 ? pass() : fault("refused, and written to");
    };
    return one;
  };
  return explore_each(bits + s.image.size() / 8 * values.size() + 1, hostile, o);
}

}  // namespace nvm::zoo
