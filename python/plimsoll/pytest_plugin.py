# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: the fixture assert_fits. Found by pytest once the package is installed, or with -p plimsoll.pytest_plugin."""
import pytest

from ._testing import assert_fits as _assert_fits


@pytest.fixture
def assert_fits():
    """def test_our_job(assert_fits): assert_fits("configs/train.yaml", gpu="h100-sxm-80gb")"""
    return _assert_fits
