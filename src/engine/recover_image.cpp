#include "engine/recover_image.hpp"

#include "nvm/nvm.h"
#include "pool/log_table.hpp"
#include "tx/tx.hpp"

namespace nvm::engines {
namespace {

log::validation validation_of(const layout::superblock& sb) noexcept {
  return static_cast<log::validation>(sb.validation);
}
void entered(unsigned, std::uint64_t) noexcept {}

status recover_lanes(std::byte* base, const geometry& g, const layout::superblock& sb,
                     tx::recovery_report& report) noexcept {
  ordered_media nothing;
  return tx::recover(nothing, base, g, tx::pool_key(sb.uuid), report, [](unsigned, std::uint64_t, std::uint32_t) {});
}
status recover_rings(std::byte* base, const geometry& g, const layout::superblock& sb,
                     tx::recovery_report& report) noexcept {
  ordered_media nothing;
  std::uint64_t used = 0;
  return tx::recover_redo(nothing, base, g, tx::pool_key(sb.uuid), validation_of(sb), report, used);
}
template <log::mnemosyne_kind Kind>
status recover_words(std::byte* base, const geometry& g, const layout::superblock& sb,
                     tx::recovery_report& report) noexcept {
  ordered_media nothing;
  return tx::recover_mnemosyne(nothing, base, g, Kind, validation_of(sb), report, entered);
}
status recover_nothing(std::byte*, const geometry&, const layout::superblock&, tx::recovery_report&) noexcept {
  return {};
}

struct log_recovery {
  log_kind kind;
  status (*recover)(std::byte* base, const geometry& g, const layout::superblock& sb,
                    tx::recovery_report& report) noexcept;
};
constexpr log_table<log_recovery> recoveries{{{
    {log_kind::lanes, recover_lanes},
    {log_kind::rings, recover_rings},
    {log_kind::new_words, recover_words<log::mnemosyne_kind::redo>},
    {log_kind::old_words, recover_words<log::mnemosyne_kind::undo>},
    {log_kind::none, recover_nothing},
}}};

}  // namespace

status recover_image(pool_file& file) noexcept {
  tx::recovery_report report;
  return recover_image(file.base(), file.geometry(), file.superblock(), report);
}

status recover_image(std::byte* base, const geometry& g, const layout::superblock& sb,
                     tx::recovery_report& report) noexcept {
  return recoveries[log_of(sb)].recover(base, g, sb, report);
}

}  // namespace nvm::engines
