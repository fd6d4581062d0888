#include "ssd/objects.hpp"

#include <fcntl.h>
#include <nvm/nvm.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/random.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t piece_bytes = 1 << 20;

// Bytes of an object, a piece at a time; each piece of each object differs from all others.
class content {
 public:
  content() : piece_(piece_bytes / sizeof(std::uint64_t)) {
    random source(1);
    for (std::uint64_t& word : piece_) word = source.next();
  }
  [[nodiscard]] const void* of(std::uint64_t operation, std::uint64_t number) noexcept {
    piece_[0] = operation << 32 | number;
    return piece_.data();
  }

 private:
  std::vector<std::uint64_t> piece_;
};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }
void check(bool good) {
  if (!good) fail(nvm_errormsg());
}

class in_pool final : public contestant {
 public:
  in_pool(const std::string& directory, std::uint64_t bytes) : path_{directory + "/large-objects.nvm"}, bytes_{bytes} {
    std::filesystem::remove(path_);
    nvm_pool_options o{};
    o.medium = NVM_MEDIUM_SSD;
    o.size = std::uint64_t{64} << 20;
    o.capacity = 2 * bytes + bytes / 4 + (std::uint64_t{64} << 20);
    pool_ = nvm_pool_create_with(path_.c_str(), &o);
    check(pool_ != nullptr);
  }
  ~in_pool() override {
    (void)nvm_pool_close(pool_);
    std::filesystem::remove(path_);
  }
  void run(unsigned, std::uint64_t first, std::uint64_t ops) override {
    for (std::uint64_t i = first; i < first + ops; ++i) {
      check(nvm_tx_begin(pool_) == 0);
      auto* const made = static_cast<std::byte*>(nvm_alloc(pool_, 1, bytes_));
      check(made != nullptr);
      for (std::uint64_t at = 0; at < bytes_; at += piece_bytes)
        std::memcpy(made + at, content_.of(i, at / piece_bytes), std::min(piece_bytes, bytes_ - at));
      check(object_ == nullptr || nvm_free(pool_, object_) == 0);
      check(nvm_pool_set_root(pool_, made) == 0);
      check(nvm_tx_commit(pool_) == 0);
      object_ = made;
    }
  }
  std::uint64_t work_digest() override {
    digest all;
    for (std::uint64_t at = 0; at < bytes_; at += piece_bytes)
      all.add_bytes(static_cast<const std::byte*>(object_) + at, std::min(piece_bytes, bytes_ - at));
    return all.value();
  }

 private:
  std::string path_;
  std::uint64_t bytes_;
  content content_;
  NVM_POOL* pool_ = nullptr;
  void* object_ = nullptr;
};

class in_file final : public contestant {
 public:
  in_file(const std::string& directory, std::uint64_t bytes)
      : path_{directory + "/large-objects.plain"}, bytes_{bytes} {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_ < 0) fail(path_ + ": " + std::strerror(errno));
  }
  ~in_file() override {
    ::close(file_);
    std::filesystem::remove(path_);
  }
  void run(unsigned, std::uint64_t first, std::uint64_t ops) override {
    for (std::uint64_t i = first; i < first + ops; ++i) {
      for (std::uint64_t at = 0; at < bytes_; at += piece_bytes) {
        const auto n = static_cast<ssize_t>(std::min(piece_bytes, bytes_ - at));
        if (::pwrite(file_, content_.of(i, at / piece_bytes), static_cast<std::size_t>(n), static_cast<off_t>(at)) != n)
          fail(path_ + ": " + std::strerror(errno));
      }
      if (::fdatasync(file_) != 0) fail(path_ + ": " + std::strerror(errno));
    }
  }
  std::uint64_t work_digest() override {
    digest all;
    std::vector<std::byte> piece(piece_bytes);
    for (std::uint64_t at = 0; at < bytes_; at += piece_bytes) {
      const auto n = static_cast<ssize_t>(std::min(piece_bytes, bytes_ - at));
      if (::pread(file_, piece.data(), static_cast<std::size_t>(n), static_cast<off_t>(at)) != n)
        fail(path_ + ": " + std::strerror(errno));
      all.add_bytes(piece.data(), static_cast<std::size_t>(n));
    }
    return all.value();
  }

 private:
  std::string path_;
  std::uint64_t bytes_;
  content content_;
  int file_ = -1;
};

}  // namespace

benchmark large_objects(const options& o, std::uint64_t bytes) {
  constexpr std::uint64_t bytes_of_repetition = std::uint64_t{256} << 20;
  benchmark b;
  b.name = "object-" + std::to_string(bytes);
  b.unit = "durable object";
  b.latency = true;
  b.ops = o.quick ? 1 : std::max<std::uint64_t>(1, bytes_of_repetition / bytes);
  b.warmup_ops = 2;  // the second has the room that the first had, from then on
  b.parameters = {{"value_bytes", bytes}};
  b.systems.push_back(
      {"plain file", role::peer, [=, directory = o.directory] { return std::make_unique<in_file>(directory, bytes); }});
  b.systems.push_back({"holdfast", role::subject,
                       [=, directory = o.directory] { return std::make_unique<in_pool>(directory, bytes); }});
  return b;
}

}  // namespace nvm::bench
