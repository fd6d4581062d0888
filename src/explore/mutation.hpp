// Mutation: a change of the trace that a test must notice, or the place it changes is not needed.
#pragma once

#include <cstdint>
#include <string>

#include "explore/trace.hpp"
#include "media/media.hpp"

namespace nvm::explore {

struct mutation {
  enum class kind : std::uint8_t {
    none,
    drop_fence,   // all fences or syncs of one label
    drop_flush,   // all flushes of one site
    drop_write,   // all block writes of one site
    delay_flush,  // all flushes of one site happen after the fence that follows them
  };
  kind what = kind::none;
  std::string place;  // as place::text(); of a flush or a write, a suffix of it is enough

  [[nodiscard]] bool hits(const explore::place& p) const;
  [[nodiscard]] std::string text() const;
  // Names the mutation in a token.
  [[nodiscard]] std::uint32_t code() const noexcept;
};

[[nodiscard]] inline mutation without(edge e) { return {mutation::kind::drop_fence, e.name}; }
[[nodiscard]] inline mutation without_flush(std::string site) { return {mutation::kind::drop_flush, std::move(site)}; }
[[nodiscard]] inline mutation without_write(std::string site) { return {mutation::kind::drop_write, std::move(site)}; }
[[nodiscard]] inline mutation delayed_flush(std::string site) { return {mutation::kind::delay_flush, std::move(site)}; }

}  // namespace nvm::explore
