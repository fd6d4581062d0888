// Type maps as bytes: the reader accepts the writer's maps, and no others.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "sample_types.hpp"

namespace nvm::tests {
namespace {

using layout::type_field;
using layout::type_map_header;
using layout::type_record;

TEST(type_map, places_are_those_of_format_1) {
  EXPECT_EQ(sizeof(type_map_header), 32U);
  EXPECT_EQ(sizeof(type_record), 40U);
  EXPECT_EQ(sizeof(type_field), 40U);
  EXPECT_EQ(offsetof(type_map_header, checksum), 8U);
  EXPECT_EQ(offsetof(type_map_header, bytes), layout::type_map_checked_at);
  EXPECT_EQ(offsetof(type_map_header, types), 24U);
  EXPECT_EQ(offsetof(type_record, id), 4U);
  EXPECT_EQ(offsetof(type_record, canonical), 8U);
  EXPECT_EQ(offsetof(type_record, fields), 12U);
  EXPECT_EQ(offsetof(type_record, fingerprint), 16U);
  EXPECT_EQ(offsetof(type_record, size), 24U);
  EXPECT_EQ(offsetof(type_record, align), 32U);
  EXPECT_EQ(offsetof(type_record, name), 36U);
  EXPECT_EQ(offsetof(type_field, element_bytes), 8U);
  EXPECT_EQ(offsetof(type_field, count), 16U);
  EXPECT_EQ(offsetof(type_field, kind), 24U);
  EXPECT_EQ(offsetof(type_field, target), 28U);
  EXPECT_EQ(offsetof(type_field, name), 32U);
  EXPECT_EQ(offsetof(type_field, inner), 36U);
}

TEST(type_map, fingerprint_is_that_of_format_1) {
  EXPECT_EQ(node_type().fingerprint(), 0x4F894C9309A0D911U);
  EXPECT_EQ(layout::type_id_of("node"), 0x71C14E0DU);
}

TEST(type_map, that_was_written_is_read) {
  const auto words = sample_map();
  const auto map = read(words);
  ASSERT_TRUE(map) << last_message();
  ASSERT_EQ(map->records().size(), 3U);
  const type_record* node = map->find(layout::type_id_of("node"));
  ASSERT_NE(node, nullptr);
  EXPECT_STREQ(object::name_of(*node), "node");
  EXPECT_EQ(node->size, 40U);
  ASSERT_EQ(node->fields, 2U);
  EXPECT_STREQ(object::text_at(*node, object::fields_of(*node)[1].name), "data");
  EXPECT_EQ(object::fields_of(*node)[1].count, 32U);
  const type_record* alias = map->find(layout::type_id_of("struct node"));
  ASSERT_NE(alias, nullptr);
  EXPECT_EQ(map->canonical(alias->id), node);
  EXPECT_EQ(map->find(1), nullptr);
}

TEST(type_map, every_flipped_bit_is_found) {
  auto words = sample_map();
  for (std::size_t bit = 0; bit < words.size() * 64; ++bit) {
    words[bit / 64] ^= std::uint64_t{1} << bit % 64;
    EXPECT_FALSE(read(words)) << "bit " << bit;
    words[bit / 64] ^= std::uint64_t{1} << bit % 64;
  }
  EXPECT_TRUE(read(words)) << last_message();
}

TEST(type_map, that_is_cut_off_is_refused) {
  const auto words = sample_map();
  for (std::size_t bytes = 0; bytes < words.size() * 8; ++bytes) {
    EXPECT_EQ(type_map::read(bytes_of(words), bytes).error(), errc::corrupt) << bytes;
  }
}

// Somebody changes bytes and makes the checksum and the fingerprints fit again.
class forged {
 public:
  type_map_header& header() { return *reinterpret_cast<type_map_header*>(words.data()); }
  type_record& record(unsigned i) {
    std::byte* at = reinterpret_cast<std::byte*>(words.data()) + sizeof(type_map_header);
    for (; i > 0; --i) at += reinterpret_cast<type_record*>(at)->bytes;
    return *reinterpret_cast<type_record*>(at);
  }
  type_record& of(const char* name) {
    for (unsigned i = 0;; ++i) {
      if (record(i).id == layout::type_id_of(name)) return record(i);
    }
  }
  type_field& field(const char* type, unsigned i) { return reinterpret_cast<type_field*>(&of(type) + 1)[i]; }
  void seal() {
    for (unsigned i = 0; i < 3; ++i) {
      type_record& r = record(i);
      if (r.canonical != r.id || r.fields > 5) continue;
      layout::type_fingerprint f;
      f.word(r.size);
      f.word(r.align);
      // What was forged may lead out of the map: not further than its end.
      const char* const end = reinterpret_cast<const char*>(words.data() + words.size());
      for (unsigned k = 0; k < r.fields; ++k) {
        const type_field& each = object::fields_of(r)[k];
        if (reinterpret_cast<const char*>(&each + 1) > end) break;
        const char* const text = each.name < r.bytes ? object::text_at(r, each.name) : "";
        const bool inside = each.name < r.bytes && text < end;
        const std::string name = inside ? std::string(text, strnlen(text, static_cast<std::size_t>(end - text))) : "";
        f.field(each, name.c_str(), "");
      }
      r.fingerprint = f.value();
    }
    header().checksum = object::type_map_checksum(words.data(), words.size() * 8);
  }
  type_map_writer::words words = sample_map();
};

TEST(type_map, forgery_with_a_good_checksum_is_refused) {
  const auto refused = [](const char* what, const std::function<void(forged&)>& change) {
    forged f;
    change(f);
    f.seal();
    const auto map = read(f.words);
    EXPECT_EQ(map ? errc::ok : map.error(), errc::corrupt) << what;
  };
  forged untouched;
  untouched.seal();
  ASSERT_TRUE(read(untouched.words)) << last_message();
  refused("number of types", [](forged& f) { f.header().types = 4; });
  refused("size of the table behind it", [](forged& f) { f.header().statics = 8; });
  refused("record of no bytes", [](forged& f) { f.record(0).bytes = 0; });
  refused("fields behind the record", [](forged& f) { f.of("node").fields = 3; });
  refused("name behind the record", [](forged& f) { f.of("node").name = f.of("node").bytes; });
  refused("name in the fields", [](forged& f) { f.of("node").name = sizeof(type_record); });
  refused("name without its zero", [](forged& f) {
    type_record& r = f.of("node");
    std::memset(reinterpret_cast<char*>(&r) + r.name, 'x', r.bytes - r.name);
  });
  refused("name that moves the cursor", [](forged& f) {
    type_record& r = f.of("node");
    reinterpret_cast<char*>(&r)[r.name] = '\x1b';
  });
  refused("alignment", [](forged& f) { f.of("node").align = 12; });
  refused("no alignment", [](forged& f) { f.of("node").align = 0; });
  refused("no size", [](forged& f) { f.of("node").size = 0; });
  refused("huge size", [](forged& f) { f.of("node").size = ~std::uint64_t{0}; });
  refused("size below the fields", [](forged& f) { f.of("node").size = 39; });
  refused("alias of nothing", [](forged& f) { f.of("struct node").canonical = 1; });
  refused("alias of an alias", [](forged& f) {
    f.of("table").canonical = layout::type_id_of("struct node");
    f.of("struct node").canonical = layout::type_id_of("table");
  });
  refused("alias with a layout", [](forged& f) { f.of("struct node").size = 8; });
  refused("kind 0", [](forged& f) { f.field("node", 0).kind = static_cast<layout::field_kind>(0); });
  refused("kind 15", [](forged& f) { f.field("node", 0).kind = static_cast<layout::field_kind>(15); });
  refused("offset behind the type", [](forged& f) { f.field("node", 1).offset = 41; });
  refused("fields over each other", [](forged& f) { f.field("node", 1).offset = 7; });
  refused("short pointer", [](forged& f) { f.field("node", 0).element_bytes = 4; });
  refused("element of no bytes", [](forged& f) { f.field("node", 1).element_bytes = 0; });
  refused("too many elements", [](forged& f) { f.field("node", 1).count = 33; });
  refused("elements that overflow", [](forged& f) {
    f.field("node", 1).element_bytes = std::uint64_t{1} << 60;
    f.field("node", 1).count = 16;
  });
  refused("flexible in the middle", [](forged& f) { f.field("node", 0).count = 0; });
  refused("target of characters", [](forged& f) { f.field("node", 1).target = 5; });
  refused("inner fields of a pointer", [](forged& f) { f.field("node", 0).inner = 1; });
  refused("structure of nothing", [](forged& f) { f.field("table", 1).inner = 0; });
  refused("structure of more than there is", [](forged& f) { f.field("table", 1).inner = 4; });
  refused("inner field behind the element", [](forged& f) { f.field("table", 3).offset = 9; });
  refused("flexible inside", [](forged& f) { f.field("table", 3).count = 0; });
  refused("name of a field", [](forged& f) { f.field("table", 3).name = 3; });
}

TEST(type_map, every_kind_of_pointer_has_the_size_of_one) {
  for (const auto kind : {layout::field_kind::weak_pointer, layout::field_kind::static_pointer}) {
    type_map_writer good;
    good.add({"t", 8, 8, {field("p", 0, kind, 8, 1, 5)}});
    EXPECT_TRUE(read(good.finish())) << last_message();
    type_map_writer bad;
    bad.add({"t", 8, 8, {field("p", 0, kind, 4)}});
    EXPECT_FALSE(read(bad.finish()));
  }
}

// struct choice { int kind; union { long n; struct { void *p; } s; } u; }, and what somebody changes in it.
bool takes_choice(const std::function<void(type_description&)>& change) {
  using enum layout::field_kind;
  type_description t{
      "choice",
      16,
      8,
      {field("kind", 0, signed_integer, 4), field("u", 8, tagged_union, 8), field("u.n", 0, signed_integer, 8),
       field("u.s", 0, structure, 8), field("u.s.p", 0, pointer, 8)}};
  t.fields[1].place.inner = 3;
  t.fields[1].tag = "s4@0";
  t.fields[3].place.inner = 1;
  change(t);
  type_map_writer w;
  w.add(t);
  return read(w.finish()).operator bool();
}

TEST(type_map, unions_have_members_and_a_tag_of_their_structure) {
  EXPECT_TRUE(takes_choice([](type_description&) {})) << last_message();
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].tag = ""; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].tag = "kind"; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].tag = "s4@13"; })) << "outside of the type";
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].place.inner = 0; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].place.inner = 4; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[2].place.element_bytes = 16; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[3].place.offset = 1; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].place.count = 2; }));
  EXPECT_FALSE(takes_choice([](type_description& t) { t.fields[1].place.kind = layout::field_kind::structure; }))
      << "fields over each other";
}

TEST(type_map, the_tag_is_a_part_of_the_fingerprint) {
  const auto with = [](const char* tag) {
    type_description t{"t", 16, 8, {field("u", 8, layout::field_kind::tagged_union, 8)}};
    t.fields[0].tag = tag;
    return t.fingerprint();
  };
  EXPECT_NE(with("u1@0"), with("u1@1"));
}

TEST(type_map, visited_structures_name_their_type_and_may_say_no_more) {
  using enum layout::field_kind;
  const auto takes = [](std::uint32_t target, std::uint32_t inner) {
    type_description t{"t", 16, 8, {field("v", 0, by_visitor, 16, 1, target), field("v.p", 8, pointer, 8)}};
    t.fields[0].place.inner = inner;
    if (inner == 0) t.fields.pop_back();
    type_map_writer w;
    w.add(t);
    return read(w.finish()).operator bool();
  };
  EXPECT_TRUE(takes(7, 1)) << last_message();
  EXPECT_TRUE(takes(7, 0)) << last_message();
  EXPECT_FALSE(takes(0, 1));
  EXPECT_FALSE(takes(7, 2));
}

// NVM_RESET.
TEST(type_map, reset_fields_have_any_size_no_target_and_no_union_around_them) {
  using enum layout::field_kind;
  const auto takes = [](const std::vector<type_description::field>& fields, std::uint32_t inner) {
    type_description t{"t", 64, 8, fields};
    t.fields[0].place.inner = inner;
    if (t.fields[0].place.kind == tagged_union) t.fields[0].tag = "u1@0";
    type_map_writer w;
    w.add(t);
    return read(w.finish()).operator bool();
  };
  EXPECT_TRUE(takes({field("r", 3, reset, 7, 3)}, 0)) << last_message();
  EXPECT_TRUE(takes({field("r", 8, reset, 5, 0)}, 0)) << last_message() << ", as many as there is room for";
  EXPECT_FALSE(takes({field("r", 0, reset, 8, 1, 1)}, 0)) << "a target";
  EXPECT_FALSE(takes({field("r", 0, reset, 65)}, 0));
  EXPECT_FALSE(takes({field("r", 0, reset, 8), field("r.x", 0, floating, 8)}, 1)) << "fields inside";
  EXPECT_TRUE(takes({field("s", 0, structure, 8, 8), field("s.r", 4, reset, 4)}, 1)) << last_message();
  EXPECT_FALSE(takes({field("u", 8, tagged_union, 8), field("u.r", 0, reset, 8)}, 1));
  type_description deep{"t", 64, 8, {field("u", 8, tagged_union, 8), field("u.s", 0, structure, 8)}};
  deep.fields.push_back(field("u.s.r", 0, reset, 8));
  deep.fields[0].place.inner = 2;
  deep.fields[1].place.inner = 1;
  deep.fields[0].tag = "u1@0";
  type_map_writer w;
  w.add(deep);
  EXPECT_FALSE(read(w.finish())) << "a union around it, at any depth";
}

TEST(type_map, structures_inside_each_other_have_a_limit) {
  const auto nested = [](unsigned depth) {
    type_description t{"deep", 8, 8, {}};
    for (unsigned i = 0; i < depth; ++i) {
      t.fields.push_back(field("s", 0, layout::field_kind::structure, 8));
      t.fields.back().place.inner = depth - i;
    }
    t.fields.push_back(field("x", 0, layout::field_kind::floating, 8));
    type_map_writer w;
    w.add(t);
    return w.finish();
  };
  EXPECT_TRUE(read(nested(layout::type_depth_max - 1))) << last_message();
  EXPECT_FALSE(read(nested(layout::type_depth_max)));
  EXPECT_FALSE(read(nested(100000)));
}

TEST(type_map, random_damage_never_gets_through_with_a_good_checksum_unless_it_is_a_map) {
  std::mt19937_64 random{11};
  for (int i = 0; i < 200000; ++i) {
    forged f;
    for (unsigned n = 0; n < 1 + random() % 3; ++n) {
      reinterpret_cast<std::byte*>(f.words.data())[random() % (f.words.size() * 8)] ^=
          static_cast<std::byte>(1U << random() % 8);
    }
    f.header().checksum = object::type_map_checksum(
        f.words.data(), f.header().bytes <= f.words.size() * 8 && f.header().bytes > 16 ? f.header().bytes : 32);
    const auto map = read(f.words);
    if (!map) continue;
    for (const type_record* r : map->records()) {  // what is believed can be walked
      char text[64];
      object::describe(*r, text, sizeof text);
      ASSERT_LT(std::strlen(text), sizeof text);
    }
  }
}

}  // namespace
}  // namespace nvm::tests
