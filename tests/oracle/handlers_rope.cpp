// Reference vectors of the rotary embedding: rope_*.
#include <string>

#include "assay/te/ops/rope.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

// The cases of rope_freqs, as their array's "meaning" states them.
void run_frequencies(const Case&, Answers& answers) {
  using te::rope_frequencies;
  answers.give("freqs0", rope_frequencies({.dim = 16}, 12));
  answers.give(
      "freqs1",
      rope_frequencies(
          {.dim = 24, .percent = 0.5, .base = 500000, .interleaved = true}, 9,
          4));
  answers.give(
      "freqs2",
      rope_frequencies(
          {.dim = 16, .interpolation_factor = 4, .pretrained_max = 8}, 20));
  answers.give(
      "freqs3",
      rope_frequencies(
          {.dim = 16, .interpolation_factor = 2, .pretrained_max = 6}, 20));
}

void run(const Case& c, Answers& answers) {
  te::RopeOptions options;
  options.format = te::parse_qkv_format(c.text("tensor_format"));
  options.interleaved = c.flag("interleaved");
  options.cp_size = static_cast<std::int64_t>(c.number("cp_size"));
  if (c.has_array("start_positions"))
    options.start_positions = c.array("start_positions");
  if (c.has_array("cu_seqlens")) options.cu_seqlens = c.array("cu_seqlens");
  const Tensor t = c.input("t"), freqs = c.array("freqs"),
               d_out = c.input("dout");
  for (std::int64_t rank = 0; rank < options.cp_size; ++rank) {
    options.cp_rank = rank;
    const std::string part =
        options.cp_size == 1 ? "" : "_rank" + std::to_string(rank);
    const Tensor out = te::rope_forward(t, freqs, options);
    const Tensor dt = te::rope_backward(d_out, freqs, options);
    for (const char* suffix : {"_f32", "_f64"}) {
      answers.give("out" + part + suffix, out);
      answers.give("dt" + part + suffix, dt);
    }
  }
}

const Registration kFrequencies{"rope_freqs", run_frequencies};
const Registration kRope{"rope_", run};

}  // namespace
}  // namespace assay::oracle
