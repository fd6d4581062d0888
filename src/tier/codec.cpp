#include "tier/codec.hpp"

#include <dlfcn.h>

#include <new>

namespace nvm::tier {
namespace {

// A library of the system. It stays loaded, since a program that uses it itself has it anyway.
class library {
 public:
  explicit library(const char* name) noexcept : name_{name}, handle_{::dlopen(name, RTLD_NOW | RTLD_LOCAL)} {
    if (handle_ == nullptr) note();
  }
  template <class F>
  void find(F*& f, const char* name) noexcept {
    if (!found_) return;
    f = reinterpret_cast<F*>(::dlsym(handle_, name));
    if (f == nullptr) note();
  }
  [[nodiscard]] status found() const noexcept {
    if (found_) return {};
    return fail(errc::system, "pages compressed by %s need it: %s", name_, why_);
  }

 private:
  void note() noexcept {
    const char* why = ::dlerror();
    why_ = why == nullptr ? "it cannot be loaded" : why;  // valid until this thread's next call
    found_ = false;
  }
  const char* name_;
  void* handle_;
  bool found_ = true;
  const char* why_ = "";
};

// The used parts of lz4.h and zstd.h, which their makers promise for all versions 1.
struct lz4_calls {
  int (*compress)(const char* from, char* to, int from_bytes, int to_bytes_max) = nullptr;
  int (*expand)(const char* from, char* to, int from_bytes, int to_bytes_max) = nullptr;
};
struct zstd_context;
struct zstd_calls {
  zstd_context* (*make_compressor)() = nullptr;
  std::size_t (*free_compressor)(zstd_context*) = nullptr;
  zstd_context* (*make_expander)() = nullptr;
  std::size_t (*free_expander)(zstd_context*) = nullptr;
  std::size_t (*compress)(zstd_context*, void* to, std::size_t to_bytes, const void* from, std::size_t bytes,
                          int level) = nullptr;
  std::size_t (*expand)(zstd_context*, void* to, std::size_t to_bytes, const void* from, std::size_t bytes) = nullptr;
  unsigned (*is_error)(std::size_t) = nullptr;
};

class lz4_codec final : public codec {
 public:
  explicit lz4_codec(const lz4_calls& calls) noexcept : calls_{calls} {}
  std::size_t compress(std::span<const std::byte> from, std::span<std::byte> to) noexcept override {
    const int n = calls_.compress(reinterpret_cast<const char*>(from.data()), reinterpret_cast<char*>(to.data()),
                                  static_cast<int>(from.size()), static_cast<int>(to.size()));
    return n <= 0 ? 0 : static_cast<std::size_t>(n);
  }
  bool expand(std::span<const std::byte> from, std::span<std::byte> to) noexcept override {
    const int n = calls_.expand(reinterpret_cast<const char*>(from.data()), reinterpret_cast<char*>(to.data()),
                                static_cast<int>(from.size()), static_cast<int>(to.size()));
    return n >= 0 && static_cast<std::size_t>(n) == to.size();
  }

 private:
  lz4_calls calls_;
};

class zstd_codec final : public codec {
 public:
  explicit zstd_codec(const zstd_calls& calls) noexcept
      : calls_{calls}, compressor_{calls.make_compressor()}, expander_{calls.make_expander()} {}
  ~zstd_codec() override {
    calls_.free_compressor(compressor_);
    calls_.free_expander(expander_);
  }
  [[nodiscard]] bool exists() const noexcept { return compressor_ != nullptr && expander_ != nullptr; }
  std::size_t compress(std::span<const std::byte> from, std::span<std::byte> to) noexcept override {
    const std::size_t n = calls_.compress(compressor_, to.data(), to.size(), from.data(), from.size(), level);
    return calls_.is_error(n) != 0 ? 0 : n;
  }
  bool expand(std::span<const std::byte> from, std::span<std::byte> to) noexcept override {
    const std::size_t n = calls_.expand(expander_, to.data(), to.size(), from.data(), from.size());
    return calls_.is_error(n) == 0 && n == to.size();
  }

 private:
  static constexpr int level = 1;  // pages are small: more costs time and gains little
  zstd_calls calls_;
  zstd_context* compressor_;
  zstd_context* expander_;
};

result<std::unique_ptr<codec>> make_lz4() noexcept {
  lz4_calls calls;
  library l{"liblz4.so.1"};
  l.find(calls.compress, "LZ4_compress_default");
  l.find(calls.expand, "LZ4_decompress_safe");
  if (status s = l.found(); !s) return s.error();
  std::unique_ptr<codec> made{new (std::nothrow) lz4_codec{calls}};
  if (made == nullptr) return fail(errc::no_memory, "no volatile memory to compress pages");
  return made;
}

result<std::unique_ptr<codec>> make_zstd() noexcept {
  zstd_calls calls;
  library l{"libzstd.so.1"};
  l.find(calls.make_compressor, "ZSTD_createCCtx");
  l.find(calls.free_compressor, "ZSTD_freeCCtx");
  l.find(calls.make_expander, "ZSTD_createDCtx");
  l.find(calls.free_expander, "ZSTD_freeDCtx");
  l.find(calls.compress, "ZSTD_compressCCtx");
  l.find(calls.expand, "ZSTD_decompressDCtx");
  l.find(calls.is_error, "ZSTD_isError");
  if (status s = l.found(); !s) return s.error();
  std::unique_ptr<zstd_codec> made{new (std::nothrow) zstd_codec{calls}};
  if (made == nullptr || !made->exists()) return fail(errc::no_memory, "no volatile memory to compress pages");
  return std::unique_ptr<codec>{std::move(made)};
}

}  // namespace

result<std::unique_ptr<codec>> make_codec(layout::page_coding coding) noexcept {
  if (coding == layout::page_coding::lz4) return make_lz4();
  NVM_ASSERT(coding == layout::page_coding::zstd);
  return make_zstd();
}

}  // namespace nvm::tier
