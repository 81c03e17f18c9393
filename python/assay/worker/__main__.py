"""python -m assay.worker: a provider behind the worker protocol."""

from __future__ import annotations

import argparse
import os
import sys

# Threads that spin while they wait make small tensors a hundred times slower
# where other processes want the cores. Read when OpenMP is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch  # noqa: E402

from assay.worker import ranks as several
from assay.worker.serve import Provider, Server, claim_stdout, serve


def provider_named(name: str, device: str) -> Provider:
    if name == "torch":
        from assay.worker.torch_provider.provider import TorchProvider
        return TorchProvider(device)
    from assay.worker.te_provider.provider import TeProvider
    return TeProvider(device)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m assay.worker",
        description="Computes conformance cases that `assay conform` sends "
        "(docs/worker-protocol.md).")
    parser.add_argument("--provider", choices=["torch", "te"],
                        default="torch",
                        help="torch: composites of plain PyTorch; te: the "
                        "transformer_engine that can be imported")
    parser.add_argument("--device", default="cpu",
                        help="cpu, cuda, cuda:1, npu, musa ... "
                        "(default: cpu)")
    parser.add_argument("--ranks", type=int, default=1, metavar="N",
                        help="processes that compute a case together")
    parser.add_argument("--timeout", type=float, default=300, metavar="S",
                        help="of a collective, seconds")
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--store", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def import_backend(device: str) -> None:
    """torch_npu and torch_musa add their device when imported."""
    kind = device.split(":")[0]
    if kind in ("npu", "musa"):
        __import__(f"torch_{kind}")


def main() -> None:
    options = parse(sys.argv[1:])
    answers = claim_stdout()
    import_backend(options.device)
    provider = provider_named(options.provider, options.device)
    device = torch.device(options.device)
    if options.ranks == 1:
        serve(Server(provider, device), answers, sys.stdin)
        return
    server = several.RankedServer(provider, device, options.rank,
                                  options.ranks)
    if options.rank > 0:
        several.join(options.store, options.rank, options.ranks,
                     options.device, options.timeout)
        server.follow()
        return
    group = several.RankZero(options.ranks, options.device, options.timeout)
    serve(server, answers, sys.stdin)
    server.stop_others()
    group.close()


if __name__ == "__main__":
    main()
