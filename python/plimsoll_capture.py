# SPDX-License-Identifier: Apache-2.0
"""Records what one training step does to GPU memory, without a GPU.

The step runs with the user's own PyTorch on fake tensors: shapes, types and storages are real, the data is not
there. Every operation below autograd is written down with the storages that it creates, and every storage with the
moment at which its last reference goes; `plimsoll fit FILE.capture` walks that through PyTorch's allocator and adds
what fake tensors cannot show (scratch inside kernels, library workspaces, the CUDA context).

From the command line: `plimsoll capture --config config.json --batch 2 --seq 2048`.
From Python:

    import plimsoll_capture as pc
    pc.capture(build, "step.capture", batch=2, seq=2048)

where build(batch, seq) returns (model, inputs, optimizer); the loss is model(**inputs).loss, or a fourth value:
a function of model and inputs that returns the loss.
"""
import argparse
import contextlib
import gzip
import json
import os
import sys
import time
import weakref

SCHEMA = "plimsoll-capture-1"


class Writer:
    """Events of one step in order. Kinds: 0 operation, 1 allocation, 2 release, 3 phase, 4 resize, 5 stream: memory
    is taken on it from here on (cached memory is reused within a stream only)."""

    def __init__(self):
        self.names = {}
        self.events = []
        self.storages = {}  # identity of a living storage -> number
        self.module = ""
        self.count = 0
        self.assumed = {}  # values that the code asked of data that is not there -> how often
        self.stream = self.written_stream = 0  # where memory is taken, and what the events say of it

    def name(self, text):
        return self.names.setdefault(text, len(self.names))

    def phase(self, text):
        self.events.append([3, self.name(text)])

    def number(self, storage):
        return self.storages.get(storage._cdata)

    def tell_stream(self):
        if self.stream != self.written_stream:
            self.events.append([5, self.stream])
            self.written_stream = self.stream

    def allocate(self, storage):
        self.tell_stream()
        key = storage._cdata
        self.count += 1
        number = self.count
        self.storages[key] = number
        self.events.append([1, number, storage.nbytes()])
        weakref.finalize(storage, self.release, key, number).atexit = False
        return number

    def release(self, key, number):
        if self.storages.get(key) == number:
            del self.storages[key]
        self.events.append([2, number])

    def resized(self, storage):
        number = self.number(storage)
        if number is not None:
            self.tell_stream()
            self.events.append([4, number, storage.nbytes()])


def recorder_class(torch):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Recorder(TorchDispatchMode):
        """Writes every operation that reaches the device, with the tensors it reads and makes."""

        def __init__(self, writer, device):
            super().__init__()
            self.writer = writer
            self.device = device

            aten = torch.ops.aten
            self.random = {aten.uniform_.default, aten.normal_.default, aten.random_.default, aten.exponential_.default,
                           aten.trunc_normal_.default if hasattr(aten, "trunc_normal_") else None}

        def stays(self, tensor, kwargs):
            """A copy to the device and the type that a tensor has is none: only the answer above makes it look so."""
            device, dtype = kwargs.get("device"), kwargs.get("dtype")
            same = device is None or torch.device(device).type == tensor.device.type
            return device is not None and same and (dtype is None or dtype == tensor.dtype)

        def on_device(self, value):
            return isinstance(value, torch.Tensor) and value.device.type == self.device

        def describe(self, tensor):
            storage = tensor.untyped_storage()
            number = self.writer.number(storage)
            if number is None:
                number = self.writer.allocate(storage)
            text = str(tensor.dtype)[6:]
            return [number, self.writer.name(text), list(tensor.shape), list(tensor.stride())]

        def run(self, func, args, kwargs):
            aten = torch.ops.aten
            if func.namespace == "c10d":
                return self.sent(func, args, kwargs)
            if func is aten._local_scalar_dense.default:
                return self.value_of(func, args)
            if func in (aten.rand.default, aten.randn.default) and len(args[0]) == 0:
                if torch.device(kwargs.get("device") or "cpu").type == "cpu":
                    return self.drawn(func, args)
            if func.name() == "aten::_grouped_mm" and args[0].dtype != torch.bfloat16:
                return self.grouped(*args[:2], args[2] if len(args) > 2 else kwargs.get("offs"))
            return func(*args, **kwargs)

        def sent(self, func, args, kwargs):
            """A message between ranks: its buffers are there, the other ranks are not."""
            from torch.utils._mode_utils import no_dispatch
            group = next(torch.distributed.ProcessGroup.unbox(value) for value in [*args, *kwargs.values()]
                         if isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type()))
            with no_dispatch(), torch._C.DisableTorchFunction():
                done = group.allreduce([torch.empty(1, device="cpu")]).boxed()
            returned = func._schema.returns
            return done if len(returned) == 1 else (*args[:len(returned) - 1], done)

        def value_of(self, func, args):
            """Code that looks at a value of the device: usually whether a mask masks anything, which it does not."""
            try:
                return func(*args)
            except Exception as error:
                if type(error).__name__ != "DataDependentOutputException":
                    raise
            answer = args[0].dtype == torch.bool or 1
            said = f"{self.writer.module or 'the step'}: {answer}"
            self.writer.assumed[said] = self.writer.assumed.get(said, 0) + 1
            return answer

        def drawn(self, func, args):
            """A random number of the host (layer drop) is drawn."""
            from torch.utils._mode_utils import no_dispatch
            with no_dispatch():
                real = func(*args)
            mode = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
            return mode.fake_tensor_converter.from_real_tensor(mode, real, make_constant=True)

        def grouped(self, a, b, offsets):
            """The fake kernel knows bf16 alone; others run group by group and return the same."""
            groups = offsets.size(0) if offsets is not None else 0
            if a.dim() == 2 and b.dim() == 2:
                shape = (groups, a.size(0), b.size(1))
            elif a.dim() == 3 and b.dim() == 3:
                shape = (a.size(0), a.size(1), b.size(2))
            else:
                shape = (a.size(-2), b.size(-1))
            return a.new_empty(shape)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if any(hasattr(kind, "__tensor_flatten__") for kind in types):
                return NotImplemented  # a tensor of tensors (DTensor): what it does with its parts comes here again
            if func.namespace == "prim":
                return func(*args, **kwargs)
            if func in self.random:
                return args[0]  # there is no data
            if func is torch.ops.aten._to_copy.default and self.stays(args[0], kwargs):
                return torch.ops.aten.alias.default(args[0])
            inputs = [t for t in tree_leaves((args, kwargs)) if self.on_device(t)]
            before = [self.describe(t) for t in inputs]
            out = self.run(func, args, kwargs)
            outputs = [t for t in tree_leaves(out) if self.on_device(t)]
            if not outputs and not before or func.is_view:
                return out
            at = len(self.writer.events)
            after = [self.describe(t) for t in outputs]
            numbers = [v for v in args if isinstance(v, (int, float)) and not isinstance(v, bool)]
            node = torch._C._current_autograd_node() if hasattr(torch._C, "_current_autograd_node") else None
            place = node.name() if node is not None else self.writer.module
            engine = 1 if sys._getframe(1).f_code.co_name == "_engine_run_backward" else 0
            self.writer.events.insert(
                at, [0, self.writer.name(str(func)), self.writer.name(place), before, after, numbers, engine])
            return out

    return Recorder


# What autocast does on CUDA, by the name of the function (PyTorch's "CUDA Ops that can autocast"). C++ does it by
# asking tensors for their device, which says meta here.
LOWER = {"__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "multi_dot",
         "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "einsum", "linear",
         "matmul", "mm", "mv", "prelu"}
WIDE = {"__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "binary_cross_entropy_with_logits", "cosh",
        "cosine_embedding_loss", "cdist", "cosine_similarity", "cumprod", "cumsum", "dist", "erfinv",
        "exp", "expm1", "group_norm", "hinge_embedding_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10",
        "log_softmax", "log1p", "log2", "margin_ranking_loss", "mse_loss", "multilabel_margin_loss",
        "multi_margin_loss", "nll_loss", "norm", "pdist", "poisson_nll_loss", "pow", "reciprocal", "renorm", "rsqrt",
        "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "square", "tan", "triplet_margin_loss"}
WIDE_SUM = {"sum", "prod"}  # read narrow numbers and write wide ones
WIDEST = {"addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "grid_sample", "index_put", "scatter_add",
          "stack", "tensordot"}
TAKES_TYPE = {"softmax", "log_softmax", "cumsum", "cumprod"}  # with a dtype of the caller's they are left alone


class Autocast:
    """Casts as autocast does; weights are cast once for as long as autocast is on."""

    def __init__(self, torch, device):
        self.torch = torch
        self.device = device
        self.cache = {}

    def on(self):
        return self.torch.is_autocast_enabled(self.device)

    def eligible(self, value):
        torch = self.torch
        return (isinstance(value, torch.Tensor) and value.device.type == self.device and value.is_floating_point()
                and value.dtype != torch.float64)

    def cast(self, value, dtype):
        torch = self.torch
        if not self.eligible(value) or value.dtype == dtype:
            return value
        keeps = (dtype != torch.float32 and value.dtype == torch.float32 and value.requires_grad and value.is_leaf
                 and not value._is_view() and torch.is_autocast_cache_enabled())
        if not keeps:
            return value.to(dtype)
        if id(value) not in self.cache:
            self.cache[id(value)] = (value, value.to(dtype))
        return self.cache[id(value)][1]

    def apply(self, name, args, kwargs):
        from torch.utils._pytree import tree_leaves, tree_map
        torch = self.torch
        if name in WIDE_SUM and args and self.eligible(args[0]) and kwargs.get("dtype") is None:
            return args, dict(kwargs, dtype=torch.float32)
        if name in LOWER:
            dtype = torch.get_autocast_dtype(self.device)
        elif name in WIDE:
            if name in TAKES_TYPE and (kwargs.get("dtype") is not None or
                                       any(isinstance(a, torch.dtype) for a in args)):
                return args, kwargs
            dtype = torch.float32
        elif name in WIDEST:
            types = {t.dtype for t in tree_leaves((args, kwargs)) if self.eligible(t)}
            if len(types) < 2:
                return args, kwargs
            dtype = torch.float32
        else:
            return args, kwargs
        return tree_map(lambda v: self.cast(v, dtype), (tuple(args), dict(kwargs)))


@contextlib.contextmanager
def emptied_at_exit(torch, autocast):
    plain = torch.clear_autocast_cache

    def clear():
        autocast.cache.clear()
        plain()

    torch.clear_autocast_cache = clear
    try:
        yield
    finally:
        torch.clear_autocast_cache = plain


def calls_mode(torch, choice, device, autocast):
    """Calls whose C++ asks for a GPU: autocast, dropout's fused kernel, scaled-dot-product attention (which goes to the
    kernel that the target GPU would take) and moves to the device, which need no driver here."""
    from torch.overrides import TorchFunctionMode

    sdpa = torch.nn.functional.scaled_dot_product_attention
    dropouts = {torch.nn.functional.dropout, torch.dropout}

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func is sdpa:
                return attend(torch, choice, autocast, *args, **kwargs)
            if func is torch.Tensor.backward:
                return self.backward(*args, **kwargs)
            if func in dropouts:
                return self.dropped(func, *args, **kwargs)
            if func is torch.nn.functional.cross_entropy and autocast.on():
                return self.entropy(*args, **kwargs)
            if func is torch.Tensor.cuda:
                return self.moved(args[0], None)
            if func is torch.Tensor.to:
                place, dtype = torch._C._nn._parse_to(*args[1:], **kwargs)[:2]
                if place is not None and place.type == device:
                    return self.moved(args[0], dtype)
            if autocast.on():
                args, kwargs = autocast.apply(getattr(func, "__name__", ""), args, kwargs)
            return func(*args, **kwargs)

        def backward(self, loss, gradient=None, retain_graph=None, create_graph=False, inputs=None):
            with self:  # checkpoints run their forward again inside
                run_backward(torch, loss, gradient, bool(retain_graph), create_graph)

        def dropped(self, func, input, p=0.5, training=True, *rest, **kwargs):
            training = kwargs.get("train", training)
            if training and 0 < p < 1 and input.device.type == device and not any(rest) and not kwargs.get("inplace"):
                return torch.native_dropout(input, p, True)[0]
            return func(input, p, training, *rest, **kwargs)

        def entropy(self, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                    reduction="mean", label_smoothing=0.0):
            """Autocast knows the two functions inside, not this one: the first is told the type of the logits, so that
            only the second runs in fp32."""
            functional = torch.nn.functional
            if weight is not None or label_smoothing or target.is_floating_point():
                return functional.cross_entropy(input.float(), target, weight, size_average, ignore_index, reduce,
                                                reduction, label_smoothing)
            logarithms = torch.log_softmax(input, 0 if input.dim() == 1 else 1, dtype=input.dtype)
            return functional.nll_loss(logarithms.float(), target, None, size_average, ignore_index, reduce, reduction)

        def moved(self, tensor, dtype):
            if tensor.device.type == device:
                return tensor if dtype is None else tensor.to(dtype)
            return torch.empty_like(tensor, device=torch.device(device, 0), dtype=dtype)

    return Calls()


def attend(torch, choice, autocast, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
           enable_gqa=False):
    aten = torch.ops.aten
    if autocast.on():
        narrow = torch.get_autocast_dtype(autocast.device)
        query, key, value, attn_mask = (autocast.cast(t, narrow) for t in (query, key, value, attn_mask))
    half = query.dtype in (torch.float16, torch.bfloat16)
    grouped = enable_gqa and query.size(-3) != key.size(-3)
    kernel = choose(choice, half, attn_mask is not None, query.size(-1), value.size(-1), grouped)
    if choice["attention"] == "auto":
        if query.dim() != 4 or (query.size(-3) != key.size(-3) and not enable_gqa):
            kernel = "math"  # no kernel broadcasts heads by itself
        elif attn_mask is not None and attn_mask.requires_grad:
            kernel = "math"  # a learned bias wants a gradient
    training = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    bias = attn_mask
    if bias is not None and bias.dtype == torch.bool and kernel != "math":
        zero = torch.zeros((), dtype=query.dtype, device=query.device)
        bias = torch.where(bias, zero, torch.full((), float("-inf"), dtype=query.dtype, device=query.device))
    if bias is not None and kernel != "math":
        bias = bias.expand(query.size(0), query.size(1), query.size(2), key.size(2))
    if kernel == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, bias, training, dropout_p, is_causal, False, scale=scale)[0]
    if kernel != "math" and grouped:
        times = query.size(-3) // key.size(-3)
        if kernel == "efficient":
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    if kernel == "flash":
        width = query.size(-1)
        pad = -width % 8
        if pad:
            query, key, value = (torch.nn.functional.pad(t, (0, pad)) for t in (query, key, value))
        scale = width ** -0.5 if scale is None else scale
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :width] if pad else out
    if kernel == "efficient":
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, training, dropout_p, is_causal, scale=scale)[0]
    return plain_attention(torch, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def plain_attention(torch, query, key, value, mask, dropout_p, is_causal, scale, enable_gqa):
    """Products and a softmax, in fp32, as PyTorch's math kernel makes them."""
    dtype = query.dtype
    if dtype in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
        if mask is not None and mask.is_floating_point():
            mask = mask.float()
    if is_causal:
        mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    if enable_gqa and query.size(-3) != key.size(-3):
        times = query.size(-3) // key.size(-3)
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    root = (query.size(-1) ** -0.5 if scale is None else scale) ** 0.5
    query, key = query * root, key * root
    scores = torch.matmul(query, key.transpose(-2, -1))
    if mask is not None:
        scores = scores.add_(mask)
    weights = torch.ops.aten._safe_softmax.default(scores, -1)
    del scores, query, key
    if dropout_p > 0:
        weights = torch.native_dropout(weights, dropout_p, True)[0]
    return torch.matmul(weights, value).to(dtype)


def choose(choice, half, masked, width, value_width, grouped):
    """The kernel of PyTorch 2.5 and later by the compute capability of the target GPU."""
    if choice["attention"] != "auto":
        return choice["attention"]
    if half and choice["capability"] >= 90 and width <= 256 and value_width <= 256 and width % 8 == 0:
        return "cudnn"
    if half and choice["capability"] >= 80 and not masked and width <= 256 and width == value_width:
        return "flash"
    if not grouped:
        return "efficient"
    return "math"


@contextlib.contextmanager
def known_to_foreach(torch, fake_type):
    """Optimizers take their multi-tensor path only for types that they know."""
    import torch.optim.optimizer as optimizer
    import torch.utils._foreach_utils as utils
    lists = [m._foreach_supported_types for m in (optimizer, utils) if hasattr(m, "_foreach_supported_types")]
    for types in lists:
        types.append(fake_type)
    try:
        yield
    finally:
        for types in lists:
            types.remove(fake_type)


def fake_mode_class(torch, device):
    """Fake tensors on a GPU that is not there.

    C++ asks a tensor for its device to guard kernels, to pick autograd's queue and to place scalars beside it. Without
    a GPU there is neither a guard nor a queue for CUDA; meta tensors need none. So C++ is told "meta", and what it
    then places on meta is placed on the device."""
    from torch._subclasses import fake_tensor

    class OnDevice(fake_tensor.FakeTensorMode):
        avoid_device_init = True

        def dispatch(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            placed = kwargs.get("device")
            if placed is not None and torch.device(placed).type == "meta":
                kwargs["device"] = torch.device(device, 0)
            return super().dispatch(func, types, args, kwargs)

    return OnDevice


@contextlib.contextmanager
def said_to_be_meta(torch, device):
    from torch._subclasses import fake_tensor

    handlers, asked = fake_tensor._DISPATCH_META_HANDLERS, torch.ops.prim.device.default
    plain = handlers[asked]

    def answer(arguments):
        found = plain(arguments)
        return torch.device("meta") if found.type == device else found

    handlers[asked] = answer
    try:
        yield
    finally:
        handlers[asked] = plain


class Queue:
    """A stream or an event of a GPU that is not there: work is done as soon as it is asked for."""

    def __init__(self, *args, **kwargs):
        self.device_index, self.device_type, self.stream_id, self.number = 0, 1, id(self), 0

    def nothing(self, *args, **kwargs):
        return None

    wait_stream = wait_event = wait = record = synchronize = nothing

    def record_event(self, event=None):
        return event or Queue()

    def query(self):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Streams:
    """Which stream runs: memory is taken from its own cache."""

    def __init__(self, writer):
        self.writer = writer
        self.made = made = []

        class Stream(Queue):  # a class: code asks whether something is one
            def __init__(self, *args, **kwargs):
                super().__init__()
                self.number = len(made)
                made.append(self)

        self.kind = Stream
        Stream()  # the usual one

    def current(self, device=None):
        return self.made[self.writer.stream]

    @contextlib.contextmanager
    def using(self, stream):
        before = self.writer.stream
        self.writer.stream = getattr(stream, "number", before)
        try:
            yield stream
        finally:
            self.writer.stream = before


@contextlib.contextmanager
def as_on_a_gpu(torch, capability, writer):
    """Code asks whether there is a GPU and what it can do, and Transformers leaves its usual path for fake tensors."""
    streams = Streams(writer)
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: (capability // 10, capability % 10),
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "is_bf16_supported": lambda including_emulation=True: capability >= 80,
        "is_current_stream_capturing": lambda: False,
        "set_device": lambda device: None,
        "Stream": streams.kind,
        "Event": Queue,
        "stream": streams.using,
        "current_stream": streams.current,
        "default_stream": lambda device=None: streams.made[0],
    }
    changed = [(torch.cuda, name, answer) for name, answer in answers.items() if hasattr(torch.cuda, name)]
    from torch._subclasses import fake_tensor
    for name in ("init_cuda_context", "init_gpu_context"):
        if hasattr(fake_tensor, name):
            changed.append((fake_tensor, name, lambda device=None: None))
    imports = sys.modules.get("transformers.utils.import_utils")
    if imports is not None and hasattr(imports, "is_fake_tensor"):
        changed.append((imports, "is_fake_tensor", lambda tensor: False))
    plain = [(place, name, getattr(place, name)) for place, name, _ in changed]
    for place, name, answer in changed:
        setattr(place, name, answer)
    try:
        yield
    finally:
        for place, name, value in plain:
            setattr(place, name, value)


@contextlib.contextmanager
def real_meshes(torch):
    """Which rank is where is computed with tensors of the host, which must have values."""
    try:
        from torch.distributed import device_mesh
        from torch.utils._python_dispatch import _disable_current_modes
    except ImportError:
        yield
        return
    kind = getattr(device_mesh, "DeviceMesh", None)
    plain = [(place, name, getattr(place, name)) for place, name in
             ((kind, "__init__"), (device_mesh, "init_device_mesh"), (kind, "__getitem__"), (kind, "_flatten"))
             if place is not None and hasattr(place, name)]

    def apart(function):
        def call(*args, **kwargs):
            with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.device("cpu"):
                return function(*args, **kwargs)
        return call

    for place, name, function in plain:
        setattr(place, name, apart(function))
    try:
        yield
    finally:
        for place, name, function in plain:
            setattr(place, name, function)


@contextlib.contextmanager
def parts_of_ranks(torch):
    """A tensor of tensors (DTensor) is where its part is. PyTorch 2.11 makes it in C++, which is told "meta",
    and FSDP2 refuses to train weights that it takes for not yet made."""
    try:
        from torch.distributed.tensor import DTensor
    except ImportError:
        yield
        return
    DTensor.device = property(lambda tensor: tensor._local_tensor.device)
    try:
        yield
    finally:
        del DTensor.device


@contextlib.contextmanager
def watched_modules(torch, writer):
    """The path of the module whose forward runs, for the names of operations."""
    paths = []

    def enter(module, _):
        paths.append(getattr(module, "_plimsoll_path", type(module).__name__))
        writer.module = paths[-1]

    def leave(module, _, __):
        if paths:
            paths.pop()
        writer.module = paths[-1] if paths else ""

    hooks = torch.nn.modules.module
    handles = [hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def watched_resizes(torch, writer):
    """FSDP frees and refills storages in place."""
    plain = torch.UntypedStorage.resize_

    def resize(storage, size):
        plain(storage, size)
        writer.resized(storage)

    torch.UntypedStorage.resize_ = resize
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = plain


def run_backward(torch, loss, gradient=None, retain_graph=False, create_graph=False):
    """As loss.backward() does it, but calls inside (checkpoints run their forward again) stay watched."""
    from torch.autograd.graph import _engine_run_backward
    gradient = torch.ones_like(loss) if gradient is None else gradient
    _engine_run_backward((loss,), (gradient,), retain_graph or create_graph, create_graph, (), allow_unreachable=True,
                         accumulate_grad=True)


def run_step(torch, writer, model, inputs, optimizer, loss_of, options, step):
    first = "first " if step == 0 else ""
    # The second micro-batch finds gradients; those after it are like it.
    for _ in range(min(2, options.get("gradient_accumulation", 1))):
        writer.phase(first + "forward")
        loss = loss_of(model, inputs)
        writer.phase(first + "backward")
        run_backward(torch, loss)
        del loss
    writer.phase(first + "update")
    if options.get("max_grad_norm", 1.0):
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.get("max_grad_norm", 1.0))
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def of_rank(tensor):
    """What this rank holds of a tensor that is divided (DTensor)."""
    return getattr(tensor, "_local_tensor", tensor)


def capture(build, path, steps=2, device="cuda", capability=90, attention="auto", **sizes):
    """Runs build(**sizes) and `steps` training steps on fake tensors and writes the capture to `path`."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    options = sizes.pop("options", {})
    writer = Writer()
    recorder = recorder_class(torch)(writer, device)
    choice = {"attention": attention, "capability": capability}
    started = time.time()
    with contextlib.ExitStack() as stack:
        stack.enter_context(parts_of_ranks(torch))
        stack.enter_context(as_on_a_gpu(torch, capability, writer))
        stack.enter_context(said_to_be_meta(torch, device))
        stack.enter_context(fake_mode_class(torch, device)(allow_non_fake_inputs=True))
        stack.enter_context(known_to_foreach(torch, FakeTensor))
        stack.enter_context(real_meshes(torch))
        stack.enter_context(watched_resizes(torch, writer))
        stack.enter_context(watched_modules(torch, writer))
        stack.enter_context(recorder)
        autocast = Autocast(torch, device)
        stack.enter_context(emptied_at_exit(torch, autocast))
        stack.enter_context(calls_mode(torch, choice, device, autocast))
        writer.phase("model")
        with torch.device(device):
            built = build(**sizes)
        model, inputs, optimizer = built[:3]
        loss_of = built[3] if len(built) > 3 else lambda m, i: m(**i).loss
        for name, module in model.named_modules():
            module._plimsoll_path = name
        for step in range(steps):
            run_step(torch, writer, model, inputs, optimizer, loss_of, options, step)
        parameters = [[writer.number(of_rank(p).untyped_storage()), n] for n, p in model.named_parameters()]
        buffers = [[writer.number(of_rank(b).untyped_storage()), n] for n, b in model.named_buffers()
                   if b.device.type == device]
        writer.phase("end")
        events = list(writer.events)
    names = sorted(writer.names, key=writer.names.get)
    head = {"schema": SCHEMA, "torch": torch.__version__, "capability": capability, "sizes": sizes,
            "options": options, "seconds": round(time.time() - started, 3), "names": names,
            "assumed": writer.assumed, "parameters": parameters, "buffers": buffers, "events": len(events)}
    write(path, head, events)
    return head


def write(path, head, events):
    partial = path + ".part"
    with gzip.GzipFile(partial, "wb", compresslevel=6, mtime=0) as out:
        out.write(json.dumps(head, separators=(",", ":")).encode() + b"\n")
        for event in events:
            out.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    os.replace(partial, path)


def transformers_job(arguments):
    """build() for a config.json of Transformers, trained as its Trainer does."""
    import torch
    import transformers

    with open(arguments.config) as file:
        raw = json.load(file)
    config = transformers.AutoConfig.for_model(raw.pop("model_type"), **raw)
    config.use_cache = False
    kinds = {"causal": "AutoModelForCausalLM", "mlm": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM",
             "image": "AutoModelForImageClassification", "speech": "AutoModelForSpeechSeq2Seq"}
    auto = getattr(transformers, kinds[arguments.task])
    auto._model_mapping[type(config)]  # its module is imported here: what it asks of the machine is not the step's
    weights = getattr(torch, arguments.weights)
    wide = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(arguments.autocast)

    def build(batch, seq):
        extra = {"attn_implementation": arguments.attn} if arguments.attn else {}
        model = auto.from_config(config, dtype=weights, **extra)
        model.train()
        if arguments.checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if arguments.task == "image":
            size = config.image_size
            inputs = {"pixel_values": torch.empty(batch, 3, size, size), "labels": torch.zeros(batch, dtype=torch.int64)}
        elif arguments.task == "speech":
            features = torch.empty(batch, config.num_mel_bins, 2 * config.max_source_positions)
            inputs = {"input_features": features, "labels": torch.zeros(batch, seq, dtype=torch.int64)}
        else:
            ids = torch.zeros(batch, seq, dtype=torch.int64)
            inputs = {"input_ids": ids, "labels": torch.zeros(batch, seq, dtype=torch.int64)}
        optimizer = make_optimizer(torch, model, arguments.optim)
        return model, inputs, optimizer, loss_of

    def widened(out):
        """accelerate hands the outputs of a model under autocast on in fp32."""
        return {key: value.float() if torch.is_tensor(value) and value.is_floating_point() else value
                for key, value in out.items()}

    def loss_of(model, inputs):
        if arguments.label_smoothing:  # the Trainer then takes the loss over from the model
            labels = inputs["labels"]
            inputs = {key: value for key, value in inputs.items() if key != "labels"}
        if wide is None:
            out = model(**inputs)
        else:
            with torch.autocast("cuda", dtype=wide):
                out = model(**inputs)
            out = widened(out)
        if not arguments.label_smoothing:
            return out["loss"]
        from transformers.trainer_pt_utils import LabelSmoother
        return LabelSmoother(epsilon=arguments.label_smoothing)(out, labels, shift_labels=True)

    return build


def script_job(text):
    """build() from a file of the user's."""
    import importlib.util
    path, _, name = text.rpartition(":")
    if not path or not os.path.exists(path):
        raise SystemExit(f"capture: --script is '{text}'; wanted FILE.py:FUNCTION with a file that exists")
    spec = importlib.util.spec_from_file_location("plimsoll_script", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise SystemExit(f"capture: {path} has no function {name}")
    return getattr(module, name)


def make_optimizer(torch, model, name):
    decay, plain = [], []
    for n, p in model.named_parameters():
        if p.requires_grad:
            (plain if p.dim() < 2 or "norm" in n.lower() or n.endswith("bias") else decay).append(p)
    groups = [{"params": decay, "weight_decay": 0.0}, {"params": plain, "weight_decay": 0.0}]
    if name == "adamw_torch_fused":
        return torch.optim.AdamW(groups, lr=5e-5, fused=True)
    if name == "adamw_torch":
        return torch.optim.AdamW(groups, lr=5e-5, foreach=True)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=5e-5, foreach=True)
    raise SystemExit(f"capture: optimizer {name} is not known here (adamw_torch_fused, adamw_torch, sgd)")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="plimsoll capture", description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", help="config.json of a Transformers model, trained as its Trainer does")
    what.add_argument("--script", help="FILE.py:FUNCTION that returns (model, inputs, optimizer) for batch and seq")
    parser.add_argument("--out", default="step.capture")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--weights", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--autocast", default="none", choices=["none", "bf16", "fp16"])
    parser.add_argument("--attn", default="")
    parser.add_argument("--optim", default="adamw_torch_fused")
    parser.add_argument("--task", default="causal", choices=["causal", "mlm", "seq2seq", "image", "speech"])
    parser.add_argument("--label-smoothing", type=float, default=0.0)
    parser.add_argument("--gradient-accumulation", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--capability", type=int, default=90, help="compute capability of the target GPU, e.g. 90")
    arguments = parser.parse_args(argv)
    need("torch")
    if not arguments.script:
        need("transformers")
    build = script_job(arguments.script) if arguments.script else transformers_job(arguments)
    try:
        head = capture(build, arguments.out, batch=arguments.batch, seq=arguments.seq, capability=arguments.capability,
                       options={"gradient_accumulation": arguments.gradient_accumulation})
    except Exception as error:  # the user's own code runs here and may raise anything
        fail(3, explained(error))
    print(f"{arguments.out}: {head['events']} events in {head['seconds']} s", file=sys.stderr)


def fail(code, text):
    print("plimsoll capture: " + text, file=sys.stderr)
    sys.exit(code)


def need(package):
    import importlib
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        fail(4, f"{package} cannot be imported by {sys.executable} ({error}); --python names another Python")
    version = [int(part) for part in module.__version__.split("+")[0].split(".")[:2] if part.isdigit()]
    if package == "torch" and version < [2, 5]:
        fail(4, f"PyTorch is {module.__version__}; wanted 2.5 or later")


def explained(error):
    import traceback
    kind = type(error).__name__
    own = [line for line in traceback.extract_tb(error.__traceback__)
           if "/torch/" not in line.filename and line.filename != globals().get("__file__", "<string>") and not line.filename.startswith("<")]
    where = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    if kind == "DynamicOutputShapeException":
        return f"the shapes of this step depend on its data ({error.func}{where}), which a capture does not have"
    return f"the step raised {kind}{where}: {str(error)[:500]}"


if __name__ == "__main__":
    main()
