#include "assay/te/ops/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "assay/kernels/attention_tiles.h"
#include "assay/te/check.h"
#include "assay/te/precision.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

bool has_padding(AttentionMask mask) {
  return mask == AttentionMask::kPadding ||
         mask == AttentionMask::kPaddingCausal ||
         mask == AttentionMask::kPaddingCausalBottomRight;
}
bool takes_bias(AttentionBiasType type) {
  return type == AttentionBiasType::kPreScale ||
         type == AttentionBiasType::kPostScale;
}
bool is_top_left_causal(AttentionMask mask) {
  return mask == AttentionMask::kCausal ||
         mask == AttentionMask::kPaddingCausal;
}
bool is_bottom_right(AttentionMask mask) {
  return mask == AttentionMask::kCausalBottomRight ||
         mask == AttentionMask::kPaddingCausalBottomRight;
}

QkvLayout layout_of(std::string_view op, std::string_view argument,
                    const Tensor& t, QkvFormat format) {
  require_high_precision(op, argument, t);
  require_rank(op, argument, t, format == QkvFormat::kThd ? 3 : 4);
  const Shape& s = t.shape();
  switch (format) {
    case QkvFormat::kSbhd:
      return {format, s[1], s[0], s[2], s[3]};
    case QkvFormat::kBshd:
      return {format, s[0], s[1], s[2], s[3]};
    case QkvFormat::kThd:
      break;
  }
  return {format, 0, s[0], s[1], s[2]};
}

std::vector<std::int64_t> offsets_of(std::string_view op,
                                     std::string_view argument,
                                     const std::optional<Tensor>& given) {
  if (!given) fail(op, argument, "absent", "int32 offsets [batch + 1]");
  return checked_offsets(op, argument, *given);
}

// Positions [batch], zeros where none are given.
std::vector<std::int64_t> origins_of(std::string_view op,
                                     std::string_view argument,
                                     const std::optional<Tensor>& given,
                                     std::int64_t batch) {
  if (!given) return std::vector<std::int64_t>(static_cast<std::size_t>(batch));
  require_dtype(op, argument, *given, {DType::kI32});
  require_shape(op, argument, *given, {batch});
  const Tensor dense = contiguous(*given);
  std::vector<std::int64_t> origins(dense.data<std::int32_t>(),
                                    dense.data<std::int32_t>() + batch);
  for (std::int64_t origin : origins)
    require(origin >= 0, op, argument, std::to_string(origin), "0 or more");
  return origins;
}

struct Side {
  std::vector<std::int64_t> begin, length;
};

// Begin and length of every sequence on one side.
Side side_of(std::string_view op, const QkvLayout& layout, bool padding,
             std::string_view name, const std::optional<Tensor>& cu,
             std::string_view padded_name,
             const std::optional<Tensor>& cu_padded) {
  Side side;
  const bool packed = layout.format == QkvFormat::kThd;
  if (!packed && !padding) {
    side.begin.assign(static_cast<std::size_t>(layout.batch), 0);
    side.length.assign(static_cast<std::size_t>(layout.batch), layout.length);
    return side;
  }
  const auto offsets = offsets_of(op, name, cu);
  const auto count = static_cast<std::int64_t>(offsets.size()) - 1;
  if (!packed)
    require(count == layout.batch, op, name,
            std::to_string(count) + " sequences", std::to_string(layout.batch));
  auto begins = offsets;
  if (packed && cu_padded) begins = offsets_of(op, padded_name, cu_padded);
  require(begins.size() == offsets.size(), op, padded_name,
          std::to_string(begins.size()) + " offsets",
          std::to_string(offsets.size()));
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const std::int64_t length = offsets[b + 1] - offsets[b];
    const std::int64_t begin = packed ? begins[b] : 0;
    const std::int64_t room =
        packed && cu_padded ? begins[b + 1] - begin : layout.length - begin;
    require(length <= room && begin + length <= layout.length, op, name,
            "sequence " + std::to_string(b) + " of length " +
                std::to_string(length),
            "at most " + std::to_string(std::min(room, layout.length - begin)));
    side.begin.push_back(begin);
    side.length.push_back(length);
  }
  return side;
}

bool leaves_rows(const QkvLayout& layout, const Side& side) {
  std::int64_t used = 0;
  for (std::int64_t length : side.length) used += length;
  const std::int64_t sequences =
      layout.format == QkvFormat::kThd ? 1 : layout.batch;
  return used != layout.length * sequences;
}

// [1 or b, 1 or h, sq, skv] as strides of its first two dimensions.
struct Broadcast {
  std::int64_t batch = 0, head = 0, row = 0;
};

Broadcast broadcast_of(std::string_view op, std::string_view argument,
                       const Tensor& t, const AttentionProblem& p) {
  require(p.q.format != QkvFormat::kThd, op, argument, "given",
          "none with packed sequences");
  require_rank(op, argument, t, 4);
  const Shape& s = t.shape();
  const bool fits = (s[0] == 1 || s[0] == p.q.batch) &&
                    (s[1] == 1 || s[1] == p.q.heads) && s[2] == p.q.length &&
                    s[3] == p.k.length;
  require(fits, op, argument, "shape " + to_string(s),
          "[1 or " + std::to_string(p.q.batch) + ", 1 or " +
              std::to_string(p.q.heads) + ", " + std::to_string(p.q.length) +
              ", " + std::to_string(p.k.length) + "]");
  const std::int64_t plane = s[2] * s[3];
  return {s[0] == 1 ? 0 : s[1] * plane, s[1] == 1 ? 0 : plane, s[3]};
}

class Builder {
 public:
  Builder(std::string_view op, const AttentionInputs& inputs,
          const AttentionOptions& options)
      : op_(op), inputs_(inputs), options_(options) {}

  AttentionProblem build() {
    check_tensors();
    check_given();
    set_sequences();
    set_origins();
    set_extras();
    check_scale();
    for (std::size_t b = 0; b < p_.sequences.size(); ++b)
      for (std::int64_t h = 0; h < p_.q.heads; ++h)
        p_.heads.push_back(head_of(b, h));
    return std::move(p_);
  }

 private:
  void check_tensors() {
    p_.device = common_device(
        op_,
        {&inputs_.q, &inputs_.k, &inputs_.v, address_of(inputs_.mask),
         address_of(inputs_.bias), address_of(inputs_.alibi_slopes),
         address_of(inputs_.softmax_offset), address_of(inputs_.cu_seqlens_q),
         address_of(inputs_.cu_seqlens_kv),
         address_of(inputs_.cu_seqlens_q_padded),
         address_of(inputs_.cu_seqlens_kv_padded), address_of(inputs_.origin_q),
         address_of(inputs_.origin_kv)});
    p_.precision = effective_precision("attention", options_.precision);
    p_.q = layout_of(op_, "q", inputs_.q, options_.q_format);
    p_.k = layout_of(op_, "k", inputs_.k, options_.kv_format);
    p_.v = layout_of(op_, "v", inputs_.v, options_.kv_format);
    require_dtype(op_, "k", inputs_.k, {inputs_.q.dtype()});
    require_dtype(op_, "v", inputs_.v, {inputs_.q.dtype()});
    require(p_.k.dim == p_.q.dim && p_.q.dim > 0, op_, "k",
            "dim " + std::to_string(p_.k.dim), std::to_string(p_.q.dim));
    require(p_.v.length == p_.k.length && p_.v.heads == p_.k.heads &&
                p_.v.batch == p_.k.batch && p_.v.dim > 0,
            op_, "v", "shape " + to_string(inputs_.v.shape()),
            "that of k but for the dim");
    require(p_.k.heads > 0 && p_.q.heads % p_.k.heads == 0, op_, "k",
            std::to_string(p_.k.heads) + " heads",
            "a divisor of the " + std::to_string(p_.q.heads) + " of q");
    p_.group = p_.q.heads / p_.k.heads;
    p_.out = p_.q;
    p_.out.dim = p_.v.dim;
    require(options_.dropout >= 0 && options_.dropout < 1, op_, "dropout",
            std::to_string(options_.dropout), "at least 0 and below 1");
    require(options_.window_left >= -1 && options_.window_right >= -1, op_,
            "window_size",
            std::to_string(options_.window_left) + ", " +
                std::to_string(options_.window_right),
            "-1 or more");
    q_ = keep(inputs_.q);
    k_ = keep(inputs_.k);
    v_ = keep(inputs_.v);
  }

  // What no option reads would be ignored: the caller meant something else.
  void check_given() const {
    const auto only = [&](std::string_view name,
                          const std::optional<Tensor>& given, bool wanted,
                          const char* where) {
      require(wanted || !given, op_, name, "given",
              std::string("none but for ") + where);
    };
    only("mask", inputs_.mask, options_.mask == AttentionMask::kArbitrary,
         "AttentionMask::kArbitrary");
    only("bias", inputs_.bias, takes_bias(options_.bias),
         "AttentionBiasType::kPreScale and kPostScale");
    only("alibi_slopes", inputs_.alibi_slopes,
         options_.bias == AttentionBiasType::kAlibi,
         "AttentionBiasType::kAlibi");
    only("softmax_offset", inputs_.softmax_offset,
         options_.softmax == SoftmaxType::kLearnable,
         "SoftmaxType::kLearnable");
    const bool padding = has_padding(options_.mask);
    const bool q = options_.q_format == QkvFormat::kThd;
    const bool kv = options_.kv_format == QkvFormat::kThd;
    constexpr auto kLengths = "padding masks and QkvFormat::kThd";
    only("cu_seqlens_q", inputs_.cu_seqlens_q, q || padding, kLengths);
    only("cu_seqlens_kv", inputs_.cu_seqlens_kv, kv || padding, kLengths);
    only("cu_seqlens_q_padded", inputs_.cu_seqlens_q_padded, q,
         "QkvFormat::kThd");
    only("cu_seqlens_kv_padded", inputs_.cu_seqlens_kv_padded, kv,
         "QkvFormat::kThd");
  }

  const Tensor& keep(const Tensor& t) {
    p_.keep.reserve(8);
    p_.keep.push_back(contiguous(t));
    return p_.keep.back();
  }

  void set_sequences() {
    const bool padding = has_padding(options_.mask);
    const Side q =
        side_of(op_, p_.q, padding, "cu_seqlens_q", inputs_.cu_seqlens_q,
                "cu_seqlens_q_padded", inputs_.cu_seqlens_q_padded);
    const Side kv =
        side_of(op_, p_.k, padding, "cu_seqlens_kv", inputs_.cu_seqlens_kv,
                "cu_seqlens_kv_padded", inputs_.cu_seqlens_kv_padded);
    require(q.length.size() == kv.length.size(), op_, "k",
            std::to_string(kv.length.size()) + " sequences",
            "the " + std::to_string(q.length.size()) + " of q");
    const bool part = inputs_.origin_q.has_value();
    max_q_ =
        part || p_.q.format == QkvFormat::kThd ? options_.max_q : p_.q.length;
    max_kv_ =
        part || p_.k.format == QkvFormat::kThd ? options_.max_kv : p_.k.length;
    for (std::size_t b = 0; b < q.length.size(); ++b) {
      p_.sequences.push_back(
          {q.begin[b], q.length[b], kv.begin[b], kv.length[b]});
    }
    p_.padded_q = leaves_rows(p_.q, q);
    p_.padded_kv = leaves_rows(p_.k, kv);
  }

  void set_origins() {
    require(inputs_.origin_q.has_value() == inputs_.origin_kv.has_value(), op_,
            inputs_.origin_q ? "origin_kv" : "origin_q", "absent",
            "both origins or none");
    const auto batch = static_cast<std::int64_t>(p_.sequences.size());
    origin_q_ = origins_of(op_, "origin_q", inputs_.origin_q, batch);
    origin_kv_ = origins_of(op_, "origin_kv", inputs_.origin_kv, batch);
    require(!inputs_.origin_q ||
                !options_.bottom_right.value_or(is_bottom_right(options_.mask)),
            op_, "origin_q", "given with a bottom-right diagonal", "none");
    for (std::size_t b = 0; b < p_.sequences.size(); ++b) {
      max_q_ = std::max(max_q_, origin_q_[b] + p_.sequences[b].q_length);
      max_kv_ = std::max(max_kv_, origin_kv_[b] + p_.sequences[b].kv_length);
    }
  }

  void check_scale() const {
    require(std::isfinite(options_.scale.value_or(1.0f)), op_, "scale",
            std::to_string(options_.scale.value_or(1.0f)), "a finite number");
  }

  void set_extras() {
    if (options_.mask == AttentionMask::kArbitrary) {
      if (!inputs_.mask) fail(op_, "mask", "absent", "one with arbitrary");
      require_dtype(op_, "mask", *inputs_.mask, {DType::kBool, DType::kU8});
      mask_at_ = broadcast_of(op_, "mask", *inputs_.mask, p_);
      mask_ = keep(*inputs_.mask).data<std::uint8_t>();
    }
    const auto type = options_.bias;
    if (takes_bias(type)) {
      if (!inputs_.bias) fail(op_, "bias", "absent", "one with this type");
      require_high_precision(op_, "bias", *inputs_.bias);
      bias_at_ = broadcast_of(op_, "bias", *inputs_.bias, p_);
      bias_ = keep(*inputs_.bias);
    }
    if (type == AttentionBiasType::kAlibi) set_slopes();
    if (options_.softmax == SoftmaxType::kLearnable) set_sinks();
    if (options_.softmax == SoftmaxType::kOffByOne)
      sinks_.assign(static_cast<std::size_t>(p_.q.heads), 0.0f);
  }

  void set_slopes() {
    slopes_ = alibi_slopes(p_.q.heads);
    if (!inputs_.alibi_slopes) return;
    const Tensor& t = *inputs_.alibi_slopes;
    require_dtype(op_, "alibi_slopes", t, {DType::kF32});
    const auto batch = static_cast<std::int64_t>(p_.sequences.size());
    require(
        t.shape() == Shape{p_.q.heads} || t.shape() == Shape{batch, p_.q.heads},
        op_, "alibi_slopes", "shape " + to_string(t.shape()),
        "[heads] or [batch, heads]");
    const Tensor dense = contiguous(t);
    slopes_.assign(dense.data<float>(), dense.data<float>() + dense.numel());
  }

  void set_sinks() {
    if (!inputs_.softmax_offset)
      fail(op_, "softmax_offset", "absent", "one a head with learnable");
    const Tensor& t = *inputs_.softmax_offset;
    require_dtype(op_, "softmax_offset", t, {DType::kF32});
    require(t.numel() == p_.q.heads, op_, "softmax_offset",
            "shape " + to_string(t.shape()),
            std::to_string(p_.q.heads) + " elements");
    const Tensor dense = contiguous(t);
    sinks_.assign(dense.data<float>(), dense.data<float>() + dense.numel());
  }

  static RowsView rows(const Tensor& t, const QkvLayout& layout, std::int64_t b,
                       std::int64_t begin, std::int64_t head) {
    const std::int64_t bytes = traits(t.dtype()).bits / 8;
    return {t.view.data + layout.offset(b, begin, head) * bytes,
            layout.row_stride()};
  }

  AttentionHead head_of(std::size_t b, std::int64_t h) const {
    const Sequence& s = p_.sequences[b];
    const auto batch = static_cast<std::int64_t>(b);
    AttentionHead head;
    head.dtype = q_.dtype();
    head.q = rows(q_, p_.q, batch, s.q_begin, h);
    head.k = rows(k_, p_.k, batch, s.kv_begin, h / p_.group);
    head.v = rows(v_, p_.v, batch, s.kv_begin, h / p_.group);
    head.queries = s.q_length;
    head.keys = s.kv_length;
    head.qk_dim = p_.q.dim;
    head.v_dim = p_.v.dim;
    head.scale = options_.scale.value_or(
        static_cast<float>(1.0 / std::sqrt(static_cast<double>(p_.q.dim))));
    set_window(head, b);
    set_additions(head, batch, h);
    set_dropout(head, b, h);
    return head;
  }

  // Position of the first query when the first key is at 0.
  std::int64_t offset_of(const AttentionHead& head, std::size_t b,
                         bool bottom_right) const {
    if (inputs_.origin_q) return origin_q_[b] - origin_kv_[b];
    return bottom_right ? head.keys - head.queries : 0;
  }

  void set_window(AttentionHead& head, std::size_t b) const {
    const AttentionMask mask = options_.mask;
    const std::int64_t off = offset_of(
        head, b, options_.bottom_right.value_or(is_bottom_right(mask)));
    const bool causal = is_top_left_causal(mask) || is_bottom_right(mask);
    // A window of both lengths is open: nothing wider, which could overflow.
    const std::int64_t most = head.keys + head.queries + std::abs(off);
    if (options_.window_left >= 0)
      head.low = off - std::min(options_.window_left, most);
    if (options_.window_right >= 0)
      head.high = off + std::min(options_.window_right, most);
    if (causal) head.high = off;
  }

  void set_additions(AttentionHead& head, std::int64_t b,
                     std::int64_t h) const {
    if (mask_ != nullptr) {
      head.mask = mask_ + b * mask_at_.batch + h * mask_at_.head;
      head.mask_row = mask_at_.row;
      head.mask_column = 1;
    }
    if (bias_.view.data != nullptr) {
      const std::int64_t at = b * bias_at_.batch + h * bias_at_.head;
      head.bias.data = bias_.view.data + at * (traits(bias_.dtype()).bits / 8);
      head.bias.dtype = bias_.dtype();
      head.bias.row_stride = bias_at_.row;
      head.bias.column_stride = 1;
      if (options_.bias == AttentionBiasType::kPreScale)
        head.bias.scale = head.scale;
    }
    if (!slopes_.empty()) {
      const auto count = static_cast<std::int64_t>(slopes_.size());
      head.bias.slope =
          slopes_[static_cast<std::size_t>((b * p_.q.heads + h) % count)];
      head.bias.offset = offset_of(
          head, static_cast<std::size_t>(b),
          options_.bottom_right.value_or(!is_top_left_causal(options_.mask)));
    }
    head.has_sink = !sinks_.empty();
    if (head.has_sink) head.sink = sinks_[static_cast<std::size_t>(h)];
  }

  void set_dropout(AttentionHead& head, std::size_t b, std::int64_t h) const {
    const double p = options_.dropout;
    if (p == 0) return;
    const std::int64_t index = static_cast<std::int64_t>(b) * p_.q.heads + h;
    head.dropout = {
        .draw = {.seed = options_.seed,
                 .offset = options_.offset,
                 .threshold = static_cast<std::uint32_t>(256 * p)},
        .keep_scale = static_cast<float>(1 / (1 - p)),
        .first = (index * max_q_ + origin_q_[b]) * max_kv_ + origin_kv_[b],
        .row = max_kv_};
  }

  std::string_view op_;
  const AttentionInputs& inputs_;
  const AttentionOptions& options_;
  AttentionProblem p_;
  Tensor q_, k_, v_, bias_;
  const std::uint8_t* mask_ = nullptr;
  Broadcast mask_at_, bias_at_;
  std::vector<float> slopes_, sinks_;
  std::int64_t max_q_ = 0, max_kv_ = 0;
  std::vector<std::int64_t> origin_q_, origin_kv_;
};

}  // namespace

std::int64_t QkvLayout::row_stride() const {
  return format == QkvFormat::kSbhd ? batch * heads * dim : heads * dim;
}

std::int64_t QkvLayout::offset(std::int64_t b, std::int64_t begin,
                               std::int64_t head) const {
  if (format == QkvFormat::kSbhd) return (b * heads + head) * dim;
  if (format == QkvFormat::kBshd) return (b * length * heads + head) * dim;
  return (begin * heads + head) * dim;
}

std::int64_t AttentionProblem::lse_offset(std::size_t head) const {
  const auto h = static_cast<std::int64_t>(head);
  if (q.format != QkvFormat::kThd) return h * q.length;
  return h % q.heads * q.length + sequence(head).q_begin;
}

Shape AttentionProblem::lse_shape() const {
  if (q.format == QkvFormat::kThd) return {q.heads, q.length};
  return {q.batch, q.heads, q.length};
}

AttentionProblem make_attention_problem(std::string_view op,
                                        const AttentionInputs& inputs,
                                        const AttentionOptions& options) {
  return Builder(op, inputs, options).build();
}

bool runs_plain(const AttentionProblem& problem, DType dtype) {
  return problem.device == Device::kReference ||
         problem.precision != InternalPrecision::kF32 ||
         choose_attention_tiles(dtype).fast == nullptr;
}

}  // namespace assay::te
