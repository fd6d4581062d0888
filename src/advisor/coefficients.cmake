# Makes a header of coefficients.txt: cmake -DINPUT=... -DOUTPUT=... -P coefficients.cmake
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "// Written by coefficients.cmake.
#pragma once

#include <string_view>

namespace nvm::advisor {

inline constexpr std::string_view coefficients_text = R\"costs(${text})costs\";

}  // namespace nvm::advisor
")
