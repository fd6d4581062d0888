// A pool in a file of its own, removed at the end, that can be closed and opened again.
#pragma once

#include <nvm/nvm.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace examples {

class durable_pool {
 public:
  explicit durable_pool(nvm_medium medium) {
    // In memory on both media, where a sync costs nothing: these tests are about what is in the pool.
    static std::atomic<unsigned> serial{0};
    path_ = "/dev/shm/holdfast-example-" + std::to_string(getpid()) + "-" + std::to_string(serial++);
    nvm_pool_options options{};
    options.size = 4 << 20;
    options.medium = medium;
    options.log_bytes = medium == NVM_MEDIUM_SSD ? 32 << 20 : 0;  // a step may be one large transaction
    pool_ = nvm_pool_create_with(path_.c_str(), &options);
    require(pool_ != nullptr);
  }
  ~durable_pool() {
    if (pool_ != nullptr) nvm_pool_close(pool_);
    std::remove(path_.c_str());
  }
  durable_pool(const durable_pool&) = delete;
  durable_pool& operator=(const durable_pool&) = delete;

  NVM_POOL* get() const { return pool_; }

  void reopen() {
    require(nvm_pool_close(pool_) == 0);
    pool_ = nullptr;
    require(nvm_pool_check(path_.c_str(), nullptr, nullptr, nullptr) == 0);
    pool_ = nvm_pool_open(path_.c_str());
    require(pool_ != nullptr);
  }

 private:
  static void require(bool condition) {
    if (!condition) throw std::runtime_error(std::string("pool: ") + nvm_errormsg());
  }

  std::string path_;
  NVM_POOL* pool_ = nullptr;
};

}  // namespace examples
