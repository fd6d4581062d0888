// Harmless and harmful changes of a layout.
#include <gtest/gtest.h>

#include "object/type_merge.hpp"
#include "sample_types.hpp"

namespace nvm::tests {
namespace {

using enum layout::field_kind;
using object::compare_types;

struct maps {
  maps(const type_description& before, const type_description& now) {
    type_map_writer a;
    a.add(before);
    a.add_alias("struct " + before.name, layout::type_id_of(before.name.c_str()));
    stored_words = a.finish();
    type_map_writer b;
    b.add(now);
    ours_words = b.finish();
    stored = *read(stored_words);
    ours = *read(ours_words);
  }
  type_map_writer::words stored_words, ours_words;
  type_map stored, ours;
};

void expect(bool harmless, const type_description& now) {
  const maps m{node_type(), now};
  const auto c = compare_types(m.stored, m.ours);
  EXPECT_TRUE(c.changes);
  EXPECT_EQ(c.differing.empty(), harmless);
  const auto merged_words = merge_types(m.stored, m.ours);
  const auto merged = read(merged_words);
  ASSERT_TRUE(merged) << last_message();
  EXPECT_EQ(merged->find(layout::type_id_of("node"))->fingerprint, now.fingerprint()) << "ours replaces the stored one";
  EXPECT_NE(merged->find(layout::type_id_of("struct node")), nullptr) << "what only the pool has stays";
}

TEST(type_merge, same_types_change_nothing) {
  const maps m{node_type(), node_type()};
  const auto c = compare_types(m.stored, m.ours);
  EXPECT_FALSE(c.changes);
  EXPECT_TRUE(c.differing.empty());
}

TEST(type_merge, new_type_is_added) {
  const maps m{node_type(), table_type()};
  const auto c = compare_types(m.stored, m.ours);
  EXPECT_TRUE(c.changes);
  EXPECT_TRUE(c.differing.empty());
  const auto merged_words = merge_types(m.stored, m.ours);
  EXPECT_EQ(read(merged_words)->records().size(), 3U);
}

TEST(type_merge, new_name_of_a_field_is_harmless) {
  auto t = node_type();
  t.fields[1].name = "text";
  expect(true, t);
}

TEST(type_merge, weak_pointers_lead_where_others_do_and_static_ones_do_not) {
  const auto differs = [](layout::field_kind before, layout::field_kind now) {
    const auto with = [](layout::field_kind kind) { return type_description{"node", 8, 8, {field("p", 0, kind, 8)}}; };
    const maps m{with(before), with(now)};
    return !compare_types(m.stored, m.ours).differing.empty();
  };
  EXPECT_FALSE(differs(pointer, weak_pointer));
  EXPECT_FALSE(differs(volatile_pointer, weak_pointer));
  EXPECT_FALSE(differs(volatile_pointer, static_pointer));
  EXPECT_TRUE(differs(pointer, static_pointer));
  EXPECT_TRUE(differs(static_pointer, weak_pointer));
}

TEST(type_merge, tags_are_compared_by_what_they_say) {
  const auto with = [](const char* name, const char* tag) {
    type_description t{"node", 16, 8, {field(name, 8, tagged_union, 8), field("p", 0, pointer, 8)}};
    t.fields[0].place.inner = 1;
    t.fields[0].tag = tag;
    return t;
  };
  const maps same{with("u", "u1@0"), with("other", "u1@0")};
  EXPECT_TRUE(compare_types(same.stored, same.ours).differing.empty()) << "the places of the tags differ";
  const maps other{with("u", "u1@0"), with("u", "u1@1")};
  EXPECT_EQ(compare_types(other.stored, other.ours).differing.size(), 1U);
}

TEST(type_merge, bit_fields_keep_their_places_and_widths) {
  const auto with = [](const char* name) { return type_description{"node", 8, 8, {field(name, 0, bytes, 1)}}; };
  const auto differs = [&](const char* now) {
    const maps m{with("kind:0+3|on:3+1"), with(now)};
    return !compare_types(m.stored, m.ours).differing.empty();
  };
  EXPECT_FALSE(differs("type:0+3|on:3+1"));
  EXPECT_TRUE(differs("kind:0+4|on:4+1"));
  EXPECT_TRUE(differs("kind:0+3|on:4+1"));
  EXPECT_TRUE(differs("kind:0+3"));
  EXPECT_TRUE(differs("kind"));
}

TEST(type_merge, names_that_change_places_are_not) {
  type_description before{"node", 16, 8, {field("x", 0, floating, 8), field("y", 8, floating, 8)}};
  type_description now{"node", 16, 8, {field("y", 0, floating, 8), field("x", 8, floating, 8)}};
  const maps m{before, now};
  EXPECT_EQ(compare_types(m.stored, m.ours).differing.size(), 1U);
}

TEST(type_merge, pointer_that_becomes_durable_is_harmless) {
  auto t = node_type();
  t.fields[0].place.kind = volatile_pointer;
  expect(true, t);
  t.fields[0].place.kind = pointer;
  t.fields[0].place.target = 0;
  expect(true, t);
}

TEST(type_merge, pointer_to_another_type_is_not) {
  auto t = node_type();
  t.fields[0].place.target = 7;
  expect(false, t);
}

TEST(type_merge, other_places_sizes_and_kinds_are_not) {
  auto longer = node_type();
  longer.fields[1].place.count = 40;
  longer.size = 48;
  expect(false, longer);
  auto appended = node_type();
  appended.fields.push_back(field("more", 40, signed_integer, 8));
  appended.size = 48;
  expect(false, appended);
  auto wider = node_type();
  wider.fields[1].place = field("", 8, signed_integer, 4, 8).place;
  expect(false, wider);
  auto aligned = node_type();
  aligned.align = 4;
  expect(false, aligned);
}

TEST(type_merge, objects_of_the_type_of_its_aliases_and_of_unknown_ones_are_concerned) {
  auto t = node_type();
  t.size = 48;
  const maps m{node_type(), t};
  const auto c = compare_types(m.stored, m.ours);
  EXPECT_TRUE(concerns(c, m.stored, layout::type_id_of("node")));
  EXPECT_TRUE(concerns(c, m.stored, layout::type_id_of("struct node")));
  EXPECT_TRUE(concerns(c, m.stored, 0)) << "no map says what these are";
  const maps other{table_type(), node_type()};
  EXPECT_FALSE(concerns(compare_types(other.stored, other.ours), other.stored, 0)) << "nothing differs";
}

TEST(type_merge, alias_of_what_became_one_itself_is_dropped) {
  const maps m{node_type(), node_type()};
  type_map_writer w;
  w.add({"other", 8, 8, {field("x", 0, floating, 8)}});
  w.add_alias("node", layout::type_id_of("other"));
  const auto ours_words = w.finish();
  const auto merged_words = merge_types(m.stored, *read(ours_words));
  const auto merged = read(merged_words);
  ASSERT_TRUE(merged) << last_message();
  EXPECT_EQ(merged->find(layout::type_id_of("struct node")), nullptr);
  EXPECT_EQ(merged->find(layout::type_id_of("node"))->canonical, layout::type_id_of("other"));
}

TEST(type_merge, description_fits_its_room) {
  const auto words = sample_map();
  const auto map = *read(words);
  const auto& node = *map.find(layout::type_id_of("node"));
  char text[100];
  object::describe(node, text, sizeof text);
  EXPECT_STREQ(text, "node: 40 bytes {next: pointer at 0, data: 32 char at 8}");
  object::describe(node, text, 20);
  EXPECT_STREQ(text, "node: 40 bytes {...");
}

}  // namespace
}  // namespace nvm::tests
