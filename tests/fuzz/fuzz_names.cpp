// libFuzzer's door to the names of object stores: catalogues whose nodes were changed, with their checks made right
// again or not.  Whatever is there is read or refused, in bounded time; where the full check finds nothing, look-ups,
// walks and changes agree with what it has read.
//
// An input: which image, then changes of 6 bytes: what to do to which word of which node, or of which byte.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "door.hpp"
#include "store/store.hpp"

extern "C" int NVM_FUZZER(names)(const std::uint8_t* data, std::size_t size);

namespace nvm::fuzz::names_door {
namespace {

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "names: %s: %s\n", what, last_message());
  std::abort();
}

// Objects are known by their places; what is no object cannot be freed, as in a pool.
class hostile_memory {
 public:
  struct object {
    std::uint64_t bytes;
    std::uint32_t type;
  };
  std::vector<std::byte> bytes = std::vector<std::byte>(48 << 10);
  std::map<std::uint64_t, object> objects;
  std::uint64_t end = 64;

  const std::byte* view(std::uint64_t place, std::uint64_t n, std::byte*) noexcept {
    return place % 8 == 0 && range_inside(place, n, bytes.size()) ? bytes.data() + place : nullptr;
  }
  result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t n) noexcept {
    if (!range_inside(end, round_up(n, 16), bytes.size())) return fail(errc::no_space, "the image is full");
    const std::uint64_t place = end;
    end += round_up(n, 16);
    objects[place] = {n, type};
    return place;
  }
  void fill(std::uint64_t place, const void* from, std::uint64_t n) noexcept {
    std::memcpy(bytes.data() + place, from, n);
  }
  status put(std::uint64_t place, const void* from, std::uint64_t n) noexcept {
    if (view(place, n, nullptr) == nullptr || n % 8 != 0) broken("a store outside of the image");
    std::memcpy(bytes.data() + place, from, n);
    return {};
  }
  status give_back(std::uint64_t place, std::uint64_t) noexcept {
    return objects.erase(place) != 0 ? status{} : status{fail(errc::bad_pointer, "offset %lu is no object", place)};
  }
};
static_assert(stores::trie_writes<hostile_memory>);

struct image {
  hostile_memory memory;
  stores::catalogue_place catalogue;
};

std::string name_of(unsigned i) {
  static const char* const ways[] = {"tenant/", "robot/joint/", "x", ""};
  return ways[i % 4] + std::to_string(i * 7919 % 101);
}
image make_image(unsigned limit, unsigned names) {
  image made;
  const auto c = stores::make_catalogue(made.memory, limit);
  if (!c) broken("a new catalogue");
  made.catalogue = *c;
  for (unsigned i = 0; i < names; ++i) {
    const auto there = find_name(made.memory, *c, name_of(i));
    if (!there) broken("a look-up in a sound image");
    if (!*there && !enter_name(made.memory, *c, name_of(i), 4096 * (i + 1))) broken("a name");
  }
  return made;
}
const std::vector<image>& images() {
  static const std::vector<image> all{make_image(35, 20), make_image(3, 60), make_image(2, 30), make_image(35, 90)};
  return all;
}

void make_right(hostile_memory& m, std::uint64_t place, const hostile_memory::object& o) {
  std::byte* const at = m.bytes.data() + place;
  std::uint64_t check = 0;
  if (o.type == layout::names_type_catalogue) {
    layout::catalogue c;
    std::memcpy(&c, at, sizeof c);
    check = stores::catalogue_check(c, place);
    std::memcpy(at + offsetof(layout::catalogue, check), &check, sizeof check);
    return;
  }
  if (o.type == layout::names_type_inner) {
    layout::trie_inner h;
    std::memcpy(&h, at, sizeof h);
    if (layout::trie_words_at(h.prefix_bytes) > o.bytes) return;
    check = stores::inner_check(at, h.prefix_bytes, place);
  } else {
    layout::trie_container h;
    std::memcpy(&h, at, sizeof h);
    if (h.bytes < sizeof h || h.bytes > o.bytes) return;
    check = stores::container_check(at, h.bytes, place);
  }
  std::memcpy(at, &check, sizeof check);
}

void change(hostile_memory& m, std::span<const std::uint8_t, 6> edit) {
  auto node = m.objects.begin();
  std::advance(node, edit[1] % m.objects.size());
  const auto& [place, object] = *node;
  const std::uint64_t inside = (edit[2] | std::uint64_t{edit[3]} << 8) % object.bytes;
  std::byte* const at = m.bytes.data() + place + inside;
  switch (edit[0] % 4) {
    case 0:
      *at = static_cast<std::byte>(edit[4]);
      break;
    case 1:
      *at ^= std::byte(1U << edit[4] % 8);
      break;
    case 2: {  // a word that leads to some node, or nowhere near one
      const std::uint64_t word_at = place + round_down(inside, 8);
      auto other = m.objects.begin();
      std::advance(other, edit[4] % m.objects.size());
      const auto kind = static_cast<stores::trie_kind>(1 + edit[5] % 2);
      const std::uint64_t to = edit[5] < 128 ? other->first : 16 * std::uint64_t{edit[4]} * edit[5];
      const std::uint64_t word = stores::stored_link({kind, to}, word_at);
      std::memcpy(m.bytes.data() + word_at, &word, sizeof word);
      break;
    }
    default: {  // a checked word of any content
      const std::uint64_t word_at = place + round_down(inside, 8);
      const std::uint64_t word = seal_word(std::uint64_t{edit[4]} << edit[5] % 48, word_seed(word_at));
      std::memcpy(m.bytes.data() + word_at, &word, sizeof word);
    }
  }
  if (edit[0] >= 64) make_right(m, place, object);
}

void use(image& in) {
  hostile_memory& m = in.memory;
  std::map<std::string, std::uint64_t> found;
  unsigned faults = 0;
  stores::trie_check how;
  how.tell = [&](std::uint64_t, const char*) { ++faults; };
  how.name = [&](std::string_view name, std::uint64_t value) { found.emplace(name, value); };
  const auto sum = check_catalogue(m, in.catalogue.place, how);
  const bool sound = sum && faults == 0;
  const auto c = stores::read_catalogue(m, in.catalogue.place);
  if (!c) return;
  const stores::catalogue_place catalogue = sound ? *c : in.catalogue;
  unsigned walked = 0;
  const auto ended = stores::trie_each(m, catalogue.root_at(), "", "", [&](std::string_view name, std::uint64_t value) {
    if (sound && (!found.contains(std::string{name}) || found[std::string{name}] != value)) broken("a walk");
    return ++walked < 2000;
  });
  if (sound && (!ended || walked != found.size())) broken("the end of a walk");
  for (unsigned i = 0; i < 100; ++i) {
    const auto value = find_name(m, catalogue, name_of(i));
    const auto at = found.find(name_of(i));
    if (sound && (!value || value->has_value() != (at != found.end()) || (*value && **value != at->second)))
      broken("a look-up");
  }
  // What is damaged may be refused anywhere; an image that refuses is rolled back, so each change has its own.
  for (unsigned i = 0; i < 12; ++i) {
    hostile_memory changed = m;
    const std::string name = name_of(i * 9);
    const bool there = found.contains(name);
    status s;
    if (const auto had = stores::trie_remove(changed, catalogue.root_at(), name); !had) s = had.error();
    if (sound && s.has_value() != there) broken("a removal");
    if (s) s = stores::trie_tidy(changed, catalogue.root_at(), name, catalogue.burst_names);
    if (s) s = stores::trie_insert(changed, catalogue.root_at(), name, i, catalogue.burst_names);
    if (sound && there && !s && s.error() != errc::no_space) broken("a change");
    hostile_memory grown = m;
    s = stores::trie_insert(grown, catalogue.root_at(), "tenant/" + std::to_string(1000 + i), i, catalogue.burst_names);
    if (sound && !s && s.error() != errc::no_space) broken("an insertion");
  }
}

}  // namespace
}  // namespace nvm::fuzz::names_door

int NVM_FUZZER(names)(const std::uint8_t* data, std::size_t size) {
  using namespace nvm::fuzz::names_door;
  if (size == 0) return 0;
  image one = images()[data[0] % images().size()];
  for (std::size_t at = 1; at + 6 <= size; at += 6) {
    change(one.memory, std::span<const std::uint8_t, 6>{data + at, 6});
  }
  use(one);
  return 0;
}
