#include "explore/list_history.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>

namespace nvm::explore {
namespace {

enum class why : std::uint8_t { write_write, write_read, read_write, real_time };

struct edge_to {
  std::size_t node;
  why reason;
  std::uint64_t key;
};

std::string number_text(const list_transaction& t) { return "T" + std::to_string(t.number); }

// Facts about one key.
struct key_order {
  std::vector<std::uint64_t> order;  // the longest list read
  const list_transaction* reader = nullptr;
};

class checker {
 public:
  explicit checker(std::span<const list_transaction> history) : history_{history} {}

  verdict run() {
    if (verdict v = find_writers()) return v;
    if (verdict v = find_orders()) return v;
    find_counting();
    edges_.resize(history_.size());
    add_dependencies();
    add_real_time();
    return find_cycle();
  }

 private:
  struct append_of {
    std::size_t transaction;
    std::uint64_t key;
  };

  verdict find_writers() {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      for (const list_access& a : history_[i].accesses) {
        if (!a.append) continue;
        if (!writers_.try_emplace(a.element, append_of{i, a.key}).second)
          return fault("element " + std::to_string(a.element) + " is appended twice by the workload itself");
      }
    }
    return pass();
  }

  // Lists of one key are beginnings of each other.
  verdict find_orders() {
    for (const list_transaction& t : history_) {
      if (t.fate != fate::committed) continue;
      for (const list_access& a : t.accesses) {
        if (a.append) continue;
        if (verdict v = fits_writers(t, a)) return v;
        key_order& k = keys_[a.key];
        const auto& shorter = a.list.size() < k.order.size() ? a.list : k.order;
        const auto& longer = a.list.size() < k.order.size() ? k.order : a.list;
        if (!std::equal(shorter.begin(), shorter.end(), longer.begin())) {
          return fault("key " + std::to_string(a.key) + ": " + number_text(t) + " read " + text_of(a.list) + ", " +
                       number_text(*k.reader) + " read " + text_of(k.order) +
                       ": neither is the beginning of the other");
        }
        if (k.reader == nullptr || a.list.size() > k.order.size()) {
          k.order = a.list;
          k.reader = &t;
        }
      }
    }
    return pass();
  }

  verdict fits_writers(const list_transaction& t, const list_access& a) {
    for (std::size_t i = 0; i < a.list.size(); ++i) {
      const auto writer = writers_.find(a.list[i]);
      const std::string place = number_text(t) + " read " + text_of(a.list) + " of key " + std::to_string(a.key) + ": ";
      if (writer == writers_.end() || writer->second.key != a.key)
        return fault(place + std::to_string(a.list[i]) + " was never appended to it");
      if (history_[writer->second.transaction].fate == fate::rolled_back)
        return fault(place + std::to_string(a.list[i]) + " is of a transaction that was rolled back (G1a)");
      if (std::find(a.list.begin(), a.list.begin() + static_cast<std::ptrdiff_t>(i), a.list[i]) !=
          a.list.begin() + static_cast<std::ptrdiff_t>(i)) {
        return fault(place + std::to_string(a.list[i]) + " is in it twice");
      }
    }
    return pass();
  }

  // Committed, or cut off and seen by another transaction.
  void find_counting() {
    counts_.resize(history_.size());
    for (std::size_t i = 0; i < history_.size(); ++i) counts_[i] = history_[i].fate == fate::committed;
    for (const auto& [key, k] : keys_) {
      for (const std::uint64_t element : k.order) counts_[writers_.at(element).transaction] = true;
    }
  }

  void add(std::size_t from, std::size_t to, why reason, std::uint64_t key = 0) {
    if (from != to) edges_[from].push_back({to, reason, key});
  }

  void add_dependencies() {
    // Appends that were never read come after all that were.
    std::map<std::uint64_t, std::vector<std::size_t>> unread;
    for (const auto& [element, writer] : writers_) {
      if (!counts_[writer.transaction]) continue;
      const auto known = keys_.find(writer.key);
      if (known == keys_.end() ||
          std::find(known->second.order.begin(), known->second.order.end(), element) == known->second.order.end()) {
        unread[writer.key].push_back(writer.transaction);
      }
    }
    for (const auto& [key, k] : keys_) {
      for (std::size_t i = 1; i < k.order.size(); ++i)
        add(writers_.at(k.order[i - 1]).transaction, writers_.at(k.order[i]).transaction, why::write_write, key);
      if (k.order.empty()) continue;
      for (const std::size_t t : unread[key]) add(writers_.at(k.order.back()).transaction, t, why::write_write, key);
    }
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (history_[i].fate != fate::committed) continue;
      for (const list_access& a : history_[i].accesses) {
        if (!a.append) add_read(i, a, unread[a.key]);
      }
    }
  }

  void add_read(std::size_t reader, const list_access& a, const std::vector<std::size_t>& unread) {
    // The transaction's own appends at the end tell nothing new.
    std::size_t foreign = a.list.size();
    while (foreign > 0 && writers_.at(a.list[foreign - 1]).transaction == reader) --foreign;
    if (foreign > 0) add(writers_.at(a.list[foreign - 1]).transaction, reader, why::write_read, a.key);
    const auto& order = keys_.at(a.key).order;
    if (a.list.size() < order.size()) {
      add(reader, writers_.at(order[a.list.size()]).transaction, why::read_write, a.key);
    } else {
      for (const std::size_t t : unread) add(reader, t, why::read_write, a.key);
    }
  }

  // Adds a chain of all ends in order of time, which stands for an edge from each end to each later begin.
  void add_real_time() {
    std::vector<std::size_t> by_end;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      if (counts_[i]) by_end.push_back(i);
    }
    std::sort(by_end.begin(), by_end.end(),
              [this](std::size_t a, std::size_t b) { return history_[a].ended < history_[b].ended; });
    const std::size_t first = history_.size();
    edges_.resize(first + by_end.size());
    for (std::size_t k = 0; k < by_end.size(); ++k) {
      add(by_end[k], first + k, why::real_time);
      if (k + 1 < by_end.size()) add(first + k, first + k + 1, why::real_time);
    }
    for (const std::size_t i : by_end) {
      const auto later =
          std::lower_bound(by_end.begin(), by_end.end(), history_[i].begun,
                           [this](std::size_t t, std::uint64_t time) { return history_[t].ended < time; });
      if (later != by_end.begin()) add(first + static_cast<std::size_t>(later - by_end.begin()) - 1, i, why::real_time);
    }
  }

  // Tarjan's strongly connected components, without recursion; the shortest cycle of the first one.
  verdict find_cycle() {
    const std::size_t n = edges_.size();
    constexpr std::size_t none = SIZE_MAX;
    std::vector<std::size_t> index(n, none), low(n, 0), next(n, 0), stack, path;
    std::vector<bool> on_stack(n, false);
    std::size_t counter = 0;
    for (std::size_t root = 0; root < n; ++root) {
      if (index[root] != none) continue;
      path.push_back(root);
      while (!path.empty()) {
        const std::size_t v = path.back();
        if (index[v] == none) {
          index[v] = low[v] = counter++;
          stack.push_back(v);
          on_stack[v] = true;
        }
        if (next[v] < edges_[v].size()) {
          const std::size_t w = edges_[v][next[v]++].node;
          if (index[w] == none) {
            path.push_back(w);
          } else if (on_stack[w]) {
            low[v] = std::min(low[v], index[w]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[v]);
        if (low[v] != index[v]) continue;
        std::vector<std::size_t> component;
        while (true) {
          const std::size_t w = stack.back();
          stack.pop_back();
          on_stack[w] = false;
          component.push_back(w);
          if (w == v) break;
        }
        if (component.size() > 1) return fault(cycle_in(component));
      }
    }
    return pass();
  }

  std::string cycle_in(const std::vector<std::size_t>& component) const {
    std::vector<bool> inside(edges_.size(), false);
    for (const std::size_t v : component) inside[v] = true;
    struct step {
      std::size_t from;
      edge_to by;
    };
    std::vector<step> best;
    for (const std::size_t start : component) {
      if (start >= history_.size()) continue;
      std::unordered_map<std::size_t, step> reached;
      std::deque<std::size_t> work{start};
      while (!work.empty() && !reached.contains(start)) {
        const std::size_t v = work.front();
        work.pop_front();
        for (const edge_to& e : edges_[v]) {
          if (inside[e.node] && reached.try_emplace(e.node, step{v, e}).second) work.push_back(e.node);
        }
      }
      std::vector<step> found;
      for (std::size_t v = start; found.empty() || v != start;) {
        const step& s = reached.at(v);
        found.push_back(s);
        v = s.from;
      }
      if (best.empty() || found.size() < best.size()) best = std::move(found);
      if (best.size() <= 3) break;
    }
    std::reverse(best.begin(), best.end());
    return text_of_cycle(best);
  }

  template <class Steps>
  std::string text_of_cycle(const Steps& steps) const {
    unsigned anti = 0;
    bool reads = false, time = false;
    std::string text;
    for (const auto& s : steps) {
      anti += s.by.reason == why::read_write ? 1 : 0;
      reads |= s.by.reason == why::write_read;
      time |= s.by.reason == why::real_time;
      if (s.from < history_.size()) text += number_text(history_[s.from]) + " ";
      if (s.by.node >= history_.size()) continue;  // a link of the chain of times
      if (s.by.reason == why::real_time) {
        text += "ended before ";
      } else {
        const char* verb = s.by.reason == why::write_write  ? "wrote before "
                           : s.by.reason == why::write_read ? "was read by "
                                                            : "did not see ";
        text += "(key " + std::to_string(s.by.key) + ") " + verb;
      }
    }
    text += number_text(history_[steps.front().from]);
    const std::string kind = anti > 1 ? "G2" : anti == 1 ? "G-single" : reads ? "G1c" : "G0";
    return "not serializable, a cycle (" + kind + (time ? ", with real time" : "") + "): " + text;
  }

  static std::string text_of(const std::vector<std::uint64_t>& list) {
    std::string text = "[";
    for (const std::uint64_t element : list) text += (text.size() > 1 ? " " : "") + std::to_string(element);
    return text + "]";
  }

  std::span<const list_transaction> history_;
  std::unordered_map<std::uint64_t, append_of> writers_;
  std::map<std::uint64_t, key_order> keys_;
  std::vector<bool> counts_;
  std::vector<std::vector<edge_to>> edges_;  // of transactions, then of the links of the chain of times
};

}  // namespace

verdict check_list_history(std::span<const list_transaction> history) { return checker{history}.run(); }

}  // namespace nvm::explore
