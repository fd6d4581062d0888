// Nothing here allocates: a store may be reported from inside an allocator.
#include "tracer.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/bits.hpp"
#include "crash_test/trace_layout.hpp"
#include "nvm/nvm.h"
#include "platform/descriptor.hpp"

namespace nvm::recording {
namespace {

using layout::trace_kind;
using layout::trace_record;

constexpr std::uint64_t bytes_default = std::uint64_t{1} << 30;
constexpr std::uint64_t bytes_min = std::uint64_t{1} << 20;
constexpr std::uint64_t step_bytes = std::uint64_t{8} << 20;  // by which the file grows
constexpr std::uint32_t piece_max = (1 << 16) - 64;           // of a store
constexpr std::size_t places_max = std::size_t{1} << 17;      // slots of the table of places
constexpr unsigned threads_max = 255;
constexpr std::uint32_t flush_key = 1U << 31;  // lines of places that are flushes: a fence has the same key without

std::byte* base = nullptr;  // of the file's mapping; null: nothing is recorded
std::uint64_t limit = 0;    // bytes of the mapping
std::uint64_t end = 0;      // bytes of the file
std::uint64_t used = 0;
std::uint64_t reserved = 0;  // for the record that is being written
int descriptor = -1;
std::atomic<bool> held{false};
unsigned threads = 0;
thread_local int thread_number [[gnu::tls_model("initial-exec")]] = -1;

struct known_place {
  const void* key = nullptr;
  std::uint32_t line = 0;
  std::uint32_t number = 0;
};
known_place places[places_max];
std::uint32_t place_count = 0;

layout::trace_header& header() noexcept { return *reinterpret_cast<layout::trace_header*>(base); }

void say(const char* what) noexcept {
  std::fprintf(stderr, "holdfast: recording: %s\n", what);
  std::fflush(stderr);
}

// From here on the program runs unrecorded.
[[gnu::cold]] void stop(const char* why) noexcept {
  __nvm_rec_bytes = 0;
  if (base != nullptr) header().cut = 1;
  base = nullptr;
  say(why);
}

// The order of records.  While there is one thread it costs a load.
class turn {
 public:
  turn() noexcept : locked_{__libc_single_threaded == 0} {
    if (!locked_) return;
    while (held.exchange(true, std::memory_order_acquire)) ::sched_yield();
  }
  ~turn() {
    if (locked_) held.store(false, std::memory_order_release);
  }
  turn(const turn&) = delete;

 private:
  bool locked_;
};

// Blocks for [from, to) of the file, now: a store into a hole of a full file system would be SIGBUS.  Faulting them all
// in at once costs a third of faulting them in one by one, and fails where there is no room.
bool allocate(std::uint64_t from, std::uint64_t to) noexcept {
  const int kept = errno;
  const bool populated = ::ftruncate(descriptor, static_cast<off_t>(to)) == 0 &&
                         ::madvise(base + from, to - from, MADV_POPULATE_WRITE) == 0;
  const bool done = populated || (errno == EINVAL && ::posix_fallocate(descriptor, static_cast<off_t>(from),
                                                                       static_cast<off_t>(to - from)) == 0);
  errno = kept;
  return done;
}

[[gnu::cold, gnu::noinline]] bool extend(std::uint64_t needed) noexcept {
  const std::uint64_t wanted = std::min(limit, round_up(needed, step_bytes));
  if (wanted < needed) {
    stop("the trace is full (HOLDFAST_RECORD_BYTES): what follows is not recorded");
    return false;
  }
  if (!allocate(end, wanted)) {
    stop("no room for the trace: what follows is not recorded");
    return false;
  }
  end = wanted;
  return true;
}

// A record with room for its payload, counted by commit(); null: recording has ended.
inline trace_record* begin(trace_kind kind, std::uint64_t payload_bytes) noexcept {
  reserved = sizeof(trace_record) + round_up(payload_bytes, 8);
  if (__builtin_expect(used + reserved > end, 0) && !extend(used + reserved)) return nullptr;
  auto* r = reinterpret_cast<trace_record*>(base + used);
  r->address = 0;
  r->word = payload_bytes;
  r->place = 0;
  r->bytes = 0;
  r->kind = static_cast<std::uint8_t>(kind);
  r->thread = static_cast<std::uint8_t>(thread_number);
  return r;
}
inline void commit() noexcept {
  used += reserved;
  // The count comes after the record: in a program killed in between, the record does not count.
  std::atomic_signal_fence(std::memory_order_release);
  header().used = used;
}

// Under the turn: this thread has a number and the trace is open.
inline bool ready() noexcept {
  if (base == nullptr) return false;
  if (__builtin_expect(thread_number < 0, 0)) {
    if (threads == threads_max) {
      stop("more than 255 threads: what follows is not recorded");
      return false;
    }
    thread_number = static_cast<int>(threads++);
  }
  return true;
}

void append(trace_kind kind, const void* p, std::uint64_t word, std::uint32_t place = 0) noexcept {
  auto* r = begin(kind, 0);
  if (r == nullptr) return;
  r->address = reinterpret_cast<std::uintptr_t>(p);
  r->word = word;
  r->place = place;
  commit();
}

[[gnu::cold, gnu::noinline]] std::uint32_t define_place(known_place& k, const nvm_rec_site& s, const void* key,
                                                        std::uint32_t line) noexcept {
  if (place_count * 2 >= places_max) {
    stop("more than 65536 places in the sources store: what follows is not recorded");
    return 0;
  }
  const std::size_t file_bytes = std::min<std::size_t>(std::strlen(s.file), 4000) + 1;
  const std::size_t function_bytes = std::min<std::size_t>(std::strlen(s.function), 4000) + 1;
  auto* r = begin(trace_kind::place, file_bytes + function_bytes);
  if (r == nullptr) return 0;
  r->address = s.line | std::uint64_t{s.column} << 32;
  r->place = place_count;
  r->bytes = static_cast<std::uint16_t>(s.kind);
  r->thread = s.of_library != 0 ? 1 : 0;
  auto* text = reinterpret_cast<char*>(r + 1);
  std::memset(text, 0, round_up(file_bytes + function_bytes, 8));
  std::memcpy(text, s.file, file_bytes - 1);
  std::memcpy(text + file_bytes, s.function, function_bytes - 1);
  commit();
  k = {key, line, place_count};
  return place_count++;
}

inline known_place& slot_of(const void* key, std::uint32_t line) noexcept {
  std::size_t i = (reinterpret_cast<std::uintptr_t>(key) * 0x9E37'79B9'7F4A'7C15ULL >> 40) + line * 31ULL;
  for (;; ++i) {
    known_place& k = places[i & (places_max - 1)];
    if (k.key == nullptr || (k.key == key && k.line == line)) return k;
  }
}
inline std::uint32_t place_of(const nvm_rec_site* s) noexcept {
  known_place& k = slot_of(s, 0);
  return __builtin_expect(k.key != nullptr, 1) ? k.number : define_place(k, *s, s, 0);
}
std::uint32_t place_of(const char* name, std::uint32_t line, std::uint32_t kind) noexcept {
  const std::uint32_t key = kind == NVM_REC_FLUSH ? line | flush_key : 1;
  known_place& k = slot_of(name, key);
  if (k.key != nullptr) return k.number;
  return define_place(k, {name, "", line, 0, kind, 1}, name, key);
}

void append_store(const std::byte* p, std::uint32_t bytes, std::uint32_t place) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const auto* first = reinterpret_cast<const void*>(round_down(address, 8));
  const std::uint64_t span = layout::trace_span(address, bytes);
  auto* r = begin(trace_kind::store, span == 8 ? 0 : span);
  if (r == nullptr) return;
  r->address = address;
  r->bytes = static_cast<std::uint16_t>(bytes);
  r->place = place;
  if (span == 8) {
    std::memcpy(&r->word, first, 8);
  } else {
    std::memcpy(r + 1, first, span);
  }
  commit();
}

void in_child() noexcept {
  base = nullptr;
  __nvm_rec_bytes = 0;
  held.store(false, std::memory_order_relaxed);
}

std::uint64_t limit_wanted() noexcept {
  const char* text = ::secure_getenv("HOLDFAST_RECORD_BYTES");
  if (text == nullptr) return bytes_default;
  char* rest = nullptr;
  errno = 0;
  const unsigned long long n = std::strtoull(text, &rest, 10);
  if (errno != 0 || *rest != 0 || n < bytes_min) {
    say("HOLDFAST_RECORD_BYTES is no number of bytes of at least 1048576: the default is used");
    return bytes_default;
  }
  return n;
}

[[gnu::constructor]] void start() noexcept {
  const char* path = ::secure_getenv("HOLDFAST_RECORD");
  if (path == nullptr || *path == 0) return;
  descriptor = platform::open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (descriptor < 0) {
    if (errno == EEXIST) return say("another process is recorded already; this one is not");
    std::fprintf(stderr, "holdfast: recording: %s: %s; nothing is recorded\n", path, std::strerror(errno));
    return;
  }
  limit = limit_wanted();
  void* m = ::mmap(nullptr, limit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (m == MAP_FAILED) return say("cannot map the trace; nothing is recorded");
  base = static_cast<std::byte*>(m);
  if (!allocate(0, std::min(limit, step_bytes))) {
    base = nullptr;
    return say("no room for the trace; nothing is recorded");
  }
  end = std::min(limit, step_bytes);
  used = sizeof(layout::trace_header);
  header() = {};
  header().magic = layout::trace_magic;
  header().version = layout::trace_version;
  header().pid = static_cast<std::uint64_t>(::getpid());
  header().used = used;
  ::pthread_atfork(nullptr, nullptr, in_child);
}

}  // namespace

bool on() noexcept { return base != nullptr; }

void pool_opened(const void* pool, std::uint64_t capacity_bytes, std::uint64_t file_bytes, const char* path) noexcept {
  const turn mine;
  if (!ready()) return;
  const std::size_t path_bytes = std::min<std::size_t>(std::strlen(path), 4000);
  auto* r = begin(trace_kind::pool_open, sizeof capacity_bytes + path_bytes);
  if (r == nullptr) return;
  r->address = reinterpret_cast<std::uintptr_t>(pool);
  auto* payload = reinterpret_cast<std::byte*>(r + 1);
  std::memset(payload, 0, sizeof capacity_bytes + round_up(path_bytes, 8));
  std::memcpy(payload, &capacity_bytes, sizeof capacity_bytes);
  std::memcpy(payload + sizeof capacity_bytes, path, path_bytes);
  commit();
  static constexpr std::byte zeros[layout::trace_page_bytes]{};
  const auto* bytes = static_cast<const std::byte*>(pool);
  for (std::uint64_t at = 0; at + sizeof zeros <= file_bytes; at += sizeof zeros) {
    if (std::memcmp(bytes + at, zeros, sizeof zeros) == 0) continue;
    r = begin(trace_kind::page, sizeof zeros);
    if (r == nullptr) return;
    r->address = reinterpret_cast<std::uintptr_t>(bytes + at);
    std::memcpy(r + 1, bytes + at, sizeof zeros);
    commit();
  }
  append(trace_kind::pool_ready, pool, 0);
  __nvm_rec_base = NVM_WINDOW_BASE;
  __nvm_rec_bytes = std::size_t{1} << NVM_WINDOW_BITS;
}

void pool_closed(const void* pool, std::uint64_t file_bytes) noexcept {
  const turn mine;
  if (!ready()) return;
  const std::uint64_t pages = file_bytes / layout::trace_page_bytes;
  auto* r = begin(trace_kind::pool_sums, pages * sizeof(std::uint64_t));
  if (r != nullptr) {
    r->address = reinterpret_cast<std::uintptr_t>(pool);
    const auto* bytes = static_cast<const std::byte*>(pool);
    auto* to = reinterpret_cast<std::byte*>(r + 1);
    for (std::uint64_t p = 0; p < pages; ++p) {
      const std::uint64_t sum = layout::trace_sum(bytes + p * layout::trace_page_bytes);
      std::memcpy(to + p * sizeof sum, &sum, sizeof sum);
    }
    commit();
  }
  if (base != nullptr) append(trace_kind::pool_close, pool, 0);
}

void flush(const void* p, std::size_t bytes, const char* file, std::uint32_t line) noexcept {
  const turn mine;
  if (ready()) append(trace_kind::flush, p, bytes, place_of(file, line, NVM_REC_FLUSH));
}

void fence(const char* label) noexcept {
  const turn mine;
  if (ready()) append(trace_kind::fence, nullptr, 0, place_of(label, 0, NVM_REC_FENCE));
}

void tx_begin(const void* pool) noexcept {
  const turn mine;
  if (ready()) append(trace_kind::tx_begin, pool, 0);
}

void tx_end(const void* pool, bool committed) noexcept {
  const turn mine;
  if (ready()) append(committed ? trace_kind::tx_commit : trace_kind::tx_abort, pool, 0);
}

void logged(const void* p, std::size_t bytes) noexcept {
  const turn mine;
  if (ready()) append(trace_kind::logged, p, bytes);
}

void fresh(const void* p, std::size_t bytes) noexcept {
  const turn mine;
  if (ready()) append(trace_kind::fresh, p, bytes);
}

}  // namespace nvm::recording

// ---- what instrumented code calls -----------------------------------------------------------------------------------

#define NVM_EXPORT [[gnu::visibility("default")]]

extern "C" {

NVM_EXPORT std::uintptr_t __nvm_rec_base = 0;
NVM_EXPORT std::size_t __nvm_rec_bytes = 0;
NVM_EXPORT std::int64_t __nvm_rec_steps = INT64_MAX;

NVM_EXPORT void __nvm_rec_store(const void* p, std::size_t bytes, const nvm_rec_site* site) {
  using namespace nvm::recording;
  const turn mine;
  if (bytes == 0 || !ready()) return;
  const auto* at = static_cast<const std::byte*>(p);
  const std::uint32_t place = place_of(site);
  // Pieces end at lines, whose words have no order among themselves anyway.
  while (bytes > piece_max && base != nullptr) {
    const std::size_t piece = piece_max - reinterpret_cast<std::uintptr_t>(at) % 64;
    append_store(at, static_cast<std::uint32_t>(piece), place);
    at += piece;
    bytes -= piece;
  }
  if (base != nullptr) append_store(at, static_cast<std::uint32_t>(bytes), place);
}

NVM_EXPORT void __nvm_rec_string(const char* p, const nvm_rec_site* site) {
  __nvm_rec_store(p, std::strlen(p) + 1, site);
}

NVM_EXPORT void __nvm_rec_masked(const void* p, std::size_t lane_bytes, std::uint64_t mask, const nvm_rec_site* site) {
  const auto* lane = static_cast<const char*>(p);
  for (; mask != 0; mask >>= 1, lane += lane_bytes) {
    if ((mask & 1) != 0) __nvm_rec_store(lane, lane_bytes, site);
  }
}

NVM_EXPORT void __nvm_rec_rmw(const void* p, std::size_t bytes, const nvm_rec_site* site) {
  // On some processors it orders the thread's write-backs; no code may rely on that.
  if (reinterpret_cast<std::uintptr_t>(p) - __nvm_rec_base < __nvm_rec_bytes) __nvm_rec_store(p, bytes, site);
}

NVM_EXPORT void __nvm_rec_flush(const void* p, const nvm_rec_site* site) {
  using namespace nvm::recording;
  const turn mine;
  if (ready()) append(nvm::layout::trace_kind::flush, p, 1, place_of(site));
}

NVM_EXPORT void __nvm_rec_fence(const nvm_rec_site* site) {
  using namespace nvm::recording;
  const turn mine;
  if (ready()) append(nvm::layout::trace_kind::fence, nullptr, 0, place_of(site));
}

NVM_EXPORT void __nvm_rec_load(const void*, std::size_t, const nvm_rec_site*) {}
NVM_EXPORT void __nvm_rec_access(const void*, const nvm_rec_site*) {}
NVM_EXPORT void __nvm_rec_step_limit(void) { __nvm_rec_steps = INT64_MAX; }

}  // extern "C"
