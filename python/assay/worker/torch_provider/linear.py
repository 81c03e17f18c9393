"""linear: y = x W^T + b, dx = dy W, dW = dy^T x, db = the sum of dy's rows."""

from __future__ import annotations

from assay.worker.call import Call, Result, Unsupported, state_dict_contract

ADAPTER = 1
API = ["torch.nn.functional.linear"]


def run(call: Call) -> Result:
    if call.recipe != "none":
        raise Unsupported(f"recipe {call.recipe}")
    dtype = call.torch_dtype
    x, weight = call.inputs["x"].float(), call.inputs["weight"].float()
    dy, bias = call.inputs["dy"].float(), call.inputs.get("bias")
    result = Result()
    for step in range(1, call.steps + 1):
        y = x @ weight.T
        if bias is not None:
            y = y + bias.float()
        result.outputs[call.step_name("y", step)] = y.to(dtype)
        result.outputs[call.step_name("grad.x", step)] = (
            dy @ weight).to(dtype)
    result.outputs["grad.weight"] = (dy.T @ x).to(dtype)
    parameters = {"weight": call.inputs["weight"]}
    if bias is not None:
        result.outputs["grad.bias"] = dy.sum(0).to(dtype)
        parameters["bias"] = bias
    result.contract["state_dict"] = state_dict_contract(parameters)
    result.contract["defaults"] = DEFAULTS
    return result


# NVTE's constructor, as documented.
DEFAULTS = {
    "bias": True,
    "return_bias": False,
    "params_dtype": "float32",
    "fuse_wgrad_accumulation": False,
    "delay_wgrad_compute": False,
    "save_original_input": False,
}
