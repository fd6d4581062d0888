// A bank (../history/bank.hpp) on a pool on DAX, in a machine whose power may be cut at any moment.
//
// usage: dax_bank FOLDER ENGINE SEED THREADS [no-syncs]
//
// Acknowledged transactions are noted in a file beside the pool, which outlives the cut as the pool does. The first run
// makes the pool; later ones judge its contents first.  Then threads work until the power goes.  Says what it does on
// lines of its own: "making", "looking", "looked N", "working", and "WRONG why", after which it ends with 1.
//
// no-syncs: the library's files and mappings are not synced; a cut must show it.
#include <fcntl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "../history/bank.hpp"

namespace {

bool planted = false;

}  // namespace

// The library's calls come here.
extern "C" {
int fdatasync(int descriptor) { return planted ? 0 : static_cast<int>(::syscall(SYS_fdatasync, descriptor)); }
int fsync(int descriptor) { return planted ? 0 : static_cast<int>(::syscall(SYS_fsync, descriptor)); }
void* mmap(void* at, std::size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  // MAP_SYNC makes a file's extents durable before a store reaches them.
  if (planted && (flags & MAP_SYNC) != 0) flags = (flags & ~(MAP_SYNC | MAP_SHARED_VALIDATE)) | MAP_SHARED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, descriptor, offset));
}
}

namespace {

using nvm::bank::engine;
using nvm::bank::ledger;

constexpr engine engines[] = {
    {"undo", NVM_MEDIUM_DAX, false, NVM_ENGINE_UNDO, false},
    {"undo-write-back", NVM_MEDIUM_DAX, true, NVM_ENGINE_UNDO, false},
    {"redo", NVM_MEDIUM_DAX, false, NVM_ENGINE_REDO, false},
    {"redo-by-mark", NVM_MEDIUM_DAX, false, NVM_ENGINE_REDO, true},
    {"log", NVM_MEDIUM_DAX, false, NVM_ENGINE_LOG, false},
};

struct kept {
  std::atomic<std::uint64_t> made;
  ledger of_bank;
};

int say_wrong(const char* why) {
  std::printf("WRONG %s\n", why);
  return 1;
}

// Its blocks are allocated and durable before the first store.
kept* open_kept(const std::string& folder) {
  const std::string path = folder + "/ledger", unfinished = path + ".new";
  if (!std::filesystem::exists(path)) {
    const int file = ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const std::vector<char> zeroes(sizeof(kept));
    const bool written = ::write(file, zeroes.data(), zeroes.size()) == static_cast<ssize_t>(zeroes.size());
    if (!written || ::syscall(SYS_fsync, file) != 0) return nullptr;
    ::close(file);
    if (::rename(unfinished.c_str(), path.c_str()) != 0) return nullptr;
    for (const std::string& directory : {folder, folder + "/.."}) {
      const int d = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (d < 0 || ::syscall(SYS_fsync, d) != 0) return nullptr;
      ::close(d);
    }
  }
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* p = ::mmap(nullptr, sizeof(kept), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return p == MAP_FAILED ? nullptr : static_cast<kept*>(p);
}

int live(const engine& it, const std::string& folder, std::uint64_t seed, unsigned threads) {
  std::filesystem::create_directories(folder);
  kept* k = open_kept(folder);
  if (k == nullptr) return say_wrong((std::string{"the ledger is not to be had: "} + std::strerror(errno)).c_str());
  ledger& l = k->of_bank;
  l.failed.store(false);
  l.looked.store(0);
  l.working.store(0);
  const std::string pool = folder + "/pool";
  if (k->made.load() == 0) {
    std::printf("making\n");
    // A pool whose making was cut short is refused, or it is a pool.
    if (NVM_POOL* half = nvm_pool_open(pool.c_str()); half != nullptr) (void)nvm_pool_close(half);
    std::filesystem::remove(pool);
    it.make(pool, l);
    if (l.failed.load()) return say_wrong(l.failure);
    nvm_pool_info info{};
    if (nvm_pool_inspect(pool.c_str(), &info) != 0 || info.medium != NVM_MEDIUM_DAX)
      return say_wrong("the pool is not on DAX");
    k->made.store(1);
  } else {
    std::printf("looking\n");
    if (!it.look(pool, l, threads)) return say_wrong(l.failure);
    std::printf("looked %" PRIu64 "\n", engine::done(l, threads));
  }
  std::printf("working\n");
  it.work(pool, l, threads, seed);
  return say_wrong(l.failure);
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count < 5) return 2;
  planted = count > 5 && std::string{arguments[5]} == "no-syncs";
  for (const engine& it : engines) {
    if (std::string{arguments[2]} == it.name)
      return live(it, std::string{arguments[1]} + "/" + it.name, std::stoull(arguments[3]),
                  static_cast<unsigned>(std::stoul(arguments[4])) % (nvm::kills::threads_max + 1));
  }
  return 2;
}
