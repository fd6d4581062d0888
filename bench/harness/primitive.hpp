// The machine's own limit: store, write back, fence, and nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/benchmark.hpp"
#include "harness/emulation.hpp"

namespace nvm::bench {

// Work of one operation, on average; fractions are spread evenly over the operations.
struct primitive_work {
  payload_shape payload;    // scattered places
  double sequential_lines;  // written in a row after each other, as a log is, in a ring of 64 KiB
  double streamed_lines;    // the same by non-temporal stores
  double fences;
};

// A line gets one 8-byte store and is written back by the best instruction that the processor has, or four 16-byte
// non-temporal stores. Fences come evenly among the lines: each has something to wait for. The file lies in
// `directory`, on the same medium as the systems' pools; its fences wait for what `slower` emulates.
std::unique_ptr<contestant> make_primitive(const std::string& directory, unsigned threads, const primitive_work& work,
                                           const emulation& slower = {});

// "clwb", "clflushopt" or "clflush": what make_primitive() executes.
const char* best_write_back() noexcept;

}  // namespace nvm::bench
