// A program that has closed some of its standard descriptors, as services do, and still prints to them. Its output must
// not reach a file of ours.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "../sanitized.hpp"
#include "platform/platform.hpp"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

// Many times, and no error if nobody listens: as a library does that warns about something.
void print_everywhere() {
  const std::string words(100, '!');
  for (int i = 0; i < 100; ++i) {
    for (const int standard : {0, 1, 2}) (void)!::write(standard, words.data(), words.size());
  }
}

bool is_kept(NVM_POOL* pool, long value) {
  if (pool == nullptr) return false;
  const auto* root = static_cast<const long*>(nvm_pool_get_root(pool));
  return root != nullptr && *root == value;
}

// What a program with a pool does; the exit code names the step that failed.
int life(const std::string& path, pool_kind kind) {
  nvm_pool_options o{};
  o.size = 1 << 20;
  o.capacity = 16 << 20;
  choose(o, kind);
  if (kind == pool_kind::ssd) o.log_bytes = 16 << 20;
  NVM_POOL* pool = nvm_pool_create_with(path.c_str(), &o);
  if (pool == nullptr) return 1;
  print_everywhere();
  if (nvm_tx_begin(pool) != 0) return 2;
  auto* root = static_cast<long*>(nvm_calloc(pool, 0, 1, sizeof(long)));
  if (root == nullptr || nvm_tx_log(root, sizeof *root) != 0) return 3;
  *root = 5;
  if (nvm_pool_set_root(pool, root) != 0 || nvm_tx_commit(pool) != 0) return 4;
  // Growth opens, writes and syncs the file as well.
  if (nvm_tx_begin(pool) != 0 || nvm_alloc(pool, 0, 4 << 20) == nullptr || nvm_tx_commit(pool) != 0) return 5;
  print_everywhere();
  if (nvm_pool_close(pool) != 0) return 6;
  if (nvm_pool_check(path.c_str(), nullptr, nullptr, nullptr) != 0) return 7;
  pool = nvm_pool_open(path.c_str());
  if (!is_kept(pool, 5)) return 8;
  print_everywhere();
  return nvm_pool_close(pool) == 0 ? 0 : 9;
}

class standard_descriptors : public ::testing::TestWithParam<pool_kind> {};
INSTANTIATE_TEST_SUITE_P(kind, standard_descriptors, ::testing::ValuesIn(kinds_of_build(pool_kinds)), name_of);

TEST_P(standard_descriptors, that_are_closed_lead_into_no_pool) {
  const scratch place{GetParam()};
  for (const unsigned closed : {1U, 2U, 4U, 6U, 7U}) {
    const std::string path = place.path("pool") + std::to_string(closed);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int standard = 0; standard < 3; ++standard) {
        if ((closed >> standard & 1) != 0) ::close(standard);
      }
      // Nothing that was printed is in the open pool.
      const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      for (int standard = 0; standard < 3; ++standard) {
        if ((closed >> standard & 1) == 0) ::dup2(nothing, standard);
      }
      if ((closed >> nothing & 1) != 0) ::close(nothing);
      ::_exit(life(path, GetParam()));
    }
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0) << "closed: " << closed;
    NVM_POOL* pool = nvm_pool_open(path.c_str());
    EXPECT_TRUE(is_kept(pool, 5)) << nvm_errormsg();
    if (pool != nullptr) {
      EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();
    }
  }
}

// Every kind that we make, in a process that has room at 0, 1 and 2.
TEST(standard_descriptors, are_given_to_none_of_ours) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int standard : {0, 1, 2}) ::close(standard);
    const auto low = [](int descriptor) { return descriptor <= 2; };
    int ends[4];
    if (platform::open_pipe(ends) != 0 || platform::open_socket_pair(1 /* AF_UNIX */, 1, ends + 2) != 0) ::_exit(1);
    for (const int d : ends) {
      if (low(d)) ::_exit(2);
    }
    if (low(platform::open_events()) || low(platform::open_memory_file("some")) || low(platform::open_socket(1, 1, 0)))
      ::_exit(3);
    const int closing = platform::open_descriptor("/dev/null", O_RDONLY);
    if (low(closing) || (::fcntl(closing, F_GETFD) & FD_CLOEXEC) == 0) ::_exit(4);
    if (::fcntl(0, F_GETFD) >= 0 || ::fcntl(1, F_GETFD) >= 0 || ::fcntl(2, F_GETFD) >= 0) ::_exit(5);
    // Given away, they still fail as closed ones do.
    platform::occupy_standard_descriptors();
    char c = 0;
    if (::write(1, &c, 1) != -1 || errno != EBADF || ::write(2, &c, 1) != -1 || ::read(0, &c, 1) != -1) ::_exit(6);
    ::_exit(0);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace nvm::tests
