// Structures of the C library that have a pointer in them, and such as are bytes.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>

NVM_STRUCT event {
  struct tm when;
  // expected-error@-1 {{'when' of durable 'struct event' is a struct tm, whose memory is not the pool's: it has}}
  struct iovec parts[2]; // expected-error {{'parts' of durable 'struct event' is a struct iovec, whose memory}}
  struct stat file;
  struct timespec since;
  struct termios terminal;
  time_t at;
};
