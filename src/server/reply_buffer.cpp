#include "server/reply_buffer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nvm::server {
namespace {

constexpr std::size_t first_bytes = 4096;
constexpr int vector_elements_max = 64;

}  // namespace

void reply_buffer::grow(std::size_t bytes) {
  const std::size_t capacity = std::max({first_bytes, capacity_ * 2, used_ + bytes});
  auto larger = std::make_unique_for_overwrite<char[]>(capacity);
  if (used_ != 0) std::memcpy(larger.get(), bytes_.get(), used_);
  bytes_ = std::move(larger);
  capacity_ = capacity;
}

void reply_buffer::append(std::string_view text) {
  if (text.empty()) return;
  char* const to = room(text.size());
  std::memcpy(to, text.data(), text.size());
  commit(to + text.size());
}

void reply_buffer::append_value(std::string_view value) {
  if (value.size() < reference_bytes_min) return append(value);
  references_.push_back({used_, value});
  pending_ += value.size();
}

void reply_buffer::settle() {
  if (references_.empty()) return;
  auto whole = std::make_unique_for_overwrite<char[]>(std::max(pending_, first_bytes));
  char* to = whole.get();
  std::size_t own = begin_;
  const auto copy = [&](std::string_view from) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    to += from.size();
  };
  for (std::size_t i = first_; i < references_.size(); ++i) {
    copy({bytes_.get() + own, references_[i].at - own});
    own = references_[i].at;
    copy(references_[i].bytes);
  }
  copy({bytes_.get() + own, used_ - own});
  capacity_ = std::max(pending_, first_bytes);
  bytes_ = std::move(whole);
  used_ = pending_;
  begin_ = 0;
  references_.clear();
  first_ = 0;
}

int reply_buffer::gather(iovec* to, int most) const noexcept {
  int n = 0;
  std::size_t own = begin_;
  const auto add = [&](const char* at, std::size_t bytes) {
    if (bytes != 0 && n < most) to[n++] = {const_cast<char*>(at), bytes};
  };
  for (std::size_t i = first_; i < references_.size() && n < most; ++i) {
    add(bytes_.get() + own, references_[i].at - own);
    own = references_[i].at;
    add(references_[i].bytes.data(), references_[i].bytes.size());
    if (n == most) return n;
  }
  add(bytes_.get() + own, used_ - own);
  return n;
}

void reply_buffer::consume(std::size_t bytes) noexcept {
  pending_ -= bytes;
  while (first_ < references_.size()) {
    reference& r = references_[first_];
    const std::size_t own = std::min(bytes, r.at - begin_);
    begin_ += own;
    bytes -= own;
    if (begin_ != r.at || bytes < r.bytes.size()) {
      r.bytes.remove_prefix(bytes);
      return;
    }
    bytes -= r.bytes.size();
    ++first_;
  }
  begin_ += bytes;
}

reply_buffer::sent reply_buffer::send_to(int fd, std::size_t& bytes, std::size_t& calls) noexcept {
  while (pending_ != 0) {
    iovec vector[vector_elements_max];
    msghdr message{};
    message.msg_iov = vector;
    message.msg_iovlen = static_cast<std::size_t>(gather(vector, vector_elements_max));
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    ++calls;
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? sent::some : sent::failed;
    }
    bytes += static_cast<std::size_t>(n);
    consume(static_cast<std::size_t>(n));
  }
  return sent::all;
}

void reply_buffer::clear(std::size_t keep_bytes) noexcept {
  if (capacity_ > keep_bytes) {
    bytes_.reset();
    capacity_ = 0;
  }
  used_ = begin_ = pending_ = 0;
  references_.clear();
  first_ = 0;
}

}  // namespace nvm::server
