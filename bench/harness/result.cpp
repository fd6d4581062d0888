#include "harness/result.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace nvm::bench {
namespace {

nlohmann::ordered_json spread_to_json(const std::vector<double>& sample) {
  const spread s = spread_of(sample);
  return {{"median", s.median}, {"min", s.min}, {"max", s.max}, {"sample", sample}};
}

// The limit that writes as many lines as system `s` does, else the one that writes the payload only.
const system_result* limit_for(const benchmark_result& r, const system_result& s) {
  const system_result* floor = nullptr;
  for (const system_result& l : r.systems) {
    if (l.role != role::limit) continue;
    if (l.limit_of == s.name) return &l;
    if (l.limit_of.empty()) floor = &l;
  }
  return floor;
}

double percent_of_limit(const system_result& limit, const system_result& s) {
  return 100 * spread_of(pairwise_ratio(limit.cpu_ns, s.cpu_ns)).median;
}

// Which instructions were seen to make lines durable.
std::string instructions_of(const op_counts& c) {
  std::string text;
  auto add = [&](const char* name, double lines) {
    if (lines > 0) text += fmt::format("{}{} {:.1f}", text.empty() ? "" : ", ", name, lines);
  };
  add("clwb", c.clwb);
  add("clflushopt", c.clflushopt);
  add("clflush", c.clflush);
  add("non-temporal", c.streamed_lines);
  return text.empty() ? "none" : text;
}

nlohmann::ordered_json system_to_json(const benchmark_result& r, const system_result& s) {
  const auto per_op = static_cast<double>(r.what.units_per_op);
  nlohmann::ordered_json j;
  j["name"] = s.name;
  j["role"] = s.role == role::subject ? "subject" : s.role == role::peer ? "peer" : "limit";
  if (!s.limit_of.empty()) j["limit_of"] = s.limit_of;
  j["wall_ns"] = spread_to_json(s.wall_ns);
  j["cpu_ns"] = spread_to_json(s.cpu_ns);
  j["durable_waits"] = spread_of(s.waits).median;
  j["device_bytes"] = spread_of(s.device_bytes).median;
  j["aborts"] = spread_of(s.aborts).median;
  if (s.digest != 0) j["digest"] = fmt::format("{:016x}", s.digest);
  if (s.counts) {
    const op_counts& c = *s.counts;
    j["counts"] = {{"counted_ops", c.ops},
                   {"fences", c.fences / per_op},
                   {"waiting_fences", c.waiting_fences / per_op},
                   {"waiting_locks", c.waiting_locks / per_op},
                   {"lines", c.lines / per_op},
                   {"instructions", c.instructions / per_op},
                   {"executes", instructions_of(c)}};
    if (c.logged_bytes) j["counts"]["logged_bytes"] = *c.logged_bytes / per_op;
    if (c.dirty_bytes) j["counts"]["dirty_bytes"] = *c.dirty_bytes / per_op;
  }
  if (s.own)
    j["own_counts"] = {{"fences", s.own->fences / per_op},
                       {"lines", s.own->lines / per_op},
                       {"dirty_bytes", s.own->dirty_bytes / per_op},
                       {"logged_bytes", s.own->logged_bytes / per_op}};
  if (s.role != role::limit)
    if (const system_result* limit = limit_for(r, s)) j["percent_of_limit"] = percent_of_limit(*limit, s);
  if (s.latency.count() != 0)
    j["latency_ns"] = {{"p50", s.latency.quantile(0.5)},
                       {"p90", s.latency.quantile(0.9)},
                       {"p99", s.latency.quantile(0.99)},
                       {"p999", s.latency.quantile(0.999)},
                       {"max", s.latency.max()}};
  return j;
}

std::string optional_number(bool present, double value, int digits) {
  return present ? fmt::format("{:.{}f}", value, digits) : "";
}

}  // namespace

nlohmann::ordered_json to_json(const benchmark_result& r) {
  nlohmann::ordered_json j;
  j["name"] = r.what.name;
  j["threads"] = r.what.threads;
  j["unit"] = r.what.unit;
  j["units_per_op"] = r.what.units_per_op;
  j["ops_per_thread_and_run"] = r.what.ops;
  j["parameters"] = r.what.parameters;
  j["systems"] = nlohmann::ordered_json::array();
  for (const system_result& s : r.systems) j["systems"].push_back(system_to_json(r, s));
  j["ratios"] = nlohmann::ordered_json::array();
  for (const system_result& subject : r.systems)
    for (const system_result& peer : r.systems)
      if (subject.role == role::subject && peer.role == role::peer)
        j["ratios"].push_back({{"subject", subject.name},
                               {"peer", peer.name},
                               {"wall", spread_to_json(pairwise_ratio(peer.wall_ns, subject.wall_ns))},
                               {"cpu", spread_to_json(pairwise_ratio(peer.cpu_ns, subject.cpu_ns))}});
  return j;
}

void print_table(const benchmark_result& r) {
  const benchmark& b = r.what;
  fmt::print("\n{}, {} thread{}: ns per {}; {} operations a thread and run; {}\n", b.name, b.threads,
             b.threads == 1 ? "" : "s", b.unit, b.ops, b.parameters.dump());
  fmt::print("  {:<42}{:>9}{:>9}{:>9}{:>9}{:>8}{:>7}{:>8}{:>9}{:>7}{:>8}  {}\n", "system", "median", "min", "max",
             "cpu", "fences", "locks", "lines", "logged B", "syncs", "limit %", "write-backs per operation; digest");
  const auto per_op = static_cast<double>(b.units_per_op);
  for (const system_result& s : r.systems) {
    const spread wall = spread_of(s.wall_ns);
    const bool counted = s.counts.has_value();
    const op_counts c = s.counts.value_or(op_counts{});
    const system_result* limit = s.role != role::limit ? limit_for(r, s) : nullptr;
    const double waits = spread_of(s.waits).median;
    fmt::print("  {:<42}{:>9.0f}{:>9.0f}{:>9.0f}{:>9.0f}{:>8}{:>7}{:>8}{:>9}{:>7}{:>8}  {}\n", s.name, wall.median,
               wall.min, wall.max, spread_of(s.cpu_ns).median, optional_number(counted, c.fences / per_op, 2),
               optional_number(counted, c.waiting_locks / per_op, 2), optional_number(counted, c.lines / per_op, 2),
               optional_number(c.logged_bytes.has_value(), c.logged_bytes.value_or(0) / per_op, 0),
               optional_number(waits > 0, waits, 2),
               optional_number(limit != nullptr, limit != nullptr ? percent_of_limit(*limit, s) : 0, 0),
               (counted ? instructions_of(c) : "") +
                   (s.digest != 0 ? fmt::format("{}{:016x}", counted ? "; " : "", s.digest) : ""));
    if (s.own)
      fmt::print("  {:<42}of all its threads: fences {:.3f}, lines {:.2f}, dirty bytes {:.0f}, logged bytes {:.0f}\n",
                 "", s.own->fences / per_op, s.own->lines / per_op, s.own->dirty_bytes / per_op,
                 s.own->logged_bytes / per_op);
    if (waits > 0 && spread_of(s.device_bytes).median > 0)
      fmt::print("  {:<42}bytes to the device per operation {:.0f}\n", "", spread_of(s.device_bytes).median);
    if (spread_of(s.aborts).median > 0)
      fmt::print("  {:<42}aborts per operation {:.4f}\n", "", spread_of(s.aborts).median);
    if (s.latency.count() != 0)
      fmt::print("  {:<42}p50 {:.1f} us, p90 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, max {:.1f}; {:.0f} a second\n", "",
                 static_cast<double>(s.latency.quantile(0.5)) / 1e3, static_cast<double>(s.latency.quantile(0.9)) / 1e3,
                 static_cast<double>(s.latency.quantile(0.99)) / 1e3,
                 static_cast<double>(s.latency.quantile(0.999)) / 1e3, static_cast<double>(s.latency.max()) / 1e3,
                 wall.median > 0 ? 1e9 * b.threads / wall.median : 0);
  }
  for (const system_result& subject : r.systems)
    for (const system_result& peer : r.systems)
      if (subject.role == role::subject && peer.role == role::peer) {
        const spread wall = spread_of(pairwise_ratio(peer.wall_ns, subject.wall_ns));
        const spread cpu = spread_of(pairwise_ratio(peer.cpu_ns, subject.cpu_ns));
        fmt::print("  {} is {:.2f} times as fast as {} ({:.2f} to {:.2f}; by CPU time {:.2f})\n", subject.name,
                   wall.median, peer.name, wall.min, wall.max, cpu.median);
      }
}

}  // namespace nvm::bench
