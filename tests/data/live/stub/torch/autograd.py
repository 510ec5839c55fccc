# SPDX-License-Identifier: Apache-2.0
def backward(run=None):
    if run is not None:
        run()
