#include "kv_workload.hpp"

#include <cstdio>
#include <cstring>

namespace nvm::tests {

namespace {
constexpr std::uint32_t keys = 8;
constexpr std::uint64_t others = 40;  // keys of each thread besides
// Kept free for look_at_everything().
constexpr std::uint32_t store_records_at_the_end = 100;

// All over the index, and among each other.
struct key {
  explicit key(std::uint64_t n) {
    const std::uint64_t mixed = n * 0x9E3779B97F4A7C15U;
    std::memcpy(bytes, &mixed, sizeof bytes);
  }
  char bytes[8];
};

// A value says its number first; its size goes by that.
struct value {
  explicit value(std::uint32_t number) : size{sizeof number + number % 5 * 70} {
    std::memset(bytes, static_cast<int>(number), sizeof bytes);
    std::memcpy(bytes, &number, sizeof number);
  }
  std::size_t size;
  char bytes[sizeof(std::uint32_t) + 4 * 70];
};
}  // namespace

bool history_store::make() {
  pool_ = make_pool(engine_, path_.c_str(), 0);
  if (pool_ == nullptr) return false;
  nvm_kv_options k{};
  k.index = index_;
  return nvm_kv_open(pool_, "store", &k) != nullptr && close();
}

bool history_store::open() {
  pool_ = open_pool(engine_, path_.c_str());
  store_ = pool_ == nullptr ? nullptr : nvm_kv_open(pool_, "store", nullptr);
  return store_ != nullptr;
}

bool history_store::close() {
  NVM_POOL* p = pool_;
  pool_ = nullptr;
  return nvm_pool_close(p) == 0;
}

std::int64_t history_store::check() const { return check_pool(path_.c_str()); }

bool history_store::run_call(recorded_call& c) {
  const key k{c.key};
  const value v{c.value};
  int found = -1;
  switch (c.call) {
    case explore::kv_call::get: {
      value got{0};
      found = nvm_kv_get(store_, k.bytes, sizeof k.bytes, got.bytes, sizeof got.bytes, &got.size);
      if (found != 1) break;
      std::memcpy(&c.value, got.bytes, sizeof c.value);
      // Of one number all of it, or the history has no such value.
      const value whole{c.value};
      if (got.size != whole.size || std::memcmp(got.bytes, whole.bytes, whole.size) != 0) c.value = UINT32_MAX;
      break;
    }
    case explore::kv_call::put:
      found = nvm_kv_put(store_, k.bytes, sizeof k.bytes, v.bytes, v.size);
      break;
    case explore::kv_call::update:
      found = nvm_kv_update(
          store_, k.bytes, sizeof k.bytes, sizeof v.bytes,
          [](void* to, std::size_t* bytes, std::size_t, void* raw) {
            let_others_run();
            const auto* now = static_cast<const value*>(raw);
            std::memcpy(to, now->bytes, now->size);
            *bytes = now->size;
            return 0;
          },
          const_cast<value*>(&v));
      break;
    case explore::kv_call::remove:
      found = nvm_kv_remove(store_, k.bytes, sizeof k.bytes);
      break;
    case explore::kv_call::insert:
      break;  // not drawn
  }
  c.found = found == 1;
  return found >= 0;
}

// Several at once, so that one call changes more than one node.
bool history_store::change_others(std::uint64_t random, unsigned me) {
  nvm_kv_operation o[6] = {};
  const value v{static_cast<std::uint32_t>(random)};
  key k[6] = {key{0}, key{0}, key{0}, key{0}, key{0}, key{0}};
  for (unsigned i = 0; i < 6; ++i) {
    random = mix(random);
    k[i] = key{keys + me * others + random % others};
    o[i].kv = store_;
    o[i].kind = random / others % 2 == 0 ? NVM_KV_PUT : NVM_KV_REMOVE;
    o[i].key = k[i].bytes;
    o[i].key_bytes = sizeof k[i].bytes;
    o[i].value = v.bytes;
    o[i].value_bytes = v.size;
  }
  return nvm_kv_batch(pool_, o, 6, nullptr) == 0;
}

bool history_store::work(history_log& log, unsigned me, std::uint32_t count) {
  thread_log& mine = log.threads[me];
  log.running.fetch_add(1);
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t j = mine.calls.load();
    if (j >= thread_log::records_max - store_records_at_the_end) break;
    const std::uint64_t r = mix(std::uint64_t{me} << 40 | j);
    recorded_call& c = mine.call[j];
    c.key = r % keys;
    c.call = static_cast<explore::kv_call>(r / keys % 4);
    c.value = me * thread_log::records_max + j + 1;
    c.begun = now();
    mine.calls.store(j + 1);
    if (!run_call(c)) return failed(log, "a call");
    c.ended.store(now());
    if (n % 4 == 3 && !change_others(r, me)) return failed(log, "a batch");
  }
  return true;
}

bool history_store::look_at_everything(history_log& log) {
  thread_log& mine = log.threads[0];
  for (std::uint32_t k = 0; k < keys; ++k) {
    const std::uint32_t j = mine.calls.load();
    if (j >= thread_log::records_max) return failed(log, "the log is full");
    recorded_call& c = mine.call[j];
    c.key = k;
    c.call = explore::kv_call::get;
    c.begun = now();
    mine.calls.store(j + 1);
    if (!run_call(c)) return failed(log, "a call");
    c.ended.store(now());
  }
  nvm_kv_statistics figures{};  // and a full check
  return nvm_kv_get_statistics(store_, &figures) == 0 || failed(log, "the check of the store");
}

}  // namespace nvm::tests
