// Stops where a debugger can look at a pool, a field and stores.
#include <nvm/lockfree.h>
#include <nvm/kv.hpp>
#include <nvm/nvm.hpp>

#include <unistd.h>

#include <cstdio>

struct node {
  nvm::p<int> value;
  nvm::p<double> weight;
};

extern "C" [[gnu::noinline]] void stop_here(void* p) { asm volatile("" ::"r"(p) : "memory"); }

int main(int count, char** arguments) {
  if (count != 2) return 2;
  (void)unlink(arguments[1]);
  nvm_pool_options size{};
  size.size = 8 << 20;
  auto pool = nvm::pool::create(arguments[1], size);
  if (!pool) return std::puts(nvm_errormsg()), 1;
  NVM_POOL* handle = pool->handle();
  node* one = nullptr;
  const auto made = nvm::transaction(handle, [&] { one = nvm::make<node>(handle, 77); });
  if (!made || one == nullptr) return 1;
  const auto changed = nvm::transaction(handle, [&] {
    one->value = 42;
    one->weight = 0.5;
  });
  auto stored = nvm::kv::open(*pool, "people", NVM_KV_BTREE);
  if (!changed || !stored || !stored->put("ada", "1815")) return 1;
  nvm::kv& people = *stored;
  nvm_kv* raw = people.handle();
  const nvm_lf_options options = {};
  nvm_lf* numbers = nvm_lf_open(handle, "numbers", &options);
  if (numbers == nullptr || nvm_lf_put64(numbers, 1, 2, 0) < 0) return std::puts(nvm_errormsg()), 1;
  nvm::pool& mine = *pool;
  NVM_POOL* nobody = nullptr;
  stop_here(&one->weight);
  (void)raw;
  (void)nobody;
  (void)mine;
  return 0;
}
