"""Workers: processes that compute conformance cases for `assay conform`.

docs/worker-protocol.md is the protocol; `python -m assay.worker` serves a
provider over it.
"""
