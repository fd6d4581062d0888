// Threads, exceptions, operator new, and a child of fork().
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 4;
constexpr int objects = 1000;

[[gnu::noinline]] void work() {
  for (int k = 0; k < objects; ++k) {
    auto* p = static_cast<volatile int*>(std::malloc(64));
    for (int n = 0; n < 16; ++n) p[n] = n;
    std::free(const_cast<int*>(p));
  }
}

[[gnu::noinline]] void throws() {
  void* volatile p = std::malloc(5);
  std::free(p);
  throw 1;
}

[[gnu::noinline]] void catches() {
  try {
    throws();
  } catch (int) {
    void* volatile p = std::malloc(6);
    std::free(p);
  }
}

[[gnu::noinline]] void makes() {
  auto* volatile p = new int[25];
  delete[] p;
}

}  // namespace

int main() {
  std::vector<std::thread> all;
  for (int k = 0; k < threads; ++k) all.emplace_back(work);
  for (std::thread& t : all) t.join();
  catches();
  makes();
  const pid_t child = fork();
  if (child == 0) {
    void* volatile p = std::malloc(123);
    std::free(p);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
