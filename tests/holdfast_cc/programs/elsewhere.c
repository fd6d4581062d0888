/* What a library does that came compiled. */
void change_unlogged(char* p) {
  for (int i = 0; i < 4; i++) p[i] ^= 0x55;
}
void read_only(const char* p) { (void)p; }
struct buried {
  long bytes;
  char* where;
};
void change_buried(const struct buried* b) { b->where[0] ^= 0x55; }
void warn(int code) { (void)code; }
int insque(long a, long b) { return a < b; }
