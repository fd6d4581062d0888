#include "cli/proof_pool.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace nvm::cli {
namespace {

constexpr unsigned cells = 4;
constexpr unsigned ring = 8;
constexpr std::size_t cell_bytes = 5000;  // whole pages
constexpr std::uint32_t root_type = 1, cell_type = 2, block_type = 3;

struct block {
  std::uint64_t number;
  std::uint64_t words[1];  // more of them
};
struct proof_root {
  std::uint64_t number;
  std::uint64_t* cell[cells];
  block* last[ring];  // of transaction n: n modulo `ring`
};

constexpr std::uint64_t mixed(std::uint64_t n, std::uint64_t i) noexcept {
  std::uint64_t x = n * 0x9E37'79B9'7F4A'7C15 + i * 0xD6E8'FEB8'6659'FD93;
  return x ^ x >> 29;
}
// Fine slots, coarse slots and runs of pages in turn.
constexpr std::size_t words_of(std::uint64_t n) noexcept {
  constexpr std::size_t sizes[] = {2, 5, 20, 60, 3, 200, 9, 700};
  return sizes[n % 5 + n % 3];
}
constexpr std::size_t word_in_cell(std::uint64_t n, unsigned c) noexcept { return (n * 3 + c) % 2 * 311; }

std::string library_says(const char* what) { return fmt::format("{}: {}", what, nvm_errormsg()); }

bool change(NVM_POOL* pool, std::uint64_t n, bool forgetting) {
  if (nvm_tx_begin(pool) != 0) return false;
  auto* root = static_cast<proof_root*>(nvm_pool_get_root(pool));
  block*& place = root->last[n % ring];
  const std::size_t words = words_of(n);
  auto* fresh = static_cast<block*>(nvm_alloc(pool, block_type, sizeof(std::uint64_t) * (1 + words)));
  bool good = fresh != nullptr;
  if (good) {
    fresh->number = n;
    for (std::size_t i = 0; i < words; ++i) fresh->words[i] = mixed(n, i);
    nvm_range ranges[2 + 2 * cells] = {{&root->number, sizeof root->number}, {&place, sizeof place}};
    std::size_t count = 2;
    for (unsigned c = 0; c < cells; ++c) {
      if (forgetting && c == cells - 1) continue;
      // The number's own word, and one of two that change by turns.
      ranges[count++] = {root->cell[c], sizeof(std::uint64_t)};
      ranges[count++] = {root->cell[c] + 1 + word_in_cell(n, c), sizeof(std::uint64_t)};
    }
    good = nvm_tx_log_many(ranges, count) == 0 && nvm_free(pool, place) == 0;
  }
  if (!good) {
    (void)nvm_tx_abort(pool);
    return false;
  }
  root->number = n;
  place = fresh;
  for (unsigned c = 0; c < cells; ++c) {
    root->cell[c][0] = n;
    root->cell[c][1 + word_in_cell(n, c)] = n;
  }
  return nvm_tx_commit(pool) == 0;
}

std::string fault_of_contents(NVM_POOL* pool, std::uint64_t acknowledged, std::uint64_t begun) {
  const auto* root = static_cast<const proof_root*>(nvm_pool_get_root(pool));
  if (root == nullptr) return "the root is gone";
  const std::uint64_t n = root->number;
  if (n < acknowledged) {
    return fmt::format("transaction {} had been acknowledged, the pool holds those up to {}", acknowledged, n);
  }
  if (n > begun) return fmt::format("the pool holds transaction {}, which was never begun (last: {})", n, begun);
  for (unsigned c = 0; c < cells; ++c) {
    for (const std::uint64_t found : {root->cell[c][0], n == 0 ? n : root->cell[c][1 + word_in_cell(n, c)]}) {
      if (found != n) return fmt::format("transaction {} is half there: cell {} is of transaction {}", n, c, found);
    }
  }
  for (std::uint64_t back = 0; back < ring && back < n; ++back) {
    const std::uint64_t k = n - back;
    const block* b = root->last[k % ring];
    bool whole = b != nullptr && nvm_size_of(pool, b) == sizeof(std::uint64_t) * (1 + words_of(k)) && b->number == k;
    for (std::size_t i = 0; whole && i < words_of(k); ++i) whole = b->words[i] == mixed(k, i);
    if (!whole) return fmt::format("after transaction {} the object of transaction {} is damaged", n, k);
  }
  std::uint64_t objects = 0;
  const auto count = [](void*, std::uint32_t, std::size_t, void* to) {
    ++*static_cast<std::uint64_t*>(to);
    return 0;
  };
  if (nvm_pool_each(pool, count, &objects) != 0) return library_says("walking over the objects");
  const std::uint64_t expected = 1 + cells + std::min<std::uint64_t>(n, ring);
  if (objects != expected) {
    return fmt::format("after transaction {}: {} objects, expected {}", n, objects, expected);
  }
  return {};
}

}  // namespace

std::string proof_pool::create(const std::string& path, const nvm_pool_options& options) {
  const auto close = [](NVM_POOL* p) { (void)nvm_pool_close(p); };
  std::unique_ptr<NVM_POOL, decltype(close)> pool{nvm_pool_create_with(path.c_str(), &options), close};
  if (!pool) return nvm_errormsg();
  bool good = nvm_tx_begin(pool.get()) == 0;
  proof_root* root = nullptr;
  if (good) root = static_cast<proof_root*>(nvm_calloc(pool.get(), root_type, 1, sizeof *root));
  good = root != nullptr;
  for (unsigned c = 0; good && c < cells; ++c) {
    root->cell[c] = static_cast<std::uint64_t*>(nvm_calloc(pool.get(), cell_type, 1, cell_bytes));
    good = root->cell[c] != nullptr;
  }
  good = good && nvm_pool_set_root(pool.get(), root) == 0 && nvm_tx_commit(pool.get()) == 0;
  if (!good) return library_says("the first transaction");
  if (nvm_pool_close(pool.release()) != 0) return library_says("closing");
  return {};
}

NVM_POOL* proof_pool::open(const std::string& path, std::uint32_t medium) {
  nvm_pool_options o{};
  o.medium = medium;
  o.accept_copy = 1;  // states of a device are written into files of their own
  return nvm_pool_open_with(path.c_str(), &o);
}

std::uint64_t proof_pool::number(NVM_POOL* pool) {
  return static_cast<const proof_root*>(nvm_pool_get_root(pool))->number;
}

bool proof_pool::step(NVM_POOL* pool, std::uint64_t n) { return change(pool, n, false); }
bool proof_pool::step_with_a_store_forgotten(NVM_POOL* pool, std::uint64_t n) { return change(pool, n, true); }

std::string proof_pool::judge(const std::string& path, std::uint32_t medium, std::uint64_t acknowledged,
                              std::uint64_t begun) {
  struct first_finding {
    std::string text;
  } first;
  const auto note = [](std::uint64_t at, const char* finding, void* to) {
    auto* f = static_cast<first_finding*>(to);
    if (f->text.empty()) f->text = fmt::format("the check finds, at offset {}: {}", at, finding);
  };
  nvm_check_options how{};
  how.report = note;
  how.argument = &first;
  how.accept_copy = 1;
  const std::int64_t found = nvm_pool_check_with(path.c_str(), &how, nullptr);
  if (found > 0) return first.text;
  if (found < 0) return library_says("the check");
  NVM_POOL* pool = open(path, medium);
  if (pool == nullptr) return library_says("opening it again");
  std::string fault = fault_of_contents(pool, acknowledged, begun);
  if (nvm_pool_close(pool) != 0 && fault.empty()) fault = library_says("closing it again");
  return fault;
}

std::string in_a_child(const std::function<std::string()>& work) {
  constexpr std::size_t room = 4096;
  void* shared = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return "no memory to share with a child process";
  auto* text = static_cast<char*>(shared);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const std::string answer = work();
    std::copy_n(answer.data(), std::min(answer.size(), room - 1), text);  // zeros after it
    ::_exit(0);
  }
  std::string answer;
  int ending = 0;
  if (child < 0) {
    answer = fmt::format("no child process: {}", std::strerror(errno));
  } else {
    while (::waitpid(child, &ending, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(ending)) {
      answer = fmt::format("the process that looked at it died of signal {} ({})", WTERMSIG(ending),
                           ::strsignal(WTERMSIG(ending)));
    } else if (WEXITSTATUS(ending) != 0) {
      answer = fmt::format("the process that looked at it ended with code {}", WEXITSTATUS(ending));
    } else {
      answer = text;
    }
  }
  ::munmap(shared, room);
  return answer;
}

}  // namespace nvm::cli
