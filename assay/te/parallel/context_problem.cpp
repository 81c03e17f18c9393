#include "assay/te/parallel/context_problem.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "assay/base/hash.h"
#include "assay/te/check.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

bool is_bottom_right(const AttentionOptions& o) {
  return o.bottom_right.value_or(o.mask == AttentionMask::kCausalBottomRight ||
                                 o.mask ==
                                     AttentionMask::kPaddingCausalBottomRight);
}

AttentionMask top_left(AttentionMask mask) {
  if (mask == AttentionMask::kCausalBottomRight) return AttentionMask::kCausal;
  if (mask == AttentionMask::kPaddingCausalBottomRight)
    return AttentionMask::kPaddingCausal;
  return mask;
}

bool has_padding(AttentionMask mask) {
  return mask == AttentionMask::kPadding ||
         mask == AttentionMask::kPaddingCausal;
}

std::vector<std::int64_t> differences(const std::vector<std::int64_t>& sums) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 1; i < sums.size(); ++i)
    out.push_back(sums[i] - sums[i - 1]);
  return out;
}

class Builder {
 public:
  Builder(std::string_view op, const AttentionInputs& inputs,
          const AttentionOptions& options, const Communicator& group)
      : in_(inputs), options_(options) {
    p_.op = op;
    p_.rank = group.rank();
    p_.ranks = group.size();
  }

  ContextProblem build() {
    check_options();
    check_tensors();
    p_.q_side = side("q", in_.q, in_.cu_seqlens_q, in_.cu_seqlens_q_padded);
    p_.kv_side = side("kv", in_.k, in_.cu_seqlens_kv, in_.cu_seqlens_kv_padded);
    require(p_.q_side.sequences() == p_.kv_side.sequences(), p_.op, "k",
            std::to_string(p_.kv_side.sequences()) + " sequences",
            "the " + std::to_string(p_.q_side.sequences()) + " of q");
    set_call_options();
    p_.q = packed(p_, in_.q);
    p_.k = packed(p_, in_.k);
    p_.v = packed(p_, in_.v);
    p_.alibi_slopes = in_.alibi_slopes;
    p_.softmax_offset = in_.softmax_offset;
    return std::move(p_);
  }

 private:
  void check_options() const {
    const auto refuse = [&](bool bad, const char* name, const char* found,
                            const char* expected) {
      require(!bad, p_.op, name, found, expected);
    };
    refuse(options_.mask == AttentionMask::kArbitrary || in_.mask, "mask",
           "arbitrary", "none, padding or causal: every rank can derive those");
    refuse(options_.bias == AttentionBiasType::kPreScale ||
               options_.bias == AttentionBiasType::kPostScale || in_.bias,
           "bias", "given", "none or ALiBi");
    refuse(in_.origin_q || in_.origin_kv, "origin_q", "given",
           "none: positions follow from the rank");
    refuse(options_.q_format != options_.kv_format, "kv_format",
           "another format than that of q", "one format");
  }

  void check_tensors() {
    p_.format = options_.q_format;
    for (const auto& [name, t] :
         {std::pair<const char*, const Tensor*>{"q", &in_.q},
          {"k", &in_.k},
          {"v", &in_.v}}) {
      require_high_precision(p_.op, name, *t);
      require_rank(p_.op, name, *t, p_.format == QkvFormat::kThd ? 3 : 4);
    }
    // Attention itself checks the rest; here only what the cut relies on.
    Shape like_k = in_.k.shape();
    like_k.back() = in_.v.shape().back();
    require_shape(p_.op, "v", in_.v, like_k);
    p_.device = common_device(
        p_.op,
        {&in_.q, &in_.k, &in_.v, address_of(in_.cu_seqlens_q),
         address_of(in_.cu_seqlens_kv), address_of(in_.cu_seqlens_q_padded),
         address_of(in_.cu_seqlens_kv_padded)});
    if (p_.format != QkvFormat::kThd) {
      const std::size_t at = p_.format == QkvFormat::kSbhd ? 1 : 0;
      p_.batch = in_.q.shape()[at];
      p_.q_length = in_.q.shape()[1 - at];
      p_.kv_length = in_.k.shape()[1 - at];
      require(in_.k.shape()[at] == p_.batch, p_.op, "k",
              "shape " + to_string(in_.k.shape()),
              "the batch of q, " + std::to_string(p_.batch));
    }
  }

  CutSide side(const std::string& name, const Tensor& x,
               const std::optional<Tensor>& cu,
               const std::optional<Tensor>& cu_padded) const {
    const std::string lengths = "cu_seqlens_" + name;
    const bool thd = p_.format == QkvFormat::kThd;
    const bool padding = has_padding(top_left(options_.mask));
    require(thd || padding || !cu, p_.op, lengths, "given",
            "none but for padding masks and QkvFormat::kThd");
    require(thd || !cu_padded, p_.op, lengths + "_padded", "given",
            "none but for QkvFormat::kThd");
    CutSide s;
    s.ranks = p_.ranks;
    if (thd || padding) {
      if (!cu) fail(p_.op, lengths, "absent", "int32 offsets [batch + 1]");
      s.valid = differences(checked_offsets(p_.op, lengths, *cu));
    }
    if (thd) {
      s.padded = cu_padded ? differences(checked_offsets(
                                 p_.op, lengths + "_padded", *cu_padded))
                           : s.valid;
    } else {
      const std::int64_t local = name == "q" ? p_.q_length : p_.kv_length;
      s.padded.assign(static_cast<std::size_t>(p_.batch), local * p_.ranks);
      if (!padding) s.valid = s.padded;
    }
    check_side(lengths, x, s);
    return s;
  }

  void check_side(const std::string& lengths, const Tensor& x,
                  const CutSide& s) const {
    require(s.valid.size() == s.padded.size(), p_.op, lengths,
            std::to_string(s.valid.size()) + " sequences",
            std::to_string(s.padded.size()));
    for (std::size_t b = 0; b < s.padded.size(); ++b) {
      const std::string sequence = "length of sequence " + std::to_string(b);
      require_multiple(p_.op, sequence, s.padded[b], 2 * p_.ranks);
      require(s.valid[b] <= s.padded[b], p_.op, sequence,
              std::to_string(s.valid[b]),
              "at most " + std::to_string(s.padded[b]));
    }
    if (p_.format == QkvFormat::kThd)
      require(s.tokens() == x.shape()[0], p_.op, lengths,
              std::to_string(s.tokens()) + " tokens a rank",
              std::to_string(x.shape()[0]));
  }

  void set_call_options() {
    AttentionOptions& o = p_.options = options_;
    const bool alike = p_.q_side.valid == p_.kv_side.valid;
    const bool alibi_at_end = o.bias == AttentionBiasType::kAlibi &&
                              o.mask != AttentionMask::kCausal &&
                              o.mask != AttentionMask::kPaddingCausal &&
                              !o.bottom_right;
    require(alike || !(is_bottom_right(o) || alibi_at_end), p_.op,
            "bottom_right", "a diagonal at the end of longer keys",
            "as many queries as keys, or a top-left diagonal");
    o.mask = top_left(o.mask);
    o.bottom_right = false;
    o.q_format = o.kv_format = QkvFormat::kThd;
    const bool thd = p_.format == QkvFormat::kThd;
    const auto most = [&](const CutSide& side, std::int64_t given) {
      if (thd) return std::max(given, side.longest());
      return side.padded.empty() ? 0 : side.padded[0];
    };
    o.max_q = most(p_.q_side, options_.max_q);
    o.max_kv = most(p_.kv_side, options_.max_kv);
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
  ContextProblem p_;
};

void add(std::string& text, std::string_view name,
         const std::vector<std::int64_t>& values) {
  text.append(" ").append(name).append(" ");
  if (values.size() <= 8)
    text += to_string(values);
  else
    text += to_hex(hash128(std::as_bytes(std::span(values))));
}

// What all ranks must agree on.
std::string signature(const ContextProblem& p) {
  const AttentionOptions& o = p.options;
  std::string text(traits(p.q.dtype()).name);
  add(text, "q", p.q.shape());
  add(text, "k", p.k.shape());
  add(text, "v", p.v.shape());
  add(text, "lengths of q", p.q_side.valid);
  add(text, "padded", p.q_side.padded);
  add(text, "lengths of kv", p.kv_side.valid);
  add(text, "padded", p.kv_side.padded);
  add(text, "mask, window, softmax, bias, max_logit",
      {static_cast<int>(o.mask), o.window_left, o.window_right,
       static_cast<int>(o.softmax), static_cast<int>(o.bias),
       o.want_max_logit});
  return text;
}

}  // namespace

ContextProblem make_context_problem(
    std::string_view op, const AttentionInputs& inputs,
    const AttentionOptions& options, Communicator& group,
    const std::function<void(const ContextProblem&)>& check) {
  ContextProblem p;
  agree(op, group, [&] {
    p = Builder(op, inputs, options, group).build();
    check(p);
    return signature(p);
  });
  return p;
}

Tensor reshaped(const Tensor& x, Shape shape) {
  Tensor out = contiguous(x);
  out.view.shape = std::move(shape);
  out.view.strides.clear();
  return out;
}

Tensor packed(const ContextProblem& p, const Tensor& x) {
  if (p.format == QkvFormat::kThd) return contiguous(x);
  const Shape& s = x.shape();
  return reshaped(p.format == QkvFormat::kSbhd ? swap_first_dims(x) : x,
                  {s[0] * s[1], s[2], s[3]});
}

Tensor unpacked(const ContextProblem& p, const Tensor& x, std::int64_t length) {
  if (p.format == QkvFormat::kThd) return x;
  const Shape& s = x.shape();
  const Tensor rows = reshaped(x, {p.batch, length, s[1], s[2]});
  return p.format == QkvFormat::kSbhd ? swap_first_dims(rows) : rows;
}

Tensor unpacked_lse(const ContextProblem& p, const Tensor& lse) {
  if (p.format == QkvFormat::kThd) return lse;
  const Shape& s = lse.shape();
  return swap_first_dims(reshaped(lse, {s[0], p.batch, p.q_length}));
}

Tensor packed_lse(const ContextProblem& p, const Tensor& lse) {
  if (p.format == QkvFormat::kThd) return contiguous(lse);
  const Shape& s = lse.shape();
  return reshaped(swap_first_dims(lse), {s[1], s[0] * s[2]});
}

void check_output(const ContextProblem& p, const Tensor& d_out,
                  const AttentionResult& forward) {
  const std::int64_t heads = p.q.shape()[1], tokens = p.q.shape()[0];
  const std::int64_t dim = p.v.shape()[2];
  Shape shape{tokens, heads, dim}, lse_shape{heads, tokens};
  if (p.format != QkvFormat::kThd) {
    shape = p.format == QkvFormat::kSbhd
                ? Shape{p.q_length, p.batch, heads, dim}
                : Shape{p.batch, p.q_length, heads, dim};
    lse_shape = {p.batch, heads, p.q_length};
  }
  require_shape(p.op, "d_out", d_out, shape);
  require_shape(p.op, "out", forward.out, shape);
  require_shape(p.op, "lse", forward.lse, lse_shape);
  require_dtype(p.op, "d_out", d_out, {p.q.dtype()});
  require_dtype(p.op, "lse", forward.lse, {DType::kF32});
  require_dtype(p.op, "out", forward.out, {p.q.dtype()});
  common_device(p.op, {&p.q, &d_out, &forward.out, &forward.lse});
}

PackedOutput packed_output(const ContextProblem& p, const Tensor& d_out,
                           const AttentionResult& forward) {
  return {packed(p, d_out), packed(p, forward.out), packed_lse(p, forward.lse)};
}

AttentionInputs call_inputs(const ContextProblem& p, const CutCall& call,
                            std::int64_t from, const Tensor& k,
                            const Tensor& v) {
  AttentionInputs in;
  in.q = p.q;
  in.k = k;
  in.v = v;
  in.alibi_slopes = p.alibi_slopes;
  if (call.sink) in.softmax_offset = p.softmax_offset;
  in.cu_seqlens_q = cut_lengths(p.q_side, call.q, p.rank, p.device);
  in.cu_seqlens_q_padded = cut_begins(p.q_side, call.q, p.device);
  in.cu_seqlens_kv = cut_lengths(p.kv_side, call.kv, from, p.device);
  in.cu_seqlens_kv_padded = cut_begins(p.kv_side, call.kv, p.device);
  if (call.placed) {
    in.origin_q =
        cut_origins(p.q_side, chunk_of(call.q, p.rank, p.ranks), p.device);
    in.origin_kv =
        cut_origins(p.kv_side, chunk_of(call.kv, from, p.ranks), p.device);
  }
  return in;
}

AttentionOptions call_options(const ContextProblem& p, const CutCall& call) {
  AttentionOptions o = p.options;
  o.mask = call.causal ? AttentionMask::kCausal : AttentionMask::kNone;
  if (!call.sink) o.softmax = SoftmaxType::kVanilla;
  return o;
}

Tensor running_sums(const std::vector<std::int64_t>& lengths, Device device) {
  Tensor out = Tensor::empty(
      DType::kI32, {static_cast<std::int64_t>(lengths.size()) + 1}, device);
  auto* sums = out.mutable_data<std::int32_t>();
  sums[0] = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    sums[i + 1] = sums[i] + static_cast<std::int32_t>(lengths[i]);
  return out;
}

}  // namespace assay::te
