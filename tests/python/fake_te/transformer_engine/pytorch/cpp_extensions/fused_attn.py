"""Tables by name; the numbers are the kernels' own."""

QKVFormat = {"bshd": 0, "sbhd": 1, "thd": 2, "sbhd_2bshd": 3, "bshd_2sbhd": 4,
             "thd_2bshd": 5, "thd_2sbhd": 6}
AttnBiasType = {"no_bias": 0, "pre_scale_bias": 1, "post_scale_bias": 2,
                "alibi": 3}
SoftmaxType = {"vanilla": 0, "off-by-one": 1, "learnable": 2}
