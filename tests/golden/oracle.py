# SPDX-License-Identifier: Apache-2.0
"""What the comparison scripts of this folder share: finding the reference, skipping without it, talking to a driver."""
import os
import struct
import subprocess
import sys

SKIP = 77  # exit code that Meson reports as "skipped"


def source_root():
    return os.environ.get("GR00T_SOURCE_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def shared_root():
    """Folder of the specification, or None."""
    path = os.environ.get("GR00T_SHARED") or os.path.join(source_root(), "..", "shared")
    return path if os.path.isfile(os.path.join(path, "spec", "reference_numpy.py")) else None


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIP)


def reference():
    """Module reference_numpy of the specification; skips the test when it or numpy is absent."""
    root = shared_root()
    if root is None:
        skip("the shared folder is absent (set GR00T_SHARED to compare with the reference)")
    try:
        import numpy  # noqa: F401
    except ImportError:
        skip("python3-numpy is not installed")
    sys.path.insert(0, os.path.join(root, "spec"))
    sys.dont_write_bytecode = True
    import reference_numpy
    return reference_numpy


class Driver:
    """A child program that answers binary cases on stdin with binary results on stdout."""

    def __init__(self, *argv):
        self.argv = argv
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, *parts):
        for p in parts:
            self.child.stdin.write(p)
        self.child.stdin.flush()

    def get(self, n):
        data = self.child.stdout.read(n)
        if len(data) != n:
            sys.exit("%s ended early (exit code %s)" % (" ".join(self.argv), self.child.wait()))
        return data

    def get_int(self):
        return struct.unpack("=i", self.get(4))[0]

    def close(self):
        self.child.stdin.close()
        if self.child.stdout.read(1):
            sys.exit("%s wrote more than expected" % self.argv[0])
        if self.child.wait() != 0:
            sys.exit("%s failed with exit code %d" % (self.argv[0], self.child.returncode))
