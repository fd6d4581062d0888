// Layouts that a program describes by data: the bytes are those that the compiler plugin would make.
#include "object/described_type.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "nvm/describe.hpp"
#include "sample_types.hpp"

// Catches what the templates of nvm/describe.hpp announce.
namespace {
nvm::object::type_map_writer::words announced;
}
extern "C" int nvm_describe_type(const nvm_type_description* type) {
  announced = nvm::object::map_of(*type);
  return 0;
}

namespace nvm::tests {
namespace described {

struct point {
  int x;
  double y;
};
struct slot {
  int first;
  p<struct everything*> to;
  unsigned char tag[3];
  point where;
};
enum class colour : unsigned short { red, green };
struct everything {
  ref<everything> next;
  weak<everything> up;
  p<everything*> down;
  everything* table[2][2];
  const char* text;
  void* anything;
  bool flag;
  char name[5];
  char8_t wide;
  signed char small;
  colour paint[2];
  p<unsigned long> counted;
  float weights[3];
  long double exact;
  union {
    int i;
    float f;
  } either;
  point here;
  slot slots[2];
};

}  // namespace described

namespace {

using described::everything;

TEST(described_type, templates_say_what_the_plugin_would) {
  using enum layout::field_kind;
  using described::point;
  using described::slot;
  ASSERT_TRUE(describe<everything>(
      nvm::field("next", &everything::next), nvm::field("up", &everything::up), nvm::field("down", &everything::down),
      nvm::weak_pointer("table", &everything::table), nvm::field("text", &everything::text),
      nvm::pointer("anything", &everything::anything), nvm::field("flag", &everything::flag),
      nvm::field("name", &everything::name), nvm::field("wide", &everything::wide),
      nvm::field("small", &everything::small), nvm::field("paint", &everything::paint),
      nvm::field("counted", &everything::counted), nvm::field("weights", &everything::weights),
      nvm::field("exact", &everything::exact), nvm::field("either", &everything::either),
      inside("here", &everything::here, nvm::field("x", &point::x), nvm::field("y", &point::y)),
      inside("slots", &everything::slots, nvm::field("first", &slot::first), nvm::field("to", &slot::to),
             nvm::field("tag", &slot::tag),
             inside("where", &slot::where, nvm::field("x", &point::x), nvm::field("y", &point::y)))));
  const char* const name = "nvm::tests::described::everything";
  const std::uint32_t id = layout::type_id_of(name);
  const std::uint32_t text = layout::type_id_of("char");
  const auto at = [](std::size_t offset) { return static_cast<std::uint64_t>(offset); };
  type_description t{name,
                     sizeof(everything),
                     alignof(everything),
                     {field("next", 0, layout::field_kind::pointer, 8, 1, id),
                      field("up", 8, layout::field_kind::weak_pointer, 8, 1, id),
                      field("down", 16, layout::field_kind::pointer, 8, 1, id),
                      field("table", 24, layout::field_kind::weak_pointer, 8, 4, id),
                      field("text", 56, volatile_pointer, 8, 1, text),
                      field("anything", 64, layout::field_kind::pointer, 8),
                      field("flag", 72, boolean, 1),
                      field("name", 73, character, 1, 5),
                      field("wide", 78, character, 1),
                      field("small", 79, signed_integer, 1),
                      field("paint", 80, unsigned_integer, 2, 2),
                      field("counted", 88, unsigned_integer, 8),
                      field("weights", 96, floating, 4, 3),
                      field("exact", 112, floating, 16),
                      field("either", 128, bytes, 4),
                      field("here.x", 136, signed_integer, 4),
                      field("here.y", 144, floating, 8),
                      field("slots", at(offsetof(everything, slots)), structure, sizeof(described::slot), 2),
                      field("slots.first", 0, signed_integer, 4),
                      field("slots.to", 8, layout::field_kind::pointer, 8, 1, id),
                      field("slots.tag", 16, unsigned_integer, 1, 3),
                      field("slots.where.x", 24, signed_integer, 4),
                      field("slots.where.y", 32, floating, 8)}};
  t.fields[17].place.inner = 5;
  type_map_writer expected;
  expected.add(t);
  EXPECT_EQ(announced, expected.finish());
  EXPECT_TRUE(read(announced)) << last_message();
}

TEST(described_type, other_names_are_announced_too) {
  const nvm_field_description fields[] = {
      {"next", 0, 8, 1, NVM_FIELD_POINTER, 0, "struct node", nullptr},
      {"data", 8, 1, 32, NVM_FIELD_CHAR, 0, nullptr, nullptr},
  };
  const nvm_type_description plain{"node", 40, 8, 2, fields};
  const nvm_type_description with_struct{"struct node", 40, 8, 2, fields};
  type_map_writer expected;
  expected.add(node_type());
  EXPECT_EQ(object::map_of(plain), expected.finish());
  expected.add_alias("struct node", layout::type_id_of("node"));
  EXPECT_EQ(object::map_of(with_struct), expected.finish());
}

TEST(described_type, that_lies_is_refused_as_any_map) {
  const nvm_field_description fields[] = {{"next", 36, 8, 1, NVM_FIELD_POINTER, 0, "void", nullptr}};
  EXPECT_FALSE(read(object::map_of({"node", 40, 8, 1, fields})));
  const nvm_field_description unions[] = {{"u", 0, 8, 1, NVM_FIELD_UNION, 1, nullptr, nullptr},
                                          {"u.p", 0, 8, 1, NVM_FIELD_POINTER, 0, nullptr, nullptr}};
  EXPECT_FALSE(read(object::map_of({"node", 8, 8, 2, unions})));
  const nvm_field_description kinds[] = {{"p", 0, 8, 1, 77, 0, nullptr, nullptr}};
  EXPECT_FALSE(read(object::map_of({"node", 8, 8, 1, kinds})));
}

}  // namespace
}  // namespace nvm::tests
