// holdfast kv load: entries from CSV or JSON lines.
//
// Loading is all or nothing unless --keep-going is given.  Input that fits one transaction is one.  Larger input goes
// into a store of its own, after a copy of the store's present entries, and that replaces the store in one step at the
// end of the input.  A load that died leaves it; the next load of that store drops it first.  Its name is none that a
// user would give.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/kv_actions.hpp"
#include "cli/kv_file.hpp"
#include "cli/progress.hpp"

namespace nvm::cli::kv_actions {
namespace {

// A transaction of load ends at the first of these.
constexpr std::size_t batch_entries = 1000;
constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t rejected_named_max = 100;

// Entries on their way into a store.
class loader {
 public:
  loader(call& c, std::string file, text_format format, entry_reader& reader, progress& line, const int& cause)
      : c_{c}, file_{std::move(file)}, format_{format}, reader_{reader}, line_{line}, cause_{cause} {}

  [[nodiscard]] std::optional<failure> run() {
    const bool keep_going = c_.given.flag("keep-going");
    text_entry e;
    for (bool more = true; more;) {
      switch (reader_.next(e)) {
        case entry_reader::answer::end:
          more = false;
          break;
        case entry_reader::answer::unreadable:
          return failure{exit_internal, place(reader_.line()), "NVM_E_SYSTEM", std::strerror(cause_)};
        case entry_reader::answer::problem:
          if (!keep_going) return bad_line();
          reject();
          break;
        case entry_reader::answer::entry:
          bytes_ += e.key.size() + e.value.size();
          waiting_.push_back(std::move(e));
          lines_.push_back(reader_.line());
          e = {};
          if (waiting_.size() < batch_entries && bytes_ < batch_bytes) break;
          if (auto f = keep_going ? commit_into(target()) : commit_into(stage())) return f;
          break;
      }
    }
    if (auto f = commit_into(stage_ || keep_going ? (keep_going ? target() : stage()) : target())) return f;
    return stage_ ? swap_in() : std::nullopt;
  }
  // Leaves no half-loaded store after.
  void clean_up() {
    if (!stage_) return;
    stage_.reset();
    (void)c_.drop_named(stage_name());
  }

  [[nodiscard]] json document() const {
    json answer = c_.answer();
    if (index_ != nullptr) answer["index"] = index_;
    answer["count"] = loaded_;
    answer.update(file_facts(file_, format_));
    if (c_.given.flag("keep-going")) {
      answer["rejected_count"] = rejected_count_;
      answer["rejected"] = rejected_;
    }
    return answer;
  }
  [[nodiscard]] std::uint64_t loaded() const noexcept { return loaded_; }
  [[nodiscard]] std::uint64_t rejected() const noexcept { return rejected_count_; }

 private:
  [[nodiscard]] std::string place(std::uint64_t line) const {
    return fmt::format("{}:{}", file_.empty() || file_ == "-" ? "standard input" : file_, line);
  }
  [[nodiscard]] failure bad_line() const { return {exit_internal, place(reader_.line()), "INPUT", reader_.problem()}; }
  void reject() { reject(reader_.line(), reader_.problem(), "INPUT"); }
  void reject(std::uint64_t line, const std::string& problem, const char* code) {
    if (++rejected_count_ <= rejected_named_max) rejected_.push_back({{"line", line}, {"problem", problem}});
    if (!c_.out.as_json()) line_.interrupt([&] { c_.out.error_line({exit_negative, place(line), code, problem}); });
  }

  [[nodiscard]] kv* opened(std::optional<kv>& store, const std::string& name) {
    if (store) return &*store;
    nvm_kv_options o{};
    o.index = index_wanted_ != NVM_KV_DETECT ? index_wanted_ : index_of(c_.given.choice("index").value_or(""));
    if (plain_wanted_.value_or(c_.given.flag("no-checksums"))) o.flags = NVM_KV_NO_CHECKSUMS;
    store = c_.open_named(name, o);
    if (!store) return nullptr;
    index_ = nvm_kv_index_name(store->index());
    return &*store;
  }
  [[nodiscard]] kv* target() { return opened(target_, c_.store); }
  [[nodiscard]] std::string stage_name() const { return "\x01loading " + c_.store; }
  // The store that replaces the other one at the end, with a copy of its entries.
  [[nodiscard]] kv* stage() {
    if (stage_) return &*stage_;
    if (!c_.drop_named(stage_name()) && nvm_errno() != NVM_E_NOT_FOUND) return nullptr;
    auto old = c_.open_store(false);
    if (!old && nvm_errno() != NVM_E_NOT_FOUND) return nullptr;
    if (old) index_wanted_ = old->index();
    if (old) plain_wanted_ = nvm_kv_has_checksums(old->handle()) == 0;
    kv* made = opened(stage_, stage_name());
    if (made == nullptr || !old) return made;
    // A list shows its newest entry first.
    std::vector<text_entry> copies;
    kv_cursor cursor = old->entries();
    const bool list = old->index() == NVM_KV_LIST;
    for (std::size_t bytes = 0; const auto e = cursor.next();) {
      copies.push_back({std::string{e->key}, std::string{e->value}});
      bytes += e->key.size() + e->value.size();
      if (list || (copies.size() < batch_entries && bytes < batch_bytes)) continue;
      if (!put_all(*made, copies, 0)) return nullptr;
      copies.clear();
      bytes = 0;
    }
    if (cursor.code() != NVM_OK) return nullptr;
    if (list) std::reverse(copies.begin(), copies.end());
    for (std::size_t i = 0; i < copies.size(); i += batch_entries) {
      const auto from = copies.begin() + static_cast<std::ptrdiff_t>(i);
      const auto to = copies.begin() + static_cast<std::ptrdiff_t>(std::min(copies.size(), i + batch_entries));
      if (!put_all(*made, {from, to}, list ? NVM_KV_PUT_NEW : 0)) return nullptr;
    }
    return made;
  }
  [[nodiscard]] static bool put_all(kv& store, const std::vector<text_entry>& entries, unsigned flags) {
    if (store.index() == NVM_KV_REGIONS) {
      return std::all_of(entries.begin(), entries.end(),
                         [&](const text_entry& e) { return static_cast<bool>(store.put(e.key, e.value, flags)); });
    }
    kv_batch batch;
    for (const text_entry& e : entries) batch.put(store, e.key, e.value, flags);
    return static_cast<bool>(batch.commit());
  }

  [[nodiscard]] std::optional<failure> commit_into(kv* store) {
    if (store == nullptr) return library_failure(c_.path);
    const bool in_regions = store->index() == NVM_KV_REGIONS;
    const bool staged = stage_ && store == &*stage_;
    kv_batch batch;
    for (const text_entry& e : waiting_) batch.put(*store, e.key, e.value);
    if (in_regions && staged) {
      // A group of regions takes less than a transaction, and no reader sees this store before the end.
      for (std::size_t i = 0; i < waiting_.size(); ++i, ++loaded_) {
        if (!store->put(waiting_[i].key, waiting_[i].value)) return failed_line(i);
      }
    } else if (batch.commit()) {
      loaded_ += waiting_.size();
    } else if (in_regions && !c_.given.flag("keep-going") && nvm_errno() == NVM_E_TOO_LARGE) {
      return commit_into(stage());  // like input that is too large for a batch
    } else if (!c_.given.flag("keep-going")) {
      return failed_line(std::min(batch.failed(), lines_.size() - 1));
    } else if (auto f = commit_one_by_one(*store)) {
      return f;
    }
    waiting_.clear();
    lines_.clear();
    bytes_ = 0;
    return std::nullopt;
  }
  [[nodiscard]] failure failed_line(std::size_t i) const {
    failure f = library_failure(c_.path);
    f.message = fmt::format("{}: {}", place(lines_[i]), f.message);
    return f;
  }
  [[nodiscard]] std::optional<failure> commit_one_by_one(kv& store) {
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (store.put(waiting_[i].key, waiting_[i].value)) {
        ++loaded_;
        continue;
      }
      failure f = library_failure(c_.path);
      // A failure of the pool concerns every entry.
      if (nvm_errno() != NVM_E_INVALID && nvm_errno() != NVM_E_TOO_LARGE) return f;
      reject(lines_[i], f.message, f.code.c_str());
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<failure> swap_in() {
    stage_.reset();
    target_.reset();
    if (c_.rename_named(stage_name(), c_.store)) return std::nullopt;
    failure f = library_failure(c_.path);
    (void)c_.drop_named(stage_name());
    return f;
  }

  call& c_;
  const std::string file_;
  const text_format format_;
  entry_reader& reader_;
  progress& line_;
  std::optional<kv> target_;
  std::optional<kv> stage_;
  enum nvm_kv_index index_wanted_ = NVM_KV_DETECT;
  std::optional<bool> plain_wanted_;  // without checksums, as the store that is replaced
  const char* index_ = nullptr;
  std::vector<text_entry> waiting_;
  std::vector<std::uint64_t> lines_;
  std::size_t bytes_ = 0;
  const int& cause_;  // errno of input that could not be read
  std::uint64_t loaded_ = 0;
  std::uint64_t rejected_count_ = 0;
  json rejected_ = json::array();
};

}  // namespace

exit_code load(call& c) {
  const std::string& file = c.given.operand(2);
  const text_format format = format_of(c.given, file);
  text_file from{file, false};
  if (!from.is_open()) return c.out.fail(from.problem());
  if (!c.open(true)) return c.failed();
  std::optional<failure> wrong;
  json answer;
  std::uint64_t loaded = 0;
  std::uint64_t rejected = 0;
  {
    std::atomic<std::uint64_t> done{0};
    const std::uint64_t all = from.bytes();
    std::function<double()> share;
    if (all != 0) share = [&] { return std::min(1.0, static_cast<double>(done.load()) / static_cast<double>(all)); };
    progress line{c.out, fmt::format("loading {}", c.store), share};
    int cause = 0;
    entry_reader reader{format,
                        [&](char* to, std::size_t room) -> std::optional<std::size_t> {
                          const std::size_t n = std::fread(to, 1, room, from.get());
                          done += n;
                          if (n != 0 || std::ferror(from.get()) == 0) return n;
                          cause = errno;
                          return std::nullopt;
                        },
                        !c.given.flag("no-header")};
    loader l{c, file, format, reader, line, cause};
    wrong = l.run();
    if (wrong) l.clean_up();
    loaded = l.loaded();
    rejected = l.rejected();
    answer = l.document();
  }
  if (wrong) return c.out.fail(*wrong);
  c.out.text("{}: {} entries loaded into {}\n", c.path, loaded, c.store);
  if (rejected != 0) c.out.text("{} rejected\n", rejected);
  c.out.document(answer);
  return rejected == 0 ? exit_good : exit_negative;
}

}  // namespace nvm::cli::kv_actions
