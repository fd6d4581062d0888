/* Included before a durable example: the pool is there, its log calls do nothing. */
#include <nvm/nvm.h>
#define nvm_tx_log(p, n)               ((void)(p), (void)(n), 0)
#define nvm_tx_log_many(ranges, count) ((void)(ranges), (void)(count), 0)
