"""Takes the network away from this process, for good: on Linux no socket can be made any more but those within it.

What is open stays open, so that the channel to the worker does. It needs no privilege, and programs that are started
from here have none either.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import sys

_NO_NEW_PRIVILEGES = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_IO_URING_SETUP = 425
_FOREIGN_CALLS = 0x40000000
# By machine: how the kernel calls it, and the numbers of its calls `socket` and `seccomp`.
_MACHINES = {"x86_64": (0xC000003E, 41, 317), "aarch64": (0xC00000B7, 198, 277)}


def is_enforced() -> bool:
    """Elsewhere nothing takes the network away, and a handler must not rely on it."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def give_up() -> None:
    """From here on, in all threads, whoever asks for a socket to another machine is refused."""
    if not is_enforced():
        return
    architecture, socket_call, seccomp_call = _MACHINES[platform.machine()]
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 0, 7, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 5, 0, _FOREIGN_CALLS),
        (_EQUALS, 4, 0, _IO_URING_SETUP),
        (_EQUALS, 0, 2, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUALS, 0, 1, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(seccomp_call, _SET_MODE_FILTER, _ALL_THREADS, program) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the network cannot be taken away: {os.strerror(number)}")
