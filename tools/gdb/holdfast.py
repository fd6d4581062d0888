"""GDB: pools, durable fields and stores of Holdfast, printed as what they are, and the objects of pools.

    (gdb) source PREFIX/share/holdfast/gdb/holdfast.py

Printed: NVM_POOL *, nvm::pool, nvm::p<T>, nvm::ref<T>, nvm::weak<T>, nvm_kv *, nvm::kv, nvm_lf *. Command: `holdfast object ADDRESS`. Everything is
read from memory, nothing is called: it works in a process that has stopped anywhere, and in a core file as far as that
holds the memory (pools are mapped files: `echo 0x3f > /proc/PID/coredump_filter` puts them into cores).
"""

import struct

import gdb

# src/api/debugger_view.hpp
VIEW = struct.Struct("<8sQQIIQQ")
ENGINES = {1: "undo", 2: "redo", 3: "mnemosyne", 4: "mnemosyne-undo", 5: "log"}
MEDIA = {1: "shm", 2: "dax", 3: "auto", 4: "ssd"}
INDEXES = {1: "list", 2: "hash", 3: "btree", 4: "rbtree", 5: "regions"}
STRUCTURES = {1: "list", 2: "hash table", 3: "skip list", 4: "search tree"}
# include/nvm/nvm.h, src/platform/map.hpp, src/pool/pool_layout.hpp
WINDOW_BASE, WINDOW_BITS = 0x200000000000, 45
GRANULE = 1 << (WINDOW_BITS - 15)
MAGIC = b"HOLDFAST"
HEADER_BYTES = 16


class Unreadable(Exception):
    """What a handle leads to is not in memory, or is something else."""


def bytes_at(address, count):
    try:
        return bytes(gdb.selected_inferior().read_memory(int(address), count))
    except gdb.error as error:
        raise Unreadable(str(error)) from error


def word_at(address):
    return struct.unpack("<Q", bytes_at(address, 8))[0]


def text_at(address):
    """The text that begins there, up to 4096 bytes."""
    text = b""
    while len(text) < 4096:
        # Not over the end of a page, after which nothing may be mapped.
        part = bytes_at(address + len(text), 4096 - (address + len(text)) % 4096)
        end = part.find(b"\0")
        text += part if end < 0 else part[:end]
        if end >= 0:
            break
    return text.decode(errors="replace")


def view_at(handle, mark):
    fields = VIEW.unpack(bytes_at(handle, VIEW.size))
    if fields[0] != mark:
        raise Unreadable(f"no open handle: {int(handle):#x}")
    return fields[1:]


def size_text(size):
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and size % 1024 == 0 and len(units) > 1:
        size //= 1024
        units.pop(0)
    return f"{size} {units[0]}"


def pool_text(handle):
    path, base, engine, medium, size_pages, page_bytes = view_at(handle, b"HNVMPOOL")
    return (f"pool {text_at(path)}, engine {ENGINES.get(engine, engine)}, medium {MEDIA.get(medium, medium)}, "
            f"{size_text(word_at(size_pages) * page_bytes)} at {base:#x}")


def kv_text(handle):
    name, pool, index, _, _, _ = view_at(handle, b"NVMSTORE")
    return f"key-value store '{text_at(name)}', {INDEXES.get(index, index)}, in {pool_text(pool)}"


def lf_text(handle):
    name, pool, kind, _, _, _ = view_at(handle, b"NVMSTRFL")
    return f"lock-free {STRUCTURES.get(kind, kind)} '{text_at(name)}', in {pool_text(pool)}"


HANDLES = {"nvm_pool": pool_text, "nvm_kv": kv_text, "nvm_lf": lf_text}
HOLDERS = {"nvm::pool": pool_text, "nvm::kv": kv_text}


class Handle:
    """A handle of the library, or a C++ object whose only member holds one."""

    def __init__(self, text, handle, before=""):
        self.text, self.handle, self.before = text, int(handle), before

    def to_string(self):
        if self.handle == 0:
            return f"{self.before}NULL" if self.before else "nothing"
        try:
            return self.before + self.text(self.handle)
        except Unreadable as why:
            return f"{self.before}{why}"


class Field:
    """nvm::p<T>, nvm::ref<T>, nvm::weak<T>: the value itself."""

    def __init__(self, value):
        self.value = value["value_"]

    def to_string(self):
        return self.value


def look_up(value):
    kind = value.type.strip_typedefs().unqualified()
    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        return look_up(value.referenced_value())
    if kind.code == gdb.TYPE_CODE_PTR:
        text = HANDLES.get(kind.target().strip_typedefs().unqualified().name)
        return Handle(text, value, f"({value.type}) {int(value):#x}: " if int(value) else "") if text else None
    name = kind.name or ""
    if name.startswith("nvm::p<"):
        return Field(value)
    if name.startswith(("nvm::ref<", "nvm::weak<")):
        return Field(value["to_"])
    if name in HOLDERS and value.address is not None:
        return Handle(HOLDERS[name], word_at(value.address))
    return None


def crc8(data):
    """As src/base/checked_word.hpp."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1) ^ 0x2F if crc & 0x80 else crc << 1
            crc &= 0xFF
    return crc


def crc8_56(content, seed):
    return crc8(bytes([seed]) + (content & (1 << 56) - 1).to_bytes(7, "big"))


def seed_of(offset):
    word = offset >> 3
    folded = 0
    for shift in range(0, 36, 7):
        folded ^= word >> shift
    folded &= 0x7F
    return folded << 1 | bin(folded).count("1") & 1


def object_at(address, base):
    """(size, type) of the object whose first byte is at the address; None if its header does not hold."""
    offset = address - HEADER_BYTES - base
    if offset <= 0 or address % 16 != 0 or offset % 8 != 0:
        return None
    word, kind = struct.unpack("<QI", bytes_at(address - HEADER_BYTES, 12))
    size = word & (1 << 40) - 1
    check = crc8_56(size, crc8_56(kind, seed_of(offset))) ^ 0x5A
    return (size, kind) if size != 0 and word >> 56 == check else None


def base_around(address):
    """Where the pool is mapped that holds the address; None."""
    if address >> WINDOW_BITS != WINDOW_BASE >> WINDOW_BITS:
        return None
    base = address // GRANULE * GRANULE
    while base >= WINDOW_BASE:
        try:
            if bytes_at(base, len(MAGIC)) == MAGIC:
                return base
        except Unreadable:
            pass
        base -= GRANULE
    return None


class HoldfastCommand(gdb.Command):
    """Commands about pools of Holdfast."""

    def __init__(self):
        super().__init__("holdfast", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class ObjectCommand(gdb.Command):
    """holdfast object ADDRESS: size and type of the object that begins at the address, as its header tells.

    Of an object that was freed the header stays until its room is used again. The type is the number that the object
    was allocated with; `holdfast types POOL` names it.
    """

    def __init__(self):
        super().__init__("holdfast object", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        address = int(gdb.parse_and_eval(argument).cast(gdb.lookup_type("unsigned long")))
        base = base_around(address)
        if base is None:
            raise gdb.GdbError(f"{address:#x} lies in no open pool")
        try:
            found = object_at(address, base)
        except Unreadable as why:
            raise gdb.GdbError(str(why)) from why
        if found is None:
            raise gdb.GdbError(f"no object begins at {address:#x}, offset {address - base:#x} of the pool at {base:#x}")
        print(f"object at {address:#x}, {found[0]} bytes, type {found[1]}, in the pool at {base:#x}")


gdb.pretty_printers.insert(0, look_up)
HoldfastCommand()
ObjectCommand()
