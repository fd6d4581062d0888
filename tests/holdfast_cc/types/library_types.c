// Structures of the C library that have a pointer in them, and such as are bytes.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>

typedef pthread_mutex_t own_name;
NVM_STRUCT of_process {
  own_name mutex; // expected-error {{'mutex' of durable 'struct of_process' is a pthread_mutex_t, a lock, which after}}
  pthread_cond_t condition; // expected-error {{'condition' of durable 'struct of_process' is a pthread_cond_t, a lock}}
  pthread_rwlock_t rwlocks[2]; // expected-error {{'rwlocks' of durable 'struct of_process' is a pthread_rwlock_t}}
  pthread_spinlock_t spin; // expected-error {{'spin' of durable 'struct of_process' is a pthread_spinlock_t, a lock}}
  pthread_once_t once; // expected-error {{'once' of durable 'struct of_process' is a pthread_once_t, a lock}}
  sem_t semaphore; // expected-error {{'semaphore' of durable 'struct of_process' is a sem_t, a lock}}
  pthread_t thread; // expected-error {{'thread' of durable 'struct of_process' is a pthread_t, which the next}}
  int number;
};
NVM_STRUCT event {
  struct tm when;
  // expected-error@-1 {{'when' of durable 'struct event' is a struct tm, whose memory is not the pool's: it has}}
  struct iovec parts[2]; // expected-error {{'parts' of durable 'struct event' is a struct iovec, whose memory}}
  struct stat file;
  struct timespec since;
  struct termios terminal;
  time_t at;
};
