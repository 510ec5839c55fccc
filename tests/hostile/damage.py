# SPDX-License-Identifier: Apache-2.0
"""Damaged, extreme and misleading versions of a file's bytes, for tests/hostile/attack_test.py. Everything is drawn from the
random.Random that is given, so that a seed names an input."""

import gzip
import lzma
import re

EXTREMES = [b"0", b"-1", b"1", b"3", b"7919", b"65537", b"2147483647", b"2147483648", b"-2147483649", b"4294967296",
            b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"18446744073709551616",
            b"1e308", b"-1e308", b"1e-320", b"1e400", b"0.1", b"NaN", b"Infinity", b"-0", b"0x10", b"1_000", b"007",
            b"1e6", b"null", b"true", b"[]", b"{}", b'""']
WORDS = [b"\x1b[2J\x1b]0;owned\x07", b"\xff\xfe\xfd", b"\x00", b"$(touch pwned)", b"`touch pwned`", b"; touch pwned;",
         b"'\"\\", b"{" * 200, b"[" * 4000, b"../../../../etc/passwd", b"%s%n%x", b"\xe2\x80\xae", b"\r\n", b"A" * 70000,
         b"${x:-${x:-${x:-y}}}", b"*a *a *a", b"<<: *x", b"!!python/object:os.system", b"&a [*a]", b"\xc2\x85",
         b"<script>alert(1)</script>", b"CUDA out of memory. Tried to allocate -1.00 GiB", b"1e999 GiB"]
NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_./-]{2,}")


def replace_match(random, data, pattern, values):
    found = list(pattern.finditer(data[:200_000]))
    if not found:
        return data
    for match in sorted(random.sample(found, min(len(found), random.choice([1, 1, 2, 5]))), key=lambda m: -m.start()):
        data = data[:match.start()] + random.choice(values) + data[match.end():]
    return data


def flip(random, data, _):
    changed = bytearray(data)
    for _ in range(random.choice([1, 2, 8, 64])):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def cut(random, data, _):
    return data[:random.randrange(len(data) + 1)]


def drop(random, data, _):
    begin = random.randrange(len(data) + 1)
    return data[:begin] + data[begin + random.choice([1, 10, 100, 10_000]):]


def repeat(random, data, _):
    begin = random.randrange(len(data) + 1)
    piece = data[begin:begin + random.choice([1, 20, 500])]
    return data[:begin] + piece * random.choice([2, 50, 2000]) + data[begin:]


def splice(random, data, other):
    return data[:random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1):]


def extreme_number(random, data, _):
    return replace_match(random, data, NUMBER, EXTREMES)


def strange_word(random, data, _):
    return replace_match(random, data, WORD, WORDS)


def swapped_words(random, data, other):
    words = WORD.findall(other[:100_000]) or [b"x"]
    return replace_match(random, data, WORD, words)


def inserted(random, data, _):
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(WORDS + EXTREMES) + data[at:]


def shuffled_lines(random, data, _):
    lines = data.splitlines(keepends=True)
    random.shuffle(lines)
    return b"".join(lines)


def doubled_lines(random, data, _):
    return b"".join(line * random.choice([1, 1, 2, 3]) for line in data.splitlines(keepends=True))


def indented(random, data, _):
    return b"".join(random.choice([b"", b"", b" ", b"\t", b"    "]) + line for line in data.splitlines(keepends=True))


def other_encoding(random, data, _):
    text = data.decode("utf-8", "replace")
    return random.choice([lambda: text.encode("utf-16"), lambda: b"\xef\xbb\xbf" + data,
                          lambda: data.replace(b"\n", b"\r\n"), lambda: data.replace(b"\n", b"\r"),
                          lambda: text.encode("utf-32"), lambda: text.upper().encode()])()


def packed(random, data, _):
    """Compressed, and then perhaps cut or damaged."""
    packed_data = random.choice([gzip.compress, lzma.compress, lambda d: gzip.compress(gzip.compress(d)),
                                 lambda d: gzip.compress(d)[:20] + d])(data[:200_000])
    return random.choice([lambda: packed_data, lambda: cut(random, packed_data, b""),
                          lambda: flip(random, packed_data, b""), lambda: packed_data + packed_data])()


def deep(random, data, _):
    opening, closing = random.choice([(b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"$(", b")"), (b"- ", b"")])
    depth = random.choice([10, 1000, 50_000])
    return opening * depth + data[:1000] + closing * depth


def huge(random, data, _):
    """Megabytes of one small piece: what is quadratic or keeps a hundred bytes for each shows itself."""
    piece = random.choice([b"0,", b"a: 1\n", b"[", b"x=$x$x\n", b'{"a":', b"a.b.c = 1\n", b"- ", b"(", b"'", b"\\\n", b" \n",
                           data[:random.choice([1, 7, 60, 900])] or b"?"])
    whole = piece * (random.choice([100_000, 1_000_000, 6_000_000]) // len(piece))
    return random.choice([whole, data[:2000] + whole, whole + data[-2000:]])


DAMAGES = [flip, cut, drop, repeat, splice, extreme_number, extreme_number, extreme_number, strange_word, strange_word,
           swapped_words, swapped_words, inserted, shuffled_lines, doubled_lines, indented, other_encoding, packed, deep]


def damage(random, data, other):
    if random.random() < 0.4:  # whole, but for its numbers: these get furthest
        return extreme_number(random, data, other)
    if random.random() < 0.02:
        return huge(random, data, other)
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        data = random.choice(DAMAGES)(random, data, other)[:8_000_000]
    return data
