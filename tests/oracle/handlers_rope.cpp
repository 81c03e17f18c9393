// Reference vectors of the rotary embedding: rope_*.
#include <string>

#include "assay/te/ops/rope.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

// freqs<i>: the table of the i-th of "cases".
void run_frequencies(const Case& c, Answers& answers) {
  int i = 0;
  for (const Parameters& p : c.objects("cases")) {
    te::RopeFrequencies options;
    options.dim = p.integer("dim");
    options.percent = p.number("rotary_percent");
    options.base = p.number("base");
    options.interleaved = p.flag("interleaved");
    if (p.has("factor")) options.interpolation_factor = p.number("factor");
    if (p.has("pretrained_max"))
      options.pretrained_max = p.number("pretrained_max");
    answers.give("freqs" + std::to_string(i++),
                 te::rope_frequencies(options, p.integer("max_seq_len"),
                                      p.integer("offset")));
  }
}

void run(const Case& c, Answers& answers) {
  te::RopeOptions options;
  options.format =
      c.choice<te::QkvFormat>("tensor_format", {{"sbhd", te::QkvFormat::kSbhd},
                                                {"bshd", te::QkvFormat::kBshd},
                                                {"thd", te::QkvFormat::kThd}});
  options.interleaved = c.flag("interleaved");
  options.cp_size = c.integer("cp_size");
  c.states_list("shape", c.array("t").shape());
  c.states("rotary_dim", c.dim("freqs", -1));
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
