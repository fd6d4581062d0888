"""What libc.unsafe says: the lines of functions, and why some log nothing."""
import re

LINE = re.compile(r"(\w+)=\{nargs:(\d+)(\+?),wr_set:(\?|\{.*\})(?:,calls:(\?|\{\}))?\}$")


class Description:
    def __init__(self, arguments, more, written, reason, calls):
        self.arguments, self.more, self.written = arguments, more, written  # "?" or what stands within the braces
        self.reason, self.calls = reason, calls

    def warns(self):
        return self.written == "?" or ",?}" in self.written or ",lock}" in self.written


def read(path):
    found, reason, heading = {}, "", ""
    with open(path, encoding="utf-8") as lines:
        for text in map(str.strip, lines):
            if not text:
                reason = heading = ""
            elif text.startswith("#:"):
                reason = text[2:].strip()
            elif not text.startswith("#"):
                matched = LINE.match(text)
                if matched:
                    written = matched[4] if matched[4] == "?" else matched[4][1:-1]
                    found[matched[1]] = Description(int(matched[2]), bool(matched[3]), written, reason,
                                                    matched[5] == "?")
    return found
