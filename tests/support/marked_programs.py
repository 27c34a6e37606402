"""What a C program writes to mark places of its own, as <sys/sdt.h> does, which need not be installed."""

from __future__ import annotations

MARK = """
#define MARK(counter, name, arguments, ...) __asm__ volatile( \\
    "990: nop\\n" \\
    ".pushsection .note.stapsdt,\\"?\\",\\"note\\"\\n" \\
    ".balign 4\\n" \\
    ".4byte 992f-991f, 994f-993f, 3\\n" \\
    "991: .asciz \\"stapsdt\\"\\n" \\
    "992: .balign 4\\n" \\
    "993: .8byte 990b\\n" \\
    ".8byte _.stapsdt.base\\n" \\
    ".8byte " counter "\\n" \\
    ".asciz \\"own\\"\\n" \\
    ".asciz \\"" name "\\"\\n" \\
    ".asciz \\"" arguments "\\"\\n" \\
    "994: .balign 4\\n" \\
    ".popsection\\n" \\
    ".ifndef _.stapsdt.base\\n" \\
    ".pushsection .stapsdt.base,\\"aG\\",\\"progbits\\",.stapsdt.base,comdat\\n" \\
    ".weak _.stapsdt.base\\n" \\
    ".hidden _.stapsdt.base\\n" \\
    "_.stapsdt.base: .space 1\\n" \\
    ".size _.stapsdt.base, 1\\n" \\
    ".popsection\\n" \\
    ".endif\\n" :: __VA_ARGS__)
#define COUNTER(variable) unsigned short variable __attribute__((section(".probes"), used))
"""
"""`MARK("counter", "name", "-4@%0 8@%1", "r"(a), "m"(b))`: a place of the provider `own`, with its arguments.

`COUNTER(variable)` defines what the kernel adds to while somebody looks; "0" names none.
"""
