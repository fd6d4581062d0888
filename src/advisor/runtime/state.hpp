// What the run-time of profiled programs keeps: counters of each thread, sites and their totals, the clock.
//
// Threads.  Counts of accesses are the thread's own and are added up at the end. A site's totals are under its lock,
// the tables of sites and of edges under one lock each. Allocation and release take these locks, an access takes none.
// A thread that ends leaves its counters to the next one that begins.  A fork takes all locks; the child counts on and
// writes a profile of its own, from zero.  Thread-local storage is one pointer for each thread, in a library that is
// loaded with the program.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "advisor/profile_format.hpp"
#include "hooks.hpp"
#include "window.hpp"

namespace nvm::advisor {

class spin_lock {
 public:
  void lock() noexcept;
  // release: pairs with the acquire in lock(); the next owner sees stores that were made under the lock.
  void unlock() noexcept { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

class locked {
 public:
  explicit locked(spin_lock& l) noexcept : lock_{l} { lock_.lock(); }
  ~locked() { lock_.unlock(); }
  locked(const locked&) = delete;
  locked& operator=(const locked&) = delete;

 private:
  spin_lock& lock_;
};

// Sizes with a counter of their own, so that an access adds to one counter; bytes of other sizes are added up.
inline constexpr std::size_t counted_sizes[] = {1, 2, 4, 8};
inline constexpr std::size_t size_count = std::size(counted_sizes);

struct alignas(64) access_counts {
  std::uint64_t loads[size_count], stores[size_count];
  std::uint64_t other_loads, other_stores, other_read, other_written;
  std::uint64_t lines_logged, lines_in, lines_out;
};
static_assert(sizeof(access_counts) == 128);

struct thread_state {
  std::uint32_t burst;       // number of the burst, of all threads' ones
  std::uint32_t left;        // accesses until it ends
  std::uintptr_t stack_end;  // highest address of the stack
  thread_state* next;
  std::atomic<bool> in_use;
  std::uint32_t cache[cache_lines];  // rest of the line's number << 1 | dirty, by its low bits; 0: empty
  access_counts counts[sites_max];   // by site
};

// Numbers of sites that stand for no path.
inline constexpr std::uint32_t site_none = 0;
inline constexpr std::uint32_t site_durable = 1;
inline constexpr std::uint32_t site_nowhere = 2;
inline constexpr std::uint32_t first_path_site = 3;

struct site_totals {
  spin_lock lock;
  std::uint64_t objects, bytes, largest, frees, reallocs, live_objects, live_bytes, peak_bytes;
  // Ends minus beginnings; objects that live at the end of the run are added then.
  std::int64_t object_accesses, object_ticks;
  double byte_ticks;
  std::uint64_t hash;
  std::uint32_t depth;
  const nvm_prof_place* path[path_depth_max];
};

enum class edge_kind : std::uint32_t { release, resize };
struct edge_count {
  const nvm_prof_place* place;
  std::uint32_t site;
  edge_kind kind;
  std::uint64_t count;
};
inline constexpr std::size_t edges_max = 1 << 16;

struct profile_state {
  site_totals* sites;  // sites_max of them
  std::atomic<std::uint32_t> site_count;
  edge_count* edges;  // edges_max of them, by hash
  spin_lock sites_lock;
  spin_lock edges_lock;
  spin_lock threads_lock;
  std::atomic<thread_state*> threads;
  std::atomic<std::uint32_t> bursts;
  std::atomic<std::uint64_t> accesses;  // of bursts that have ended
  std::uint64_t start_ticks, start_ns;
  std::uint32_t burst_accesses, depth;
  bool works;
};
extern constinit profile_state state;

// Maps the window and reads the settings, once; false: this program is not profiled, and a message on standard error
// says so.
bool begin() noexcept;
// State of this thread, made if need be; null: no memory.
thread_state* own_state() noexcept;
// State of this thread if it has one; otherwise null.
thread_state* joined() noexcept;
void join(thread_state* s) noexcept;
// Whether `p` is a place of compiled code of this program.
bool is_place(const nvm_prof_place* p) noexcept;

// The sources of this program; units_max of them at most.
inline constexpr std::size_t units_max = 4096;
std::size_t unit_count() noexcept;
const nvm_prof_unit* unit(std::size_t k) noexcept;

std::uint64_t ticks() noexcept;            // since the start
std::uint64_t accesses_so_far() noexcept;  // of all threads, as of their last bursts

// The site of the running thread's call path.
std::uint32_t site_of_path() noexcept;
// The innermost call; null: none.
const nvm_prof_place* innermost_place() noexcept;

void note_object(std::uint32_t site, std::uint64_t bytes) noexcept;
void note_end(std::uint32_t site, std::uint64_t bytes) noexcept;
void note_resize(std::uint32_t site, std::uint64_t before, std::uint64_t after) noexcept;
// Fresh memory is not logged in the burst that allocated it.
void note_fresh(const void* p, std::uint64_t bytes) noexcept;

// Allocates memory for tables; null: there is none.
void* map_zeroed(std::size_t bytes) noexcept;

void lock_heap() noexcept;
void unlock_heap() noexcept;

// The profile, as text, into the file that the settings name.
void write_profile() noexcept;
// Forgets all counts: those from before a fork are the parent's.
void forget_counts() noexcept;

}  // namespace nvm::advisor
