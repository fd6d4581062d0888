/* `check_ring FILE`: exit code 0 if every record that the count promises is whole. */
#include <inttypes.h>
#include <stdio.h>

int main(int argc, char** argv) {
  uint64_t words[512];
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL || fread(words, sizeof words, 1, file) != 1) {
    return 2;
  }
  for (uint64_t k = 0; k < words[0]; ++k) {
    const uint64_t* record = &words[8 * (k + 1)];
    if (k >= 63 || record[0] != k + 1 || (record[0] ^ record[1]) != record[2]) {
      fprintf(stderr, "record %" PRIu64 " of %" PRIu64 " is torn or lost\n", k + 1, words[0]);
      return 1;
    }
  }
  return 0;
}
