// In place of src/engine/direct.cpp in the library that records: every write-back and fence of a pool, and every begin,
// announcement, allocation and end of its transactions, goes to the trace.
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "engine/direct.hpp"
#include "engine/direct_engines.hpp"
#include "engine/log.hpp"
#include "pool/log_table.hpp"
#include "tracer.hpp"

namespace nvm::engines {
namespace {

class tracing_sink final : public record_sink {
 public:
  ~tracing_sink() = default;
  void flush(const void* p, std::size_t bytes, site where) noexcept override {
    recording::flush(p, bytes, where.file, where.line);
  }
  void fence(edge e) noexcept override { recording::fence(e.name); }
  void publish(std::span<const recorded_range>, edge, lsn_t, errc) noexcept override {}
  void durable_begin(lsn_t) noexcept override {}
  void durable_end(lsn_t, errc) noexcept override {}
};

// The direct medium without its promise that stores survive by themselves, which shared memory makes: lock-free
// structures write back nothing then, and the states are those of memory that needs it.
class written_back_media {
 public:
  static constexpr bool atomic_batches = direct_media::atomic_batches;
  using batch = direct_media::batch;
  explicit written_back_media(isa::write_back with) noexcept : medium_{with} {}
  [[nodiscard]] isa::write_back instruction() const noexcept { return medium_.instruction(); }
  void flush(const void* p, std::size_t bytes, site where = site::here()) noexcept { medium_.flush(p, bytes, where); }
  void fence(edge e) noexcept { medium_.fence(e); }
  [[nodiscard]] lsn_t last_lsn() noexcept { return medium_.last_lsn(); }
  status durable(lsn_t lsn) noexcept { return medium_.durable(lsn); }

 private:
  direct_media medium_;
};
static_assert(media<written_back_media>);

class recorded_stack {
 public:
  explicit recorded_stack(isa::write_back with) noexcept : medium_{with}, recorder_{medium_, sink_} {}
  recorder<written_back_media>& top() noexcept { return recorder_; }
  static status close() noexcept { return {}; }
  static void statistics(nvm_statistics&) noexcept {}
  std::uint32_t persist() const noexcept { return persist_of(medium_.instruction()); }

 private:
  written_back_media medium_;
  tracing_sink sink_;
  recorder<written_back_media> recorder_;
};

class recorded_transaction final : public open_transaction {
 public:
  recorded_transaction(open_transaction& inner, const std::byte* base) noexcept : inner_{inner}, base_{base} {}
  [[nodiscard]] unsigned depth() const noexcept override { return inner_.depth(); }
  [[nodiscard]] tx::log_room room() const noexcept override { return inner_.room(); }
  [[nodiscard]] errc failure() const noexcept override { return inner_.failure(); }
  status begin() noexcept override { return inner_.begin(); }
  status announce(const log::byte_range* ranges, std::size_t count) noexcept override {
    status s = inner_.announce(ranges, count);
    if (!s) return s;
    for (std::size_t i = 0; i < count; ++i) recording::logged(base_ + ranges[i].offset, ranges[i].bytes);
    return s;
  }
  [[nodiscard]] bool covers(const log::byte_range& range) noexcept override { return inner_.covers(range); }
  result<std::uint64_t> allocate(std::uint32_t type, std::uint64_t bytes) noexcept override {
    auto payload = inner_.allocate(type, bytes);
    if (payload) recording::fresh(base_ + *payload, bytes);
    return payload;
  }
  result<std::uint64_t> allocate_in(const store_attachment& store, std::uint32_t type,
                                    std::uint64_t bytes) noexcept override {
    auto payload = inner_.allocate_in(store, type, bytes);
    if (payload) recording::fresh(base_ + *payload, bytes);
    return payload;
  }
  // The library alone writes to clusters' headers.
  result<std::uint64_t> allocate_cluster(std::uint64_t pages, std::uint64_t bytes) noexcept override {
    return inner_.allocate_cluster(pages, bytes);
  }
  status release_cluster(std::uint64_t offset) noexcept override { return inner_.release_cluster(offset); }
  status release(std::uint64_t payload) noexcept override { return inner_.release(payload); }
  status let_go(std::uint64_t payload) noexcept override { return inner_.let_go(payload); }
  status set_reference_rings(std::uint64_t payload) noexcept override { return inner_.set_reference_rings(payload); }
  status assign_all(std::span<const tx::assigned_bytes> words) noexcept override { return inner_.assign_all(words); }
  [[nodiscard]] unsigned lane() const noexcept override { return inner_.lane(); }
  result<std::uint64_t> room_of(std::uint64_t payload) noexcept override { return inner_.room_of(payload); }
  status set_root(std::uint64_t payload) noexcept override { return inner_.set_root(payload); }
  status publish_types(const void* map, std::uint64_t bytes) noexcept override {
    return inner_.publish_types(map, bytes);
  }
  status on(int event, void (*call)(), void* argument) noexcept override { return inner_.on(event, call, argument); }
  errc doom(errc why) noexcept override { return inner_.doom(why); }
  status commit_level() noexcept override { return inner_.commit_level(); }
  void abort_level(std::vector<tx::hook>& hooks) noexcept override { inner_.abort_level(hooks); }
  result<lsn_t> commit(std::vector<tx::hook>& hooks) noexcept override {
    auto lsn = inner_.commit(hooks);
    recording::tx_end(base_, lsn.has_value());
    return lsn;
  }
  void abort(std::vector<tx::hook>& hooks) noexcept override {
    inner_.abort(hooks);
    recording::tx_end(base_, false);
  }
  [[nodiscard]] bool writes_back() const noexcept override { return inner_.writes_back(); }
  status enter_commit(std::span<const isolation::written_line> lines) noexcept override {
    return inner_.enter_commit(lines);
  }
  result<lsn_t> commit_lines(std::span<const isolation::written_line> lines, std::uint64_t version,
                             std::vector<tx::hook>& hooks) noexcept override {
    for (const auto& w : lines) {
      recording::logged(reinterpret_cast<const std::byte*>(w.line * line_bytes), line_bytes);
    }
    auto lsn = inner_.commit_lines(lines, version, hooks);
    recording::tx_end(base_, lsn.has_value());
    return lsn;
  }

 private:
  open_transaction& inner_;
  const std::byte* base_;
};

class recorded_engine final : public engine {
 public:
  recorded_engine(std::unique_ptr<engine> inner, pool_file& file, unsigned lanes)
      : inner_{std::move(inner)}, file_{file}, base_{file.base()}, transactions_(lanes) {}
  // The pool is still mapped.
  ~recorded_engine() override {
    const auto bytes = file_.file().size();
    recording::pool_closed(base_, bytes ? *bytes : 0);
  }
  recorded_engine(const recorded_engine&) = delete;

  result<open_transaction*> begin(unsigned& lane, bool& parked) noexcept override {
    auto begun = inner_->begin(lane, parked);
    if (!begun) return begun;
    // This thread owns the lane now, and its wrapper with it.
    std::unique_ptr<recorded_transaction>& t = transactions_[(*begun)->lane()];
    if (t == nullptr) t.reset(new (std::nothrow) recorded_transaction{**begun, base_});
    if (t == nullptr) {
      std::vector<tx::hook> none;
      (*begun)->abort(none);
      return fail(errc::no_memory, "no volatile memory for a recorded transaction");
    }
    recording::tx_begin(base_);
    return t.get();
  }
  void give_back(unsigned lane) noexcept override { inner_->give_back(lane); }
  [[nodiscard]] unsigned open_transactions() const noexcept override { return inner_->open_transactions(); }
  status wait(lsn_t lsn) noexcept override { return inner_->wait(lsn); }
  bool is_durable(lsn_t lsn) noexcept override { return inner_->is_durable(lsn); }
  status relocate(const object::pointer_plans& plans, object::relocation_way way,
                  object::relocation_report& report) noexcept override {
    // Stores through another mapping would not be recorded.
    return inner_->relocate(plans, way == object::relocation_way::by_page ? object::relocation_way::by_value : way,
                            report);
  }
  status move_statics(const object::pointer_plans& plans, const object::static_mover& to,
                      object::relocation_report& report) noexcept override {
    return inner_->move_statics(plans, to, report);
  }
  [[nodiscard]] bool rebuilds_pages() const noexcept override { return inner_->rebuilds_pages(); }
  status reset_fields(const object::reset_plans& plans, object::reset_report& report) noexcept override {
    return inner_->reset_fields(plans, report);
  }
  status add_feature(std::uint32_t bits) noexcept override { return inner_->add_feature(bits); }
  status add_compatible_feature(std::uint32_t bits) noexcept override { return inner_->add_compatible_feature(bits); }
  void count_references(tx::reference_log* log) noexcept override { inner_->count_references(log); }
  void watch_changes(tx::change_watch* watch) noexcept override { inner_->watch_changes(watch); }
  void order_turns() noexcept override { inner_->order_turns(); }
  std::optional<std::uint32_t> attached_end(unsigned lane) noexcept override { return inner_->attached_end(lane); }
  [[nodiscard]] std::uint64_t turns_of(unsigned lane) const noexcept override { return inner_->turns_of(lane); }
  result<std::uint64_t> reference_rings() noexcept override { return inner_->reference_rings(); }
  result<std::uint64_t> root() noexcept override { return inner_->root(); }
  result<object::type_map> types() noexcept override { return inner_->types(); }
  result<object_facts> find(std::uint64_t payload) noexcept override { return inner_->find(payload); }
  result<object_facts> find_around(std::uint64_t at) noexcept override { return inner_->find_around(at); }
  result<int> each(int (*visit)(void*, const object_facts&), void* argument) noexcept override {
    return inner_->each(visit, argument);
  }
  status build_index(unsigned threads) noexcept override { return inner_->build_index(threads); }
  std::uint64_t used_pages() noexcept override { return inner_->used_pages(); }
  status trim(const trim_wishes& wishes, trim_outcome& out) noexcept override { return inner_->trim(wishes, out); }
  void statistics(nvm_statistics& out) noexcept override { inner_->statistics(out); }
  [[nodiscard]] unsigned lanes() const noexcept override { return inner_->lanes(); }
  [[nodiscard]] std::uint32_t persist() const noexcept override { return inner_->persist(); }
  [[nodiscard]] const tx::recovery_report& recovered() const noexcept override { return inner_->recovered(); }
  // Their write-backs and fences are those of the recorded medium; all of them begin no transaction of their own.
  result<std::unique_ptr<structure_side>> open_structures(const structure_settings& settings,
                                                          open_store* in) noexcept override {
    return inner_->open_structures(settings, in);
  }
  result<std::unique_ptr<region_side>> open_regions(region_wishes wishes) noexcept override {
    // Without a thread of the library: its stores would make a program of one thread look like one of two.
    wishes.wake = nullptr;
    return inner_->open_regions(std::move(wishes));
  }
  result<store_side*> stores() noexcept override { return inner_->stores(); }
  status come_to_rest(bool exiting) noexcept override { return inner_->come_to_rest(exiting); }

 private:
  std::unique_ptr<engine> inner_;
  pool_file& file_;
  const std::byte* base_;
  std::vector<std::unique_ptr<recorded_transaction>> transactions_;  // of each lane; each of one thread at a time
};

started is_no_subject(pool_file& file) {
  return fail(errc::engine, "%s: its engine is there to be compared with; crash-test does not record it", file.path());
}

started start_redo_alone(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes) {
  return start_redo(std::move(on), file, lanes, false);
}

struct recorded_start {
  log_kind kind;
  // Null: crash-test has no such subject.
  started (*start)(std::unique_ptr<any_direct_stack> on, pool_file& file, unsigned lanes);
};
constexpr log_table<recorded_start> starts{{{
    {log_kind::lanes, start_undo},
    {log_kind::rings, start_redo_alone},
    {log_kind::new_words, nullptr},
    {log_kind::old_words, nullptr},
    {log_kind::none, nullptr},
}}};

}  // namespace

started start_mnemosyne(std::unique_ptr<any_direct_stack>, pool_file& file, unsigned) { return is_no_subject(file); }
started start_mnemosyne_undo(std::unique_ptr<any_direct_stack>, pool_file& file, unsigned) {
  return is_no_subject(file);
}

result<std::unique_ptr<engine>> start_on_direct(pool_file& file, std::uint32_t persist, bool /*measured*/,
                                                const latency_settings& emulated, bool /*background*/,
                                                const log_choice& log) {
  auto with = write_back_of(file, persist);
  if (!with) return with.error();
  const auto start_heap = starts[log_of(file.superblock())].start;
  if (is_log(file)) {
    if (recording::on() && !file.read_only()) {
      return fail(errc::engine, "%s: engine log: crash-test does not record it", file.path());
    }
    return start_log(file, *with, false, emulated, log);
  }
  if (start_heap == nullptr) return is_no_subject(file);
  const unsigned lanes = file.geometry().lane_count;
  if (file.read_only() || !recording::on())
    return start_heap(as_any<structures_here::yes>(std::make_unique<direct_stack>(*with)), file, lanes);
  auto file_bytes = file.file().size();
  if (!file_bytes) return file_bytes.error();
  recording::pool_opened(file.base(), file.geometry().capacity_bytes(), *file_bytes, file.path());
  auto inner = start_heap(as_any<structures_here::yes>(std::make_unique<recorded_stack>(*with)), file, lanes);
  if (!inner) return inner;
  return std::unique_ptr<engine>{std::make_unique<recorded_engine>(std::move(*inner), file, lanes)};
}

}  // namespace nvm::engines
