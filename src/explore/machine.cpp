#include "explore/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>

namespace nvm::explore {

namespace {
constexpr std::size_t guard_bytes = 1 << 16;
}

std::uint32_t place_table::add(const char* name, std::uint32_t line, place_kind kind) {
  std::uint32_t number = 0;
  for (; number < places_.size(); ++number) {
    const place& p = places_[number];
    if (p.line == line && p.kind == kind && std::strcmp(p.name, name) == 0) break;
  }
  if (number == places_.size()) {
    place p;
    p.name = name;
    p.line = line;
    p.kind = kind;
    if (on_new) on_new(p);
    places_.push_back(p);
  }
  if (++keys_used_ * 2 > keys_.size()) {
    std::vector<key> old(keys_.size() * 2);
    old.swap(keys_);
    for (const key& k : old) {
      if (k.name != nullptr) find(k.name, k.line) = k;
    }
  }
  const std::uint32_t key_line = kind == place_kind::fence ? fence_line : line;
  find(name, key_line) = {name, key_line, number};
  return number;
}

machine::machine(std::size_t bytes, void* at) : bytes_{bytes}, media_{null_, *this} {
  if (bytes == 0 || bytes % line_bytes != 0) {
    throw std::invalid_argument("explore: the image has " + std::to_string(bytes) +
                                " bytes; expected a positive multiple of 64");
  }
  mapping_bytes_ = round_up(bytes, 4096) + 2 * guard_bytes;
  auto* wish = at == nullptr ? nullptr : static_cast<std::byte*>(at) - guard_bytes;
  void* m = ::mmap(wish, mapping_bytes_, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wish == nullptr ? 0 : MAP_FIXED_NOREPLACE), -1, 0);
  if (m == MAP_FAILED) throw std::runtime_error(std::string{"explore: cannot map the image: "} + std::strerror(errno));
  mapping_ = static_cast<std::byte*>(m);
  base_ = mapping_ + guard_bytes;
  if (::mprotect(base_, round_up(bytes, 4096), PROT_READ | PROT_WRITE) != 0) {
    const int cause = errno;
    ::munmap(mapping_, mapping_bytes_);
    throw std::runtime_error(std::string{"explore: cannot use the image: "} + std::strerror(cause));
  }
  stamp_.assign(bytes / line_bytes, 0);
  read_stamp_.assign(bytes / line_bytes, 0);
  touched_.assign(bytes / line_bytes, 0);
}

machine::~machine() { ::munmap(mapping_, mapping_bytes_); }

void machine::attach() {
  nvm_rec_hooks hooks{};
  hooks.self = this;
  hooks.store = store_hook;
  hooks.rmw = rmw_hook;
  hooks.flush = flush_hook;
  hooks.fence = fence_hook;
  hooks.access = access_hook;
  hooks.load = load_hook;
  hooks.step_limit = step_hook;
  nvm_rec_attach(&hooks, base_, bytes_);
}

void machine::detach() { nvm_rec_detach(); }

void machine::restart_generation(std::vector<std::uint32_t>& stamps, std::uint32_t& generation) noexcept {
  std::fill(stamps.begin(), stamps.end(), 0);
  generation = 1;
}

void machine::store_hook(void* self, const void* p, std::size_t bytes, const nvm_rec_site* where) {
  auto* m = static_cast<machine*>(self);
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - m->base_);
  // The start lies inside; what lies beyond the end has met the guard page already.
  const std::uint64_t inside = std::min<std::uint64_t>(bytes, m->bytes_ - offset);
  m->touch(offset, inside);
  if (m->into_ != nullptr && m->stores_) m->append_store(offset, static_cast<std::uint32_t>(inside), where);
}

void machine::rmw_hook(void* self, const void* p, std::size_t bytes, const nvm_rec_site* where) {
  auto* m = static_cast<machine*>(self);
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - m->base_);
  const bool inside = offset < m->bytes_;
  if (inside && bytes != 0) m->touch(offset, bytes);
  if (m->into_ == nullptr || !m->stores_) return;
  // The lock prefix orders earlier write-backs first; then the store happens.
  event e{};
  e.kind = event_kind::rmw;
  e.offset = inside ? offset : 0;
  e.site = where;
  e.thread = m->thread_;
  e.outside = !inside;
  m->into_->events.push_back(e);
  if (inside && bytes != 0) m->append_store(offset, static_cast<std::uint32_t>(bytes), where);
}

void machine::flush_hook(void* self, const void* p, const nvm_rec_site* where) {
  auto* m = static_cast<machine*>(self);
  if (m->instructions_) m->append_flush(p, 1, where->file, where->line);
}

void machine::fence_hook(void* self, const nvm_rec_site* where) {
  auto* m = static_cast<machine*>(self);
  if (!m->instructions_ || m->into_ == nullptr) return;
  m->append_fence(where->file, event_kind::fence);
}

void machine::load_hook(void* self, const void* p, std::size_t bytes, const nvm_rec_site* where) {
  auto* m = static_cast<machine*>(self);
  if (!m->track_reads_) return;
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - m->base_);
  const std::uint64_t inside = std::min<std::uint64_t>(bytes, m->bytes_ - offset);
  for (std::uint64_t line = offset / line_bytes; line <= (offset + inside - 1) / line_bytes; ++line) {
    m->read_stamp_[line] = m->read_generation_;
  }
  if (m->on_read) m->on_read(offset, inside, where);
}

void machine::access_hook(void* self, const void*, const nvm_rec_site*) { static_cast<machine*>(self)->yield(); }

void machine::step_hook(void* self) {
  auto* m = static_cast<machine*>(self);
  if (m->switcher_.call != nullptr) return m->switcher_.call(m->switcher_.self, true);
  if (m->on_step_limit != nullptr) m->on_step_limit();
}

std::uint64_t machine::copy_words(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t from = round_down(offset, 8);
  const std::uint64_t count = (round_up(offset + bytes, 8) - from) / 8;
  const std::uint64_t at = into_->words.size();
  into_->words.resize(at + count);
  std::memcpy(into_->words.data() + at, base_ + from, count * 8);
  return at;
}

void machine::append_store(std::uint64_t offset, std::uint32_t bytes, const nvm_rec_site* where) {
  event e{};
  e.kind = event_kind::store;
  e.offset = offset;
  e.bytes = bytes;
  e.site = where;
  e.thread = thread_;
  e.inline_word = offset / 8 == (offset + bytes - 1) / 8;
  if (e.inline_word) {
    std::memcpy(&e.payload, base_ + round_down(offset, 8), 8);
  } else {
    e.payload = copy_words(offset, bytes);
  }
  into_->events.push_back(e);
}

void machine::append_flush(const void* p, std::size_t bytes, const char* file, std::uint32_t line) {
  if (into_ == nullptr || bytes == 0) return;
  const std::uint32_t number = places_.number_of(file, line, place_kind::flush);
  place& where = places_[number];
  ++where.count;
  if (where.dropped) return;
  event e{};
  e.kind = event_kind::flush;
  e.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  e.payload = bytes;
  e.place = number;
  e.thread = thread_;
  if (e.offset >= bytes_) {
    e.offset = 0;
    e.outside = true;
  } else {
    e.payload = std::min<std::uint64_t>(bytes, bytes_ - e.offset);
  }
  if (where.delayed) {
    delayed_.push_back(e);
  } else {
    into_->events.push_back(e);
  }
}

void machine::append_fence(const char* name, event_kind kind) {
  if (into_ == nullptr) return;
  const std::uint32_t number = places_.number_of(name, 0, place_kind::fence);
  place& label = places_[number];
  ++label.count;
  if (!label.dropped) {
    event e{};
    e.kind = kind;
    e.place = number;
    e.thread = thread_;
    into_->events.push_back(e);
  }
  into_->events.insert(into_->events.end(), delayed_.begin(), delayed_.end());
  delayed_.clear();
}

void machine::flush(const void* p, std::size_t bytes, site where) noexcept {
  yield();
  if (into_ != nullptr && stores_) append_flush(p, bytes, where.file, where.line);
}

void machine::fence(edge e) noexcept {
  yield();
  if (into_ != nullptr && stores_) append_fence(e.name, event_kind::fence);
}

void machine::block_write(std::uint64_t offset, std::size_t bytes, site from) {
  if (bytes == 0) return;
  touch(offset, bytes);
  if (into_ == nullptr || stores_) return;
  const std::uint32_t number = places_.number_of(from.file, from.line, place_kind::write);
  place& where = places_[number];
  ++where.count;
  if (where.dropped) return;
  event e{};
  e.kind = event_kind::write;
  e.offset = offset;
  e.bytes = static_cast<std::uint32_t>(bytes);
  e.payload = copy_words(offset, bytes);
  e.place = number;
  e.thread = thread_;
  into_->events.push_back(e);
}

void machine::block_sync(edge e) {
  if (!stores_) append_fence(e.name, event_kind::sync);
}

void machine::append_mark(mark m, const void* p, std::size_t bytes) {
  if (into_ == nullptr) return;
  event e{};
  e.kind = event_kind::mark;
  e.offset = p == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base_);
  e.payload = bytes;
  e.place = static_cast<std::uint64_t>(m);
  e.thread = thread_;
  into_->events.push_back(e);
}

void machine::op_begin(std::uint64_t what) {
  if (into_ == nullptr) return;
  event e{};
  e.kind = event_kind::op_begin;
  e.offset = ops_begun_;
  e.payload = what;
  e.thread = thread_;
  op_of_thread_[thread_] = ops_begun_++;
  into_->events.push_back(e);
}

void machine::op_end(std::uint64_t result) {
  if (into_ == nullptr) return;
  event e{};
  e.kind = event_kind::op_end;
  e.offset = op_of_thread_[thread_];
  e.payload = result;
  e.thread = thread_;
  into_->events.push_back(e);
}

void machine::promise() {
  if (into_ == nullptr) return;
  event e{};
  e.kind = event_kind::promise;
  e.thread = thread_;
  into_->events.push_back(e);
}

}  // namespace nvm::explore
