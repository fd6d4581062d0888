#include "compiler/itm/journal.hpp"

#include <cstring>

namespace nvm::itm {

void journal::keep(const void* p, std::size_t n) {
  const auto* bytes = static_cast<const std::byte*>(p);
  entries_.push_back({kind::bytes, nullptr, const_cast<void*>(p), n, old_.size()});
  old_.insert(old_.end(), bytes, bytes + n);
}

void journal::undo(std::size_t mark, std::uintptr_t dead, std::uintptr_t dead_end) noexcept {
  while (entries_.size() > mark) {
    const entry e = entries_.back();
    entries_.pop_back();
    switch (e.what) {
      case kind::bytes: {
        const auto place = reinterpret_cast<std::uintptr_t>(e.argument);
        if (place < dead || place >= dead_end) std::memcpy(e.argument, old_.data() + e.at, e.size);
        old_.resize(e.at);
        break;
      }
      case kind::undo_action:
        e.call(e.argument);
        break;
      case kind::commit_action:
        break;
    }
  }
}

void journal::finish() noexcept {
  if (entries_.empty()) return;
  std::vector<entry> entries;
  entries.swap(entries_);
  old_.clear();
  for (const entry& e : entries) {
    if (e.what == kind::commit_action) e.call(e.argument);
  }
  entries.clear();
  if (entries_.empty()) entries_.swap(entries);  // the room
}

}  // namespace nvm::itm
