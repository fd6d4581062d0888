// Replies leave in the order in which they were written, whatever is copied, referred to, and sent in which pieces.
#include "server/reply_buffer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <string>

namespace nvm::server {
namespace {

class reply_buffer_test : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    const int small = 4096;
    ::setsockopt(ends_[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  }
  void TearDown() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  std::string received() {
    std::string all;
    char part[65536];
    for (ssize_t n; (n = ::read(ends_[1], part, sizeof part)) > 0;) all.append(part, static_cast<std::size_t>(n));
    return all;
  }
  int ends_[2] = {-1, -1};
};

TEST_F(reply_buffer_test, sends_copies_and_references_in_their_order) {
  std::mt19937_64 random{1};
  std::string expected;
  std::string got;
  std::vector<std::string> values;
  values.reserve(200);
  reply_buffer out;
  std::size_t bytes = 0;
  std::size_t calls = 0;
  for (int i = 0; i < 200; ++i) {
    const std::size_t n = random() % 3 == 0 ? 4096 + random() % 20'000 : random() % 300;
    const std::string& value = values.emplace_back(n, static_cast<char>('a' + i % 26));
    out.append("value ");
    out.append_value(value);
    expected += "value " + value;
    if (random() % 4 == 0) {
      ASSERT_NE(out.send_to(ends_[0], bytes, calls), reply_buffer::sent::failed);
      got += received();
    }
    if (random() % 8 == 0) {
      out.settle();
      EXPECT_FALSE(out.has_references());
    }
  }
  while (!out.empty()) {
    ASSERT_NE(out.send_to(ends_[0], bytes, calls), reply_buffer::sent::failed);
    got += received();
  }
  EXPECT_EQ(got, expected);
  EXPECT_EQ(bytes, expected.size());
}

TEST_F(reply_buffer_test, needs_the_values_no_longer_once_settled) {
  reply_buffer out;
  auto value = std::make_unique<std::string>(10'000, 'v');
  out.append("a");
  out.append_value(*value);
  out.append("b");
  EXPECT_TRUE(out.has_references());
  out.settle();
  value->assign(10'000, 'w');
  value.reset();
  std::size_t bytes = 0;
  std::size_t calls = 0;
  std::string got;
  while (!out.empty()) {
    ASSERT_NE(out.send_to(ends_[0], bytes, calls), reply_buffer::sent::failed);
    got += received();
  }
  EXPECT_EQ(got, "a" + std::string(10'000, 'v') + "b");
}

TEST_F(reply_buffer_test, says_when_the_client_has_gone) {
  ::close(ends_[1]);
  reply_buffer out;
  out.append("anything");
  std::size_t bytes = 0;
  std::size_t calls = 0;
  EXPECT_EQ(out.send_to(ends_[0], bytes, calls), reply_buffer::sent::failed);
  ends_[1] = ::open("/dev/null", O_RDONLY);
}

}  // namespace
}  // namespace nvm::server
