"""Loops that a vectoriser may turn into any kind of store, over every element type. Cases as in frame.h."""
TYPES = {"i8": "int8_t", "u16": "uint16_t", "i32": "int32_t", "u64": "uint64_t", "f32": "float", "f64": "double"}
NARROWER = {"u16": "uint8_t", "i32": "int16_t", "u64": "uint32_t", "f32": "int8_t", "f64": "float"}

# T the type, N how often: a constant, or a number that the compiler does not know.  Floats come from small integers,
# so that no order of additions matters.
SHAPES = {
    "copied": "for (long i = 0; i < N; i++) d[i] = (T)t[i];",
    "filled": "for (long i = 0; i < N; i++) d[i] = (T)7;",
    "cleared": "for (long i = 0; i < N; i++) d[i] = 0;",
    "moved_up": "for (long i = N; i > 0; i--) d[i] = d[i - 1];",
    "moved_down": "for (long i = 0; i < N; i++) d[i] = d[i + 3];",
    "backwards": "for (long i = 0; i < N; i++) d[N - i] = (T)t[i];",
    "every_second": "for (long i = 0; i < N; i++) d[2 * i] = (T)t[i];",
    "every_third": "for (long i = 0; i < N; i++) d[3 * i + 1] = (T)(t[i] + 1);",
    "every_fifth": "for (long i = 0; i < N; i++) d[5 * i] += (T)t[i];",
    "strided_by_argument": "long k = some / 29; for (long i = 0; i < N; i++) d[k * i] = (T)t[i];",
    "pairs": "for (long i = 0; i < N; i++) d[2 * i] = (T)t[i], d[2 * i + 1] = (T)(t[i] + 1);",
    "triples": "for (long i = 0; i < N; i++) d[3 * i] = (T)t[i], d[3 * i + 1] = 2, d[3 * i + 2] = (T)t[i + 1];",
    "interleaved_with_gap": "for (long i = 0; i < N; i++) d[4 * i] = (T)t[i], d[4 * i + 1] = 2, d[4 * i + 3] = 3;",
    "chosen": "for (long i = 0; i < N; i++) if (t[i] & 1) d[i] = (T)t[i];",
    "chosen_by_itself": "for (long i = 0; i < N; i++) if (d[i] > (T)t[i]) d[i] = (T)t[i];",
    "chosen_strided": "for (long i = 0; i < N; i++) if (t[i] & 2) d[3 * i] = (T)t[i];",
    "one_or_other": "for (long i = 0; i < N; i++) if (t[i] & 1) d[i] = 1; else d[1000 + i] = 2;",
    "packed": "long k = 0; for (long i = 0; i < N; i++) if (t[i] & 1) d[k++] = (T)t[i];",
    "scattered": "for (long i = 0; i < N; i++) d[t[i] * 5] = (T)i;",
    "scattered_and_chosen": "for (long i = 0; i < N; i++) if (t[i] > 20) d[t[i] * 3] = (T)i;",
    "counted": "for (long i = 0; i < N; i++) d[t[i]]++;",
    "summed_into_memory": "for (long i = 0; i < N; i++) *d += (T)t[i];",
    "least_in_memory": "*d = 40; for (long i = 0; i < N; i++) if ((T)(t[i] + 9) < *d) *d = (T)(t[i] + 9);",
    "running_sum": "for (long i = 1; i < N; i++) d[i] = (T)(d[i - 1] + (T)t[i]);",
    "four_sums": "for (long i = 0; i < N; i++) d[i & 3] += (T)t[i];",
    "field_of_rows": "struct r { T a, b, c, d, e; } *r = (void *)m; for (long i = 0; i < N; i++) r[i].c = (T)t[i];",
    "two_fields_of_rows": "struct r { T a, b, c; } *r = (void *)m; for (long i = 0; i < N; i++)"
                          " r[i].a = 1, r[i].c = (T)t[i];",
    "field_of_chosen_rows": "struct r { T a, b, c; int32_t k; } *r = (void *)m;"
                            " for (long i = 0; i < N; i++) if ((r[i].k ^ t[i]) & 1) r[i].b = (T)t[i];",
    "arrays_of_a_structure": "struct r { T a[600], b[600], c[600]; } *r = (void *)m;"
                             " for (long i = 0; i < N; i++) r->a[i] = (T)t[i], r->b[i] = 2, r->c[i] = (T)(t[i] + 3);",
    "two_loops": "for (long i = 0; i < N / 16; i++) for (long j = 0; j < 9; j++) d[32 * i + j] = (T)(i + j);",
    "transposed": "for (long i = 0; i < N / 8; i++) for (long j = 0; j < 8; j++) d[j * 64 + i] = (T)t[i * 8 + j];",
    "until_found": "for (long i = 0; i < N && t[i] != 61; i++) d[i] = (T)t[i];",
    "structures_copied": "struct r { T a[3]; } *r = (void *)m; for (long i = 0; i < N; i++)"
                         " r[i] = ((struct r *)(s + 64))[i % 16];",
    "aliased": "T *e = d + some / 50; for (long i = 0; i < N; i++) e[i] = (T)(d[i] + 1);",
    "with_a_library_call": "memmove(d + 5, d, (size_t)N); memset(d + 900, 3, (size_t)N);"
                           " memcpy(d + 1800, s, (size_t)N);",
}
NARROW = "W *w = (void *)m; for (long i = 0; i < N; i++) w[i] = (W)x[i];"
NARROW_CHOSEN = "W *w = (void *)m; for (long i = 0; i < N; i++) if (t[i] & 1) w[2 * i] = (W)x[i];"
COUNTS = {"known": "200", "short": "29", "unknown": "n"}


def cases():
    """(name, body of a function of m and s)."""
    for kind, plain in TYPES.items():
        shapes = dict(SHAPES)
        if kind in NARROWER:
            shapes.update(narrowed=NARROW, narrowed_and_chosen=NARROW_CHOSEN)
        for shape, text in shapes.items():
            for count, number in COUNTS.items():
                before = (f"typedef {plain} T; T *d = (T *)m; const unsigned char *t = few; long n = some;"
                          " (void)d, (void)t, (void)n; ")
                if "W " in text:
                    before += f"typedef {NARROWER[kind]} W; T x[200]; for (int i = 0; i < 200; i++) x[i] = (T)t[i]; "
                yield f"{shape}_{kind}_{count}", before + text.replace("N", number)
