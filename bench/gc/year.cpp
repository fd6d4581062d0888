// Does a pool fill up whose programs are killed, and unlink and forget?
//
//   year-counted     a pool of 64 MiB, random programs that replace, move, share and unlink parts of a graph and never
//                    free anything, each killed after a tenth of a second; references are counted in the background,
//                    and one program in 64 traces at its beginning, since one change in 64 makes a cycle
//   year-uncounted   the same without: until the pool is full, or as long
//
// As many kills as --ops says (600: a minute; 6000 make the year in ten minutes).  Prints how much of the pool was in
// use, and when it was full.
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "gc/questions.hpp"
#include "gc/typed_pool.hpp"
#include "harness/clock.hpp"
#include "harness/mapped_file.hpp"
#include "harness/random.hpp"
#include "recovery/child.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t pool_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t slots = 256;  // of the root
constexpr unsigned kinds = 4;
constexpr std::uint64_t pointers_of_node = 2;
constexpr std::uint64_t bytes_of[kinds] = {48, 112, 496, 2032};

std::string name_of(unsigned kind) { return fmt::format("bench_year_{}", kind); }
void announce() {
  for (unsigned k = 0; k < kinds; ++k) announce_type(name_of(k).c_str(), pointers_of_node, bytes_of[k]);
  announce_type("bench_year_root", slots, slots * 8);
}

// Counts of the programs, in memory that outlives them.
struct told {
  std::uint64_t transactions = 0, objects = 0, traces = 0, traced = 0;
  std::uint64_t used_pages_most = 0, pages = 0;
  std::uint64_t full = 0;    // 1: there was no room
  std::uint64_t failed = 0;  // 1: anything else went wrong
};

class program {
 public:
  program(const std::string& path, nvm_collect collect, std::uint64_t seed, told& t)
      : pool_{open_counted(path, collect)}, source_{seed}, told_{t} {
    for (unsigned k = 0; k < kinds; ++k) types_[k] = layout::type_id_of(name_of(k).c_str());
    root_ = static_cast<void**>(nvm_pool_get_root(pool_));
    if (root_ == nullptr) fail_in("nvm_pool_get_root");
  }
  void trace() {
    nvm_gc_report r{};
    done(nvm_gc(pool_, nullptr, &r), "nvm_gc");
    ++told_.traces;
    told_.traced += r.freed_objects;
  }
  // Until it is killed, or there is no room.
  void run() {
    for (std::uint64_t i = 0;; ++i) {
      if (i % 64 == 0) note_use();
      done(nvm_tx_begin(pool_), "nvm_tx_begin");
      std::uint64_t made = 0;
      const bool fits = change(made);
      if (!fits) {
        if (nvm_errno() != NVM_E_NO_SPACE) fail_in("nvm_calloc");
        told_.full = 1;
        return;
      }
      if (nvm_tx_commit(pool_) != 0) {
        if (nvm_errno() != NVM_E_NO_SPACE) fail_in("nvm_tx_commit");
        told_.full = 1;
        return;
      }
      ++told_.transactions;
      told_.objects += made;
    }
  }

 private:
  void set(void** where, void* to) {
    done(nvm_tx_log(where, sizeof *where), "nvm_tx_log");
    *where = to;
  }
  // False: there was no room; the transaction is rolled back.
  bool change(std::uint64_t& made) {
    void** const slot = root_ + source_.below(slots);
    switch (source_.below(8)) {
      case 0:
        set(slot, nullptr);
        return true;
      case 1:  // shared by two
        set(slot, root_[source_.below(slots)]);
        return true;
      case 2: {  // the rest of it instead of it
        auto* const first = static_cast<void**>(*slot);
        set(slot, first == nullptr ? nullptr : first[source_.below(pointers_of_node)]);
        return true;
      }
      default:
        return grow(slot, made);
    }
  }
  // A tree of some nodes instead of what was there, or before it.
  bool grow(void** slot, std::uint64_t& made) {
    void* below = source_.below(4) == 0 ? *slot : nullptr;
    void** last = nullptr;
    for (std::uint64_t n = 1 + source_.below(6); n != 0; --n) {
      const std::uint64_t kind = source_.below(kinds);
      auto* const node = static_cast<void**>(nvm_calloc(pool_, types_[kind], 1, bytes_of[kind]));
      if (node == nullptr) return false;
      node[source_.below(pointers_of_node)] = below;
      if (last == nullptr) last = node;
      below = node;
      ++made;
    }
    if (source_.below(64) == 0) last[0] = below;  // a cycle
    set(slot, below);
    return true;
  }
  void note_use() {
    nvm_pool_info info{};
    done(nvm_pool_get_info(pool_, &info), "nvm_pool_get_info");
    told_.used_pages_most = std::max(told_.used_pages_most, info.used_pages);
    told_.pages = info.used_pages + info.free_pages;
  }

  NVM_POOL* const pool_;
  random source_;
  told& told_;
  std::uint32_t types_[kinds] = {};
  void** root_ = nullptr;
};

std::uint64_t create(const std::string& path, nvm_collect collect) {
  announce();
  nvm_pool_options o = counted_pool(collect);
  o.size = o.capacity = pool_bytes;
  NVM_POOL* const pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr) fail_in("nvm_pool_create_with");
  done(nvm_tx_begin(pool), "nvm_tx_begin");
  void* const root = nvm_calloc(pool, layout::type_id_of("bench_year_root"), 1, slots * 8);
  if (root == nullptr) fail_in("nvm_calloc");
  done(nvm_pool_set_root(pool, root), "nvm_pool_set_root");
  done(nvm_tx_commit(pool), "nvm_tx_commit");
  done(nvm_pool_close(pool), "nvm_pool_close");
  return 0;
}

void let_run(const std::string& path, nvm_collect collect, std::uint64_t number, told& t) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    try {
      announce();
      program p{path, collect, number, t};
      if (collect != NVM_COLLECT_OFF && number % 64 == 63) p.trace();
      p.run();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      t.failed = 1;
    }
    kill(getpid(), SIGKILL);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (t.failed != 0) throw std::runtime_error("a program has failed");
}

struct outcome {
  told last;
  std::uint64_t kills = 0;
  double seconds = 0;
};
outcome live(const options& o, nvm_collect collect, std::uint64_t kills) {
  const temporary_path path(o.directory, "year.nvm");
  in_killed_child([&] { return create(path.string(), collect); });
  void* const shared = mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("mmap");
  told& t = *new (shared) told;
  outcome out;
  const std::uint64_t start = wall_ns();
  while (out.kills < kills && t.full == 0) let_run(path.string(), collect, out.kills++, t);
  out.seconds = static_cast<double>(wall_ns() - start) / 1e9;
  out.last = t;
  munmap(shared, sizeof(told));
  return out;
}

}  // namespace

void measure_year(runner& r, const options& o) {
  const std::uint64_t kills = o.ops != 0 ? o.ops : o.full_or_quick<std::uint64_t>(600, 20);
  for (const auto& [name, collect] :
       {std::pair{"year-counted", NVM_COLLECT_BACKGROUND}, std::pair{"year-uncounted", NVM_COLLECT_OFF}}) {
    if (!o.selects(name)) continue;
    const outcome out = live(o, collect, kills);
    const told& t = out.last;
    fmt::print("{}: {} kills in {:.1f} s, {} transactions, {} objects made; at most {} of {} pages in use{}\n", name,
               out.kills, out.seconds, t.transactions, t.objects, t.used_pages_most, t.pages,
               t.full != 0 ? "; then it was full" : "");
    std::fflush(stdout);
    nlohmann::ordered_json j{{"name", name}, {"threads", 1}, {"unit", "transaction"}, {"units_per_op", 1}};
    j["parameters"] = {{"pool_bytes", pool_bytes},
                       {"kills", out.kills},
                       {"seconds", out.seconds},
                       {"transactions", t.transactions},
                       {"objects", t.objects},
                       {"traces", t.traces},
                       {"freed_by_traces", t.traced},
                       {"used_pages_most", t.used_pages_most},
                       {"pages", t.pages},
                       {"full", t.full}};
    j["systems"] = nlohmann::ordered_json::array();
    j["ratios"] = nlohmann::ordered_json::array();
    r.add(std::move(j));
    if (collect != NVM_COLLECT_OFF && t.full != 0)
      throw std::runtime_error("a pool whose references are counted is full");
  }
}

}  // namespace nvm::bench
