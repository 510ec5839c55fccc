# SPDX-License-Identifier: Apache-2.0
"""Claims about jobs for test suites: plimsoll.assert_fits, and the fixture of the same name for pytest."""
from ._verbs import fit


def assert_fits(job, gpu=None, surely=True, **keys):
    """Fails, with the table of memory, where the job does not fit at the upper end of its interval.

    surely=False asks for the prediction itself. Answers the Fit, so that a test can go on with its figures.
    """
    __tracebackhide__ = True
    if gpu is not None:
        keys["gpu"] = gpu
    answer = fit(job, changes=True, **keys)
    worst = answer.worst
    if not answer:
        raise AssertionError(answer.text(100))
    if surely and worst.high > worst.capacity:
        short = worst.high - worst.capacity
        raise AssertionError(f"fits by the prediction, but not surely: the upper end of its interval is "
                             f"{short:,} bytes above the capacity\n{answer.text(100)}")
    return answer
