#include "workload.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace nvm::tests {

namespace {
constexpr std::uint32_t list_length_max = 126, active_lists = 5, lists = 5200, slots = 6;
// Records of a thread after which the next lists are in use: short lists, and many transactions on each.
constexpr std::uint32_t records_of_lists = 20;
// Kept free for look_at_everything().
constexpr std::uint32_t records_at_the_end = 1500;
}  // namespace

std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

struct history_pool::list {
  std::uint64_t length;
  std::uint32_t elements[list_length_max];
};
struct history_pool::board {
  list lists[tests::lists];
  struct {
    std::uint64_t present, value;
  } slots[tests::slots];
};

NVM_POOL* make_pool(engine_kind engine, const char* path, std::uint64_t log_bytes) {
  nvm_pool_options o{};
  o.size = std::uint64_t{8} << 20;
  o.medium = is_ssd(engine) ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  o.log_bytes = log_bytes;
  if (engine == engine_kind::redo || engine == engine_kind::redo_by_mark) o.engine = NVM_ENGINE_REDO;
  if (engine == engine_kind::log || engine == engine_kind::ssd_log) {
    o.engine = NVM_ENGINE_LOG;
    o.log_bytes = 0;
  }
  if (engine == engine_kind::redo_by_mark) {
    o.validation = NVM_VALIDATION_COMMIT_MARK;
    o.truncation = NVM_TRUNCATION_INLINE;
  }
  return nvm_pool_create_with(path, &o);
}

NVM_POOL* open_pool(engine_kind engine, const char* path) {
  NVM_POOL* pool = nvm_pool_open(path);
  if (pool == nullptr || engine != engine_kind::undo_write_back) return pool;
  return nvm_stm_set_policy(pool, NVM_STM_POLICY_WRITE_BACK) == 0 ? pool : nullptr;
}

std::int64_t check_pool(const char* path) {
  nvm_check_summary found{};
  return nvm_pool_check(path, nullptr, nullptr, &found);
}

bool failed(history_log& log, const char* what) {
  if (log.failures.fetch_add(1) == 0) std::snprintf(log.failure, sizeof log.failure, "%s: %s", what, nvm_errormsg());
  return false;
}

bool history_pool::make() {
  static_assert(thread_log::records_max / records_of_lists * active_lists <= tests::lists);
  // The root is made by one record.
  pool_ = make_pool(engine_, path_.c_str(), is_ssd(engine_) ? std::uint64_t{8} << 20 : 0);
  if (pool_ == nullptr) return false;
  const outcome made = atomic(pool_, [&](tx& t) {
    void* root = t.alloc(1, sizeof(board));
    std::memset(root, 0, sizeof(board));
    t.set_root(root);
  });
  return made && close();
}

bool history_pool::open() {
  pool_ = open_pool(engine_, path_.c_str());
  if (pool_ == nullptr) return false;
  board_ = static_cast<board*>(nvm_pool_get_root(pool_));
  return true;
}

bool history_pool::close() {
  NVM_POOL* p = pool_;
  pool_ = nullptr;
  return nvm_pool_close(p) == 0;
}

std::int64_t history_pool::check() const { return check_pool(path_.c_str()); }

bool history_pool::run_transaction(history_log& log, unsigned me, recorded_transaction& r) {
  thread_log& mine = log.threads[me];
  const std::uint32_t lists_used = mine.lists_used;
  bool full = false;
  const bool wanted = !r.rolled_back;
  const outcome done = atomic(pool_, [&](tx& t) {
    mine.lists_used = lists_used;
    bool stored = false;
    for (std::uint32_t k = 0; k < r.count; ++k) {
      recorded_access& a = r.accesses[k];
      list& l = board_->lists[a.key];
      const std::uint64_t length = t.load(&l.length);
      if (!stored) let_others_run();
      if (a.append != 0) {
        full = length == list_length_max;
        if (full) return false;
        t.store(&l.elements[length], a.append);
        t.store(&l.length, length + 1);
        stored = true;
      } else {
        a.list_at = mine.lists_used;
        a.length = static_cast<std::uint32_t>(length);
        t.read(mine.lists + a.list_at, l.elements, length * sizeof(std::uint32_t));
        mine.lists_used += a.length;
      }
    }
    return wanted;
  });
  if (full) return failed(log, "a list is full");
  if (static_cast<bool>(done) != wanted) return failed(log, "a transaction");
  return true;
}

bool history_pool::run_call(history_log& log, recorded_call& c) {
  auto& slot = board_->slots[c.key];
  std::uint64_t present = 0, value = 0;
  const outcome done = atomic(pool_, [&](tx& t) {
    present = t.load(&slot.present);
    value = t.load(&slot.value);
    let_others_run();
    switch (c.call) {
      case explore::kv_call::get:
        return;
      case explore::kv_call::update:
      case explore::kv_call::insert:
        if ((present != 0) != (c.call == explore::kv_call::update)) return;
        [[fallthrough]];
      case explore::kv_call::put:
        t.store(&slot.value, c.value);
        t.store(&slot.present, 1);
        return;
      case explore::kv_call::remove:
        t.store(&slot.present, 0);
        return;
    }
  });
  if (!done) return failed(log, "a call");
  c.found = present != 0;
  if (c.call == explore::kv_call::get) c.value = static_cast<std::uint32_t>(value);
  return true;
}

bool history_pool::work(history_log& log, unsigned me, std::uint32_t count) {
  thread_log& mine = log.threads[me];
  log.running.fetch_add(1);
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t i = mine.transactions.load();
    if (i >= thread_log::records_max - records_at_the_end ||
        mine.lists_used + 4 * list_length_max > thread_log::lists_max)
      break;
    std::uint64_t r = mix(std::uint64_t{me} << 40 | i);
    recorded_transaction& x = mine.transaction[i];
    x.count = 2 + r % 3;
    x.rolled_back = r / 3 % 16 == 0;
    for (std::uint32_t k = 0; k < x.count; ++k) {
      r = mix(r);
      // Now and then a list of before: who works slower meets who works faster.
      const std::uint32_t back = i >= records_of_lists && r % 8 == 0 ? records_of_lists : 0;
      x.accesses[k] = {};
      x.accesses[k].key = (i - back) / records_of_lists * active_lists + r / 8 % active_lists;
      if (r / 64 % 2 == 0) x.accesses[k].append = (me * thread_log::records_max + i) * 4 + k + 1;
    }
    x.begun = now();
    mine.transactions.store(i + 1);
    if (!run_transaction(log, me, x)) return false;
    x.ended.store(now());

    const std::uint32_t j = mine.calls.load();
    if (j >= thread_log::records_max - records_at_the_end) break;
    r = mix(r);
    recorded_call& c = mine.call[j];
    c.key = r % slots;
    c.call = static_cast<explore::kv_call>(r / 8 % 4);
    c.value = me * thread_log::records_max + j + 1;
    c.begun = now();
    mine.calls.store(j + 1);
    if (!run_call(log, c)) return false;
    c.ended.store(now());
  }
  return true;
}

bool history_pool::look_at_everything(history_log& log) {
  thread_log& mine = log.threads[0];
  std::uint32_t last = 0;
  for (const thread_log& t : log.threads) last = std::max(last, t.transactions.load());
  const std::uint32_t used = (last / records_of_lists + 1) * active_lists;
  for (std::uint32_t key = 0; key < used && key < lists; key += recorded_transaction::accesses_max) {
    const std::uint32_t i = mine.transactions.load();
    if (i >= thread_log::records_max) return failed(log, "the log is full");
    recorded_transaction& x = mine.transaction[i];
    x.rolled_back = false;
    x.count = std::min(used - key, recorded_transaction::accesses_max);
    for (std::uint32_t k = 0; k < x.count; ++k) x.accesses[k] = {key + k, 0, 0, 0};
    x.begun = now();
    mine.transactions.store(i + 1);
    if (!run_transaction(log, 0, x)) return false;
    x.ended.store(now());
  }
  for (std::uint32_t key = 0; key < slots; ++key) {
    const std::uint32_t j = mine.calls.load();
    if (j >= thread_log::records_max) return failed(log, "the log is full");
    recorded_call& c = mine.call[j];
    c.key = key;
    c.call = explore::kv_call::get;
    c.begun = now();
    mine.calls.store(j + 1);
    if (!run_call(log, c)) return false;
    c.ended.store(now());
  }
  return true;
}

}  // namespace nvm::tests
