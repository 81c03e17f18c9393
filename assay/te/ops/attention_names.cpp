// NVTE's names of formats, masks, softmax and bias types; ALiBi's slopes.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/te/check.h"
#include "assay/te/ops/attention.h"

namespace assay::te {
namespace {

template <typename T>
using Names = std::initializer_list<std::pair<std::string_view, T>>;

template <typename T>
T find(std::string_view what, std::string_view text, Names<T> names) {
  std::string listed;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    if (!listed.empty()) listed += ", ";
    listed += name;
  }
  throw Error(Code::kUsage, std::string(what) + ": \"" + std::string(text) +
                                "\", expected one of " + listed);
}

}  // namespace

QkvFormat parse_qkv_format(std::string_view text) {
  return find<QkvFormat>("qkv_format", text,
                         {{"sbhd", QkvFormat::kSbhd},
                          {"bshd", QkvFormat::kBshd},
                          {"thd", QkvFormat::kThd}});
}

AttentionMask parse_attention_mask(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), ',', '_');
  if (name == "causal_padding") name = "padding_causal";
  using enum AttentionMask;
  return find<AttentionMask>(
      "attn_mask_type", name,
      {{"no_mask", kNone},
       {"padding", kPadding},
       {"causal", kCausal},
       {"padding_causal", kPaddingCausal},
       {"causal_bottom_right", kCausalBottomRight},
       {"padding_causal_bottom_right", kPaddingCausalBottomRight},
       {"arbitrary", kArbitrary}});
}

SoftmaxType parse_softmax_type(std::string_view text) {
  return find<SoftmaxType>("softmax_type", text,
                           {{"vanilla", SoftmaxType::kVanilla},
                            {"off-by-one", SoftmaxType::kOffByOne},
                            {"learnable", SoftmaxType::kLearnable}});
}

AttentionBiasType parse_attention_bias(std::string_view text) {
  using enum AttentionBiasType;
  return find<AttentionBiasType>("core_attention_bias_type", text,
                                 {{"no_bias", kNone},
                                  {"pre_scale_bias", kPreScale},
                                  {"post_scale_bias", kPostScale},
                                  {"alibi", kAlibi}});
}

std::vector<float> alibi_slopes(std::int64_t heads) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  require(heads >= 0 && heads <= kMost, "alibi_slopes", "heads",
          std::to_string(heads), "0 to " + std::to_string(kMost));
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<float> slopes;
  for (std::int64_t k = 1; k <= std::min(heads, power); ++k)
    slopes.push_back(static_cast<float>(
        std::exp2(-8.0 * static_cast<double>(k) / static_cast<double>(power))));
  for (std::int64_t k = 1; static_cast<std::int64_t>(slopes.size()) < heads;
       k += 2)
    slopes.push_back(static_cast<float>(
        std::exp2(-4.0 * static_cast<double>(k) / static_cast<double>(power))));
  return slopes;
}

}  // namespace assay::te
