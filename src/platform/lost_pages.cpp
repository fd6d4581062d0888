#include "platform/lost_pages.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

#include "platform/descriptor.hpp"
#include "platform/map.hpp"
#include "platform/process.hpp"
#include "platform/sentence.hpp"

namespace nvm::platform {

namespace calls {
[[gnu::tls_model("initial-exec")]] __thread unsigned char of_thread = 0;
constinit std::atomic<unsigned> failures{0};
}  // namespace calls

namespace {

// ---- who watches what ----

// Handlers read without a lock. Blocks are never freed.
struct block {
  std::atomic<watched_memory*> watched[255]{};
  std::atomic<block*> next{nullptr};
};
constinit block first_block;
constinit std::mutex changing;  // held by threads that start and stop watching
// Handlers that are reading at the moment: memory that they may have found is not destroyed.
constinit std::atomic<unsigned> looking{0};

// In a child there are no threads of the parent that read or would unlock.
status handle_fork() noexcept {
  static const status handled =
      at_fork([]() noexcept { changing.lock(); }, []() noexcept { changing.unlock(); },
              []() noexcept {
                looking.store(0, std::memory_order_relaxed);
                calls::failures.store(0, std::memory_order_relaxed);
                for (block* b = &first_block; b != nullptr; b = b->next.load(std::memory_order_relaxed)) {
                  for (auto& w : b->watched) w.store(nullptr, std::memory_order_relaxed);
                }
                changing.unlock();
              });
  return handled;
}

status list(watched_memory* memory) noexcept {
  for (block* b = &first_block;; b = b->next.load(std::memory_order_relaxed)) {
    for (auto& w : b->watched) {
      if (w.load(std::memory_order_relaxed) != nullptr) continue;
      // release: pairs with the acquire in find(): the thread that finds it sees its fields.
      w.store(memory, std::memory_order_release);
      return {};
    }
    if (b->next.load(std::memory_order_relaxed) != nullptr) continue;
    auto* const more = new (std::nothrow) block;
    if (more == nullptr) return fail(errc::no_memory, "no volatile memory to watch a mapping");
    b->next.store(more, std::memory_order_release);
  }
}

void unlist(const watched_memory* memory) noexcept {
  for (block* b = &first_block; b != nullptr; b = b->next.load(std::memory_order_relaxed)) {
    for (auto& w : b->watched) {
      // seq_cst, with `looking`: either the handler does not find it, or we see the handler.
      if (w.load(std::memory_order_relaxed) == memory) w.store(nullptr, std::memory_order_seq_cst);
    }
  }
}

template <class Visit>
void each_watched(Visit&& visit) noexcept {
  for (block* b = &first_block; b != nullptr; b = b->next.load(std::memory_order_acquire)) {
    for (auto& w : b->watched) {
      if (watched_memory* m = w.load(std::memory_order_seq_cst); m != nullptr) visit(*m);
    }
  }
}

// Code of the functions with NVM_QUICK_ACCESS; null where a program has none of them.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const char __start_nvm_quick_access[];
[[gnu::weak, gnu::visibility("hidden")]] extern const char __stop_nvm_quick_access[];
}
bool accesses_quickly(const void* context) noexcept {
  const auto at = static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  return at >= reinterpret_cast<std::uintptr_t>(__start_nvm_quick_access) &&
         at < reinterpret_cast<std::uintptr_t>(__stop_nvm_quick_access);
}

// ---- what takes the place of memory ----

constexpr int keep_private = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;

bool map_over(std::byte* at, std::uint64_t bytes, int flags, int descriptor) noexcept {
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, keep_private | flags, descriptor, 0) == MAP_FAILED) return false;
  (void)::madvise(at, bytes, MADV_DONTFORK);
  return true;
}

class spin_held {
 public:
  explicit spin_held(std::atomic<bool>& lock) noexcept : lock_{lock} {
    // acquire: pairs with the release below.
    while (lock_.exchange(true, std::memory_order_acquire)) ::sched_yield();
  }
  ~spin_held() { lock_.store(false, std::memory_order_release); }
  spin_held(const spin_held&) = delete;

 private:
  std::atomic<bool>& lock_;
};

class all_signals_blocked {
 public:
  all_signals_blocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    (void)::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~all_signals_blocked() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  all_signals_blocked(const all_signals_blocked&) = delete;

 private:
  sigset_t before_;
};

// ---- the handler ----

// Earlier handlers of the signal.  Each is complete before `former` points to it, and stays.
struct sigaction formers[64];
constinit std::atomic<const struct sigaction*> former{nullptr};
unsigned formers_used = 0;

bool same_handler(const struct sigaction& a, const struct sigaction& b) noexcept {
  const bool takes_info = (a.sa_flags & SA_SIGINFO) != 0;
  if (takes_info != ((b.sa_flags & SA_SIGINFO) != 0)) return false;
  return takes_info ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler;
}

void end_as_before(int number, const siginfo_t* info) noexcept {
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  (void)::sigaction(number, &plain, nullptr);
  // The instruction is executed once more; a signal that was sent by a process is sent again.
  if (info->si_code <= 0) (void)::raise(number);
}

void pass_on(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction* const before = former.load(std::memory_order_acquire);
  if (before == nullptr) return end_as_before(number, info);
  const bool takes_info = (before->sa_flags & SA_SIGINFO) != 0;
  if (!takes_info && before->sa_handler == SIG_IGN) {
    // A fault that is ignored ends the process; a signal that was sent is ignored.
    if (info->si_code > 0) end_as_before(number, info);
    return;
  }
  if (!takes_info && before->sa_handler == SIG_DFL) return end_as_before(number, info);
  // It may jump away: then the blocked signals are those that it asked for.
  sigset_t blocked = static_cast<ucontext_t*>(context)->uc_sigmask;
  for (int s = 1; s < NSIG; ++s) {
    if (sigismember(&before->sa_mask, s) == 1) sigaddset(&blocked, s);
  }
  if ((before->sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, number);
  (void)::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  if (takes_info) {
    before->sa_sigaction(number, info, context);
  } else {
    before->sa_handler(number);
  }
}

}  // namespace

struct lost_page_handler {
  static bool holds(const watched_memory& m, const void* p) noexcept {
    const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(m.where_.base);
    return offset < m.where_.bytes;
  }

  // True: the access is made again.
  static bool serve(watched_memory& m, const siginfo_t& info, const void* context) noexcept {
    const std::uint64_t offset = static_cast<std::uint64_t>(static_cast<std::byte*>(info.si_addr) - m.where_.base);
    std::uint64_t granule = page_bytes();
    if (info.si_code == BUS_MCEERR_AR && info.si_addr_lsb > 12 && info.si_addr_lsb < 40) {
      granule = std::uint64_t{1} << info.si_addr_lsb;
    }
    struct ::stat now{};
    const std::uint64_t length =
        ::fstat(m.where_.descriptor, &now) == 0 ? static_cast<std::uint64_t>(now.st_size) : m.where_.file_bytes;
    const bool inside = (calls::of_thread & calls::inside) != 0 || accesses_quickly(context);
    const spin_held held{m.held_};
    m.note_loss(offset, info.si_code, length);
    const bool ends = m.keeps_mapping_.load(std::memory_order_relaxed);
    if (!ends && !m.leave_file()) return false;
    if (!inside || ends) {
      char text[600];
      sentence s{text, sizeof text};
      s << "holdfast: " << m.where_.name << ": the program has touched what it cannot have: " << m.why_ << "\n";
      if (::write(STDERR_FILENO, text, s.bytes()) < 0) {
      }
      return false;
    }
    if (!m.put_zeros(offset, granule, length)) return false;
    calls::of_thread |= calls::struck;
    return true;
  }

  static void on_bus(int number, siginfo_t* info, void* context) noexcept {
    const int error = errno;
    bool served = false;
    if (info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR) {
      // seq_cst, with unlist().
      looking.fetch_add(1, std::memory_order_seq_cst);
      watched_memory* found = nullptr;
      each_watched([&](watched_memory& m) noexcept {
        if (holds(m, info->si_addr)) found = &m;
      });
      if (found != nullptr) served = serve(*found, *info, context);
      // release: pairs with the acquire in stop().
      looking.fetch_sub(1, std::memory_order_release);
    }
    errno = error;
    if (!served) pass_on(number, info, context);
  }

  // With `changing` held. The present handler still gets signals that are not ours.
  static status install() noexcept {
    struct sigaction ours{};
    ours.sa_sigaction = on_bus;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&ours.sa_mask);
    struct sigaction now{};
    if (::sigaction(SIGBUS, nullptr, &now) != 0) {
      return fail(errc::system, "cannot ask for the handler of SIGBUS: %s", std::strerror(errno));
    }
    if (same_handler(now, ours)) return {};
    const struct sigaction* const known = former.load(std::memory_order_relaxed);
    const bool plain = (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
    // A handler that was installed after ours may pass signals on to ours: if ours went before it, they would go round.
    if (known != nullptr && !plain && !same_handler(now, *known)) return {};
    if (known == nullptr || !same_handler(now, *known)) {
      if (formers_used == std::size(formers)) return {};
      formers[formers_used] = now;
      former.store(&formers[formers_used++], std::memory_order_release);
    }
    if (::sigaction(SIGBUS, &ours, nullptr) == 0) return {};
    return fail(errc::system, "cannot install a handler for SIGBUS: %s", std::strerror(errno));
  }

  static void hide_zeros() noexcept {
    const all_signals_blocked quiet;
    looking.fetch_add(1, std::memory_order_seq_cst);
    each_watched([](watched_memory& m) noexcept {
      if (!m.lost()) return;
      const spin_held held{m.held_};
      m.hide();
    });
    looking.fetch_sub(1, std::memory_order_release);
  }

  static void copy_reason(char* to, std::size_t room) noexcept {
    looking.fetch_add(1, std::memory_order_seq_cst);
    each_watched([&](watched_memory& m) noexcept {
      if (!m.lost()) return;
      sentence s{to, room};
      s << m.where_.name << ": " << m.why_;
    });
    looking.fetch_sub(1, std::memory_order_release);
  }
};

namespace calls {

void hide_zeros() noexcept {
  const int error = errno;
  lost_page_handler::hide_zeros();
  errno = error;
}

void end_struck(unsigned char before) noexcept {
  if ((before & inside) != 0) {
    of_thread = before | struck;
    return;
  }
  hide_zeros();
  of_thread = 0;
}

}  // namespace calls

// ---- watched memory ----

status watched_memory::start(const place& where) noexcept {
  NVM_ASSERT(where_.base == nullptr && where.base != nullptr);
  (void)page_bytes();  // asked here first, since a handler may not
  if (status s = handle_fork(); !s) return s;
  const std::lock_guard guard{changing};
  if (status s = lost_page_handler::install(); !s) return s;
  where_ = where;
  if (status s = list(this); !s) {
    where_ = {};
    return s;
  }
  return {};
}

void watched_memory::stop() noexcept {
  if (where_.base == nullptr) return;
  const std::lock_guard guard{changing};
  unlist(this);
  // acquire: pairs with the release of handlers: their changes of it are complete.
  while (looking.load(std::memory_order_seq_cst) != 0) ::sched_yield();
  if (lost()) calls::failures.fetch_sub(1, std::memory_order_relaxed);
  where_ = {};
}

void watched_memory::forget_in_child() noexcept { where_ = {}; }

void watched_memory::note_loss(std::uint64_t offset, int code, std::uint64_t file_length) noexcept {
  if (lost()) return;
  sentence s{why_, sizeof why_};
  const std::uint64_t page = round_down(offset, page_bytes());
  if (offset < where_.file_bytes) {
    s << "the page at offset " << page << " is lost: ";
    if (page >= file_length) {
      s << "the file was cut off to " << file_length << " bytes";
    } else if (code == BUS_MCEERR_AR) {
      s << "the memory that held it is damaged";
    } else {
      s << "its device cannot read it, or has no room for it";
    }
  } else {
    s << "the object page at byte " << page << " cannot be built: the memory that held it is damaged";
  }
  set_lost();
}

void watched_memory::set_lost() noexcept {
  calls::failures.fetch_add(1, std::memory_order_relaxed);
  // release: pairs with the acquire in lost().
  lost_.store(true, std::memory_order_release);
}

void watched_memory::lose(std::uint64_t offset, const char* why) noexcept {
  const all_signals_blocked quiet;
  const spin_held held{held_};
  if (lost()) return;
  sentence s{why_, sizeof why_};
  s << "the page at offset " << offset << " is lost: " << why;
  set_lost();
}

bool watched_memory::leave_file() noexcept {
  if (!where_.shared || left_file_) return true;
  left_file_ = map_over(where_.base, where_.file_bytes, 0, where_.descriptor);
  return left_file_;
}

bool watched_memory::put_zeros(std::uint64_t offset, std::uint64_t granule, std::uint64_t file_length) noexcept {
  for (unsigned i = 0; i < count_; ++i) {
    range& r = ranges_[i];
    if (offset < r.from || offset >= r.to) continue;
    r.zeros = r.zeros || map_over(where_.base + r.from, r.to - r.from, MAP_ANONYMOUS, -1);
    return r.zeros;
  }
  range lost{round_down(offset, granule), round_down(offset, granule) + granule, false};
  const std::uint64_t end = round_up(file_length, page_bytes());
  if (offset < where_.file_bytes && offset >= end) lost = {end, where_.file_bytes, false};
  if (count_ == ranges_max) {
    // From here on all pages at once: page by page it would never end.
    lost = {0, where_.bytes, false};
    count_ = 0;
  }
  lost.to = lost.to > where_.bytes ? where_.bytes : lost.to;
  if (!map_over(where_.base + lost.from, lost.to - lost.from, MAP_ANONYMOUS, -1)) return false;
  lost.zeros = true;
  ranges_[count_++] = lost;
  return true;
}

// A mapping of an empty file: an access is SIGBUS.
void watched_memory::hide() noexcept {
  int empty = -1;
  for (unsigned i = 0; i < count_; ++i) {
    range& r = ranges_[i];
    if (!r.zeros) continue;
    if (empty < 0) empty = open_empty_file("holdfast lost page");
    std::byte* const at = where_.base + r.from;
    r.zeros = false;
    if (empty >= 0 && map_over(at, r.to - r.from, 0, empty)) continue;
    // Without a free descriptor: an access is SIGSEGV.
    (void)::mprotect(at, r.to - r.from, PROT_NONE);
  }
  if (empty >= 0) ::close(empty);
}

errc fail_struck() noexcept {
  char reason[480] = "memory of a file is lost";
  lost_page_handler::copy_reason(reason, sizeof reason);
  return fail(errc::io, "%s", reason);
}

}  // namespace nvm::platform
