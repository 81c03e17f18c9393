#!/usr/bin/env python3
"""A worker of the module api_call that answers what a file says.

usage: scripted.py SCRIPT device|golden COUNT

SCRIPT is JSON: {"device": {"Torch.exp": ANSWER}, "golden": {...}, "given":
{...}}: what the device answers, what the golden does, and what the golden does
where it is not to widen (as always, where it is not said). COUNT is a file
that gets a line for every request. ANSWER is

  {"tensors": {"output.0": ["F32", [2], "hex of the bytes"]}, "contract": {},
   "seconds": 0.1}: after so long, at once without it
  {"error": ["RuntimeError", "why"]}
  {"mode": "crash" | "hang" | "garbage" | "broken" | "unsupported"}
  [ANSWER, ANSWER, ...]: one after the other, the last one again and again"""
import json
import os
import signal
import struct
import sys
import time

with open(sys.argv[1], encoding="utf-8") as file:
    SCRIPT = json.load(file)
SIDE, COUNT = sys.argv[2:4]
asked = {}


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, hexes) in sorted(tensors.items()):
        values = bytes.fromhex(hexes)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def misbehave(mode, request):
    print("about to", mode, file=sys.stderr, flush=True)
    if mode == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "hang":
        time.sleep(600)
    elif mode == "garbage":
        return "Traceback (most recent call last)"
    elif mode == "broken":
        with open(request["outputs"] + ".rank0.safetensors", "wb") as out:
            out.write(b"\xff" * 12)
        return json.dumps({"type": "result", "id": request["id"],
                           "status": "ok"})
    return json.dumps({"type": "result", "id": request["id"],
                       "status": "unsupported", "error": "unsupported",
                       "message": "no such operator"})


def answer(request):
    parameters = request["parameters"]
    side, api = SIDE, parameters["api"]
    if side == "golden" and parameters["precision"] == "given":
        side = "given" if api in SCRIPT["given"] else "golden"
    found = SCRIPT[side][api]
    if isinstance(found, list):
        number = asked.get((side, api), 0)
        asked[side, api] = number + 1
        found = found[min(number, len(found) - 1)]
    time.sleep(found.get("seconds", 0))
    if "mode" in found:
        return misbehave(found["mode"], request)
    result = {"type": "result", "id": request["id"], "status": "ok",
              "contract": found.get("contract", {}), "seconds": 0.001,
              "peak_bytes": 1}
    if "error" in found:
        kind, message = found["error"]
        result.update(status="error", error=kind, message=message)
    else:
        write(request["outputs"] + ".rank0.safetensors",
              found.get("tensors", {}))
    return json.dumps(result)


for line in sys.stdin:
    asking = json.loads(line)
    if asking["type"] == "bye":
        break
    if asking["type"] == "hello":
        print(json.dumps({"type": "hello", "protocol": 1,
                          "implementation": "scripted", "version": "1",
                          "device": "cpu", "modules": {"api_call": {"adapter": 1}},
                          "environment": {}}), flush=True)
        continue
    with open(COUNT, "a", encoding="utf-8") as file:
        file.write(f"{SIDE} {asking['case']}\n")
    print(answer(asking), flush=True)
