// What do objects with numbers cost: as regions, and as objects of transactions?  Figures 8, 10 and 11 of the Lewat
// paper.
//
//   create, free, attach   one object; attach: its address by its number, and a word of it (Fig. 10)
//   read, insert, update   the whole, a new one with its bytes, all of it (Fig. 11)
//   append, truncate       half of it more, half of it less (Fig. 11)
//   partial                16 to 1024 bytes of 2 KiB (Fig. 11)
//   share                  1 to 100 % of a region, each technique by itself (Fig. 8)
//
// One thread; processor time is that of the process, so that what libraries do in the background is in it.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "harness/random.hpp"
#include "harness/runner.hpp"
#include "harness/zipf.hpp"
#include "region/stores.hpp"

namespace nvm::bench {
namespace {

enum class operation { create, drop, attach, read, insert, update, append, truncate };

struct question {
  operation what;
  std::uint64_t size;     // of an object
  std::uint64_t bytes;    // that an update changes
  std::uint64_t objects;  // numbers
  double theta = 0;       // of updates; 0: uniform
};

// Whether each operation has an object of its own, made ready for it before.
bool takes_turns(operation o) { return o != operation::attach && o != operation::read && o != operation::update; }

template <class Store>
class objects final : public contestant {
 public:
  template <class... Arguments>
  explicit objects(const question& q, Arguments&&... of_store)
      : q_{q}, choice_{q.objects, q.theta == 0 ? 0.5 : q.theta}, store_{std::forward<Arguments>(of_store)...} {
    bytes_.resize(2 * q.size + 4096);
    random source{7};
    for (char& b : bytes_) b = static_cast<char>(source.next());
    seen_.resize(q.size);
    if (takes_turns(q.what)) return;
    for (std::uint64_t i = 0; i < q.objects; ++i) store_.create(i, bytes_of(i), q.size, 0);
  }

  void prepare(unsigned, std::uint64_t first, std::uint64_t ops) override {
    if (!takes_turns(q_.what)) return;
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const std::uint64_t n = i % q_.objects;
      if (store_.there(n)) store_.drop(n);
      if (q_.what == operation::create || q_.what == operation::insert) continue;
      store_.create(n, bytes_of(i), q_.size, q_.what == operation::append ? q_.size + q_.size / 2 : 0);
    }
  }

  void run(unsigned, std::uint64_t first, std::uint64_t ops) override {
    for (std::uint64_t i = first; i < first + ops; ++i) {
      const std::uint64_t n = takes_turns(q_.what) ? i % q_.objects : number_of(i);
      switch (q_.what) {
        case operation::create:
          // A word of it: allocators are compared, not memcpy.
          store_.create(n, bytes_of(i), std::min<std::size_t>(q_.size, 8), q_.size);
          break;
        case operation::drop:
          store_.drop(n);
          break;
        case operation::attach:
          read_ += store_.attach(n);
          break;
        case operation::read:
          read_ += store_.read(n, seen_.data(), 0, q_.size);
          read_ += static_cast<unsigned char>(seen_[q_.size - 1]);
          break;
        case operation::insert:
          store_.create(n, bytes_of(i), q_.size, 0);
          break;
        case operation::update:
          store_.write(n, offset_of(i), bytes_of(i), q_.bytes);
          break;
        case operation::append:
          store_.append(n, bytes_of(i + 1), q_.size / 2);
          break;
        case operation::truncate:
          store_.truncate(n, q_.size / 2);
          break;
      }
    }
  }

  std::uint64_t work_digest() override {
    digest all;
    std::vector<char> whole(2 * q_.size);
    for (std::uint64_t i = 0; i < q_.objects; ++i) {
      all.add(i);
      if (!store_.there(i)) continue;
      const std::uint64_t length = store_.length(i);
      all.add(length);
      all.add_bytes(whole.data(), store_.read(i, whole.data(), 0, length));
    }
    return all.value();
  }
  std::optional<library_counts> counts() override { return store_.counts(); }

 private:
  [[nodiscard]] const char* bytes_of(std::uint64_t i) const { return bytes_.data() + mix(i) % 512 * 8; }
  [[nodiscard]] std::uint64_t number_of(std::uint64_t i) const {
    random source{i};
    // The popular ones are scattered.
    return q_.theta == 0 ? source.below(q_.objects) : mix(choice_.next(source)) % q_.objects;
  }
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t i) const {
    if (q_.bytes == q_.size) return 0;
    return random{~i}.below(q_.size - q_.bytes + 1);
  }

  const question q_;
  const zipf choice_;
  Store store_;
  std::vector<char> bytes_;
  std::vector<char> seen_;
  std::uint64_t read_ = 0;
};

struct way {
  const char* name;
  unsigned mode;
};
constexpr way ways[] = {{"regions", NVM_REGION_ADAPTIVE},         {"regions, copy", NVM_REGION_COPY},
                        {"regions, checked", NVM_REGION_CHECKED}, {"regions, marked", NVM_REGION_MARKED},
                        {"regions, replica", NVM_REGION_REPLICA}, {"regions, two copies", NVM_REGION_ALTERNATE}};
// Regions that are larger have no second place.
constexpr std::uint64_t partner_max = 2048;

engine_settings settings_of(const options& o, const question& q) {
  return {{o.directory, q.objects * (2 * q.size + 256) + (8 << 20)}, o.emulated, false, 0};
}
benchmark shape(const options& o, const std::string& name, question& q) {
  benchmark b;
  b.name = name;
  b.unit = "operation";
  const std::uint64_t most = o.ops != 0 ? o.ops : o.full_or_quick<std::uint64_t>(4'000, 512);
  b.ops = std::clamp<std::uint64_t>((std::uint64_t{8} << 20) / q.size, 128, most);
  b.warmup_ops = b.ops;
  q.objects = std::max<std::uint64_t>(b.ops, 512);  // as many as are counted at once
  // What is done again has to leave the same.
  if (!takes_turns(q.what) && !o.quick) b.seconds_min = 0.01;
  b.payload = payload_shape{1, 1, q.objects * q.size};
  b.parameters = {{"size", q.size}, {"bytes", q.bytes}, {"objects", q.objects}, {"theta", q.theta}};
  return b;
}
void add_regions(const options& o, benchmark& b, const question& q, const way& w, bool in_transactions) {
  if (q.size > partner_max && (w.mode == NVM_REGION_REPLICA || w.mode == NVM_REGION_ALTERNATE)) return;
  b.systems.push_back(system_of(w.name, role::subject, true, settings_of(o, q), [=](const engine_settings& s) {
    return std::make_unique<objects<region_store>>(q, s, q.objects, w.mode, in_transactions);
  }));
}
void add_peers(const options& o, benchmark& b, const question& q) {
  struct engine_named {
    const char* name;
    const char* as;
  };
  constexpr engine_named wanted[] = {{"libpmemobj", "libpmemobj"}, {"undo, announced stores", "undo"},
                                     {"stm over redo", "redo"},    {"stm over log: leaves materialised", "log"},
                                     {"mnemosyne", "mnemosyne"},   {"mnemosyne-undo", "mnemosyne-undo"}};
  for_each_engine(o.directory, [&]<class E>(const std::string& name, role, auto construct) {
    for (const engine_named& e : wanted) {
      if (name != e.name) continue;
      b.systems.push_back(
          system_of(e.as, role::peer, E::counts_itself, settings_of(o, q), [=](const engine_settings& s) {
            return std::make_unique<objects<object_store<E>>>(q, construct(s, 1), q.objects);
          }));
    }
  });
#if NVM_BENCH_PMEMOBJ
  const bool atomic = q.what != operation::update && q.what != operation::append && q.what != operation::read;
  if (atomic) {
    b.systems.push_back(system_of(
        "libpmemobj, atomic", role::peer, false, settings_of(o, q),
        [=](const engine_settings& s) { return std::make_unique<objects<pmemobj_atomic_store>>(q, s, q.objects); }));
  }
#endif
}

void run_figure(runner& r, const options& o, const std::string& name, question q, bool all_ways) {
  benchmark b = shape(o, name, q);
  for (const way& w : ways) {
    if (all_ways || w.mode == NVM_REGION_ADAPTIVE) add_regions(o, b, q, w, false);
  }
  add_peers(o, b, q);
  r.run(b);
}

void run_calls(runner& r, const options& o) {
  for (const std::uint64_t size : {64, 2048}) {
    run_figure(r, o, fmt::format("create-{}", size), {operation::create, size, size, 0}, false);
    run_figure(r, o, fmt::format("free-{}", size), {operation::drop, size, size, 0}, false);
    run_figure(r, o, fmt::format("attach-{}", size), {operation::attach, size, size, 0}, false);
  }
  std::vector<std::uint64_t> sizes{64, 256, 1024, 2048, 4096, 16384, 65536};
  if (o.quick) sizes = {64, 4096};
  for (const std::uint64_t size : sizes) {
    run_figure(r, o, fmt::format("read-{}", size), {operation::read, size, size, 0}, false);
    run_figure(r, o, fmt::format("insert-{}", size), {operation::insert, size, size, 0}, false);
    run_figure(r, o, fmt::format("update-{}", size), {operation::update, size, size, 0}, true);
    run_figure(r, o, fmt::format("append-{}", size), {operation::append, size, size / 2, 0}, false);
    run_figure(r, o, fmt::format("truncate-{}", size), {operation::truncate, size, size / 2, 0}, false);
  }
  for (const std::uint64_t bytes : {16, 64, 256, 512, 1024}) {
    if (o.quick && bytes != 64) continue;
    run_figure(r, o, fmt::format("partial-{}", bytes), {operation::update, 2048, bytes, 0}, true);
  }
}

void run_shares(runner& r, const options& o) {
  std::vector<std::uint64_t> sizes{64, 256, 2048, 16384, 65536};
  std::vector<unsigned> shares{1, 10, 25, 50, 75, 100};
  if (o.quick) sizes = {2048}, shares = {10, 100};
  for (const double theta : {0.99, 0.0}) {
    for (const std::uint64_t size : sizes) {
      for (const unsigned share : shares) {
        question q{operation::update, size, std::max<std::uint64_t>(1, size * share / 100), 0, theta};
        benchmark b = shape(o, fmt::format("share-{}-{}-{}", theta == 0 ? "uniform" : "zipf", size, share), q);
        b.parameters["share_percent"] = share;
        for (const way& w : ways) add_regions(o, b, q, w, true);
        r.run(b);
      }
    }
  }
}

}  // namespace
}  // namespace nvm::bench

int main(int argc, char** argv) {
  using namespace nvm::bench;
  return answer(
      argc, argv,
      {.question = "Regions beside objects of transactions", .directory = "/dev/shm", .threads = {1}, .runs = 5},
      [](runner& r, options& o) {
        o.limits = false;
        run_calls(r, o);
        run_shares(r, o);
      });
}
