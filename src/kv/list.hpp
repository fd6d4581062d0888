// A list, newest record first.  Finding looks at every record before the one it wants; putting a key that is known to
// be absent only touches the list's head.  The order is that of insertion and never changes; sequence numbers let a
// cursor find its place again when the record it stood on is gone.
#pragma once

#include "kv/store.hpp"

namespace nvm::keyed::list {

using layout::list_links;

struct found {
  record r{};
  std::uint64_t* link = nullptr;  // the word that names the record's object
  std::uint64_t next = 0;
};

// The links of the record at `place`, which follows one of sequence number `above`.  The numbers fall along the list,
// so that following it always ends, and a cursor never comes back to where it was.
[[nodiscard]] inline status read_links(const operation& op, std::uint64_t place, std::uint64_t above, list_links& out) {
  auto* object = op.at<list_links>(place, sizeof(list_links) + 16);
  if (object == nullptr) return errc::corrupt;
  op.read(&out, object, sizeof out);
  if (out.sequence == 0 || out.sequence >= above) return access::damaged("list record", place);
  return {};
}

[[nodiscard]] inline status find(operation& op, const key& k, found& out) {
  out.link = &op.header->root;
  std::uint64_t above = UINT64_MAX;
  for (std::uint64_t place = op.load(out.link); place != 0;) {
    list_links links;
    if (status s = read_links(op, place, above, links); !s) return s;
    bool equal = false;
    if (status s = read_if_equal(op, place + sizeof(list_links), k, out.r, equal); !s) return s;
    if (equal) {
      out.next = links.next;
      return {};
    }
    out.link = &op.known<list_links>(place)->next;
    above = links.sequence;
    place = links.next;
  }
  out.r.place = 0;
  return {};
}

[[nodiscard]] inline status put(operation& op, const key& k, bytes_view value, put_mode mode) {
  if (mode == put_mode::any) {
    found f;
    if (status s = find(op, k, f); !s) return s;
    if (f.r.place != 0 && fits(op, op.sums, sizeof(list_links), f.r, value.count)) {
      overwrite(op, op.count, op.sums, f.r, k, value);
      return {};
    }
    if (f.r.place != 0) {
      // Another object takes its place in the list.
      op.expect({{f.link, sizeof *f.link}, op.count.place()});
      const std::uint64_t made = make_record(op, op.count, op.sums, sizeof(list_links), k, value);
      if (made == 0) return access::out_of_room();
      const auto* old = op.known<list_links>(f.r.place - sizeof(list_links));
      const list_links links{f.next, op.load(&old->sequence)};
      std::memcpy(op.known<std::byte>(made), &links, sizeof links);
      op.store(f.link, made);
      return drop_record(op, op.count, sizeof(list_links), f.r);
    }
  }
  std::uint64_t ends[2];  // root, sequence
  op.expect({{&op.header->root, sizeof ends}, op.count.place()});
  const std::uint64_t made = make_record(op, op.count, op.sums, sizeof(list_links), k, value);
  if (made == 0) return access::out_of_room();
  op.read(ends, &op.header->root, sizeof ends);
  const list_links links{ends[0], ends[1] + 1};
  std::memcpy(op.known<std::byte>(made), &links, sizeof links);
  ends[0] = made;
  ends[1] = links.sequence;
  op.write(&op.header->root, ends, sizeof ends);
  return {};
}

[[nodiscard]] inline status remove(operation& op, const key& k, bool& removed) {
  found f;
  if (status s = find(op, k, f); !s) return s;
  removed = f.r.place != 0;
  if (!removed) return {};
  op.expect({{f.link, sizeof *f.link}, op.count.place()});
  op.store(f.link, f.next);
  return drop_record(op, op.count, sizeof(list_links), f.r);
}

// The records after `from.position`; 0: all.
[[nodiscard]] inline status fetch(operation& op, fetch_from& from, receiver& to, bool& ended) {
  bool more = true;
  ended = false;
  std::uint64_t above = UINT64_MAX;
  std::uint64_t place = op.load(&op.header->root);
  for (; place != 0 && more;) {
    list_links links;
    if (status s = read_links(op, place, above, links); !s) return s;
    above = links.sequence;
    if (from.position == 0 || links.sequence < from.position) {
      record r;
      const status read = read_record(op, place + sizeof(list_links), r);
      if (status s = hand_over(to, op, read, r, more); !s) return s;
      from.position = links.sequence;
    }
    place = links.next;
  }
  ended = place == 0;
  return {};
}

}  // namespace nvm::keyed::list
