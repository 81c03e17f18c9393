"""Modules: their calls, their parameters and the parameters' gradients."""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import Any, Iterable, Optional, Union

import torch

from assay.capture.calls import Call
from assay.capture.guards import is_compiling
from assay.capture.leaves import utf8
from assay.capture.recorder import Recorder
from assay.capture.te_tensors import module_state

Module = torch.nn.Module
Models = Union[Module, Iterable[Module], None]


def numbered(models: Models) -> list[tuple[str, Module]]:
    """The models, each with what its names begin with: "" for one alone,
    its number for several."""
    if models is None:
        return []
    own = getattr(models, "numbered", None)
    if own is not None:  # numbers its models itself
        return own()
    if isinstance(models, Module):
        return [("", models)]
    listed = isinstance(models, Iterable) and not isinstance(models, str)
    found = list(models) if listed else [models]
    for model in found:
        if not isinstance(model, Module):
            raise TypeError(f"model: {type(model).__name__}, expected a "
                            "torch.nn.Module or a list of them")
    return [(str(i), model) for i, model in enumerate(found)]


def named_modules(models: Models) -> list[tuple[str, Module]]:
    """Every module under its qualified name; several models are numbered."""
    return [named for prefix, model in numbered(models)
            for named in model.named_modules(prefix=prefix)]


class _Hook:
    """A module's hook; a copy or a pickle of the module has one that does
    nothing, and needs no assay to be loaded."""

    __slots__ = ("hooks", "stem")

    def __init__(self, hooks: "ModuleHooks", stem: str) -> None:
        self.hooks, self.stem = hooks, stem

    def __reduce__(self) -> tuple:
        return getattr, (contextlib.nullcontext(), "__exit__")


class _Before(_Hook):
    __slots__ = ()

    def __call__(self, module: Module, args: tuple, kwargs: dict) -> None:
        if not is_compiling():  # what is compiled is as without the hook
            self.hooks.before(self.stem, module, args, kwargs)


class _After(_Hook):
    __slots__ = ()

    def __call__(self, module: Module, args: tuple, kwargs: dict,
                 result: Any) -> None:
        if not is_compiling():
            self.hooks.after(self.stem, result)


class ModuleHooks:
    """Hooks on every module of the models, until remove().

    key: under which a module keeps them; one for all steps of a capture, or
    torch.compile would compile again in each.
    """

    def __init__(self, recorder: Recorder, models: Models, calls: bool,
                 key: str = "assay") -> None:
        self.recorder = recorder
        self._models, self._calls, self._key = models, calls, key
        self._roots = {id(each) for each in (
            [models] if isinstance(models, Module) else models or ())}
        self._handles: list[Any] = []
        self._gradient_ops: dict[tuple[str, int], int] = {}
        self._contributions: dict[int, int] = {}
        self._parameters: list[tuple[str, str, torch.nn.Parameter]] = []
        self._seen: set[int] = set()
        self._modules: "weakref.WeakSet[Module]" = weakref.WeakSet()
        self.unseen: list[str] = []  # modules in which calls are not seen
        self._watch()

    def _watch(self) -> None:
        """Watches what it does not yet: modules may come in a step."""
        unseen: list[str] = []
        for name, module in named_modules(self._models):
            inside = any(name.startswith(each) for each in unseen)
            opaque = "" if inside else _opaque(module)
            if opaque:
                unseen.append(f"{name}." if name else "")
            if module in self._modules:
                continue
            self._modules.add(module)
            if opaque:
                self.unseen.append(name or "the model")
            stem = _stem(name, module)
            with self.recorder.guarded(stem):
                if self._calls and not inside and opaque != "itself":
                    self._watch_calls(stem, module)
                if self.recorder.options.backward:
                    self._watch_parameters(stem, module, self._seen)

    def _watch_calls(self, stem: str, module: Module) -> None:
        before = module.register_forward_pre_hook(_Before(self, stem),
                                                  with_kwargs=True)
        after = module.register_forward_hook(_After(self, stem),
                                             with_kwargs=True,
                                             always_call=True)
        _rename(before, self._key, (
            module._forward_pre_hooks,
            getattr(module, "_forward_pre_hooks_with_kwargs", {})))
        _rename(after, self._key, (
            module._forward_hooks,
            getattr(module, "_forward_hooks_with_kwargs", {}),
            getattr(module, "_forward_hooks_always_called", {})))
        self._handles += before, after

    def enter(self, name: str, module: Module, args: tuple, kwargs: dict,
              frame: Any) -> None:
        """The first call of a model that came just now; frame: of torch,
        around this call alone."""
        self._roots.add(id(module))
        with self.recorder.guarded("a module that came later"):
            self._watch()
        if self._calls:
            self.before(_stem(name, module), module, args, kwargs, frame)

    def before(self, stem: str, module: Module, args: tuple, kwargs: dict,
               frame: Any = None) -> None:
        """A call begins; what stopped the training's own calls before it
        ended is known from the frames that are still there."""
        recorder = self.recorder
        if not recorder.alive:
            return
        recorder.look_at_thread()
        calls = recorder.state.calls
        if not calls and id(module) in self._roots:
            with recorder.guarded("a module that came later"):
                self._watch()
        # Of torch, around this call alone.
        here = frame if frame is not None else sys._getframe(2)
        while calls and not _runs(calls[-1].frames[0], here):
            self._left(calls.pop(), None)
        number = recorder.next_call(stem)
        call = Call(recorder, "Module", stem[len("Module."):], stem,
                    f".{number}", number)
        call.frames = (here, here.f_back)
        call.handled = sys.exc_info()[1]
        with recorder.guarded(call):
            call.begin(args, kwargs)
            for name, parameter in module.named_parameters(recurse=False):
                if call.op >= 0:
                    recorder.tensor(call.op, "parameter",
                                    f"parameters.{name}", parameter)
            if call.op >= 0 and "fp8_meta" in vars(module):
                for name, state in module_state(module):
                    recorder.tensor(call.op, "parameter",
                                    f"parameters.{name}", state)
        calls.append(call)

    def after(self, stem: str, result: Any) -> None:
        """A call ends. torch asks for this hook when it ends by an error
        too, so that what is entered is left in every case but Ctrl-C."""
        recorder = self.recorder
        calls = recorder.state.calls
        here = sys._getframe(2)
        if not any(call.stem == stem and here in call.frames
                   for call in calls):
            return  # it was entered before the capture began
        error = sys.exc_info()[1]
        while not (calls[-1].stem == stem and here in calls[-1].frames):
            self._left(calls.pop(), error)
        call = calls.pop()
        if error is not None and error is not call.handled:
            self._left(call, error, result)
            return
        call.frames, call.handled = (), None
        with recorder.guarded(call):
            if recorder.alive:
                call.end(result)

    def _left(self, call: Call, error: Optional[BaseException],
              result: Any = None) -> None:
        """The call ended by an error, of its own or of a hook after it."""
        call.frames, call.handled = (), None
        with self.recorder.guarded(call):
            if self.recorder.alive:
                if result is not None:
                    call.end(result)
                call.raised(error)

    def _watch_parameters(self, stem: str, module: Module,
                          seen: set[int]) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            self._parameters.append((stem, name, parameter))
            self._handles.append(parameter.register_hook(
                lambda gradient, stem=stem, name=name, key=id(parameter):
                self._gradient(stem, name, key, gradient)))

    def _gradient(self, stem: str, name: str, key: int,
                  gradient: torch.Tensor) -> None:
        """The gradient of one backward pass, before it is added to .grad."""
        recorder = self.recorder
        if not recorder.alive:
            return
        with recorder.guarded(stem):
            number = self._contributions.get(key, 0)
            self._contributions[key] = number + 1
            op = self._gradient_op(stem, number)
            if op >= 0:
                recorder.tensor(op, "gradient", name, gradient)
                recorder.checkpoint(op)

    def _gradient_op(self, stem: str, number: int) -> int:
        op = self._gradient_ops.get((stem, number))
        if op is None:
            op = self._gradient_ops[stem, number] = self.recorder.begin(
                f"{stem}.parameters_grad.{number}", stem[len("Module."):],
                "Module", number, "parameters_grad", parent=-1, stack=False)
        return op

    def main_gradients(self) -> None:
        """Gradients that are kept beside .grad, once in a step.

        Kernels that fuse the accumulation of gradients (as Megatron's users
        have them) write to parameter.main_grad and pass autograd nothing.
        """
        parameters, self._parameters = self._parameters, []
        for stem, name, parameter in parameters:
            gradient = getattr(parameter, "main_grad", None)
            if isinstance(gradient, torch.Tensor):
                op = self._gradient_op(stem, 0)
                if op >= 0:
                    self.recorder.tensor(op, "gradient", f"{name}.main_grad",
                                         gradient)

    def remove(self) -> None:
        """Takes every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


# Wrappers that keep what they wrap under such a name: a run with them pairs
# with one without.
_WRAPPED = frozenset(("_orig_mod", "_checkpoint_wrapped_module",
                      "_fsdp_wrapped_module"))


def _stem(name: str, module: Module) -> str:
    """What the names of a module's operators begin with."""
    kind = type(getattr(module, "_orig_mod", module)).__name__
    parts = [part for part in name.split(".") if part not in _WRAPPED]
    return utf8(".".join(filter(None, ("Module", *parts, kind))))


def _opaque(module: Module) -> str:
    """Whether calls inside of a module are not seen: "inside" only, or those
    of the module "itself" neither; "" where they are."""
    if isinstance(module, torch.jit.ScriptModule):
        return "itself"  # has no hooks
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "itself"  # Module.compile() compiles the hooks too
    return "inside" if hasattr(module, "_orig_mod") else ""


def _rename(handle: Any, key: str, hooks: tuple) -> None:
    """Keeps a hook under a key of our own."""
    for each in hooks:
        if handle.id in each:
            each[key] = each.pop(handle.id)
    handle.id = key


def _runs(frame: Any, here: Any) -> bool:
    """Whether a frame is one of those that `here` was called from."""
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None
