"""The table of docs/compiler-stores.md: what came of each intrinsic, and why some are not logged."""
import re

# Results of frame.h that are no fault though the bytes of two runs differ: it is the processor's state that is stored.
STATE = re.compile(r"_fxsave|_xsave")
EXECUTED, COMPILED = "executed, taken back", "compiled, logged; not executed"

# What is not logged, and why: the first that matches. Everything else that LLVM says may write has to be logged.
NOT_LOGGED = [
    (r"_load_mask\d+", "reads"),
    (r"_?_?x86\.fxrstor|_fxrstor|x86\.xrstors?|_xrstors?", "reads"),
    (r"_invpcid|x86\.invpcid|_mm_monitorx?|_umonitor|x86\.(sse3\.)?u?monitorx?$", "reads the line, or nothing"),
    (r"x86\.(clflushopt|clwb|cldemote|sse2\.clflush)|prefetch", "orders or moves lines of the cache, changes no byte"),
    (r"x86\.sse\.ldmxcsr|x86\.ldtilecfg|x86\.tileload", "reads"),
    (r"x86\.aes(enc|dec)(wide)?(128|256)kl", "reads"),
    (r"lifetime|invariant|objc\.clang\.arc\.use|localescape|seh\.|experimental\.stackmap", "a remark for the compiler"),
    (r"(hw)?asan\.check|va_end|clear_cache|stackrestore|eh\.|coro\.done|coro\.end\.results",
     "reads, or writes nothing"),
    (r"coro\.async\.resume|coro\.suspend|swift\.async|icall\.branch\.funnel",
     "goes elsewhere, and writes nothing itself"),
    (r"xray\.", "reads what it reports"),
    (r"x86\.slwpcb|x86\.lwp(ins|val)", "gets no pointer: fills a buffer of the thread that `__llwpcb` named"),
    (r"x86\.(rd|wr)(fs|gs)base|x86\.ptwrite|x86\.senduipi", "gets no pointer"),
]
NOT_CALLED = [
    (r"x86\.t(cmm|dp)", "works on registers of the compiler's own"),
    (r"x86\.tilestored64\.internal", "made by `__tile_stored`, above"),
    (r"init\.trampoline", "wants a nested function; 23 bytes are logged"),
    (r"coro\.|call\.preallocated|callbr|experimental\.(deoptimize|gc|guard)", "part of a construct, not a call"),
    (r"gcroot|stackprotector", "writes its function's own memory"),
    (r"(read_volatile|write)_register", "names a register"),
]


def reason(reasons, name):
    return next((why for pattern, why in reasons if re.search(pattern, name)), "")


def result_of(name, results, logged):
    """One word for all builds: an intrinsic that ran in one of them ran."""
    bad = results & {"LOST", "ABORTED"} or (results & {"DIFFERS"} if not STATE.match(name) else set())
    if bad:
        return ", ".join(sorted(bad))
    if results & {"restored", "varies", "DIFFERS"}:
        return EXECUTED
    if logged:
        return COMPILED
    return "not logged: " + reason(NOT_LOGGED, name)


def rows(found, results, logged):
    return {i.name: (i.target.replace(",no-evex512", "").replace(",evex512", ""),
                     result_of(i.name, results[i.name], i.name in logged)) for i in found}


def rows_of_llvm(of_llvm, not_callable):
    made = {}
    for name, (result, arguments) in of_llvm.items():
        if result == "nothing":
            names_memory = "ptr" in arguments
            why = reason(NOT_LOGGED, name) if names_memory else "gets no pointer"
            result = "not logged: " + why
        made[name] = ("", "the pass logs it" if result == "logged" else result)
    made.update({name: ("", "not called: " + reason(NOT_CALLED, name)) for name in not_callable})
    return dict(sorted(made.items()))


def unexplained(everything):
    """Neither logged nor refused, and nobody has said why that is right."""
    return [f"{name}: {result}" for name, (_, result) in everything.items()
            if result.endswith(": ") or result in ("LOST", "DIFFERS", "ABORTED")]


def lines(everything):
    return [f"| `{name}` | {target} | {result} |" for name, (target, result) in everything.items()]


def document(everything, loops):
    of_c = {n: r for n, r in everything.items() if n.startswith("_")}
    of_llvm = {n: r for n, r in everything.items() if n not in of_c}

    def count(part, start):
        return sum(r.startswith(start) for _, r in part.values())
    return "\n".join([
        "# What holdfast-cc makes of intrinsics that store",
        "",
        "Made by `./dev explore intrinsics --write`; a test compares it, and runs a part. Where the names come from:",
        "Clang's own headers, all functions and macros that get a pointer to something not const; and LLVM 19, all",
        "intrinsics of any target or of x86 that may write memory. Each of the first stores into a durable object, in a",
        "transaction that is aborted and in one that commits, and into ordinary memory, and so do",
        f"{loops} loops that become vector stores. [explored.md](explored.md) has the builds that were run,",
        "[compiler.md](compiler.md) what is logged.",
        "",
        f"* Of {len(of_c)} intrinsics of the headers {count(of_c, 'executed')} were executed and taken back, and",
        f"  {count(of_c, 'compiled')} are compiled and call the log, on a processor that has no such instruction, or not for",
        f"  programs; {count(of_c, 'not logged')} are not logged, because they read.",
        f"* Of {len(of_llvm)} intrinsics of LLVM {count(of_llvm, 'the pass')} are logged, {count(of_llvm, 'not logged')} not, "
        f"{count(of_llvm, 'refused')} refused; {count(of_llvm, 'not called')} cannot be called alone.",
        "",
        "| Intrinsic of the headers | Needs | What came of it |",
        "| --- | --- | --- |",
        *lines(of_c),
        "",
        "| Intrinsic of LLVM | What came of it |",
        "| --- | --- |",
        *[f"| `{name}` | {result} |" for name, (_, result) in of_llvm.items()],
        "",
    ])


def write(file, everything, loops):
    with open(file, "w", encoding="utf-8") as out:
        out.write(document(everything, loops))
    return []


def known_results(file):
    with open(file, encoding="utf-8") as text:
        return dict(re.findall(r"^\| `([\w.]+)` \|(?:[^|]*\|)? ([^|]*) \|$", text.read(), flags=re.M))


def differences(file, everything):
    """A processor may have less than the one that the table was made on."""
    known = known_results(file)
    for name in sorted(known.keys() ^ everything.keys()):
        yield f"{name}: {'gone' if name in known else 'not'} in {file}; ./dev explore intrinsics --write"
    for name in known.keys() & everything.keys():
        result = everything[name][1]
        if result != known[name] and {result, known[name]} != {EXECUTED, COMPILED}:
            yield f"{name}: {result}; {file} says: {known[name]}"
