#include "engine/recover_image.hpp"

#include "nvm/nvm.h"
#include "tx/tx.hpp"

namespace nvm::engines {

status recover_image(pool_file& file) noexcept {
  tx::recovery_report report;
  return recover_image(file.base(), file.geometry(), file.superblock(), report);
}

status recover_image(std::byte* base, const geometry& g, const layout::superblock& sb,
                     tx::recovery_report& report) noexcept {
  ordered_media nothing;
  const auto validation = static_cast<log::validation>(sb.validation);
  const auto entered = [](unsigned, std::uint64_t) {};
  switch (log_of(sb)) {
    case log_kind::lanes:
      return tx::recover(nothing, base, g, tx::pool_key(sb.uuid), report, entered);
    case log_kind::rings: {
      std::uint64_t used = 0;
      return tx::recover_redo(nothing, base, g, tx::pool_key(sb.uuid), validation, report, used);
    }
    case log_kind::new_words:
      return tx::recover_mnemosyne(nothing, base, g, log::mnemosyne_kind::redo, validation, report, entered);
    case log_kind::old_words:
      return tx::recover_mnemosyne(nothing, base, g, log::mnemosyne_kind::undo, validation, report, entered);
    case log_kind::none:
      break;
  }
  return {};
}

}  // namespace nvm::engines
