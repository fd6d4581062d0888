// Beginning, threads, the clock.
#include "state.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" void* __libc_stack_end;

namespace nvm::advisor {

// Initialised before any constructor runs: allocation begins earlier than those.
constinit profile_state state{};

namespace {

std::atomic<int> stage{0};  // 0: not begun, 1: a thread is at it, 2: done
pthread_key_t thread_key;

void say(const char* what) noexcept {
  char text[256];
  const int n = std::snprintf(text, sizeof text, "holdfast: profile: %s; this run is not profiled\n", what);
  if (n > 0) (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(n));
}

// A number of the environment, within bounds; text that is no number counts as unset.
std::uint32_t setting(const char* name, std::uint32_t usual, std::uint32_t least, std::uint32_t most) noexcept {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return usual;
  char* end = nullptr;
  const unsigned long v = std::strtoul(text, &end, 10);
  return *end == '\0' && v >= least && v <= most ? static_cast<std::uint32_t>(v) : usual;
}

std::uint64_t now_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000U + static_cast<std::uint64_t>(t.tv_nsec);
}

void thread_ends(void* s) noexcept {
  join(nullptr);
  // release: pairs with the acquire in own_state(); the next owner sees what was counted.
  static_cast<thread_state*>(s)->in_use.store(false, std::memory_order_release);
}

bool map_window() noexcept {
  void* const at = reinterpret_cast<void*>(heap_base);
  void* const p = mmap(at, window_end - heap_base, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == at) {
    // Core dumps would have the tables in them, and a fork copies what it needs.
    madvise(p, window_end - heap_base, MADV_DONTDUMP);
    return true;
  }
  if (p != MAP_FAILED) munmap(p, window_end - heap_base);
  say(p == MAP_FAILED ? "the system does not reserve 1.3 TiB of addresses (overcommit or ulimit -v)"
                      : "the addresses from 0x180000000000 on are taken");
  return false;
}

bool set_up() noexcept {
  if (!map_window()) return false;
  state.sites = static_cast<site_totals*>(map_zeroed(sites_max * sizeof(site_totals)));
  state.edges = static_cast<edge_count*>(map_zeroed(edges_max * sizeof(edge_count)));
  if (state.sites == nullptr || state.edges == nullptr || pthread_key_create(&thread_key, thread_ends) != 0) {
    say("out of memory");
    return false;
  }
  state.site_count.store(first_path_site, std::memory_order_relaxed);
  state.burst_accesses = setting("HOLDFAST_PROFILE_BURST", burst_default, 1, 1U << 30);
  state.depth = setting("HOLDFAST_PROFILE_DEPTH", path_depth_default, 1, path_depth_max);
  state.start_ticks = __rdtsc();
  state.start_ns = now_ns();
  return true;
}

// For the first thread, the C library would read a file, which allocates.
std::uintptr_t stack_end() noexcept {
  if (getpid() == gettid()) return reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* low = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<std::uintptr_t>(low) + bytes;
}

thread_state* add_state() noexcept {
  auto* s = static_cast<thread_state*>(map_zeroed(sizeof(thread_state)));
  if (s == nullptr) return nullptr;
  s->in_use.store(true, std::memory_order_relaxed);
  const locked l{state.threads_lock};
  s->next = state.threads.load(std::memory_order_relaxed);
  // release: pairs with the acquire of walks over the list; a walk finds complete states only.
  state.threads.store(s, std::memory_order_release);
  return s;
}

}  // namespace

void spin_lock::lock() noexcept {
  // acquire: pairs with the release in unlock().
  while (taken_.test_and_set(std::memory_order_acquire)) sched_yield();
}

void* map_zeroed(std::size_t bytes) noexcept {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool begin() noexcept {
  // acquire: pairs with the release below; a thread that sees 2 sees all tables.
  int s = stage.load(std::memory_order_acquire);
  if (__builtin_expect(s == 2, 1)) return state.works;
  if (s == 0 && stage.compare_exchange_strong(s, 1, std::memory_order_acquire)) {
    state.works = set_up();
    stage.store(2, std::memory_order_release);
    return state.works;
  }
  while (stage.load(std::memory_order_acquire) != 2) sched_yield();
  return state.works;
}

thread_state* own_state() noexcept {
  if (!begin()) return nullptr;
  thread_state* s = state.threads.load(std::memory_order_acquire);
  for (bool was = false; s != nullptr; s = s->next, was = false) {
    // acquire: pairs with the release of the thread that ended.
    if (s->in_use.compare_exchange_strong(was, true, std::memory_order_acquire)) break;
  }
  if (s == nullptr) s = add_state();
  if (s == nullptr) return nullptr;
  s->burst = state.bursts.fetch_add(1, std::memory_order_relaxed) + 1;
  s->left = state.burst_accesses;
  join(s);
  // The following calls may allocate, which asks for the state again and is not the program's doing.
  nvm_prof_frame* const top = __nvm_prof_top;
  __nvm_prof_top = nullptr;
  s->stack_end = stack_end();
  pthread_setspecific(thread_key, s);
  __nvm_prof_top = top;
  return s;
}

std::uint64_t ticks() noexcept { return __rdtsc() - state.start_ticks; }

void forget_counts() noexcept {
  for (thread_state* s = state.threads.load(std::memory_order_acquire); s != nullptr; s = s->next) {
    std::memset(s->counts, 0, sizeof s->counts);
  }
  const std::uint32_t n = state.site_count.load(std::memory_order_relaxed);
  const double now = static_cast<double>(ticks());
  const auto accesses = static_cast<std::int64_t>(accesses_so_far());
  for (std::uint32_t k = 0; k < n; ++k) {
    site_totals& t = state.sites[k];
    t.objects = t.bytes = t.largest = t.frees = t.reallocs = 0;
    t.peak_bytes = t.live_bytes;
    // The lifetime of objects from before the fork begins with the fork.
    t.object_accesses = -accesses * static_cast<std::int64_t>(t.live_objects);
    t.object_ticks = -static_cast<std::int64_t>(ticks()) * static_cast<std::int64_t>(t.live_objects);
    t.byte_ticks = -now * static_cast<double>(t.live_bytes);
  }
  std::memset(state.edges, 0, edges_max * sizeof(edge_count));
}

namespace {

void before_fork() {
  if (!state.works) return;
  state.sites_lock.lock();
  state.edges_lock.lock();
  state.threads_lock.lock();
  for (std::size_t k = 0; k < sites_max && k < state.site_count.load(std::memory_order_relaxed); ++k)
    state.sites[k].lock.lock();
  lock_heap();
}
void after_fork() {
  if (!state.works) return;
  unlock_heap();
  for (std::size_t k = 0; k < sites_max && k < state.site_count.load(std::memory_order_relaxed); ++k)
    state.sites[k].lock.unlock();
  state.threads_lock.unlock();
  state.edges_lock.unlock();
  state.sites_lock.unlock();
}
void in_child() {
  if (state.works) forget_counts();
  after_fork();
}

[[gnu::constructor]] void watch_forks() { pthread_atfork(before_fork, after_fork, in_child); }
[[gnu::destructor]] void leave() {
  if (begin()) write_profile();
}

}  // namespace
}  // namespace nvm::advisor
