// holdfast kv export --salvage: the readable entries of a damaged pool, which is not opened.
#include <cstdio>
#include <exception>
#include <utility>

#include "cli/kv_actions.hpp"
#include "cli/kv_file.hpp"
#include "cli/progress.hpp"

namespace nvm::cli::kv_actions {
namespace {

// Reads a damaged pool without opening it.
struct salvage_run {
  call& c;
  std::FILE* to;
  text_format format;
  progress& line;
  bool with_head;  // still has to be written
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

}  // namespace

exit_code export_salvaged(call& c) {
  const std::string& file = c.given.operand(2);
  const bool to_standard = is_standard_output(file);
  if (c.out.as_json() && to_standard) return c.misused("--json and --salvage need a file to write to");
  const text_format format = format_of(c.given, file);
  if (!to_standard && is_one_file(file, c.path)) return c.misused(fmt::format("{} is the pool itself", file));
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
  nvm_pool_info before{};
  const bool is_copy = nvm_pool_inspect(c.path.c_str(), &before) == 0 && before.copied != 0;
  if (is_copy) {
    line.interrupt([&] {
      c.out.warning(c.path,
                    "a copy of a pool that was in use, or whose owner had died: it may be torn, and entries of "
                    "different moments");
    });
  }
  const std::int64_t lost = c.in.empty() ? nvm_kv_salvage(c.path.c_str(), c.store.c_str(), &how)
                                         : nvm_kv_salvage_in(c.path.c_str(), c.in.c_str(), c.store.c_str(), &how);
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
  answer["is_copy"] = is_copy;
  answer["lost"] = run.lost;
  answer.update(file_facts(file, format));
  c.out.document(answer);
  return lost == 0 ? exit_good : exit_negative;
}

}  // namespace nvm::cli::kv_actions
