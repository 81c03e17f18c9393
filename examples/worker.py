#!/usr/bin/env python3
"""A conformance worker in plain Python: `linear` in float32, nothing else.

assay conform loop --reference reference --target examples/worker.py \
    --module linear
"""
import array, json, struct, sys, time

DEFAULTS = {"bias": True, "return_bias": False, "params_dtype": "float32",
            "fuse_wgrad_accumulation": False, "delay_wgrad_compute": False,
            "save_original_input": False}


def read(path):  # safetensors: u64 length, JSON header, data
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (e["shape"], array.array("f", data[slice(*e["data_offsets"])]))
            for name, e in header.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, (shape, values) in tensors.items():
        end = at + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(v.tobytes() for _, v in tensors.values())


def product(m, n, k, a, b):  # [m, n]: the sum over k of a(i, l) b(j, l)
    return [m, n], array.array("f", (sum(a(i, l) * b(j, l) for l in range(k))
                                     for i in range(m) for j in range(n)))


def scaled(values, step):  # each step takes 0.75 of what the last one took
    return array.array("f", (v * 0.75**(step - 1) for v in values))


def linear(p, t, steps):
    m, k, n, w, out = p["tokens"], p["in_features"], p["out_features"], t["weight"][1], {}
    for s in range(1, steps + 1):
        x, dy = scaled(t["x"][1], s), scaled(t["dy"][1], s)
        shape, y = product(m, n, k, lambda i, l: x[i * k + l], lambda j, l: w[j * k + l])
        if p["bias"] and not p["return_bias"]:
            y = array.array("f", (v + t["bias"][1][i % n] for i, v in enumerate(y)))
        out[f"y.step{s}"] = shape, y
        out[f"grad.x.step{s}"] = product(m, k, n, lambda i, l: dy[i * n + l],
                                         lambda j, l: w[l * k + j])
    out["grad.weight"] = product(n, k, m, lambda i, l: dy[l * n + i], lambda j, l: x[l * k + j])
    if p["bias"]:
        out["grad.bias"] = [n], array.array("f", (sum(dy[j::n]) for j in range(n)))
    state = {name: ["float32", t[name][0]] for name in ("weight", "bias") if name in t}
    return out, {"defaults": DEFAULTS, "state_dict": state}


def lacks(p):
    return (p["dtype"] != "float32" or p["recipe"] != "none" or p["parameters_split"]
            or p["fuse_wgrad_accumulation"])


for line in sys.stdin:
    request, start = json.loads(line), time.time()
    if request["type"] == "bye":
        break
    answer = {"type": "result", "id": request.get("id"), "status": "ok"}
    if request["type"] == "hello":
        answer = {"type": "hello", "protocol": 1, "implementation": "plain-python", "version": "1",
                  "device": "cpu", "modules": {"linear": {"adapter": 2}}, "environment": {}}
    elif lacks(request["parameters"]):
        answer.update(status="unsupported", error="unsupported", message="only plain float32")
    else:
        outputs, answer["contract"] = linear(request["parameters"], read(request["inputs"]), request["steps"])
        write(request["outputs"] + ".rank0.safetensors", outputs)
        answer["seconds"] = time.time() - start
    print(json.dumps(answer), flush=True)
