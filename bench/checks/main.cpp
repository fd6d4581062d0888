// The cost of checks that a program can leave out: reads of lock-free structures and of nv-memcached that compare
// checksums, records of key-value stores that carry them, and the look of a thread that enters at whether its own side
// is claimed by one that is short of room.
//
// Both sides of a question run in turn in one process, on the same thread, in rounds: the quotient is the median of
// those of neighbours, with the smallest and the largest.  Time is the processor's, of this thread; a machine that does
// other work still disturbs it.  Instructions are counted by stepping, exactly, and say what the quotient cannot.
#include <fmt/core.h>
#include <unistd.h>

#include <nvm/kv.h>
#include <nvm/lockfree.h>
#include <nvm/nvm.h>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/clock.hpp"
#include "harness/statistics.hpp"
#include "harness/step_counter.hpp"
#include "server/durable_store.hpp"
#include "server/environment.hpp"
#include "server/executor.hpp"
#include "server/protocol.hpp"
#include "sync/sync.hpp"

namespace nvm::bench {
namespace {

struct settings {
  bool quick = false;
  unsigned rounds = 25;
  std::string filter;
  std::string directory = "/dev/shm";
  [[nodiscard]] std::uint64_t size(std::uint64_t full, std::uint64_t small) const { return quick ? small : full; }
};

[[noreturn]] void fail(const char* what) { throw std::runtime_error(fmt::format("{}: {}", what, nvm_errormsg())); }

// One side: does operations [first, first + n).
using side = std::function<void(std::uint64_t first, std::uint64_t n)>;

double instructions_of(const side& s, std::uint64_t ops) {
  if (!can_step()) return 0;
  s(0, ops);
  const std::uint64_t before = step_counter::counts().instructions;
  {
    const step_counter counting;
    s(0, ops);
  }
  return static_cast<double>(step_counter::counts().instructions - before) / static_cast<double>(ops);
}
double ns_of(const side& s, std::uint64_t first, std::uint64_t ops) {
  const std::uint64_t begin = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  s(first, ops);
  return static_cast<double>(read_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / static_cast<double>(ops);
}

void compare(const settings& how, const std::string& question, std::uint64_t ops, const side& with,
             const side& without) {
  if (question.find(how.filter) == std::string::npos) return;
  constexpr std::uint64_t stepped = 64;
  const double with_instructions = instructions_of(with, stepped);
  const double without_instructions = instructions_of(without, stepped);
  with(0, ops);
  without(0, ops);
  std::vector<double> a;
  std::vector<double> b;
  for (unsigned round = 0; round < how.rounds; ++round) {
    // The order changes from run to run, for the second finds what the first has left in the caches.
    if (round % 2 == 0) a.push_back(ns_of(with, round * ops, ops));
    b.push_back(ns_of(without, round * ops, ops));
    if (round % 2 != 0) a.push_back(ns_of(with, round * ops, ops));
  }
  const spread ratio = spread_of(pairwise_ratio(a, b));
  const double more = without_instructions == 0 ? 0 : 100 * (with_instructions / without_instructions - 1);
  fmt::print("| {} | {:.1f} | {:.1f} | {:+.1f} % | {:.1f} | {:.1f} | {:+.1f} % | {:+.1f} to {:+.1f} |\n", question,
             without_instructions, with_instructions, more, spread_of(b).median, spread_of(a).median,
             100 * (ratio.median - 1), 100 * (ratio.min - 1), 100 * (ratio.max - 1));
}

// ---- pools ----

class pool {
 public:
  explicit pool(const settings& how, std::uint64_t bytes)
      : path_{fmt::format("{}/holdfast-checks-{}", how.directory, ::getpid())} {
    ::unlink(path_.c_str());
    nvm_pool_options o{};
    o.size = o.capacity = bytes;
    pool_ = nvm_pool_create_with(path_.c_str(), &o);
    if (pool_ == nullptr) fail("create");
  }
  ~pool() {
    (void)nvm_pool_close(pool_);
    ::unlink(path_.c_str());
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  operator NVM_POOL*() const noexcept { return pool_; }

 private:
  std::string path_;
  NVM_POOL* pool_;
};

std::string key_of(std::uint64_t i) { return fmt::format("key-{:012}", i * 2654435761 % 1'000'000'007); }

// ---- questions ----

nvm_lf* open_hash(NVM_POOL* in, const char* name, std::uint32_t flags) {
  nvm_lf_options o{};
  o.kind = NVM_LF_HASH;
  o.flags = flags;
  o.expected = 1 << 16;
  nvm_lf* lf = nvm_lf_open(in, name, &o);
  return lf != nullptr ? lf : (fail("nvm_lf_open"), nullptr);
}

void ask_verified_gets(const settings& how) {
  const std::uint64_t keys = how.size(20'000, 500);
  const std::uint64_t ops = how.size(100'000, 500);
  for (const std::size_t bytes : {32U, 256U, 1024U, 4096U}) {
    const pool in{how, std::uint64_t{256} << 20};
    nvm_lf* plain = open_hash(in, "bytes", NVM_LF_BYTES);
    nvm_lf* checked = open_hash(in, "bytes", NVM_LF_BYTES | NVM_LF_VERIFY_READS);
    std::vector<std::string> all;
    const std::string value(bytes, 'v');
    for (std::uint64_t i = 0; i < keys; ++i) {
      all.push_back(key_of(i));
      if (nvm_lf_put(plain, all[i].data(), all[i].size(), value.data(), value.size(), 0, 0) < 0) fail("nvm_lf_put");
    }
    const auto get = [&](nvm_lf* from) {
      return [&all, keys, from](std::uint64_t first, std::uint64_t n) {
        char to[4096];
        for (std::uint64_t i = first; i < first + n; ++i) {
          const std::string& k = all[i * 7919 % keys];
          if (nvm_lf_get(from, k.data(), k.size(), to, sizeof to, nullptr) != 1) fail("nvm_lf_get");
        }
      };
    };
    compare(how, fmt::format("NVM_LF_VERIFY_READS, nvm_lf_get of {} bytes", bytes), ops, get(checked), get(plain));
  }
  const pool in{how, std::uint64_t{64} << 20};
  nvm_lf* plain = open_hash(in, "words", 0);
  nvm_lf* checked = open_hash(in, "words", NVM_LF_VERIFY_READS);
  for (std::uint64_t i = 0; i < keys; ++i) {
    if (nvm_lf_put64(plain, 1000 + i, i, 0) < 0) fail("nvm_lf_put64");
  }
  const auto get = [&](nvm_lf* from) {
    return [keys, from](std::uint64_t first, std::uint64_t n) {
      for (std::uint64_t i = first; i < first + n; ++i) {
        std::uint64_t value = 0;
        if (nvm_lf_get64(from, 1000 + i * 7919 % keys, &value) != 1) fail("nvm_lf_get64");
      }
    };
  };
  compare(how, "NVM_LF_VERIFY_READS, nvm_lf_get64", ops, get(checked), get(plain));
}

// What a thread does when it enters a structure and leaves it: with the look at whether it is claimed, and without.
void ask_entering(const settings& how) {
  auto all = std::make_unique<nvm::epochs>();
  nvm::epochs& epochs = *all;
  const unsigned me = epochs.join();
  alignas(line_bytes) std::atomic<bool> claimed{false};
  std::uint64_t waited = 0;
  const side plain = [&](std::uint64_t, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      (void)epochs.enter(me);
      epochs.leave(me);
    }
  };
  const side looks = [&](std::uint64_t, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      (void)epochs.enter(me);
      if (claimed.load(std::memory_order_seq_cst)) [[unlikely]]
        ++waited;
      epochs.leave(me);
    }
  };
  compare(how, "look at the claim, enter and leave", how.size(2'000'000, 1'000), looks, plain);
  if (waited != 0) throw std::logic_error("nobody claims");
}

nvm_kv* open_store(NVM_POOL* in, nvm_kv_index index, std::uint32_t flags) {
  nvm_kv_options o{};
  o.index = index;
  o.flags = flags;
  nvm_kv* kv = nvm_kv_open(in, "store", &o);
  return kv != nullptr ? kv : (fail("nvm_kv_open"), nullptr);
}

void ask_record_checksums(const settings& how) {
  const std::uint64_t keys = how.size(20'000, 300);
  const std::uint64_t ops = how.size(30'000, 300);
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < keys; ++i) all.push_back(key_of(i));
  for (const auto& [index, name] : {std::pair{NVM_KV_HASH, "hash"}, std::pair{NVM_KV_BTREE, "B+tree"}}) {
    for (const std::size_t bytes : {100U, 1000U}) {
      // In pools of their own, side by side: what one allocates is not in the way of the other.
      const pool with_sums{how, std::uint64_t{128} << 20};
      const std::string beside = how.directory + "/holdfast-checks-without";
      ::unlink(beside.c_str());
      nvm_pool_options o{};
      o.size = o.capacity = std::uint64_t{128} << 20;
      NVM_POOL* without = nvm_pool_create_with(beside.c_str(), &o);
      if (without == nullptr) fail("create");
      nvm_kv* sums = open_store(with_sums, index, 0);
      nvm_kv* none = open_store(without, index, NVM_KV_NO_CHECKSUMS);
      const auto put = [&all, keys, bytes = bytes](nvm_kv* to) {
        return [&all, keys, bytes, to](std::uint64_t first, std::uint64_t n) {
          std::string value(bytes, 'v');
          for (std::uint64_t i = first; i < first + n; ++i) {
            const std::string& k = all[i * 7919 % keys];
            std::memcpy(value.data(), &i, sizeof i);
            if (nvm_kv_put(to, k.data(), k.size(), value.data(), value.size()) < 0) fail("nvm_kv_put");
          }
        };
      };
      put(sums)(0, keys);
      put(none)(0, keys);
      const std::string what = fmt::format("{}, {} bytes", name, bytes);
      compare(how, "record checksums, nvm_kv_put: " + what, ops, put(sums), put(none));
      for (nvm_kv* kv : {sums, none}) (void)nvm_kv_close(kv);
      (void)nvm_pool_close(without);
      ::unlink(beside.c_str());
    }
  }
}

// A worker of nv-memcached without its sockets: a command is parsed, carried out and answered.
class one_worker {
 public:
  explicit one_worker(const server::settings& given) : given_{given} {
    auto opened = server::durable_store::open(given_);
    if (!opened) throw std::runtime_error(last_message());
    store_ = std::move(*opened);
    shared_ = std::make_unique<server::environment>(given_, *store_);
    session_ = store_->open_session();
    executor_ = std::make_unique<server::executor>(*shared_, shared_->stats.add_worker(), *session_);
  }
  std::size_t say(std::string_view bytes) {
    if (!session_->enter()) throw std::bad_alloc{};
    const server::parsed p = server::parse(bytes, {given_.item_bytes_max, false}, command_);
    if (p.what != server::parsed::answer::command) throw std::logic_error("no command");
    (void)executor_->execute(command_, out_);
    const std::size_t answered = out_.pending();
    out_.clear(1 << 16);
    session_->leave();
    return answered;
  }

 private:
  server::settings given_;
  std::unique_ptr<server::durable_store> store_;
  std::unique_ptr<server::environment> shared_;
  std::unique_ptr<server::item_session> session_;
  std::unique_ptr<server::executor> executor_;
  server::command command_;
  server::reply_buffer out_;
};

// A question to the server, asked without and with a check.
struct server_question {
  const char* what;
  void (*choose)(server::settings& s, bool with);
  bool changes;
};
constexpr server_question server_questions[] = {
    {"nv-memcached verifies, get", [](server::settings& s, bool with) { s.verify_reads = with; }, false},
    {"nv-memcached's item checksums, set", [](server::settings& s, bool with) { s.checksums = with; }, true},
};

void ask_server(const settings& how, const server_question& q, std::size_t bytes) {
  const std::uint64_t keys = how.size(20'000, 300);
  std::unique_ptr<one_worker> workers[2];
  std::string paths[2];
  std::vector<std::string> sets;
  std::vector<std::string> gets;
  for (std::uint64_t i = 0; i < keys; ++i) {
    sets.push_back(fmt::format("set {} 0 0 {}\r\n{}\r\n", key_of(i), bytes, std::string(bytes, 'v')));
    gets.push_back(fmt::format("get {}\r\n", key_of(i)));
  }
  for (const bool with : {false, true}) {
    server::settings given;
    given.pool_path = paths[with] = fmt::format("{}/holdfast-checks-server-{}", how.directory, with);
    q.choose(given, with);
    ::unlink(given.pool_path.c_str());
    workers[with] = std::make_unique<one_worker>(given);
    for (const std::string& set : sets) workers[with]->say(set);
  }
  const auto ask = [&](one_worker& of) {
    return [&, keys](std::uint64_t first, std::uint64_t n) {
      for (std::uint64_t i = first; i < first + n; ++i) {
        const std::size_t answered = of.say((q.changes ? sets : gets)[i * 7919 % keys]);
        if (!q.changes && answered < bytes) throw std::logic_error("a miss");
      }
    };
  };
  compare(how, fmt::format("{} of {} bytes without sockets", q.what, bytes), how.size(100'000, 300), ask(*workers[1]),
          ask(*workers[0]));
  for (const bool with : {false, true}) {
    workers[with].reset();
    ::unlink(paths[with].c_str());
  }
}

int run(int count, char** given) {
  settings how;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = given[i];
    const bool has_value = i + 1 < count;
    if (word == "--quick") {
      how.quick = true;
      how.rounds = 3;
    } else if (word == "--rounds" && has_value) {
      how.rounds = static_cast<unsigned>(std::strtoul(given[++i], nullptr, 10));
    } else if (word == "--filter" && has_value) {
      how.filter = given[++i];
    } else if (word == "--dir" && has_value) {
      how.directory = given[++i];
    } else {
      fmt::print("usage: bench-checks [--quick] [--rounds N] [--filter PART] [--dir FOLDER]\n");
      return word == "--help" ? 0 : 2;
    }
  }
  fmt::print("| question | instructions without | with | more | ns without | with | more | of {} rounds |\n",
             how.rounds);
  fmt::print("| :-- | --: | --: | --: | --: | --: | --: | --: |\n");
  ask_entering(how);
  ask_verified_gets(how);
  ask_record_checksums(how);
  for (const server_question& q : server_questions) {
    for (const std::size_t bytes : {100U, 1000U}) ask_server(how, q, bytes);
  }
  return 0;
}

}  // namespace
}  // namespace nvm::bench

int main(int count, char** given) {
  try {
    return nvm::bench::run(count, given);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-checks: {}\n", e.what());
    return 1;
  }
}
