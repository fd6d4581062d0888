// Tags of unions: which member counts, as the program said it (NVM_UNION_TAG), made into steps that need no program.
//
// In a type map a tag is a text of tokens with one space between them, in postfix order:
//
//   u4@16  s8@0     an integer of 1, 2, 4 or 8 bytes, unsigned or signed, so many bytes from the start of the structure
//                   that the union is in
//   u4@16:3+5       five bits of it, from bit 3 on
//   -12             a number
//   + - * / % & | ^ << >> == != < <= > >= && ||    with the two values before them
//   neg ! ~         with one
//   ?               with three: the second if the first is not 0, else the third
//
// Numbers have 64 bits and a sign, and wrap; a division by 0 gives 0; shifts count modulo 64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace nvm::object {

class union_tag {
 public:
  static constexpr std::size_t values_max = 16;  // that wait for an operator
  static constexpr std::size_t text_max = 1024;

  // nullopt: the text is no tag, or reads outside of `room` bytes.  May throw std::bad_alloc.
  [[nodiscard]] static std::optional<union_tag> read(std::string_view text, std::uint64_t room);

  // Bytes from the start of the structure up to the end of what is read.
  [[nodiscard]] std::uint64_t reach() const noexcept { return reach_; }
  // The number of the member that counts, from 0; another number: none.
  [[nodiscard]] std::int64_t member_of(const std::byte* structure) const noexcept;

 private:
  enum class operation : std::uint8_t {
    number,
    load,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    bit_and,
    bit_or,
    bit_xor,
    shift_left,
    shift_right,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
    negate,
    logical_not,
    bit_not,
    choose
  };
  struct token {
    std::string_view text;
    operation does;
    std::uint8_t takes;
  };
  static const std::array<token, 22> operators;
  struct step {
    operation does;
    std::uint8_t bytes = 0;  // load
    bool is_signed = false;
    std::uint8_t first_bit = 0, bits = 0;
    std::int64_t value = 0;  // number; load: offset
  };
  [[nodiscard]] static std::optional<step> read_load(std::string_view token, std::uint64_t room) noexcept;
  [[nodiscard]] static std::int64_t load(const step& s, const std::byte* structure) noexcept;
  [[nodiscard]] static std::int64_t apply(operation o, std::int64_t a, std::int64_t b) noexcept;

  std::vector<step> steps_;
  std::uint64_t reach_ = 0;
};

}  // namespace nvm::object
