#include "region_workload.hpp"

#include <algorithm>
#include <cstring>

namespace nvm::tests {

namespace {
constexpr std::uint32_t region_active_lists = 5, values = 6, elements_max = 160;
// As of history_pool: records of a thread after which the next lists are in use.
constexpr std::uint32_t region_records_of_lists = 20, region_records_at_the_end = 1500;
// Calls of a thread that does not wait for each, between two waits.
constexpr std::uint32_t unwaited_max = 8;

// Bytes of an element: records with a checksum of one region and of several, appends that go past the record.
constexpr std::size_t element_sizes[] = {4, 24, 200, 600, 4};
constexpr std::size_t element_max = 600;
std::size_t element_bytes(std::uint32_t list) { return element_sizes[list % std::size(element_sizes)]; }

void fill(char* to, std::uint32_t number, std::size_t bytes) {
  std::memset(to, static_cast<int>(mix(number)), bytes);
  std::memcpy(to, &number, std::min(bytes, sizeof number));
}
// UINT32_MAX, which nobody appends or puts: it is not whole.
std::uint32_t number_at(const char* at, std::size_t bytes) {
  std::uint32_t number = 0;
  if (bytes < sizeof number) return UINT32_MAX;
  std::memcpy(&number, at, sizeof number);
  for (std::size_t i = sizeof number; i < bytes; ++i) {
    if (at[i] != static_cast<char>(mix(number))) return UINT32_MAX;
  }
  return number;
}

// In a slot, in a larger one, in pages, in more pages.
constexpr std::size_t value_sizes[] = {8, 300, 1500, 3000, 9000};
constexpr std::size_t value_max = 9000;
std::size_t value_bytes(std::uint32_t number) { return value_sizes[mix(number) / 8 % std::size(value_sizes)]; }

bool failed_as(enum nvm_error code) { return nvm_errno() == code; }
}  // namespace

bool history_regions::make() {
  nvm_pool_options o{};
  o.size = std::uint64_t{32} << 20;
  o.medium = is_ssd(engine_) ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  if (engine_ == engine_kind::redo) o.engine = NVM_ENGINE_REDO;
  pool_ = nvm_pool_create_with(path_.c_str(), &o);
  return pool_ != nullptr && open_sets() && close();
}

bool history_regions::open_sets() {
  nvm_regions_options o{};
  o.flags = flags_;
  // Each process has other readers of the one set and of the other.
  const bool counts = platform::process_id() % 2 == 0;
  o.readers = counts ? NVM_READERS_COUNTED : NVM_READERS_BY_VERSION;
  lists_ = nvm_regions_open(pool_, "lists", &o);
  o.readers = counts ? NVM_READERS_BY_VERSION : NVM_READERS_COUNTED;
  values_ = nvm_regions_open(pool_, "values", &o);
  return lists_ != nullptr && values_ != nullptr;
}

bool history_regions::open() {
  pool_ = nvm_pool_open(path_.c_str());
  return pool_ != nullptr && open_sets();
}

bool history_regions::close() {
  NVM_POOL* p = pool_;
  pool_ = nullptr;
  return nvm_pool_close(p) == 0;
}

std::int64_t history_regions::check() const { return check_pool(path_.c_str()); }

// ---- lists ----

// A list that nobody has made is empty.
bool history_regions::read_list(thread_log& mine, recorded_access& a) {
  thread_local std::vector<char> bytes(elements_max * element_max);
  const std::int64_t n = nvm_region_read(lists_, a.key, 0, bytes.data(), bytes.size());
  if (n < 0 && !failed_as(NVM_E_NOT_FOUND)) return false;
  a.list_at = mine.lists_used;
  a.length = 0;
  const std::size_t each = element_bytes(a.key);
  for (std::int64_t at = 0; at < n; at += static_cast<std::int64_t>(each)) {
    const std::size_t there = std::min(each, static_cast<std::size_t>(n - at));
    mine.lists[mine.lists_used++] = there == each ? number_at(bytes.data() + at, each) : UINT32_MAX;
    ++a.length;
  }
  return true;
}

bool history_regions::access(thread_log& mine, recorded_access& a) {
  if (a.append == 0) return read_list(mine, a);
  char element[element_max];
  fill(element, a.append, element_bytes(a.key));
  return nvm_region_append(lists_, a.key, element, element_bytes(a.key), nullptr) == 0;
}

// One call, which is a transaction of its own.
bool history_regions::run_alone(thread_log& mine, recorded_access& a, std::uint64_t random) {
  while (!access(mine, a)) {
    if (!failed_as(NVM_E_NOT_FOUND)) return false;
    // The region may come with its first element.
    char element[element_max];
    fill(element, a.append, element_bytes(a.key));
    const bool whole = random % 2 == 0;
    const int made = whole ? nvm_region_create_with(lists_, a.key, element, element_bytes(a.key), 0)
                           : nvm_region_create(lists_, a.key, 0);
    if (made == 0 && whole) return true;
    if (made != 0 && !failed_as(NVM_E_EXISTS)) return false;
  }
  return true;
}

// A transaction of one region, which there is.
bool history_regions::run_in_one(thread_log& mine, recorded_transaction& r) {
  constexpr unsigned modes[] = {NVM_REGION_ADAPTIVE, NVM_REGION_COPY, NVM_REGION_CHECKED, NVM_REGION_MARKED};
  const std::uint32_t key = r.accesses[0].key;
  if (nvm_region_begin(lists_, key, modes[mix(r.begun) % std::size(modes)]) != 0) return false;
  for (std::uint32_t k = 0; k < r.count; ++k) {
    if (!access(mine, r.accesses[k])) return false;
  }
  return (r.rolled_back ? nvm_region_abort(lists_, key) : nvm_region_commit(lists_, key)) == 0;
}

// Regions that there are not are made by the group.
history_regions::end history_regions::try_group(thread_log& mine, recorded_transaction& r) {
  nvm_region_group* g = nvm_region_group_begin(lists_, nullptr, 0);
  if (g == nullptr) return end::failed;
  const auto give_up = [&](bool again) {
    if (nvm_region_group_abort(g) != 0) return end::failed;
    return again ? end::again : end::failed;
  };
  for (std::uint32_t k = 0; k < r.count; ++k) {
    const std::uint32_t key = r.accesses[k].key;
    if (nvm_region_group_join(g, key, NVM_REGION_ADAPTIVE) == 0 || failed_as(NVM_E_TX_OPEN)) continue;
    if (failed_as(NVM_E_BUSY)) return give_up(true);
    if (!failed_as(NVM_E_NOT_FOUND)) return give_up(false);
    if (nvm_region_group_create(g, key, 0) == 0) continue;
    return give_up(failed_as(NVM_E_EXISTS) || failed_as(NVM_E_BUSY));
  }
  for (std::uint32_t k = 0; k < r.count; ++k) {
    if (!access(mine, r.accesses[k])) return give_up(false);
  }
  return (r.rolled_back ? nvm_region_group_abort(g) : nvm_region_group_commit(g)) == 0 ? end::done : end::failed;
}

// By nvm_region_group_run(): the first region in advance, the others when the body comes to them.
bool history_regions::run_body(thread_log& mine, recorded_transaction& r) {
  struct context {
    history_regions& it;
    thread_log& mine;
    recorded_transaction& r;
    std::uint32_t lists_used;
  } all{*this, mine, r, mine.lists_used};
  const std::uint64_t first = r.accesses[0].key;
  const int answer = nvm_region_group_run(
      lists_, &first, 1,
      [](nvm_region_group* g, void* raw) {
        auto& c = *static_cast<context*>(raw);
        c.mine.lists_used = c.lists_used;
        for (std::uint32_t k = 0; k < c.r.count; ++k) {
          recorded_access& a = c.r.accesses[k];
          if (nvm_region_group_join(g, a.key, NVM_REGION_ADAPTIVE) != 0 && nvm_errno() != NVM_E_TX_OPEN) return 2;
          if (!c.it.access(c.mine, a)) return 2;
        }
        return c.r.rolled_back ? 1 : 0;
      },
      &all);
  return answer == (r.rolled_back ? 1 : 0);
}

bool history_regions::run_transaction(history_log& log, unsigned me, recorded_transaction& r, std::uint64_t random) {
  thread_log& mine = log.threads[me];
  const std::uint32_t lists_used = mine.lists_used;
  if (r.count == 1 && !r.rolled_back) return run_alone(mine, r.accesses[0], random) || failed(log, "a call");
  const bool one = std::all_of(r.accesses, r.accesses + r.count,
                               [&](const recorded_access& a) { return a.key == r.accesses[0].key; });
  for (;;) {
    mine.lists_used = lists_used;
    // Of regions that there are not: as a group that makes them.
    if (one && random % 4 != 0) {
      if (run_in_one(mine, r)) return true;
      if (!failed_as(NVM_E_NOT_FOUND)) return failed(log, "a transaction of one region");
    } else if (random % 2 == 0) {
      if (run_body(mine, r)) return true;
      if (!failed_as(NVM_E_NOT_FOUND)) return failed(log, "nvm_region_group_run()");
    }
    mine.lists_used = lists_used;
    const end how = try_group(mine, r);
    if (how != end::again) return how == end::done || failed(log, "a group");
  }
}

// ---- values ----

bool history_regions::get(recorded_call& c) {
  char bytes[value_max + 1];
  const std::int64_t n = nvm_region_read(values_, c.key, 0, bytes, sizeof bytes);
  c.found = n >= 0;
  if (!c.found) return failed_as(NVM_E_NOT_FOUND);
  c.value = number_at(bytes, static_cast<std::size_t>(n));
  if (static_cast<std::size_t>(n) != value_bytes(c.value)) c.value = UINT32_MAX;
  return true;
}

bool history_regions::update(recorded_call& c, int& found) {
  char bytes[value_max];
  const std::size_t size = value_bytes(c.value);
  fill(bytes, c.value, size);
  found = nvm_region_begin(values_, c.key, NVM_REGION_ADAPTIVE);
  if (found != 0) return failed_as(NVM_E_NOT_FOUND);
  const bool good =
      nvm_region_truncate(values_, c.key, size) == 0 && nvm_region_write(values_, c.key, 0, bytes, size) == 0;
  if (!good) return nvm_region_abort(values_, c.key) == 0 && good;
  std::uint64_t position = 0;
  if (c.value % 4 != 0 || !waits_) return nvm_region_commit(values_, c.key) == 0;
  return nvm_region_commit_async(values_, c.key, &position) == 0 && nvm_wait(pool_, position) == 0;
}

bool history_regions::run_call(recorded_call& c) {
  int answer = 0;
  bool good = true;
  switch (c.call) {
    case explore::kv_call::get:
      return get(c);
    case explore::kv_call::insert: {
      char bytes[value_max];
      fill(bytes, c.value, value_bytes(c.value));
      answer = nvm_region_create_with(values_, c.key, bytes, value_bytes(c.value), 0);
      c.found = answer != 0;
      return answer == 0 || failed_as(NVM_E_EXISTS);
    }
    case explore::kv_call::update:
      good = update(c, answer);
      break;
    case explore::kv_call::remove:
      answer = nvm_region_drop(values_, c.key);
      good = answer == 0 || failed_as(NVM_E_NOT_FOUND);
      break;
    case explore::kv_call::put:
      good = false;  // no call of regions does that
      break;
  }
  c.found = answer == 0;
  return good;
}

// ---- work ----

// What a thread has done counts from when it is durable, and what it has seen in a transaction that it gives up.
bool history_regions::note_ends(history_log& log, unsigned me, std::uint32_t transactions, std::uint32_t calls) {
  thread_log& mine = log.threads[me];
  bool waits = !waits_;
  for (std::uint32_t i = transactions; i < mine.transactions.load(); ++i) waits |= mine.transaction[i].rolled_back;
  if (waits && nvm_regions_wait(lists_) != 0) return failed(log, "a wait");
  const std::uint64_t at = now();
  for (std::uint32_t i = transactions; i < mine.transactions.load(); ++i) mine.transaction[i].ended.store(at);
  for (std::uint32_t i = calls; i < mine.calls.load(); ++i) mine.call[i].ended.store(at);
  return true;
}

namespace {
void choose(recorded_transaction& x, unsigned me, std::uint32_t i, std::uint64_t r) {
  x.count = 1 + r % 4;
  x.rolled_back = r / 4 % 16 == 0;
  const bool one = r / 64 % 3 == 0;  // all about one region
  for (std::uint32_t k = 0; k < x.count; ++k) {
    r = mix(r);
    const std::uint32_t back = i >= region_records_of_lists && r % 8 == 0 ? region_records_of_lists : 0;
    x.accesses[k] = {};
    x.accesses[k].key = (i - back) / region_records_of_lists * region_active_lists + r / 8 % region_active_lists;
    if (one) x.accesses[k].key = x.accesses[0].key;
    if (r / 64 % 2 == 0) x.accesses[k].append = (me * thread_log::records_max + i) * 4 + k + 1;
  }
}
}  // namespace

bool history_regions::work(history_log& log, unsigned me, std::uint32_t count) {
  thread_log& mine = log.threads[me];
  log.running.fetch_add(1);
  std::uint32_t transactions = mine.transactions.load(), calls = mine.calls.load();
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t i = mine.transactions.load();
    if (i >= thread_log::records_max - region_records_at_the_end ||
        mine.lists_used + recorded_transaction::accesses_max * elements_max > thread_log::lists_max)
      break;
    std::uint64_t r = mix(std::uint64_t{me} << 40 | i);
    recorded_transaction& x = mine.transaction[i];
    choose(x, me, i, r);
    x.begun = now();
    mine.transactions.store(i + 1);
    if (!run_transaction(log, me, x, mix(~r))) return false;

    const std::uint32_t j = mine.calls.load();
    if (j >= thread_log::records_max - region_records_at_the_end) break;
    constexpr explore::kv_call kinds[] = {explore::kv_call::get, explore::kv_call::insert, explore::kv_call::update,
                                          explore::kv_call::remove};
    r = mix(r);
    recorded_call& c = mine.call[j];
    c.key = r % values;
    c.call = kinds[r / 8 % std::size(kinds)];
    c.value = me * thread_log::records_max + j + 1;
    c.begun = now();
    mine.calls.store(j + 1);
    if (!run_call(c)) return failed(log, "a call about a value");
    if (!waits_ && n % unwaited_max != 0) continue;
    if (!note_ends(log, me, transactions, calls)) return false;
    transactions = mine.transactions.load();
    calls = mine.calls.load();
  }
  return note_ends(log, me, transactions, calls);
}

bool history_regions::look_at_everything(history_log& log) {
  thread_log& mine = log.threads[0];
  std::uint32_t transactions = mine.transactions.load(), last = 0;
  const std::uint32_t calls = mine.calls.load();
  for (const thread_log& t : log.threads) last = std::max(last, t.transactions.load());
  const std::uint32_t used = (last / region_records_of_lists + 1) * region_active_lists;
  for (std::uint32_t key = 0; key < used; key += recorded_transaction::accesses_max) {
    const std::uint32_t i = mine.transactions.load();
    if (i >= thread_log::records_max) return failed(log, "the log is full");
    recorded_transaction& x = mine.transaction[i];
    x.rolled_back = false;
    x.count = recorded_transaction::accesses_max;
    for (std::uint32_t k = 0; k < x.count; ++k) x.accesses[k] = {key + k, 0, 0, 0};
    x.begun = now();
    mine.transactions.store(i + 1);
    if (!run_transaction(log, 0, x, key)) return false;
  }
  for (std::uint32_t key = 0; key < values; ++key) {
    const std::uint32_t j = mine.calls.load();
    if (j >= thread_log::records_max) return failed(log, "the log is full");
    recorded_call& c = mine.call[j];
    c.key = key;
    c.call = explore::kv_call::get;
    c.begun = now();
    mine.calls.store(j + 1);
    if (!run_call(c)) return failed(log, "a last call");
  }
  return note_ends(log, 0, transactions, calls);
}

}  // namespace nvm::tests
