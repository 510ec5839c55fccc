# SPDX-License-Identifier: Apache-2.0
"""The program of `plimsoll capture`, in this process."""
try:
    import plimsoll_capture
except ImportError:  # inside the wheel
    from . import plimsoll_capture


def capture(build, path, **options):
    return plimsoll_capture.capture(build, path, **options)
