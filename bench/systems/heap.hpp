// What the micro-benchmarks ask of a transactional heap.
//
// A concept: these calls are made several times in an operation of some hundred nanoseconds, so each system's are
// inlined into the benchmark, as a program written for that system alone would have them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace nvm::bench {

struct span_of_bytes {
  void* p;
  std::size_t n;
};

struct heap_settings {
  std::string directory;
  std::uint64_t bytes;  // of data that the benchmark will have in the heap at most
};

template <class H>
concept heap = std::constructible_from<H, const heap_settings&> &&
               requires(H& h, void* p, std::size_t n, const span_of_bytes* ranges) {
                 // A transaction of the calling thread: all that was logged, allocated and freed, or nothing of it.
                 { h.begin() };
                 { h.commit() };             // on return it is durable
                 { h.log(p, n) };            // before [p, p + n) is written
                 { h.log_many(ranges, n) };  // the same for n ranges that the program knows together
                 { h.alloc(n) } -> std::same_as<void*>;
                 { h.free(p) };
                 // Zeroed memory that lives as long as the heap; not for the timed part.
                 { h.fixed(n) } -> std::same_as<void*>;
                 { h.bytes_logged() } -> std::same_as<std::optional<std::uint64_t>>;
                 { H::name } -> std::convertible_to<const char*>;
               };

}  // namespace nvm::bench
