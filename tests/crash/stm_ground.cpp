#include "stm_ground.hpp"

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "nvm/stm.h"
#include "whole_pool.hpp"

namespace nvm::tests {
namespace {

using explore::machine;

// A thread that works when it is told to, while its caller waits: the machine takes its stores meanwhile.
class told_thread {
 public:
  explicit told_thread(machine& m) : machine_{m}, thread_{[this] { work(); }} {}
  ~told_thread() {
    hand_over(nullptr);
    thread_.join();
  }
  told_thread(const told_thread&) = delete;
  told_thread& operator=(const told_thread&) = delete;

  template <class F>
  auto does(F&& f) {
    using answer = decltype(f());
    machine_.detach();
    if constexpr (std::is_void_v<answer>) {
      const std::function<void()> call = f;
      hand_over(&call);
      machine_.attach();
    } else {
      std::optional<answer> got;
      const std::function<void()> call = [&] { got.emplace(f()); };
      hand_over(&call);
      machine_.attach();
      return std::move(*got);
    }
  }

 private:
  void hand_over(const std::function<void()>* what) {
    std::unique_lock lock{mutex_};
    what_ = what;
    told_ = true;
    changed_.notify_all();
    if (what == nullptr) return;
    changed_.wait(lock, [this] { return !told_; });
  }
  void work() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return told_; });
      if (what_ == nullptr) return;
      machine_.attach();
      (*what_)();
      machine_.detach();
      told_ = false;
      changed_.notify_all();
    }
  }
  machine& machine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* what_ = nullptr;
  bool told_ = false;
  std::thread thread_;  // the last: it uses the rest
};

// A level was left from inside.
struct left {
  int why;
};
void leave(nvm_stm* /*tx*/, int why, void* /*argument*/) { throw left{why}; }

class stm_ground final : public ground {
 public:
  static constexpr unsigned threads = 2;
  stm_ground(machine& m, std::unique_ptr<whole_pool> pool) : pool_{std::move(pool)} {
    for (auto& t : threads_) t = std::make_unique<told_thread>(m);
  }
  ~stm_ground() override {
    // What is open ends with its thread.
    for (auto& t : threads_) t.reset();
  }

  std::byte* base() noexcept override { return pool_->base(); }
  unsigned lanes() noexcept override { return threads; }
  bool acquire(unsigned lane) override { return lane < threads; }
  void release(unsigned) override {}

  status begin(unsigned lane) override {
    return tell(lane, [this] { return nvm_stm_begin(pool_->handle(), leave, nullptr) == nullptr ? -1 : 0; });
  }
  result<std::uint64_t> alloc(unsigned lane, std::uint64_t bytes) override {
    std::uint64_t at = 0;
    const status s = tell(lane, [&] {
      const void* made = nvm_stm_alloc(nvm_stm_current(), 7, bytes);
      at = made == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(made) - base());
      return made == nullptr ? -1 : 0;
    });
    if (!s) return s.error();
    return at;
  }
  status free(unsigned lane, std::uint64_t payload) override {
    return tell(lane, [&] { return nvm_stm_free(nvm_stm_current(), base() + payload); });
  }
  // Stores of all sizes: what fits a word is one, the rest goes by ranges.
  status paint(unsigned lane, const painted* ranges, std::size_t count) override {
    return tell(lane, [&] {
      nvm_stm* tx = nvm_stm_current();
      for (std::size_t i = 0; i < count; ++i) {
        const painted& r = ranges[i];
        std::byte* to = base() + r.offset;
        const std::uint64_t word = 0x0101010101010101U * r.fill;
        if (r.bytes == 8) {
          nvm_stm_store64(tx, reinterpret_cast<std::uint64_t*>(to), word);
        } else if (r.bytes == 4) {
          nvm_stm_store32(tx, reinterpret_cast<std::uint32_t*>(to), static_cast<std::uint32_t>(word));
        } else if (r.bytes == 1) {
          nvm_stm_store8(tx, reinterpret_cast<std::uint8_t*>(to), r.fill);
        } else {
          nvm_stm_fill(tx, to, r.fill, r.bytes);
        }
      }
      return 0;
    });
  }
  status set_root(unsigned lane, std::uint64_t payload) override {
    return tell(lane, [&] { return nvm_stm_set_root(nvm_stm_current(), payload == 0 ? nullptr : base() + payload); });
  }
  status publish_types(unsigned, const void*, std::uint64_t) override {
    return fail(errc::invalid, "barrier transactions bring no types");
  }
  status commit_level(unsigned lane) override {
    return tell(lane, [] { return nvm_stm_commit(nvm_stm_current()); });
  }
  void abort_level(unsigned lane) override { abort(lane); }
  result<lsn_t> commit(unsigned lane) override {
    if (status s = commit_level(lane); !s) return s.error();
    return lsn_t{0};
  }
  void abort(unsigned lane) override {
    (void)tell(lane, [] { return nvm_stm_rollback(nvm_stm_current()), 0; });
  }
  status look(unsigned lane, std::uint64_t offset, std::uint64_t bytes, std::byte* out) override {
    return tell(lane, [&] { return nvm_stm_read(nvm_stm_current(), out, base() + offset, bytes), 0; });
  }
  status run_alone(unsigned lane) override {
    return tell(lane, [this] {
      try {
        nvm_stm_become_irrevocable(nvm_stm_current());
      } catch (const left&) {
        // The next attempt of the same series runs alone.
        if (nvm_stm_begin(pool_->handle(), leave, nullptr) == nullptr) return -1;
      }
      return nvm_stm_is_irrevocable(nvm_stm_current()) != 0 ? 0 : -1;
    });
  }

  status durable(lsn_t) override { return {}; }  // a commit that returned is
  status checkpoint() override { return pool_->checkpoint(); }
  status sync_appended() override { return {}; }
  void die_while_syncing() override { std::abort(); }
  status close() override {
    for (auto& t : threads_) t.reset();
    return pool_->close();
  }
  std::uint64_t grown() const noexcept override { return pool_->grown_bytes(); }
  std::uint64_t stalls() const noexcept override { return pool_->stalls(); }

 private:
  // call() -> 0, or -1 with nvm_errno(), on the lane's thread.  errc::busy: the transaction met another one and is gone
  // without a trace; its story may tell it again.
  template <class Call>
  status tell(unsigned lane, Call&& call) {
    return threads_[lane]->does([&]() -> status {
      try {
        return call() == 0 ? status{} : status{static_cast<errc>(nvm_errno())};
      } catch (const left& l) {
        if (l.why == NVM_STM_FAILED) return static_cast<errc>(nvm_errno());
        nvm_stm_give_up(nvm_stm_current());
        return fail(errc::busy, "met another transaction");
      }
    });
  }
  std::unique_ptr<whole_pool> pool_;
  std::unique_ptr<told_thread> threads_[threads];
};

}  // namespace

std::unique_ptr<ground> open_stm_ground(machine& m, kind_of_medium kind) {
  auto pool = open_whole(m, plain(kind));
  if (pool == nullptr) return nullptr;
  if (kind.with == kind_of_medium::barriers::write_back &&
      nvm_stm_set_policy(pool->handle(), NVM_STM_POLICY_WRITE_BACK) != 0) {
    return nullptr;
  }
  return std::make_unique<stm_ground>(m, std::move(pool));
}

}  // namespace nvm::tests
