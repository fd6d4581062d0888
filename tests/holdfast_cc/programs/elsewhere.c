/* What a library does that came compiled. */
void change_unlogged(char* p) {
  for (int i = 0; i < 4; i++) p[i] ^= 0x55;
}
void read_only(const char* p) { (void)p; }
