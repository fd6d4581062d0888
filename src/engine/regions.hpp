// The regions of a pool on one medium: region_side over src/region.  Included once for each medium.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "engine/region_side.hpp"
#include "platform/platform.hpp"
#include "region/region.hpp"

namespace nvm::engines {

template <media M>
class regions final : public region_side {
 public:
  regions(M& medium, std::byte* base, region_pages& pages, std::uint64_t key, region_wishes wishes)
      : medium_{medium}, wishes_{std::move(wishes)}, domain_{medium, base, pages, settings(key)} {}

  status open() noexcept override {
    if (status s = domain_.open(); !s) return s;
    constexpr std::uint64_t pages_per_thread = 4096;
    const auto parts = static_cast<unsigned>(
        std::min<std::uint64_t>(platform::processors(), domain_.pages().size_pages() / pages_per_thread + 1));
    if (status s = domain_.open_sets(parts, wishes_.tell); !s) return s;
    for (unsigned i = 0; i < region::layout::sets_max; ++i) {
      if (domain_.at(i) == nullptr) continue;
      if (status s = make(i); !s) return s;
    }
    listen();
    return {};
  }

  result<open_set*> find(std::string_view name) noexcept override {
    const std::lock_guard guard{lock_};
    const auto found = domain_.find(name);
    if (!found) return found.error();
    return sets_[(*found)->index].get();
  }
  result<open_set*> create(std::string_view name) noexcept override {
    const std::lock_guard guard{lock_};
    // A failed medium loses whatever it is given.
    if (status s = medium_.durable(0); !s) return s.error();
    const bool first = !domain_.has_log();
    const auto made = domain_.create(name);
    if (!made) return made.error();
    if (first) listen();
    if (status s = make((*made)->index); !s) {
      domain_.drop(**made);
      return s.error();
    }
    if (status s = of_what_is_done(wait_for(medium_, medium_.last_lsn())); !s) return s.error();
    return sets_[(*made)->index].get();
  }
  status drop(std::string_view name) noexcept override {
    const std::lock_guard guard{lock_};
    if (status s = medium_.durable(0); !s) return s;
    const auto found = domain_.find(name);
    if (!found) return found.error();
    sets_[(*found)->index].reset();
    domain_.drop(**found);
    return of_what_is_done(wait_for(medium_, medium_.last_lsn()));
  }
  result<int> names(int (*visit)(const char*, std::uint64_t, void*), void* argument) noexcept override try {
    std::vector<std::pair<std::string, std::uint64_t>> all;
    {
      const std::lock_guard guard{lock_};
      for (unsigned i = 0; i < region::layout::sets_max; ++i) {
        if (domain_.at(i) != nullptr) all.emplace_back(domain_.name_of(*domain_.at(i)), domain_.at(i)->regions.count());
      }
    }
    for (const auto& [name, count] : all) {
      if (const int answer = visit(name.c_str(), count, argument); answer != 0) return answer;
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for the names of sets of regions");
  }
  const region::recovery_report& recovered() const noexcept override { return domain_.recovered(); }
  region::statistics statistics() noexcept override {
    const std::lock_guard guard{lock_};
    region::statistics s;
    domain_.sum_up(s);
    return s;
  }

  result<unsigned> join() noexcept override {
    const std::lock_guard guard{lock_};
    const auto t = domain_.join();
    if (!t) return t.error();
    threads_[(*t)->number] = *t;
    return (*t)->number;
  }
  void leave(unsigned who) noexcept override { domain_.leave(*threads_[who]); }
  // A call ends with a fence of all that it has changed.
  void hand_over(unsigned) noexcept override {}
  void enter(unsigned who) noexcept override { domain_.enter(at(who)); }
  void exit(unsigned who) noexcept override { domain_.exit(at(who)); }
  void await_inside() noexcept override { domain_.await_inside(); }
  bool at_work() const noexcept override { return open_changes_.load(std::memory_order_acquire) != 0; }
  std::uint64_t leases() const noexcept override { return domain_.leased().count(); }
  status let_go(const region::lease& l) noexcept override { return region::let_go(domain_, l); }
  lsn_t position(unsigned who) noexcept override { return threads_[who]->position; }
  void owe(unsigned who, lsn_t position) noexcept override {
    threads_[who]->position = std::max(threads_[who]->position, position);
  }
  void come_to_rest() noexcept override { domain_.come_to_rest(); }
  void tidy() noexcept override {
    if (domain_.has_log()) {
      domain_.log().truncate();
      domain_.catch_up();
    }
    domain_.collect(false);
  }

 private:
  using state = region::set_state<M>;
  using thread = region::thread_state<M>;
  using inside = typename region::domain<M>::inside;

  static region::options settings(std::uint64_t key) noexcept {
    region::options o;
    o.key = key;
    return o;
  }

  class at_work_here {
   public:
    explicit at_work_here(std::atomic<unsigned>& count) noexcept : count_{count} {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    // release: pairs with at_work().
    ~at_work_here() { count_.fetch_sub(1, std::memory_order_release); }
    at_work_here(const at_work_here&) = delete;
    at_work_here& operator=(const at_work_here&) = delete;

   private:
    std::atomic<unsigned>& count_;
  };

  class change final : public open_regions_change {
   public:
    change(regions& all, state& of, thread& t)
        : open_{all.open_changes_}, all_{all}, thread_{t}, it_{all.domain_, of, t} {}
    ~change() override {
      const inside here{all_.domain_, thread_};
      it_.abort();
    }
    change(const change&) = delete;
    change& operator=(const change&) = delete;

    bool has(std::uint64_t rid) const noexcept override { return it_.has(rid); }
    status join(std::uint64_t rid, region::mode how) noexcept override {
      const inside here{all_.domain_, thread_};
      return it_.join(rid, how);
    }
    status create(std::uint64_t rid, std::uint64_t size, std::uint64_t room) noexcept override {
      const inside here{all_.domain_, thread_};
      return it_.create(rid, size, room);
    }
    status drop(std::uint64_t rid) noexcept override { return it_.drop(rid); }
    status write(std::uint64_t rid, std::uint64_t offset, bytes from) noexcept override {
      return it_.write(rid, offset, from);
    }
    result<std::uint64_t> append(std::uint64_t rid, bytes from) noexcept override { return it_.append(rid, from); }
    status truncate(std::uint64_t rid, std::uint64_t length) noexcept override { return it_.truncate(rid, length); }
    result<std::uint64_t> read(std::uint64_t rid, std::uint64_t offset, std::span<std::byte> to) noexcept override {
      return it_.read(rid, offset, to);
    }
    result<std::uint64_t> length(std::uint64_t rid) noexcept override { return it_.length(rid); }
    status commit() noexcept override {
      status done;
      {
        const inside here{all_.domain_, thread_};
        done = it_.commit();
      }
      all_.domain_.collect_if_much_waits();
      return done;
    }

   private:
    const at_work_here open_;  // ends last
    regions& all_;
    thread& thread_;
    region::transaction<M> it_;
  };

  class one_set final : public open_set {
   public:
    one_set(regions& all, state& of) noexcept : all_{all}, of_{of} {}
    std::uint64_t count() noexcept override { return of_.regions.count(); }
    void limit_replicas(std::uint32_t most) noexcept override { of_.partners_of.limit(most); }
    void level_after(unsigned changes) noexcept override { of_.level_after(changes); }
    void count_readers(bool yes) noexcept override { of_.count_readers(yes); }
    void decide_by_costs(bool yes) noexcept override {
      const std::lock_guard guard{all_.lock_};
      of_.decide_by_costs(yes && all_.domain_.know_costs());
    }
    result<std::uint64_t> read(unsigned who, std::uint64_t rid, std::uint64_t offset,
                               std::span<std::byte> to) noexcept override {
      return region::read(all_.domain_, of_, all_.at(who), rid, offset, to);
    }
    result<std::uint64_t> length(unsigned who, std::uint64_t rid) noexcept override {
      return region::length(all_.domain_, of_, all_.at(who), rid);
    }
    status create(unsigned who, std::uint64_t rid, std::uint64_t size, bytes from,
                  std::uint64_t room) noexcept override {
      return alone(who, rid, false, [&](auto& tx) -> status {
        if (status s = tx.create(rid, size, room); !s) return s;
        return tx.write(rid, 0, from);
      });
    }
    status drop(unsigned who, std::uint64_t rid) noexcept override {
      return alone(who, rid, true, [&](auto& tx) { return tx.drop(rid); });
    }
    status write(unsigned who, std::uint64_t rid, std::uint64_t offset, bytes from) noexcept override {
      return alone(who, rid, true, [&](auto& tx) { return tx.write(rid, offset, from); });
    }
    result<std::uint64_t> append(unsigned who, std::uint64_t rid, bytes from) noexcept override {
      std::uint64_t where = 0;
      const status s = alone(who, rid, true, [&](auto& tx) -> status {
        const auto at = tx.append(rid, from);
        if (!at) return at.error();
        where = *at;
        return {};
      });
      if (!s) return s.error();
      return where;
    }
    status truncate(unsigned who, std::uint64_t rid, std::uint64_t length) noexcept override {
      return alone(who, rid, true, [&](auto& tx) { return tx.truncate(rid, length); });
    }
    result<int> each(unsigned who, int (*visit)(std::uint64_t, std::uint64_t, void*), void* argument) noexcept override;
    void numbers(unsigned who, void (*visit)(std::uint64_t, void*), void* argument) noexcept override {
      const inside here{all_.domain_, all_.at(who)};
      for (unsigned shard = 0; shard < region::table::shards; ++shard) {
        of_.regions.for_each_number_of(shard, [&](std::uint64_t rid) { visit(rid, argument); });
      }
    }
    result<std::unique_ptr<open_regions_change>> begin(unsigned who) noexcept override try {
      return std::unique_ptr<open_regions_change>{std::make_unique<change>(all_, of_, all_.at(who))};
    } catch (const std::bad_alloc&) {
      return fail(errc::no_memory, "no volatile memory for a transaction of regions");
    }

    result<region::lease> hold(unsigned who, std::uint64_t rid) noexcept override {
      return region::hold(all_.domain_, of_, all_.at(who), rid);
    }

   private:
    template <class Body>
    status alone(unsigned who, std::uint64_t rid, bool joins, Body&& body) noexcept {
      return region::change_alone(all_.domain_, of_, all_.at(who), rid, region::mode::adaptive, joins, body);
    }
    regions& all_;
    state& of_;
  };

  [[nodiscard]] thread& at(unsigned who) noexcept { return *threads_[who]; }
  [[nodiscard]] status make(unsigned index) noexcept try {
    sets_[index] = std::make_unique<one_set>(*this, *domain_.at(index));
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for a set of regions");
  }
  void listen() {
    if (!domain_.has_log() || !wishes_.wake) return;
    domain_.log().on_pressure(wishes_.wake);
    domain_.on_behind(wishes_.wake);
  }

  M& medium_;
  const region_wishes wishes_;
  std::mutex lock_;
  region::domain<M> domain_;
  std::array<std::unique_ptr<one_set>, region::layout::sets_max> sets_;
  std::array<thread*, epochs::threads_max> threads_{};
  std::atomic<unsigned> open_changes_{0};
};

template <media M>
result<int> regions<M>::one_set::each(unsigned who, int (*visit)(std::uint64_t, std::uint64_t, void*),
                                      void* argument) noexcept try {
  const at_work_here visiting{all_.open_changes_};
  for (unsigned shard = 0; shard < region::table::shards; ++shard) {
    std::vector<std::uint64_t> rids;
    if (status s = of_.regions.load(shard); !s) return s.error();
    {
      const inside here{all_.domain_, all_.at(who)};
      of_.regions.for_each_of(shard, [&](const region::entry* e) { rids.push_back(e->rid); });
    }
    for (const std::uint64_t rid : rids) {
      const auto size = length(who, rid);
      if (!size && size.error() == errc::not_found) continue;
      if (!size) return size.error();
      if (const int answer = visit(rid, *size, argument); answer != 0) return answer;
    }
  }
  return 0;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the numbers of regions");
}

template <media M>
result<std::unique_ptr<region_side>> make_region_side(M& medium, std::byte* base, region_pages& pages,
                                                      region_wishes wishes) noexcept try {
  std::uint64_t key = 0;
  if (status s = platform::random_bytes(&key, sizeof key); !s) return s.error();
  auto made = std::make_unique<regions<M>>(medium, base, pages, key, std::move(wishes));
  if (status s = made->open(); !s) return s.error();
  return std::unique_ptr<region_side>{std::move(made)};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the regions of a pool");
}

}  // namespace nvm::engines
