"""Writes what a training step computes to a trace that `assay` compares.

    with assay.capture("run", model, level="mix", mode="statistics") as c:
        for batch in loader:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            c.step()

docs/capture.md is the guide, docs/formats-traces.md has the format. session.py
is what users call. Nothing is imported here: workers read the names of traces
(leaves.py, names.py) without the C++ library.
"""
