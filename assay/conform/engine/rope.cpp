// rope: the table of angles of RotaryPositionEmbedding, and its use on one
// tensor or on packed q, k and v, forward and backward.
#include "assay/te/ops/rope.h"

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"
#include "assay/te/modules/rotary.h"

namespace assay::conform {
namespace {

// 0 stands for None.
std::optional<double> some(double value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

Tensor table_of(const AdapterCall& call) {
  te::RotaryPositionEmbeddingOptions options;
  options.rotary_percent = call.number("rotary_percent");
  options.seq_len_interpolation_factor =
      some(call.number("seq_len_interpolation_factor"));
  options.pretrained_max_position_embeddings =
      some(call.number("pretrained_max_position_embeddings"));
  options.rotary_base = call.number("rotary_base");
  options.interleaved = call.flag("interleaved");
  options.device = call.device;
  te::RotaryPositionEmbedding embedding(call.integer("head_dim"), options);
  return embedding.forward(call.integer("max_seq_len"), call.integer("offset"));
}

te::RopeOptions options_of(const AdapterCall& call) {
  te::RopeOptions options;
  options.format = te::parse_qkv_format(call.text("tensor_format"));
  options.interleaved = call.flag("interleaved");
  options.cp_size = call.integer("cp_size");
  options.cp_rank = call.integer("cp_rank");
  if (const Tensor* start = call.find_input("start_positions"))
    options.start_positions = *start;
  if (const Tensor* cu_seqlens = call.find_input("cu_seqlens"))
    options.cu_seqlens = *cu_seqlens;
  return options;
}

// Tensors of a case have four dimensions; packed sequences leave out the
// second, the batch of one.
Tensor without_batch(Tensor t) {
  t.view.shape.erase(t.view.shape.begin() + 1);
  if (!t.view.strides.empty()) t.view.strides.erase(t.view.strides.begin() + 1);
  return t;
}

Tensor with_batch(Tensor t) {
  t.view.shape.insert(t.view.shape.begin() + 1, 1);
  t.view.strides.clear();
  return t;
}

void run_one(const AdapterCall& call, const te::RopeOptions& options,
             AdapterResult& result) {
  const bool packed = options.format == te::QkvFormat::kThd;
  const auto in = [&](const char* name) {
    return packed ? without_batch(call.input(name)) : call.input(name);
  };
  const auto put = [&](const char* name, Tensor t) {
    result.outputs[name] = packed ? with_batch(std::move(t)) : std::move(t);
  };
  const Tensor& freqs = call.input("freqs");
  put("y", te::rope_forward(in("t"), freqs, options));
  put("grad.t", te::rope_backward(in("dy"), freqs, options));
}

void run_qkv(const AdapterCall& call, const te::RopeOptions& options,
             AdapterResult& result) {
  const std::int64_t dim = call.integer("head_dim");
  const te::QkvSplit split = {call.integer("q_per_group") * dim, dim, dim};
  const Tensor &q_freqs = call.input("freqs"), &k_freqs = call.input("k_freqs");
  te::QkvTensors out = te::fused_qkv_rope_forward(call.input("qkv"), q_freqs,
                                                  k_freqs, split, options);
  result.outputs["q"] = std::move(out.q);
  result.outputs["k"] = std::move(out.k);
  result.outputs["v"] = std::move(out.v);
  const te::QkvTensors grads = {call.input("dq"), call.input("dk"),
                                call.input("dv")};
  result.outputs["grad.qkv"] =
      te::fused_qkv_rope_backward(grads, q_freqs, k_freqs, split, options);
}

Object defaults() {
  const te::RotaryPositionEmbeddingOptions options;
  return {{"rotary_percent", options.rotary_percent},
          {"seq_len_interpolation_factor", Value()},
          {"pretrained_max_position_embeddings", Value()},
          {"rotary_base", options.rotary_base},
          {"interleaved", options.interleaved}};
}

}  // namespace

AdapterResult run_rope(const AdapterCall& call) {
  const te::RopeOptions options = options_of(call);
  AdapterResult result;
  result.outputs["freqs"] = table_of(call);
  if (call.flag("fused_qkv"))
    run_qkv(call, options, result);
  else
    run_one(call, options, result);
  result.contract["defaults"] = defaults();
  return result;
}

}  // namespace assay::conform
