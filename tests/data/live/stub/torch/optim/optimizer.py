# SPDX-License-Identifier: Apache-2.0
_before = []
_after = []


def register_optimizer_step_pre_hook(hook):
    _before.append(hook)


def register_optimizer_step_post_hook(hook):
    _after.append(hook)


class Optimizer:
    def step(self):
        for hook in _before:
            hook(self, (), {})
        for hook in _after:
            hook(self, (), {})
