// The log-structured engine of a pool (LSNVMM; docs/design/017-log-engine.md): logheap::heap as an `engine`.
//
// Objects have virtual addresses after the pool's data: an offset in home space is a home address.  Committed data is
// in the log alone. Home pages are built from the log when they are touched (logheap/home_pages.hpp), and loads are
// loads. Or, by choice, reads are translated: stm/ asks the mapping for each, and only objects that an open transaction
// has allocated are memory (logheap/home_scratch.hpp). Stores into such objects are made in place either way, so that
// code without barriers can make them; announced stores to other objects need home pages.
//
// logheap/open_transaction.hpp says how a transaction commits.
//
// The first object of home space is the engine's own: two copies of the words that other pools have in their anchors.
//
// Lanes are numbers of threads in the heap: a thread keeps one until it ends, or until a thread that finds none free
// takes it over.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/file_blocks.hpp"
#include "engine/log.hpp"
#include "engine/log_relocation.hpp"
#include "engine/stack.hpp"
#include "logheap/home_memory.hpp"
#include "logheap/logheap.hpp"
#include "logheap/open_transaction.hpp"
#include "object/object.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "tx/tx.hpp"

namespace nvm::engines {

template <engine_stack Stack, logheap::mapping Map>
class log_engine final : public engine, private logheap::transaction_host {
 public:
  using medium_type = medium_of<Stack>;
  using space_type = space<medium_type, log::nothing_logged>;
  using heap_type = logheap::heap<medium_type, Map>;
  using thread_type = typename heap_type::thread;

  // `on` has its medium ready; `file` stays open longer than the engine.  `of_mapping`: further arguments of Map.
  template <class... Extra>
  log_engine(std::unique_ptr<Stack> on, pool_file& file, const logheap::heap_settings& settings,
             const Extra&... of_mapping)
      : stack_{std::move(on)},
        file_{file},
        shape_{file.geometry()},
        places_{stack_->top(), lanes_, file.base(), shape_, [this](std::uint64_t pages) { return grow(pages); }},
        heap_{stack_->top(), file.base(), places_, settings, of_mapping...} {}
  ~log_engine() override {
    for (auto& f : faces_) delete f.load(std::memory_order_relaxed);
  }
  log_engine(const log_engine&) = delete;
  log_engine& operator=(const log_engine&) = delete;

  [[nodiscard]] status boot(const log_choice& how) {
    const unsigned parts = file_.size_pages() < pages_per_thread ? 1 : platform::processors();
    std::atomic<errc> failed{errc::ok};
    platform::run_parts(parts, [&](unsigned part) noexcept {
      if (status booted = places_.boot(part, parts); !booted) failed = booted.error();
    });
    if (failed != errc::ok) return failed.load();
    if (!file_.was_clean()) places_.write_back_map();
    if (!file_.read_only()) {
      places_.keep_blocks_by(blocks_);
      if (file_.has_holes()) places_.doubt_free_pages();
    }
    logheap::recovery_report found;
    status s = heap_.open(found);
    if (!s && s.error() == errc::not_found) {
      // A new pool, or one whose creator died.
      if (status made = heap_.create(tx::pool_key(file_.superblock().uuid)); !made) {
        return made;
      }
      s = heap_.open(found);
    }
    if (!s) return s;
    report_.rolled_back = found.dropped + found.torn;
    auto own = heap_.join();
    if (!own) return own.error();
    own_ = *own;
    if (status made = make_anchors(); !made) return made;
    if (status made = make_memory(how); !made) return made;
    if (status made = still_durable(); !made) return made;
    return file_.read_only() ? status{} : heap_.start_cleaners();
  }

  result<open_transaction*> begin(unsigned& lane, bool& parked) noexcept override {
    const bool keeps = !parked && lane == kept_lane;
    auto f = face_of(lane, parked);
    if (!f) return f.error();
    if (keeps) (*f)->keep();
    if (status s = (*f)->begin(); !s) {
      (*f)->let_go();
      return s.error();
    }
    return *f;
  }
  result<stm::home_reader*> reader(unsigned& lane, bool& parked) noexcept override {
    auto f = face_of(lane, parked);
    if (!f) return f.error();
    return *f;
  }
  bool translates() const noexcept override { return !memory_->is_materialised(); }
  bool rebuilds_pages() const noexcept override { return true; }
  void give_back(unsigned lane) noexcept override {
    face& f = *faces_[number_in(lane)].load(std::memory_order_relaxed);
    if (hands_over_ && !f.resume(ticket_in(lane))) return;
    if (!hand_on(number_in(lane))) f.leave_heap();
  }
  unsigned open_transactions() const noexcept override {
    unsigned n = 0;
    for (const auto& f : faces_) {
      // acquire: pairs with the release in face_of().
      const face* t = f.load(std::memory_order_acquire);
      n += t != nullptr && t->open() ? 1 : 0;
    }
    return n;
  }
  status wait(lsn_t lsn) noexcept override { return wait_for(stack_->top(), lsn); }
  bool is_durable(lsn_t lsn) noexcept override { return nvm::is_durable(stack_->top(), lsn); }

  [[nodiscard]] bool is_counted(std::uint32_t type) const noexcept override {
    return !nvm::layout::is_type_of_library(type);
  }
  result<std::uint64_t> root() noexcept override { return read_anchor(anchor_word::root); }
  void count_references(tx::reference_log* log) noexcept override { references = log; }
  std::uint64_t turns_of(unsigned lane) const noexcept override {
    // acquire: pairs with the release in face_of().
    const face* t = faces_[lane].load(std::memory_order_acquire);
    return t == nullptr ? 0 : t->turns();
  }
  result<std::uint64_t> reference_rings() noexcept override { return read_anchor(anchor_word::references); }
  result<object::type_map> types() noexcept override try {
    auto at = read_anchor(anchor_word::types);
    if (!at) return at.error();
    if (*at == 0) return object::type_map{};
    const std::lock_guard guard{own_lock_};
    auto room = heap_.room_at(*own_, *at);
    if (!room || room->size == 0) return fail(errc::corrupt, "type map at home %lx: %s", *at, last_message());
    types_.resize(ceil_div(room->size, 8));
    auto* const bytes = reinterpret_cast<std::byte*>(types_.data());
    heap_.read(*own_, *at, bytes, room->size);
    return object::type_map::read(bytes, room->size, *at);
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the type map");
  }

  result<object_facts> find(std::uint64_t payload) noexcept override {
    const std::lock_guard guard{own_lock_};
    return facts_of(*own_, payload, memory_->is_materialised());
  }
  result<object_facts> find_around(std::uint64_t at) noexcept override {
    const std::lock_guard guard{own_lock_};
    auto facts = facts_of(*own_, heap_.slot_start(*own_, at) + header_bytes, memory_->is_materialised());
    if (facts && at >= facts->payload && at - facts->payload >= facts->bytes)
      return fail(errc::bad_pointer, "offset %lx is in no object", at);
    return facts;
  }
  result<int> each(int (*visit)(void*, const object_facts&), void* argument) noexcept override try {
    // Collected first: visit() may do what it likes.
    const std::vector<std::uint64_t> homes = all_homes();
    const auto type_map = read_anchor(anchor_word::types);
    std::uint64_t damaged = 0;
    for (const std::uint64_t home : homes) {
      const auto look = [&] {
        const std::lock_guard guard{own_lock_};
        return facts_of(*own_, home + sizeof(layout::object_header), false);
      };
      auto facts = look();
      const bool is_programs = home != shape_.home_offset() && (!type_map || home != *type_map);
      // Between room and header another object, of another size, may have come to the place.
      for (unsigned looks = 1; !facts && is_programs && is_still_there(home); ++looks) {
        if (looks == looks_max) {
          damaged = home;
          break;
        }
        facts = look();
      }
      // Skips the anchors, the type map, and objects that were freed meanwhile.
      if (!facts || facts->reserved) continue;
      if (const int answer = visit(argument, *facts); answer != 0) return answer;
    }
    if (damaged != 0) {
      return fail(errc::corrupt, "object at home %lx: found a header that fails its check, expected one that holds",
                  damaged);
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a list of objects");
  }
  status build_index(unsigned) noexcept override { return {}; }
  std::uint64_t used_pages() noexcept override { return places_.used_pages(); }
  status trim(const trim_wishes& wishes, trim_outcome& out) noexcept override { return places_.give_back(wishes, out); }
  void statistics(nvm_statistics& out) noexcept override {
    for (const auto& f : faces_) {
      const face* t = f.load(std::memory_order_acquire);
      if (t == nullptr) continue;
      out.commits += t->commits();
      out.aborts += t->aborts();
      out.logged_bytes += t->logged_bytes();
    }
    out.grown_bytes = grown_bytes_.load(std::memory_order_relaxed);
    const auto h = heap_.statistics();
    out.cleaned_chunks = h.cleaned;
    out.moved_bytes = h.moved_bytes;
    out.live_bytes = h.live_bytes;
    out.mapping_bytes = h.mapping_bytes;
    out.home_free_bytes = h.home_free_bytes;
    stack_->statistics(out);
  }
  unsigned lanes() const noexcept override { return epochs::threads_max; }
  std::uint32_t persist() const noexcept override { return stack_->persist(); }
  const tx::recovery_report& recovered() const noexcept override { return report_; }

  status come_to_rest(bool exiting) noexcept override {
    for (auto& f : faces_) {
      face* t = f.load(std::memory_order_acquire);
      if (t != nullptr && t->joined()) t->leave_heap();
    }
    if (!exiting) {
      memory_.reset();
      heap_.leave(*own_);
      for (thread_type* t : readers_) heap_.leave(*t);
    }
    // A failure does no harm: the log has everything for recovery.
    if (!file_.read_only()) (void)heap_.close();
    return stack_->close();
  }

 private:
  static constexpr std::uint64_t pages_per_thread = std::uint64_t{1} << 18;  // 1 GiB of 4 KiB pages
  static constexpr unsigned fault_threads_most = 4;                          // where a program does not say
  static constexpr unsigned fault_around = 16;
  static constexpr std::uint64_t header_bytes = sizeof(layout::object_header);

  // ---- transactions ----

  using face = logheap::open_transaction<heap_type>;

  // The lane as a thread knows it: the number of a face, and the ticket with which the thread comes back.
  [[nodiscard]] static unsigned lane_of(unsigned number, std::uint32_t ticket) noexcept {
    return ticket * epochs::threads_max + number;
  }
  [[nodiscard]] static unsigned number_in(unsigned lane) noexcept { return lane % epochs::threads_max; }
  [[nodiscard]] static std::uint32_t ticket_in(unsigned lane) noexcept { return lane / epochs::threads_max; }
  static_assert(std::uint64_t{epochs::threads_max} << face::ticket_bits <= std::uint64_t{UINT32_MAX} + 1);

  // The face of this thread, which gets a number if it has none (`parked`: it has had one).
  [[nodiscard]] result<face*> face_of(unsigned& lane, bool& parked) noexcept {
    if (parked) {
      // relaxed: a thread has seen it.
      face* const f = faces_[number_in(lane)].load(std::memory_order_relaxed);
      if (!hands_over_ || f->resume(ticket_in(lane))) [[likely]]
        return f;
      parked = false;
    }
    return new_face(lane, parked);
  }
  [[nodiscard]] result<face*> new_face(unsigned& lane, bool& parked) noexcept {
    constexpr std::chrono::seconds patience{10};
    auto f = free_face(lane, parked);
    if (f || f.error() != errc::no_lane || !hands_over_) return f;
    bool in_vain = false;
    const auto handed = waiting_.wait(patience, in_vain, [&] {
      f = free_face(lane, parked);
      return f || f.error() != errc::no_lane;
    });
    if (handed) {
      // acquire: pairs with the release in face_that_joined().
      face* const its = faces_[*handed].load(std::memory_order_acquire);
      lane = lane_of(*handed, its->adopt());
      parked = true;
      return its;
    }
    if (!in_vain) return f;
    return fail(errc::no_lane, "%s: all %u threads that may have a transaction have had one for %ld s", file_.path(),
                epochs::threads_max, static_cast<long>(patience.count()));
  }
  // One that nobody uses.
  [[nodiscard]] result<face*> free_face(unsigned& lane, bool& parked) noexcept {
    auto joined = heap_.join();
    if (joined) return face_that_joined(**joined, lane, parked);
    if (joined.error() != errc::no_lane || !hands_over_) return joined.error();
    // Each search begins after the last number, so that threads that are many do not all take the same one.
    const unsigned first = next_taken_.load(std::memory_order_relaxed);
    for (unsigned k = 0; k < faces_.size(); ++k) {
      const unsigned n = (first + k) % faces_.size();
      // acquire: pairs with the release in face_that_joined().
      face* const f = faces_[n].load(std::memory_order_acquire);
      const auto ticket = f != nullptr ? f->take_over() : std::nullopt;
      if (!ticket) continue;
      next_taken_.store(n + 1, std::memory_order_relaxed);
      lane = lane_of(n, *ticket);
      parked = true;
      return f;
    }
    return joined.error();
  }
  bool hand_on(unsigned n) noexcept override { return waiting_.anybody() && waiting_.hand_on(n); }
  [[nodiscard]] result<face*> face_that_joined(thread_type& joined, unsigned& lane, bool& parked) noexcept {
    const unsigned number = joined.number();
    face* f = faces_[number].load(std::memory_order_relaxed);
    if (f == nullptr) {
      try {
        f = new face{*this, heap_, *memory_, file_, shape_};
      } catch (const std::bad_alloc&) {
        heap_.leave(joined);
        return fail(errc::no_memory, "%s: no volatile memory for a transaction", file_.path());
      }
      // release: pairs with the acquire in open_transactions() and new_face().
      faces_[number].store(f, std::memory_order_release);
    }
    lane = lane_of(number, f->join(joined));
    parked = true;
    return f;
  }

  // Whether the medium has kept its promise so far; a medium that can break it has LSNs.
  [[nodiscard]] status still_durable() noexcept override {
    if (status s = file_.accepts_commits(); !s) return s;
    const lsn_t last = heap_.last_lsn();
    return last == 0 ? status{} : stack_->top().durable(last);
  }

  // ---- anchors ----

  [[nodiscard]] status make_anchors() noexcept {
    const std::uint64_t home = shape_.home_offset();
    const auto room = heap_.room_at(*own_, home);
    if (room && room->size == object_words_bytes) return {};
    bool empty = true;
    heap_.for_each_object([&](logheap::home_t, std::uint64_t) { empty = false; });
    if (!empty || file_.read_only()) {
      return fail(errc::corrupt, "%s: found no first object of home space, which has the root", file_.path());
    }
    logheap::transaction<heap_type> t{heap_, *own_};
    try {
      auto made = t.allocate(object_words_bytes);
      if (!made) return made.error();
      if (*made != home) {
        return fail(errc::corrupt, "%s: the first object is at home %lx, expected %lx", file_.path(), *made, home);
      }
      for (unsigned copy = 0; copy < 2; ++copy) {
        for (unsigned i = 0; i < object_words; ++i) {
          const std::uint64_t at = object_word_at(shape_, copy, static_cast<anchor_word>(i));
          const std::uint64_t word = seal_word(0, word_seed(at));
          t.store(at, &word, sizeof word);
        }
      }
      auto version = t.commit();
      return version ? status{} : status{version.error()};
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for the first object");
    }
  }
  [[nodiscard]] result<std::uint64_t> read_anchor(anchor_word which) noexcept override {
    const std::lock_guard guard{own_lock_};
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::uint64_t at = object_word_at(shape_, copy, which);
      std::uint64_t word = 0;
      heap_.read(*own_, at, &word, sizeof word);
      const std::uint64_t place = word & checked_mask;
      if (word_holds(word, word_seed(at)) && (place == 0 || shape_.in_objects(place, 1))) return place;
    }
    return fail(errc::corrupt, "neither copy names %s by a word that passes its check", name_of(which));
  }

  // Makes the memory that loads find at home addresses.
  [[nodiscard]] status make_memory(const log_choice& how) noexcept try {
    std::byte* const at = file_.base() + shape_.home_offset();
    if (how.translated) {
      auto made = std::make_unique<logheap::scratch_memory>(at, shape_.home_offset(), shape_.home_bytes);
      if (status s = made->open(); !s) return s;
      memory_ = std::move(made);
      return {};
    }
    std::vector<logheap::home_read> readers;
    const unsigned threads =
        how.fault_threads != 0 ? how.fault_threads : std::min(std::max(1U, platform::processors()), fault_threads_most);
    for (unsigned i = 0; i < threads; ++i) {
      auto joined = heap_.join();
      if (!joined) return joined.error();
      thread_type* const t = *joined;
      readers_.push_back(t);
      readers.push_back([this, t](std::uint64_t home, std::byte* to, std::uint64_t n) { heap_.read(*t, home, to, n); });
    }
    auto pages =
        logheap::home_pages::open({at, shape_.home_offset(), shape_.home_bytes, how.home_bytes_max,
                                   how.fault_around != 0 ? how.fault_around : fault_around,
                                   [](void* file) noexcept { return static_cast<pool_file*>(file)->lost(); }, &file_},
                                  std::move(readers));
    if (!pages) return pages.error();
    memory_ = std::make_unique<logheap::materialised_memory>(std::move(*pages));
    hands_over_ = true;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for home pages");
  }

  // ---- objects ----

  // Ascending.  May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::uint64_t> all_homes() {
    std::vector<std::uint64_t> homes;
    const std::lock_guard guard{own_lock_};
    heap_.for_each_object(*own_, [&](logheap::home_t home, std::uint64_t) { homes.push_back(home); });
    std::sort(homes.begin(), homes.end());
    return homes;
  }

  static constexpr unsigned looks_max = 4;  // at an object that other threads may be changing
  // Facts from the log, or from the caller's own transaction (`in_memory`).
  [[nodiscard]] result<object_facts> facts_of(thread_type& t, std::uint64_t payload, bool in_memory) noexcept {
    const std::uint64_t home = payload - header_bytes;
    if (payload < header_bytes || !shape_.in_objects(home, header_bytes)) {
      return fail(errc::bad_pointer, "offset %lx is no object", payload);
    }
    auto room = heap_.room_at(t, home);
    if (!room) return room.error();
    const bool reserved = room->size == 0;
    layout::object_header header;
    if (reserved || in_memory) {
      isolation::copy_out(&header, file_.base() + home, sizeof header);  // counts change meanwhile
    } else if (room->size > header_bytes) {
      heap_.read(t, home, &header, sizeof header);
    } else {
      return fail(errc::bad_pointer, "offset %lx is no object of a program", payload);
    }
    if (!layout::object_header_holds(header, home) || layout::object_size(header) > room->bytes - header_bytes) {
      return fail(errc::bad_pointer, "offset %lx is no object of a program", payload);
    }
    return facts_from(header, home, room->bytes, reserved);
  }
  [[nodiscard]] bool is_still_there(std::uint64_t home) noexcept {
    const std::lock_guard guard{own_lock_};
    const auto room = heap_.room_at(*own_, home);
    return (room && room->size != 0) || (!room && room.error() == errc::corrupt);
  }
  // Homes of programs' objects, without those of the library.  May throw std::bad_alloc.
  [[nodiscard]] result<std::vector<std::uint64_t>> homes_of_programs() {
    std::vector<std::uint64_t> homes = all_homes();
    const auto type_map = read_anchor(anchor_word::types);
    if (!type_map) return type_map.error();
    std::erase_if(homes, [&](std::uint64_t home) { return home == shape_.home_offset() || home == *type_map; });
    return homes;
  }
  // own_lock_ is held.  May throw std::bad_alloc.
  template <class Mover>
  [[nodiscard]] status store_moved(log_relocation<heap_type>& pass, const Mover& to,
                                   object::relocation_report& report) {
    // Read-only: the log of this process's copy is written, and the file does not grow.
    if (status s = pass.move(to, report); !s) {
      if (!file_.read_only() || (s.error() != errc::no_space && s.error() != errc::read_only)) return s;
      return fail(errc::no_space, "its log has no room for moved pointers, and read-only it cannot grow: %s",
                  last_message());
    }
    return still_durable();
  }
  status move_statics(const object::pointer_plans& plans, const object::static_mover& to,
                      object::relocation_report& report) noexcept override try {
    const auto homes = homes_of_programs();
    if (!homes) return homes.error();
    const std::lock_guard guard{own_lock_};
    log_relocation<heap_type> pass{heap_, *own_, plans, *homes};
    return store_moved(pass, to, report);
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "%s: no volatile memory to put its static pointers right", file_.path());
  }
  // Both ways are a transaction for each object here.
  status relocate(const object::pointer_plans& plans, object::relocation_way /*way*/,
                  object::relocation_report& report) noexcept override try {
    const auto homes = homes_of_programs();
    if (!homes) return homes.error();
    const std::lock_guard guard{own_lock_};
    log_relocation<heap_type> pass{heap_, *own_, plans, *homes};
    if (status s = pass.look(); !s) return s;
    if (status s = file_.begin_relocation(stack_->top()); !s) return s;
    if (status s = still_durable(); !s) return s;
    const object::mover to{file_.bases(), file_.address(), false};
    if (status s = store_moved(pass, to, report); !s) return s;
    return file_.finish_relocation(stack_->top());
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "%s: no volatile memory to relocate it", file_.path());
  }
  [[nodiscard]] status add_feature(std::uint32_t bits) noexcept override {
    return file_.add_feature(stack_->top(), bits);
  }
  [[nodiscard]] status add_compatible_feature(std::uint32_t bits) noexcept override {
    return file_.add_compatible_feature(stack_->top(), bits);
  }
  [[nodiscard]] result<std::uint64_t> grow(std::uint64_t pages) noexcept {
    const std::uint64_t before = file_.size_pages();
    auto grown = file_.grow(stack_->top(), pages);
    if (grown) grown_bytes_.fetch_add((*grown - before) << shape_.page_shift, std::memory_order_relaxed);
    return grown;
  }

  std::unique_ptr<Stack> stack_;
  pool_file& file_;
  const geometry shape_;  // as opened
  log::nothing_logged lanes_;
  space_type places_;
  heap_type heap_;
  std::vector<thread_type*> readers_;  // of the threads that build home pages
  std::unique_ptr<logheap::home_memory> memory_;
  std::array<std::atomic<face*>, epochs::threads_max> faces_{};
  // Whether threads take over numbers of idle ones.  False with translated loads: a barrier transaction then reads by
  // its number before it begins one of ours.
  bool hands_over_ = false;
  waiting_line waiting_;                 // of threads that found no number
  std::atomic<unsigned> next_taken_{0};  // number at which the next search for an idle one begins
  std::mutex own_lock_;                  // of own_ and types_
  thread_type* own_ = nullptr;
  std::vector<std::uint64_t> types_;
  tx::recovery_report report_;
  file_blocks<medium_type> blocks_{file_, stack_->top()};
  std::atomic<std::uint64_t> grown_bytes_{0};
};

// An engine on this stack of media, recovered and ready.  May throw std::bad_alloc.
template <engine_stack Stack, logheap::mapping Map, class... Extra>
[[nodiscard]] result<std::unique_ptr<engine>> start_log_engine(std::unique_ptr<Stack> on, pool_file& file,
                                                               const log_choice& how, const Extra&... of_mapping) {
  auto e = std::make_unique<log_engine<Stack, Map>>(std::move(on), file, heap_settings_of(file, how), of_mapping...);
  if (status s = e->boot(how); !s) return s.error();
  return std::unique_ptr<engine>{std::move(e)};
}

}  // namespace nvm::engines
