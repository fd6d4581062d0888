#include <cstring>

#include "bank.hpp"
#include "nvm/stm.hpp"

namespace nvm::bank {
namespace {

using nvm::kills::report;

constexpr unsigned accounts = 128;
constexpr std::int64_t opening = 1000, total_ever = opening * accounts;

struct receipt {
  receipt* older;
  std::uint64_t number, from, to;
  std::int64_t amount;
};
struct bank {
  std::int64_t account[accounts];
  std::uint64_t done[threads_max];  // transfers of each thread
  receipt* receipts[threads_max];   // the latest first
  std::uint64_t receipt_count;
};

}  // namespace

NVM_POOL* engine::open(const std::string& path, ledger& s) const {
  NVM_POOL* pool = nvm_pool_open(path.c_str());
  if (pool == nullptr) {
    report(s, "the pool does not open");
  } else if (write_back) {
    (void)nvm_stm_set_policy(pool, NVM_STM_POLICY_WRITE_BACK);
  }
  return pool;
}

void engine::make(const std::string& path, ledger& s) const {
  nvm_pool_options o{};
  o.size = std::uint64_t{8} << 20;
  o.medium = medium;
  o.engine = made_of;
  if (by_mark) o.validation = NVM_VALIDATION_COMMIT_MARK;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr) return void(report(s, "no pool is made"));
  const nvm::outcome done = nvm::atomic(pool, [&](nvm::tx& t) {
    auto* b = static_cast<bank*>(t.alloc(1, sizeof(bank)));
    std::memset(static_cast<void*>(b), 0, sizeof(bank));
    for (std::int64_t& a : b->account) a = opening;
    t.set_root(b);
  });
  if (!done || nvm_pool_close(pool) != 0) report(s, "no bank is made");
}

// ---- the process that is killed

namespace {

void transfer(nvm::tx& t, bank* b, unsigned me, std::uint64_t number, std::mt19937_64& random) {
  const std::uint64_t from = random() % accounts, to = random() % accounts;
  const auto amount = static_cast<std::int64_t>(random() % 50);
  const std::int64_t have = t.load(&b->account[from]);
  t.store(&b->account[from], have - amount);
  t.store(&b->account[to], t.load(&b->account[to]) + amount);
  if (random() % 4 == 0) {
    auto* r = static_cast<receipt*>(t.alloc(2, sizeof(receipt)));
    *r = {t.load(&b->receipts[me]), number, from, to, amount};
    t.store(&b->receipts[me], r);
    t.store(&b->receipt_count, t.load(&b->receipt_count) + 1);
  } else if (random() % 3 == 0) {
    // As many go as come: a pool stays small through a long campaign, and quick to look at.
    if (receipt* r = t.load(&b->receipts[me]); r != nullptr) {
      t.store(&b->receipts[me], t.load(&r->older));
      t.store(&b->receipt_count, t.load(&b->receipt_count) - 1);
      t.free(r);
    }
  }
  t.store(&b->done[me], number);
}

void transfer_on(ledger& s, NVM_POOL* pool, unsigned me, std::uint64_t seed) {
  auto* b = static_cast<bank*>(nvm_pool_get_root(pool));
  std::mt19937_64 random{seed * threads_max + me};
  s.working.fetch_add(1);
  for (std::uint64_t number = s.acknowledged[me].load() + 1; !s.failed.load(); ++number) {
    const std::uint64_t seed_of_attempt = random();
    const bool look = random() % 64 == 0;
    std::int64_t total = 0;
    const nvm::outcome done = nvm::atomic(pool, [&](nvm::tx& t) {
      std::mt19937_64 again{seed_of_attempt};
      transfer(t, b, me, number, again);
      if (again() % 8 == 0) {
        // What is taken back is never seen.
        (void)nvm::atomic(pool, [&](nvm::tx& u) {
          u.store(&b->account[again() % accounts], -1'000'000);
          if (again() % 2 == 0) (void)u.alloc(3, 100);
          return false;
        });
      }
      if (look) {
        total = 0;
        for (const std::int64_t& a : b->account) total += t.load(&a);
      }
    });
    if (!done) return void(report(s, "a transfer fails with %d", done.code()));
    if (look && total != total_ever)
      return void(report(s, "the total inside: found %" PRId64 ", expected %" PRId64, total, total_ever));
    // release: whoever sees the number sees a transfer that is durable.
    s.acknowledged[me].store(number, std::memory_order_release);
  }
}

}  // namespace

void engine::work(const std::string& path, ledger& s, unsigned threads, std::uint64_t seed) const {
  NVM_POOL* pool = open(path, s);
  if (pool == nullptr) return;
  std::vector<std::thread> all;
  all.reserve(threads);
  for (unsigned me = 0; me < threads; ++me) all.emplace_back([&s, pool, me, seed] { transfer_on(s, pool, me, seed); });
  for (std::thread& t : all) t.join();  // only a failure ends the work
}

// ---- the process that looks

bool engine::look(const std::string& path, ledger& s, unsigned threads) const {
  nvm_check_summary found{};
  if (const std::int64_t findings = nvm_pool_check(path.c_str(), nullptr, nullptr, &found); findings != 0)
    return report(s, "findings of the check: found %" PRId64, findings);
  NVM_POOL* pool = open(path, s);
  if (pool == nullptr) return false;
  auto* b = static_cast<bank*>(nvm_pool_get_root(pool));
  std::int64_t total = 0;
  for (const std::int64_t a : b->account) total += a;
  if (total != total_ever) return report(s, "the total: found %" PRId64 ", expected %" PRId64, total, total_ever);
  std::uint64_t receipts = 0;
  for (unsigned me = 0; me < threads; ++me) {
    const std::uint64_t acknowledged = s.acknowledged[me].load();
    if (b->done[me] != acknowledged && b->done[me] != acknowledged + 1)
      return report(s, "transfers of a thread: found %" PRIu64 ", expected %" PRIu64 " or one more", b->done[me],
                    acknowledged);
    std::uint64_t before = UINT64_MAX;
    for (const receipt* r = b->receipts[me]; r != nullptr; r = r->older, ++receipts) {
      if (r->number >= before || nvm_size_of(pool, r) != sizeof(receipt))
        return report(s, "a receipt's number: found %" PRIu64 ", expected less than %" PRIu64, r->number, before);
      before = r->number;
    }
  }
  if (receipts != b->receipt_count)
    return report(s, "receipts: found %" PRIu64 ", expected %" PRIu64, receipts, b->receipt_count);
  // What was not acknowledged and is there, counts from now on.
  for (unsigned me = 0; me < threads; ++me) s.acknowledged[me].store(b->done[me]);
  if (nvm_pool_close(pool) != 0) return report(s, "the pool does not close");
  if (nvm_pool_check(path.c_str(), nullptr, nullptr, &found) != 0) return report(s, "findings after closing");
  // The bank itself, and the receipts: nothing leaks.
  if (found.objects != receipts + 1)
    return report(s, "objects: found %" PRIu64 ", expected %" PRIu64, found.objects, receipts + 1);
  s.looked.store(1);
  return true;
}

}  // namespace nvm::bank
