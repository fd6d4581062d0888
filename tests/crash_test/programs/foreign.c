/* Compiled without recording: what it stores nobody reports. */
#include <stdint.h>

void foreign_store(uint64_t* to, uint64_t value);
void foreign_store(uint64_t* to, uint64_t value) { *to = value; }
