// Stores of the library itself by transactions, each durable when it returns: whole words, and type maps.
#pragma once

#include <memory>
#include <span>

#include "ground.hpp"
#include "image_process.hpp"
#include "object/object.hpp"

namespace nvm::tests {

// By the engine on direct media.
class transactions_on_ground {
 public:
  transactions_on_ground(explore::machine& m, kind_of_medium kind) : m_{&m}, kind_{kind} {}
  status operator()(std::span<const tx::assigned_word> words) {
    return one([&](ground& g) { return g.assign(0, words); });
  }
  status publish(std::span<const std::uint64_t> map) {
    return one([&](ground& g) { return g.publish_types(0, map.data(), map.size_bytes()); });
  }

 private:
  template <class Body>
  status one(Body&& body) {
    if (g_ == nullptr) g_ = open_ground(*m_, kind_);
    if (g_ == nullptr || !g_->acquire(0)) return fail(errc::busy, "no heap: %s", last_message());
    if (status s = g_->begin(0); !s) return s;
    if (status s = body(*g_); !s) return s;
    const auto lsn = g_->commit(0);
    g_->release(0);
    return lsn ? status{} : status{lsn.error()};
  }

  explore::machine* m_;
  kind_of_medium kind_;
  std::shared_ptr<ground> g_;
};

// On an image.
class transactions_on_image {
 public:
  explicit transactions_on_image(image_process& p) : p_{&p} {}
  status operator()(std::span<const tx::assigned_word> words) {
    return one([&](heap& h) -> status {
      for (const tx::assigned_word& w : words) {
        if (status s = (*h.of_lane(0))->assign(&w, 1); !s) return s;
      }
      return {};
    });
  }
  status publish(std::span<const std::uint64_t> map) {
    return one([&](heap& h) {
      return object::publish_types(h, geometry_of(p_->superblock), **h.of_lane(0), map.data(), map.size_bytes());
    });
  }

 private:
  using heap = tx::heap<image_media>;
  template <class Body>
  status one(Body&& body) {
    if (h_ == nullptr) {
      const layout::superblock& sb = p_->superblock;
      h_ = std::make_shared<heap>(
          *p_->medium, p_->view.get(), geometry_of(sb), tx::pool_key(sb.uuid), 1U,
          [](std::uint64_t) -> result<std::uint64_t> { return fail(errc::no_space, "it does not grow"); },
          tx::engine_settings{});
      if (status s = h_->boot(); !s) return s;
    }
    auto& t = **h_->of_lane(0);
    if (status s = t.begin(); !s) return s;
    if (status s = body(*h_); !s) return s;
    const auto lsn = t.commit();
    return lsn ? status{} : status{lsn.error()};
  }

  image_process* p_;
  std::shared_ptr<heap> h_;
};

}  // namespace nvm::tests
