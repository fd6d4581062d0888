// mg, ms, md, ma, me.
//
// A reply repeats what its flags ask for, in their order; so an expiry that is requested before its change is the old
// one. Marks (stale, won) lie in the state word; the client whose compare-and-swap sets a mark has won.
#include <charconv>
#include <cstring>

#include "server/base64.hpp"
#include "server/decisions.hpp"
#include "server/executor.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

constexpr std::uint32_t access_seconds = 60;

// The longest of all: a key in base64 and every other flag.
constexpr std::size_t meta_line_bytes_max = 1024;

char* put_text(char* to, std::string_view text) noexcept {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

char* put_flag(char* to, char letter) noexcept {
  *to++ = ' ';
  *to++ = letter;
  return to;
}

char* put_flag(char* to, char letter, std::uint64_t value) noexcept { return put_number(put_flag(to, letter), value); }

char* put_opaque(char* to, std::string_view word) noexcept {
  *to++ = ' ';
  return put_text(to, word);
}

char* put_key(char* to, std::string_view key, bool binary) noexcept {
  to = put_flag(to, 'k');
  if (!binary) return put_text(to, key);
  return put_flag(put_base64(to, key), 'b');
}

char* put_end(char* to) noexcept { return put_text(to, "\r\n"); }

// Facts of an item that the flags of a command may request.
struct told {
  std::uint64_t cas = 0;
  bool binary_key = false;
  std::uint32_t now = 0;
  // mg and ma, also of an item they have created
  bool with_expiry = false;
  std::uint32_t expiry = 0;      // before the command
  std::uint32_t expiry_set = 0;  // by T
  bool created = false;
  std::uint32_t expiry_new = 0;  // by N, if it was created
  // mg
  const item* found = nullptr;
  item_state before{};
};

// seconds_left(expiry) gives the seconds.
template <class F>
char* put_asked(char* to, const command& c, const told& t, F&& seconds_left) noexcept {
  std::uint32_t expiry = t.expiry;
  for (const std::string_view word : c.flag_words()) {
    switch (word[0]) {
      case 'O':
        to = put_opaque(to, word);
        continue;
      case 'k':
        to = put_key(to, c.key, t.binary_key);
        continue;
      case 'c':
        to = put_flag(to, 'c', t.cas);
        continue;
      default:
        break;
    }
    if (!t.with_expiry) continue;
    switch (word[0]) {
      case 'T':
        expiry = t.expiry_set;
        continue;
      case 'N':
        if (t.created) expiry = t.expiry_new;
        continue;
      case 't':
        to = put_flag(to, 't');
        to = expiry == 0 ? put_text(to, "-1") : put_number(to, seconds_left(expiry));
        continue;
      default:
        break;
    }
    if (t.found == nullptr) continue;
    switch (word[0]) {
      case 's':
        to = put_flag(to, 's', t.found->value.size());
        continue;
      case 'f':
        to = put_flag(to, 'f', t.found->flags);
        continue;
      case 'l':
        to = put_flag(to, 'l', t.before.idle(t.now));
        continue;
      case 'h':
        to = put_flag(to, 'h', t.before.fetched ? 1 : 0);
        continue;
      default:
        break;
    }
  }
  return to;
}

char* put_head(char* to, bool with_value, std::size_t value_bytes) noexcept {
  return with_value ? put_number(put_text(to, "VA "), value_bytes) : put_text(to, "HD");
}

// Writes the fields that every reply repeats, also one about an absent item.
char* put_opaque_and_key(char* to, const command& c) noexcept {
  for (const std::string_view word : c.flag_words()) {
    if (word[0] == 'O') to = put_opaque(to, word);
    if (word[0] == 'k') to = put_key(to, c.key, c.meta.binary_key);
  }
  return to;
}

}  // namespace

// mg with N makes an item if there is none.
look executor::find_or_vivify(const command& c, item& found, bool& created) noexcept {
  const meta_flags& m = c.meta;
  look seen = find(c.key, found);
  // Another client may at once remove an item that a third has just made: then it is our turn.
  while (seen == look::absent && m.has_vivify) {
    vivify_decision d;
    d.gone = {now_, &shared_.store};
    d.state = fresh_state(expiry_of(m.vivify), m.binary_key);
    for (const std::string_view word : c.flag_words()) {
      if (word[0] == 'T') d.state.expiry = expiry_of(m.ttl);
      if (word[0] == 'N') d.state.expiry = expiry_of(m.vivify);
    }
    d.state.won = true;
    d.state.fetched = !m.no_access;
    const update_result r = update(c.key, d, 0);
    if (r.what == outcome::replaced) {
      created = true;
      counters_.add(count::total_items);
      found = {c.key, {}, 0, r.cas, 0, 0};
      return look::there;
    }
    if (r.what == outcome::failed) return look::failed;
    if (r.what != outcome::kept) break;
    seen = find(c.key, found);
  }
  return seen;
}

// Changes the state of an item by the flags of mg; returns the state before. `won`: this client has to renew it.
item_state executor::note_meta_access(const command& c, const item& found, bool& won) noexcept {
  const meta_flags& m = c.meta;
  const item_state first = found.state();
  item_state before = first;
  for (;;) {
    item_state wanted = before;
    won = before.stale && !before.won;
    for (const std::string_view word : c.flag_words()) {
      if (word[0] == 'T') wanted.expiry = expiry_of(m.ttl);
      if (word[0] == 'R' && !before.won && wanted.expiry != 0 && wanted.expiry < expiry_of(m.recache)) won = true;
    }
    if (won) wanted.won = true;
    // Also what another client has set meanwhile, which it may not have made durable yet.
    const bool durable = m.has_ttl || wanted.expiry != first.expiry || wanted.won != first.won ||
                         before.expiry != first.expiry || before.won != first.won || before.stale != first.stale;
    if (!m.no_access) {
      wanted.fetched = true;
      if (wanted.idle(now_) >= access_seconds) wanted.accessed = now_;
    }
    if ((wanted == before && !durable) || session_.change_state(found, before, wanted, durable)) return before;
  }
}

void executor::meta_get(const command& c, reply_buffer& out) {
  const meta_flags& m = c.meta;
  item found;
  bool created = false;
  const look seen = find_or_vivify(c, found, created);
  if (seen == look::failed) return fail(c, out);
  if (seen == look::absent) {
    counters_.add(m.has_ttl ? count::touch_cmds : count::get_cmds);
    counters_.add(m.has_ttl ? count::touch_misses : count::get_misses);
    if (m.quiet) return;
    char* const to = out.room(meta_line_bytes_max);
    return out.commit(put_end(put_opaque_and_key(put_text(to, "EN"), c)));
  }

  bool won = created;
  const item_state before = created ? fresh_state(0, m.binary_key) : note_meta_access(c, found, won);

  counters_.add(m.has_ttl ? count::touch_cmds : count::get_cmds);
  counters_.add(class_of(c.key.size(), found.value.size()),
                m.has_ttl ? class_count::touch_hits : class_count::get_hits);

  const auto left = [this](std::uint32_t expiry) { return seconds_left(expiry); };
  char* to = put_head(out.room(meta_line_bytes_max), m.value, found.value.size());
  to = put_asked(to, c,
                 {.cas = shared_.config.cas ? found.cas : 0,
                  .binary_key = before.binary_key,
                  .now = now_,
                  .with_expiry = true,
                  .expiry = before.expiry,
                  .expiry_set = expiry_of(m.ttl),
                  .created = created,
                  .expiry_new = expiry_of(m.vivify),
                  .found = &found,
                  .before = before},
                 left);
  if (before.won) to = put_flag(to, 'Z');
  if (before.stale) to = put_flag(to, 'X');
  if (won) to = put_flag(to, 'W');
  out.commit(put_end(to));
  if (m.value) {
    out.append_value(found.value);
    out.append("\r\n");
  }
}

void executor::meta_set(const command& c, reply_buffer& out) {
  const meta_flags& m = c.meta;
  verb mode = verb::set;
  switch (m.mode) {
    case 'E':
      mode = verb::add;
      break;
    case 'A':
      mode = verb::append;
      break;
    case 'P':
      mode = verb::prepend;
      break;
    case 'R':
      mode = verb::replace;
      break;
    default:
      break;
  }
  if (m.has_cas && (mode == verb::set || mode == verb::replace)) mode = verb::cas;
  std::uint64_t new_cas = 0;
  const store_answer answer =
      store_value(c, mode, c.number, m.invalidate && mode == verb::cas, expiry_of(m.has_ttl ? m.ttl : 0), new_cas);
  std::string_view head = "HD";
  switch (answer) {
    case store_answer::stored:
      if (m.quiet) return;
      break;
    case store_answer::not_stored:
      head = "NS";
      break;
    case store_answer::exists:
      head = "EX";
      break;
    case store_answer::not_found:
      head = "NF";
      break;
    case store_answer::failed:
      return fail(c, out);
    case store_answer::no_memory:
      note_no_memory(c);
      out.append(no_memory_text);
      return out.append("\r\n");
  }
  char* to = put_text(out.room(meta_line_bytes_max), head);
  const auto left = [this](std::uint32_t expiry) { return seconds_left(expiry); };
  to = put_asked(to, c, {.cas = shared_.config.cas ? new_cas : 0, .binary_key = m.binary_key}, left);
  out.commit(put_end(to));
}

void executor::meta_delete(const command& c, reply_buffer& out) {
  const meta_flags& m = c.meta;
  delete_decision d;
  d.gone = {now_, &shared_.store};
  d.has_cas = m.has_cas;
  d.cas = c.number;
  d.marks = m.invalidate;
  d.has_expiry = m.has_ttl;
  d.expiry = expiry_of(m.ttl);
  const update_result r = update(c.key, d, 0);
  if (r.what == outcome::failed) return fail(c, out);
  if (r.what == outcome::no_memory) return out.append("SERVER_ERROR out of memory storing object\r\n");
  std::string_view head = "HD";
  switch (d.answer) {
    case delete_decision::says::deleted:
      counters_.add(class_of(c.key.size(), d.value_bytes), class_count::delete_hits);
      if (m.quiet) return;
      break;
    case delete_decision::says::marked:
      if (m.quiet) return;
      break;
    case delete_decision::says::exists:
      counters_.add(count::delete_misses);
      head = "EX";
      break;
    case delete_decision::says::not_found:
      counters_.add(count::delete_misses);
      head = "NF";
      break;
  }
  out.commit(put_end(put_opaque_and_key(put_text(out.room(meta_line_bytes_max), head), c)));
}

void executor::meta_arithmetic(const command& c, reply_buffer& out) {
  const meta_flags& m = c.meta;
  number_decision d;
  d.gone = {now_, &shared_.store};
  d.up = m.mode != 'D' && m.mode != '-';
  d.delta = m.delta;
  d.cas = c.number;
  d.creates = m.has_vivify;
  d.initial = m.initial;
  d.created_state = fresh_state(0, m.binary_key);
  for (const std::string_view word : c.flag_words()) {
    if (word[0] == 'T') d.created_state.expiry = expiry_of(m.ttl);
    if (word[0] == 'N') d.created_state.expiry = expiry_of(m.vivify);
  }
  d.has_expiry = m.has_ttl;
  d.expiry = expiry_of(m.ttl);
  const update_result r = update(c.key, d, number_bytes_max);
  if (r.what == outcome::failed) return fail(c, out);
  if (r.what == outcome::no_memory || r.what == outcome::too_large) {
    return out.append(d.answer == number_decision::says::created ? "SERVER_ERROR Out of memory allocating new item\r\n"
                                                                 : "SERVER_ERROR out of memory\r\n");
  }
  const unsigned size_class = class_of(c.key.size(), d.value_bytes);
  switch (d.answer) {
    case number_decision::says::not_a_number:
      return out.append("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    case number_decision::says::not_found:
    case number_decision::says::exists: {
      const bool missed = d.answer == number_decision::says::not_found;
      if (missed) counters_.add(d.up ? count::incr_misses : count::decr_misses);
      char* const to = put_text(out.room(meta_line_bytes_max), missed ? "NF" : "EX");
      return out.commit(put_end(put_opaque_and_key(to, c)));
    }
    case number_decision::says::done:
      counters_.add(size_class, d.up ? class_count::incr_hits : class_count::decr_hits);
      if (m.quiet) return;
      break;
    case number_decision::says::created:
      counters_.add(count::total_items);
      break;
  }
  const bool created = d.answer == number_decision::says::created;
  char digits[number_bytes_max];
  const std::string_view text{digits, put_number(digits, d.result)};
  const auto left = [this](std::uint32_t expiry) { return seconds_left(expiry); };
  char* to = put_head(out.room(meta_line_bytes_max), m.value, text.size());
  to = put_asked(to, c,
                 {.cas = shared_.config.cas ? r.cas : 0,
                  .binary_key = m.binary_key,
                  .now = now_,
                  .with_expiry = true,
                  .expiry = d.expiry_before,
                  .expiry_set = expiry_of(m.ttl),
                  .created = created,
                  .expiry_new = expiry_of(m.vivify)},
                 left);
  if (m.value) to = put_text(put_end(to), text);
  out.commit(put_end(to));
}

void executor::meta_debug(const command& c, reply_buffer& out) {
  counters_.add(count::meta_cmds);
  item found;
  const look seen = find(c.key, found);
  if (seen == look::failed) return fail(c, out);
  if (seen == look::absent) return out.append("EN\r\n");
  const item_state s = found.state();
  char* to = put_text(out.room(meta_line_bytes_max), "ME ");
  to = s.binary_key ? put_base64(to, found.key) : put_text(to, found.key);
  to = put_text(to, " exp=");
  if (s.expiry == 0) {
    to = put_text(to, "-1");
  } else {
    // Since it expired, so below 0 as a rule.
    to = std::to_chars(to, to + number_bytes_max, -static_cast<std::int32_t>(seconds_left(s.expiry))).ptr;
  }
  to = put_number(put_text(to, " la="), s.idle(now_));
  to = put_number(put_text(to, " cas="), found.cas);
  to = put_text(to, s.fetched ? " fetch=yes" : " fetch=no");
  to = put_number(put_text(to, " cls="), class_of(found.key.size(), found.value.size()));
  to = put_number(put_text(to, " size="), item_bytes(found));
  out.commit(put_end(to));
}

}  // namespace nvm::server
