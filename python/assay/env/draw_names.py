"""Functions that draw random numbers, of Python, numpy and torch."""

from __future__ import annotations

from typing import Any, Callable

PYTHON = ("seed", "random", "uniform", "triangular", "randint", "choice",
          "randrange", "sample", "shuffle", "choices", "normalvariate",
          "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate",
          "gauss", "betavariate", "paretovariate", "weibullvariate",
          "binomialvariate", "getrandbits", "randbytes", "setstate")

NUMPY = ("seed", "rand", "randn", "randint", "random", "random_sample",
         "random_integers", "ranf", "sample", "bytes", "choice", "shuffle",
         "permutation", "beta", "binomial", "chisquare", "dirichlet",
         "exponential", "f", "gamma", "geometric", "gumbel", "hypergeometric",
         "laplace", "logistic", "lognormal", "logseries", "multinomial",
         "multivariate_normal", "negative_binomial", "noncentral_chisquare",
         "noncentral_f", "normal", "pareto", "poisson", "power", "rayleigh",
         "standard_cauchy", "standard_exponential", "standard_gamma",
         "standard_normal", "standard_t", "triangular", "uniform", "vonmises",
         "wald", "weibull", "zipf", "default_rng", "set_state")

# Of torch, which a mode does not see.
SEEDS = ("manual_seed", "seed", "set_rng_state")

_TORCH = ("rand", "rand_like", "randn", "randn_like", "randint",
          "randint_like", "randperm", "normal", "bernoulli", "multinomial",
          "poisson", "binomial", "dropout", "dropout_", "alpha_dropout",
          "alpha_dropout_", "feature_dropout", "feature_dropout_",
          "feature_alpha_dropout", "feature_alpha_dropout_",
          "native_dropout", "rrelu", "rrelu_", "pca_lowrank", "svd_lowrank")
_TENSOR = ("normal_", "uniform_", "random_", "bernoulli", "bernoulli_",
           "exponential_", "cauchy_", "log_normal_", "geometric_",
           "multinomial")
_FUNCTIONAL = ("dropout", "dropout1d", "dropout2d", "dropout3d",
               "alpha_dropout", "feature_alpha_dropout", "rrelu",
               "gumbel_softmax", "fractional_max_pool2d_with_indices",
               "fractional_max_pool3d_with_indices",
               "scaled_dot_product_attention",
               "multi_head_attention_forward")
# Those of torch.nn.init that hand themselves to a mode; the others are seen by
# the methods that they call.
_INIT = ("uniform_", "normal_", "trunc_normal_", "kaiming_uniform_",
         "kaiming_normal_", "xavier_uniform_", "xavier_normal_",
         "orthogonal_", "sparse_")


def torch_functions(torch: Any) -> dict[Any, str]:
    """Each function that this torch has, and what it is called."""
    found: dict[Any, str] = {}
    functional = torch.nn.functional
    for home, prefix, names in ((torch, "torch", _TORCH),
                                (torch.Tensor, "Tensor", _TENSOR),
                                (functional, "functional", _FUNCTIONAL),
                                (torch.nn.init, "init", _INIT)):
        for name in names:
            function = getattr(home, name, None)
            if function is not None:
                found.setdefault(function, f"{prefix}.{name}")
    return found


def draws_nothing(label: str, args: tuple, kwargs: dict) -> bool:
    """A dropout that is off: no number is drawn."""
    if "dropout" in label:
        p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        place = 2  # of `training`, or `train`
        training = kwargs.get("training", kwargs.get(
            "train", args[place] if len(args) > place else True))
        if label.endswith(("alpha_dropout", "1d", "2d", "3d")) and (
                label.startswith("functional") and len(args) <= place):
            training = kwargs.get("training", "alpha" not in label)
        return p == 0 or not training
    if label.endswith("scaled_dot_product_attention"):
        return kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0) == 0
    if label.endswith("multi_head_attention_forward"):
        p = kwargs.get("dropout_p", args[10] if len(args) > 10 else 0.0)
        return p == 0 or not kwargs.get("training", args[13] if len(args) > 13
                                        else True)
    if label.endswith(("rrelu", "rrelu_")):
        place = 3
        return not kwargs.get("training", args[place] if len(args) > place
                              else False)
    return False


def Torch(call: Callable, functions: dict[Any, str]) -> Any:
    """A mode that passes the calls of `functions` through `call`.

    Made here, so that this module is imported without torch.
    """
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            try:
                label = functions.get(func)
            except TypeError:  # not hashable
                label = None
            if label is None:
                return func(*args, **kwargs)
            return call(label, func, args, kwargs)

    return Mode()
