// What do allocating and freeing an object cost? (Breeze, Table IV, for 1, 2 and 4 KiB.)
//
//   alloc-free-2tx  an object is allocated in one transaction and freed in the next
//   alloc-free-1tx  both in one transaction
//   alloc           objects are allocated, a transaction each, and freed untimed before the next repetition: what
//                   Table IV prints
//
// The program stores one word into each object and reads it before the free: allocators are compared, not memset. That
// the rest of the object is durable when its transaction commits is each library's own duty.
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"
#include "harness/random.hpp"
#include "systems/heaps.hpp"
#include "transactional/questions.hpp"

namespace nvm::bench {
namespace {

struct alignas(64) thread_state {
  digest seen;
  std::vector<std::uint64_t*> objects;
};

std::uint64_t digest_of(const std::vector<thread_state>& states) {
  digest all;
  for (const thread_state& s : states) all.add(s.seen.value());
  return all.value();
}

template <heap H, bool OneTransaction>
class alloc_free final : public contestant {
 public:
  alloc_free(const heap_settings& settings, unsigned threads, std::size_t bytes)
      : heap_(settings), bytes_(bytes), states_(threads) {}

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    digest seen = states_[thread].seen;
    for (std::uint64_t i = first; i < first + ops; ++i) {
      heap_.begin();
      auto* object = static_cast<std::uint64_t*>(heap_.alloc(bytes_));
      *object = i;
      if constexpr (!OneTransaction) {
        heap_.commit();
        heap_.begin();
      }
      seen.add(*object);
      heap_.free(object);
      heap_.commit();
    }
    states_[thread].seen = seen;
  }
  std::uint64_t work_digest() override { return digest_of(states_); }
  std::optional<std::uint64_t> bytes_logged() override { return heap_.bytes_logged(); }

 private:
  H heap_;
  std::size_t bytes_;
  std::vector<thread_state> states_;
};

template <heap H>
class alloc_many final : public contestant {
 public:
  alloc_many(const heap_settings& settings, unsigned threads, std::size_t bytes)
      : heap_(settings), bytes_(bytes), states_(threads) {}

  // Frees what the repetition before allocated.
  void prepare(unsigned thread, std::uint64_t, std::uint64_t ops) override {
    thread_state& s = states_[thread];
    for (std::uint64_t* object : s.objects) {
      heap_.begin();
      s.seen.add(*object);
      heap_.free(object);
      heap_.commit();
    }
    s.objects.clear();
    s.objects.reserve(ops);
  }
  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    thread_state& s = states_[thread];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      heap_.begin();
      auto* object = static_cast<std::uint64_t*>(heap_.alloc(bytes_));
      *object = i;
      heap_.commit();
      s.objects.push_back(object);
    }
  }
  std::uint64_t work_digest() override { return digest_of(states_); }
  std::optional<std::uint64_t> bytes_logged() override { return heap_.bytes_logged(); }

 private:
  H heap_;
  std::size_t bytes_;
  std::vector<thread_state> states_;
};

enum class kind { two_transactions, one_transaction, many };

benchmark make(const options& o, unsigned threads, kind k, std::size_t bytes) {
  benchmark b;
  const char* name = k == kind::two_transactions  ? "alloc-free-2tx"
                     : k == kind::one_transaction ? "alloc-free-1tx"
                                                  : "alloc";
  b.name = std::string(name) + "-" + std::to_string(bytes);
  b.unit = k == kind::many ? "allocation" : "allocation and free";
  b.threads = threads;
  b.ops =
      k == kind::many ? o.full_or_quick<std::uint64_t>(100'000, 2'000) : o.full_or_quick<std::uint64_t>(100'000, 5'000);
  b.warmup_ops = b.ops / 4;
  // What must reach the medium is the object; nothing where it is gone again when the transaction commits.
  b.payload = k == kind::one_transaction ? payload_shape{0, 1, 64 * bytes}
                                         : payload_shape{1, bytes / 64, k == kind::many ? b.ops * bytes : 64 * bytes};
  b.parameters = {{"object_bytes", bytes}};
  const heap_settings settings{o.directory, threads * (k == kind::many ? b.ops * bytes : 64 * bytes)};
  for_each_heap([&]<class H>(role r) {
    b.systems.push_back({H::name, r, [=]() -> std::unique_ptr<contestant> {
                           if (k == kind::two_transactions)
                             return std::make_unique<alloc_free<H, false>>(settings, threads, bytes);
                           if (k == kind::one_transaction)
                             return std::make_unique<alloc_free<H, true>>(settings, threads, bytes);
                           return std::make_unique<alloc_many<H>>(settings, threads, bytes);
                         }});
  });
  return b;
}

}  // namespace

std::vector<benchmark> alloc_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const kind k : {kind::two_transactions, kind::one_transaction, kind::many})
    for (const std::size_t bytes : {64, 256, 1024, 2048, 4096})
      if (k != kind::many || bytes >= 1024) all.push_back(make(o, threads, k, bytes));
  return all;
}

}  // namespace nvm::bench
