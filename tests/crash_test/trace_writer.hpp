// Trace files, written record by record, as no program may have.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "crash_test/trace_layout.hpp"
#include "nvm/record.h"

namespace nvm::crash_test::tests {

using layout::trace_kind;

inline constexpr std::uint64_t trace_base = 0x2000'0000'0000;
inline constexpr std::uint64_t trace_capacity = 1 << 20;

class trace_writer {
 public:
  trace_writer() { bytes_.resize(sizeof(layout::trace_header)); }

  void add(trace_kind kind, std::uint64_t address, std::uint64_t word, std::uint32_t place = 0, std::uint16_t size = 0,
           const std::string& payload = {}, std::uint8_t thread = 0) {
    const std::uint64_t length = layout::has_payload(kind) ? payload.size() : word;
    const layout::trace_record r{address, length, place, size, static_cast<std::uint8_t>(kind), thread};
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof r + round_up(payload.size(), 8));
    std::memcpy(bytes_.data() + at, &r, sizeof r);
    std::memcpy(bytes_.data() + at + sizeof r, payload.data(), payload.size());
  }
  void open(const std::string& path) {
    std::string text(sizeof trace_capacity, 0);
    std::memcpy(text.data(), &trace_capacity, sizeof trace_capacity);
    add(trace_kind::pool_open, trace_base, 0, 0, 0, text + path);
  }
  void place(std::uint32_t number, const char* file, const char* function, std::uint32_t line, bool library = false) {
    std::string text{file};
    text += '\0';
    text += function;
    text += '\0';
    add(trace_kind::place, line, 0, number, NVM_REC_PLAIN, text, library ? 1 : 0);
  }
  void store(std::uint64_t offset, std::uint16_t size, std::uint64_t word, std::uint32_t place,
             std::uint8_t thread = 0) {
    add(trace_kind::store, trace_base + offset, word, place, size, {}, thread);
  }
  std::vector<std::byte> finish() {
    layout::trace_header h{};
    h.magic = layout::trace_magic;
    h.version = layout::trace_version;
    h.used = bytes_.size();
    std::memcpy(bytes_.data(), &h, sizeof h);
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace nvm::crash_test::tests
