// libFuzzer's door to traces of recorded programs: any file is read or refused with a reason, and accepted stores stay
// inside the image that goes with it.
//
// An input is a trace, or, if its first byte is odd, the recipe of one: a number, that many edits of a pool that is
// open in the trace, then records of 16 bytes each.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "../crash_test/trace_writer.hpp"
#include "door.hpp"
#include "hostile.hpp"
#include "recorded.hpp"

namespace {

using namespace nvm;
using crash_test::tests::trace_base;
using crash_test::tests::trace_writer;
using layout::trace_kind;

constexpr std::uint64_t image_max = std::uint64_t{1} << 20;

struct short_record {
  std::uint8_t kind;
  std::uint8_t thread_and_place;
  std::uint16_t bytes;
  std::uint32_t address;
  std::uint64_t word;
};
static_assert(sizeof(short_record) == 16);

void add(trace_writer& w, const short_record& r) {
  // A few more than there are.
  const auto kind = static_cast<trace_kind>(r.kind % (layout::trace_kind_max + 2));
  const std::uint64_t address = (r.kind & 0x80) == 0   ? trace_base + r.address % (image_max + 8192)
                                : (r.kind & 0x40) == 0 ? trace_base
                                                       : r.word ^ r.address;
  const auto thread = static_cast<std::uint8_t>(r.thread_and_place % 5);
  const std::uint32_t place = r.thread_and_place / 5 % 6;
  std::string payload;
  switch (kind) {
    case trace_kind::store:
      if (const std::uint64_t span = layout::trace_span(address, r.bytes); r.bytes != 0 && span > 8) {
        payload.assign(span, static_cast<char>(r.word));
      }
      break;
    case trace_kind::page:
      payload.assign(4096, static_cast<char>(r.word));
      break;
    case trace_kind::place:
      payload = std::string{"a.c\0f\0", 6}.substr(0, r.bytes % 8);
      break;
    case trace_kind::pool_open:
      payload.assign(reinterpret_cast<const char*>(&r.word), sizeof r.word);
      payload += "/p";
      payload.resize(r.bytes % 16);
      break;
    case trace_kind::pool_sums:
      payload.assign(r.bytes % 64 * 8, static_cast<char>(r.word));
      break;
    default:
      break;
  }
  w.add(kind, address, r.word, place, r.bytes, payload, thread);
}

std::vector<std::byte> trace_of(std::string_view input) {
  constexpr std::size_t edits_at_most = 4;
  trace_writer w;
  const auto first = static_cast<std::uint8_t>(input.empty() ? 0 : input[0]);
  if (first < 0xC0) {
    // A pool's image is there when it is opened, from page to page.
    const std::size_t edits = std::min(1 + first % (edits_at_most + 1) * fuzz::edit_bytes, input.size());
    const fuzz::bytes image =
        fuzz::edited(fuzz::direct_images(), {reinterpret_cast<const std::uint8_t*>(input.data()), edits});
    input.remove_prefix(edits);
    w.open("/pool");
    for (std::size_t at = 0; at + 4096 <= image.size(); at += 4096) {
      w.add(trace_kind::page, trace_base + at, 0, 0, 0, {reinterpret_cast<const char*>(&image[at]), 4096});
    }
    w.add(trace_kind::pool_ready, trace_base, 0);
    w.place(0, "app.c", "put", 10);
    w.place(1, "library.hpp", "log", 20, true);
  }
  for (; input.size() >= sizeof(short_record); input.remove_prefix(sizeof(short_record))) {
    short_record r;
    std::memcpy(&r, input.data(), sizeof r);
    add(w, r);
  }
  return w.finish();
}

}  // namespace

extern "C" int NVM_FUZZER(recording)(const std::uint8_t* data, std::size_t size);
extern "C" int NVM_FUZZER(recording)(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> trace;
  if (data[0] % 2 != 0) {
    trace = trace_of({reinterpret_cast<const char*>(data) + 1, size - 1});
  } else {
    // Its own bytes: any access after them is found.
    trace.assign(reinterpret_cast<const std::byte*>(data) + 1, reinterpret_cast<const std::byte*>(data) + size);
  }
  std::string problem;
  const auto r = crash_test::read_recording(trace.data(), trace.size(), problem, image_max);
  if (r.has_value() == !problem.empty()) std::abort();
  if (r) fuzz::require_recording(*r, image_max);
  return 0;
}
