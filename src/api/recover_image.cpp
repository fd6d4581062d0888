#include "api/recover_image.hpp"

#include "nvm/nvm.h"
#include "tx/tx.hpp"

namespace nvm::api {

status recover_image(pool_file& file) noexcept {
  ordered_media nothing;
  tx::recovery_report report;
  const geometry g = file.geometry();
  const layout::superblock& sb = file.superblock();
  const auto validation = static_cast<log::validation>(sb.validation);
  const auto entered = [](unsigned, std::uint64_t) {};
  if (sb.engine == NVM_ENGINE_REDO && sb.medium != NVM_MEDIUM_SSD) {
    std::uint64_t used = 0;
    return tx::recover_redo(nothing, file.base(), g, tx::pool_key(sb.uuid), validation, report, used);
  }
  if (sb.engine == NVM_ENGINE_MNEMOSYNE || sb.engine == NVM_ENGINE_MNEMOSYNE_UNDO) {
    const auto kind = sb.engine == NVM_ENGINE_MNEMOSYNE ? log::mnemosyne_kind::redo : log::mnemosyne_kind::undo;
    return tx::recover_mnemosyne(nothing, file.base(), g, kind, validation, report, entered);
  }
  return tx::recover(nothing, file.base(), g, tx::pool_key(sb.uuid), report, entered);
}

}  // namespace nvm::api
