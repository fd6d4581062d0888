#include "player.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "cut_off.hpp"
#include "object/type_map_writer.hpp"

namespace nvm::tests {

using explore::machine;

namespace {

constexpr unsigned opening_thread = 100;
constexpr std::uint64_t end_of_close = 0xC105ED;  // what the operation says of itself

// Stops the program unless `good`: a scenario cannot go on without.
void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "scenario: %s failed: %s\n", what, last_message());
  std::abort();
}

}  // namespace

player::player(explore::machine& m, explore::digest_history& history, kind_of_medium kind)
    : machine_{m}, history_{history}, kind_{kind} {
  start();
  model_ = pool_model::of(heap_->base(), machine_.size());
  history_.clear();
  history_.state(model_.digest());
}

void player::start() {
  // The thread that opens the pool is none of those that work on it: their fences do not complete its write-backs.
  if (lanes_are_threads_) machine_.thread(opening_thread);
  heap_ = open_ground(machine_, kind_);
  must(heap_ != nullptr, "opening the pool");
}

std::unique_ptr<open_tx> player::begin(unsigned lane) {
  if (lanes_are_threads_) machine_.thread(lane);
  must(heap_->acquire(lane), "taking the lane");
  auto t = std::unique_ptr<open_tx>(new open_tx(*this, lane));
  t->begin();
  return t;
}

void player::wait() {
  if (!is_image(kind_)) return;
  must(heap_->durable(published_).has_value(), "waiting");
  machine_.promise();
}
void player::checkpoint() {
  // The thread that empties the rings of the redo engine completes only its own write-backs, and no other completes
  // them.
  if (lanes_are_threads_ && is_redo(kind_)) machine_.thread(opening_thread);
  must(heap_->checkpoint().has_value(), "a checkpoint");
}
bool player::killed(unsigned point, unsigned thread, const std::function<void()>& what) {
  if (lanes_are_threads_) machine_.thread(thread);
  machine_.op_begin();
  const bool ended = cut_off{machine_, point, what}.ended();
  if (!ended) reopen();
  must(pool_model::of(heap_->base(), machine_.size()).digest() == model_.digest(), "finding what was committed");
  history_.state(model_.digest());
  if (lanes_are_threads_) machine_.thread(thread);
  machine_.op_end();
  return !ended;
}
bool player::checkpoint_killed(unsigned point) {
  return killed(point, opening_thread, [&] { must(heap_->checkpoint().has_value(), "a checkpoint"); });
}
void player::close() {
  // As with opening: the thread that closes the pool completes only its own write-backs.
  if (lanes_are_threads_) machine_.thread(opening_thread);
  machine_.op_begin();
  must(heap_->close().has_value(), "closing");
  history_.state(model_.digest());
  machine_.op_end(end_of_close);
  if (is_image(kind_)) machine_.promise();
  closed_ = true;
}
void player::reopen() {
  heap_.reset();
  // An operation without effect, too, so that the image no longer counts as closed.
  const bool was_closed = std::exchange(closed_, false);
  if (lanes_are_threads_) machine_.thread(opening_thread);
  if (was_closed) machine_.op_begin();
  start();
  if (!was_closed) return;
  history_.state(model_.digest());
  machine_.op_end();
}

bool player::reopen_killed(unsigned point) {
  heap_.reset();
  if (lanes_are_threads_) machine_.thread(opening_thread);
  std::unique_ptr<ground> opened;  // the process's own: nobody else sees it if it is killed
  const bool ended = cut_off{machine_, point, [&] { opened = open_ground(machine_, kind_); }}.ended();
  start();
  return !ended;
}

bool closed(const explore::window& w) noexcept {
  return !w.history.empty() && w.history.back().end && w.history.back().value == end_of_close;
}

void player::kill_while_syncing() {
  heap_->die_while_syncing();
  reopen();
  must(pool_model::of(heap_->base(), machine_.size()).digest() == model_.digest(), "finding what was written");
  machine_.promise();
}

void player::on_another_thread(unsigned number, const std::function<void()>& f) {
  machine_.detach();
  std::thread([&] {
    machine_.attach();
    machine_.thread(number);
    lanes_are_threads_ = false;
    f();
    lanes_are_threads_ = true;
    machine_.detach();
  }).join();
  machine_.attach();
}

ground& open_tx::heap() {
  if (player_.lanes_are_threads_) player_.machine_.thread(lane_);
  return *player_.heap_;
}

std::vector<std::byte> open_tx::content(std::uint64_t payload) const {
  for (auto e = levels_.rbegin(); e != levels_.rend(); ++e) {
    if (auto i = e->written.find(payload); i != e->written.end()) return i->second;
  }
  const auto i = player_.model_.objects.find(payload);
  return i == player_.model_.objects.end() ? std::vector<std::byte>{} : i->second;
}

void open_tx::begin() {
  must(heap().begin(lane_).has_value(), "begin");
  levels_.emplace_back();
}

std::uint64_t open_tx::alloc(std::uint64_t bytes, std::uint8_t fill) {
  const auto at = heap().alloc(lane_, bytes);
  if (!at) return 0;
  std::memset(player_.heap_->base() + *at, fill, bytes);
  levels_.back().written[*at] = std::vector<std::byte>(bytes, std::byte{fill});
  return *at;
}

bool open_tx::free(std::uint64_t payload) {
  if (!heap().free(lane_, payload)) return false;
  levels_.back().freed.push_back(payload);
  return true;
}

bool open_tx::write(std::uint64_t payload, std::uint64_t from, std::uint64_t bytes, std::uint8_t fill) {
  return write_many({{payload, from, bytes, fill}});
}

bool open_tx::write_many(const std::vector<change>& changes) {
  std::vector<painted> ranges;
  for (const change& c : changes) ranges.push_back({c.payload + c.from, c.bytes, c.fill});
  if (!heap().paint(lane_, ranges.data(), ranges.size())) return false;
  for (const change& c : changes) {
    std::vector<std::byte> now = content(c.payload);
    std::memset(now.data() + c.from, c.fill, c.bytes);
    levels_.back().written[c.payload] = std::move(now);
  }
  return true;
}

bool open_tx::set_root(std::uint64_t payload) {
  if (!heap().set_root(lane_, payload)) return false;
  levels_.back().root_set = true;
  levels_.back().root = payload;
  return true;
}

bool open_tx::set_types(unsigned version, unsigned fields) {
  object::type_description t{"type" + std::to_string(version), 8 * fields, 8, {}};
  for (unsigned i = 0; i < fields; ++i) {
    t.fields.push_back({{8 * i, 8, 1, layout::field_kind::floating, 0, 0, 0}, "field" + std::to_string(i)});
  }
  object::type_map_writer w;
  w.add(t);
  const auto words = w.finish();
  if (!heap().publish_types(lane_, words.data(), words.size() * 8)) return false;
  const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
  levels_.back().types.assign(bytes, bytes + words.size() * 8);
  return true;
}

bool open_tx::commit_level() {
  effect inner = std::move(levels_.back());
  levels_.pop_back();
  if (!heap().commit_level(lane_)) return false;
  effect& outer = levels_.back();
  for (auto& [at, c] : inner.written) outer.written[at] = std::move(c);
  outer.freed.insert(outer.freed.end(), inner.freed.begin(), inner.freed.end());
  if (inner.root_set) {
    outer.root_set = true;
    outer.root = inner.root;
  }
  if (!inner.types.empty()) outer.types = std::move(inner.types);
  return true;
}

void open_tx::abort_level() {
  heap().abort_level(lane_);
  levels_.pop_back();
}

bool open_tx::look(std::uint64_t payload) {
  const std::vector<std::byte> expected = content(payload);
  std::vector<std::byte> seen(expected.size());
  const status s = heap().look(lane_, payload, seen.size(), seen.data());
  if (!s && s.error() == errc::busy) return false;
  must(s.has_value() && seen == expected, "seeing what is there");
  return true;
}

bool open_tx::run_alone() { return heap().run_alone(lane_).has_value(); }

void open_tx::commit() { must(commit_or_meet(), "commit"); }

bool open_tx::commit_or_meet() {
  if (!end()) return false;
  player_.wait();
  return true;
}

void open_tx::commit_async() { must(end(), "commit"); }

open_tx::killed open_tx::commit_killed(unsigned point, unsigned recovery_point) {
  ground& h = heap();
  machine& m = player_.machine_;
  m.op_begin();
  const bool ended = cut_off{m, point, [&] { must(h.commit(lane_).has_value(), "commit"); }}.ended();
  if (ended) h.release(lane_);
  const bool recovered = ended || recovery_point == 0 || !player_.reopen_killed(recovery_point);
  if (!ended && recovery_point == 0) player_.reopen();
  player_.model_ = pool_model::of(player_.heap_->base(), m.size());
  player_.history_.state(player_.model_.digest());
  heap();
  m.op_end();
  return ended ? killed::never : recovered ? killed::in_commit : killed::in_both;
}

// Met another transaction, or found no room for its record: an operation without effect.
bool open_tx::end() {
  ground& h = heap();
  player_.machine_.op_begin();
  const auto lsn = h.commit(lane_);
  if (!lsn && (lsn.error() == errc::busy || lsn.error() == errc::no_space)) {
    player_.history_.state(player_.model_.digest());
    player_.machine_.op_end();
    h.release(lane_);
    return false;
  }
  must(lsn.has_value(), "commit");
  player_.published_ = std::max(player_.published_, *lsn);
  // Others may have committed in the meantime: the effect is on the state as it is now.  The history is complete before
  // the first state is judged.
  const effect& e = levels_.front();
  for (const auto& [at, c] : e.written) player_.model_.objects[at] = c;
  for (const std::uint64_t at : e.freed) player_.model_.objects.erase(at);
  if (e.root_set) player_.model_.root = e.root;
  if (!e.types.empty()) player_.model_.types = e.types;
  player_.history_.state(player_.model_.digest());
  heap();  // the thread again, if another one has run meanwhile
  player_.machine_.op_end();
  h.release(lane_);
  return true;
}

void open_tx::abort() {
  ground& h = heap();
  h.abort(lane_);
  h.release(lane_);
}

}  // namespace nvm::tests
