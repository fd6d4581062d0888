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

// struct session { int fd; struct { char c[8]; void *p; } in; node *to; double rest[]; }, with these fields.
type_description session_type(const std::vector<type_description::field>& fields) { return {"session", 40, 8, fields}; }
const type_description::field fd = field("fd", 0, signed_integer, 4), in_c = field("in.c", 8, character, 1, 8),
                              in_p = field("in.p", 16, volatile_pointer, 8), to = field("to", 24, pointer, 8),
                              rest = field("rest", 40, floating, 8, 0);

bool is_harmless(const type_description& before, const type_description& now, object::when seen) {
  const maps m{before, now};
  const auto c = compare_types(m.stored, m.ours, seen);
  EXPECT_TRUE(c.changes);
  return c.differing.empty();
}

TEST(type_merge, fields_may_become_reset_where_a_pool_is_opened) {
  using object::when;
  const auto before = session_type({fd, in_c, in_p, to, rest});
  const auto one = session_type({field("fd", 0, reset, 4), in_c, in_p, to, rest});
  EXPECT_TRUE(is_harmless(before, one, when::at_open));
  EXPECT_FALSE(is_harmless(before, one, when::later)) << "objects that somebody sees are not zeroed";
  EXPECT_FALSE(is_harmless(one, before, when::at_open)) << "what is there means nothing";
  const auto inside = session_type({fd, field("in", 8, reset, 16), to, rest});
  EXPECT_TRUE(is_harmless(before, inside, when::at_open)) << "a structure with all its fields";
  EXPECT_TRUE(is_harmless(one, session_type({field("other", 0, reset, 4), in_c, in_p, to, rest}), when::later));
  EXPECT_FALSE(is_harmless(one, session_type({field("fd", 0, reset, 2), in_c, in_p, to, rest}), when::at_open));
  EXPECT_TRUE(is_harmless(before, session_type({fd, in_c, in_p, to, field("rest", 40, reset, 8, 0)}), when::at_open));
  EXPECT_TRUE(is_harmless(before, session_type({fd, field("new", 4, reset, 4), in_c, in_p, to, rest}), when::at_open))
      << "where nothing was";
}
TEST(type_merge, what_only_shares_bytes_with_a_reset_field_or_may_be_counted_is_another_layout) {
  using object::when;
  const auto before = session_type({fd, in_c, in_p, to, rest});
  EXPECT_FALSE(is_harmless(before, session_type({fd, field("in", 8, reset, 12), to, rest}), when::at_open));
  EXPECT_FALSE(is_harmless(before, session_type({fd, field("in", 12, reset, 12), to, rest}), when::at_open));
  EXPECT_FALSE(is_harmless(before, session_type({fd, in_c, in_p, field("to", 24, reset, 8), rest}), when::at_open));
  EXPECT_FALSE(is_harmless(before, session_type({fd, in_c, in_p, field("to", 24, reset, 16)}), when::at_open))
      << "the end of a flexible array is open";
}
TEST(type_merge, no_flexible_array_becomes_reset_that_was_none) {
  using object::when;
  const auto cell = [](std::vector<type_description::field> more) {
    type_description t{"cell", 16, 8, {field("n", 0, floating, 8)}};
    t.fields.insert(t.fields.end(), more.begin(), more.end());
    return t;
  };
  const auto k = field("k", 8, floating, 8);
  EXPECT_FALSE(is_harmless(cell({k}), cell({k, field("cache", 16, reset, 4, 0)}), when::at_open))
      << "objects may be arrays of the type, or have text after it";
  const auto in_padding = cell({field("cache", 12, reset, 1, 0)});
  EXPECT_FALSE(is_harmless(cell({}), in_padding, when::at_open));
  EXPECT_FALSE(is_harmless(cell({field("cache", 12, character, 1, 4)}), in_padding, when::at_open)) << "it had an end";
  EXPECT_TRUE(is_harmless(cell({field("cache", 12, character, 1, 0)}), in_padding, when::at_open));
}
TEST(type_merge, what_becomes_reset_has_its_name_or_is_inside_of_what_has_it) {
  using object::when;
  const auto becomes = [](const type_description::field& before, const type_description::field& now) {
    return is_harmless(session_type({before}), session_type({now}), when::at_open);
  };
  EXPECT_FALSE(becomes(field("balance", 0, floating, 8), field("hits", 0, reset, 8)));
  EXPECT_TRUE(becomes(field("hits", 0, floating, 8), field("hits", 0, reset, 8)));
  EXPECT_TRUE(becomes(field("hits.long", 0, floating, 8), field("hits", 0, reset, 8)));
  EXPECT_FALSE(becomes(field("hits_long", 0, floating, 8), field("hits", 0, reset, 8)));
  EXPECT_FALSE(becomes(field("hit", 0, floating, 8), field("hits", 0, reset, 8)));
  EXPECT_FALSE(becomes(field("hits", 8, floating, 8), field("hits", 0, reset, 16))) << "it began elsewhere";
  const auto two = session_type({field("hits", 0, floating, 8), field("balance", 8, floating, 8)});
  EXPECT_FALSE(is_harmless(two, session_type({field("hits", 0, reset, 16)}), when::at_open)) << "the second has not";
}
TEST(type_merge, fields_of_array_elements_may_become_reset) {
  const auto with = [](std::vector<type_description::field> inner) {
    type_description t{"session", 40, 8, {field("all", 0, structure, 16, 2)}};
    t.fields[0].place.inner = static_cast<std::uint32_t>(inner.size());
    t.fields.insert(t.fields.end(), inner.begin(), inner.end());
    t.fields.push_back(field("end", 32, floating, 8));
    return t;
  };
  const auto before =
      with({field("all.a", 0, signed_integer, 4), field("all.b", 4, signed_integer, 4), field("all.c", 8, pointer, 8)});
  const auto first = with({field("all.a", 0, reset, 4), before.fields[2], before.fields[3]});
  EXPECT_TRUE(is_harmless(before, first, object::when::at_open));
  const auto both = with({field("all.ab", 0, reset, 8), field("all.c", 8, pointer, 8)});
  EXPECT_FALSE(is_harmless(before, both, object::when::at_open)) << "other names";
  EXPECT_FALSE(is_harmless(before, with({field("all.ab", 0, reset, 16)}), object::when::at_open)) << "a pointer";
  const auto whole = [] {
    return type_description{"session", 40, 8, {field("all", 0, reset, 16, 2), field("end", 32, floating, 8)}};
  };
  EXPECT_FALSE(is_harmless(before, whole(), object::when::at_open)) << "pointers inside";
  EXPECT_TRUE(is_harmless(with({field("all.a", 0, floating, 8)}), whole(), object::when::at_open));
}

}  // namespace
}  // namespace nvm::tests
