// Makes a golden image with the library as it is: compat_make_image shm|ssd|stores|aligned|structures|regions
// <pool file> > images/<name>.image
//
// The pool is made at the given path by a process that is killed in the middle of a transaction, so the image holds
// what recovery of that format has to cope with.  Pools of structures and of regions are closed before, and counted.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "aligned_sample.h"
#include "counted_sample.h"
#include "image_text.hpp"
#include "sample.h"
#include "stores_sample.h"

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "compat_make_image: %s: %s\n", what, nvm_errormsg());
  return 1;
}

// A small pool on shm, filled by `fill`.
int make_small(const char* path, int (*fill)(NVM_POOL* pool), bool closed) {
  nvm_pool_options o{};
  o.size = (closed ? 768 : 256) * 1024;
  o.capacity = 1024 * 1024;
  o.log_bytes = 4096;
  o.lanes = 2;
  o.medium = NVM_MEDIUM_SHM;
  NVM_POOL* pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return fail("create");
  if (fill(pool) != 0) return fail("fill");
  if (closed && nvm_pool_close(pool) != 0) return fail("close");
  ::raise(SIGKILL);
  return 1;
}

int fill_stores(NVM_POOL* pool) { return stores_sample_fill(pool) != 0 ? -1 : stores_sample_verify(pool); }
int fill_aligned(NVM_POOL* pool) {
  if (aligned_sample_fill(pool) != 0 || aligned_sample_verify(pool) != 0) return -1;
  return aligned_sample_interrupt(pool);
}
int fill_structures(NVM_POOL* pool) {
  return counted_sample_fill_structures(pool) != 0 ? -1 : counted_sample_verify_structures(pool);
}
int fill_regions(NVM_POOL* pool) {
  return counted_sample_fill_regions(pool) != 0 ? -1 : counted_sample_verify_regions(pool);
}

int make(const char* path, std::uint32_t medium) {
  nvm_pool_options o = sample_options();
  o.medium = medium;
  o.log_bytes = medium == NVM_MEDIUM_SSD ? 64 * 1024 : 4096;
  NVM_POOL* pool = nvm_pool_create_with(path, &o);
  if (pool == nullptr) return fail("create");
  if (sample_fill(pool) != 0) return fail("fill");
  if (sample_verify(pool) != 0) return fail("verify");
  if (sample_interrupt(pool) != 0) return fail("interrupt");
  ::raise(SIGKILL);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const kind = argc == 3 ? argv[1] : "";
  constexpr struct {
    const char* name;
    int (*fill)(NVM_POOL* pool);
    bool closed;
  } small[] = {{"stores", fill_stores, false},
               {"aligned", fill_aligned, false},
               {"structures", fill_structures, true},
               {"regions", fill_regions, true}};
  const auto* const which =
      std::find_if(std::begin(small), std::end(small), [&](const auto& s) { return std::strcmp(kind, s.name) == 0; });
  const bool is_small = which != std::end(small);
  if (!is_small && std::strcmp(kind, "shm") != 0 && std::strcmp(kind, "ssd") != 0) {
    std::fprintf(stderr, "usage: compat_make_image shm|ssd|stores|aligned|structures|regions <pool file>\n");
    return 2;
  }
  const std::uint32_t medium = std::strcmp(kind, "shm") == 0 ? NVM_MEDIUM_SHM : NVM_MEDIUM_SSD;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_small ? make_small(argv[2], which->fill, which->closed) : make(argv[2], medium));
  int state = 0;
  ::waitpid(child, &state, 0);
  if (!WIFSIGNALED(state) || WTERMSIG(state) != SIGKILL) return 1;
  std::ifstream in{argv[2], std::ios::binary};
  const nvm::compat::bytes image{std::istreambuf_iterator<char>{in}, {}};
  std::fputs(nvm::compat::to_text(image).c_str(), stdout);
  return 0;
}
