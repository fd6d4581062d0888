#include "media/meter_media.hpp"

#include <cstring>
#include <new>

namespace nvm {
namespace {
std::atomic<unsigned> threads_seen{1};
}

meter::stripe& meter::mine() noexcept {
  static thread_local constinit unsigned index = 0;
  if (index == 0) index = threads_seen.fetch_add(1, std::memory_order_relaxed);
  return stripes_[index % stripes_.size()];
}

void meter::at_edge(edge e) noexcept {
  const auto hash = reinterpret_cast<std::uintptr_t>(e.name) * 0x9E3779B97F4A7C15ULL >> 40;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    edge_slot& slot = edges_[(hash + i) % edges_.size()];
    const char* name = slot.name.load(std::memory_order_relaxed);
    // relaxed: the name is a literal; nothing else is read through the slot.
    if (name == nullptr && slot.name.compare_exchange_strong(name, e.name, std::memory_order_relaxed)) name = e.name;
    if (name != e.name) continue;
    add(slot.count, 1);
    return;
  }
}

bool meter::count_blocks(const void* base, std::size_t bytes) noexcept {
  const std::size_t count = ceil_div(bytes, block_bytes);
  blocks_.reset(new (std::nothrow) std::atomic<std::uint32_t>[count] {});
  if (blocks_ == nullptr) return false;
  blocks_base_ = reinterpret_cast<std::uintptr_t>(base);
  block_count_ = count;
  return true;
}

void meter::blocks_flushed(const void* p, std::size_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  if (at < blocks_base_) return;
  const std::size_t first = (at - blocks_base_) / block_bytes;
  const std::size_t last = (at - blocks_base_ + bytes - 1) / block_bytes;
  for (std::size_t i = first; i <= last && i < block_count_; ++i) blocks_[i].fetch_add(1, std::memory_order_relaxed);
}

meter_totals meter::totals() const noexcept {
  meter_totals sum;
  const auto get = [](const counter& c) { return c.load(std::memory_order_relaxed); };
  for (const stripe& s : stripes_) {
    sum.flushes += get(s.flushes);
    sum.lines += get(s.lines);
    sum.bytes += get(s.bytes);
    sum.fences += get(s.fences);
    sum.rmw_fences += get(s.rmw_fences);
    sum.publishes += get(s.publishes);
    sum.durable_waits += get(s.durable_waits);
  }
  return sum;
}

meter_reading meter::read() const {
  meter_reading sum{totals(), {}};
  for (const edge_slot& slot : edges_) {
    const char* name = slot.name.load(std::memory_order_relaxed);
    const std::uint64_t count = slot.count.load(std::memory_order_relaxed);
    if (name == nullptr || count == 0) continue;
    // One literal may have an address in each translation unit that uses it.
    const auto same = [name](const edge_count& c) { return std::strcmp(c.name, name) == 0; };
    const auto found = std::find_if(sum.edges.begin(), sum.edges.end(), same);
    if (found == sum.edges.end())
      sum.edges.push_back({name, count});
    else
      found->fences += count;
  }
  std::sort(sum.edges.begin(), sum.edges.end(),
            [](const edge_count& a, const edge_count& b) { return std::strcmp(a.name, b.name) < 0; });
  return sum;
}

std::vector<std::uint32_t> meter::read_blocks() const {
  std::vector<std::uint32_t> counts(block_count_);
  for (std::size_t i = 0; i < block_count_; ++i) counts[i] = blocks_[i].load(std::memory_order_relaxed);
  return counts;
}

void meter::reset() noexcept {
  const auto zero = [](counter& c) { c.store(0, std::memory_order_relaxed); };
  for (stripe& s : stripes_)
    for (counter* c : {&s.flushes, &s.lines, &s.bytes, &s.fences, &s.rmw_fences, &s.publishes, &s.durable_waits}) {
      zero(*c);
    }
  for (edge_slot& slot : edges_) zero(slot.count);
  for (std::size_t i = 0; i < block_count_; ++i) blocks_[i].store(0, std::memory_order_relaxed);
}

}  // namespace nvm
