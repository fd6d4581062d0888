#include "ycsb/systems.hpp"

#include <nvm/kv.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "harness/clock.hpp"

namespace nvm::bench::ycsb {
namespace {

using list = std::vector<std::string>;

class server final : public system {
 public:
  explicit server(std::unique_ptr<server_process> process) : process_{std::move(process)} {}
  std::unique_ptr<client> connect() override { return connected_client(*process_); }
  std::uint64_t cpu_ns() const override { return process_->cpu_ns(); }

 private:
  std::unique_ptr<server_process> process_;
};

class store final : public system {
 public:
  store(const std::string& folder, std::uint64_t megabytes, const std::string& emulate)
      : path_{folder + "/ycsb-" + std::to_string(::getpid()) + ".pool"} {
    nvm_pool_options options{};
    options.size = (megabytes + megabytes / 2 + 64) << 20;
    options.capacity = 4 * options.size;
    if (!emulate.empty() && nvm_emulation_preset(emulate.c_str(), &options.emulation) != 0) fail();
    std::filesystem::remove(path_);
    pool_ = nvm_pool_create_with(path_.c_str(), &options);
    nvm_kv_options kv{};
    kv.index = NVM_KV_HASH;
    if (pool_ == nullptr || (kv_ = nvm_kv_open(pool_, "records", &kv)) == nullptr) fail();
  }
  ~store() override {
    if (pool_ != nullptr) nvm_pool_close(pool_);
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  store(const store&) = delete;
  store& operator=(const store&) = delete;
  std::unique_ptr<client> connect() override { return calling_client(kv_); }
  std::uint64_t cpu_ns() const override { return process_cpu_ns(); }  // its clients' is in it

 private:
  [[noreturn]] static void fail() { throw std::runtime_error(nvm_errormsg()); }

  std::string path_;
  NVM_POOL* pool_ = nullptr;
  nvm_kv* kv_ = nullptr;
};

struct launch {
  std::string program;
  dialect speaks;
  bool on_disk;
  std::function<list(const place&)> arguments;
};

std::unique_ptr<system> started(const programs& p, const launch& l) {
  static unsigned number = 0;
  place where;
  where.by_unix_socket = true;
  where.folder =
      (l.on_disk ? p.disk : p.folder) + "/ycsb-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
  std::filesystem::create_directories(where.folder);
  return std::make_unique<server>(server_process::start(l.program, l.arguments(where), l.speaks, where));
}

list memcached_arguments(const programs& p, const place& where) {
  return {"-t", std::to_string(p.threads), "-m", std::to_string(p.megabytes), "-s", where.socket()};
}
list with_user(list a) {
  a.insert(a.end(), {"-u", "root"});
  return a;
}
list redis_arguments(const place& where) {
  return {"--dir", where.folder, "--save", "", "--port", "0", "--unixsocket", where.socket()};
}

void add_memcached(const programs& p, std::vector<kind_of_system>& all) {
  const auto add = [&](std::string name, const launch& l) {
    all.push_back({std::move(name), "memcached", [p, l] { return started(p, l); }});
  };
  if (!p.memcached.empty()) {
    add("memcached", {p.memcached, dialect::memcached, false,
                      [p](const place& where) { return with_user(memcached_arguments(p, where)); }});
  }
  for (const bool on_disk : {false, true}) {
    const std::string medium = on_disk ? " ssd" : " shm";
    if (!p.durable_memcached.empty()) {
      add("durable memcached" + medium, {"/usr/bin/env", dialect::memcached, on_disk, [p, on_disk](const place& where) {
                                           list a{"MEMCACHED_POOL_EMULATE=" + (on_disk ? "" : p.emulate),
                                                  p.durable_memcached, "-e", where.folder + "/pool"};
                                           const list rest = with_user(memcached_arguments(p, where));
                                           a.insert(a.end(), rest.begin(), rest.end());
                                           return a;
                                         }});
    }
    if (!p.emulate.empty() && !on_disk) continue;  // it has no emulation
    add("nv-memcached" + medium, {p.nv_memcached, dialect::memcached, on_disk, [p](const place& where) {
                                    list a = memcached_arguments(p, where);
                                    a.insert(a.end(), {"--pool", where.folder + "/pool"});
                                    return a;
                                  }});
  }
}

void add_redis(const programs& p, std::vector<kind_of_system>& all) {
  const auto add = [&](std::string name, const launch& l) {
    all.push_back({std::move(name), "redis", [p, l] { return started(p, l); }});
  };
  const auto with = [&](const std::string& name, bool on_disk, list more) {
    add(name, {p.redis, dialect::redis, on_disk, [more](const place& where) {
                 list a = redis_arguments(where);
                 a.insert(a.end(), more.begin(), more.end());
                 return a;
               }});
  };
  if (!p.redis.empty()) {
    with("redis", false, {});
    with("redis, file everysec", true, {"--appendonly", "yes", "--appendfsync", "everysec"});
    with("redis, file always", true, {"--appendonly", "yes", "--appendfsync", "always"});
  }
  if (p.durable_redis.empty()) return;
  for (const bool on_disk : {false, true}) {
    if (!p.emulate.empty() && !on_disk) continue;  // it has no emulation
    add(std::string{"durable redis "} + (on_disk ? "ssd" : "shm"),
        {"/usr/bin/env", dialect::redis, on_disk, [p](const place& where) {
           list a{"REDIS_POOL=" + where.folder + "/pool",
                  "REDIS_POOL_BYTES=" + std::to_string((4 * p.megabytes + 256) << 20), p.durable_redis};
           const list rest = redis_arguments(where);
           a.insert(a.end(), rest.begin(), rest.end());
           return a;
         }});
  }
}

}  // namespace

std::vector<kind_of_system> kinds_of_system(const programs& p) {
  std::vector<kind_of_system> all;
  add_memcached(p, all);
  add_redis(p, all);
  all.push_back({"kv shm", "in-process", [p] { return std::make_unique<store>(p.folder, p.megabytes, p.emulate); }});
  all.push_back({"kv ssd", "in-process", [p] { return std::make_unique<store>(p.disk, p.megabytes, ""); }});
  return all;
}

}  // namespace nvm::bench::ycsb
