#include "harness/primitive.hpp"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "harness/mapped_file.hpp"
#include "harness/random.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t line_bytes = 64;
constexpr std::uint64_t ring_bytes = 64 * 1024;

enum class write_back { clflush, clflushopt, clwb };

write_back detect() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return write_back::clflush;
  if ((b & (1U << 24)) != 0) return write_back::clwb;
  return (b & (1U << 23)) != 0 ? write_back::clflushopt : write_back::clflush;
}

// As assembly: an intrinsic would need a function compiled for the instruction, which could not be inlined here.
template <write_back W>
inline void store_and_write_back(char* line, std::uint64_t value) noexcept {
  *reinterpret_cast<volatile std::uint64_t*>(line) = value;
  if constexpr (W == write_back::clwb) {
    asm volatile("clwb %0" : "+m"(*line));
  } else if constexpr (W == write_back::clflushopt) {
    asm volatile("clflushopt %0" : "+m"(*line));
  } else {
    asm volatile("clflush %0" : "+m"(*line));
  }
}

inline void stream(char* line, std::uint64_t value) noexcept {
  const __m128i pair = _mm_set1_epi64x(static_cast<long long>(value));
  for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(line) + i, pair);
}

// Hands out whole units of an average per operation, evenly.
class rate {
 public:
  explicit rate(double average) noexcept : step_(static_cast<std::uint64_t>(average * 0x1.0p32 + 0.5)) {}
  std::uint64_t take() noexcept {
    sum_ += step_;
    const std::uint64_t whole = sum_ >> 32;
    sum_ &= 0xffff'ffff;
    return whole;
  }

 private:
  std::uint64_t step_;
  std::uint64_t sum_ = 0;
};

class primitive final : public contestant {
 public:
  primitive(const std::string& directory, unsigned threads, const primitive_work& work, const emulation& slower)
      : emulation_(slower),
        lines_per_piece_(work.payload.lines_per_piece),
        data_bytes_((work.payload.footprint_bytes + line_bytes - 1) / line_bytes * line_bytes),
        file_(directory + "/primitive.bench", (data_bytes_ + ring_bytes) * threads) {
    if (data_bytes_ < lines_per_piece_ * line_bytes)
      throw std::runtime_error("the footprint of the limit is smaller than one piece of it");
    for (unsigned i = 0; i < threads; ++i)
      states_.push_back(
          {rate(work.payload.pieces), rate(work.sequential_lines), rate(work.streamed_lines), rate(work.fences), 0});
  }

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    switch (detect()) {
      case write_back::clwb:
        return execute<write_back::clwb>(thread, first, ops);
      case write_back::clflushopt:
        return execute<write_back::clflushopt>(thread, first, ops);
      case write_back::clflush:
        return execute<write_back::clflush>(thread, first, ops);
    }
  }

  std::uint64_t work_digest() override { return 0; }

 private:
  struct alignas(64) state {
    rate pieces, sequential, streamed, fences;
    std::uint64_t ring_line;
  };

  template <write_back W>
  void execute(unsigned thread, std::uint64_t first, std::uint64_t ops) noexcept {
    state s = states_[thread];
    char* const data = file_.data() + (data_bytes_ + ring_bytes) * thread;
    char* const ring = data + data_bytes_;
    const std::uint64_t places = data_bytes_ / line_bytes - lines_per_piece_ + 1;
    random source(mix(first) ^ thread);
    emulated_batch batch;
    const bool slow = emulation_.any();
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const std::uint64_t sequential = s.sequential.take();
      const std::uint64_t streamed = s.streamed.take();
      const std::uint64_t pieces = s.pieces.take();
      const std::uint64_t fences = s.fences.take();
      const std::uint64_t lines = sequential + streamed + pieces * lines_per_piece_;
      // The last fence of an operation comes after its last line.
      std::uint64_t due = 0;
      auto wrote_line = [&] {
        batch.wrote(1);
        for (due += fences; due >= lines; due -= lines) {
          _mm_sfence();
          if (slow) batch.fence(emulation_);
        }
      };
      auto next_of_ring = [&] { return ring + s.ring_line++ % (ring_bytes / line_bytes) * line_bytes; };
      for (std::uint64_t n = 0; n < sequential; ++n) {
        store_and_write_back<W>(next_of_ring(), i);
        wrote_line();
      }
      for (std::uint64_t n = 0; n < streamed; ++n) {
        stream(next_of_ring(), i);
        wrote_line();
      }
      for (std::uint64_t n = 0; n < pieces; ++n) {
        char* const place = data + source.below(places) * line_bytes;
        for (std::uint64_t k = 0; k < lines_per_piece_; ++k) {
          store_and_write_back<W>(place + k * line_bytes, i);
          wrote_line();
        }
      }
      if (lines == 0)
        for (std::uint64_t n = 0; n < fences; ++n) _mm_sfence();
    }
    states_[thread] = s;
  }

  emulation emulation_;
  std::uint64_t lines_per_piece_;
  std::uint64_t data_bytes_;
  mapped_file file_;
  std::vector<state> states_;
};

}  // namespace

const char* best_write_back() noexcept {
  switch (detect()) {
    case write_back::clwb:
      return "clwb";
    case write_back::clflushopt:
      return "clflushopt";
    case write_back::clflush:
      break;
  }
  return "clflush";
}

std::unique_ptr<contestant> make_primitive(const std::string& directory, unsigned threads, const primitive_work& work,
                                           const emulation& slower) {
  return std::make_unique<primitive>(directory, threads, work, slower);
}

}  // namespace nvm::bench
