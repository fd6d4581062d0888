holdfast-profile 1
build ab12
program /bin/p
clock 8192 1000 2000
settings 4 4096 32768
file 1 0123456789abcdef0123456789abcdef /src/a%20b.c
unit 1 /src clang%20-O2%20a.c
place 1 1 10 3 xmalloc malloc 0
place 2 1 20 5 make xmalloc 0
site 1 0 2 1 2 100 6400 64 40 0 60 3840 6400 1000 2000 128000 300 200 2400 1600 50 20 10
file 2 - /src/b.c
place 3 2 7 9 main xmalloc 2
site 2 0 2 1 3 1 10 10 0 2 1 10 10 5 6 7 8 9 10 11 12 13 14
site 3 1 0 0 0 0 0 0 0 0 0 0 0 0 70 80 90 100 0 1 2
edge 1 free 2 40
edge 2 realloc 3 2
sum 8194fbe97f4cadd9
