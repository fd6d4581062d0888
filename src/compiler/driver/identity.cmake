# Writes a source file with a digest of what the compiler loads: cmake -DOUTPUT=... -DFILES=a,b -P identity.cmake
string(REPLACE "," ";" files "${FILES}")
set(all "")
foreach(file IN LISTS files)
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 all "${all}")
string(SUBSTRING ${all} 0 16 all)
file(WRITE ${OUTPUT} "// Written by identity.cmake.
#include \"compiler/driver/identity.hpp\"

const char nvm::compiler::driver::pass_identity[] = \"${all}\";
")
