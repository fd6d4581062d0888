#include "guarded.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace nvm::zoo {

namespace {

struct {
  std::uint64_t calls = 0;
  std::uint64_t fail_at = 0;  // counted from 1; 0: none
} plan;

template <class Result, class... Arguments, class... Given>
Result planned(Result (*system)(Arguments...), Given... given) {
  if (++plan.calls != plan.fail_at) return system(given...);
  errno = EIO;
  return -1;
}

}  // namespace

const platform::file_calls* failing_calls() {
  static const platform::file_calls table = [] {
    static const platform::file_calls& real = platform::system_file_calls();
    platform::file_calls c = real;
    c.open = [](const char* path, int flags, unsigned mode) { return planned(real.open, path, flags, mode); };
    c.pread = [](int d, void* to, std::size_t n, off_t at) { return planned(real.pread, d, to, n, at); };
    c.pwrite = [](int d, const void* from, std::size_t n, off_t at) { return planned(real.pwrite, d, from, n, at); };
    c.fdatasync = [](int d) { return planned(real.fdatasync, d); };
    c.fsync = [](int d) { return planned(real.fsync, d); };
    c.fallocate = [](int d, int mode, off_t at, off_t n) { return planned(real.fallocate, d, mode, at, n); };
    c.ftruncate = [](int d, off_t n) { return planned(real.ftruncate, d, n); };
    c.fstat = [](int d, struct ::stat* out) { return planned(real.fstat, d, out); };
    c.lock = [](int d, struct ::flock* range) { return planned(real.lock, d, range); };
    return c;
  }();
  return &table;
}

report explore_failing_calls(const char* name, const std::function<verdict()>& run, const options& o) {
  report all;
  bool failed = true;
  for (std::uint64_t k = 0; failed && !all.finds_violation(); ++k) {
    all.add(explore::explore(guarded(name,
                                     [&] {
                                       plan = {.calls = 0, .fail_at = k};
                                       return run();
                                     }),
                             o));
    failed = plan.calls >= k;
  }
  return all;
}

report every_history(const char* name, std::span<const char* const> names, std::size_t length,
                     const std::function<verdict(std::span<const unsigned>)>& run) {
  std::vector<unsigned> history(length);
  for (std::uint64_t tried = 1;; ++tried) {
    if (verdict wrong = run(history)) {
      *wrong += ", after";
      for (const unsigned e : history) *wrong += std::string{" "} + names[e];
      return judged(name, tried, wrong);
    }
    std::size_t i = 0;
    while (i < length && ++history[i] == names.size()) history[i++] = 0;
    if (i == length) return judged(name, tried, pass());
  }
}

}  // namespace nvm::zoo
