// holdfast kv: the key-value stores of a pool, from the command line.
//
// Loading is all or nothing unless asked otherwise.  What fits one transaction is one; more goes into a store of its
// own, NAME.loading, together with what the store has already, and takes its place in one step when the input has come
// to its end.  A load that died leaves that store behind; the next one begins by dropping it.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/kv_text.hpp"
#include "cli/progress.hpp"
#include "nvm/kv.hpp"
#include "platform/platform.hpp"

namespace nvm::cli {
namespace {

constexpr std::string_view actions[] = {"put", "get", "del", "scan", "load", "export", "stores", "stat", "drop"};
constexpr std::string_view index_names[] = {"list", "hash", "btree", "rbtree"};
constexpr std::string_view formats[] = {"csv", "jsonl"};
constexpr operand operands[] = {
    {"ACTION", operand_kind::choice, true,
     "put, get, del (an entry), scan (entries in order), load, export (CSV or JSON lines), stores (list them), stat "
     "(count and check), drop (a store)",
     actions},
    {"PATH", operand_kind::pool_file, true, "the pool; nobody else may have it open for writing"},
    {"WHAT", operand_kind::pool_file, false,
     "put, get, del: the key. load, export: the file; left out or -: standard input or output"},
    {"VALUE", operand_kind::text, false, "put: the value; left out or -: standard input to its end"},
};
constexpr option options[] = {
    {"store", value_kind::text, "NAME", "which store of the pool; default \"main\""},
    {"index", value_kind::choice, "INDEX",
     "put, load: index of the store if it has to be made; default btree. An existing one must have it", index_names},
    {"no-checksums", value_kind::flag, "",
     "put, load: a store that has to be made gets no checksums; an existing one is as it was made"},
    {"format", value_kind::choice, "FORMAT", "load, export: default from the end of the file's name, else csv",
     formats},
    {"no-header", value_kind::flag, "", "load: a first CSV record key,value is an entry; export: write none"},
    {"keep-going", value_kind::flag, "",
     "load: take the entries that are good, one batch after the other, report the rest"},
    {"salvage", value_kind::flag, "",
     "export: everything that can be read of a damaged pool, which is not opened; what is lost is listed"},
    {"base64", value_kind::flag, "", "put, get, del, scan: keys and values are given and printed in base64"},
    {"from", value_kind::text, "KEY", "scan: begin there; of trees only"},
    {"to", value_kind::text, "KEY", "scan: end before it"},
    {"limit", value_kind::count, "N", "scan: at most N entries"},
    {"backward", value_kind::flag, "", "scan: from larger to smaller keys"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"action", "as given"},
    {"store", "its name; not with stores"},
    {"index", "list, hash, btree or rbtree"},
    {"found", "get, del: whether there was such an entry; put: whether it replaced one"},
    {"value", "get: the value"},
    {"value_base64", "in its place if it is no UTF-8, or with --base64"},
    {"entries[].key", "scan, export without a file: in order"},
    {"entries[].key_base64", "in its place, as for values"},
    {"entries[].value", "of the entry"},
    {"entries[].value_base64", "in its place"},
    {"count", "entries scanned, loaded, exported; of stat and drop: in the store"},
    {"file", "load, export: as given, null: standard input or output"},
    {"format", "load, export: csv or jsonl"},
    {"led_to_count", "export --salvage: entries that links lead to and whose checksum holds"},
    {"swept_count", "export --salvage: entries that no sound link leads to, and whose checksum holds"},
    {"unproved_count", "export --salvage: entries that links lead to, without a checksum to compare with"},
    {"lost[].offset", "export --salvage: where something is damaged or missing"},
    {"lost[].key", "of the entry, as far as it can be read"},
    {"lost[].key_base64", "in its place, as for values"},
    {"lost[].problem", "sentence"},
    {"rejected_count", "load --keep-going: records that were not taken"},
    {"rejected[].line", "of the first hundred: line that it begins on"},
    {"rejected[].problem", "sentence"},
    {"stores[].name", "stores: in the order of names"},
    {"stores[].index", "of the store"},
    {"key_bytes", "stat: sum over all entries"},
    {"value_bytes", "stat: sum over all entries"},
    {"checksums", "stat: whether entries have them"},
    {"depth", "stat: of trees, nodes to an entry; of hash tables the level"},
    {"buckets", "stat: of a hash table"},
    {"overflow_buckets", "stat: of a hash table"},
    {"longest_chain", "stat: buckets"},
    {"leaves", "stat: of a B+tree"},
    {"inner_nodes", "stat: of a B+tree"},
    {"load", "stat: entries a slot of the index"},
};
constexpr std::string_view examples[] = {"holdfast kv put shop.nvm apple 17 --index hash",
                                         "holdfast kv get shop.nvm apple",
                                         "holdfast kv load shop.nvm prices.csv --store prices",
                                         "holdfast kv scan shop.nvm --store prices --from a --limit 10",
                                         "holdfast kv export shop.nvm prices.jsonl --store prices"};

constexpr std::size_t batch_entries = 1000;
constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t rejected_named_max = 100;

enum nvm_kv_index index_of(const std::string& name) {
  for (int i = NVM_KV_LIST; i <= NVM_KV_RBTREE; ++i) {
    if (name == nvm_kv_index_name(i)) return static_cast<enum nvm_kv_index>(i);
  }
  return NVM_KV_DETECT;
}

// Bytes as a person can read them on one line.
std::string printable(std::string_view bytes) {
  std::string text;
  const bool whole = is_utf8(bytes);
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\\') {
      text += "\\\\";
    } else if (u < 0x20 || u == 0x7F || (u >= 0x80 && !whole)) {
      text += fmt::format("\\x{:02x}", u);
    } else {
      text += c;
    }
  }
  return text;
}

void add_bytes(json& o, const std::string& name, std::string_view bytes, bool base64) {
  if (base64 || !is_utf8(bytes)) {
    o[name + "_base64"] = base64_of(bytes);
  } else {
    o[name] = bytes;
  }
}

// A file that is closed at the end, or one of the standard ones.  What is written gets its name when it is whole; until
// then the name leads to what it led to before.
class text_file {
 public:
  text_file(const std::string& path, bool write) : path_{path} {
    if (path.empty() || path == "-") {
      file_ = write ? stdout : stdin;
      return;
    }
    owned_ = true;
    struct stat there{};
    const bool replaces = ::stat(path.c_str(), &there) == 0;
    if (!write || (replaces && !S_ISREG(there.st_mode))) {  // a pipe, a device
      file_ = std::fopen(path.c_str(), write ? "wb" : "rb");
      return;
    }
    ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like another
    auto begun = name_.begin(path.c_str(), 0666, platform::pending_name::kind::named);
    if (!begun) {
      problem_ = last_message();
      return;
    }
    made_ = std::move(*begun);
    if (replaces) (void)::fchmod(made_.descriptor(), there.st_mode & 07777);
    file_ = std::fopen(name_.temporary().c_str(), "wb");
  }
  ~text_file() {
    if (owned_ && file_ != nullptr) std::fclose(file_);
  }
  text_file(const text_file&) = delete;
  text_file& operator=(const text_file&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return file_ != nullptr; }
  [[nodiscard]] std::FILE* get() const noexcept { return file_; }
  // 0: not a file of known size.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    struct stat s{};
    return ::fstat(::fileno(file_), &s) == 0 && S_ISREG(s.st_mode) ? static_cast<std::uint64_t>(s.st_size) : 0;
  }
  // What went wrong with it, errno saying why.
  [[nodiscard]] failure problem() const {
    return {exit_internal, path_.empty() || path_ == "-" ? "standard input" : path_, "NVM_E_SYSTEM",
            problem_.empty() ? std::strerror(errno) : problem_};
  }
  // Everything written has reached the file, which has its name from now on.
  [[nodiscard]] bool finish() {
    if (!owned_) return std::fflush(file_) == 0;
    const bool failed = std::ferror(file_) != 0;
    const int closed = std::fclose(file_);
    file_ = nullptr;
    if (failed || closed != 0) return false;
    if (!made_ || name_.replace(made_)) return true;
    problem_ = last_message();
    return false;
  }

 private:
  std::string path_;
  platform::pending_name name_;
  platform::file made_;
  std::FILE* file_ = nullptr;
  bool owned_ = false;
  std::string problem_;
};

struct call {
  const arguments& given;
  console& out;
  const std::string& action = given.operand(0);
  const std::string& path = given.operand(1);
  std::string store = given.text("store").empty() ? "main" : given.text("store");
  bool base64 = given.flag("base64");
  std::optional<pool> at{};

  [[nodiscard]] json answer() const {
    json o = {{"path", path}, {"action", action}};
    if (action != "stores") o["store"] = store;
    return o;
  }
  [[nodiscard]] exit_code misused(std::string what) const {
    return out.fail({exit_usage, "kv " + action, "USAGE", std::move(what)});
  }
  [[nodiscard]] exit_code failed() const { return out.fail_library(path); }

  [[nodiscard]] bool open(bool for_change) {
    nvm_pool_options o{};
    o.read_only = for_change ? 0 : 1;
    at = pool::open(path.c_str(), o);
    return at.has_value();
  }
  [[nodiscard]] std::optional<kv> open_store(bool make) const {
    nvm_kv_options o{};
    o.index = index_of(given.choice("index").value_or(""));
    o.mode = make ? NVM_KV_OPEN_OR_CREATE : NVM_KV_OPEN_ONLY;
    o.flags = NVM_KV_VERIFY_READS | (given.flag("no-checksums") ? unsigned{NVM_KV_NO_CHECKSUMS} : 0U);
    return kv::open(*at, store.c_str(), o);
  }
  // An operand or option as bytes; nothing: it is no base64.
  [[nodiscard]] std::optional<std::string> bytes_of(const std::string& text) const {
    return base64 ? bytes_of_base64(text) : std::optional{text};
  }
};

// ---- one entry ----

exit_code put(call& c) {
  std::string text = c.given.operand(3);
  const bool from_standard = c.given.operands() < 4 || text == "-";
  if (from_standard) {
    text.clear();
    if (::isatty(STDIN_FILENO) == 1) {
      c.out.note("the value of \"{}\", to the end of the input (Ctrl-D):", printable(c.given.operand(2)));
    }
    char part[4096];
    for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, stdin)) != 0;) text.append(part, n);
    if (std::ferror(stdin) != 0)
      return c.out.fail({exit_internal, "standard input", "NVM_E_SYSTEM", std::strerror(errno)});
  }
  const auto key = c.bytes_of(c.given.operand(2));
  const auto value = from_standard ? std::optional{text} : c.bytes_of(text);
  if (!key || !value) return c.misused("the key or the value is no base64");
  if (!c.open(true)) return c.failed();
  auto store = c.open_store(true);
  if (!store) return c.failed();
  const bool found = store->contains(*key);
  if (!store->put(*key, *value)) return c.failed();
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["found"] = found;
  c.out.document(answer);
  return exit_good;
}

exit_code get(call& c) {
  const auto key = c.bytes_of(c.given.operand(2));
  if (!key) return c.misused("the key is no base64");
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto value = store->get(*key);
  if (value.code() != NVM_OK) return c.failed();
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["found"] = value.has_value();
  if (value) {
    c.out.text("{}\n", c.base64 ? base64_of(*value) : *value);
    add_bytes(answer, "value", *value, c.base64);
  }
  c.out.document(answer);
  return value ? exit_good : exit_negative;
}

exit_code del(call& c) {
  const auto key = c.bytes_of(c.given.operand(2));
  if (!key) return c.misused("the key is no base64");
  if (!c.open(true)) return c.failed();
  auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto removed = store->remove(*key);
  if (removed.code() != NVM_OK) return c.failed();
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["found"] = removed.has_value();
  c.out.document(answer);
  return removed ? exit_good : exit_negative;
}

// ---- many ----

// Printed as they are walked: a store may hold more than fits into memory as text.
exit_code print_entries(call& c, const kv& store, const kv_range& range) {
  kv_cursor cursor = store.entries(range);
  std::uint64_t count = 0;
  json head = c.answer();
  head["index"] = nvm_kv_index_name(store.index());
  if (c.out.as_json()) {
    std::string text = line_of(head);
    text.pop_back();
    fmt::print(stdout, "{}, \"entries\": [", text);
  }
  while (const auto e = cursor.next()) {
    ++count;
    if (c.out.as_json()) {
      json o;
      add_bytes(o, "key", e->key, c.base64);
      add_bytes(o, "value", e->value, c.base64);
      fmt::print(stdout, "{}\n  {}", count == 1 ? "" : ",", line_of(o));
    } else if (c.base64) {
      c.out.text("{}\t{}\n", base64_of(e->key), base64_of(e->value));
    } else {
      c.out.text("{}\t{}\n", printable(e->key), printable(e->value));
    }
  }
  failure broken;
  if (cursor.code() != NVM_OK) broken = library_failure(c.path);
  if (c.out.as_json()) {
    fmt::print(stdout, "{}], \"count\": {}", count == 0 ? "" : "\n", count);
    if (cursor.code() != NVM_OK) fmt::print(stdout, ", \"error\": {}", line_of(document_of(broken)));
    fmt::print(stdout, "}}\n");
  }
  if (cursor.code() == NVM_OK) return exit_good;
  c.out.error_line(broken);
  return broken.exit;
}

exit_code scan(call& c) {
  const auto from = c.bytes_of(c.given.text("from"));
  const auto to = c.bytes_of(c.given.text("to"));
  if (!from || !to) return c.misused("--from or --to is no base64");
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  kv_range range;
  if (c.given.flag("from")) range.from = *from;
  if (c.given.flag("to")) range.to = *to;
  range.limit = c.given.number("limit").value_or(0);
  range.backward = c.given.flag("backward");
  if (c.given.number("limit") == 0) return c.misused("--limit: 0 entries");
  return print_entries(c, *store, range);
}

text_format format_of(const arguments& given, const std::string& file) {
  const std::string name = given.choice("format").value_or("");
  const auto ends = [&](std::string_view end) { return file.ends_with(end); };
  const bool lines = name.empty() ? ends(".jsonl") || ends(".ndjson") || ends(".json") : name == "jsonl";
  return lines ? text_format::json_lines : text_format::csv;
}
std::string_view name_of(text_format f) { return f == text_format::csv ? "csv" : "jsonl"; }

json file_facts(const std::string& file, text_format format) {
  return {{"file", file.empty() || file == "-" ? json(nullptr) : json(file)}, {"format", name_of(format)}};
}

// The entries are the document.
exit_code export_document(call& c) {
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  return print_entries(c, *store, {});
}

// What can be read of a damaged pool, without opening it.
struct salvage_run {
  call& c;
  std::FILE* to;
  text_format format;
  progress& line;
  bool with_head;  // is still to be written
  bool written = true;
  std::uint64_t counts[4]{};  // by enum nvm_kv_proof
  json lost = json::array();
  std::exception_ptr thrown{};  // no exception may cross the library

  void print(const std::string& text) {
    written = written && std::fwrite(text.data(), 1, text.size(), to) == text.size();
  }
  void head() {
    if (with_head) print(text_head(format));
    with_head = false;
  }
  void entry(const nvm_kv_entry& e, enum nvm_kv_proof proof) {
    head();
    ++counts[proof];
    print(text_of(format, {static_cast<const char*>(e.key), e.key_bytes},
                  {static_cast<const char*>(e.value), e.value_bytes}));
  }
  void add_lost(std::uint64_t place, std::optional<std::string_view> key, const char* what) {
    json o = {{"offset", place}, {"problem", what}};
    if (key) add_bytes(o, "key", *key, c.base64);
    lost.push_back(std::move(o));
    if (c.out.as_json()) return;
    const std::string of = key ? fmt::format("entry \"{}\", ", printable(*key)) : std::string{};
    line.interrupt([&] {
      c.out.error_line({exit_negative, c.path, "NVM_E_CORRUPT", fmt::format("{}offset {}: {}", of, place, what)});
    });
  }
  template <class Call>
  void guarded(Call&& call) noexcept {
    try {
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
  }
};

exit_code export_salvaged(call& c) {
  const std::string& file = c.given.operand(2);
  const bool to_standard = file.empty() || file == "-";
  if (c.out.as_json() && to_standard) return c.misused("--json and --salvage need a file to write to");
  const text_format format = format_of(c.given, file);
  text_file to{file, true};
  if (!to.is_open()) return c.out.fail(to.problem());
  progress line{c.out, fmt::format("salvaging {}", c.store)};
  salvage_run run{c, to.get(), format, line, !c.given.flag("no-header")};
  nvm_kv_salvage_options how{};
  how.argument = &run;
  how.entry = [](const nvm_kv_entry* e, enum nvm_kv_proof proof, void* raw) {
    auto& r = *static_cast<salvage_run*>(raw);
    r.guarded([&] { r.entry(*e, proof); });
  };
  how.lost = [](std::uint64_t place, const void* key, std::size_t bytes, const char* what, void* raw) {
    auto& r = *static_cast<salvage_run*>(raw);
    r.guarded([&] {
      r.add_lost(place,
                 key == nullptr ? std::nullopt : std::optional{std::string_view{static_cast<const char*>(key), bytes}},
                 what);
    });
  };
  const std::int64_t lost = nvm_kv_salvage(c.path.c_str(), c.store.c_str(), &how);
  if (run.thrown) std::rethrow_exception(run.thrown);
  if (lost < 0) return c.failed();
  run.head();
  if (!to.finish() || !run.written) return c.out.fail(to.problem());
  const std::uint64_t count = run.counts[NVM_KV_LED_TO] + run.counts[NVM_KV_SWEPT] + run.counts[NVM_KV_UNPROVED];
  const auto summary = fmt::format(
      "{} entries: {} as their links and checksums say, {} found by their checksum alone, {} "
      "without proof; {} findings",
      count, run.counts[NVM_KV_LED_TO], run.counts[NVM_KV_SWEPT], run.counts[NVM_KV_UNPROVED], lost);
  if (!to_standard) c.out.text("{}: {}\n", file, summary);
  json answer = c.answer();
  answer["count"] = count;
  answer["led_to_count"] = run.counts[NVM_KV_LED_TO];
  answer["swept_count"] = run.counts[NVM_KV_SWEPT];
  answer["unproved_count"] = run.counts[NVM_KV_UNPROVED];
  answer["lost"] = run.lost;
  answer.update(file_facts(file, format));
  c.out.document(answer);
  return lost == 0 ? exit_good : exit_negative;
}

exit_code export_entries(call& c) {
  const std::string& file = c.given.operand(2);
  const bool to_standard = file.empty() || file == "-";
  if (c.given.flag("salvage")) return export_salvaged(c);
  if (c.out.as_json() && to_standard) return export_document(c);
  const text_format format = format_of(c.given, file);
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto all = store->size();
  if (!all) return c.failed();
  text_file to{file, true};
  if (!to.is_open()) return c.out.fail(to.problem());
  std::uint64_t count = 0;
  bool written = true;
  {
    std::atomic<std::uint64_t> done{0};
    progress line{
        c.out, fmt::format("exporting {}", c.store),
        [&] { return *all == 0 ? 1.0 : std::min(1.0, static_cast<double>(done.load()) / static_cast<double>(*all)); }};
    const auto print = [&](const std::string& text) {
      written = written && std::fwrite(text.data(), 1, text.size(), to.get()) == text.size();
    };
    if (!c.given.flag("no-header")) print(text_head(format));
    kv_cursor cursor = store->entries();
    while (const auto e = cursor.next()) {
      print(text_of(format, e->key, e->value));
      done = ++count;
      if (!written) break;
    }
    if (cursor.code() != NVM_OK) return c.failed();
  }
  if (!to.finish() || !written) return c.out.fail(to.problem());
  if (!to_standard) c.out.text("{}: {} entries\n", file, count);
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(store->index());
  answer["count"] = count;
  answer.update(file_facts(file, format));
  c.out.document(answer);
  return exit_good;
}

// Entries on their way into a store.
class loader {
 public:
  loader(call& c, std::string file, text_format format, entry_reader& reader, progress& line)
      : c_{c}, file_{std::move(file)}, format_{format}, reader_{reader}, line_{line} {}

  [[nodiscard]] std::optional<failure> run() {
    const bool keep_going = c_.given.flag("keep-going");
    text_entry e;
    for (bool more = true; more;) {
      switch (reader_.next(e)) {
        case entry_reader::answer::end:
          more = false;
          break;
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
    (void)nvm_kv_drop(c_.at->handle(), stage_name().c_str());
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
    store = kv::open(*c_.at, name.c_str(), o);
    if (!store) return nullptr;
    index_ = nvm_kv_index_name(store->index());
    return &*store;
  }
  [[nodiscard]] kv* target() { return opened(target_, c_.store); }
  [[nodiscard]] std::string stage_name() const { return c_.store + ".loading"; }
  // The store that takes the place of the other one at the end, with all that is in that.
  [[nodiscard]] kv* stage() {
    if (stage_) return &*stage_;
    if (nvm_kv_drop(c_.at->handle(), stage_name().c_str()) != 0 && nvm_errno() != NVM_E_NOT_FOUND) return nullptr;
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
    kv_batch batch;
    for (const text_entry& e : entries) batch.put(store, e.key, e.value, flags);
    return static_cast<bool>(batch.commit());
  }

  [[nodiscard]] std::optional<failure> commit_into(kv* store) {
    if (store == nullptr) return library_failure(c_.path);
    kv_batch batch;
    for (const text_entry& e : waiting_) batch.put(*store, e.key, e.value);
    if (batch.commit()) {
      loaded_ += waiting_.size();
    } else if (!c_.given.flag("keep-going")) {
      failure f = library_failure(c_.path);
      f.message = fmt::format("{}: {}", place(lines_[std::min(batch.failed(), lines_.size() - 1)]), f.message);
      return f;
    } else if (auto f = commit_one_by_one(*store)) {
      return f;
    }
    waiting_.clear();
    lines_.clear();
    bytes_ = 0;
    return std::nullopt;
  }
  [[nodiscard]] std::optional<failure> commit_one_by_one(kv& store) {
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (store.put(waiting_[i].key, waiting_[i].value)) {
        ++loaded_;
        continue;
      }
      failure f = library_failure(c_.path);
      // What concerns the pool concerns every entry.
      if (nvm_errno() != NVM_E_INVALID && nvm_errno() != NVM_E_TOO_LARGE) return f;
      reject(lines_[i], f.message, f.code.c_str());
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<failure> swap_in() {
    stage_.reset();
    target_.reset();
    if (nvm_kv_rename(c_.at->handle(), stage_name().c_str(), c_.store.c_str()) == 0) return std::nullopt;
    failure f = library_failure(c_.path);
    (void)nvm_kv_drop(c_.at->handle(), stage_name().c_str());
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
  std::uint64_t loaded_ = 0;
  std::uint64_t rejected_count_ = 0;
  json rejected_ = json::array();
};

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
    entry_reader reader{format,
                        [&](char* to, std::size_t room) {
                          const std::size_t n = std::fread(to, 1, room, from.get());
                          done += n;
                          return n;
                        },
                        !c.given.flag("no-header")};
    loader l{c, file, format, reader, line};
    wrong = l.run();
    if (std::ferror(from.get()) != 0) wrong = from.problem();
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

// ---- stores ----

exit_code list_stores(call& c) {
  if (!c.open(false)) return c.failed();
  std::vector<std::pair<std::string, std::string>> all;
  const int ended = nvm_kv_each(
      c.at->handle(),
      [](const char* name, enum nvm_kv_index index, void* argument) {
        static_cast<std::vector<std::pair<std::string, std::string>>*>(argument)->emplace_back(
            name, nvm_kv_index_name(index));
        return 0;
      },
      &all);
  if (ended != 0) return c.failed();
  json answer = c.answer();
  answer["stores"] = json::array();
  for (const auto& [name, index] : all) {
    c.out.text("{:<8} {}\n", index, printable(name));
    answer["stores"].push_back({{"name", name}, {"index", index}});
  }
  if (all.empty()) c.out.text("{}: no key-value stores\n", c.path);
  c.out.document(answer);
  return exit_good;
}

exit_code stat(call& c) {
  if (!c.open(false)) return c.failed();
  const auto store = c.open_store(false);
  if (!store) return c.failed();
  const auto s = store->statistics();
  if (!s) return c.failed();
  c.out.text("{}: {}, {} entries, {} bytes of keys, {} bytes of values, depth {}, load {:.2f}, {}\n", c.store,
             nvm_kv_index_name(static_cast<int>(s->index)), s->entries, s->key_bytes, s->value_bytes, s->depth, s->load,
             s->checksums != 0 ? "with checksums" : "without checksums");
  json answer = c.answer();
  answer["index"] = nvm_kv_index_name(static_cast<int>(s->index));
  answer["count"] = s->entries;
  answer["key_bytes"] = s->key_bytes;
  answer["value_bytes"] = s->value_bytes;
  answer["checksums"] = s->checksums != 0;
  answer["depth"] = s->depth;
  answer["buckets"] = s->buckets;
  answer["overflow_buckets"] = s->overflow_buckets;
  answer["longest_chain"] = s->longest_chain;
  answer["leaves"] = s->leaves;
  answer["inner_nodes"] = s->inner_nodes;
  answer["load"] = s->load;
  c.out.document(answer);
  return exit_good;
}

exit_code drop(call& c) {
  if (!c.open(true)) return c.failed();
  std::uint64_t count = 0;
  json answer = c.answer();
  {
    const auto store = c.open_store(false);
    if (!store) return c.failed();
    const auto n = store->size();
    if (!n) return c.failed();
    count = *n;
    answer["index"] = nvm_kv_index_name(store->index());
  }
  progress line{c.out, fmt::format("dropping {}", c.store)};
  if (nvm_kv_drop(c.at->handle(), c.store.c_str()) != 0) return c.failed();
  answer["count"] = count;
  c.out.document(answer);
  return exit_good;
}

exit_code run(const arguments& given, console& out) {
  call c{given, out};
  const std::string& a = c.action;
  const std::size_t needed = a == "put" || a == "get" || a == "del" ? 3 : 2;
  const std::size_t most = a == "put" ? 4 : needed == 3 || a == "load" || a == "export" ? 3 : 2;
  if (given.operands() < needed) return c.misused("the key is missing");
  if (given.operands() > most) return c.misused(fmt::format("unexpected \"{}\"", given.operand(most)));
  exit_code code = exit_internal;
  if (a == "put") code = put(c);
  if (a == "get") code = get(c);
  if (a == "del") code = del(c);
  if (a == "scan") code = scan(c);
  if (a == "load") code = load(c);
  if (a == "export") code = export_entries(c);
  if (a == "stores") code = list_stores(c);
  if (a == "stat") code = stat(c);
  if (a == "drop") code = drop(c);
  if (c.at && !c.at->close() && code == exit_good) return c.failed();
  return code;
}

}  // namespace

extern const command kv_command;
const command kv_command{
    .name = "kv",
    .summary = "read and write the key-value stores of a pool",
    .description =
        "Reads and writes the named key-value stores that lie in a pool (see docs/kv.md). A store is made when "
        "something is put into it; the pool is made by create.\n\n"
        "load reads CSV as RFC 4180 has it, two fields a record, or JSON lines, {\"key\": ..., \"value\": ...}, where "
        "bytes that are no UTF-8 are \"key_base64\" or \"value_base64\"; export writes the same. Nothing is loaded "
        "when "
        "anything in the file is wrong, unless --keep-going says so; what is wrong is reported with its line.\n\n"
        "export --salvage follows links as far as they are sound, then looks through all records of the pool for those "
        "whose checksum says that they are of the store; the pool is not changed.\n\n"
        "The exit code is 1 when export --salvage has found something damaged, when get or del find no such entry, and "
        "when load --keep-going has rejected something. "
        "scan escapes what cannot be printed; get prints the bytes as they are.",
    .operands = operands,
    .options = options,
    .fields = fields,
    .examples = examples,
    .run = run,
};

}  // namespace nvm::cli
