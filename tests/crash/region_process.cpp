#include "region_process.hpp"

#include <array>
#include <cstdlib>
#include <utility>

#include "image_process.hpp"

namespace nvm::tests {

using explore::machine;

region_bytes region_pattern(std::uint64_t seed, std::uint64_t bytes) {
  region_bytes b(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) b[i] = static_cast<std::byte>(mix_seed(seed, i / 8) >> 8 * (i % 8));
  return b;
}

namespace {

region::options settings(const region_variant& v) {
  region::options o;
  o.key = 0x1234'5678'9ABC'DEF0;
  o.lanes = 2;
  o.ring_bytes = v.ring_bytes;
  o.levelling = v.levelling;
  o.replicas = v.replicas;
  o.saved_from = v.saved_from;
  return o;
}

template <media M>
class process final : public region_process {
 public:
  process(M& medium, std::byte* base, const layout::superblock& sb, const region_variant& v,
          std::unique_ptr<image_process> image)
      : image_{std::move(image)},
        medium_{medium},
        space_{medium, lanes_, base, geometry_of(sb)},
        domain_{medium, base, space_, settings(v)} {}

  status open() {
    if (status s = space_.boot(0, 1); !s) return s;
    if (status s = domain_.open(); !s) return s;
    return domain_.open_sets(1);
  }

  status make_set(std::string_view name) override {
    const auto made = domain_.create(name);
    return made ? status{} : status{made.error()};
  }
  void drop_set(std::string_view name) override { domain_.drop(of(name)); }
  bool has_set(std::string_view name) override { return domain_.find(name).has_value(); }

  status change(unsigned t, std::string_view name, const region_call& c) override {
    const bool joins = c.kind != region_call::what::create;
    status s = region::change_alone(domain_, of(name), thread(t), c.rid, c.how, joins,
                                    [&](transaction& tx) { return body(tx, c); });
    note(t);
    return s;
  }
  status group(unsigned t, std::string_view name, std::span<const region_call> calls, bool gives_up) override {
    status s;
    {
      const inside here{domain_, thread(t)};
      transaction tx{domain_, of(name), thread(t)};
      for (const region_call& c : calls) {
        if (s && c.kind != region_call::what::create && !tx.has(c.rid)) s = tx.join(c.rid, c.how);
        if (s) s = body(tx, c);
      }
      if (s && !gives_up) s = tx.commit();
    }
    domain_.collect_if_much_waits();
    note(t);
    return s;
  }
  result<region_bytes> read(unsigned t, std::string_view name, std::uint64_t rid) override {
    const auto size = region::length(domain_, of(name), thread(t), rid);
    if (!size) return size.error();
    region_bytes bytes(*size);
    const auto n = region::read(domain_, of(name), thread(t), rid, 0, bytes);
    note(t);
    if (!n) return n.error();
    if (*n != *size) return fail(errc::corrupt, "region %lu: %lu bytes of %lu were read", rid, *n, *size);
    return bytes;
  }
  result<region_bytes> read_up_to(unsigned t, std::string_view name, std::uint64_t rid, std::uint64_t bytes) override {
    region_bytes found(bytes);
    const auto n = region::read(domain_, of(name), thread(t), rid, 0, found);
    note(t);
    if (!n) return n.error();
    found.resize(*n);
    return found;
  }
  std::uint64_t count(std::string_view name) override { return of(name).regions.count(); }

  result<region::lease> hold(unsigned t, std::string_view name, std::uint64_t rid) override {
    auto l = region::hold(domain_, of(name), thread(t), rid);
    note(t);
    return l;
  }
  status let_go(const region::lease& l) override { return region::let_go(domain_, l); }
  void truncate_log() override {
    if (image_ == nullptr) return domain_.log().truncate();
    if (!image_->medium->sync_appended() || !image_->medium->checkpoint_step()) std::abort();
  }
  void collect() override {
    // The second call is for what the first has closed.
    for (int i = 0; i < 2; ++i) domain_.collect(true);
  }
  status wait() override { return medium_.durable(std::max(lsn_, medium_.last_lsn())); }
  status close() override {
    domain_.come_to_rest();
    if (image_ == nullptr) return {};
    if (status s = wait(); !s) return s;
    return image_->medium->close();
  }
  region::recovery_report recovered() const noexcept override { return domain_.recovered(); }
  region::statistics statistics() override {
    region::statistics s;
    domain_.sum_up(s);
    return s;
  }

 private:
  using transaction = region::transaction<M>;
  using inside = typename region::domain<M>::inside;
  using thread_type = region::thread_state<M>;

  static status body(transaction& tx, const region_call& c) {
    switch (c.kind) {
      case region_call::what::create:
        if (status s = tx.create(c.rid, c.offset, c.room); !s || c.bytes.empty()) return s;
        return tx.write(c.rid, 0, c.bytes);
      case region_call::what::write:
        return tx.write(c.rid, c.offset, c.bytes);
      case region_call::what::append: {
        const auto at = tx.append(c.rid, c.bytes);
        return at ? status{} : status{at.error()};
      }
      case region_call::what::truncate:
        return tx.truncate(c.rid, c.offset);
      case region_call::what::drop:
        return tx.drop(c.rid);
    }
    return {};
  }
  region::set_state<M>& of(std::string_view name) {
    const auto found = domain_.find(name);
    if (!found) std::abort();
    return **found;
  }
  // In this order, so that a thread has the same number in each process.
  thread_type& thread(unsigned t) {
    for (unsigned i = 0; i <= t; ++i) {
      if (threads_[i] != nullptr) continue;
      const auto joined = domain_.join();
      if (!joined) std::abort();
      threads_[i] = *joined;
    }
    return *threads_[t];
  }
  void note(unsigned t) { lsn_ = std::max(lsn_, threads_[t]->position); }

  std::unique_ptr<image_process> image_;
  M& medium_;
  log::nothing_logged lanes_;
  space<M, log::nothing_logged> space_;
  region::domain<M> domain_;
  std::array<thread_type*, 8> threads_{};
  lsn_t lsn_ = 0;
};

}  // namespace

std::unique_ptr<region_process> open_regions(machine& m, const region_variant& v) {
  if (v.image) {
    auto image = std::make_unique<image_process>(m);
    if (!image->open(m)) return nullptr;
    image_media& medium = *image->medium;
    std::byte* const base = image->view.get();
    const layout::superblock sb = image->superblock;
    auto p = std::make_unique<process<image_media>>(medium, base, sb, v, std::move(image));
    if (!p->open()) return nullptr;
    return p;
  }
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return nullptr;
  auto p = std::make_unique<process<recorder<ordered_media>>>(m.media(), m.base(), *sb, v, nullptr);
  if (!p->open()) return nullptr;
  return p;
}

}  // namespace nvm::tests
