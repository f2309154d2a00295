"""A disk that breaks: a library before libc, whose writes in the desk's home fail with EIO while a file is there."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

BROKEN = "broken"  # the file, in the home
_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
static int broken(int fd) {
  char text[PATH_MAX], path[PATH_MAX];
  const char *home = getenv("DESK_HOME");
  if (!home || snprintf(text, sizeof text, "%s/BROKEN", home) >= PATH_MAX || access(text, F_OK)) return 0;
  snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(text, path, sizeof path - 1);
  return size > 0 && !strncmp(path, home, strlen(home) < size ? strlen(home) : size);
}
#define FAILING(type, name, given, ...) type name given { \\
  static type (*real) given; if (!real) real = dlsym(RTLD_NEXT, #name); \\
  if (broken(fd)) { errno = EIO; return -1; } return real(__VA_ARGS__); }
FAILING(ssize_t, write, (int fd, const void *data, size_t size), fd, data, size)
FAILING(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
FAILING(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
FAILING(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
FAILING(int, fsync, (int fd), fd)
FAILING(int, fdatasync, (int fd), fd)
FAILING(int, ftruncate64, (int fd, off64_t size), fd, size)
"""


@functools.cache
def library() -> str:
    """Return the library's path, of LD_PRELOAD; compiled once a process."""
    folder = Path(tempfile.mkdtemp(prefix="broken-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source, made = folder / "broken.c", folder / "broken.so"
    source.write_text(_SOURCE.replace("BROKEN", BROKEN), encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return str(made)
