// The engines whose objects are where their addresses say, over one stack of media: tx::heap as an `engine`.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/inlining.hpp"
#include "engine/background_truncation.hpp"
#include "engine/engine.hpp"
#include "engine/file_blocks.hpp"
#include "engine/page_by_page.hpp"
#include "engine/stack.hpp"
#include "engine/stores.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "object/object.hpp"
#include "platform/platform.hpp"
#include "pool/pool.hpp"
#include "tx/tx.hpp"

// NVM_FLATTEN: for pools in earnest, all code of an undo transaction between two fences is one function. That takes a
// compiler half a minute, and CMakeLists.txt chooses it for each source.
namespace nvm::engines {

template <engine_stack Stack, template <class> class Engine>
class heap_engine final : public engine {
 public:
  using medium_type = medium_of<Stack>;
  using heap_type = tx::heap<medium_type, Engine<medium_type>>;
  using transaction_type = typename heap_type::transaction_type;

  // `on` has its medium ready; `file` stays open longer than the engine.
  // `background`: a thread truncates the log of an engine that needs that.
  heap_engine(std::unique_ptr<Stack> on, pool_file& file, unsigned lane_count, bool background)
      : stack_{std::move(on)},
        file_{file},
        heap_{stack_->top(),
              file.base(),
              file.geometry(),
              tx::pool_key(file.superblock().uuid),
              lane_count,
              [this](std::uint64_t pages) { return grow(pages); },
              tx::engine_settings{static_cast<log::validation>(file.superblock().validation)}},
        faces_{new std::atomic<face*>[lane_count] {}},
        stores_{make_store_side({heap_.base(), heap_.places(), heap_.places(), *this})} {
    if constexpr (heap_type::lanes_type::ordered) {
      if (background) {
        heap_.lanes().on_pressure([this] { truncation_.wake([this] { heap_.lanes().truncate(); }); });
      }
    }
  }
  ~heap_engine() override {
    for (unsigned i = 0; i < lanes(); ++i) delete faces_[i].load(std::memory_order_relaxed);
  }
  heap_engine(const heap_engine&) = delete;
  heap_engine& operator=(const heap_engine&) = delete;

  [[nodiscard]] status boot() {
    // A thread costs more than scanning the page map of a small pool.
    const unsigned parts = file_.size_pages() < pages_per_thread ? 1 : platform::processors();
    const status s = heap_.boot(file_.was_clean(), parts, [](unsigned n, auto&& f) {
      platform::run_parts(n, [&](unsigned part) noexcept { f(part); });
    });
    if (!s || file_.read_only()) return s;
    heap_.places().keep_blocks_by(blocks_);
    if constexpr (transaction_type::takes_log_runs) heap_.places().keep_pages_for_logs();
    if (file_.has_holes() && !file_.has_tier()) heap_.places().doubt_free_pages();
    return s;
  }

  unsigned open_transactions() const noexcept override {
    unsigned n = 0;
    for (unsigned i = 0; i < lanes(); ++i) {
      // acquire: pairs with the release in make_face().
      const face* f = faces_[i].load(std::memory_order_acquire);
      n += f != nullptr && f->open() ? 1 : 0;
    }
    return n;
  }
  NVM_FLATTEN result<open_transaction*> begin(unsigned& lane, bool& parked) noexcept override {
    auto& lanes = heap_.lanes();
    parked = parked && lanes.resume(lane);
    if (!parked) {
      const bool keeps = lane == kept_lane;
      auto free = lanes.acquire(lane);
      if (!free) return free.error();
      lane = *free;
      parked = keeps ? lanes.keep(lane) : lanes.park(lane);
    }
    // relaxed: lanes are handed over with acquire and release.
    face* t = faces_[lane].load(std::memory_order_relaxed);
    if (t == nullptr) {
      auto made = make_face(lane, parked);
      if (!made) return made.error();
      t = *made;
    }
    if (status s = t->enter(parked); !s) return s.error();
    return t;
  }
  void give_back(unsigned lane) noexcept override { heap_.lanes().give_back(lane); }
  status wait(lsn_t lsn) noexcept override { return wait_for(stack_->top(), lsn); }
  bool is_durable(lsn_t lsn) noexcept override { return nvm::is_durable(stack_->top(), lsn); }
  result<std::uint64_t> root() noexcept override { return read_root(heap_.base(), file_.geometry()); }
  void count_references(tx::reference_log* log) noexcept override { references_ = log; }
  // seq_cst: before the loads of turns_of() in order_turns()'s caller.
  void watch_changes(tx::change_watch* watch) noexcept override { watch_.store(watch, std::memory_order_seq_cst); }
  void order_turns() noexcept override {
    if (!begins_ordered_) platform::fence_all_threads();
  }
  std::optional<std::uint32_t> attached_end(unsigned lane) noexcept override {
    if constexpr (requires { heap_.lanes().set_attached(0, 0); } && !medium_type::atomic_batches) {
      const geometry& g = heap_.shape();
      const tx::pool_targets targets{heap_.base(), g};
      return log::lane_reader{heap_.base(), g, heap_.key(), lane, targets}.attached();
    } else {
      return std::nullopt;
    }
  }
  std::uint64_t turns_of(unsigned lane) const noexcept override {
    // acquire: pairs with the release in make_face().
    const face* f = faces_[lane].load(std::memory_order_acquire);
    return f == nullptr ? 0 : f->turns();
  }
  result<std::uint64_t> reference_rings() noexcept override {
    return read_anchor_word(heap_.base(), file_.geometry(), anchor_word::references);
  }
  result<object::type_map> types() noexcept override { return object::stored_types(heap_, file_.geometry()); }

  result<object_facts> find(std::uint64_t payload) noexcept override {
    if (payload < sizeof(layout::object_header)) return fail(errc::bad_pointer, "offset %lu is no object", payload);
    const std::uint64_t offset = payload - sizeof(layout::object_header);
    typename heap_type::space_type::stores_stay stay;
    auto o = heap_.places().find(offset, layout::object_layout::typed, stay);
    if (o) return facts_of(offset, o->bytes, o->reserved);
    stay = {};
    return not_found(payload, o.error());
  }

  result<object_facts> find_around(std::uint64_t at) noexcept override {
    typename heap_type::space_type::stores_stay stay;
    auto o = heap_.places().find_around(at, layout::object_layout::typed, stay);
    if (!o) {
      stay = {};
      return not_found(at, o.error());
    }
    auto facts = facts_of(o->offset, o->bytes, o->reserved);
    if (facts && at - facts->payload >= facts->bytes) return fail(errc::bad_pointer, "offset %lu is in no object", at);
    return facts;
  }

  result<int> each(int (*visit)(void*, const object_facts&), void* argument) noexcept override {
    int answer = 0;
    std::uint64_t damaged = 0;
    status s = heap_.places().for_each_object([&](std::uint64_t offset, std::uint64_t bytes, layout::object_layout l) {
      if (l != layout::object_layout::typed) return true;
      auto facts = facts_of(offset, bytes, false);
      if (!facts) {
        if (facts.error() == errc::corrupt) damaged = offset;
        return true;
      }
      answer = visit(argument, *facts);
      return answer == 0;
    });
    if (!s) return s.error();
    if (answer == 0 && damaged != 0) {
      return fail(errc::corrupt, "object at offset %lu: found a header that fails its check, expected one that holds",
                  damaged);
    }
    return answer;
  }

  status build_index(unsigned threads) noexcept override {
    std::atomic<errc> failed{errc::ok};
    platform::run_parts(threads, [&](unsigned part) noexcept {
      if (status s = heap_.places().build_index(part, threads); !s) failed = s.error();
    });
    if (failed != errc::ok) return failed.load();
    return {};
  }
  std::uint64_t used_pages() noexcept override { return heap_.places().used_pages(); }
  status trim(const trim_wishes& wishes, trim_outcome& out) noexcept override {
    return heap_.places().give_back(wishes, out);
  }

  void statistics(nvm_statistics& out) noexcept override {
    for (unsigned i = 0; i < heap_.lanes().count(); ++i) {
      const auto* t = heap_.existing_of_lane(i);
      if (t == nullptr) continue;
      out.commits += t->commits();
      out.aborts += t->aborts();
      out.logged_bytes += t->logged_bytes();
    }
    out.grown_bytes = grown_bytes_.load(std::memory_order_relaxed);
    if constexpr (heap_type::lanes_type::ordered) {
      const auto log = heap_.lanes().statistics();
      out.truncations = log.truncations;
      out.home_lines = log.home_lines;
    }
    stack_->statistics(out);
  }
  unsigned lanes() const noexcept override { return heap_.lanes().count(); }
  result<std::unique_ptr<structure_side>> open_structures(const structure_settings& settings,
                                                          open_store* in) noexcept override {
    if (in == nullptr) return stack_->open_structures(heap_.base(), heap_.places(), settings);
    const auto pages = heap_.places().structures_in(*in);
    return pages ? stack_->open_structures(heap_.base(), **pages, settings) : pages.error();
  }
  result<std::unique_ptr<region_side>> open_regions(region_wishes wishes) noexcept override {
    return stack_->open_regions(heap_.base(), heap_.places(), std::move(wishes));
  }
  result<store_side*> stores() noexcept override { return stores_.get(); }
  std::uint32_t persist() const noexcept override { return stack_->persist(); }
  const tx::recovery_report& recovered() const noexcept override { return heap_.recovered(); }

  status come_to_rest(bool exiting) noexcept override {
    if (exiting && by_page_ != nullptr) {
      by_page_->complete();
    } else {
      by_page_.reset();
    }
    truncation_.stop();
    if (!exiting && !file_.read_only()) (void)heap_.places().trim();
    heap_.come_to_rest();
    return stack_->close();
  }

 private:
  static constexpr std::uint64_t pages_per_thread = std::uint64_t{1} << 18;  // 1 GiB of 4 KiB pages
  static constexpr std::uint64_t relocated_pages_per_thread = std::uint64_t{1} << 13;

  class face final : public open_transaction {
   public:
    face(heap_engine& engine, transaction_type& transaction) noexcept
        : engine_{engine}, heap_{engine.heap_}, transaction_{transaction} {}
    unsigned depth() const noexcept override { return transaction_.depth(); }
    errc failure() const noexcept override { return transaction_.failure(); }
    tx::log_room room() const noexcept override {
      if constexpr (requires { transaction_.room(); }) {
        return transaction_.room();
      } else {
        return {};
      }
    }
    // acquire: pairs with the release in leave(): what the transaction did is done.
    bool open() const noexcept { return (turns() & 1) != 0; }
    std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_acquire); }
    status enter(bool parked) noexcept {
      parked_ = parked;
      status s = engine_.file_.accepts_commits();
      if (s) s = transaction_.begin();
      if (s) {
        take_turn(std::memory_order_relaxed);
        // If order_turns() is no barrier in this thread: Dekker's handshake with the watching thread.
        if (engine_.begins_ordered_) [[unlikely]]
          turns_.fetch_add(0, std::memory_order_seq_cst);
      } else {
        give_lane();
      }
      return s;
    }
    status begin() noexcept override { return transaction_.begin(); }
    NVM_FLATTEN status announce(const log::byte_range* ranges, std::size_t count) noexcept override {
      return transaction_.announce(ranges, count);
    }
    bool covers(const log::byte_range& range) noexcept override { return transaction_.covers(range); }
    NVM_FLATTEN result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept override {
      return tx::allocate_typed(heap_, transaction_, type, bytes);
    }
    result<std::uint64_t> allocate_in(const store_attachment& store, std::uint32_t type,
                                      std::uint64_t bytes) noexcept override {
      return tx::allocate_typed_in(heap_, transaction_, store, type, bytes);
    }
    result<std::uint64_t> allocate_cluster(std::uint64_t pages, std::uint64_t bytes) noexcept override {
      return transaction_.allocate_cluster(pages, bytes);
    }
    status release_cluster(std::uint64_t offset) noexcept override { return transaction_.release_cluster(offset); }
    NVM_FLATTEN status release(std::uint64_t payload) noexcept override {
      if (payload < sizeof(layout::object_header)) return fail(errc::bad_pointer, "offset %lu is no object", payload);
      return transaction_.release(payload - sizeof(layout::object_header), layout::object_layout::typed);
    }
    status let_go(std::uint64_t payload) noexcept override {
      if (engine_.references_ == nullptr) [[likely]]
        return release(payload);
      return let_go_counted(payload);
    }
    status assign_all(std::span<const tx::assigned_bytes> words) noexcept override {
      return transaction_.assign_all(words);
    }
    unsigned lane() const noexcept override { return transaction_.lane(); }
    // Called as the lane: any other caller would take the arena lock's bias away from it.
    NVM_FLATTEN result<std::uint64_t> room_of(std::uint64_t payload) noexcept override {
      constexpr std::uint64_t header = sizeof(layout::object_header);
      if (payload < header) return fail(errc::bad_pointer, "offset %lu is no object", payload);
      auto bytes = transaction_.room_of(payload - header, layout::object_layout::typed);
      if (!bytes) return bytes.error();
      return *bytes - header;
    }
    status set_root(std::uint64_t payload) noexcept override { return tx::set_root(heap_, transaction_, payload); }
    status set_reference_rings(std::uint64_t payload) noexcept override {
      return tx::set_anchor_word(heap_, transaction_, anchor_word::references, payload);
    }
    status publish_types(const void* map, std::uint64_t bytes) noexcept override {
      return object::publish_types(heap_, engine_.file_.geometry(), transaction_, map, bytes);
    }
    status on(int event, void (*call)(), void* argument) noexcept override {
      return transaction_.on(event, call, argument);
    }
    errc doom(errc why) noexcept override { return transaction_.doom(why); }
    status commit_level() noexcept override {
      // The transaction is going to be rolled back.
      if (transaction_.failure() != errc::ok) tell_changes({});
      return transaction_.commit_level();
    }
    void abort_level(std::vector<tx::hook>& hooks) noexcept override {
      tell_changes({});
      transaction_.abort_level_by([this] { transaction_.abort_level(); }, hooks);
    }
    NVM_FLATTEN result<lsn_t> commit(std::vector<tx::hook>& hooks) noexcept override {
      if (status s = engine_.file_.accepts_commits(); !s) [[unlikely]] {
        abort(hooks);
        return fail(s.error(), "%s", last_message());
      }
      if (status s = attach_references({}); !s) [[unlikely]] {
        const errc why = s.error();
        abort(hooks);
        return why;
      }
      tell_changes({});
      result<lsn_t> lsn = transaction_.commit();
      references_ended(bool{lsn});
      leave(hooks);
      return lsn;
    }
    void abort(std::vector<tx::hook>& hooks) noexcept override {
      tell_changes({});
      transaction_.abort();
      references_ended(false);
      leave(hooks);
    }

    bool writes_back() const noexcept override { return transaction_type::writes_back; }
    bool logs_each_store() const noexcept override { return logs_stores; }
    status log_store(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) noexcept override {
      if constexpr (logs_stores) {
        return transaction_.log_store(offset, from, bytes);
      } else {
        return {};
      }
    }
    NVM_FLATTEN status enter_commit(std::span<const isolation::written_line> lines) noexcept override {
      if (status s = engine_.file_.accepts_commits(); !s) [[unlikely]]
        return s;
      if (status s = attach_references(lines); !s) [[unlikely]]
        return s;
      tell_changes(lines);
      return transaction_.enter_commit(lines);
    }
    NVM_FLATTEN result<lsn_t> commit_lines(std::span<const isolation::written_line> lines, std::uint64_t version,
                                           std::vector<tx::hook>& hooks) noexcept override {
      result<lsn_t> lsn = transaction_.commit_lines(lines, version);
      references_ended(bool{lsn});
      leave(hooks);
      return lsn;
    }

   private:
    static constexpr bool logs_stores = requires { requires transaction_type::logs_each_store; };

    [[gnu::noinline]] status let_go_counted(std::uint64_t payload) noexcept {
      if (auto room = room_of(payload); !room) return room.error();
      const std::uint64_t at = payload - sizeof(layout::object_header);
      layout::object_header h;
      std::memcpy(&h, heap_.base() + at, sizeof h);
      const auto a = layout::alignment_of(h, at);
      if (layout::is_type_of_library(h.type) || transaction_.has_allocated({at, sizeof h}) || !a)
        return release(payload);
      return transaction_.add_let_go(at + a->gap);
    }
    // One writer, the thread that has the lane.
    void take_turn(std::memory_order order) noexcept {
      turns_.store(turns_.load(std::memory_order_relaxed) + 1, order);
    }

    // Reports changed bytes and their old values before either are given up.
    void tell_changes(std::span<const isolation::written_line> lines) noexcept {
      // seq_cst: as watch_changes(); a watch that was set before this transaction began is seen.
      if (tx::change_watch* const watch = engine_.watch_.load(std::memory_order_seq_cst); watch != nullptr) [[unlikely]]
        tell_watch(*watch, lines);
    }
    [[gnu::noinline]] void tell_watch(tx::change_watch& to, std::span<const isolation::written_line> lines) noexcept {
      if (!to.begin(transaction_.lane())) return;
      const std::byte* const base = heap_.base();
      const auto both = [&](std::uint64_t o, std::uint64_t n, const std::byte* elsewhere) {
        to.values(o, n, elsewhere);
        to.values(o, n, base + o);
      };
      transaction_.each_old(both);
      transaction_.each_new(both);
      const std::uint64_t first = reinterpret_cast<std::uintptr_t>(base) / line_bytes;
      for (const auto& w : lines) {
        isolation::each_run(w.mask, [&](unsigned from, std::size_t n) {
          both((w.line - first) * line_bytes + from, n, w.bytes + from);
        });
      }
      transaction_.each_born([&](std::uint64_t header) { to.born(header); });
      transaction_.each_freed([&](std::uint64_t header) { to.freed(header); });
      to.end();
    }

    // Attaches the commit's changes of references to the commit.
    [[nodiscard]] status attach_references(std::span<const isolation::written_line> lines) noexcept {
      if (engine_.references_ == nullptr) [[likely]]
        return {};
      return transaction_.failure() == errc::ok ? tell_references(*engine_.references_, lines) : status{};
    }
    [[gnu::noinline]] status tell_references(tx::reference_log& to,
                                             std::span<const isolation::written_line> lines) noexcept {
      if (status s = transaction_.gather_objects(); !s) return s;
      const unsigned lane = transaction_.lane();
      to.begin(lane);
      transaction_.each_old([&](std::uint64_t o, std::uint64_t n, const std::byte* old) { to.was(lane, o, n, old); });
      transaction_.each_new(
          [&](std::uint64_t o, std::uint64_t n, const std::byte* now) { to.becomes(lane, o, n, now); });
      const std::uint64_t first = reinterpret_cast<std::uintptr_t>(heap_.base()) / line_bytes;
      for (const auto& w : lines) {
        isolation::each_run(w.mask, [&](unsigned from, std::size_t n) {
          to.becomes(lane, (w.line - first) * line_bytes + from, n, w.bytes + from);
        });
      }
      transaction_.each_born([&](std::uint64_t header) { to.born(lane, header); });
      transaction_.each_freed([&](std::uint64_t header) { to.freed(lane, header); });
      for (const std::uint64_t payload : transaction_.let_go()) to.let_go(lane, payload);
      attached_ = true;
      const auto what = to.finish(lane, *this);
      if (!what) return what.error();
      return what->words.empty() ? status{} : transaction_.attach(*what);
    }
    void references_ended(bool committed) noexcept {
      if (!attached_) [[likely]]
        return;
      attached_ = false;
      engine_.references_->ended(transaction_.lane(), committed);
    }

    void leave(std::vector<tx::hook>& hooks) noexcept {
      if (transaction_.has_hooks()) hooks = transaction_.take_hooks();
      take_turn(std::memory_order_release);
      give_lane();
    }
    void give_lane() noexcept {
      if (parked_) {
        heap_.lanes().leave(transaction_.lane());
      } else {
        heap_.lanes().release(transaction_.lane());
      }
    }
    heap_engine& engine_;
    heap_type& heap_;
    transaction_type& transaction_;
    std::atomic<std::uint64_t> turns_{0};  // begins and ends: odd while the transaction is open
    bool parked_ = false;
    bool attached_ = false;  // the running commit has reported references
  };

  // The face of a lane that this thread has just been given and that was never used.  On failure the lane is given up.
  [[gnu::noinline]] result<face*> make_face(unsigned lane, bool parked) noexcept {
    auto transaction = heap_.of_lane(lane);
    face* made = transaction ? new (std::nothrow) face{*this, **transaction} : nullptr;
    if (made != nullptr) {
      // release: pairs with the acquire in open_transactions().
      faces_[lane].store(made, std::memory_order_release);
      return made;
    }
    parked ? heap_.lanes().leave(lane) : heap_.lanes().release(lane);
    if (!transaction) return transaction.error();
    return fail(errc::no_memory, "%s: no volatile memory for a transaction", file_.path());
  }

  status relocate(const object::pointer_plans& plans, object::relocation_way way,
                  object::relocation_report& report) noexcept override try {
    const unsigned parts = file_.size_pages() < relocated_pages_per_thread ? 1 : platform::processors();
    auto& m = stack_->top();
    // A relocation is finished in the way in which it began: its objects bear numbers, or they do not.
    const bool begun = file_.bases().count > 1;
    if (way == object::relocation_way::by_page && file_.medium() == NVM_MEDIUM_SHM && !file_.read_only() &&
        !file_.numbers_objects()) {
      const auto started = start_by_page(plans, parts);
      if (!started) return started.error();
      if (*started) return {};
    }
    if (file_.numbers_objects() || (way == object::relocation_way::by_number && !begun)) {
      numbered n{*this};
      const status done = object::relocate_by_number(heap_.base(), file_.geometry(), plans, n, parts, report);
      return done ? m.durable(m.last_lsn()) : done;
    }
    const status done = object::relocate(
        m, heap_.base(), file_.geometry(), plans, file_, parts,
        [](unsigned n, auto&& f) { platform::run_parts(n, [&](unsigned part) noexcept { f(part); }); },
        [this](std::span<const tx::assigned_word> words) { return store_words(words); }, report);
    return done ? m.durable(m.last_lsn()) : done;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "%s: no volatile memory to relocate it", file_.path());
  }
  status move_statics(const object::pointer_plans& plans, const object::static_mover& to,
                      object::relocation_report& report) noexcept override try {
    const unsigned parts = file_.size_pages() < relocated_pages_per_thread ? 1 : platform::processors();
    auto& m = stack_->top();
    const status done = object::move_all(
        m, heap_.base(), file_.geometry(), plans, to, plans.some_packed(), parts,
        [](unsigned n, auto&& f) { platform::run_parts(n, [&](unsigned part) noexcept { f(part); }); },
        [this](std::span<const tx::assigned_word> words) { return store_words(words); }, report);
    return done ? m.durable(m.last_lsn()) : done;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "%s: no volatile memory to put its static pointers right", file_.path());
  }
  status reset_fields(const object::reset_plans& plans, object::reset_report& report) noexcept override {
    const unsigned parts = file_.size_pages() < relocated_pages_per_thread ? 1 : platform::processors();
    std::mutex lock;
    platform::run_parts(parts, [&](unsigned part) noexcept {
      object::reset_report done;
      object::reset_part(heap_.base(), file_.geometry(), plans, part, parts, done);
      const std::lock_guard guard{lock};
      report.objects += done.objects;
      report.bytes += done.bytes;
    });
    return {};
  }
  // Pool of page_by_page: its objects are reached through another mapping.
  struct paged final : paged_pool {
    paged(heap_engine& e, std::byte* memory, const object::pointer_plans& plans, bool goes_on)
        : of{e},
          all{e.stack_->top(), memory, e.file_.geometry(), plans, {e.file_.bases(), e.file_.address(), goes_on}} {}
    [[nodiscard]] std::uint64_t pages() const noexcept override { return all.pages(); }
    [[nodiscard]] std::uint64_t pages_left() const noexcept override { return all.pages_left(); }
    [[nodiscard]] const object::relocation_report& report() const noexcept override { return all.report(); }
    void put_right(std::uint64_t page) noexcept override { all.put_right(page); }
    void settle() noexcept override { all.settle(); }
    status finish() noexcept override { return of.file_.finish_relocation(of.stack_->top()); }
    heap_engine& of;
    object::page_relocation<medium_type> all;
  };
  // false: the system does not allow it, or the pool has pointers that no single store replaces.  May throw
  // std::bad_alloc.
  result<bool> start_by_page(const object::pointer_plans& plans, unsigned parts) {
    const auto run = [](unsigned n, auto&& f) { platform::run_parts(n, [&](unsigned part) noexcept { f(part); }); };
    const geometry g = file_.geometry();
    if (!plans.tell_all()) {
      const auto all = object::survey_all(heap_.base(), g, plans, parts, run);
      if (!all) return all.error();
      if (all->packed != 0) return false;
    }
    if (g.page_bytes() != platform::page_bytes()) return false;
    auto faults = platform::user_faults::open_shared(heap_.base(), g.capacity_bytes(), file_.file().descriptor(),
                                                     g.page_offset(0));
    if (!faults || !faults->in_system_calls()) return false;
    const bool goes_on = file_.bases().count > 1;
    if (status s = file_.begin_relocation(stack_->top()); !s) return s.error();
    auto pages = std::make_unique<paged>(*this, faults->twin(), plans, goes_on);
    if (status s = pages->all.look_at_page_map(parts, run); !s) return s.error();
    auto started = page_by_page::start(std::move(pages), std::move(*faults), heap_.base() + g.page_offset(0));
    if (!started) return started.error();
    by_page_ = std::move(*started);
    return true;
  }
  void add_relocated(object::relocation_report& report, std::uint64_t& pages_left) noexcept override {
    if (by_page_ != nullptr) by_page_->report(report, pages_left);
  }
  // This pool, as a relocation by transactions sees it.
  struct numbered final : object::numbered_pool {
    explicit numbered(heap_engine& e) noexcept : of{e} {}
    [[nodiscard]] std::uint64_t address() const noexcept override { return of.file_.address(); }
    [[nodiscard]] numbered_bases numbers() const noexcept override { return of.file_.numbers(); }
    [[nodiscard]] bool numbers_objects() const noexcept override { return of.file_.numbers_objects(); }
    status begin() noexcept override { return of.file_.begin_numbered_relocation(of.stack_->top()); }
    status prefer_base() noexcept override { return of.file_.prefer_base(of.stack_->top()); }
    status finish() noexcept override { return of.file_.finish_relocation(of.stack_->top()); }
    status store(std::span<const tx::assigned_word> words) noexcept override { return of.store_words(words); }
    void run(unsigned parts, const std::function<void(unsigned)>& f) override {
      platform::run_parts(parts, [&](unsigned part) noexcept { f(part); });
    }
    heap_engine& of;
  };
  // Stores words in one transaction; in a read-only pool, into the private copy.
  status store_words(std::span<const tx::assigned_word> words) noexcept {
    if (file_.read_only()) {
      for (const tx::assigned_word& w : words) std::memcpy(heap_.base() + w.offset, &w.value, sizeof w.value);
      return {};
    }
    const auto lane = heap_.lanes().acquire(0);
    if (!lane) return lane.error();
    auto t = heap_.of_lane(*lane);
    status done = t ? (*t)->begin() : status{t.error()};
    if (done) {
      for (const tx::assigned_word& w : words) {
        if (done) done = (*t)->assign(&w, 1);
      }
      if (!done) {
        (*t)->abort();
      } else if (const auto lsn = (*t)->commit(); !lsn) {
        done = lsn.error();
      }
    }
    heap_.lanes().release(*lane);
    return done;
  }
  status add_feature(std::uint32_t bits) noexcept override { return file_.add_feature(stack_->top(), bits); }
  status add_compatible_feature(std::uint32_t bits) noexcept override {
    return file_.add_compatible_feature(stack_->top(), bits);
  }

  result<std::uint64_t> grow(std::uint64_t pages) noexcept {
    const std::uint64_t before = file_.size_pages();
    auto grown = file_.grow(stack_->top(), pages);
    if (grown) {
      const std::uint64_t by = (*grown - before) << heap_.shape().page_shift;
      grown_bytes_.fetch_add(by, std::memory_order_relaxed);
    }
    return grown;
  }

  // Names the store of a place where no object was found.
  [[gnu::noinline]] errc not_found(std::uint64_t at, errc why) noexcept {
    if (why != errc::bad_pointer || heap_.places().cluster_holding(at) == 0 || stores_->holder(at) != nullptr)
      return why;
    return fail(why, "offset %lu lies in store %u, which is not attached", at, stores_->number_at(at));
  }
  result<object_facts> facts_of(std::uint64_t offset, std::uint64_t bytes, bool reserved) noexcept {
    const auto* header = reinterpret_cast<const layout::object_header*>(heap_.base() + offset);
    if (!layout::object_header_holds(*header, offset)) {
      return fail(errc::corrupt, "object header at offset %lu: found %016lx, which fails its check", offset,
                  header->size_generation_check);
    }
    // A check of 8 bits lets one damage in 256 pass: the size is believed only as far as the room goes.
    if (layout::object_size(*header) > bytes - sizeof *header) {
      return fail(errc::corrupt, "object at offset %lu: size: found %lu, expected at most %lu", offset,
                  layout::object_size(*header), bytes - sizeof *header);
    }
    return facts_from(*header, offset, bytes, reserved);
  }

  std::unique_ptr<Stack> stack_;
  pool_file& file_;
  tx::reference_log* references_ = nullptr;
  std::atomic<tx::change_watch*> watch_{nullptr};
  const bool begins_ordered_ = !platform::can_fence_all_threads();
  heap_type heap_;
  std::unique_ptr<std::atomic<face*>[]> faces_;  // of each lane; nullptr: never used
  std::unique_ptr<store_side> stores_;
  file_blocks<medium_type> blocks_{file_, stack_->top()};
  std::atomic<std::uint64_t> grown_bytes_{0};
  background_truncation truncation_;       // its thread ends before anything it uses
  std::unique_ptr<page_by_page> by_page_;  // likewise
};

// An engine on this stack of media, recovered and ready.  May throw std::bad_alloc.
template <engine_stack Stack, template <class> class Engine>
[[nodiscard]] result<std::unique_ptr<engine>> start(std::unique_ptr<Stack> on, pool_file& file, unsigned lanes,
                                                    bool background = false) {
  auto e = std::make_unique<heap_engine<Stack, Engine>>(std::move(on), file, lanes, background);
  if (status s = e->boot(); !s) return s.error();
  return std::unique_ptr<engine>{std::move(e)};
}

}  // namespace nvm::engines
