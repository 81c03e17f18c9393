#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>

#include "assay/base/error.h"
#include "assay/conform/engine/fuser_ops.h"
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/bias.h"
#include "assay/te/fusible/collective.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/grouped_linear.h"
#include "assay/te/fusible/layout.h"
#include "assay/te/fusible/linear.h"
#include "assay/te/fusible/normalization.h"

namespace assay::conform {
namespace {

namespace ops = te::ops;

constexpr Activation kActivations[] = {
    Activation::kGelu,   Activation::kSilu,   Activation::kRelu,
    Activation::kQGelu,  Activation::kSRelu,  Activation::kGlu,
    Activation::kGeglu,  Activation::kSwiglu, Activation::kReglu,
    Activation::kQGeglu, Activation::kSreglu, Activation::kClampedSwiglu,
    Activation::kSituglu};

std::int64_t next_width(const OperationSite& site) {
  const std::int64_t in = site.call.integer("features");
  const std::int64_t out = site.call.integer("out_features");
  return site.width == in ? out : in;
}

ops::BasicLinearOptions linear_options(const OperationSite& site) {
  ops::BasicLinearOptions o;
  o.dtype = site.call.dtype();
  o.device = site.call.device;
  return o;
}

ops::NormalizationOptions norm_options(const OperationSite& site) {
  ops::NormalizationOptions o;
  o.dtype = site.call.dtype();
  o.device = site.call.device;
  o.zero_centered_gamma = site.call.flag("zero_centered_gamma");
  return o;
}

ops::SequentialItem linear(OperationSite& site) {
  const std::int64_t in = std::exchange(site.width, next_width(site));
  return std::make_shared<ops::Linear>(in, site.width, true,
                                       linear_options(site));
}

ops::SequentialItem basic_linear(OperationSite& site) {
  const std::int64_t in = std::exchange(site.width, next_width(site));
  return std::make_shared<ops::BasicLinear>(in, site.width,
                                            linear_options(site));
}

ops::SequentialItem grouped_linear(OperationSite& site) {
  const std::int64_t in = std::exchange(site.width, next_width(site));
  ops::GroupedLinearOptions o;
  o.scale_bias = site.call.flag("scale_bias");
  o.dtype = site.call.dtype();
  o.device = site.call.device;
  return std::make_shared<ops::GroupedLinear>(kOperationGroups, in, site.width,
                                              o);
}

ops::SequentialItem bias(OperationSite& site) {
  ops::BiasOptions o;
  o.dtype = site.call.dtype();
  o.device = site.call.device;
  return std::make_shared<ops::Bias>(site.width, o);
}

ops::SequentialItem layer_norm(OperationSite& site) {
  return std::make_shared<ops::LayerNorm>(Shape{site.width},
                                          norm_options(site));
}
ops::SequentialItem rms_norm(OperationSite& site) {
  return std::make_shared<ops::RMSNorm>(Shape{site.width}, norm_options(site));
}

ops::SequentialItem reshape(OperationSite& site) {
  site.width /= 2;
  return std::make_shared<ops::Reshape>(Shape{-1, site.width});
}

std::int64_t interleave(const OperationSite& site) {
  return site.call.integer("glu_interleave_size");
}

template <typename Op>
ops::SequentialItem halved(OperationSite& site) {
  site.width /= 2;
  return std::make_shared<Op>(interleave(site));
}

template <typename Op>
ops::SequentialItem plain(OperationSite&) {
  return std::make_shared<Op>();
}

template <typename Op>
ops::SequentialItem in_place(OperationSite& site) {
  return std::make_shared<Op>(site.call.flag("in_place"));
}

template <typename Op>
ops::SequentialItem alone(OperationSite&) {
  return std::make_shared<Op>(nullptr);
}

using Factory = ops::SequentialItem (*)(OperationSite&);

const std::map<std::string_view, Factory>& factories() {
  static const std::map<std::string_view, Factory> kFactories = {
      {"Linear", linear},
      {"BasicLinear", basic_linear},
      {"GroupedLinear", grouped_linear},
      {"Bias", bias},
      {"LayerNorm", layer_norm},
      {"RMSNorm", rms_norm},
      {"L2Normalization", plain<ops::L2Normalization>},
      {"Reshape", reshape},
      {"Identity", plain<ops::Identity>},
      {"ScaledSwiGLU", halved<ops::ScaledSwiGLU>},
      {"ScaledSiTUGLU", halved<ops::ScaledSiTUGLU>},
      {"ScaledClampedQGeGLU", halved<ops::ScaledClampedQGeGLU>},
      {"ScaledSReLU", plain<ops::ScaledSReLU>},
      {"AddExtraInput", in_place<ops::AddExtraInput>},
      {"MakeExtraOutput", in_place<ops::MakeExtraOutput>},
      {"AllGather", alone<ops::AllGather>},
      {"ReduceScatter", alone<ops::ReduceScatter>},
      {"AllReduce", alone<ops::AllReduce>},
      {"Dropout",
       [](OperationSite&) -> ops::SequentialItem {
         return std::make_shared<ops::Dropout>(0.0f);
       }},
      {"ConstantScale",
       [](OperationSite&) -> ops::SequentialItem {
         return std::make_shared<ops::ConstantScale>(0.75f);
       }},
      {"Quantize",
       [](OperationSite&) -> ops::SequentialItem {
         return std::make_shared<ops::Quantize>(true, true);
       }},
  };
  return kFactories;
}

}  // namespace

ops::SequentialItem make_operation(std::string_view name, OperationSite& site) {
  const auto found = factories().find(name);
  if (found != factories().end()) return found->second(site);
  for (const Activation act : kActivations) {
    if (ops::operation_name(act) != name) continue;
    ops::ActivationOperationOptions o;
    o.cache_quantized_input = site.call.flag("cache_quantized_input");
    if (is_gated(act)) {
      o.glu_interleave_size = interleave(site);
      site.width /= 2;
    }
    return std::make_shared<ops::ActivationOperation>(act, o);
  }
  throw Error(Code::kUsage,
              fmt::format("{}: no operation {}", site.call.module, name));
}

}  // namespace assay::conform
