#include "assay/conform/engine/attention.h"

#include <fmt/format.h>

#include <limits>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

constexpr const char* kFormats[] = {"sbhd", "bshd", "thd"};
constexpr const char* kMasks[] = {"no_mask",
                                  "padding",
                                  "causal",
                                  "padding_causal",
                                  "causal_bottom_right",
                                  "padding_causal_bottom_right",
                                  "arbitrary"};
constexpr const char* kSoftmaxes[] = {"vanilla", "off-by-one", "learnable"};
constexpr const char* kBiases[] = {"no_bias", "pre_scale_bias",
                                   "post_scale_bias", "alibi"};

template <std::size_t N, typename Parse>
List taken(const char* const (&names)[N], const Parse& parse) {
  List list;
  for (const char* name : names) {
    try {
      parse(name);
    } catch (const Error&) {
      continue;
    }
    list.emplace_back(name);
  }
  return list;
}

template <std::size_t N, typename Parse, typename T>
std::string name_of(const char* const (&names)[N], const Parse& parse,
                    T value) {
  for (const char* name : names)
    if (parse(name) == value) return name;
  throw Error(Code::kUsage, "an attention option without a name");
}

bool has_lengths(const AdapterCall& call) {
  return call.text("qkv_format") == "thd" ||
         call.text("attn_mask_type").starts_with("padding");
}

std::optional<Tensor> optional_input(const AdapterCall& call,
                                     const std::string& name) {
  const Tensor* found = call.find_input(name);
  return found ? std::optional(*found) : std::nullopt;
}

}  // namespace

std::vector<std::int64_t> integers_of(const AdapterCall& call,
                                      std::string_view name) {
  const auto found = call.parameters.find(std::string(name));
  if (found == call.parameters.end() || !found->second.is_list())
    throw Error(Code::kUsage,
                fmt::format("{}: parameter {}: expected a list of integers",
                            call.module, name));
  std::vector<std::int64_t> integers;
  for (const Value& item : found->second.list())
    integers.push_back(item.integer());
  return integers;
}

Tensor offsets_of(const AdapterCall& call,
                  const std::vector<std::int64_t>& lengths,
                  std::int64_t slack) {
  Tensor offsets = Tensor::zeros(
      DType::kI32, {static_cast<std::int64_t>(lengths.size()) + 1},
      call.device);
  auto* to = offsets.mutable_data<std::int32_t>();
  std::int64_t at = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 ||
        length > std::numeric_limits<std::int32_t>::max() - at - slack)
      throw Error(Code::kUsage,
                  fmt::format("{}: a sequence of {} tokens behind {}",
                              call.module, length, at));
    at += length + slack;
    *++to = static_cast<std::int32_t>(at);
  }
  return offsets;
}

Tensor shaped_tokens(const AdapterCall& call, const std::string& name,
                     std::string_view lengths) {
  Tensor t = call.input(name);
  const std::string& format = call.text("qkv_format");
  if (format == "thd" || t.shape().empty()) return t;
  const auto batch =
      static_cast<std::int64_t>(integers_of(call, lengths).size());
  const std::int64_t tokens = t.shape()[0];
  if (batch == 0 || tokens % batch != 0)
    throw Error(Code::kUsage,
                fmt::format("{}: input {}: {} tokens in {} sequences of one "
                            "length",
                            call.module, name, tokens, batch));
  const std::int64_t outer = format == "bshd" ? batch : tokens / batch;
  const std::int64_t inner = format == "bshd" ? tokens / batch : batch;
  t.view.shape[0] = inner;
  t.view.shape.insert(t.view.shape.begin(), outer);
  if (!t.view.strides.empty())
    t.view.strides.insert(t.view.strides.begin(), inner * t.view.strides[0]);
  return t;
}

te::AttentionCall attention_call(const AdapterCall& call) {
  te::AttentionCall out;
  out.qkv_format = te::parse_qkv_format(call.text("qkv_format"));
  out.attn_mask_type = te::parse_attention_mask(call.text("attn_mask_type"));
  out.window_size =
      te::WindowSize{call.integer("window_left"), call.integer("window_right")};
  if (call.parameters.at("bottom_right_diagonal") != Value("default"))
    out.bottom_right_diagonal = call.flag("bottom_right_diagonal");
  out.core_attention_bias_type =
      te::parse_attention_bias(call.text("core_attention_bias_type"));
  out.checkpoint_core_attention = call.flag("checkpoint_core_attention");
  out.core_attention_bias = optional_input(call, "bias");
  out.alibi_slopes = optional_input(call, "alibi_slopes");
  if (out.alibi_slopes && out.alibi_slopes->shape()[0] == 1)
    out.alibi_slopes->view.shape = {out.alibi_slopes->shape()[1]};
  out.attention_mask = optional_input(call, "mask");
  if (!has_lengths(call)) return out;
  const auto q = integers_of(call, "q_lengths");
  const auto kv = integers_of(call, "kv_lengths");
  out.cu_seqlens_q = offsets_of(call, q);
  out.cu_seqlens_kv = offsets_of(call, kv);
  if (call.text("qkv_format") == "thd" && call.flag("pad_between_seqs")) {
    out.cu_seqlens_q_padded = offsets_of(call, q, 3);
    out.cu_seqlens_kv_padded = offsets_of(call, kv, 3);
  }
  return out;
}

std::string AttentionNames::of(te::QkvFormat value) {
  return name_of(kFormats, te::parse_qkv_format, value);
}
std::string AttentionNames::of(te::AttentionMask value) {
  return name_of(kMasks, te::parse_attention_mask, value);
}
std::string AttentionNames::of(te::SoftmaxType value) {
  return name_of(kSoftmaxes, te::parse_softmax_type, value);
}
std::string AttentionNames::of(te::AttentionType value) {
  return value == te::AttentionType::kSelf ? "self" : "cross";
}

Object attention_enums() {
  return {
      {"qkv_format", taken(kFormats, te::parse_qkv_format)},
      {"attn_mask_type", taken(kMasks, te::parse_attention_mask)},
      {"softmax_type", taken(kSoftmaxes, te::parse_softmax_type)},
      {"core_attention_bias_type", taken(kBiases, te::parse_attention_bias)}};
}

}  // namespace assay::conform
