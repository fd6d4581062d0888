// Failures as the C caller sees them.
#include <cstdint>
#include <cstdio>

#include "api/report.hpp"
#include "nvm/nvm.h"

namespace nvm::api {

int report(errc code) noexcept {
  report_failure(code);
  return -1;
}

reported::reported(errc code) noexcept : code_{code}, cause_{last_cause()} {
  report(code);
  std::snprintf(message_, sizeof message_, "%s", reported_message());
}
int reported::again() const noexcept { return report(fail_for(cause_, code_, "%s", message_)); }

}  // namespace nvm::api

extern "C" {

int nvm_errno(void) { return static_cast<int>(nvm::reported_code()); }
const char* nvm_errormsg(void) { return nvm::reported_message(); }

int nvm_fail(int code, const char* sentence) {
  if (code <= 0 || code > UINT8_MAX) code = NVM_E_INVALID;
  return nvm::api::report(nvm::fail(static_cast<nvm::errc>(code), "%s", sentence == nullptr ? "" : sentence));
}

const char* nvm_error_name(int code) {
  switch (code) {
    case NVM_OK:
      return "NVM_OK";
    case NVM_E_INVALID:
      return "NVM_E_INVALID";
    case NVM_E_SYSTEM:
      return "NVM_E_SYSTEM";
    case NVM_E_NOT_FOUND:
      return "NVM_E_NOT_FOUND";
    case NVM_E_EXISTS:
      return "NVM_E_EXISTS";
    case NVM_E_NOT_A_POOL:
      return "NVM_E_NOT_A_POOL";
    case NVM_E_VERSION:
      return "NVM_E_VERSION";
    case NVM_E_CORRUPT:
      return "NVM_E_CORRUPT";
    case NVM_E_BUSY:
      return "NVM_E_BUSY";
    case NVM_E_NO_SPACE:
      return "NVM_E_NO_SPACE";
    case NVM_E_TOO_LARGE:
      return "NVM_E_TOO_LARGE";
    case NVM_E_NO_TRANSACTION:
      return "NVM_E_NO_TRANSACTION";
    case NVM_E_TX_OPEN:
      return "NVM_E_TX_OPEN";
    case NVM_E_MUST_ABORT:
      return "NVM_E_MUST_ABORT";
    case NVM_E_BAD_POINTER:
      return "NVM_E_BAD_POINTER";
    case NVM_E_READ_ONLY:
      return "NVM_E_READ_ONLY";
    case NVM_E_MEDIUM:
      return "NVM_E_MEDIUM";
    case NVM_E_IO:
      return "NVM_E_IO";
    case NVM_E_FORKED:
      return "NVM_E_FORKED";
    case NVM_E_ADDRESS:
      return "NVM_E_ADDRESS";
    case NVM_E_NO_MEMORY:
      return "NVM_E_NO_MEMORY";
    case NVM_E_LOG_FULL:
      return "NVM_E_LOG_FULL";
    case NVM_E_NO_LANE:
      return "NVM_E_NO_LANE";
    case NVM_E_TYPE_MISMATCH:
      return "NVM_E_TYPE_MISMATCH";
    case NVM_E_ENGINE:
      return "NVM_E_ENGINE";
    case NVM_E_IN_DOUBT:
      return "NVM_E_IN_DOUBT";
    case NVM_E_COPY:
      return "NVM_E_COPY";
    default:
      return "NVM_E_?";
  }
}

}  // extern "C"
