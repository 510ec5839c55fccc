# SPDX-License-Identifier: Apache-2.0
"""Measures a training process from inside, for `plimsoll run`, without a change of its code.

`plimsoll run` puts this file as sitecustomize.py into a folder of its own at the front of PYTHONPATH. A Python that
starts there runs it first. It hands over to the user's own sitecustomize, and waits: only a process that imports torch
itself is touched, only one that takes an optimizer step or runs out of memory writes a file.

Per optimizer step it writes what torch.cuda counts (never resetting a counter), the seconds between two steps and
what of them backward and the optimizer took. It keeps the allocator's history in a ring, unless allocations come so
often that writing them down would be felt, and when an allocation fails it writes a snapshot before the error is raised,
as do the other ranks of the machine meanwhile.

Invariants: nothing here raises into the training, changes a number of it, prints, or starts the GPU by itself; no
variable of the environment is written that is not in SETTINGS. Python 3.8 and later.
"""

import os
import sys
from time import monotonic as clock
from time import time as wall

SCHEMA = 1
# What the environment may say in a file: settings of allocator, CUDA and NCCL, and who this rank is.
SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_VISIBLE_DEVICES",
            "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "NCCL_CUMEM_ENABLE",
            "NCCL_NVLS_ENABLE", "NCCL_GRAPH_REGISTER", "NCCL_BUFFSIZE", "NCCL_MAX_CTAS", "NCCL_MIN_CTAS",
            "TORCH_NCCL_AVOID_RECORD_STREAMS", "OMP_NUM_THREADS")
DENSE_STEPS = 64  # written one by one; later ones at most once a second, with their number
SNAPSHOTS = 3  # of one process: code that catches the error and tries again would fill a disk
LONGEST_TEXT = 4000
# What keeping the history adds to one allocation and its free, and the share of the time that it may take. PyTorch 2.11
# on a host of an H200: 0.35 us in a loop of nothing else, 0.7 to 1.4 us between the other work of a training step.
HISTORY_SECONDS = 1.4e-6
HISTORY_SHARE = 0.004
WARM_STEPS = 4  # before the rate of allocations is one that lasts
ALARM = ".out-of-memory"  # in the folder, once a rank has run out: the others write what they hold
PEER_SECONDS = 3.0  # that a rank which ran out waits for them; its error would end them
LOOK_SECONDS = 0.5  # between two looks for the alarm
# Functions that are on the stack while a checkpoint is written, or read. The innermost that is known decides.
SAVING = frozenset(("save", "async_save", "save_checkpoint", "_save_checkpoint", "save_model", "save_state",
                    "save_pretrained", "state_dict", "get_state_dict", "get_model_state_dict",
                    "get_optimizer_state_dict"))
LOADING = frozenset(("load", "load_checkpoint", "load_state", "from_pretrained", "load_state_dict", "set_state_dict",
                     "set_model_state_dict", "set_optimizer_state_dict", "_load_from_checkpoint"))
EVALUATING = frozenset(("evaluate", "evaluation_loop", "prediction_step", "validate", "eval_step"))
COMPUTING = frozenset(("forward", "_call_impl", "_wrapped_call_impl"))


def first_integer(names, fallback):
    for name in names:
        try:
            return int(os.environ[name])
        except (KeyError, ValueError):
            pass
    return fallback


def quietly(function):
    """The function, with its failures kept from the training."""

    def guarded(*arguments, **named):
        try:
            return function(*arguments, **named)
        except Exception as error:  # pylint: disable=broad-except
            RECORDER.give_up(error)
            return None

    return guarded


def attempt(function, *arguments):
    """For what the rest can do without: a failure is remembered, and the recorder goes on."""
    try:
        return function(*arguments)
    except Exception as error:  # pylint: disable=broad-except
        RECORDER.trouble = "%s: %s" % (type(error).__name__, str(error)[:200])
        return None


RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
LOCAL_WORLDS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")
RESTARTS = ("TORCHELASTIC_RESTART_COUNT",)  # torchrun --max-restarts starts all ranks again, in the same folder
BORN = wall()  # an alarm from before is that of a start before this one


def place(torch):
    """(rank, world) as they are when the first line is written: programs set them late, or tell only torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return first_integer(RANKS, 0), first_integer(WORLDS, 1)


class Recorder:
    """What one process has measured, and the file that it writes it to."""

    def __init__(self):
        self.folder = os.environ.get("PLIMSOLL_RUN_FOLDER", "")
        self.history = os.environ.get("PLIMSOLL_RUN_HISTORY", "auto")
        self.keeps = False  # a history that is ours
        self.judged = None  # allocations and time, from which their rate is counted
        self.mark = None  # an event of the device after a step
        self.behind = False  # the device had not come to it when the next backward began: the host has time
        self.pid = os.getpid()
        self.rank = 0
        self.torch = None
        self.file = None
        self.name = ""
        self.waiting = []  # lines that are not on the disk yet
        self.written = 0.0
        self.on = True
        self.trouble = ""
        self.started = 0.0
        self.step = 0  # steps that are done
        self.expected = 0  # optimizers that step together, as the last step showed
        self.stepped = {}  # those of this step
        self.last_end = 0.0
        self.reading = None  # of the step that is not closed
        self.lines = 0
        self.held = (0, 0.0)  # steps and seconds that the next line stands for
        self.phase = "start"
        self.backward_seconds = 0.0
        self.optimizer_begin = 0.0
        self.optimizer_seconds = 0.0
        self.most = {"peak_allocated": 0, "peak_reserved": 0}
        self.most_used = 0
        self.allocations = 0  # that torch has made, when it was last asked
        self.snapshots = 0
        self.first = {}  # "snapshot": the thread that took the first one; setdefault is one step of the interpreter
        self.ended = False

    # -- files

    def give_up(self, error):
        self.trouble = "%s: %s" % (type(error).__name__, str(error)[:200])
        self.on = False

    def open(self):
        import json
        import socket
        self.json = json
        self.rank, world = attempt(place, self.torch) or (first_integer(RANKS, 0), first_integer(WORLDS, 1))
        restart = first_integer(RESTARTS, 0)
        name = "rank-%d-restart-%d" % (self.rank, restart) if restart > 0 else "rank-%d" % self.rank
        for name in (name, "%s-%d" % (name, self.pid)):
            try:
                descriptor = os.open(os.path.join(self.folder, name + ".jsonl"),
                                     os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                continue
            self.file = descriptor
            self.name = name
            break
        begin = {"event": "begin", "schema": SCHEMA, "time": round(wall(), 3), "rank": self.rank, "pid": self.pid,
                 "host": socket.gethostname(), "restart": restart,
                 "local_rank": first_integer(("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"), self.rank),
                 "world": world,
                 "python": "%d.%d" % sys.version_info[:2], "torch": str(self.torch.__version__),
                 "history": self.history,
                 "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ}}
        device = self.device()
        if device is not None:
            properties = self.torch.cuda.get_device_properties(device)
            begin.update({"device": device, "device_name": properties.name, "total": properties.total_memory,
                          "uuid": str(getattr(properties, "uuid", ""))})
        self.write(begin)

    def write(self, line, now=True):
        if self.file is None and not self.name:
            self.name = "?"  # one attempt
            self.open()
        if self.file is None:
            return
        self.waiting.append(self.json.dumps(line, separators=(",", ":")))
        if now or clock() - self.written > 1.0:
            self.flush()

    def flush(self):
        text = ("\n".join(self.waiting) + "\n").encode("utf-8", "replace") if self.waiting else b""
        self.waiting = []
        self.written = clock()
        while text:
            text = text[os.write(self.file, text):]

    # -- readings

    def device(self):
        torch = self.torch
        return torch.cuda.current_device() if torch.cuda.is_initialized() else None

    def counters(self):
        """What torch counts on the current device, in bytes; {} where CUDA was not used."""
        device = self.device()
        if device is None:
            return {}
        stats = self.torch._C._cuda_memoryStats(device)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        reading = {"allocated": allocated["current"], "reserved": reserved["current"],
                   "peak_allocated": allocated["peak"], "peak_reserved": reserved["peak"],
                   "inactive": stats["inactive_split_bytes"]["all"]["current"],
                   "retries": stats["num_alloc_retries"], "ooms": stats["num_ooms"]}
        self.allocations = stats.get("allocation", {}).get("all", {}).get("allocated", 0)
        for key in self.most:  # the training may reset its own counters
            self.most[key] = reading[key] = max(self.most[key], reading[key])
        return reading

    def outside(self, reading):
        """What all processes use of the device; asked rarely, because the driver is asked."""
        free, total = self.torch.cuda.mem_get_info()
        reserved = self.torch._C._cuda_memoryStats(self.device())["reserved_bytes"]["all"]["current"]
        reading["used"] = total - free
        reading["outside"] = total - free - reserved
        reading["total"] = total

    def host(self):
        """Resident bytes of this process now and at most."""
        reading = {}
        try:
            with open("/proc/self/status", "rb") as status:
                for line in status:
                    if line.startswith((b"VmRSS:", b"VmHWM:")):
                        reading["rss" if line.startswith(b"VmRSS") else "rss_most"] = 1024 * int(line.split()[1])
        except (OSError, ValueError, IndexError):
            pass
        return reading

    # -- steps

    @property
    def active(self):
        return self.on and os.getpid() == self.pid

    def before_optimizer(self, *_):
        if not self.on:  # a forked child has it off
            return
        self.phase = "optimizer"
        self.optimizer_begin = clock()

    def after_optimizer(self, optimizer, *_):
        if not self.on:
            return
        now = clock()
        if not self.started:
            self.started = now
        stepped = self.stepped
        if id(optimizer) in stepped:  # the first one again: a new step
            self.close_step()
            stepped = self.stepped
        stepped[id(optimizer)] = True
        if self.optimizer_begin:
            self.optimizer_seconds += now - self.optimizer_begin
        self.phase = "between"
        # Whether this step gets a line. Reading the counters takes longer than the rest, so no other step does it.
        is_due = (self.step < DENSE_STEPS or now - self.written > 1.0) and self.active
        self.reading = (now, self.backward_seconds, self.optimizer_seconds, self.counters() if is_due else None)
        if is_due and self.keeps and self.history == "auto":
            attempt(self.set_mark)
        if len(stepped) == self.expected:
            self.close_step()

    def set_mark(self):
        cuda = self.torch.cuda
        if cuda.is_initialized() and not cuda.is_current_stream_capturing():
            self.mark = cuda.Event()
            self.mark.record()

    def look_at_mark(self):
        """By now the host has sent a whole forward since the mark. A device that is not there yet waits for no host."""
        mark, self.mark = self.mark, None
        if not self.torch.cuda.is_current_stream_capturing():
            self.behind = not mark.query()

    def close_step(self):
        if self.reading is None:
            return
        at, backward, optimizer, reading = self.reading
        self.reading = None
        self.expected = len(self.stepped)
        self.stepped = {}
        self.step += 1
        seconds = at - self.last_end if self.last_end else None
        self.last_end = at
        count, held = self.held
        count, held = count + 1, held + (seconds or 0.0)
        # What came after the reading, where only the next step closed this one, is the next one's.
        self.backward_seconds -= backward
        self.optimizer_seconds -= optimizer
        if reading is None:
            self.held = (count, held)
            return
        line = {"event": "step", "n": self.step, "count": count, "t": round(at - self.started, 6),
                "time": round(wall(), 3), "seconds": round(held / count, 6) if seconds is not None else None,
                "backward": round(backward, 6), "optimizer": round(optimizer, 6)}
        self.held = (0, 0.0)
        if self.keeps and self.history == "auto" and self.step >= WARM_STEPS:
            attempt(self.judge_history, at)
        line.update(reading)
        self.lines += 1
        if reading and (self.lines <= 4 or self.lines & (self.lines - 1) == 0 or self.lines % 64 == 0):
            self.outside(line)
        if self.lines <= 4 or self.lines % 16 == 0:
            line.update(self.host())
        self.write(line, now=self.step <= 4)

    def judge_history(self, now):
        """Gives the history up where it would take more of the time than it may and the device waits for the host."""
        if self.judged is None:
            self.judged = (self.allocations, now)
            return
        count, since = self.judged
        if now - since < LOOK_SECONDS:
            return
        rate = (self.allocations - count) / (now - since)
        self.judged = (self.allocations, now)
        if rate * HISTORY_SECONDS <= HISTORY_SHARE or self.behind:
            return
        self.torch.cuda.memory._record_memory_history(enabled=None)
        self.keeps = False
        self.write({"event": "history", "kept": False, "allocations_per_second": round(rate)})

    # -- failures

    def out_of_memory(self, device, requested, total, free):
        if not self.active:
            return
        line = {"event": "oom", "time": round(wall(), 3), "step": self.step, "phase": self.current_phase(),
                "device": device, "requested": requested, "total": total, "free": free}
        line.update(self.counters())
        line["stack"] = frames()
        self.write(line)
        self.first.setdefault("snapshot", "oom")
        if self.snapshots < SNAPSHOTS:
            self.snapshots += 1
            self.snapshot("oom")
            attempt(self.call_peers)
        self.write(dict(self.host(), event="survived_oom"))

    def call_peers(self):
        """The other ranks of this machine write what they hold, before this one's error ends them."""
        import time
        ranks = first_integer(LOCAL_WORLDS, 1)
        if ranks < 2:
            return
        before = self.snapshots_there()
        alarm = os.path.join(self.folder, ALARM)
        with open("%s-%d" % (alarm, self.pid), "w") as file:
            file.write("%.6f\n" % wall())
        os.replace(file.name, alarm)
        end = clock() + PEER_SECONDS
        while clock() < end:
            if len(self.snapshots_there() - before) >= ranks - 1:
                return
            time.sleep(0.05)

    def snapshots_there(self):
        """(name, time of writing) of each: another start of this run may have left some under the same name."""
        return {(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(self.folder)
                if entry.name.endswith(".pickle")}

    def answer_alarm(self):
        """Runs in a thread of its own, because the rank may wait for the one that ran out."""
        import time
        alarm = os.path.join(self.folder, ALARM)
        while self.active and not self.ended and self.snapshots == 0:
            if is_raised(alarm):
                # The alarm may be this rank's own, raised since the loop looked: one of the two threads is first.
                if self.first.setdefault("snapshot", "peer") == "peer":
                    self.snapshots += 1
                    self.snapshot("peer")
                return
            time.sleep(LOOK_SECONDS)

    def snapshot(self, kind):
        import pickle
        if self.file is None and not self.name:
            self.name = "?"
            self.open()
        name = "%s.%s.pickle" % (self.name, kind)
        path = os.path.join(self.folder, name)
        with open(path + ".part", "wb") as file:
            pickle.dump(self.torch.cuda.memory._snapshot(), file, protocol=4)
        os.replace(path + ".part", path)
        self.write({"event": "snapshot", "file": name, "bytes": os.path.getsize(path)})

    def current_phase(self):
        if self.phase in ("backward", "optimizer"):
            return self.phase
        return phase_of([(entry[0], entry[2]) for entry in stack_entries()], self.torch.is_grad_enabled(), self.step)

    def error(self, kind, value):
        if not self.active or not issubclass(kind, Exception) or self.torch is None:
            return
        if self.file is None and not self.torch.cuda.is_initialized():
            return  # a launcher, whose error is that a rank failed
        self.write({"event": "error", "time": round(wall(), 3), "step": self.step, "type": kind.__name__,
                    "message": str(value)[:LONGEST_TEXT]})

    def end(self):
        if os.getpid() != self.pid or self.torch is None or self.ended:
            return
        self.ended = True
        if self.reading is not None:
            self.close_step()
        used_device = bool(self.torch.cuda.is_initialized())
        if self.file is None and not used_device:
            return  # neither stepped nor touched the device: a helper of the run, not a rank
        line = {"event": "end", "time": round(wall(), 3), "steps": self.step}
        if used_device:
            line.update(self.counters())
        line.update(self.host())
        if self.trouble:
            line["trouble"] = self.trouble
            line["gave_up"] = not self.on
        self.write(line)
        if self.file is not None:
            self.flush()


def is_raised(alarm):
    """Whether a rank of this start has run out; what a start before it left does not count."""
    try:
        with open(alarm) as file:
            return float(file.read()) >= BORN
    except (OSError, ValueError):
        return False


def stack_entries():
    """(file, line, function) of the running thread, innermost first, without this file's own."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename != __file__:
            yield code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back


def phase_of(entries, has_gradients, step):
    """What is done where the stack, (file, function) innermost first, stands."""
    names = [name for _, name in entries]
    if not EVALUATING.isdisjoint(names):
        return "evaluation"
    if "backward" in names:
        return "backward"
    # A function with a backward of its own (Megatron's loss, a gather of shards) has a forward that is no module's, and
    # runs it without gradients.
    functions = [file.endswith("autograd/function.py") for file, _ in entries] + [False]
    for at, name in enumerate(names):
        if name in SAVING or name in LOADING:
            return "save" if name in SAVING else "load"
        if name in COMPUTING and not (name == "forward" and functions[at + 1]):
            break
    if not COMPUTING.isdisjoint(names):
        return "forward" if has_gradients or any(functions) else "evaluation"
    return "start" if step == 0 else "between"


def frames(most=60):
    found = []
    for name, line, function in stack_entries():
        if len(found) == most:
            break
        found.append("%s:%d %s" % (name, line, function))
    return found


# -- entering torch

def enter(torch):
    """Called once, when the import of torch is done."""
    import atexit
    RECORDER.torch = torch
    follow_optimizers(torch)
    attempt(follow_backward, torch)
    attempt(follow_resets, torch)
    # Runs at once where CUDA was started already, else when the training starts it.
    torch.cuda._lazy_call(lambda: attempt(watch_allocator, torch))
    atexit.register(quietly(RECORDER.end))
    attempt(end_with_worker)
    before = sys.excepthook

    def excepthook(kind, value, trace):
        quietly(RECORDER.error)(kind, value)
        before(kind, value, trace)

    sys.excepthook = excepthook


def follow_optimizers(torch):
    from torch.optim import optimizer
    before, after = quietly(RECORDER.before_optimizer), quietly(RECORDER.after_optimizer)
    if hasattr(optimizer, "register_optimizer_step_post_hook"):
        optimizer.register_optimizer_step_pre_hook(before)
        optimizer.register_optimizer_step_post_hook(after)
        return
    # PyTorch 1 has no hooks of all optimizers. Each one that is made or unpickled wraps the step of its class once,
    # for the profiler; ours goes around that.
    import functools
    followed = set()
    original = optimizer.Optimizer._hook_for_profile

    def follow(kind):
        if kind.step in followed:
            return
        step = kind.step

        @functools.wraps(step)
        def watched(this, *arguments, **named):
            before(this)
            result = step(this, *arguments, **named)
            after(this)
            return result

        kind.step = watched
        followed.add(watched)

    @functools.wraps(original)
    def hook(this):
        original(this)
        attempt(follow, type(this))

    optimizer.Optimizer._hook_for_profile = hook


def end_with_worker():
    """A process of multiprocessing ends without atexit, but runs its own finalizers."""
    from multiprocessing import util
    util.Finalize(None, quietly(RECORDER.end), exitpriority=-1)


def follow_backward(torch):
    import functools
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*arguments, **named):
        begin = clock()
        if RECORDER.mark is not None:
            attempt(RECORDER.look_at_mark)
        outer, RECORDER.phase = RECORDER.phase, "backward"
        done = False
        try:
            result = original(*arguments, **named)
            done = True
            return result
        finally:
            # Where it failed, the phase stays: the error is on its way to whoever writes it down.
            if done:
                RECORDER.phase = "between" if outer in ("start", "backward") else outer
            RECORDER.backward_seconds += clock() - begin

    torch.autograd.backward = backward


def follow_resets(torch):
    """A training that resets its peaks must not lose them for us."""
    import functools
    memory = torch.cuda.memory
    for name in ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"):
        original = getattr(memory, name, None)
        if original is None:
            continue

        def reset(*arguments, _original=original, **named):
            if RECORDER.active:
                quietly(RECORDER.counters)()
            return _original(*arguments, **named)

        functools.update_wrapper(reset, original)
        setattr(memory, name, reset)
        if getattr(torch.cuda, name, None) is original:
            setattr(torch.cuda, name, reset)


def watch_allocator(torch):
    attempt(keep_history, torch)
    attempt(follow_recording, torch)
    if first_integer(LOCAL_WORLDS, 1) > 1:
        attempt(listen)
    for name in ("_cuda_attach_out_of_memory_observer", "_cuda_attachOutOfMemoryObserver"):
        attach = getattr(torch._C, name, None)
        if attach is not None:
            attach(quietly(RECORDER.out_of_memory))
            return


def listen():
    import threading
    threading.Thread(target=attempt, args=(RECORDER.answer_alarm,), name="plimsoll", daemon=True).start()


def follow_recording(torch):
    """A recording that the training starts or ends is its own affair from then on."""
    import functools
    memory = torch.cuda.memory
    original = memory._record_memory_history

    @functools.wraps(original)
    def record(*arguments, **named):
        if sys._getframe(1).f_code.co_filename != __file__:
            RECORDER.keeps = False
        return original(*arguments, **named)

    memory._record_memory_history = record


def keep_history(torch):
    entries = int(os.environ.get("PLIMSOLL_RUN_ENTRIES", "100000"))
    if RECORDER.history == "off" or entries <= 0 or already_recording(torch):
        return
    torch.cuda.memory._record_memory_history(enabled="all", context="alloc" if RECORDER.history == "stacks" else None,
                                             stacks="python", max_entries=entries)
    RECORDER.keeps = True


def already_recording(torch):
    """The training's own recording must not be replaced."""
    ask = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return bool(ask and ask())


class TorchFinder:
    """Lets torch be imported by whoever finds it, and is told when that is done."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or path is not None:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        import importlib.util
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            quietly(enter)(module)

        spec.loader.exec_module = exec_module
        return spec


def chain():
    """The sitecustomize that would have run without us."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    import importlib.machinery
    import importlib.util
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def disarm():
    RECORDER.on = False


RECORDER = Recorder()

if __name__ == "sitecustomize":
    if RECORDER.folder:
        try:
            sys.meta_path.insert(0, TorchFinder())
            # A forked worker of a data loader is no rank.
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=disarm)
        except Exception as failure:  # pylint: disable=broad-except
            RECORDER.give_up(failure)
    chain()
