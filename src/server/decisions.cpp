#include "server/decisions.hpp"

#include <algorithm>
#include <cstring>

#include "server/numbers.hpp"

namespace nvm::server {
namespace {

void copy(char* to, std::string_view from) noexcept {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

constexpr decision::wish keep{};

}  // namespace

decision::wish store_decision::decide(const item* old) noexcept {
  const bool there = old != nullptr && !gone(*old);
  replaced_dead = old != nullptr && !there;
  wish w{what::replace, value.size(), flags, state};
  if (!there) {
    if (mode == verb::set || mode == verb::add) {
      answer = says::stored;
      return w;
    }
    answer = mode == verb::cas ? says::not_found : says::not_stored;
    return keep;
  }
  switch (mode) {
    case verb::add:
      answer = says::not_stored;
      return keep;
    case verb::cas:
      if (cas != 0 && cas == old->cas) break;
      if (cas != 0 && may_go_stale && cas < old->cas) {
        const item_state before = old->state();
        w.state.expiry = before.expiry;
        w.state.stale = true;
        w.state.won = before.won;
        break;
      }
      answer = says::exists;
      return keep;
    case verb::append:
    case verb::prepend:
      if (cas != 0 && cas != old->cas) {
        answer = says::exists;
        return keep;
      }
      w.value_bytes += old->value.size();
      w.flags = old->flags;
      w.state.expiry = old->state().expiry;
      w.state.binary_key = old->state().binary_key;
      if (item_bytes(old->key.size(), w.value_bytes) > item_bytes_max) {
        answer = says::not_stored;
        return keep;
      }
      break;
    default:
      break;
  }
  answer = says::stored;
  return w;
}

void store_decision::fill(char* to, const item* old) noexcept {
  if (mode == verb::append) {
    copy(to, old->value);
    to += old->value.size();
  }
  copy(to, value);
  if (mode == verb::prepend) copy(to + value.size(), old->value);
}

decision::wish delete_decision::decide(const item* old) noexcept {
  if (old == nullptr || gone(*old)) {
    answer = says::not_found;
    return keep;
  }
  value_bytes = old->value.size();
  if (has_cas && cas != old->cas) {
    answer = says::exists;
    return keep;
  }
  if (!marks) {
    answer = says::deleted;
    return {what::remove, 0, 0, {}};
  }
  answer = says::marked;
  wish w{what::replace, old->value.size(), old->flags, old->state()};
  w.state.stale = true;
  w.state.won = false;  // the next client is asked to renew it
  if (has_expiry) w.state.expiry = expiry;
  return w;
}

void delete_decision::fill(char* to, const item* old) noexcept { copy(to, old->value); }

decision::wish number_decision::decide(const item* old) noexcept {
  char digits[number_bytes_max];
  if (old == nullptr || gone(*old)) {
    if (!creates) {
      answer = says::not_found;
      return keep;
    }
    answer = says::created;
    result = initial;
    expiry_before = 0;
    value_bytes = static_cast<std::size_t>(put_number(digits, result) - digits);
    return {what::replace, value_bytes, 0, created_state};
  }
  if (old->value.empty()) {
    answer = says::not_a_number;
    return keep;
  }
  if (cas != 0 && cas != old->cas) {
    answer = says::exists;
    return keep;
  }
  std::uint64_t value = 0;
  if (!read_client_number(old->value, value)) {
    answer = says::not_a_number;
    return keep;
  }
  result = up ? value + delta : value - std::min(value, delta);
  answer = says::done;
  const item_state before = old->state();
  expiry_before = before.expiry;
  // A number that becomes shorter keeps its place and gets spaces after it, as clients know from memcached.
  value_bytes = std::max(old->value.size(), static_cast<std::size_t>(put_number(digits, result) - digits));
  wish w{what::replace, value_bytes, old->flags, before};
  if (value_bytes > old->value.size()) {
    // The result is a new item, which has only expiry and flags of the old one.
    w.state = item_state{};
    w.state.expiry = before.expiry;
    w.state.binary_key = before.binary_key;
    w.state.accessed = created_state.accessed;
  }
  if (has_expiry) w.state.expiry = expiry;
  return w;
}

void number_decision::fill(char* to, const item*) noexcept {
  char digits[number_bytes_max];
  const auto n = static_cast<std::size_t>(put_number(digits, result) - digits);
  std::memcpy(to, digits, n);
  std::memset(to + n, ' ', value_bytes - n);
}

decision::wish vivify_decision::decide(const item* old) noexcept {
  created = old == nullptr || gone(*old);
  if (!created) return keep;
  return {what::replace, 0, 0, state};
}

void vivify_decision::fill(char*, const item*) noexcept {}

}  // namespace nvm::server
