#include "object/union_tag.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace nvm::object {
namespace {

// Takes the number off the beginning of a text.
template <class T>
bool take_number(std::string_view& text, T& value) noexcept {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return true;
}
bool take(std::string_view& text, char c) noexcept {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

const std::array<union_tag::token, 22> union_tag::operators = {{
    {"+", operation::add, 2},          {"-", operation::subtract, 2},
    {"*", operation::multiply, 2},     {"/", operation::divide, 2},
    {"%", operation::remainder, 2},    {"&", operation::bit_and, 2},
    {"|", operation::bit_or, 2},       {"^", operation::bit_xor, 2},
    {"<<", operation::shift_left, 2},  {">>", operation::shift_right, 2},
    {"==", operation::equal, 2},       {"!=", operation::unequal, 2},
    {"<", operation::less, 2},         {"<=", operation::less_equal, 2},
    {">", operation::greater, 2},      {">=", operation::greater_equal, 2},
    {"&&", operation::logical_and, 2}, {"||", operation::logical_or, 2},
    {"neg", operation::negate, 1},     {"!", operation::logical_not, 1},
    {"~", operation::bit_not, 1},      {"?", operation::choose, 3},
}};

std::optional<union_tag::step> union_tag::read_load(std::string_view t, std::uint64_t room) noexcept {
  step s{operation::load};
  s.is_signed = t.front() == 's';
  t.remove_prefix(1);
  std::uint64_t at = 0;
  if (!take_number(t, s.bytes) || !take(t, '@') || !take_number(t, at)) return std::nullopt;
  if (s.bytes != 1 && s.bytes != 2 && s.bytes != 4 && s.bytes != 8) return std::nullopt;
  if (at > room || s.bytes > room - at) return std::nullopt;
  s.value = static_cast<std::int64_t>(at);
  s.bits = static_cast<std::uint8_t>(8 * s.bytes);
  if (t.empty()) return s;
  const unsigned all = s.bits;
  if (!take(t, ':') || !take_number(t, s.first_bit) || !take(t, '+') || !take_number(t, s.bits) || !t.empty()) {
    return std::nullopt;
  }
  if (s.bits == 0 || s.first_bit >= all || s.bits > all - s.first_bit) return std::nullopt;
  return s;
}

std::optional<union_tag> union_tag::read(std::string_view text, std::uint64_t room) {
  if (text.empty() || text.size() > text_max) return std::nullopt;
  union_tag tag;
  std::size_t values = 0;
  for (bool more = true; more;) {
    const std::size_t end = text.find(' ');
    const std::string_view t = text.substr(0, end);
    more = end != text.npos;
    if (more) text.remove_prefix(end + 1);
    if (t.empty()) return std::nullopt;
    const auto op = std::find_if(operators.begin(), operators.end(), [&](const token& o) { return o.text == t; });
    if (op != operators.end()) {
      if (values < op->takes) return std::nullopt;
      values -= op->takes;
      tag.steps_.push_back({op->does});
    } else if (t.front() == 'u' || t.front() == 's') {
      const auto s = read_load(t, room);
      if (!s) return std::nullopt;
      tag.steps_.push_back(*s);
      tag.reach_ = std::max(tag.reach_, static_cast<std::uint64_t>(s->value) + s->bytes);
    } else {
      step s{operation::number};
      std::string_view rest = t;
      if (!take_number(rest, s.value) || !rest.empty()) return std::nullopt;
      tag.steps_.push_back(s);
    }
    if (++values > values_max) return std::nullopt;
  }
  return values == 1 ? std::optional{std::move(tag)} : std::nullopt;
}

std::int64_t union_tag::load(const step& s, const std::byte* structure) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, structure + s.value, s.bytes);
  // To the top, and down again with or without the sign.
  word <<= 64 - s.first_bit - s.bits;
  const unsigned down = 64U - s.bits;
  return s.is_signed ? static_cast<std::int64_t>(word) >> down : static_cast<std::int64_t>(word >> down);
}

std::int64_t union_tag::apply(operation o, std::int64_t a, std::int64_t b) noexcept {
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (o) {
    case operation::add:
      return static_cast<std::int64_t>(ua + ub);
    case operation::subtract:
      return static_cast<std::int64_t>(ua - ub);
    case operation::multiply:
      return static_cast<std::int64_t>(ua * ub);
    case operation::divide:
      // The least number by -1 has no quotient.
      return b == 0 ? 0 : b == -1 ? static_cast<std::int64_t>(0 - ua) : a / b;
    case operation::remainder:
      return b == 0 || b == -1 ? 0 : a % b;
    case operation::bit_and:
      return a & b;
    case operation::bit_or:
      return a | b;
    case operation::bit_xor:
      return a ^ b;
    case operation::shift_left:
      return static_cast<std::int64_t>(ua << (ub & 63));
    case operation::shift_right:
      return a >> (ub & 63);
    case operation::equal:
      return a == b;
    case operation::unequal:
      return a != b;
    case operation::less:
      return a < b;
    case operation::less_equal:
      return a <= b;
    case operation::greater:
      return a > b;
    case operation::greater_equal:
      return a >= b;
    case operation::logical_and:
      return a != 0 && b != 0;
    case operation::logical_or:
      return a != 0 || b != 0;
    case operation::negate:
      return static_cast<std::int64_t>(0 - ub);
    case operation::logical_not:
      return b == 0;
    case operation::bit_not:
      return ~b;
    case operation::number:
    case operation::load:
    case operation::choose:
      break;
  }
  return 0;
}

std::int64_t union_tag::member_of(const std::byte* structure) const noexcept {
  std::array<std::int64_t, values_max> values{};
  std::size_t n = 0;
  for (const step& s : steps_) {
    switch (s.does) {
      case operation::number:
        values[n++] = s.value;
        break;
      case operation::load:
        values[n++] = load(s, structure);
        break;
      case operation::choose:
        n -= 2;
        values[n - 1] = values[n - 1] != 0 ? values[n] : values[n + 1];
        break;
      case operation::negate:
      case operation::logical_not:
      case operation::bit_not:
        values[n - 1] = apply(s.does, 0, values[n - 1]);
        break;
      default:
        --n;
        values[n - 1] = apply(s.does, values[n - 1], values[n]);
        break;
    }
  }
  return values[0];
}

}  // namespace nvm::object
