// What does a barrier cost, and a transaction around it, without the fences of a pool?  Volatile memory, in the cache.
#include <fmt/core.h>

#include <memory>
#include <nvm/stm.hpp>
#include <stdexcept>
#include <vector>

#include "harness/random.hpp"
#include "harness/runner.hpp"

namespace nvm::bench {
namespace {

constexpr std::size_t words = 2048;  // 16 KiB: what is measured is the instructions

enum class kind { plain_load, load, store, load_each_line, store_each_line };

class barriers final : public contestant {
 public:
  barriers(kind what, std::size_t per_transaction, unsigned threads)
      : what_(what), per_transaction_(per_transaction), memory_(words * threads) {}

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    std::uint64_t* const mine = memory_.data() + words * thread;
    const std::size_t step = what_ == kind::load_each_line || what_ == kind::store_each_line ? 8 : 1;
    const bool stores = what_ == kind::store || what_ == kind::store_each_line;
    for (std::uint64_t i = first; i < first + ops; ++i) {
      std::uint64_t sum = 0;
      const auto each = [&](auto&& access) {
        sum = 0;
        for (std::size_t k = 0; k < per_transaction_; ++k) access(mine + (i + k) * step % words);
      };
      if (what_ == kind::plain_load) {
        each([&](const std::uint64_t* p) { sum += *static_cast<const volatile std::uint64_t*>(p); });
      } else {
        const outcome done = atomic([&](tx& t) {
          if (stores) {
            each([&](std::uint64_t* p) { t.store(p, i); });
          } else {
            each([&](std::uint64_t* p) { sum += t.load(p); });
          }
        });
        if (!done) throw std::runtime_error(nvm_errormsg());
      }
      total_ += sum;
    }
  }
  std::uint64_t work_digest() override { return 0; }
  std::uint64_t aborts() override {
    nvm_stm_statistics s{};
    nvm_stm_get_statistics(&s);
    return s.conflicts;
  }

 private:
  kind what_;
  std::size_t per_transaction_;
  std::vector<std::uint64_t> memory_;
  std::uint64_t total_ = 0;
};

benchmark barrier_benchmark(const options& o, unsigned threads, std::size_t per_transaction) {
  benchmark b;
  b.name = fmt::format("barriers-{}", per_transaction);
  b.unit = "access";
  b.units_per_op = per_transaction;
  b.threads = threads;
  b.ops = o.full_or_quick<std::uint64_t>(4'000'000, 40'000) / per_transaction;
  b.warmup_ops = b.ops / 4;
  b.parameters = {{"words", words}, {"accesses_per_transaction", per_transaction}};
  const auto add = [&](const char* name, role r, kind what) {
    b.systems.push_back({name, r, [=] { return std::make_unique<barriers>(what, per_transaction, threads); }});
  };
  add("plain loads", role::peer, kind::plain_load);
  add("loads", role::subject, kind::load);
  add("loads, each of another line", role::subject, kind::load_each_line);
  add("stores", role::subject, kind::store);
  add("stores, each to another line", role::subject, kind::store_each_line);
  return b;
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(argc, argv,
                {.question = "What a barrier costs, and a transaction around it",
                 .directory = "/dev/shm",
                 .threads = {1, 2},
                 .runs = 5,
                 .quick_records = 1'000},
                [](runner& r, const options& o) {
                  for (const unsigned threads : o.threads)
                    for (const std::size_t n : {1, 8, 64, 256}) r.run(barrier_benchmark(o, threads, n));
                });
}
