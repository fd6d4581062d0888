// What does it cost to overwrite a whole object in a transaction, its old bytes logged?
//
// Each thread has one object of its own, so it stays in its cache: the cost is that of the protocol.
#include <cstring>
#include <string>
#include <vector>

#include "harness/benchmark.hpp"
#include "harness/options.hpp"
#include "harness/random.hpp"
#include "systems/heaps.hpp"
#include "transactional/questions.hpp"

namespace nvm::bench {
namespace {

constexpr std::size_t patterns = 8;

template <heap H>
class overwrite final : public contestant {
 public:
  overwrite(const heap_settings& settings, unsigned threads, std::size_t bytes)
      : heap_(settings), bytes_(bytes), source_(bytes * patterns) {
    random r(bytes);
    for (char& c : source_) c = static_cast<char>(r.next());
    for (unsigned i = 0; i < threads; ++i) objects_.push_back(static_cast<char*>(heap_.fixed(bytes)));
  }

  void run(unsigned thread, std::uint64_t first, std::uint64_t ops) override {
    char* const object = objects_[thread];
    for (std::uint64_t i = first; i < first + ops; ++i) {
      heap_.begin();
      heap_.log(object, bytes_);
      std::memcpy(object, source_.data() + i % patterns * bytes_, bytes_);
      heap_.commit();
    }
  }
  std::uint64_t work_digest() override {
    digest all;
    for (const char* object : objects_) all.add_bytes(object, bytes_);
    return all.value();
  }
  std::optional<std::uint64_t> bytes_logged() override { return heap_.bytes_logged(); }

 private:
  H heap_;
  std::size_t bytes_;
  std::vector<char> source_;
  std::vector<char*> objects_;
};

}  // namespace

std::vector<benchmark> overwrite_benchmarks(const options& o, unsigned threads) {
  std::vector<benchmark> all;
  for (const std::size_t bytes : {64, 1024, 4096}) {
    benchmark b;
    b.name = "overwrite-" + std::to_string(bytes);
    b.unit = "overwrite";
    b.threads = threads;
    b.ops = o.full_or_quick<std::uint64_t>(100'000, 5'000);
    b.warmup_ops = b.ops / 4;
    b.payload = payload_shape{1, bytes / 64, bytes};
    b.parameters = {{"object_bytes", bytes}};
    const heap_settings settings{o.directory, threads * bytes};
    for_each_heap([&]<class H>(role r) {
      b.systems.push_back({H::name, r, [=] { return std::make_unique<overwrite<H>>(settings, threads, bytes); }});
    });
    all.push_back(std::move(b));
  }
  return all;
}

}  // namespace nvm::bench
