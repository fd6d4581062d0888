#include "cli/measurement.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

namespace nvm::cli {
namespace {

constexpr std::size_t objects_per_thread = 64;
constexpr unsigned counted_operations = 1000;

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// Leaves the transaction after a failure, which stays the thread's last failure.
bool give_up(NVM_POOL* pool) noexcept {
  if (nvm_tx_depth(pool) != 0) (void)nvm_tx_abort(pool);
  return false;
}

bool overwrite(NVM_POOL* pool, void* object, std::size_t bytes, std::uint64_t turn) {
  if (nvm_tx_begin(pool) != 0) return false;
  if (nvm_tx_log(object, bytes) != 0) return give_up(pool);
  std::memset(object, static_cast<int>(turn & 0xFF), bytes);
  return nvm_tx_commit(pool) == 0;
}

bool allocate_and_free(NVM_POOL* pool, void* /*object*/, std::size_t bytes, std::uint64_t turn) {
  if (nvm_tx_begin(pool) != 0) return false;
  void* fresh = nvm_alloc(pool, 1, bytes);
  if (fresh == nullptr) return give_up(pool);
  std::memset(fresh, static_cast<int>(turn & 0xFF), bytes);
  if (nvm_tx_commit(pool) != 0 || nvm_tx_begin(pool) != 0) return false;
  if (nvm_free(pool, fresh) != 0) return give_up(pool);
  return nvm_tx_commit(pool) == 0;
}

constexpr workload table[] = {
    {"commit of one 8-byte store", 8, overwrite},
    {"overwrite of 64 B", 64, overwrite},
    {"overwrite of 1 KiB", 1024, overwrite},
    {"overwrite of 4 KiB", 4096, overwrite},
    {"allocate and free 64 B", 64, allocate_and_free},
    {"allocate and free 1 KiB", 1024, allocate_and_free},
    {"allocate and free 4 KiB", 4096, allocate_and_free},
};

// One thread's objects; freed when it is done, so that each workload begins with an empty pool.
class own_objects {
 public:
  explicit own_objects(NVM_POOL* pool) : pool_{pool} {}
  own_objects(const own_objects&) = delete;
  ~own_objects() {
    if (objects_.empty() || nvm_tx_begin(pool_) != 0) return;
    for (void* o : objects_) (void)nvm_free(pool_, o);
    (void)nvm_tx_commit(pool_);
  }

  [[nodiscard]] bool allocate(std::size_t bytes) {
    if (nvm_tx_begin(pool_) != 0) return false;
    std::vector<void*> fresh(objects_per_thread);
    for (void*& o : fresh) {
      o = nvm_calloc(pool_, 1, 1, bytes);
      if (o == nullptr) return give_up(pool_);
    }
    if (nvm_tx_commit(pool_) != 0) return false;
    objects_ = std::move(fresh);
    return true;
  }
  [[nodiscard]] void* at(std::uint64_t turn) const noexcept { return objects_[turn % objects_per_thread]; }

 private:
  NVM_POOL* pool_;
  std::vector<void*> objects_;
};

struct shared_run {
  const temporary_pool& pool;
  const workload& what;
  std::uint64_t ns;
  std::barrier<> start;
  std::atomic<bool> stop{false};
  std::mutex mutex{};  // guards what follows
  duration_sample sample{};
  std::optional<failure> failed{};

  shared_run(const temporary_pool& p, const workload& w, unsigned threads, std::uint64_t duration)
      : pool{p}, what{w}, ns{duration}, start{threads} {}

  // Called in the thread whose call of the library failed.
  void give_up_all() {
    failure f = library_failure(pool.path());
    // relaxed: the other threads only end earlier.
    stop.store(true, std::memory_order_relaxed);
    const std::lock_guard lock{mutex};
    if (!failed) failed = std::move(f);
  }
};

void work_of_thread(shared_run& run) {
  own_objects objects{run.pool.get()};
  duration_sample sample;
  bool good = objects.allocate(run.what.bytes);
  if (!good) run.give_up_all();
  run.start.arrive_and_wait();
  const std::uint64_t begin = now_ns();
  const std::uint64_t counted_from = begin + run.ns / 10;
  const std::uint64_t end = counted_from + run.ns;
  std::uint64_t last = begin;
  // At least one operation, however slow the device is.
  for (std::uint64_t turn = 0; good && (last < end || sample.count() == 0) && !run.stop.load(std::memory_order_relaxed);
       ++turn) {
    good = run.what.operate(run.pool.get(), objects.at(turn), run.what.bytes, turn);
    const std::uint64_t now = now_ns();
    if (good && last >= counted_from) sample.add(now - last);
    last = now;
    if (!good) run.give_up_all();
  }
  const std::lock_guard lock{run.mutex};
  run.sample.add(sample);
}

}  // namespace

std::span<const workload> workloads() noexcept { return table; }

void duration_sample::add(std::uint64_t ns) {
  if (count_ % stride_ == 0) {
    if (kept_.size() == kept_max) {
      std::size_t half = 0;
      for (std::size_t i = 0; i < kept_.size(); i += 2) kept_[half++] = kept_[i];
      kept_.resize(half);
      stride_ *= 2;
    }
    if (count_ % stride_ == 0) kept_.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(ns, UINT32_MAX)));
  }
  ++count_;
  sum_ += ns;
  max_ = std::max(max_, ns);
}

void duration_sample::add(const duration_sample& other) {
  // Slower threads have kept a larger share of their operations; the strides differ by little in runs of one length.
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

double duration_sample::mean() const noexcept {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::vector<std::uint64_t> duration_sample::quantiles(std::span<const double> shares) {
  std::sort(kept_.begin(), kept_.end());
  std::vector<std::uint64_t> values;
  for (const double share : shares) {
    if (kept_.empty()) {
      values.push_back(0);
      continue;
    }
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(kept_.size()));
    values.push_back(kept_[std::min(rank, kept_.size() - 1)]);
  }
  return values;
}

bool temporary_pool::create(const std::string& directory, const nvm_pool_options& options) {
  // A run that was killed at the wrong moment may have left its file, and its process id comes again.
  constexpr unsigned names_max = 100;
  for (unsigned i = 0; i < names_max; ++i) {
    path_ = fmt::format("{}/.holdfast-bench-{}-{}.nvm", directory, ::getpid(), i);
    pool_ = nvm_pool_create_with(path_.c_str(), &options);
    if (pool_ != nullptr || nvm_errno() != NVM_E_EXISTS) break;
  }
  if (pool_ == nullptr) return false;
  const bool known = nvm_pool_get_info(pool_, &info_) == 0;
  (void)::unlink(path_.c_str());
  return known;
}

temporary_pool::~temporary_pool() {
  if (pool_ != nullptr) (void)nvm_pool_close(pool_);
}

std::optional<failure> measure(const temporary_pool& pool, const workload& w, unsigned threads, std::uint64_t ns,
                               duration_sample& out) {
  shared_run run{pool, w, threads, ns};
  std::vector<std::thread> workers;
  workers.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) workers.emplace_back(work_of_thread, std::ref(run));
  for (std::thread& t : workers) t.join();
  out = std::move(run.sample);
  return run.failed;
}

std::optional<failure> count_costs(const temporary_pool& pool, const workload& w, std::uint64_t ns,
                                   operation_cost& out) {
  own_objects objects{pool.get()};
  nvm_statistics before{};
  nvm_statistics after{};
  if (!objects.allocate(w.bytes) || nvm_pool_get_statistics(pool.get(), &before) != 0) {
    return library_failure(pool.path());
  }
  const std::uint64_t end = now_ns() + ns;
  unsigned done = 0;
  for (; done == 0 || (done < counted_operations && now_ns() < end); ++done) {
    if (!w.operate(pool.get(), objects.at(done), w.bytes, done)) return library_failure(pool.path());
  }
  if (nvm_pool_get_statistics(pool.get(), &after) != 0) return library_failure(pool.path());
  const auto each = [done](std::uint64_t from, std::uint64_t to) { return static_cast<double>(to - from) / done; };
  out = {each(before.fences, after.fences), each(before.flushed_lines, after.flushed_lines),
         each(before.logged_bytes, after.logged_bytes), each(before.syncs, after.syncs)};
  return std::nullopt;
}

}  // namespace nvm::cli
