#include "explore/token.hpp"

#include <array>

namespace nvm::explore {

namespace {

constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::uint8_t version = 1;
constexpr unsigned tier_numbers = 7;  // a tier's number is stored, not its bit

// Form, least significant first: tier (3 bits), explicit (1 bit).
void put(std::vector<std::uint8_t>& to, std::uint64_t v) {
  while (v >= 0x80) {
    to.push_back(static_cast<std::uint8_t>(v | 0x80));
    v >>= 7;
  }
  to.push_back(static_cast<std::uint8_t>(v));
}
void put32(std::vector<std::uint8_t>& to, std::uint32_t v) {
  for (int i = 0; i < 4; ++i) to.push_back(static_cast<std::uint8_t>(v >> (8 * i)));
}

struct reader {
  const std::vector<std::uint8_t>& from;
  std::size_t at = 0;
  bool good = true;

  std::uint8_t byte() {
    if (at >= from.size()) {
      good = false;
      return 0;
    }
    return from[at++];
  }
  std::uint64_t number() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t b = byte();
      v |= std::uint64_t{b & 0x7FU} << shift;
      if ((b & 0x80) == 0) return v;
    }
    good = false;
    return v;
  }
  std::uint32_t number32() {
    std::uint32_t v = 0;
    for (int i = 0; i < 4; ++i) v |= std::uint32_t{byte()} << (8 * i);
    return v;
  }
};

}  // namespace

std::string encode(const state_path& p) {
  std::vector<std::uint8_t> bytes;
  const bool mutated = p.mutation_code != 0;
  bytes.push_back(static_cast<std::uint8_t>(version << 4 | (mutated ? 8U : 0U) | (p.schedule ? 4U : 0U) |
                                            static_cast<unsigned>(p.persistency)));
  put32(bytes, p.trace_code);
  if (mutated) put32(bytes, p.mutation_code);
  put(bytes, p.seed);
  if (p.schedule) {
    put(bytes, p.schedule->size());
    std::uint32_t last = 0;
    for (const auto& turn : *p.schedule) {
      put(bytes, turn.point - last);
      put(bytes, turn.candidate);
      last = turn.point;
    }
  }
  put(bytes, p.crashes.size());
  for (const auto& c : p.crashes) {
    put(bytes, c.point);
    bytes.push_back(static_cast<std::uint8_t>(c.tier | (c.is_explicit ? 8U : 0U)));
    if (!c.is_explicit) {
      put(bytes, c.row);
      continue;
    }
    put(bytes, c.cuts.size());
    for (const auto& u : c.cuts) {
      put(bytes, u.unit);
      put(bytes, u.value);
    }
  }
  if ((bytes.size() * 8 + 5) / 6 > token_characters_max) return {};
  std::string text;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const std::uint8_t b : bytes) {
    bits |= std::uint32_t{b} << held;
    for (held += 8; held >= 6; held -= 6) {
      text += digits[bits & 63];
      bits >>= 6;
    }
  }
  if (held != 0) text += digits[bits & 63];
  return text;
}

std::optional<state_path> decode(std::string_view token) {
  if (token.empty() || token.size() > token_characters_max) return std::nullopt;
  std::vector<std::uint8_t> bytes;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : token) {
    const char* d = static_cast<const char*>(__builtin_memchr(digits, c, 64));
    if (d == nullptr) return std::nullopt;
    bits |= static_cast<std::uint32_t>(d - digits) << held;
    held += 6;
    if (held >= 8) {
      bytes.push_back(static_cast<std::uint8_t>(bits));
      bits >>= 8;
      held -= 8;
    }
  }
  reader r{bytes};
  const std::uint8_t head = r.byte();
  if (head >> 4 != version) return std::nullopt;
  state_path p;
  p.persistency = static_cast<model>(head & 3);
  p.trace_code = r.number32();
  if ((head & 8) != 0) p.mutation_code = r.number32();
  p.seed = r.number();
  if ((head & 4) != 0) {
    p.schedule.emplace();
    const std::uint64_t turns = r.number();
    if (turns > token_characters_max) return std::nullopt;
    std::uint32_t last = 0;
    for (std::uint64_t i = 0; i < turns; ++i) {
      last += static_cast<std::uint32_t>(r.number());
      p.schedule->push_back({last, static_cast<std::uint32_t>(r.number())});
    }
  }
  const std::uint64_t depth = r.number();
  if (!r.good || (depth == 0 && !p.schedule) || depth > 4) return std::nullopt;
  for (std::uint64_t i = 0; i < depth && r.good; ++i) {
    state_path::crash c;
    c.point = r.number();
    const std::uint8_t form = r.byte();
    c.tier = form & 7;
    if (c.tier >= tier_numbers) return std::nullopt;
    c.is_explicit = (form & 8) != 0;
    if (!c.is_explicit) {
      c.row = r.number();
    } else {
      const std::uint64_t count = r.number();
      if (count > token_characters_max) return std::nullopt;
      for (std::uint64_t k = 0; k < count; ++k) {
        const auto unit = static_cast<std::uint32_t>(r.number());
        const auto value = static_cast<std::uint32_t>(r.number());
        c.cuts.push_back({unit, value});
      }
    }
    p.crashes.push_back(std::move(c));
  }
  if (!r.good) return std::nullopt;
  return p;
}

}  // namespace nvm::explore
